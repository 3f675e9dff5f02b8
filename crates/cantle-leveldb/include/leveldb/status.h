// leveldb::Status: success, or a kind of error with its message.
//
// Const methods may be called from several threads at once.

#ifndef CANTLE_LEVELDB_STATUS_H
#define CANTLE_LEVELDB_STATUS_H

#include <algorithm>  // programs rely on LevelDB's header including it
#include <memory>
#include <string>
#include <utility>

#include "leveldb/export.h"
#include "leveldb/slice.h"

namespace leveldb {

class LEVELDB_EXPORT Status {
 public:
  CANTLE_LEVELDB_INLINE Status() noexcept : failure_() {}
  CANTLE_LEVELDB_INLINE ~Status() {}
  CANTLE_LEVELDB_INLINE Status(const Status& other) : failure_(other.failure_ ? new Failure(*other.failure_) : nullptr) {}
  CANTLE_LEVELDB_INLINE Status(Status&& other) noexcept : failure_(std::move(other.failure_)) {}

  CANTLE_LEVELDB_INLINE Status& operator=(const Status& other) {
    if (this != &other) *this = Status(other);
    return *this;
  }
  CANTLE_LEVELDB_INLINE Status& operator=(Status&& other) noexcept {
    failure_.swap(other.failure_);
    return *this;
  }

  CANTLE_LEVELDB_INLINE static Status OK() { return Status(); }
  CANTLE_LEVELDB_INLINE static Status NotFound(const Slice& message, const Slice& detail = Slice()) {
    return Status(Kind::NotFound, message, detail);
  }
  CANTLE_LEVELDB_INLINE static Status Corruption(const Slice& message, const Slice& detail = Slice()) {
    return Status(Kind::Corruption, message, detail);
  }
  CANTLE_LEVELDB_INLINE static Status NotSupported(const Slice& message, const Slice& detail = Slice()) {
    return Status(Kind::NotSupported, message, detail);
  }
  CANTLE_LEVELDB_INLINE static Status InvalidArgument(const Slice& message, const Slice& detail = Slice()) {
    return Status(Kind::InvalidArgument, message, detail);
  }
  CANTLE_LEVELDB_INLINE static Status IOError(const Slice& message, const Slice& detail = Slice()) {
    return Status(Kind::IOError, message, detail);
  }

  CANTLE_LEVELDB_INLINE bool ok() const { return !failure_; }
  CANTLE_LEVELDB_INLINE bool IsNotFound() const { return Is(Kind::NotFound); }
  CANTLE_LEVELDB_INLINE bool IsCorruption() const { return Is(Kind::Corruption); }
  CANTLE_LEVELDB_INLINE bool IsIOError() const { return Is(Kind::IOError); }
  CANTLE_LEVELDB_INLINE bool IsNotSupportedError() const { return Is(Kind::NotSupported); }
  CANTLE_LEVELDB_INLINE bool IsInvalidArgument() const { return Is(Kind::InvalidArgument); }

  // "OK", or the kind and the message, as in "IO error: store/LOCK: already in use".
  CANTLE_LEVELDB_INLINE std::string ToString() const {
    if (ok()) return "OK";
    switch (failure_->kind) {
      case Kind::NotFound:
        return "NotFound: " + failure_->message;
      case Kind::Corruption:
        return "Corruption: " + failure_->message;
      case Kind::NotSupported:
        return "Not implemented: " + failure_->message;
      case Kind::InvalidArgument:
        return "Invalid argument: " + failure_->message;
      case Kind::IOError:
        break;
    }
    return "IO error: " + failure_->message;
  }

 private:
  enum class Kind { NotFound, Corruption, NotSupported, InvalidArgument, IOError };

  struct Failure {
    Kind kind;
    std::string message;
  };

  CANTLE_LEVELDB_INLINE Status(Kind kind, const Slice& message, const Slice& detail)
      : failure_(new Failure{kind, message.ToString()}) {
    if (!detail.empty()) failure_->message.append(": ").append(detail.data(), detail.size());
  }

  CANTLE_LEVELDB_INLINE bool Is(Kind kind) const { return failure_ && failure_->kind == kind; }

  // Null for success, so a successful status costs one pointer.
  std::unique_ptr<Failure> failure_;
};

}  // namespace leveldb

#endif
