// leveldb::Comparator: a total order of keys.
//
// A store remembers its comparator's name and does not open with another. The object belongs to the program and must outlive the
// stores that are opened with it. Its methods are called by several threads at once and must not throw.

#ifndef CANTLE_LEVELDB_COMPARATOR_H
#define CANTLE_LEVELDB_COMPARATOR_H

#include <string>

#include "leveldb/export.h"
#include "leveldb/slice.h"

namespace leveldb {

namespace cantle_detail {
class Bytewise;
class NativeOptions;
}  // namespace cantle_detail

class LEVELDB_EXPORT Comparator {
 public:
  CANTLE_LEVELDB_INLINE Comparator() : bytewise_(false) {}
  CANTLE_LEVELDB_INLINE virtual ~Comparator() {}

  // Negative, zero or positive as `a` is before, equal to or behind `b`.
  virtual int Compare(const Slice& a, const Slice& b) const = 0;

  // Change the name whenever the order changes. Names that begin with "leveldb." are reserved.
  virtual const char* Name() const = 0;

  // For LevelDB's index blocks: may make *start shorter, as long as it stays in [*start, limit). Never called by a Cantle store.
  virtual void FindShortestSeparator(std::string* start, const Slice& limit) const = 0;

  // Likewise: may make *key shorter, but not smaller.
  virtual void FindShortSuccessor(std::string* key) const = 0;

 private:
  friend class cantle_detail::Bytewise;
  friend class cantle_detail::NativeOptions;
  bool bytewise_;  // the store compares bytes itself, without calling back
};

namespace cantle_detail {

class LEVELDB_EXPORT Bytewise final : public Comparator {
 public:
  Bytewise() { bytewise_ = true; }

  int Compare(const Slice& a, const Slice& b) const override { return a.compare(b); }
  const char* Name() const override { return "leveldb.BytewiseComparator"; }

  void FindShortestSeparator(std::string* start, const Slice& limit) const override {
    size_t at = 0;
    while (at < start->size() && at < limit.size() && (*start)[at] == limit[at]) at++;
    // One is a prefix of the other: there is nothing between them that is shorter.
    if (at == start->size() || at == limit.size()) return;
    const unsigned byte = static_cast<unsigned char>((*start)[at]);
    if (byte + 1 < static_cast<unsigned char>(limit[at])) {
      start->resize(at + 1);
      (*start)[at] = static_cast<char>(byte + 1);
    }
  }

  void FindShortSuccessor(std::string* key) const override {
    const size_t at = key->find_first_not_of('\xff');
    if (at == std::string::npos) return;
    key->resize(at + 1);
    (*key)[at] = static_cast<char>(static_cast<unsigned char>((*key)[at]) + 1);
  }
};

}  // namespace cantle_detail

// The order of unsigned bytes. The object belongs to the library.
CANTLE_LEVELDB_INLINE const Comparator* BytewiseComparator() {
  // Never destroyed: stores in static objects may outlive it otherwise.
  static const Comparator* const comparator = new cantle_detail::Bytewise;
  return comparator;
}

}  // namespace leveldb

#endif
