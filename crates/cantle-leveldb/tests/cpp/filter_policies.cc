// FilterPolicy: Bloom filters, whose bytes are LevelDB's, and a policy of the program's own.

#include <leveldb/db.h>
#include <leveldb/filter_policy.h>

#include <atomic>
#include <vector>

#include "check.h"

using leveldb::FilterPolicy;
using leveldb::Slice;

static std::string filter_of(const FilterPolicy* policy, const std::vector<std::string>& keys) {
  const std::vector<Slice> slices(keys.begin(), keys.end());
  std::string filter = "before";
  policy->CreateFilter(slices.data(), static_cast<int>(slices.size()), &filter);
  CHECK(filter.compare(0, 6, "before") == 0);
  return filter.substr(6);
}

static std::string hex(const std::string& bytes) {
  std::string digits;
  for (const char byte : bytes) {
    char two[3];
    std::snprintf(two, sizeof two, "%02x", static_cast<unsigned>(static_cast<unsigned char>(byte)));
    digits += two;
  }
  return digits;
}

static void bloom() {
  const std::unique_ptr<const FilterPolicy> policy(leveldb::NewBloomFilterPolicy(10));
  CHECK_TEXT(policy->Name(), "leveldb.BuiltinBloomFilter2");

  // Printed by LevelDB 1.23: filters that LevelDB wrote stay readable.
  CHECK_TEXT(hex(filter_of(policy.get(), {})), "000000000000000006");
  CHECK_TEXT(hex(filter_of(policy.get(), {"hello", "world"})), "114000414410401006");
  CHECK_TEXT(hex(filter_of(policy.get(), {"", "a", "ab", "abc", "abcd", "\xff\xfe\xfd", "a longer key than any other one"})),
             "e009bdc88e8a3b899206");

  std::vector<std::string> keys;
  for (int i = 0; i < 10000; i++) keys.push_back("key" + std::to_string(i));
  const std::string filter = filter_of(policy.get(), keys);
  CHECK(filter.size() < 10000 * 10 / 8 + 10);
  for (const std::string& key : keys) CHECK(policy->KeyMayMatch(key, filter));
  int matches = 0;
  for (int i = 0; i < 10000; i++) matches += policy->KeyMayMatch("other" + std::to_string(i), filter);
  CHECK(matches < 200);
  CHECK(!policy->KeyMayMatch("a", "") && !policy->KeyMayMatch("a", "x"));
}

class Counting : public FilterPolicy {
 public:
  Counting() : inner_(leveldb::NewBloomFilterPolicy(8)) {}
  const char* Name() const override { return "test.Counting"; }
  void CreateFilter(const Slice* keys, int n, std::string* dst) const override {
    made++;
    inner_->CreateFilter(keys, n, dst);
  }
  bool KeyMayMatch(const Slice& key, const Slice& filter) const override {
    asked++;
    return inner_->KeyMayMatch(key, filter);
  }
  mutable std::atomic<int> made{0}, asked{0};

 private:
  std::unique_ptr<const FilterPolicy> inner_;
};

static void with_store(const std::string& name, const FilterPolicy* policy) {
  leveldb::Options options;
  options.create_if_missing = true;
  options.filter_policy = policy;
  for (int round = 0; round < 2; round++) {
    leveldb::DB* opened = nullptr;
    CHECK_OK(leveldb::DB::Open(options, name, &opened));
    const std::unique_ptr<leveldb::DB> db(opened);
    for (int i = 0; i < 1000; i++) CHECK_OK(db->Put(leveldb::WriteOptions(), std::to_string(i * 2), "x"));
    db->CompactRange(nullptr, nullptr);
    std::string value;
    for (int i = 0; i < 2000; i++) CHECK(db->Get(leveldb::ReadOptions(), std::to_string(i), &value).ok() == (i % 2 == 0));
  }
}

int main(int count, char** arguments) {
  const std::string directory = directory_of(count, arguments);
  bloom();
  const std::unique_ptr<const FilterPolicy> policy(leveldb::NewBloomFilterPolicy(10));
  with_store(directory + "/bloom", policy.get());
  const Counting counting;
  with_store(directory + "/counting", &counting);
#if !defined(CANTLE_LEVELDB) || defined(LINKED_WITH_LEVELDB)
  CHECK(counting.made > 0 && counting.asked > 0);
#endif
}
