// leveldb::DB: every method, and the errors of opening.

#include <leveldb/db.h>
#include <leveldb/env.h>
#include <leveldb/write_batch.h>

#include <vector>

#include "check.h"

using leveldb::DB;
using leveldb::Iterator;
using leveldb::Options;
using leveldb::ReadOptions;
using leveldb::Slice;
using leveldb::Status;
using leveldb::WriteOptions;

static std::unique_ptr<DB> open(const std::string& name) {
  Options options;
  options.create_if_missing = true;
  DB* db = nullptr;
  CHECK_OK(DB::Open(options, name, &db));
  return std::unique_ptr<DB>(db);
}

static std::string get(DB* db, const Slice& key, const ReadOptions& options = ReadOptions()) {
  std::string value = "untouched";
  const Status status = db->Get(options, key, &value);
  if (status.IsNotFound()) {
    CHECK(value == "untouched");
    return "(none)";
  }
  CHECK_OK(status);
  return value;
}

static std::string forwards(DB* db, const ReadOptions& options = ReadOptions()) {
  std::string all;
  std::unique_ptr<Iterator> at(db->NewIterator(options));
  CHECK(!at->Valid());
  for (at->SeekToFirst(); at->Valid(); at->Next()) all += at->key().ToString() + "=" + at->value().ToString() + " ";
  CHECK_OK(at->status());
  return all;
}

static std::string backwards(DB* db) {
  std::string all;
  std::unique_ptr<Iterator> at(db->NewIterator(ReadOptions()));
  for (at->SeekToLast(); at->Valid(); at->Prev()) all += at->key().ToString() + " ";
  CHECK_OK(at->status());
  return all;
}

static void opening(const std::string& name) {
  Options options;
  DB* db = reinterpret_cast<DB*>(1);
  Status status = DB::Open(options, name, &db);
  CHECK(status.IsInvalidArgument() && db == nullptr);  // it does not exist

  options.create_if_missing = true;
  CHECK_OK(DB::Open(options, name, &db));
  DB* second = nullptr;
  status = DB::Open(options, name, &second);
  CHECK(status.IsIOError() && second == nullptr);  // open already, by the first
  delete db;

  options.error_if_exists = true;
  status = DB::Open(options, name, &db);
  CHECK(status.IsInvalidArgument() && db == nullptr);

  options.error_if_exists = false;
  CHECK_OK(leveldb::WriteStringToFile(leveldb::Env::Default(), "x", name + ".file"));
  CHECK(DB::Open(options, name + ".file/store", &db).IsIOError() && db == nullptr);

  CHECK_OK(leveldb::DestroyDB(name, Options()));
  CHECK_OK(leveldb::DestroyDB(name, Options()));
  options.create_if_missing = false;
  CHECK(DB::Open(options, name, &db).IsInvalidArgument());
}

static void reading_and_writing(const std::string& name) {
  std::unique_ptr<DB> db = open(name);
  const WriteOptions plain;
  WriteOptions synced;
  synced.sync = true;

  CHECK_OK(db->Put(plain, "b", "2"));
  CHECK_OK(db->Put(synced, "a", "1"));
  CHECK_OK(db->Put(plain, "c", ""));
  CHECK_TEXT(get(db.get(), "a"), "1");
  CHECK_TEXT(get(db.get(), "c"), "");
  CHECK_TEXT(get(db.get(), "d"), "(none)");
  CHECK_TEXT(db->Get(ReadOptions(), "d", std::unique_ptr<std::string>(new std::string).get()).ToString(), "NotFound: ");
  CHECK_OK(db->Delete(plain, "b"));
  CHECK_OK(db->Delete(synced, "no such key"));
  CHECK_TEXT(get(db.get(), "b"), "(none)");

  // Any bytes, and empty slices with a null pointer.
  const std::string zeros(3, '\0');
  CHECK_OK(db->Put(plain, zeros, zeros));
  CHECK_TEXT(get(db.get(), zeros), zeros);
  CHECK_OK(db->Put(plain, Slice(nullptr, 0), Slice(nullptr, 0)));
  CHECK_TEXT(get(db.get(), ""), "");
  CHECK_OK(db->Delete(plain, ""));
  CHECK_OK(db->Delete(plain, zeros));

  const std::string large(3 << 20, 'x');
  CHECK_OK(db->Put(plain, "large", large));
  CHECK_TEXT(get(db.get(), "large"), large);
  CHECK_OK(db->Delete(plain, "large"));

  leveldb::WriteBatch batch;
  batch.Delete("a");
  batch.Put("b", "2");
  batch.Put("d", "4");
  batch.Put("d", "5");
  CHECK_OK(db->Write(synced, &batch));
  CHECK_TEXT(forwards(db.get()), "b=2 c= d=5 ");
  CHECK_TEXT(backwards(db.get()), "d c b ");

  ReadOptions checked;
  checked.verify_checksums = true;
  checked.fill_cache = false;
  CHECK_TEXT(get(db.get(), "d", checked), "5");

  db.reset();
  db = open(name);
  CHECK_TEXT(forwards(db.get(), checked), "b=2 c= d=5 ");
}

