// Uses a store as programs do that learn from images, or that draw a map from blocks: one writer
// fills the store in batches, one cursor iterates over it again and again, and single gets read
// keys that are numbers.

#include <leveldb/db.h>
#include <leveldb/write_batch.h>

#include <sstream>
#include <vector>

#include "check.h"

class Samples {
 public:
  enum Mode { kRead, kWrite, kNew };

  Samples(const std::string& source, Mode mode) {
    leveldb::Options options;
    options.block_size = 65536;
    options.write_buffer_size = 268435456;
    options.max_open_files = 100;
    options.error_if_exists = mode == kNew;
    options.create_if_missing = mode != kRead;
    leveldb::DB* opened;
    const leveldb::Status status = leveldb::DB::Open(options, source, &opened);
    CHECK_OK(status);
    db_.reset(opened);
  }

  class Transaction {
   public:
    explicit Transaction(leveldb::DB* db) : db_(db) {}
    void put(const std::string& key, const std::string& value) { batch_.Put(key, value); }
    void commit() {
      CHECK_OK(db_->Write(leveldb::WriteOptions(), &batch_));
      batch_.Clear();
    }

   private:
    leveldb::DB* db_;
    leveldb::WriteBatch batch_;
  };

  class Cursor {
   public:
    explicit Cursor(leveldb::Iterator* at) : at_(at) { at_->SeekToFirst(); }
    void next() {
      at_->Next();
      if (!at_->Valid()) at_->SeekToFirst();
    }
    std::string key() const { return at_->key().ToString(); }
    std::string value() const { return at_->value().ToString(); }
    bool valid() const { return at_->Valid(); }

   private:
    std::unique_ptr<leveldb::Iterator> at_;
  };

  Transaction transaction() { return Transaction(db_.get()); }
  Cursor cursor() { return Cursor(db_->NewIterator(leveldb::ReadOptions())); }

  // Missing blocks are empty; any other status is an error.
  std::string block(int64_t position) {
    std::string datastr;
    const leveldb::Status status = db_->Get(leveldb::ReadOptions(), std::to_string(position), &datastr);
    return status.ok() ? datastr : "";
  }

  bool remove(int64_t position) {
    const leveldb::Status status = db_->Delete(leveldb::WriteOptions(), std::to_string(position));
    if (!status.ok()) std::fprintf(stderr, "not removed: %s\n", status.ToString().c_str());
    return status.ok();
  }

  std::vector<int64_t> list() {
    std::vector<int64_t> positions;
    leveldb::Iterator* it = db_->NewIterator(leveldb::ReadOptions());
    for (it->SeekToFirst(); it->Valid(); it->Next()) positions.push_back(std::stoll(it->key().ToString()));
    CHECK_OK(it->status());  // an error of the scan
    delete it;
    return positions;
  }

 private:
  std::unique_ptr<leveldb::DB> db_;
};

int main(int count, char** arguments) {
  const std::string source = directory_of(count, arguments) + "/samples";
  {
    Samples samples(source, Samples::kNew);
    Samples::Transaction transaction = samples.transaction();
    for (int i = 0; i < 3000; i++) {
      std::ostringstream value;
      value << "sample " << i << std::string(300, 'p');
      transaction.put(std::to_string(i - 1500), value.str());
      if (i % 1000 == 999) transaction.commit();
    }
  }
  Samples samples(source, Samples::kRead);
  Samples::Cursor cursor = samples.cursor();
  CHECK(cursor.valid() && cursor.key() == "-1");
  for (int i = 0; i < 3000; i++) cursor.next();
  CHECK(cursor.valid() && cursor.key() == "-1" && cursor.value().find("sample 1499p") == 0);
  CHECK(samples.block(-1500).find("sample 0p") == 0 && samples.block(1500).empty());
  CHECK(samples.remove(0) && samples.remove(0));
  CHECK(samples.block(0).empty() && samples.list().size() == 2999);
}
