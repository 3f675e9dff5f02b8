// Options of a store, of reads and of writes, with LevelDB's defaults.
//
// docs/bindings has the table of what each means to a Cantle store. Where it says "no effect", any value is accepted.

#ifndef CANTLE_LEVELDB_OPTIONS_H
#define CANTLE_LEVELDB_OPTIONS_H

#include <cstddef>
#include <string>

#include "leveldb/comparator.h"
#include "leveldb/env.h"
#include "leveldb/export.h"

// Programs that are compiled with either may ask for it before they use a member whose name begins with cantle_.
#define CANTLE_LEVELDB 1

namespace leveldb {

class Cache;
class FilterPolicy;
class Logger;
class Snapshot;

enum CompressionType { kNoCompression = 0, kSnappyCompression = 1 };

struct LEVELDB_EXPORT Options {
  CANTLE_LEVELDB_INLINE Options() : comparator(BytewiseComparator()), env(Env::Default()) {}

  // What changes behaviour.

  const Comparator* comparator;   // its name is checked when an existing store is opened
  bool create_if_missing = false;
  bool error_if_exists = false;
  bool paranoid_checks = false;
  Env* env;                       // Env::Default(); with another, opening gives NotSupported
  Logger* info_log = nullptr;     // no effect

  // What changes speed. Objects belong to the program and must outlive the store.

  size_t write_buffer_size = 4 << 20;        // bytes
  int max_open_files = 1000;
  Cache* block_cache = nullptr;              // one of NewLRUCache gives its capacity; another class has no effect
  size_t block_size = 4 << 10;               // bytes
  int block_restart_interval = 16;
  size_t max_file_size = 2 << 20;            // bytes
  CompressionType compression = kSnappyCompression;
  bool reuse_logs = false;                   // no effect
  const FilterPolicy* filter_policy = nullptr;

  // Cantle's own.

  size_t cantle_memory_budget = 0;  // bytes for everything that the store keeps in memory; 0: the library's choice
  std::string cantle_layout;        // as in "chunk"; empty: the library's choice
};

struct LEVELDB_EXPORT ReadOptions {
  ReadOptions() = default;

  bool verify_checksums = false;
  bool fill_cache = true;
  const Snapshot* snapshot = nullptr;  // of this store and not yet released; null: the present
};

struct LEVELDB_EXPORT WriteOptions {
  WriteOptions() = default;

  bool sync = false;  // the write survives a loss of power once it returns
};

}  // namespace leveldb

#endif
