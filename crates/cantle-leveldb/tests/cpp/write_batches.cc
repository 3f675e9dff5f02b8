// WriteBatch: its handler, copies, appending, and its approximate size.

#include <leveldb/db.h>
#include <leveldb/write_batch.h>

#include <stdexcept>

#include "check.h"

using leveldb::Slice;
using leveldb::WriteBatch;

class Printer : public WriteBatch::Handler {
 public:
  void Put(const Slice& key, const Slice& value) override { text += "Put(" + key.ToString() + ", " + value.ToString() + ")"; }
  void Delete(const Slice& key) override { text += "Delete(" + key.ToString() + ")"; }
  std::string text;
};

static std::string print(const WriteBatch& batch) {
  Printer printer;
  CHECK_OK(batch.Iterate(&printer));
  return printer.text;
}

// Throws in the middle, as a program may.
class Thrower : public WriteBatch::Handler {
 public:
  void Put(const Slice&, const Slice&) override {
    if (++calls == 2) throw std::runtime_error("enough");
  }
  void Delete(const Slice&) override { calls++; }
  int calls = 0;
};

int main(int count, char** arguments) {
  const std::string directory = directory_of(count, arguments);
  WriteBatch batch;
  CHECK_TEXT(print(batch), "");
  CHECK(batch.ApproximateSize() == 12);
  batch.Put("foo", "bar");
  CHECK(batch.ApproximateSize() == 21);
  batch.Delete("box");
  batch.Put(Slice(nullptr, 0), Slice(nullptr, 0));
  CHECK_TEXT(print(batch), "Put(foo, bar)Delete(box)Put(, )");
  CHECK(batch.ApproximateSize() == 29);
  batch.Put(std::string(127, 'k'), std::string(128, 'v'));
  batch.Delete(std::string(20000, 'k'));
  CHECK(batch.ApproximateSize() == 29 + (1 + 1 + 127 + 2 + 128) + (1 + 3 + 20000));

  WriteBatch copy = batch;
  CHECK_TEXT(print(copy), print(batch));
  CHECK(copy.ApproximateSize() == batch.ApproximateSize());
  copy.Clear();
  CHECK_TEXT(print(copy), "");
  CHECK(copy.ApproximateSize() == 12 && batch.ApproximateSize() > 12);
  copy.Put("a", "1");
  batch = copy;
  CHECK_TEXT(print(batch), "Put(a, 1)");
  WriteBatch& same = batch;
  batch = same;
  CHECK_TEXT(print(batch), "Put(a, 1)");

  copy.Delete("b");
  batch.Append(copy);
  CHECK_TEXT(print(batch), "Put(a, 1)Put(a, 1)Delete(b)");
  CHECK(batch.ApproximateSize() == 12 + 2 * 5 + 3);
#if defined(CANTLE_LEVELDB)  // LevelDB's own appends a string to itself
  batch.Append(batch);
  CHECK_TEXT(print(batch), "Put(a, 1)Put(a, 1)Delete(b)Put(a, 1)Put(a, 1)Delete(b)");
#endif

  Thrower thrower;
  bool thrown = false;
  try {
    batch.Iterate(&thrower);
  } catch (const std::runtime_error& error) {
    thrown = std::string(error.what()) == "enough";
  }
  CHECK(thrown && thrower.calls == 2);

  // A batch may be written more than once, and to several stores.
  for (const char* name : {"/first", "/second"}) {
    leveldb::Options options;
    options.create_if_missing = true;
    leveldb::DB* opened = nullptr;
    CHECK_OK(leveldb::DB::Open(options, directory + name, &opened));
    const std::unique_ptr<leveldb::DB> db(opened);
    for (int i = 0; i < 2; i++) CHECK_OK(db->Write(leveldb::WriteOptions(), &copy));
    std::string value;
    CHECK_OK(db->Get(leveldb::ReadOptions(), "a", &value));
    CHECK_TEXT(value, "1");
    WriteBatch empty;
    CHECK_OK(db->Write(leveldb::WriteOptions(), &empty));
  }
  CHECK_TEXT(print(copy), "Put(a, 1)Delete(b)");
}
