// Env::Default() of leveldb/env.h, over POSIX.
//
// unistd.h and fcntl.h are not included: they would declare global functions `read`, `write`,
// `open`, `close`, `link`, `access` and about a hundred more in every program that uses LevelDB,
// and these may clash with the program's own. The functions needed here are declared under other
// names.

#ifndef CANTLE_LEVELDB_POSIX_ENV_H
#define CANTLE_LEVELDB_POSIX_ENV_H

#include <dirent.h>
#include <sys/stat.h>

#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "leveldb/env.h"
#include "leveldb/export.h"
#include "leveldb/slice.h"
#include "leveldb/status.h"

extern "C" {
int cantle_leveldb_fdatasync(int descriptor) __asm__("fdatasync");
int cantle_leveldb_flock(int descriptor, int operation) __asm__("flock");
int cantle_leveldb_rmdir(const char* name) __asm__("rmdir");
int cantle_leveldb_unlink(const char* name) __asm__("unlink");
unsigned cantle_leveldb_geteuid() __asm__("geteuid");
}

namespace leveldb {
namespace cantle_detail {

// The status for the error of the last system call, with `name`.
LEVELDB_EXPORT inline Status ErrnoStatus(const std::string& name, int error = errno) {
  const std::string message = std::generic_category().message(error);
  return error == ENOENT ? Status::NotFound(name, message) : Status::IOError(name, message);
}

// An open file, which is closed when this object is destroyed.
class LEVELDB_EXPORT Stream {
 public:
  // Modes are those of fopen. Child processes do not inherit the descriptor.
  Stream(const std::string& name, const char* mode) : name_(name), file_(std::fopen(name.c_str(), mode)) {}
  Stream(Stream&& other) noexcept : name_(std::move(other.name_)), file_(other.file_) { other.file_ = nullptr; }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  ~Stream() {
    if (file_ != nullptr) std::fclose(file_);
  }

  bool open() const { return file_ != nullptr; }
  std::FILE* file() const { return file_; }
  int descriptor() const { return ::fileno(file_); }
  Status error() const { return ErrnoStatus(name_); }
  Status closed() const { return Status::IOError(name_, "the file is closed"); }

  Status Close() {
    if (file_ == nullptr) return Status::OK();
    const int failed = std::fclose(file_);
    file_ = nullptr;
    return failed != 0 ? error() : Status::OK();
  }

  Status Read(size_t n, Slice* result, char* scratch) const {
    std::clearerr(file_);  // the file may have grown since its end was reached
    const size_t length = std::fread(scratch, 1, n, file_);
    *result = Slice(scratch, length);
    return length < n && std::ferror(file_) != 0 ? error() : Status::OK();
  }

  Status Seek(uint64_t offset, int whence) const {
    return ::fseeko(file_, static_cast<off_t>(offset), whence) != 0 ? error() : Status::OK();
  }

 private:
  std::string name_;
  std::FILE* file_;
};

class LEVELDB_EXPORT PosixSequentialFile final : public SequentialFile {
 public:
  explicit PosixSequentialFile(Stream stream) : stream_(std::move(stream)) {}
  Status Read(size_t n, Slice* result, char* scratch) override { return stream_.Read(n, result, scratch); }
  Status Skip(uint64_t n) override { return stream_.Seek(n, SEEK_CUR); }

 private:
  Stream stream_;
};

class LEVELDB_EXPORT PosixRandomAccessFile final : public RandomAccessFile {
 public:
  explicit PosixRandomAccessFile(Stream stream) : stream_(std::move(stream)) {}
  Status Read(uint64_t offset, size_t n, Slice* result, char* scratch) const override {
    *result = Slice();
    std::lock_guard<std::mutex> guard(mutex_);  // the stream has one position
    const Status status = stream_.Seek(offset, SEEK_SET);
    return status.ok() ? stream_.Read(n, result, scratch) : status;
  }

 private:
  mutable std::mutex mutex_;
  Stream stream_;
};

class LEVELDB_EXPORT PosixWritableFile final : public WritableFile {
 public:
  explicit PosixWritableFile(Stream stream) : buffer_(new char[kBufferBytes]), stream_(std::move(stream)) {
    std::setvbuf(stream_.file(), buffer_.get(), _IOFBF, kBufferBytes);
  }

