// leveldb::Env: the operating system as LevelDB sees it, for programs that use Env::Default() for
// their own files and threads, or that derive from Env. A store can only be opened with
// Env::Default(); opening with another one returns NotSupported.
//
// Several threads may call the methods of an Env, and const methods of its files, at once. Other
// calls on a file need exclusive access.

#ifndef CANTLE_LEVELDB_ENV_H
#define CANTLE_LEVELDB_ENV_H

#include <cstdarg>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "leveldb/export.h"
#include "leveldb/slice.h"
#include "leveldb/status.h"

namespace leveldb {

namespace cantle_detail {
class PosixEnv;
class NativeOptions;
}  // namespace cantle_detail

class FileLock;
class Logger;
class RandomAccessFile;
class SequentialFile;
class WritableFile;

class LEVELDB_EXPORT Env {
 public:
  CANTLE_LEVELDB_INLINE Env() : posix_(false) {}
  Env(const Env&) = delete;
  Env& operator=(const Env&) = delete;
  CANTLE_LEVELDB_INLINE virtual ~Env() {}

  // The Env of the operating system. It belongs to the library and lives as long as the process.
  CANTLE_LEVELDB_INLINE static Env* Default();

  // The New… functions set *result to an object that the caller deletes, or to null with an error.
  // NotFound means that there is no such file.
  virtual Status NewSequentialFile(const std::string& name, SequentialFile** result) = 0;
  virtual Status NewRandomAccessFile(const std::string& name, RandomAccessFile** result) = 0;
  // Truncates an existing file to length 0.
  virtual Status NewWritableFile(const std::string& name, WritableFile** result) = 0;
  // Appends to an existing file.
  CANTLE_LEVELDB_INLINE virtual Status NewAppendableFile(const std::string& name, WritableFile** result);

  virtual bool FileExists(const std::string& name) = 0;
  // The names in a directory, relative to it.
  virtual Status GetChildren(const std::string& directory, std::vector<std::string>* result) = 0;

  // Remove… and Delete… are two names of the same function; Delete… is the older one. Each calls
  // the other by default: derived classes override one.
  CANTLE_LEVELDB_INLINE virtual Status RemoveFile(const std::string& name) { return DeleteFile(name); }
  CANTLE_LEVELDB_INLINE virtual Status DeleteFile(const std::string& name) { return RemoveFile(name); }
  virtual Status CreateDir(const std::string& directory) = 0;
  CANTLE_LEVELDB_INLINE virtual Status RemoveDir(const std::string& directory) { return DeleteDir(directory); }
  CANTLE_LEVELDB_INLINE virtual Status DeleteDir(const std::string& directory) { return RemoveDir(directory); }

  virtual Status GetFileSize(const std::string& name, uint64_t* bytes) = 0;
  virtual Status RenameFile(const std::string& from, const std::string& to) = 0;

  // Fails at once if this or another process has the lock. Creates the file if it is missing. The
  // lock must be passed to UnlockFile.
  virtual Status LockFile(const std::string& name, FileLock** lock) = 0;
  virtual Status UnlockFile(FileLock* lock) = 0;

  // Runs function(arg) in a background thread. Functions of one Env may run one after the other, so
  // they must not wait for one another.
  virtual void Schedule(void (*function)(void* arg), void* arg) = 0;
  // Runs function(arg) in a new thread, which ends when the function returns.
  virtual void StartThread(void (*function)(void* arg), void* arg) = 0;

  virtual Status GetTestDirectory(std::string* path) = 0;
  virtual Status NewLogger(const std::string& name, Logger** result) = 0;

  virtual uint64_t NowMicros() = 0;
  virtual void SleepForMicroseconds(int micros) = 0;

 private:
  friend class cantle_detail::PosixEnv;
  friend class cantle_detail::NativeOptions;
  bool posix_;
};

// A file that is read from its beginning to its end.
class LEVELDB_EXPORT SequentialFile {
 public:
  CANTLE_LEVELDB_INLINE SequentialFile() {}
  SequentialFile(const SequentialFile&) = delete;
  SequentialFile& operator=(const SequentialFile&) = delete;
  CANTLE_LEVELDB_INLINE virtual ~SequentialFile() {}

  // Reads up to n bytes; fewer, or none, only at the end. *result may point into scratch[0, n).
  virtual Status Read(size_t n, Slice* result, char* scratch) = 0;
  virtual Status Skip(uint64_t n) = 0;
};

// A file that is read at any offset, by several threads at once.
class LEVELDB_EXPORT RandomAccessFile {
 public:
  CANTLE_LEVELDB_INLINE RandomAccessFile() {}
  RandomAccessFile(const RandomAccessFile&) = delete;
  RandomAccessFile& operator=(const RandomAccessFile&) = delete;
  CANTLE_LEVELDB_INLINE virtual ~RandomAccessFile() {}

  virtual Status Read(uint64_t offset, size_t n, Slice* result, char* scratch) const = 0;
};

// A file that is appended to. Appends are buffered.
class LEVELDB_EXPORT WritableFile {
 public:
  CANTLE_LEVELDB_INLINE WritableFile() {}
  WritableFile(const WritableFile&) = delete;
  WritableFile& operator=(const WritableFile&) = delete;
  CANTLE_LEVELDB_INLINE virtual ~WritableFile() {}

  virtual Status Append(const Slice& data) = 0;
  virtual Status Close() = 0;
  virtual Status Flush() = 0;  // to the operating system
  virtual Status Sync() = 0;   // to the device
};

class LEVELDB_EXPORT Logger {
 public:
  CANTLE_LEVELDB_INLINE Logger() {}
  Logger(const Logger&) = delete;
  Logger& operator=(const Logger&) = delete;
  CANTLE_LEVELDB_INLINE virtual ~Logger() {}

