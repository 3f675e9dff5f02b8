// leveldb::WriteBatch: puts and deletes that a store applies atomically, in the order in which they
// were added.
//
// Several threads may call const methods at once. Other calls need exclusive access.

#ifndef CANTLE_LEVELDB_WRITE_BATCH_H
#define CANTLE_LEVELDB_WRITE_BATCH_H

#include <cstddef>
#include <memory>

#include "leveldb/c.h"
#include "leveldb/cantle/native.h"
#include "leveldb/export.h"
#include "leveldb/slice.h"
#include "leveldb/status.h"

#if defined(__cpp_exceptions) || defined(__EXCEPTIONS)
#include <exception>
#define CANTLE_LEVELDB_EXCEPTIONS 1
#endif

namespace leveldb {

namespace cantle_detail {
class Store;
}

class LEVELDB_EXPORT WriteBatch {
 public:
  class LEVELDB_EXPORT Handler {
   public:
    CANTLE_LEVELDB_INLINE Handler() {}
    CANTLE_LEVELDB_INLINE virtual ~Handler() {}
    virtual void Put(const Slice& key, const Slice& value) = 0;
    virtual void Delete(const Slice& key) = 0;
  };

  CANTLE_LEVELDB_INLINE WriteBatch() : native_(leveldb_writebatch_create()), bytes_(kEmptyBytes) {}
  CANTLE_LEVELDB_INLINE WriteBatch(const WriteBatch& other) : native_(leveldb_writebatch_create()), bytes_(other.bytes_) {
    leveldb_writebatch_append(native_.get(), other.native_.get());
  }
  CANTLE_LEVELDB_INLINE WriteBatch& operator=(const WriteBatch& other) {
    if (this != &other) {
      leveldb_writebatch_clear(native_.get());
      leveldb_writebatch_append(native_.get(), other.native_.get());
      bytes_ = other.bytes_;
    }
    return *this;
  }
  CANTLE_LEVELDB_INLINE ~WriteBatch() {}

  CANTLE_LEVELDB_INLINE void Put(const Slice& key, const Slice& value) {
    leveldb_writebatch_put(native_.get(), cantle_detail::Bytes(key), key.size(), cantle_detail::Bytes(value), value.size());
    bytes_ += 1 + LengthBytes(key) + key.size() + LengthBytes(value) + value.size();
  }

  // No error if the key is absent.
  CANTLE_LEVELDB_INLINE void Delete(const Slice& key) {
    leveldb_writebatch_delete(native_.get(), cantle_detail::Bytes(key), key.size());
    bytes_ += 1 + LengthBytes(key) + key.size();
  }

  CANTLE_LEVELDB_INLINE void Clear() {
    leveldb_writebatch_clear(native_.get());
    bytes_ = kEmptyBytes;
  }

  // The number of bytes that LevelDB would write to its log.
  CANTLE_LEVELDB_INLINE size_t ApproximateSize() const { return bytes_; }

  CANTLE_LEVELDB_INLINE void Append(const WriteBatch& source) {
    if (this == &source) return Append(WriteBatch(source));
    leveldb_writebatch_append(native_.get(), source.native_.get());
    bytes_ += source.bytes_ - kEmptyBytes;
  }

  // Calls the handler for each put and delete in their order. An exception of the handler ends the
  // iteration and is rethrown.
  CANTLE_LEVELDB_INLINE Status Iterate(Handler* handler) const {
    if (handler == nullptr) return Status::InvalidArgument("WriteBatch::Iterate", "the handler is null");
    Walk walk(handler);
    leveldb_writebatch_iterate(native_.get(), &walk, &Walk::Put, &Walk::Delete);
#if defined(CANTLE_LEVELDB_EXCEPTIONS)
    if (walk.thrown) std::rethrow_exception(walk.thrown);
#endif
    return Status::OK();
  }

 private:
  friend class cantle_detail::Store;

  // A batch in LevelDB's log begins with a sequence number and a count.
  static constexpr size_t kEmptyBytes = 12;

  // The size of the length that LevelDB's log has before each key and value: seven bits per byte.
  CANTLE_LEVELDB_INLINE static size_t LengthBytes(const Slice& slice) {
    size_t bytes = 1;
    for (size_t length = slice.size(); length >= 128; length >>= 7) bytes++;
    return bytes;
  }

  // Carries exceptions past the library's frames, which cannot unwind.
  struct Walk {
    explicit Walk(Handler* to) : handler(to) {}

    static void Put(void* state, const char* key, size_t key_size, const char* value, size_t value_size) noexcept {
      Call(state, [&](Handler* handler) { handler->Put(Slice(key, key_size), Slice(value, value_size)); });
    }
    static void Delete(void* state, const char* key, size_t key_size) noexcept {
      Call(state, [&](Handler* handler) { handler->Delete(Slice(key, key_size)); });
    }

    template <typename Function>
    static void Call(void* state, Function function) {
      Walk* const walk = static_cast<Walk*>(state);
#if defined(CANTLE_LEVELDB_EXCEPTIONS)
      if (walk->thrown) return;
      try {
        function(walk->handler);
      } catch (...) {
        walk->thrown = std::current_exception();
      }
#else
      function(walk->handler);
#endif
    }

    Handler* handler;
#if defined(CANTLE_LEVELDB_EXCEPTIONS)
    std::exception_ptr thrown;
#endif
  };

  cantle_detail::Owned<leveldb_writebatch_t, leveldb_writebatch_destroy> native_;
  size_t bytes_;
};

}  // namespace leveldb

#endif