  Status Append(const Slice& data) override {
    if (!stream_.open()) return stream_.closed();
    return std::fwrite(data.data(), 1, data.size(), stream_.file()) < data.size() ? stream_.error() : Status::OK();
  }
  Status Close() override { return stream_.Close(); }
  Status Flush() override {
    if (!stream_.open()) return stream_.closed();
    return std::fflush(stream_.file()) != 0 ? stream_.error() : Status::OK();
  }
  Status Sync() override {
    const Status status = Flush();
    if (!status.ok()) return status;
    return cantle_leveldb_fdatasync(stream_.descriptor()) != 0 ? stream_.error() : Status::OK();
  }

 private:
  static constexpr size_t kBufferBytes = 64 << 10;

  std::unique_ptr<char[]> buffer_;  // the stream's buffer, until the stream is closed
  Stream stream_;
};

// flock(2): one open file excludes another, in this process and in others. Released when the file
// is closed.
class LEVELDB_EXPORT PosixFileLock final : public FileLock {
 public:
  explicit PosixFileLock(Stream stream) : stream_(std::move(stream)) {}
  Status Lock() { return Call(2 | 4); }  // LOCK_EX | LOCK_NB
  Status Unlock() { return Call(8); }    // LOCK_UN

 private:
  Status Call(int operation) {
    return cantle_leveldb_flock(stream_.descriptor(), operation) != 0 ? stream_.error() : Status::OK();
  }

  Stream stream_;
};

// Writes lines with the time (UTC) and the thread before each message.
class LEVELDB_EXPORT PosixLogger final : public Logger {
 public:
  explicit PosixLogger(Stream stream) : stream_(std::move(stream)) {}

#if defined(__GNUC__)
  __attribute__((__format__(__printf__, 2, 0)))
#endif
  void Logv(const char* format, std::va_list arguments) override {
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    const long long micros = std::chrono::duration_cast<std::chrono::microseconds>(now).count();
    const std::time_t seconds = static_cast<std::time_t>(micros / 1000000);
    std::tm parts;
    char time[32] = "";
    if (::gmtime_r(&seconds, &parts) != nullptr) std::strftime(time, sizeof time, "%Y/%m/%d-%H:%M:%S", &parts);
    const unsigned long thread = static_cast<unsigned long>(std::hash<std::thread::id>()(std::this_thread::get_id()));

    std::va_list again;
    va_copy(again, arguments);
    const int length = std::vsnprintf(nullptr, 0, format, again);
    va_end(again);
    if (length < 0) return;
    std::vector<char> message(static_cast<size_t>(length) + 1);
    std::vsnprintf(message.data(), message.size(), format, arguments);
    const bool ended = length > 0 && message[static_cast<size_t>(length) - 1] == '\n';

    std::lock_guard<std::mutex> lock(mutex_);
    std::fprintf(stream_.file(), "%s.%06d %lx %s%s", time, static_cast<int>(micros % 1000000), thread, message.data(), ended ? "" : "\n");
    std::fflush(stream_.file());
  }

 private:
  std::mutex mutex_;
  Stream stream_;
};

class LEVELDB_EXPORT PosixEnv final : public Env {
 public:
  PosixEnv() { posix_ = true; }

  Status NewSequentialFile(const std::string& name, SequentialFile** result) override {
    return Open<PosixSequentialFile>(name, "re", result);
  }
  Status NewRandomAccessFile(const std::string& name, RandomAccessFile** result) override {
    return Open<PosixRandomAccessFile>(name, "re", result);
  }
  Status NewWritableFile(const std::string& name, WritableFile** result) override {
    return Open<PosixWritableFile>(name, "we", result);
  }
  Status NewAppendableFile(const std::string& name, WritableFile** result) override {
    return Open<PosixWritableFile>(name, "ae", result);
  }

  bool FileExists(const std::string& name) override {
    struct ::stat what;
    return ::stat(name.c_str(), &what) == 0;
  }

