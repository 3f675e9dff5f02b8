// Orders of a program's own: the name is checked at each opening, and the object still belongs to
// the program.

#include <leveldb/comparator.h>
#include <leveldb/db.h>

#include "check.h"

using leveldb::DB;
using leveldb::Options;
using leveldb::Slice;
using leveldb::Status;

// Decimal numbers in numeric order, as in LevelDB's documentation.
class Numbers : public leveldb::Comparator {
 public:
  explicit Numbers(const char* name) : name_(name) {}
  ~Numbers() override { destroyed++; }

  int Compare(const Slice& a, const Slice& b) const override {
    const long left = std::strtol(a.ToString().c_str(), nullptr, 10), right = std::strtol(b.ToString().c_str(), nullptr, 10);
    return left < right ? -1 : (left > right ? 1 : 0);
  }
  const char* Name() const override { return name_; }
  void FindShortestSeparator(std::string*, const Slice&) const override {}
  void FindShortSuccessor(std::string*) const override {}

  static int destroyed;

 private:
  const char* name_;
};

int Numbers::destroyed = 0;

static Status try_open(const leveldb::Comparator* comparator, const std::string& name, std::unique_ptr<DB>* db) {
  Options options;
  options.create_if_missing = true;
  if (comparator != nullptr) options.comparator = comparator;
  DB* opened = nullptr;
  const Status status = DB::Open(options, name, &opened);
  db->reset(opened);
  return status;
}

int main(int count, char** arguments) {
  const std::string name = directory_of(count, arguments) + "/numbers";
  std::unique_ptr<DB> db;
  {
    const Numbers numbers("test.Numbers");
    CHECK_OK(try_open(&numbers, name, &db));
    for (const char* key : {"10", "9", "100", "-1", "55"}) CHECK_OK(db->Put(leveldb::WriteOptions(), key, key));
    CHECK_OK(db->Put(leveldb::WriteOptions(), "009", "the same key"));
    std::string value;
    CHECK_OK(db->Get(leveldb::ReadOptions(), "9", &value));
    CHECK_TEXT(value, "the same key");

    std::string all;
    std::unique_ptr<leveldb::Iterator> at(db->NewIterator(leveldb::ReadOptions()));
    for (at->SeekToFirst(); at->Valid(); at->Next()) all += std::to_string(std::atoi(at->key().ToString().c_str())) + " ";
    CHECK_TEXT(all, "-1 9 10 55 100 ");
    at->Seek("11");
    CHECK(at->Valid() && at->key() == "55");
    at->Prev();
    CHECK(at->Valid() && at->key() == "10");
    at.reset();
    db->CompactRange(nullptr, nullptr);
    db.reset();
    CHECK(Numbers::destroyed == 0);
  }
  CHECK(Numbers::destroyed == 1);

  // Another object with the same name opens the store; another name, or none, does not.
  const Numbers again("test.Numbers"), other("test.OtherNumbers");
  Status status = try_open(&other, name, &db);
  CHECK(status.IsInvalidArgument() && !db);
  CHECK(status.ToString().find("test.Numbers") != std::string::npos);
  status = try_open(nullptr, name, &db);
  CHECK(status.IsInvalidArgument() && !db);
  CHECK_OK(try_open(&again, name, &db));
  std::string value;
  CHECK_OK(db->Get(leveldb::ReadOptions(), "100", &value));
  CHECK_TEXT(value, "100");
  db.reset();

  // The same in the other direction.
  const std::string plain = name + ".plain";
  CHECK_OK(try_open(nullptr, plain, &db));
  CHECK_OK(db->Put(leveldb::WriteOptions(), "a", "1"));
  db.reset();
  CHECK(try_open(&again, plain, &db).IsInvalidArgument());
  CHECK_OK(try_open(leveldb::BytewiseComparator(), plain, &db));
}