static void iterators(const std::string& name) {
  std::unique_ptr<DB> db = open(name);
  std::unique_ptr<Iterator> empty(db->NewIterator(ReadOptions()));
  empty->SeekToFirst();
  CHECK(!empty->Valid());
  empty->SeekToLast();
  CHECK(!empty->Valid());
  empty->Seek("a");
  CHECK(!empty->Valid());
  empty.reset();

  for (int i = 0; i < 1000; i++) {
    char key[16];
    std::snprintf(key, sizeof key, "%04d", i * 2);
    CHECK_OK(db->Put(WriteOptions(), key, std::to_string(i)));
  }
  std::unique_ptr<Iterator> at(db->NewIterator(ReadOptions()));
  // The snapshot does not change.
  CHECK_OK(db->Put(WriteOptions(), "0001", "later"));
  at->Seek("0001");
  CHECK(at->Valid() && at->key() == "0002" && at->value() == "1");
  at->Prev();
  CHECK(at->Valid() && at->key() == "0000");
  at->Next();
  at->Next();
  CHECK(at->Valid() && at->key() == "0004");
  at->Prev();
  CHECK(at->Valid() && at->key() == "0002");
  at->SeekToFirst();
  at->Prev();
  CHECK(!at->Valid());
  at->SeekToLast();
  CHECK(at->Valid() && at->key() == "1998");
  at->Next();
  CHECK(!at->Valid());
  at->Seek("1999");
  CHECK(!at->Valid());
  at->Seek("");
  CHECK(at->Valid() && at->key() == "0000");
  int seen = 0;
  for (; at->Valid(); at->Next()) seen++;
  CHECK(seen == 1000);
  CHECK_OK(at->status());

  std::vector<int> order;
  const auto note = [](void* list, void* number) {
    static_cast<std::vector<int>*>(list)->push_back(*static_cast<int*>(number));
  };
  int one = 1, two = 2;
  at->RegisterCleanup(note, &order, &one);
  at->RegisterCleanup(note, &order, &two);
  CHECK(order.empty());
  at.reset();
  CHECK(order.size() == 2 && order[0] + order[1] == 3);

  at.reset(leveldb::NewEmptyIterator());
  at->SeekToFirst();
  CHECK(!at->Valid() && at->status().ok());
  at.reset(leveldb::NewErrorIterator(Status::Corruption("a", "b")));
  at->Seek("a");
  CHECK(!at->Valid());
  CHECK_TEXT(at->status().ToString(), "Corruption: a: b");
}

