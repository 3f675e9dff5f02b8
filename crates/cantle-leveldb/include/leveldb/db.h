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

// The version of LevelDB whose interface this is.
static const int kMajorVersion = 1;
static const int kMinorVersion = 23;

class WriteBatch;

// One moment of a store. Several threads may read by it at once.
class LEVELDB_EXPORT Snapshot {
 protected:
  CANTLE_LEVELDB_INLINE Snapshot() {}
  CANTLE_LEVELDB_INLINE virtual ~Snapshot() {}
};

// The keys from `start` on, up to but without `limit`.
struct LEVELDB_EXPORT Range {
  CANTLE_LEVELDB_INLINE Range() {}
  CANTLE_LEVELDB_INLINE Range(const Slice& from, const Slice& to) : start(from), limit(to) {}

  Slice start;
  Slice limit;
};

class LEVELDB_EXPORT DB {
 public:
  // Sets *db to a store that the caller deletes, which closes it; or to null with an error.
  CANTLE_LEVELDB_INLINE static Status Open(const Options& options, const std::string& name, DB** db);

  CANTLE_LEVELDB_INLINE DB() {}
  DB(const DB&) = delete;
  DB& operator=(const DB&) = delete;
  CANTLE_LEVELDB_INLINE virtual ~DB() {}

  // Derived classes may call these two, which write a batch of one.
  CANTLE_LEVELDB_INLINE virtual Status Put(const WriteOptions& options, const Slice& key, const Slice& value) = 0;
  // No error if there is no such key.
  CANTLE_LEVELDB_INLINE virtual Status Delete(const WriteOptions& options, const Slice& key) = 0;

  virtual Status Write(const WriteOptions& options, WriteBatch* updates) = 0;

  // NotFound, and *value as it was, if there is no such key.
  virtual Status Get(const ReadOptions& options, const Slice& key, std::string* value) = 0;

  // Of this moment or the snapshot's; at no pair yet. The caller deletes it before the store.
  virtual Iterator* NewIterator(const ReadOptions& options) = 0;

  virtual const Snapshot* GetSnapshot() = 0;
  virtual void ReleaseSnapshot(const Snapshot* snapshot) = 0;

  // False if there is no such property; docs/bindings has those that are.
  virtual bool GetProperty(const Slice& property, std::string* value) = 0;

  // sizes[i]: about how many bytes ranges[i] takes on disk.
  virtual void GetApproximateSizes(const Range* ranges, int n, uint64_t* sizes) = 0;

  // Null: from the first key, or to the last.
  virtual void CompactRange(const Slice* begin, const Slice* end) = 0;

  // An extension: writes a consistent copy into a directory that is new or empty: a store that opens. Other threads may read
  // and write meanwhile. It survives the loss of power once this returns. NotSupported by derived classes that do not have it.
  CANTLE_LEVELDB_INLINE virtual Status CantleBackup(const std::string& directory) {
    return Status::NotSupported("DB::CantleBackup", directory);
  }
};

// Removes a store with everything in it. No error if there is none.
CANTLE_LEVELDB_INLINE Status DestroyDB(const std::string& name, const Options& options);

// Makes of a damaged store one that opens, with what can be read.
CANTLE_LEVELDB_INLINE Status RepairDB(const std::string& name, const Options& options);

}  // namespace leveldb

#include "leveldb/cantle/store.h"

#endif
