// The program of docs/bindings.md, which has it in Rust, C and Python, too. Usage: ten_lines DIRECTORY
#include <leveldb/db.h>
#include <iostream>
#include <memory>

int main(int argc, char** argv) {
  leveldb::Options options;
  options.create_if_missing = true;
  leveldb::DB* opened;
  leveldb::Status status = leveldb::DB::Open(options, argc > 1 ? argv[1] : "flights", &opened);
  if (!status.ok()) return std::cerr << status.ToString() << "\n", 1;
  std::unique_ptr<leveldb::DB> db(opened);
  db->Put({}, "UA/EWR/2013-07-04", "delayed");
  db->Put({}, "UA/EWR/2013-07-05", "on time");
  db->Put({}, "DL/LGA/2013-07-04", "on time");
  std::unique_ptr<leveldb::Iterator> it(db->NewIterator({}));
  for (it->SeekToLast(); it->Valid() && it->key().starts_with("UA/EWR/"); it->Prev())
    std::cout << it->key().ToString() << ": " << it->value().ToString() << "\n";
}
