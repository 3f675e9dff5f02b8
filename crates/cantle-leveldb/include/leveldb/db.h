// leveldb::DB: an ordered map from keys to values that is kept in a directory.
//
// A store may be called from several threads at once. Delete iterators and release snapshots before the store.

#ifndef CANTLE_LEVELDB_DB_H
#define CANTLE_LEVELDB_DB_H

#include <cstdint>
#include <cstdio>
#include <string>

#include "leveldb/export.h"
#include "leveldb/iterator.h"
#include "leveldb/options.h"
#include "leveldb/slice.h"
#include "leveldb/status.h"

namespace leveldb {

// The version of LevelDB whose interface this header has.
static const int kMajorVersion = 1;
static const int kMinorVersion = 23;

class WriteBatch;

// The state of a store at one moment. Several threads may read a snapshot at once.
class LEVELDB_EXPORT Snapshot {
 protected:
  CANTLE_LEVELDB_INLINE Snapshot() {}
  CANTLE_LEVELDB_INLINE virtual ~Snapshot() {}
};

// The keys from `start` (included) to `limit` (excluded).
struct LEVELDB_EXPORT Range {
  CANTLE_LEVELDB_INLINE Range() {}
  CANTLE_LEVELDB_INLINE Range(const Slice& from, const Slice& to) : start(from), limit(to) {}

  Slice start;
  Slice limit;
};

class LEVELDB_EXPORT DB {
 public:
  // Sets *db to a store, which the caller deletes to close it. Sets *db to null if there is an
  // error.
  CANTLE_LEVELDB_INLINE static Status Open(const Options& options, const std::string& name, DB** db);

  CANTLE_LEVELDB_INLINE DB() {}
  DB(const DB&) = delete;
  DB& operator=(const DB&) = delete;
  CANTLE_LEVELDB_INLINE virtual ~DB() {}

  // Derived classes may call these two. Each writes a batch with one operation.
  CANTLE_LEVELDB_INLINE virtual Status Put(const WriteOptions& options, const Slice& key, const Slice& value) = 0;
  // No error if the key is absent.
  CANTLE_LEVELDB_INLINE virtual Status Delete(const WriteOptions& options, const Slice& key) = 0;

  virtual Status Write(const WriteOptions& options, WriteBatch* updates) = 0;

  // Returns NotFound, and does not change *value, if the key is absent.
  virtual Status Get(const ReadOptions& options, const Slice& key, std::string* value) = 0;

  // An iterator over the current state or over the options' snapshot, not positioned yet. The
  // caller deletes it before the store.
  virtual Iterator* NewIterator(const ReadOptions& options) = 0;

  virtual const Snapshot* GetSnapshot() = 0;
  virtual void ReleaseSnapshot(const Snapshot* snapshot) = 0;

  // False if there is no such property; docs/bindings lists the properties.
  virtual bool GetProperty(const Slice& property, std::string* value) = 0;

  // sizes[i] is set to the approximate number of bytes on disk of ranges[i].
  virtual void GetApproximateSizes(const Range* ranges, int n, uint64_t* sizes) = 0;

  // A null key means no bound: from the first key, or to the last.
  virtual void CompactRange(const Slice* begin, const Slice* end) = 0;

  // An extension: writes a consistent copy, which is a store that can be opened, into a new or
  // empty directory. Other threads may read and write during the call. The copy is durable once
  // this returns. Returns NotSupported for derived classes that do not override it.
  CANTLE_LEVELDB_INLINE virtual Status CantleBackup(const std::string& directory) {
    return Status::NotSupported("DB::CantleBackup", directory);
  }
};

// Removes a store with all its data. No error if there is none.
CANTLE_LEVELDB_INLINE Status DestroyDB(const std::string& name, const Options& options);

// Repairs a damaged store: keeps the data that can be read, and makes a store that can be opened.
CANTLE_LEVELDB_INLINE Status RepairDB(const std::string& name, const Options& options);

}  // namespace leveldb

#include "leveldb/cantle/store.h"

#endif
