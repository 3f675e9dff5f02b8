// Options of a store, of reads and of writes, with LevelDB's defaults.
//
// docs/bindings has a table with the meaning of each option for a Cantle store. "No effect" means
// that any value is accepted.

#ifndef CANTLE_LEVELDB_OPTIONS_H
#define CANTLE_LEVELDB_OPTIONS_H

#include <cstddef>
#include <string>

#include "leveldb/comparator.h"
#include "leveldb/env.h"
#include "leveldb/export.h"

// Defined so that programs that are compiled against either library may test for it before they use
// a member whose name begins with cantle_.
#define CANTLE_LEVELDB 1

namespace leveldb {

class Cache;
class FilterPolicy;
class Logger;
class Snapshot;

enum CompressionType { kNoCompression = 0, kSnappyCompression = 1 };

struct LEVELDB_EXPORT Options {
  CANTLE_LEVELDB_INLINE Options() : comparator(BytewiseComparator()), env(Env::Default()) {}

  // Members that change behaviour.

  const Comparator* comparator;   // its name is checked when an existing store is opened
  bool create_if_missing = false;
  bool error_if_exists = false;
  bool paranoid_checks = false;
  Env* env;                       // Env::Default(); opening with another gives NotSupported
  Logger* info_log = nullptr;     // no effect

  // Members that change speed. Objects belong to the program and must outlive the store.

  size_t write_buffer_size = 4 << 20;        // bytes
  int max_open_files = 1000;
  Cache* block_cache = nullptr;              // a cache of NewLRUCache sets the capacity; others have no effect
  size_t block_size = 4 << 10;               // bytes
  int block_restart_interval = 16;
  size_t max_file_size = 2 << 20;            // bytes
  CompressionType compression = kSnappyCompression;
  bool reuse_logs = false;                   // no effect
  const FilterPolicy* filter_policy = nullptr;

  // Members of Cantle's own.

  size_t cantle_memory_budget = 0;  // bytes of memory of the whole store; 0: the library's choice
  std::string cantle_layout;        // "chunk" or "flsm"; empty: that of the database, "chunk" for a new one
};

struct LEVELDB_EXPORT ReadOptions {
  ReadOptions() = default;

  bool verify_checksums = false;
  bool fill_cache = true;
  const Snapshot* snapshot = nullptr;  // of this store, not yet released; null: the current state
};

struct LEVELDB_EXPORT WriteOptions {
  WriteOptions() = default;

  bool sync = false;  // the write is durable (survives a loss of power) once it returns
};

}  // namespace leveldb

#endif