static void snapshots(const std::string& name) {
  std::unique_ptr<DB> db = open(name);
  CHECK_OK(db->Put(WriteOptions(), "a", "1"));
  const leveldb::Snapshot* first = db->GetSnapshot();
  CHECK_OK(db->Put(WriteOptions(), "a", "2"));
  const leveldb::Snapshot* second = db->GetSnapshot();
  CHECK_OK(db->Delete(WriteOptions(), "a"));
  CHECK_OK(db->Put(WriteOptions(), "b", "3"));

  ReadOptions then;
  then.snapshot = first;
  CHECK_TEXT(get(db.get(), "a", then), "1");
  CHECK_TEXT(forwards(db.get(), then), "a=1 ");
  then.snapshot = second;
  then.verify_checksums = true;
  CHECK_TEXT(get(db.get(), "a", then), "2");
  CHECK_TEXT(get(db.get(), "b", then), "(none)");
  CHECK_TEXT(forwards(db.get()), "b=3 ");

  std::unique_ptr<Iterator> at(db->NewIterator(then));
  db->ReleaseSnapshot(second);
  at->SeekToFirst();
  CHECK(at->Valid() && at->value() == "2");  // an iterator does not need its snapshot any more
  at.reset();
  then.snapshot = first;
  CHECK_TEXT(get(db.get(), "a", then), "1");
  db->ReleaseSnapshot(first);
}

static void upkeep(const std::string& name) {
  std::unique_ptr<DB> db = open(name);
  for (int i = 0; i < 2000; i++) CHECK_OK(db->Put(WriteOptions(), "key" + std::to_string(i), std::string(500, char('a' + i % 26))));

  const Slice from("key1"), to("key2");
  db->CompactRange(&from, &to);
  db->CompactRange(nullptr, &to);
  db->CompactRange(&from, nullptr);
  db->CompactRange(nullptr, nullptr);
  CHECK_TEXT(get(db.get(), "key7"), std::string(500, 'h'));

  const leveldb::Range ranges[] = {leveldb::Range("key", "kez"), leveldb::Range("a", "b"), leveldb::Range()};
  uint64_t sizes[] = {1, 1, 1};
  db->GetApproximateSizes(ranges, 3, sizes);
  CHECK(sizes[0] > 10000 && sizes[0] < 10000000);
  CHECK(sizes[1] == 0 && sizes[2] == 0);
  db->GetApproximateSizes(ranges, 0, nullptr);

  std::string value = "untouched";
  for (const char* property : {"leveldb.stats", "leveldb.sstables", "leveldb.num-files-at-level0", "leveldb.approximate-memory-usage"}) {
    CHECK(db->GetProperty(property, &value));
  }
  CHECK(std::strtoull(value.c_str(), nullptr, 10) > 0);
  for (const Slice property : {Slice("leveldb.nonsense"), Slice("stats"), Slice(), Slice("leveldb.stats\0", 14)}) {
    value = "untouched";
    CHECK(!db->GetProperty(property, &value) && value.empty());
  }

  db.reset();
  CHECK_OK(leveldb::RepairDB(name, Options()));
  db = open(name);
  int left = 0;
  std::unique_ptr<Iterator> at(db->NewIterator(ReadOptions()));
  for (at->SeekToFirst(); at->Valid(); at->Next()) left++;
  CHECK(left == 2000);
}

