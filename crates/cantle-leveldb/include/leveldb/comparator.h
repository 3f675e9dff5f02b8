// leveldb::Comparator: a total order of keys.
//
// A store stores its comparator's name and cannot be opened with another one. The object belongs to
// the program and must outlive the stores that are opened with it. Several threads may call its
// methods at once, and they must not throw.

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

  // Negative, zero or positive if `a` is before, equal to or after `b`.
  virtual int Compare(const Slice& a, const Slice& b) const = 0;

  // The name must change whenever the order changes. Names that begin with "leveldb." are reserved.
  virtual const char* Name() const = 0;

  // For LevelDB's index blocks: may make *start shorter, if it stays in [*start, limit). A Cantle
  // store never calls it.
  virtual void FindShortestSeparator(std::string* start, const Slice& limit) const = 0;

  // For LevelDB's index blocks: may make *key shorter, but not smaller.
  virtual void FindShortSuccessor(std::string* key) const = 0;

 private:
  friend class cantle_detail::Bytewise;
  friend class cantle_detail::NativeOptions;
  bool bytewise_;  // true if the store compares bytes itself, without a callback
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
    // One key is a prefix of the other: there is no shorter key between them.
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
  // Never destroyed: stores in static objects could outlive it otherwise.
  static const Comparator* const comparator = new cantle_detail::Bytewise;
  return comparator;
}

}  // namespace leveldb

#endif
