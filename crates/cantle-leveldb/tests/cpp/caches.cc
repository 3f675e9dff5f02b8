// Cache: NewLRUCache alone and with stores, and a class of the program's own.

#include <leveldb/cache.h>
#include <leveldb/db.h>

#include <map>
#include <vector>

#include "check.h"

using leveldb::Cache;
using leveldb::Slice;

static std::vector<std::string> deleted;

static void forget(const Slice& key, void* value) {
  delete static_cast<int*>(value);
  deleted.push_back(key.ToString());
}

static void add(Cache* cache, const std::string& key, int value, size_t charge = 1) {
  cache->Release(cache->Insert(key, new int(value), charge, &forget));
}

static int look(Cache* cache, const std::string& key) {
  Cache::Handle* handle = cache->Lookup(key);
  if (handle == nullptr) return -1;
  const int value = *static_cast<int*>(cache->Value(handle));
  cache->Release(handle);
  return value;
}

static void least_recently_used() {
  std::unique_ptr<Cache> cache(leveldb::NewLRUCache(1600));
  CHECK(look(cache.get(), "a") == -1);
  add(cache.get(), "a", 1);
  add(cache.get(), "b", 2);
  CHECK(look(cache.get(), "a") == 1 && look(cache.get(), "b") == 2 && cache->TotalCharge() == 2);
  add(cache.get(), "a", 3);  // replaces the first
  CHECK(look(cache.get(), "a") == 3 && deleted.size() == 1 && deleted[0] == "a");
  cache->Erase("a");
  cache->Erase("a");
  CHECK(look(cache.get(), "a") == -1 && deleted.size() == 2);

  Cache::Handle* held = cache->Lookup("b");
  cache->Erase("b");
  CHECK(look(cache.get(), "b") == -1 && deleted.size() == 2);
  CHECK(*static_cast<int*>(cache->Value(held)) == 2);
  cache->Release(held);
  CHECK(deleted.size() == 3);

  // Entries with handles stay.
  add(cache.get(), "often", 1);
  held = cache->Insert("held", new int(7), 1, &forget);
  for (int i = 0; i < 5000; i++) {
    add(cache.get(), "key" + std::to_string(i), i);
    CHECK(look(cache.get(), "key" + std::to_string(i)) == i);
    CHECK(look(cache.get(), "often") == 1);
  }
  CHECK(look(cache.get(), "held") == 7);
  CHECK(look(cache.get(), "key0") == -1);
  CHECK(cache->TotalCharge() <= 1700);
  cache->Prune();
  CHECK(cache->TotalCharge() == 1 && look(cache.get(), "often") == -1 && look(cache.get(), "held") == 7);
  cache->Release(held);

  const uint64_t first = cache->NewId();
  CHECK(cache->NewId() != first);

  deleted.clear();
  cache.reset();
  CHECK(deleted.size() == 1 && deleted[0] == "held");

  cache.reset(leveldb::NewLRUCache(0));  // keeps nothing
  add(cache.get(), "a", 1);
  CHECK(look(cache.get(), "a") == -1 && deleted.size() == 2);
}

// Never evicts. A Cantle store keeps nothing in it.
class Everything : public Cache {
 public:
  ~Everything() override {
    for (auto& pair : entries_) Drop(pair.second);
    for (Entry* entry : old_) Drop(entry);
  }
  Handle* Insert(const Slice& key, void* value, size_t, void (*deleter)(const Slice&, void*)) override {
    Entry*& entry = entries_[key.ToString()];
    if (entry != nullptr) old_.push_back(entry);
    entry = new Entry{{}, key.ToString(), value, deleter};
    return entry;
  }
  Handle* Lookup(const Slice& key) override {
    const auto found = entries_.find(key.ToString());
    return found == entries_.end() ? nullptr : found->second;
  }
  void Release(Handle*) override {}
  void* Value(Handle* handle) override { return static_cast<Entry*>(handle)->value; }
  void Erase(const Slice& key) override {
    const auto found = entries_.find(key.ToString());
    if (found == entries_.end()) return;
    old_.push_back(found->second);
    entries_.erase(found);
  }
  uint64_t NewId() override { return ++last_; }
  size_t TotalCharge() const override { return entries_.size(); }

 private:
  struct Entry : Handle {
    Entry(Handle, const std::string& k, void* v, void (*d)(const Slice&, void*)) : key(k), value(v), deleter(d) {}
    std::string key;
    void* value;
    void (*deleter)(const Slice&, void*);
  };
  static void Drop(Entry* entry) {
    entry->deleter(entry->key, entry->value);
    delete entry;
  }
  std::map<std::string, Entry*> entries_;
  std::vector<Entry*> old_;
  uint64_t last_ = 0;
};

static void with_stores(const std::string& directory, Cache* cache) {
  leveldb::Options options;
  options.create_if_missing = true;
  options.block_cache = cache;
  leveldb::DB *first = nullptr, *second = nullptr;
  CHECK_OK(leveldb::DB::Open(options, directory + "/first", &first));
  CHECK_OK(leveldb::DB::Open(options, directory + "/second", &second));
  for (leveldb::DB* db : {first, second}) {
    for (int i = 0; i < 500; i++) CHECK_OK(db->Put(leveldb::WriteOptions(), std::to_string(i), std::string(100, 'x')));
    db->CompactRange(nullptr, nullptr);
    std::string value;
    for (int i = 0; i < 500; i++) CHECK_OK(db->Get(leveldb::ReadOptions(), std::to_string(i), &value));
  }
  delete first;
  delete second;
}

int main(int count, char** arguments) {
  const std::string directory = directory_of(count, arguments);
  least_recently_used();
  const std::unique_ptr<Cache> shared(leveldb::NewLRUCache(1 << 20));
  with_stores(directory, shared.get());
  Everything everything;
  with_stores(directory, &everything);
}
