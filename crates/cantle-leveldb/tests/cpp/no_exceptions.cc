// options: -fno-exceptions -fno-rtti
// The whole interface in a program without exceptions and type information.

#include <leveldb/cache.h>
#include <leveldb/comparator.h>
#include <leveldb/db.h>
#include <leveldb/env.h>
#include <leveldb/filter_policy.h>
#include <leveldb/iterator.h>
#include <leveldb/options.h>
#include <leveldb/slice.h>
#include <leveldb/status.h>
#include <leveldb/write_batch.h>

#include "check.h"

class Backwards : public leveldb::Comparator {
 public:
  int Compare(const leveldb::Slice& a, const leveldb::Slice& b) const override { return b.compare(a); }
  const char* Name() const override { return "test.Backwards"; }
  void FindShortestSeparator(std::string*, const leveldb::Slice&) const override {}
  void FindShortSuccessor(std::string*) const override {}
};

class Counter : public leveldb::WriteBatch::Handler {
 public:
  void Put(const leveldb::Slice&, const leveldb::Slice&) override { puts++; }
  void Delete(const leveldb::Slice&) override { deletes++; }
  int puts = 0, deletes = 0;
};

int main(int count, char** arguments) {
  const std::string name = directory_of(count, arguments) + "/store";
  Backwards backwards;
  leveldb::Options options;
  options.create_if_missing = true;
  options.comparator = &backwards;
  options.block_cache = leveldb::NewLRUCache(1 << 20);
  options.filter_policy = leveldb::NewBloomFilterPolicy(10);
  leveldb::DB* db = nullptr;
  CHECK_OK(leveldb::DB::Open(options, name, &db));

  leveldb::WriteBatch batch;
  batch.Put("a", "1");
  batch.Put("b", "2");
  batch.Delete("c");
  Counter counter;
  CHECK_OK(batch.Iterate(&counter));
  CHECK(counter.puts == 2 && counter.deletes == 1);
  CHECK_OK(db->Write(leveldb::WriteOptions(), &batch));

  leveldb::Iterator* at = db->NewIterator(leveldb::ReadOptions());
  at->SeekToFirst();
  CHECK(at->Valid() && at->key() == "b");
  delete at;
  delete db;
  delete options.block_cache;
  delete options.filter_policy;
  CHECK_OK(leveldb::DestroyDB(name, options));
}
