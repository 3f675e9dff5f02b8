// leveldb::Slice: a pointer to bytes that the slice does not own, and their length.
//
// The bytes must outlive the slice. Const methods may be called from several threads at once.

#ifndef CANTLE_LEVELDB_SLICE_H
#define CANTLE_LEVELDB_SLICE_H

#include <cassert>
#include <cstddef>
#include <cstring>
#include <string>

#include "leveldb/export.h"

namespace leveldb {

class LEVELDB_EXPORT Slice {
 public:
  CANTLE_LEVELDB_INLINE Slice() : data_(""), size_(0) {}
  CANTLE_LEVELDB_INLINE Slice(const char* data, size_t size) : data_(data), size_(size) {}
  // Implicit on purpose: programs pass strings as slices.
  CANTLE_LEVELDB_INLINE Slice(const std::string& text) : data_(text.data()), size_(text.size()) {}
  CANTLE_LEVELDB_INLINE Slice(const char* text) : data_(text), size_(std::strlen(text)) {}

  Slice(const Slice&) = default;
  Slice& operator=(const Slice&) = default;

  CANTLE_LEVELDB_INLINE const char* data() const { return data_; }
  CANTLE_LEVELDB_INLINE size_t size() const { return size_; }
  CANTLE_LEVELDB_INLINE bool empty() const { return size_ == 0; }

  CANTLE_LEVELDB_INLINE char operator[](size_t at) const {
    assert(at < size_);
    return data_[at];
  }

  CANTLE_LEVELDB_INLINE void clear() { *this = Slice(); }

  CANTLE_LEVELDB_INLINE void remove_prefix(size_t count) {
    assert(count <= size_);
    data_ += count;
    size_ -= count;
  }

  CANTLE_LEVELDB_INLINE std::string ToString() const { return size_ == 0 ? std::string() : std::string(data_, size_); }

  // Negative, zero or positive if this slice is before, equal to or after `other` in the order of
  // unsigned bytes.
  CANTLE_LEVELDB_INLINE int compare(const Slice& other) const {
    const size_t common = size_ < other.size_ ? size_ : other.size_;
    const int order = common == 0 ? 0 : std::memcmp(data_, other.data_, common);
    if (order != 0) return order;
    return size_ < other.size_ ? -1 : (size_ > other.size_ ? 1 : 0);
  }

  CANTLE_LEVELDB_INLINE bool starts_with(const Slice& prefix) const {
    return size_ >= prefix.size_ && (prefix.size_ == 0 || std::memcmp(data_, prefix.data_, prefix.size_) == 0);
  }

 private:
  const char* data_;
  size_t size_;
};

CANTLE_LEVELDB_INLINE bool operator==(const Slice& a, const Slice& b) { return a.size() == b.size() && a.compare(b) == 0; }

CANTLE_LEVELDB_INLINE bool operator!=(const Slice& a, const Slice& b) { return !(a == b); }

}  // namespace leveldb

#endif
