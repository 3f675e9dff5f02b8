// NewLRUCache of leveldb/cache.h.
//
// One lock guards everything. Entries without handles are in a list in the order of their last
// release; entries with handles are in no list. Deleters run without the lock, so they may call the
// cache.

#ifndef CANTLE_LEVELDB_LRU_CACHE_H
#define CANTLE_LEVELDB_LRU_CACHE_H

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <list>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "leveldb/c.h"
#include "leveldb/cache.h"
#include "leveldb/export.h"

namespace leveldb {
namespace cantle_detail {

class LEVELDB_EXPORT LruCache final : public Cache {
 public:
  explicit LruCache(size_t capacity) : capacity_(capacity), charge_(0), last_id_(0) {
    native_ = leveldb_cache_create_lru(capacity);
  }

  ~LruCache() override {
    for (auto& pair : entries_) {
      assert(pair.second->handles == 0);
      Delete(pair.second);
    }
    leveldb_cache_destroy(native_);
  }

  Handle* Insert(const Slice& key, void* value, size_t charge, void (*deleter)(const Slice&, void*)) override {
    Entry* entry = new Entry;
    entry->key = key.ToString();
    entry->value = value;
    entry->charge = charge;
    entry->deleter = deleter;
    entry->handles = 1;
    Garbage garbage;
    std::lock_guard<std::mutex> lock(mutex_);
    Forget(entry->key, &garbage);
    entry->cached = capacity_ > 0;
    if (entry->cached) {
      entries_[entry->key] = entry;
      charge_ += charge;
      while (charge_ > capacity_ && !unused_.empty()) Forget(unused_.front()->key, &garbage);
    }
    return entry;
  }

  Handle* Lookup(const Slice& key) override {
    std::lock_guard<std::mutex> lock(mutex_);
    const auto found = entries_.find(key.ToString());
    if (found == entries_.end()) return nullptr;
    Entry* entry = found->second;
    if (entry->handles++ == 0) unused_.erase(entry->place);
    return entry;
  }

  void Release(Handle* handle) override {
    Entry* entry = static_cast<Entry*>(handle);
    Garbage garbage;
    std::lock_guard<std::mutex> lock(mutex_);
    assert(entry->handles > 0);
    if (--entry->handles > 0) return;
    if (!entry->cached) {
      garbage.entries.push_back(entry);
      return;
    }
    entry->place = unused_.insert(unused_.end(), entry);
    while (charge_ > capacity_ && !unused_.empty()) Forget(unused_.front()->key, &garbage);
  }

  void* Value(Handle* handle) override { return static_cast<Entry*>(handle)->value; }

  void Erase(const Slice& key) override {
    Garbage garbage;
    std::lock_guard<std::mutex> lock(mutex_);
    Forget(key.ToString(), &garbage);
  }

  uint64_t NewId() override {
    std::lock_guard<std::mutex> lock(mutex_);
    return ++last_id_;
  }

  void Prune() override {
    Garbage garbage;
    std::lock_guard<std::mutex> lock(mutex_);
    while (!unused_.empty()) Forget(unused_.front()->key, &garbage);
  }

  size_t TotalCharge() const override {
    std::lock_guard<std::mutex> lock(mutex_);
    return charge_;
  }

 private:
  struct Entry : public Handle {
    std::string key;
    void* value;
    size_t charge;
    void (*deleter)(const Slice&, void*);
    size_t handles;
    bool cached;  // in entries_; also in unused_, at `place`, while it has no handles
    std::list<Entry*>::iterator place;
  };

  // Declared before the lock is taken, so that its entries are deleted after the lock is released.
  struct Garbage {
    std::vector<Entry*> entries;
    ~Garbage() {
      for (Entry* entry : entries) Delete(entry);
    }
  };

  static void Delete(Entry* entry) {
    if (entry->deleter != nullptr) entry->deleter(entry->key, entry->value);
    delete entry;
  }

  // Needs mutex_. The key is not copied: it may be the entry's own, which lives until the garbage
  // is deleted.
  void Forget(const std::string& key, Garbage* garbage) {
    const auto found = entries_.find(key);
    if (found == entries_.end()) return;
    Entry* entry = found->second;
    entries_.erase(found);
    entry->cached = false;
    charge_ -= entry->charge;
    if (entry->handles == 0) {
      unused_.erase(entry->place);
      garbage->entries.push_back(entry);
    }
  }

  const size_t capacity_;

  mutable std::mutex mutex_;
  // Guarded by mutex_.
  std::unordered_map<std::string, Entry*> entries_;
  std::list<Entry*> unused_;
  size_t charge_;
  uint64_t last_id_;
};

}  // namespace cantle_detail

CANTLE_LEVELDB_INLINE Cache* NewLRUCache(size_t capacity) { return new cantle_detail::LruCache(capacity); }

}  // namespace leveldb

#endif
