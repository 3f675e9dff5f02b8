// One store, many threads: writers, readers, iterators and snapshots at once.

#include <leveldb/db.h>
#include <leveldb/write_batch.h>

#include <atomic>
#include <thread>
#include <vector>

#include "check.h"

static const int kKeys = 50;
static const int kRounds = 300;

static std::string key_of(int number) { return "key" + std::to_string(100 + number); }

// Every batch gives all keys one value. A snapshot or an iterator that sees two values has seen
// half a batch.
static void write_rounds(leveldb::DB* db, int writer) {
  for (int round = 0; round < kRounds; round++) {
    leveldb::WriteBatch batch;
    for (int i = 0; i < kKeys; i++) batch.Put(key_of(i), std::to_string(writer) + "." + std::to_string(round));
    CHECK_OK(db->Write(leveldb::WriteOptions(), &batch));
    CHECK_OK(db->Put(leveldb::WriteOptions(), "own" + std::to_string(writer), std::to_string(round)));
    std::string own;
    CHECK_OK(db->Get(leveldb::ReadOptions(), "own" + std::to_string(writer), &own));
    CHECK_TEXT(own, std::to_string(round));
  }
}

static void iterate(leveldb::DB* db, const leveldb::ReadOptions& options) {
  std::unique_ptr<leveldb::Iterator> at(db->NewIterator(options));
  std::string first;
  int seen = 0;
  for (at->Seek("key"); at->Valid() && at->key().starts_with("key"); at->Next(), seen++) {
    if (seen == 0) first = at->value().ToString();
    CHECK_TEXT(at->value().ToString(), first);
  }
  CHECK_OK(at->status());
  CHECK(seen == 0 || seen == kKeys);
}

static void read_rounds(leveldb::DB* db, const std::atomic<bool>* over) {
  while (!*over) {
    iterate(db, leveldb::ReadOptions());
    leveldb::ReadOptions then;
    then.snapshot = db->GetSnapshot();
    std::string first, last;
    const leveldb::Status status = db->Get(then, key_of(0), &first);
    CHECK(db->Get(then, key_of(kKeys - 1), &last).ok() == status.ok());
    CHECK_TEXT(first, last);
    iterate(db, then);
    db->ReleaseSnapshot(then.snapshot);
  }
}

int main(int count, char** arguments) {
  leveldb::Options options;
  options.create_if_missing = true;
  leveldb::DB* opened = nullptr;
  CHECK_OK(leveldb::DB::Open(options, directory_of(count, arguments) + "/store", &opened));
  const std::unique_ptr<leveldb::DB> db(opened);

  std::atomic<bool> over(false);
  std::vector<std::thread> writers, readers;
  for (int i = 0; i < 2; i++) readers.emplace_back(read_rounds, db.get(), &over);
  for (int i = 0; i < 3; i++) writers.emplace_back(write_rounds, db.get(), i);
  for (std::thread& thread : writers) thread.join();
  over = true;
  for (std::thread& thread : readers) thread.join();
  iterate(db.get(), leveldb::ReadOptions());
}
