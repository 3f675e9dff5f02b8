// leveldb::Iterator: a position among the pairs of a store at one moment, in the order of the keys.
//
// Several threads may call const methods at once. Other calls need exclusive access. Delete an
// iterator before its store.

#ifndef CANTLE_LEVELDB_ITERATOR_H
#define CANTLE_LEVELDB_ITERATOR_H

#include <vector>

#include "leveldb/export.h"
#include "leveldb/slice.h"
#include "leveldb/status.h"

namespace leveldb {

class LEVELDB_EXPORT Iterator {
 public:
  CANTLE_LEVELDB_INLINE Iterator() {}
  Iterator(const Iterator&) = delete;
  Iterator& operator=(const Iterator&) = delete;
  CANTLE_LEVELDB_INLINE virtual ~Iterator() {
    for (const Cleanup& cleanup : cleanups_) cleanup.function(cleanup.arg1, cleanup.arg2);
  }

  // True if there is a pair at the position. False before the first call that positions the
  // iterator, beyond either end, and after an error.
  virtual bool Valid() const = 0;

  virtual void SeekToFirst() = 0;
  virtual void SeekToLast() = 0;

  // Moves to the first pair whose key is at or after `target`.
  virtual void Seek(const Slice& target) = 0;

  // These four require Valid(). The slices are valid until the iterator moves.
  virtual void Next() = 0;
  virtual void Prev() = 0;
  virtual Slice key() const = 0;
  virtual Slice value() const = 0;

  // The error of the iterator, if any.
  virtual Status status() const = 0;

  using CleanupFunction = void (*)(void* arg1, void* arg2);

  // Registers a function that is called when the iterator is deleted. Functions are called in the
  // order in which they were registered.
  CANTLE_LEVELDB_INLINE void RegisterCleanup(CleanupFunction function, void* arg1, void* arg2) {
    cleanups_.push_back(Cleanup{function, arg1, arg2});
  }

 private:
  struct Cleanup {
    CleanupFunction function;
    void* arg1;
    void* arg2;
  };

  std::vector<Cleanup> cleanups_;
};

namespace cantle_detail {

class LEVELDB_EXPORT EmptyIterator final : public Iterator {
 public:
  explicit EmptyIterator(const Status& status) : status_(status) {}
  bool Valid() const override { return false; }
  void SeekToFirst() override {}
  void SeekToLast() override {}
  void Seek(const Slice&) override {}
  void Next() override {}
  void Prev() override {}
  Slice key() const override { return Slice(); }
  Slice value() const override { return Slice(); }
  Status status() const override { return status_; }

 private:
  Status status_;
};

}  // namespace cantle_detail

// The caller deletes both.
CANTLE_LEVELDB_INLINE Iterator* NewEmptyIterator() { return new cantle_detail::EmptyIterator(Status()); }

CANTLE_LEVELDB_INLINE Iterator* NewErrorIterator(const Status& status) { return new cantle_detail::EmptyIterator(status); }

}  // namespace leveldb

#endif
