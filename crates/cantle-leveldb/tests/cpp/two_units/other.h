#ifndef CANTLE_TESTS_OTHER_H
#define CANTLE_TESTS_OTHER_H

#include <leveldb/db.h>
#include <leveldb/env.h>

#define OTHER __attribute__((visibility("default")))

OTHER const leveldb::Comparator* other_comparator();
OTHER leveldb::Env* other_env();
OTHER leveldb::Options other_options();
OTHER leveldb::Status other_open(const leveldb::Options& options, const std::string& name, leveldb::DB** db);
OTHER leveldb::Iterator* other_iterator(leveldb::DB* db);
OTHER leveldb::Status other_get(leveldb::DB* db, const leveldb::Slice& key);

#endif
