// Options reach the store: each has an effect that would be missed.

#include <leveldb/cache.h>
#include <leveldb/comparator.h>
#include <leveldb/db.h>
#include <leveldb/filter_policy.h>
#include <leveldb/write_batch.h>

#include <cctype>
#include <cstdint>

#include "check.h"

using leveldb::DB;
using leveldb::Options;
using leveldb::ReadOptions;
using leveldb::Slice;
using leveldb::WriteOptions;

static Options creating() {
  Options options;
  options.create_if_missing = true;
  return options;
}

static std::unique_ptr<DB> open(const Options& options, const std::string& name) {
  DB* db = nullptr;
  CHECK_OK(DB::Open(options, name, &db));
  return std::unique_ptr<DB>(db);
}

// Two spellings of a key are the same key.
class WithoutCase : public leveldb::Comparator {
 public:
  int Compare(const Slice& a, const Slice& b) const override { return Lower(a).compare(Lower(b)); }
  const char* Name() const override { return "test.WithoutCase"; }
  void FindShortestSeparator(std::string*, const Slice&) const override {}
  void FindShortSuccessor(std::string*) const override {}

 private:
  static std::string Lower(const Slice& slice) {
    std::string text = slice.ToString();
    for (char& one : text) one = static_cast<char>(std::tolower(static_cast<unsigned char>(one)));
    return text;
  }
};

// The policy that such a program defines.
class MatchesAll : public leveldb::FilterPolicy {
 public:
  const char* Name() const override { return "test.MatchesAll"; }
  void CreateFilter(const Slice*, int, std::string* dst) const override { dst->append("x"); }
  bool KeyMayMatch(const Slice&, const Slice&) const override { return true; }
};

// Number of keys of 100 in sorted files that are found by another spelling.
static int found_otherwise(const leveldb::FilterPolicy* policy, const std::string& name) {
  const WithoutCase order;
  Options options = creating();
  options.comparator = &order;
  options.filter_policy = policy;
  std::unique_ptr<DB> db = open(options, name);
  for (int i = 0; i < 100; i++) CHECK_OK(db->Put(WriteOptions(), "key" + std::to_string(i), "v"));
  db->CompactRange(nullptr, nullptr);
  db.reset();
  db = open(options, name);
  int found = 0;
  std::string value;
  for (int i = 0; i < 100; i++) found += db->Get(ReadOptions(), "KEY" + std::to_string(i), &value).ok();
  return found;
}

static void filter_policies(const std::string& directory) {
  CHECK(found_otherwise(nullptr, directory + "/none") == 100);
  const MatchesAll own;
  CHECK(found_otherwise(&own, directory + "/own") == 100);
  // LevelDB forbids this, since the filter hashes the parts that the order ignores.
  const std::unique_ptr<const leveldb::FilterPolicy> bloom(leveldb::NewBloomFilterPolicy(10));
  CHECK(found_otherwise(bloom.get(), directory + "/bloom") < 100);
}

static uint64_t size_with(leveldb::CompressionType compression, const std::string& name) {
  Options options = creating();
  options.compression = compression;
  const std::unique_ptr<DB> db = open(options, name);
  for (int i = 0; i < 1000; i++) CHECK_OK(db->Put(WriteOptions(), std::to_string(i), std::string(1000, 'v')));
  db->CompactRange(nullptr, nullptr);
  const leveldb::Range all("0", "a");
  uint64_t size = 0;
  db->GetApproximateSizes(&all, 1, &size);
  return size;
}

static void compression(const std::string& directory) {
  const uint64_t plain = size_with(leveldb::kNoCompression, directory + "/plain");
  const uint64_t compressed = size_with(leveldb::kSnappyCompression, directory + "/compressed");
  CHECK(plain > 800000 && compressed < plain / 4);
}

#if defined(CANTLE_LEVELDB) && !defined(LINKED_WITH_LEVELDB)

static std::string stats(DB* db) {
  std::string text;
  CHECK(db->GetProperty("leveldb.stats", &text));
  return text;
}

static bool has_budget(const Options& options, const std::string& name, const std::string& megabytes) {
  const std::unique_ptr<DB> db = open(options, name);
  return stats(db.get()).find(" of " + megabytes + " MB\n") != std::string::npos;
}

static void memory(const std::string& name) {
  Options options = creating();
  CHECK(has_budget(options, name, "64.0"));
  options.write_buffer_size = 64 << 20;
  CHECK(has_budget(options, name, "136.0"));
  const std::unique_ptr<leveldb::Cache> cache(leveldb::NewLRUCache(100 << 20));
  options.block_cache = cache.get();
  CHECK(has_budget(options, name, "228.0"));
  options.cantle_memory_budget = 32 << 20;
  CHECK(has_budget(options, name, "32.0"));
  CHECK(::setenv("CANTLE_MEMORY_BUDGET", "48M", 1) == 0);
  CHECK(has_budget(options, name, "48.0"));
  CHECK(::unsetenv("CANTLE_MEMORY_BUDGET") == 0);
}

static void layout(const std::string& name) {
  DB* db = nullptr;
  CHECK(::setenv("CANTLE_LAYOUT", "heap", 1) == 0);
  const leveldb::Status status = DB::Open(creating(), name, &db);
  CHECK(status.IsInvalidArgument() && status.ToString().find("CANTLE_LAYOUT asks for the layout \"heap\"") != std::string::npos);
  CHECK(::setenv("CANTLE_LAYOUT", "chunk", 1) == 0);
  Options options = creating();
  options.cantle_layout = "heap";
  open(options, name);  // the environment has precedence
  CHECK(::unsetenv("CANTLE_LAYOUT") == 0);
  options.cantle_layout = "flsm:guard_bytes=1MiB";
  CHECK(stats(open(options, name + "-guards").get()).find("guards: 1, levels: 1") != std::string::npos);
  options.cantle_layout.clear();
  open(options, name + "-guards");  // a database keeps its layout
}

static unsigned long checkpoints(DB* db) {
  const std::string text = stats(db), name = "checkpoints: ";
  const size_t at = text.find(name);
  CHECK(at != std::string::npos);
  return std::strtoul(text.c_str() + at + name.size(), nullptr, 10);
}

static void syncs(const std::string& name) {
  const std::unique_ptr<DB> db = open(creating(), name);
  leveldb::WriteBatch batch;
  batch.Put("batched", "v");
  for (int kind = 0; kind < 3; kind++) {
    int plain = 0;  // a periodic checkpoint may come in between, but not each time
    for (int attempt = 0; attempt < 20; attempt++) {
      for (const bool sync : {false, true}) {
        WriteOptions options;
        options.sync = sync;
        const unsigned long before = checkpoints(db.get());
        CHECK_OK(kind == 0 ? db->Put(options, "k", "v") : (kind == 1 ? db->Delete(options, "k") : db->Write(options, &batch)));
        const unsigned long after = checkpoints(db.get());
        if (sync) CHECK(after > before);
        plain += !sync && after == before;
      }
    }
    CHECK(plain > 10);
  }
}

#endif

int main(int count, char** arguments) {
  const std::string directory = directory_of(count, arguments);
  filter_policies(directory);
  compression(directory);
#if defined(CANTLE_LEVELDB) && !defined(LINKED_WITH_LEVELDB)
  memory(directory + "/memory");
  layout(directory + "/layout");
  syncs(directory + "/syncs");
#endif
}
