// The headers in two units of one program. One unit is a shared library that hides its symbols if
// possible. Both have the same objects, and exchange stores, options and iterators.

#include <leveldb/cache.h>
#include <leveldb/comparator.h>
#include <leveldb/db.h>
#include <leveldb/filter_policy.h>

#include "../check.h"
#include "other.h"

int main(int count, char** arguments) {
  const std::string name = directory_of(count, arguments) + "/store";
  CHECK(other_comparator() == leveldb::BytewiseComparator());
  CHECK(other_env() == leveldb::Env::Default());

  leveldb::Options options = other_options();
  leveldb::DB* db = nullptr;
  CHECK_OK(leveldb::DB::Open(options, name, &db));
  CHECK_OK(db->Put(leveldb::WriteOptions(), "a", "1"));
  leveldb::Iterator* at = other_iterator(db);
  CHECK(at->Valid() && at->key() == "a");
  delete at;
  CHECK(other_get(db, "b").IsNotFound());
  delete db;
  delete options.block_cache;
  delete options.filter_policy;

  CHECK_OK(other_open(leveldb::Options(), name, &db));
  CHECK_OK(other_get(db, "a"));
  delete db;
}
