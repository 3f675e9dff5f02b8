// Uses a store as a ledger does for its state: typed keys in a wrapper with exceptions, a logger, a
// cache and a filter, values that are obscured by a stored key, batches that are written when they
// are large, and objects deleted in the order that the documentation requires.

#include <leveldb/cache.h>
#include <leveldb/db.h>
#include <leveldb/env.h>
#include <leveldb/filter_policy.h>
#include <leveldb/write_batch.h>

#include <cstdint>
#include <stdexcept>
#include <utility>

#include "check.h"

class StoreError : public std::runtime_error {
 public:
  explicit StoreError(const leveldb::Status& status) : std::runtime_error(status.ToString()) {}
};

static void require(const leveldb::Status& status) {
  if (!status.ok()) throw StoreError(status);
}

class Journal : public leveldb::Logger {
 public:
  void Logv(const char* format, va_list arguments) override {
    char line[500];
    va_list again;
    va_copy(again, arguments);
    std::vsnprintf(line, sizeof line, format, again);
    va_end(again);
    lines++;
  }
  int lines = 0;
};

// A type, then a number in an encoding that sorts numerically.
static std::string key_of(char kind, uint64_t number) {
  std::string key(1, kind);
  for (int shift = 56; shift >= 0; shift -= 8) key.push_back(static_cast<char>(number >> shift));
  return key;
}

struct Objects {
  Objects() {}
  ~Objects() {
    delete db;
    delete options.filter_policy;
    delete options.info_log;
    delete options.block_cache;
  }
  Objects(const Objects&) = delete;
  Objects& operator=(const Objects&) = delete;

  leveldb::Options options;
  leveldb::DB* db = nullptr;
};

class Ledger {
 public:
  Ledger(const std::string& path, size_t cache_bytes, bool wipe) {
    read_.verify_checksums = true;
    scan_.verify_checksums = true;
    scan_.fill_cache = false;
    sync_.sync = true;
    options_.create_if_missing = true;
    options_.block_cache = leveldb::NewLRUCache(cache_bytes / 2);
    options_.write_buffer_size = cache_bytes / 4;
    options_.filter_policy = leveldb::NewBloomFilterPolicy(10);
    options_.compression = leveldb::kNoCompression;
    options_.max_open_files = 64;
    options_.info_log = new Journal;
    if (leveldb::kMajorVersion > 1 || (leveldb::kMajorVersion == 1 && leveldb::kMinorVersion >= 16)) options_.paranoid_checks = true;
    if (wipe) require(leveldb::DestroyDB(path, options_));
    require(leveldb::DB::Open(options_, path, &db_));

    // A new store gets a new mask; an existing one has its mask stored.
    if (!find("mask", &mask_) && empty()) {
      const std::string mask = "\x17\x2a\x33";
      require(db_->Put(write_, "mask", mask));
      mask_ = mask;
    }
  }

  class Batch {
   public:
    explicit Batch(const Ledger& ledger) : ledger_(ledger) {}
    void set(char kind, uint64_t number, std::string value) {
      ledger_.mask(&value);
      batch_.Put(key_of(kind, number), value);
    }
    void erase(char kind, uint64_t number) { batch_.Delete(key_of(kind, number)); }
    size_t bytes() const { return batch_.ApproximateSize(); }
    void clear() { batch_.Clear(); }

   private:
    friend class Ledger;
    const Ledger& ledger_;
    leveldb::WriteBatch batch_;
  };

  void write(Batch* batch, bool sync = false) { require(db_->Write(sync ? sync_ : write_, &batch->batch_)); }

  bool get(char kind, uint64_t number, std::string* value) const {
    if (!find(key_of(kind, number), value)) return false;
    mask(value);
    return true;
  }

  bool empty() const {
    const std::unique_ptr<leveldb::Iterator> at(db_->NewIterator(scan_));
    at->SeekToFirst();
    return !at->Valid();
  }

  uint64_t count(char kind) const {
    uint64_t number = 0;
    const std::unique_ptr<leveldb::Iterator> at(db_->NewIterator(scan_));
    for (at->Seek(key_of(kind, 0)); at->Valid() && at->key()[0] == kind; at->Next()) number++;
    require(at->status());
    return number;
  }

  uint64_t estimate(char kind) const {
    const std::string from = key_of(kind, 0), to = key_of(static_cast<char>(kind + 1), 0);
    const leveldb::Range range(from, to);
    uint64_t bytes = 0;
    db_->GetApproximateSizes(&range, 1, &bytes);
    return bytes;
  }

  size_t memory() const {
    std::string text;
    if (!db_->GetProperty("leveldb.approximate-memory-usage", &text)) return 0;
    return static_cast<size_t>(std::stoull(text));
  }

  void compact() { db_->CompactRange(nullptr, nullptr); }

 private:
  bool find(const std::string& key, std::string* value) const {
    const leveldb::Status status = db_->Get(read_, key, value);
    if (status.IsNotFound()) return false;
    require(status);
    return true;
  }

  void mask(std::string* value) const {
    for (size_t i = 0; i < value->size() && !mask_.empty(); i++) (*value)[i] = static_cast<char>((*value)[i] ^ mask_[i % mask_.size()]);
  }

  // Deleted also if opening throws.
  Objects objects_;
  leveldb::Options& options_ = objects_.options;
  leveldb::DB*& db_ = objects_.db;
  leveldb::ReadOptions read_, scan_;
  leveldb::WriteOptions write_, sync_;
  std::string mask_;
};

int main(int count, char** arguments) {
  const std::string path = directory_of(count, arguments) + "/ledger";
  {
    Ledger ledger(path, 8 << 20, true);
    Ledger::Batch batch(ledger);
    for (uint64_t i = 0; i < 20000; i++) {
      batch.set('c', i, "coin " + std::to_string(i) + std::string(40, '.'));
      if (i % 3 == 0) batch.erase('c', i / 2);
      if (batch.bytes() > (64 << 10)) {
        ledger.write(&batch);
        batch.clear();
      }
    }
    batch.set('B', 0, "tip");
    ledger.write(&batch, true);
    ledger.compact();
    CHECK(ledger.estimate('c') > 100000);
    CHECK(ledger.estimate('d') == 0);
    CHECK(ledger.memory() > 0);

    bool refused = false;
    try {
      Ledger second(path, 8 << 20, false);
    } catch (const StoreError& error) {
      refused = std::string(error.what()).find("IO error: ") == 0;
    }
    CHECK(refused);
  }
  Ledger ledger(path, 8 << 20, false);
  std::string value;
  CHECK(ledger.get('B', 0, &value));
  CHECK_TEXT(value, "tip");
  CHECK(ledger.get('c', 19999, &value));
  CHECK_TEXT(value, "coin 19999" + std::string(40, '.'));
  CHECK(!ledger.get('c', 20000, &value));
  CHECK(!ledger.get('c', 0, &value));
  CHECK(ledger.count('c') == 20000 - 6667);
}
