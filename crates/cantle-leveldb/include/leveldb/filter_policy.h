// leveldb::FilterPolicy: a summary of the keys of a block, by which LevelDB avoids reading blocks
// in vain.
//
// The object belongs to the program and must outlive the stores that are opened with it. Several
// threads may call its methods at once, and they must not throw. A Cantle store has Bloom filters
// of its own; docs/bindings describes the effect that the policy has.

#ifndef CANTLE_LEVELDB_FILTER_POLICY_H
#define CANTLE_LEVELDB_FILTER_POLICY_H

#include <string>

#include "leveldb/export.h"
#include "leveldb/slice.h"

struct leveldb_filterpolicy_t;

namespace leveldb {

namespace cantle_detail {
class Bloom;
class NativeOptions;
}  // namespace cantle_detail

class LEVELDB_EXPORT FilterPolicy {
 public:
  CANTLE_LEVELDB_INLINE FilterPolicy() : native_(nullptr) {}
  CANTLE_LEVELDB_INLINE virtual ~FilterPolicy() {}

  // The name must change whenever filters made before cannot be read any more.
  virtual const char* Name() const = 0;

  // Appends to *dst a filter of keys[0, n).
  virtual void CreateFilter(const Slice* keys, int n, std::string* dst) const = 0;

  // True if `key` was among the keys of `filter`; rarely true if it was not.
  virtual bool KeyMayMatch(const Slice& key, const Slice& filter) const = 0;

 private:
  friend class cantle_detail::Bloom;
  friend class cantle_detail::NativeOptions;
  leveldb_filterpolicy_t* native_;  // null for a policy class of the program
};

// A Bloom filter with this number of bits per key; 10 give about 1 % of false matches. The caller
// deletes it, after the stores.
CANTLE_LEVELDB_INLINE const FilterPolicy* NewBloomFilterPolicy(int bits_per_key);

}  // namespace leveldb

#include "leveldb/cantle/bloom.h"

#endif
