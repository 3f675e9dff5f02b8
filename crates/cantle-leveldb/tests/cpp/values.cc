// Slice, Status, and the order of bytes.

#include <leveldb/comparator.h>
#include <leveldb/slice.h>
#include <leveldb/status.h>

#include <type_traits>
#include <utility>

#include "check.h"

using leveldb::Slice;
using leveldb::Status;

static void slices() {
  CHECK(Slice().empty() && Slice().size() == 0 && Slice().data() != nullptr);
  const std::string text("a\0b", 3);
  Slice slice = text;
  CHECK(slice.size() == 3 && slice[1] == '\0' && slice.ToString() == text);
  CHECK(slice == Slice("a\0b", 3) && slice != Slice("a"));
  CHECK(Slice("abc").compare("abd") < 0 && Slice("abc").compare("ab") > 0 && Slice("abc").compare("abc") == 0);
  CHECK(Slice("\x7f").compare("\x80") < 0);
  CHECK(Slice("abc").starts_with("ab") && Slice("abc").starts_with("") && !Slice("ab").starts_with("abc"));
  slice.remove_prefix(2);
  CHECK(slice == "b");
  slice.clear();
  CHECK(slice.empty() && slice == Slice());
  CHECK(Slice(nullptr, 0).ToString().empty());
}

static void statuses() {
  CHECK(Status().ok() && Status::OK().ToString() == "OK");
  static_assert(std::is_nothrow_move_constructible<Status>::value, "vectors move it");
  static_assert(sizeof(Status) == sizeof(void*), "as cheap as LevelDB's");

  struct Case {
    Status status;
    const char* text;
    bool is[5];
  };
  const Case cases[] = {
      {Status::NotFound("a"), "NotFound: a", {true, false, false, false, false}},
      {Status::Corruption("a", "b"), "Corruption: a: b", {false, true, false, false, false}},
      {Status::NotSupported("a", ""), "Not implemented: a", {false, false, true, false, false}},
      {Status::InvalidArgument("", "b"), "Invalid argument: : b", {false, false, false, true, false}},
      {Status::IOError(Slice()), "IO error: ", {false, false, false, false, true}},
  };
  for (const Case& one : cases) {
    const Status& status = one.status;
    CHECK(!status.ok());
    CHECK_TEXT(status.ToString(), one.text);
    CHECK(status.IsNotFound() == one.is[0]);
    CHECK(status.IsCorruption() == one.is[1]);
    CHECK(status.IsNotSupportedError() == one.is[2]);
    CHECK(status.IsInvalidArgument() == one.is[3]);
    CHECK(status.IsIOError() == one.is[4]);
  }

  Status first = Status::IOError("disk", "full");
  Status second = first;
  CHECK_TEXT(second.ToString(), "IO error: disk: full");
  const Status third = std::move(first);
  CHECK_TEXT(third.ToString(), "IO error: disk: full");
  second = Status::OK();
  CHECK(second.ok() && !third.ok());
  second = third;
  const Status& same = second;
  second = same;
  CHECK_TEXT(second.ToString(), third.ToString());
}

static void bytes() {
  const leveldb::Comparator* order = leveldb::BytewiseComparator();
  CHECK(order == leveldb::BytewiseComparator());
  CHECK_TEXT(order->Name(), "leveldb.BytewiseComparator");
  CHECK(order->Compare("a", "b") < 0 && order->Compare("b", "a") > 0 && order->Compare("a", "a") == 0);

  const struct {
    const char *start, *limit, *separator;
  } separators[] = {
      {"abcdef", "abzzzz", "abd"}, {"abc", "abd", "abc"}, {"abc", "abcdef", "abc"}, {"abcdef", "abc", "abcdef"}, {"a", "z", "b"},
      {"\xff\xff", "\xff\xff\x01", "\xff\xff"}};
  for (const auto& one : separators) {
    std::string start = one.start;
    order->FindShortestSeparator(&start, one.limit);
    CHECK_TEXT(start, one.separator);
  }
  const struct {
    const char *key, *successor;
  } successors[] = {{"abc", "b"}, {"\xff\xff", "\xff\xff"}, {"\xff"
                                                            "ab",
                                                            "\xff"
                                                            "b"},
                    {"", ""}};
  for (const auto& one : successors) {
    std::string key = one.key;
    order->FindShortSuccessor(&key);
    CHECK_TEXT(key, one.successor);
  }
}

int main(int count, char** arguments) {
  directory_of(count, arguments);
  slices();
  statuses();
  bytes();
}
