// leveldb::FilterPolicy: how LevelDB summarises the keys of a block so that it need not read blocks in vain.
//
// The object belongs to the program and must outlive the stores that are opened with it. Its methods are called by several threads at
// once and must not throw. A Cantle store has Bloom filters of its own; docs/bindings says what it takes of the policy.

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

  // Change the name whenever filters made before cannot be read any more.
  virtual const char* Name() const = 0;

  // Appends to *dst a filter of keys[0, n).
  virtual void CreateFilter(const Slice* keys, int n, std::string* dst) const = 0;

  // True if `key` was among the keys that `filter` was made of; rarely true if it was not.
  virtual bool KeyMayMatch(const Slice& key, const Slice& filter) const = 0;

 private:
  friend class cantle_detail::Bloom;
  friend class cantle_detail::NativeOptions;
  leveldb_filterpolicy_t* native_;  // null for a policy of the program's own
};

// A Bloom filter with that many bits for each key; 10 give about 1 % of false matches. The caller deletes it, after the stores.
CANTLE_LEVELDB_INLINE const FilterPolicy* NewBloomFilterPolicy(int bits_per_key);

}  // namespace leveldb

#include "leveldb/cantle/bloom.h"

#endif
