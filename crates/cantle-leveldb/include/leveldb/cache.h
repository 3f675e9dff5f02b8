// leveldb::Cache: values by key, the least recently used of which go when the capacity is reached.
//
// A cache may be called from several threads at once, and may be given to several stores. It belongs to the program and must outlive
// the stores that are opened with it. What a store takes of it is its capacity; a cache of the program's own class is accepted, but a
// store keeps nothing in it.

#ifndef CANTLE_LEVELDB_CACHE_H
#define CANTLE_LEVELDB_CACHE_H

#include <cstddef>
#include <cstdint>

#include "leveldb/export.h"
#include "leveldb/slice.h"

struct leveldb_cache_t;

namespace leveldb {

namespace cantle_detail {
class LruCache;
class NativeOptions;
}  // namespace cantle_detail

class LEVELDB_EXPORT Cache {
 public:
  CANTLE_LEVELDB_INLINE Cache() : native_(nullptr) {}
  Cache(const Cache&) = delete;
  Cache& operator=(const Cache&) = delete;

  // Calls the deleter of every value. No handle may be in use.
  CANTLE_LEVELDB_INLINE virtual ~Cache() {}

  // Stands for an entry, which stays until the handle is released.
  struct Handle {};

  // Takes `value`, which counts for `charge` against the capacity, and returns a handle to release. `deleter` is called once nobody
  // uses the value any more.
  virtual Handle* Insert(const Slice& key, void* value, size_t charge, void (*deleter)(const Slice& key, void* value)) = 0;

  // Null if there is no such key; else a handle to release.
  virtual Handle* Lookup(const Slice& key) = 0;

  virtual void Release(Handle* handle) = 0;

  virtual void* Value(Handle* handle) = 0;

  // The value goes when its last handle is released.
  virtual void Erase(const Slice& key) = 0;

  // A number that this cache has not returned before, for users that share it to put before their keys.
  virtual uint64_t NewId() = 0;

  // Drops all that is not in use.
  virtual void Prune() {}

  virtual size_t TotalCharge() const = 0;

 private:
  friend class cantle_detail::LruCache;
  friend class cantle_detail::NativeOptions;
  leveldb_cache_t* native_;  // null for a cache of the program's own class
};

// The caller deletes it, after the stores.
CANTLE_LEVELDB_INLINE Cache* NewLRUCache(size_t capacity);

}  // namespace leveldb

#include "leveldb/cantle/lru_cache.h"

#endif
