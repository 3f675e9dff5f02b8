// leveldb::Cache: values by key. When the capacity is reached, the least recently used values are
// evicted.
//
// A cache may be called from several threads at once, and may be given to several stores. It
// belongs to the program and must outlive the stores that are opened with it. A store only uses its
// capacity. A cache of the program's own class is accepted, but a store keeps nothing in it.

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

  // Calls the deleter of every value. There must be no unreleased handles.
  CANTLE_LEVELDB_INLINE virtual ~Cache() {}

  // A reference to an entry, which stays valid until the handle is released.
  struct Handle {};

  // Stores `value`, which uses `charge` of the capacity, and returns a handle that must be
  // released. `deleter` is called when the value was removed and all its handles are released.
  virtual Handle* Insert(const Slice& key, void* value, size_t charge, void (*deleter)(const Slice& key, void* value)) = 0;

  // Returns null if the key is absent; else a handle that must be released.
  virtual Handle* Lookup(const Slice& key) = 0;

  virtual void Release(Handle* handle) = 0;

  virtual void* Value(Handle* handle) = 0;

  // The value is deleted when its last handle is released.
  virtual void Erase(const Slice& key) = 0;

  // A number that this cache has not returned before. Users that share the cache put it before
  // their keys.
  virtual uint64_t NewId() = 0;

  // Removes all entries without handles.
  virtual void Prune() {}

  virtual size_t TotalCharge() const = 0;

 private:
  friend class cantle_detail::LruCache;
  friend class cantle_detail::NativeOptions;
  leveldb_cache_t* native_;  // null for a cache class of the program
};

// The caller deletes it, after the stores.
CANTLE_LEVELDB_INLINE Cache* NewLRUCache(size_t capacity);

}  // namespace leveldb

#include "leveldb/cantle/lru_cache.h"

#endif