  // Includes "." and "..", as LevelDB's does.
  Status GetChildren(const std::string& directory, std::vector<std::string>* result) override {
    result->clear();
    ::DIR* const stream = ::opendir(directory.c_str());
    if (stream == nullptr) return ErrnoStatus(directory);
    errno = 0;
    while (const ::dirent* const entry = ::readdir(stream)) result->emplace_back(entry->d_name);
    const int error = errno;
    ::closedir(stream);
    return error == 0 ? Status::OK() : ErrnoStatus(directory, error);
  }

  Status RemoveFile(const std::string& name) override { return Check(cantle_leveldb_unlink(name.c_str()), name); }
  Status CreateDir(const std::string& directory) override { return Check(::mkdir(directory.c_str(), 0755), directory); }
  Status RemoveDir(const std::string& directory) override { return Check(cantle_leveldb_rmdir(directory.c_str()), directory); }

  Status GetFileSize(const std::string& name, uint64_t* bytes) override {
    struct ::stat what;
    *bytes = 0;
    if (::stat(name.c_str(), &what) < 0) return ErrnoStatus(name);
    *bytes = static_cast<uint64_t>(what.st_size);
    return Status::OK();
  }

  Status RenameFile(const std::string& from, const std::string& to) override {
    return Check(std::rename(from.c_str(), to.c_str()), from);
  }

  Status LockFile(const std::string& name, FileLock** lock) override {
    *lock = nullptr;
    Stream stream(name, "ae");
    if (!stream.open()) return stream.error();
    std::unique_ptr<PosixFileLock> held(new PosixFileLock(std::move(stream)));
    const Status status = held->Lock();
    if (status.ok()) *lock = held.release();
    return status;
  }

  Status UnlockFile(FileLock* lock) override {
    return std::unique_ptr<PosixFileLock>(static_cast<PosixFileLock*>(lock))->Unlock();
  }

  void Schedule(void (*function)(void*), void* arg) override {
    std::lock_guard<std::mutex> guard(scheduled_mutex_);
    scheduled_.emplace_back(function, arg);
    scheduled_signal_.notify_one();
    if (!scheduled_started_) {
      scheduled_started_ = true;
      std::thread([this] { RunScheduled(); }).detach();
    }
  }

  void StartThread(void (*function)(void*), void* arg) override {
    std::thread([function, arg] { function(arg); }).detach();
  }

  Status GetTestDirectory(std::string* path) override {
    const char* const chosen = std::getenv("TEST_TMPDIR");
    *path = chosen != nullptr && *chosen != '\0' ? chosen : "/tmp/leveldbtest-" + std::to_string(cantle_leveldb_geteuid());
    CreateDir(*path);  // the directory may exist
    return Status::OK();
  }

  Status NewLogger(const std::string& name, Logger** result) override { return Open<PosixLogger>(name, "ae", result); }

  uint64_t NowMicros() override {
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::microseconds>(now).count());
  }

  void SleepForMicroseconds(int micros) override { std::this_thread::sleep_for(std::chrono::microseconds(micros)); }

 private:
  template <typename File, typename Base>
  static Status Open(const std::string& name, const char* mode, Base** result) {
    *result = nullptr;
    Stream stream(name, mode);
    if (!stream.open()) return stream.error();
    *result = new File(std::move(stream));
    return Status::OK();
  }

  static Status Check(int returned, const std::string& name) { return returned < 0 ? ErrnoStatus(name) : Status::OK(); }

  void RunScheduled() {
    for (;;) {
      std::unique_lock<std::mutex> guard(scheduled_mutex_);
      scheduled_signal_.wait(guard, [this] { return !scheduled_.empty(); });
      const std::pair<void (*)(void*), void*> next = scheduled_.front();
      scheduled_.pop_front();
      guard.unlock();
      next.first(next.second);
    }
  }

  std::mutex scheduled_mutex_;
  std::condition_variable scheduled_signal_;
  // Guarded by scheduled_mutex_.
  std::deque<std::pair<void (*)(void*), void*>> scheduled_;
  bool scheduled_started_ = false;
};

}  // namespace cantle_detail

CANTLE_LEVELDB_INLINE Env* Env::Default() {
  // Never destroyed: its background thread runs until the process ends.
  static Env* const env = new cantle_detail::PosixEnv;
  return env;
}

}  // namespace leveldb

#endif
