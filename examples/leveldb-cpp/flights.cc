// A program for LevelDB. Compiled with Cantle's headers and linked with its library instead of
// LevelDB's, it keeps its data in a Cantle store:
//
//     c++ -std=c++11 flights.cc $(pkg-config --cflags --libs leveldb) -o flights && ./flights /tmp/flights

#include <leveldb/db.h>
#include <leveldb/write_batch.h>

#include <iostream>
#include <memory>
#include <string>

static int failed(const leveldb::Status& status) {
  std::cerr << status.ToString() << "\n";
  return 1;
}

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: " << argv[0] << " DIRECTORY\n";
    return 2;
  }
  leveldb::Options options;
  options.create_if_missing = true;
#if defined(CANTLE_LEVELDB)
  options.cantle_memory_budget = 64 << 20;  // one number for everything that the store keeps in memory
#endif
  leveldb::DB* opened = nullptr;
  leveldb::Status status = leveldb::DB::Open(options, argv[1], &opened);
  if (!status.ok()) return failed(status);
  const std::unique_ptr<leveldb::DB> db(opened);

  // All three or none, and safe from a loss of power.
  leveldb::WriteBatch batch;
  batch.Put("UA EWR 2013-07-04 1545", "delayed");
  batch.Put("UA EWR 2013-07-05 1545", "on time");
  batch.Put("DL LGA 2013-07-04 0461", "on time");
  leveldb::WriteOptions durably;
  durably.sync = true;
  status = db->Write(durably, &batch);
  if (!status.ok()) return failed(status);

  std::string value;
  status = db->Get(leveldb::ReadOptions(), "DL LGA 2013-07-04 0461", &value);
  if (!status.ok()) return failed(status);
  std::cout << "DL LGA 2013-07-04 0461: " << value << "\n";

  // United's departures, the last one first.
  const std::unique_ptr<leveldb::Iterator> it(db->NewIterator(leveldb::ReadOptions()));
  for (it->SeekToLast(); it->Valid() && it->key().starts_with("UA "); it->Prev()) {
    std::cout << it->key().ToString() << ": " << it->value().ToString() << "\n";
  }
  return it->status().ok() ? 0 : failed(it->status());
}
