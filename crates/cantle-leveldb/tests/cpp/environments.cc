// Env: the functions of Env::Default(), classes derived from Env, and stores that are opened with
// one.

#include <leveldb/db.h>
#include <leveldb/env.h>
#if defined(CANTLE_LEVELDB)  // LevelDB's is in a separate library
#include <leveldb/helpers/memenv.h>
#endif

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdarg>
#include <mutex>
#include <vector>

#include "check.h"

using leveldb::Env;
using leveldb::Slice;
using leveldb::Status;

static void files(const std::string& directory) {
  Env* const env = Env::Default();
  CHECK(env == Env::Default());
  const std::string folder = directory + "/folder", name = folder + "/file";
  CHECK(!env->FileExists(folder));
  CHECK_OK(env->CreateDir(folder));
  CHECK(env->CreateDir(folder).IsIOError());
  CHECK(env->FileExists(folder) && !env->FileExists(name));

  // Buffered, and larger than any buffer.
  std::string written;
  leveldb::WritableFile* writable = nullptr;
  CHECK_OK(env->NewWritableFile(name, &writable));
  for (int i = 0; i < 1000; i++) {
    const std::string piece(static_cast<size_t>(i), static_cast<char>('a' + i % 26));
    CHECK_OK(writable->Append(piece));
    written += piece;
  }
  CHECK_OK(writable->Flush());
  uint64_t bytes = 1;
  CHECK_OK(env->GetFileSize(name, &bytes));
  CHECK(bytes == written.size());
  const std::string large(300000, 'z');
  CHECK_OK(writable->Append("-"));
  CHECK_OK(writable->Append(large));
  CHECK_OK(writable->Sync());
  CHECK_OK(writable->Close());
  delete writable;
  written += "-" + large;
  CHECK_OK(env->NewAppendableFile(name, &writable));
  CHECK_OK(writable->Append("end"));
  delete writable;  // without Close, and yet no data is lost
  written += "end";

  std::string read;
  CHECK_OK(leveldb::ReadFileToString(env, name, &read));
  CHECK(read == written);

  leveldb::SequentialFile* sequential = nullptr;
  CHECK_OK(env->NewSequentialFile(name, &sequential));
  char scratch[10];
  Slice part;
  CHECK_OK(sequential->Read(3, &part, scratch));
  CHECK(part == "bcc");
  CHECK_OK(sequential->Skip(written.size() - 8));
  CHECK_OK(sequential->Read(10, &part, scratch));
  CHECK(part == "zzend");
  CHECK_OK(sequential->Read(10, &part, scratch));
  CHECK(part.empty());
  delete sequential;

  // Beyond the end, after the file has grown.
  CHECK_OK(env->NewSequentialFile(name, &sequential));
  CHECK_OK(sequential->Skip(written.size()));
  CHECK_OK(sequential->Read(10, &part, scratch));
  CHECK(part.empty());
  CHECK_OK(env->NewAppendableFile(name, &writable));
  CHECK_OK(writable->Append("more"));
  CHECK_OK(writable->Close());
  delete writable;
  CHECK_OK(sequential->Read(10, &part, scratch));
  CHECK(part == "more");
  delete sequential;

  leveldb::RandomAccessFile* random = nullptr;
  CHECK_OK(env->NewRandomAccessFile(name, &random));
  CHECK_OK(random->Read(1, 5, &part, scratch));
  CHECK(part == "ccddd");
  delete random;

  CHECK_OK(leveldb::WriteStringToFile(env, "short", folder + "/other"));
  CHECK_OK(leveldb::ReadFileToString(env, folder + "/other", &read));
  CHECK_TEXT(read, "short");
  CHECK_OK(env->RenameFile(folder + "/other", folder + "/renamed"));
  std::vector<std::string> children;
  CHECK_OK(env->GetChildren(folder, &children));
  std::sort(children.begin(), children.end());
  children.erase(std::remove_if(children.begin(), children.end(), [](const std::string& one) { return one[0] == '.'; }), children.end());
  CHECK(children.size() == 2 && children[0] == "file" && children[1] == "renamed");

  CHECK(env->RemoveDir(folder).IsIOError());  // it is not empty
  CHECK_OK(env->RemoveFile(name));
  CHECK_OK(env->DeleteFile(folder + "/renamed"));
  CHECK(env->RemoveFile(name).IsNotFound());
  CHECK_OK(env->DeleteDir(folder));

  // Files that do not exist.
  CHECK(env->NewSequentialFile(name, &sequential).IsNotFound() && sequential == nullptr);
  CHECK(env->NewRandomAccessFile(name, &random).IsNotFound() && random == nullptr);
  CHECK(env->NewWritableFile(name, &writable).IsNotFound() && writable == nullptr);
  CHECK(env->NewAppendableFile(name, &writable).IsNotFound() && writable == nullptr);
  CHECK(env->GetFileSize(name, &bytes).IsNotFound() && bytes == 0);
  CHECK(env->GetChildren(folder, &children).IsNotFound());
  CHECK(leveldb::ReadFileToString(env, name, &read).IsNotFound());
  CHECK(!leveldb::WriteStringToFile(env, "x", name).ok());

  std::string tests;
  CHECK_OK(env->GetTestDirectory(&tests));
  CHECK(env->FileExists(tests));
}

