#include "other.h"

#include <leveldb/cache.h>
#include <leveldb/comparator.h>
#include <leveldb/filter_policy.h>

const leveldb::Comparator* other_comparator() { return leveldb::BytewiseComparator(); }

leveldb::Env* other_env() { return leveldb::Env::Default(); }

leveldb::Options other_options() {
  leveldb::Options options;
  options.create_if_missing = true;
  options.block_cache = leveldb::NewLRUCache(1 << 20);
  options.filter_policy = leveldb::NewBloomFilterPolicy(10);
  return options;
}

leveldb::Status other_open(const leveldb::Options& options, const std::string& name, leveldb::DB** db) {
  return leveldb::DB::Open(options, name, db);
}

leveldb::Iterator* other_iterator(leveldb::DB* db) {
  leveldb::Iterator* const at = db->NewIterator(leveldb::ReadOptions());
  at->SeekToFirst();
  return at;
}

leveldb::Status other_get(leveldb::DB* db, const leveldb::Slice& key) {
  std::string value;
  return db->Get(leveldb::ReadOptions(), key, &value);
}
