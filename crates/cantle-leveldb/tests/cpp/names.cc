// A program with global names of its own that the operating system's headers have too. From C++20
// on, the standard library's headers declare those anyway.

#include <leveldb/cache.h>
#include <leveldb/comparator.h>
#include <leveldb/db.h>
#include <leveldb/env.h>
#include <leveldb/export.h>
#include <leveldb/filter_policy.h>
#include <leveldb/iterator.h>
#include <leveldb/options.h>
#include <leveldb/slice.h>
#include <leveldb/status.h>
#include <leveldb/write_batch.h>

#include "check.h"

#if __cplusplus < 202002L

static int access = 1, link = 2, pause = 3, sync = 4, fcntl = 5, dup = 6, unlink = 7, chdir = 8, truncate = 9;

static leveldb::Status read(leveldb::DB* db, std::string* value) { return db->Get(leveldb::ReadOptions(), "key", value); }
static leveldb::Status write(leveldb::DB* db) { return db->Put(leveldb::WriteOptions(), "key", "value"); }
static void close(leveldb::DB* db) { delete db; }
static leveldb::DB* open(const std::string& name) {
  leveldb::Options options;
  options.create_if_missing = true;
  leveldb::DB* db = nullptr;
  CHECK_OK(leveldb::DB::Open(options, name, &db));
  return db;
}

// As function objects: with another function of the same name in scope, this would be ambiguous.
template <typename Function>
static Function itself(Function function) {
  return function;
}

int main(int count, char** arguments) {
  CHECK(access + link + pause + sync + fcntl + dup + unlink + chdir + truncate == 45);
  leveldb::DB* const db = itself(open)(directory_of(count, arguments) + "/store");
  std::string value;
  CHECK_OK(itself(write)(db));
  CHECK_OK(itself(read)(db, &value));
  CHECK_TEXT(value, "value");
  itself(close)(db);
}

#else

int main() {}

#endif