static void locks(const std::string& directory) {
  Env* const env = Env::Default();
  leveldb::FileLock *lock = nullptr, *again = nullptr;
  CHECK_OK(env->LockFile(directory + "/LOCK", &lock));
  CHECK(env->LockFile(directory + "/LOCK", &again).IsIOError() && again == nullptr);
  CHECK_OK(env->UnlockFile(lock));
  CHECK_OK(env->LockFile(directory + "/LOCK", &lock));
  CHECK_OK(env->UnlockFile(lock));
  CHECK(!env->LockFile(directory + "/none/LOCK", &lock).ok() && lock == nullptr);
  CHECK(!env->LockFile(directory + "/none/LOCK", &lock).ok() && lock == nullptr);
}

struct Progress {
  std::mutex mutex;
  std::condition_variable signal;
  std::vector<int> order;

  void note(int number) {
    std::lock_guard<std::mutex> guard(mutex);
    order.push_back(number);
    signal.notify_all();
  }
  void wait(size_t count) {
    std::unique_lock<std::mutex> guard(mutex);
    signal.wait(guard, [&] { return order.size() >= count; });
  }
};

struct Job {
  Progress* progress;
  int number;
};

static void run(void* arg) {
  Job* const job = static_cast<Job*>(arg);
  job->progress->note(job->number);
}

static void threads_and_time() {
  Env* const env = Env::Default();
  // Threads cannot be joined, and may still hold the lock for a moment. Hence the lock is never
  // destroyed.
  static Progress progress;
  static Job jobs[6];
  for (int i = 0; i < 5; i++) {
    jobs[i] = Job{&progress, i};
    env->Schedule(&run, &jobs[i]);
  }
  progress.wait(5);
  CHECK((progress.order == std::vector<int>{0, 1, 2, 3, 4}));
  jobs[5] = Job{&progress, 5};
  env->StartThread(&run, &jobs[5]);
  progress.wait(6);

  const uint64_t before = env->NowMicros();
  env->SleepForMicroseconds(2000);
  CHECK(env->NowMicros() > before);
}

#if !defined(CANTLE_LEVELDB)  // LevelDB's shared library does not export its own
namespace leveldb {
void Log(Logger* logger, const char* format, ...) {
  std::va_list arguments;
  va_start(arguments, format);
  if (logger != nullptr) logger->Logv(format, arguments);
  va_end(arguments);
}
}  // namespace leveldb
#endif

class Lines : public leveldb::Logger {
 public:
  void Logv(const char* format, std::va_list arguments) override {
    char line[200];
    std::vsnprintf(line, sizeof line, format, arguments);
    text += line;
  }
  std::string text;
};

static void logs(const std::string& directory) {
  Lines lines;
  leveldb::Log(&lines, "%s %d", "number", 7);
  CHECK_TEXT(lines.text, "number 7");
  leveldb::Log(nullptr, "%d", 1);

  leveldb::Logger* logger = nullptr;
  CHECK_OK(Env::Default()->NewLogger(directory + "/log", &logger));
  leveldb::Log(logger, "first %s", std::string(5000, 'x').c_str());
  leveldb::Log(logger, "second\n");
  delete logger;
  std::string text;
  CHECK_OK(leveldb::ReadFileToString(Env::Default(), directory + "/log", &text));
  CHECK(text.find("first " + std::string(5000, 'x') + "\n") != std::string::npos);
  CHECK(text.find(" second\n") != std::string::npos && text[text.size() - 2] == 'd');
  // The next logger appends.
  CHECK_OK(Env::Default()->NewLogger(directory + "/log", &logger));
  leveldb::Log(logger, "third");
  delete logger;
  CHECK_OK(leveldb::ReadFileToString(Env::Default(), directory + "/log", &text));
  CHECK(text.find(" second\n") != std::string::npos && text.find(" third\n") != std::string::npos);
  CHECK(!Env::Default()->NewLogger(directory + "/none/log", &logger).ok() && logger == nullptr);
}