  virtual void Logv(const char* format, std::va_list arguments) = 0;
};

class LEVELDB_EXPORT FileLock {
 public:
  CANTLE_LEVELDB_INLINE FileLock() {}
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;
  CANTLE_LEVELDB_INLINE virtual ~FileLock() {}
};

// Does nothing if `info_log` is null.
#if defined(__GNUC__)
__attribute__((__format__(__printf__, 2, 3)))
#endif
CANTLE_LEVELDB_INLINE void
Log(Logger* info_log, const char* format, ...) {
  if (info_log == nullptr) return;
  std::va_list arguments;
  va_start(arguments, format);
  info_log->Logv(format, arguments);
  va_end(arguments);
}

// If the file could not be written completely, it is removed.
CANTLE_LEVELDB_INLINE Status WriteStringToFile(Env* env, const Slice& data, const std::string& name) {
  WritableFile* opened = nullptr;
  Status status = env->NewWritableFile(name, &opened);
  if (!status.ok()) return status;
  std::unique_ptr<WritableFile> file(opened);
  status = file->Append(data);
  if (status.ok()) status = file->Close();
  file.reset();
  if (!status.ok()) env->RemoveFile(name);
  return status;
}

CANTLE_LEVELDB_INLINE Status ReadFileToString(Env* env, const std::string& name, std::string* data) {
  data->clear();
  SequentialFile* opened = nullptr;
  Status status = env->NewSequentialFile(name, &opened);
  if (!status.ok()) return status;
  std::unique_ptr<SequentialFile> file(opened);
  std::vector<char> scratch(64 << 10);
  for (;;) {
    Slice part;
    status = file->Read(scratch.size(), &part, scratch.data());
    if (!status.ok() || part.empty()) return status;
    data->append(part.data(), part.size());
  }
}

// Forwards every call to another Env, for classes that change some of them.
class LEVELDB_EXPORT EnvWrapper : public Env {
 public:
  // The target must outlive this object.
  CANTLE_LEVELDB_INLINE explicit EnvWrapper(Env* target) : target_(target) {}
  CANTLE_LEVELDB_INLINE ~EnvWrapper() override {}

  CANTLE_LEVELDB_INLINE Env* target() const { return target_; }

  CANTLE_LEVELDB_INLINE Status NewSequentialFile(const std::string& name, SequentialFile** result) override {
    return target_->NewSequentialFile(name, result);
  }
  CANTLE_LEVELDB_INLINE Status NewRandomAccessFile(const std::string& name, RandomAccessFile** result) override {
    return target_->NewRandomAccessFile(name, result);
  }
  CANTLE_LEVELDB_INLINE Status NewWritableFile(const std::string& name, WritableFile** result) override {
    return target_->NewWritableFile(name, result);
  }
  CANTLE_LEVELDB_INLINE Status NewAppendableFile(const std::string& name, WritableFile** result) override {
    return target_->NewAppendableFile(name, result);
  }
  CANTLE_LEVELDB_INLINE bool FileExists(const std::string& name) override { return target_->FileExists(name); }
  CANTLE_LEVELDB_INLINE Status GetChildren(const std::string& directory, std::vector<std::string>* result) override {
    return target_->GetChildren(directory, result);
  }
  CANTLE_LEVELDB_INLINE Status RemoveFile(const std::string& name) override { return target_->RemoveFile(name); }
  CANTLE_LEVELDB_INLINE Status CreateDir(const std::string& directory) override { return target_->CreateDir(directory); }
  CANTLE_LEVELDB_INLINE Status RemoveDir(const std::string& directory) override { return target_->RemoveDir(directory); }
  CANTLE_LEVELDB_INLINE Status GetFileSize(const std::string& name, uint64_t* bytes) override {
    return target_->GetFileSize(name, bytes);
  }
  CANTLE_LEVELDB_INLINE Status RenameFile(const std::string& from, const std::string& to) override {
    return target_->RenameFile(from, to);
  }
  CANTLE_LEVELDB_INLINE Status LockFile(const std::string& name, FileLock** lock) override { return target_->LockFile(name, lock); }
  CANTLE_LEVELDB_INLINE Status UnlockFile(FileLock* lock) override { return target_->UnlockFile(lock); }
  CANTLE_LEVELDB_INLINE void Schedule(void (*function)(void*), void* arg) override { target_->Schedule(function, arg); }
  CANTLE_LEVELDB_INLINE void StartThread(void (*function)(void*), void* arg) override { target_->StartThread(function, arg); }
  CANTLE_LEVELDB_INLINE Status GetTestDirectory(std::string* path) override { return target_->GetTestDirectory(path); }
  CANTLE_LEVELDB_INLINE Status NewLogger(const std::string& name, Logger** result) override {
    return target_->NewLogger(name, result);
  }
  CANTLE_LEVELDB_INLINE uint64_t NowMicros() override { return target_->NowMicros(); }
  CANTLE_LEVELDB_INLINE void SleepForMicroseconds(int micros) override { target_->SleepForMicroseconds(micros); }

 private:
  Env* target_;
};

CANTLE_LEVELDB_INLINE Status Env::NewAppendableFile(const std::string& name, WritableFile** result) {
  *result = nullptr;
  return Status::NotSupported("this Env has no files to append to", name);
}

}  // namespace leveldb

#include "leveldb/cantle/posix_env.h"

#endif
