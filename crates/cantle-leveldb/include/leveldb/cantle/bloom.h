// NewBloomFilterPolicy of leveldb/filter_policy.h.
//
// Filters are identical to LevelDB's, so a program may read those that LevelDB wrote: a bit array
// of whole bytes, followed by one byte with the number of probes per key.

#ifndef CANTLE_LEVELDB_BLOOM_H
#define CANTLE_LEVELDB_BLOOM_H

#include <cstddef>
#include <cstdint>
#include <string>

#include "leveldb/c.h"
#include "leveldb/export.h"
#include "leveldb/filter_policy.h"

namespace leveldb {
namespace cantle_detail {

class LEVELDB_EXPORT Bloom final : public FilterPolicy {
 public:
  explicit Bloom(int bits_per_key) : bits_per_key_(bits_per_key > 0 ? static_cast<size_t>(bits_per_key) : 0) {
    native_ = leveldb_filterpolicy_create_bloom(bits_per_key);
    // bits/key * ln 2 probes minimise the false matches.
    const size_t probes = static_cast<size_t>(static_cast<double>(bits_per_key_) * 0.69);
    probes_ = probes < 1 ? 1 : (probes > kProbesMax ? kProbesMax : probes);
  }
  ~Bloom() override { leveldb_filterpolicy_destroy(native_); }

  Bloom(const Bloom&) = delete;
  Bloom& operator=(const Bloom&) = delete;

  const char* Name() const override { return "leveldb.BuiltinBloomFilter2"; }

  void CreateFilter(const Slice* keys, int n, std::string* dst) const override {
    const size_t count = n > 0 ? static_cast<size_t>(n) : 0;
    size_t bytes = (count * bits_per_key_ + 7) / 8;
    if (bytes < 8) bytes = 8;  // a filter of few keys would match almost everything otherwise
    const size_t before = dst->size();
    dst->resize(before + bytes, 0);
    dst->push_back(static_cast<char>(probes_));
    for (size_t i = 0; i < count; i++) {
      Probes probe(keys[i]);
      for (size_t j = 0; j < probes_; j++) {
        const size_t bit = probe.Next() % (bytes * 8);
        char& byte = (*dst)[before + bit / 8];
        byte = static_cast<char>(byte | (1 << (bit % 8)));
      }
    }
  }

  bool KeyMayMatch(const Slice& key, const Slice& filter) const override {
    if (filter.size() < 2) return false;
    const size_t bits = (filter.size() - 1) * 8;
    const size_t probes = static_cast<unsigned char>(filter[filter.size() - 1]);
    // More probes than any filter has: reserved for other encodings, which match every key.
    if (probes > kProbesMax) return true;
    Probes probe(key);
    for (size_t j = 0; j < probes; j++) {
      const size_t bit = probe.Next() % bits;
      if ((filter[bit / 8] & (1 << (bit % 8))) == 0) return false;
    }
    return true;
  }

 private:
  static constexpr size_t kProbesMax = 30;

  // Double hashing: the probes of a key are its hash plus multiples of the hash rotated by 17 bits.
  class Probes {
   public:
    explicit Probes(const Slice& key) : hash_(Hash(key)), step_((hash_ >> 17) | (hash_ << 15)) {}
    uint32_t Next() {
      const uint32_t hash = hash_;
      hash_ += step_;
      return hash;
    }

   private:
    static uint32_t Byte(const Slice& key, size_t at) { return static_cast<unsigned char>(key[at]); }

    // The hash of LevelDB's format: four bytes at a time, little-endian, then the up to three that
    // remain.
    static uint32_t Hash(const Slice& key) {
      const uint32_t factor = 0xc6a4a793;
      uint32_t hash = 0xbc9f1d34 ^ (static_cast<uint32_t>(key.size()) * factor);
      size_t at = 0;
      for (; key.size() - at >= 4; at += 4) {
        hash += Byte(key, at) | Byte(key, at + 1) << 8 | Byte(key, at + 2) << 16 | Byte(key, at + 3) << 24;
        hash *= factor;
        hash ^= hash >> 16;
      }
      if (at == key.size()) return hash;
      for (size_t i = 0; at + i < key.size(); i++) hash += Byte(key, at + i) << (8 * i);
      hash *= factor;
      return hash ^ (hash >> 24);
    }

    uint32_t hash_;
    uint32_t step_;
  };

  size_t bits_per_key_;
  size_t probes_;
};

}  // namespace cantle_detail

CANTLE_LEVELDB_INLINE const FilterPolicy* NewBloomFilterPolicy(int bits_per_key) { return new cantle_detail::Bloom(bits_per_key); }

}  // namespace leveldb

#endif