// Changes one call, as programs do in their tests.
class Frozen : public leveldb::EnvWrapper {
 public:
  Frozen() : EnvWrapper(Env::Default()) {}
  uint64_t NowMicros() override { return 42; }
};

// Overrides every pure function, and the older name of one that is not pure.
class Nothing : public Env {
 public:
  Status NewSequentialFile(const std::string& name, leveldb::SequentialFile**) override { return Status::NotFound(name); }
  Status NewRandomAccessFile(const std::string& name, leveldb::RandomAccessFile**) override { return Status::NotFound(name); }
  Status NewWritableFile(const std::string& name, leveldb::WritableFile**) override { return Status::IOError(name); }
  bool FileExists(const std::string&) override { return false; }
  Status GetChildren(const std::string& name, std::vector<std::string>*) override { return Status::NotFound(name); }
  Status DeleteFile(const std::string& name) override { return Status::NotFound(name, "deleted"); }
  Status CreateDir(const std::string& name) override { return Status::IOError(name); }
  Status DeleteDir(const std::string& name) override { return Status::NotFound(name, "deleted"); }
  Status GetFileSize(const std::string& name, uint64_t*) override { return Status::NotFound(name); }
  Status RenameFile(const std::string& from, const std::string&) override { return Status::NotFound(from); }
  Status LockFile(const std::string& name, leveldb::FileLock**) override { return Status::IOError(name); }
  Status UnlockFile(leveldb::FileLock*) override { return Status::OK(); }
  void Schedule(void (*function)(void*), void* arg) override { function(arg); }
  void StartThread(void (*function)(void*), void* arg) override { function(arg); }
  Status GetTestDirectory(std::string*) override { return Status::NotSupported("test directory"); }
  Status NewLogger(const std::string& name, leveldb::Logger**) override { return Status::IOError(name); }
  uint64_t NowMicros() override { return 0; }
  void SleepForMicroseconds(int) override {}
};

static void derived(const std::string& directory) {
  Frozen frozen;
  CHECK(frozen.NowMicros() == 42 && frozen.target() == Env::Default());
  Env& env = frozen;
  CHECK_OK(leveldb::WriteStringToFile(&env, "x", directory + "/x"));
  CHECK(env.FileExists(directory + "/x"));
  CHECK_OK(env.RemoveFile(directory + "/x"));

  Nothing nothing;
  CHECK_TEXT(nothing.RemoveFile("a").ToString(), "NotFound: a: deleted");
  CHECK_TEXT(nothing.RemoveDir("a").ToString(), "NotFound: a: deleted");
  leveldb::WritableFile* file = nullptr;
  CHECK(nothing.NewAppendableFile("a", &file).IsNotSupportedError());

#if defined(CANTLE_LEVELDB)  // LevelDB's own would continue with them
  const std::unique_ptr<Env> memory(leveldb::NewMemEnv(Env::Default()));
  CHECK(memory->NewWritableFile(directory + "/memory", &file).IsNotSupportedError() && file == nullptr);
  CHECK(memory->NewAppendableFile(directory + "/memory", &file).IsNotSupportedError() && file == nullptr);
  CHECK(memory->CreateDir(directory + "/memory").IsNotSupportedError() && !memory->FileExists(directory));
  CHECK(!Env::Default()->FileExists(directory + "/memory") && memory->NowMicros() > 0);
  for (Env* other : {static_cast<Env*>(&frozen), static_cast<Env*>(&nothing), memory.get()}) {
    leveldb::Options options;
    options.create_if_missing = true;
    options.env = other;
    leveldb::DB* db = nullptr;
    const Status status = leveldb::DB::Open(options, directory + "/store", &db);
    CHECK(status.IsNotSupportedError() && db == nullptr);
    CHECK(status.ToString().find("Env::Default()") != std::string::npos);
    CHECK(leveldb::DestroyDB(directory + "/store", options).IsNotSupportedError());
    CHECK(leveldb::RepairDB(directory + "/store", options).IsNotSupportedError());
    CHECK(!Env::Default()->FileExists(directory + "/store"));
  }
#endif
}

int main(int count, char** arguments) {
  const std::string directory = directory_of(count, arguments);
  files(directory);
  locks(directory);
  threads_and_time();
  logs(directory);
  derived(directory);
}