static void bad_calls(const std::string& name) {
#if defined(CANTLE_LEVELDB)
  Options options;
  options.create_if_missing = true;
  CHECK(DB::Open(options, name, nullptr).IsInvalidArgument());
  DB* none = nullptr;
  CHECK(DB::Open(options, std::string("a\0b", 3), &none).IsInvalidArgument() && none == nullptr);
  CHECK(leveldb::DestroyDB(std::string("a\0b", 3), options).IsInvalidArgument());
  std::unique_ptr<DB> db = open(name);
  CHECK(db->Write(WriteOptions(), nullptr).IsInvalidArgument());
  db->ReleaseSnapshot(nullptr);
  CHECK(db->Get(ReadOptions(), "a", nullptr).IsInvalidArgument());
  CHECK(!db->GetProperty("leveldb.stats", nullptr));
  uint64_t sizes[] = {7, 7};
  db->GetApproximateSizes(nullptr, 2, sizes);
  CHECK(sizes[0] == 0 && sizes[1] == 0);
  const leveldb::Range range("a", "b");
  db->GetApproximateSizes(&range, 1, nullptr);
  CHECK(leveldb::WriteBatch().Iterate(nullptr).IsInvalidArgument());
#if !defined(LINKED_WITH_LEVELDB)  // LevelDB would crash
  CHECK_OK(db->Put(WriteOptions(), "a", "1"));
  ReadOptions then;
  then.snapshot = db->GetSnapshot();
  db->ReleaseSnapshot(then.snapshot);
  db->ReleaseSnapshot(then.snapshot);
  std::string value;
  CHECK(db->Get(then, "a", &value).IsInvalidArgument());
  std::unique_ptr<Iterator> at(db->NewIterator(then));
  at->SeekToFirst();
  CHECK(!at->Valid() && at->status().IsInvalidArgument());

  std::unique_ptr<DB> other = open(name + ".other");
  then.snapshot = other->GetSnapshot();
  CHECK(db->Get(then, "a", &value).IsInvalidArgument());
  other->ReleaseSnapshot(then.snapshot);

  CHECK(db->Put(WriteOptions(), std::string((1 << 20) + 1, 'k'), "too long a key").IsInvalidArgument());
  CHECK_TEXT(get(db.get(), "a"), "1");

  at.reset(db->NewIterator(ReadOptions()));
  at->SeekToFirst();
  at->Next();
  at->Next();  // with no pair at the position
  at->Prev();
  CHECK(!at->Valid() && at->key().empty() && at->value().empty());
  at->SeekToFirst();
  CHECK(at->Valid() && at->key() == "a");
  db.reset();
  at->Next();
  at->SeekToFirst();
  CHECK(!at->Valid() && !at->status().ok());
#endif
#else
  (void)name;
#endif
}

// With Cantle's headers, a program asks for Cantle's own options in this way.
static void extensions(const std::string& name) {
  Options options;
  options.create_if_missing = true;
#if defined(CANTLE_LEVELDB)
  options.cantle_memory_budget = 32 << 20;
  options.cantle_layout = "chunk";
#endif
  DB* db = nullptr;
  const Status status = DB::Open(options, name, &db);
#if defined(CANTLE_LEVELDB) && defined(LINKED_WITH_LEVELDB)
  CHECK(status.IsNotSupportedError() && db == nullptr);
#else
  CHECK_OK(status);
  CHECK_OK(db->Put(WriteOptions(), "a", "1"));
  delete db;
#endif
#if defined(CANTLE_LEVELDB)
  options.cantle_memory_budget = 0;
  options.cantle_layout = "no such layout";
  CHECK(!DB::Open(options, name, &db).ok() && db == nullptr);
#endif
}

static void backups(const std::string& name) {
#if defined(CANTLE_LEVELDB)
  std::unique_ptr<DB> db = open(name);
  CHECK_OK(db->Put(WriteOptions(), "a", "1"));
  const std::string backup = name + ".backup";
  const Status status = db->CantleBackup(backup);
#if defined(LINKED_WITH_LEVELDB)
  CHECK(status.IsNotSupportedError());
#else
  CHECK_OK(status);
  CHECK_OK(db->Put(WriteOptions(), "a", "later"));
  CHECK(db->CantleBackup(backup).IsInvalidArgument());  // it exists
  CHECK(db->CantleBackup(std::string("a\0b", 3)).IsInvalidArgument());
  CHECK_OK(leveldb::WriteStringToFile(leveldb::Env::Default(), "x", name + ".file"));
  CHECK(db->CantleBackup(name + ".file/backup").IsIOError());
  CHECK_TEXT(get(open(backup).get(), "a"), "1");
  CHECK_TEXT(get(db.get(), "a"), "later");
#endif
#else
  (void)name;
#endif
}

int main(int count, char** arguments) {
  const std::string directory = directory_of(count, arguments);
  static_assert(leveldb::kMajorVersion == 1 && leveldb::kMinorVersion == 23, "as LevelDB 1.23");
  opening(directory + "/opening");
  reading_and_writing(directory + "/reading_and_writing");
  iterators(directory + "/iterators");
  snapshots(directory + "/snapshots");
  upkeep(directory + "/upkeep");
  bad_calls(directory + "/bad_calls");
  extensions(directory + "/extensions");
  backups(directory + "/backups");
}
