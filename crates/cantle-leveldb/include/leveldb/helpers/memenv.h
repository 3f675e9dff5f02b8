// leveldb::NewMemEnv: in LevelDB an Env whose files are in memory. Cantle has no such Env. The
// function exists so that programs compile; opening a store with its result returns an error.

#ifndef CANTLE_LEVELDB_MEMENV_H
#define CANTLE_LEVELDB_MEMENV_H

#include <cstdint>
#include <string>
#include <vector>

#include "leveldb/env.h"
#include "leveldb/export.h"
#include "leveldb/status.h"

namespace leveldb {

namespace cantle_detail {

// An Env without files. Threads and time are those of the base Env.
class LEVELDB_EXPORT NoFiles final : public EnvWrapper {
 public:
  explicit NoFiles(Env* base) : EnvWrapper(base) {}

  Status NewSequentialFile(const std::string& name, SequentialFile** result) override { return None(name, result); }
  Status NewRandomAccessFile(const std::string& name, RandomAccessFile** result) override { return None(name, result); }
  Status NewWritableFile(const std::string& name, WritableFile** result) override { return None(name, result); }
  Status NewAppendableFile(const std::string& name, WritableFile** result) override { return None(name, result); }
  Status NewLogger(const std::string& name, Logger** result) override { return None(name, result); }
  bool FileExists(const std::string&) override { return false; }
  Status GetChildren(const std::string& directory, std::vector<std::string>* result) override {
    result->clear();
    return NotThere(directory);
  }
  Status RemoveFile(const std::string& name) override { return NotThere(name); }
  Status CreateDir(const std::string& directory) override { return NotThere(directory); }
  Status RemoveDir(const std::string& directory) override { return NotThere(directory); }
  Status GetFileSize(const std::string& name, uint64_t* bytes) override {
    *bytes = 0;
    return NotThere(name);
  }
  Status RenameFile(const std::string& from, const std::string&) override { return NotThere(from); }
  Status LockFile(const std::string& name, FileLock** lock) override { return None(name, lock); }
  Status UnlockFile(FileLock*) override { return NotThere("a lock"); }
  Status GetTestDirectory(std::string* path) override {
    path->clear();
    return NotThere("a directory for tests");
  }

 private:
  static Status NotThere(const std::string& name) {
    return Status::NotSupported(name, "Cantle has no files in memory; use leveldb::Env::Default()");
  }

  template <typename Object>
  static Status None(const std::string& name, Object** result) {
    *result = nullptr;
    return NotThere(name);
  }
};

}  // namespace cantle_detail

// The caller deletes it. Opening a store with it returns NotSupported.
CANTLE_LEVELDB_INLINE Env* NewMemEnv(Env* base_env) { return new cantle_detail::NoFiles(base_env); }

}  // namespace leveldb

#endif
