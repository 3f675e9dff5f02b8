// Counts how often it was run with a directory.

#include <leveldb/db.h>

#include <cstdio>
#include <memory>
#include <string>

int main(int count, char** arguments) {
  if (count != 2) {
    std::fprintf(stderr, "usage: counter DIRECTORY\n");
    return 2;
  }
  leveldb::Options options;
  options.create_if_missing = true;
  leveldb::DB* opened = nullptr;
  leveldb::Status status = leveldb::DB::Open(options, arguments[1], &opened);
  const std::unique_ptr<leveldb::DB> db(opened);
  std::string value = "0";
  if (status.ok()) {
    status = db->Get(leveldb::ReadOptions(), "runs", &value);
    if (status.IsNotFound()) status = leveldb::Status::OK();
  }
  if (status.ok()) {
    value = std::to_string(std::stoi(value) + 1);
    status = db->Put(leveldb::WriteOptions(), "runs", value);
  }
  if (!status.ok()) {
    std::fprintf(stderr, "%s\n", status.ToString().c_str());
    return 1;
  }
  std::printf("%s\n", value.c_str());
}
