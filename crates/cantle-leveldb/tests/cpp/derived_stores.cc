// Programs name LevelDB's classes before they include a header, and derive from DB, Iterator and
// Snapshot in their tests.

namespace leveldb {
class Cache;
class Comparator;
class DB;
class Env;
class FilterPolicy;
class Iterator;
class Logger;
class Slice;
class Snapshot;
class Status;
class WriteBatch;
struct Options;
struct Range;
struct ReadOptions;
struct WriteOptions;
}  // namespace leveldb

#include <memory>

class Wrapper {
 public:
  leveldb::DB* db = nullptr;
  leveldb::Env* env = nullptr;
  const leveldb::FilterPolicy* policy = nullptr;
};

#include <leveldb/db.h>
#include <leveldb/env.h>
#include <leveldb/write_batch.h>

#include <map>

#include "check.h"

using leveldb::Slice;
using leveldb::Status;

using Pairs = std::map<std::string, std::string>;

class MapIterator : public leveldb::Iterator {
 public:
  explicit MapIterator(const Pairs& pairs) : pairs_(pairs), at_(pairs_.end()) {}
  bool Valid() const override { return at_ != pairs_.end(); }
  void SeekToFirst() override { at_ = pairs_.begin(); }
  void SeekToLast() override { at_ = pairs_.empty() ? pairs_.end() : std::prev(pairs_.end()); }
  void Seek(const Slice& target) override { at_ = pairs_.lower_bound(target.ToString()); }
  void Next() override { ++at_; }
  void Prev() override { at_ = at_ == pairs_.begin() ? pairs_.end() : std::prev(at_); }
  Slice key() const override { return at_->first; }
  Slice value() const override { return at_->second; }
  Status status() const override { return Status::OK(); }

 private:
  const Pairs pairs_;
  Pairs::const_iterator at_;
};

class MapSnapshot : public leveldb::Snapshot {
 public:
  explicit MapSnapshot(const Pairs& taken) : pairs(taken) {}
  ~MapSnapshot() override {}
  const Pairs pairs;
};

// Keeps everything in memory. Puts and deletes are batches of one operation, as in the base class.
class MapStore : public leveldb::DB {
 public:
  Status Put(const leveldb::WriteOptions& options, const Slice& key, const Slice& value) override {
    return leveldb::DB::Put(options, key, value);
  }
  Status Delete(const leveldb::WriteOptions& options, const Slice& key) override { return leveldb::DB::Delete(options, key); }
  Status Write(const leveldb::WriteOptions&, leveldb::WriteBatch* updates) override {
    Changes changes(&pairs_);
    return updates->Iterate(&changes);
  }
  Status Get(const leveldb::ReadOptions& options, const Slice& key, std::string* value) override {
    const Pairs& pairs = options.snapshot == nullptr ? pairs_ : static_cast<const MapSnapshot*>(options.snapshot)->pairs;
    const auto found = pairs.find(key.ToString());
    if (found == pairs.end()) return Status::NotFound(key);
    *value = found->second;
    return Status::OK();
  }
  leveldb::Iterator* NewIterator(const leveldb::ReadOptions&) override { return new MapIterator(pairs_); }
  const leveldb::Snapshot* GetSnapshot() override { return new MapSnapshot(pairs_); }
  void ReleaseSnapshot(const leveldb::Snapshot* snapshot) override { delete static_cast<const MapSnapshot*>(snapshot); }
  bool GetProperty(const Slice&, std::string*) override { return false; }
  void GetApproximateSizes(const leveldb::Range*, int n, uint64_t* sizes) override {
    for (int i = 0; i < n; i++) sizes[i] = 0;
  }
  void CompactRange(const Slice*, const Slice*) override {}

 private:
  class Changes : public leveldb::WriteBatch::Handler {
   public:
    explicit Changes(Pairs* pairs) : pairs_(pairs) {}
    void Put(const Slice& key, const Slice& value) override { (*pairs_)[key.ToString()] = value.ToString(); }
    void Delete(const Slice& key) override { pairs_->erase(key.ToString()); }

   private:
    Pairs* pairs_;
  };

  Pairs pairs_;
};

// Operations of a program on a store of either class.
static void use(leveldb::DB* db) {
  CHECK_OK(db->Put(leveldb::WriteOptions(), "a", "1"));
  CHECK_OK(db->Put(leveldb::WriteOptions(), "b", "2"));
  leveldb::ReadOptions then;
  then.snapshot = db->GetSnapshot();
  CHECK_OK(db->Delete(leveldb::WriteOptions(), "a"));
  std::string value;
  CHECK(db->Get(leveldb::ReadOptions(), "a", &value).IsNotFound());
  CHECK_OK(db->Get(then, "a", &value));
  CHECK_TEXT(value, "1");
  db->ReleaseSnapshot(then.snapshot);
  std::unique_ptr<leveldb::Iterator> at(db->NewIterator(leveldb::ReadOptions()));
  at->SeekToFirst();
  CHECK(at->Valid() && at->key() == "b" && at->value() == "2");
  at->Prev();
  CHECK(!at->Valid());
}

int main(int count, char** arguments) {
  const std::string directory = directory_of(count, arguments);
  MapStore map;
  use(&map);
  Wrapper wrapper;
  leveldb::Options options;
  options.create_if_missing = true;
  CHECK_OK(leveldb::DB::Open(options, directory + "/store", &wrapper.db));
  use(wrapper.db);
  delete wrapper.db;
}
