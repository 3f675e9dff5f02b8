// Helpers that the headers of this folder share: objects, bytes and errors of LevelDB's C
// interface, over which the C++ interface is built.

#ifndef CANTLE_LEVELDB_NATIVE_H
#define CANTLE_LEVELDB_NATIVE_H

#include <cstddef>
#include <cstring>
#include <memory>

#include "leveldb/c.h"
#include "leveldb/export.h"
#include "leveldb/slice.h"
#include "leveldb/status.h"

// Cantle's additions to the C functions, in case leveldb/c.h is LevelDB's own. They are weak, so
// that programs link with a library without them.
#if !defined(CANTLE_LEVELDB_C_H)
extern "C" {
struct leveldb_cantle_view_t {
  const char* key;
  size_t keylen;
  const char* val;
  size_t vallen;
  unsigned char valid;
};
__attribute__((weak)) const leveldb_cantle_view_t* leveldb_iter_cantle_view(const leveldb_iterator_t*);
__attribute__((weak)) unsigned char leveldb_cantle_get(leveldb_t* db, const leveldb_readoptions_t* options, const char* key,
                                                       size_t keylen, void* state,
                                                       void (*found)(void* state, const char* val, size_t vallen), char** errptr);
__attribute__((weak)) void leveldb_options_set_cantle_memory_budget(leveldb_options_t*, size_t bytes);
__attribute__((weak)) void leveldb_cantle_backup(leveldb_t* db, const char* name, char** errptr);
__attribute__((weak)) void leveldb_options_set_cantle_layout(leveldb_options_t*, const char* name);
}
#endif

namespace leveldb {
namespace cantle_detail {

template <typename Object, void (*destroy)(Object*)>
struct LEVELDB_EXPORT Destroyer {
  void operator()(Object* object) const { destroy(object); }
};

// Owns an object of the C interface, and destroys it.
template <typename Object, void (*destroy)(Object*)>
using Owned = std::unique_ptr<Object, Destroyer<Object, destroy>>;

// C functions accept no null pointers, but an empty slice may have one.
LEVELDB_EXPORT inline const char* Bytes(const Slice& slice) { return slice.data() == nullptr ? "" : slice.data(); }

// The error that a C function stored. It begins with the same prefix as Status::ToString.
class LEVELDB_EXPORT Error {
 public:
  Error() : text_(nullptr) {}
  Error(const Error&) = delete;
  Error& operator=(const Error&) = delete;
  ~Error() {
    if (text_ != nullptr) leveldb_free(text_);
  }

  char** out() { return &text_; }

  Status status() const {
    struct Kind {
      const char* prefix;
      Status (*make)(const Slice&, const Slice&);
    };
    static const Kind kinds[] = {
        {"NotFound: ", &Status::NotFound},
        {"Corruption: ", &Status::Corruption},
        {"Not implemented: ", &Status::NotSupported},
        {"Invalid argument: ", &Status::InvalidArgument},
        {"IO error: ", &Status::IOError},
    };
    if (text_ == nullptr) return Status::OK();
    Slice text(text_);
    for (const Kind& kind : kinds) {
      if (text.starts_with(kind.prefix)) {
        text.remove_prefix(std::strlen(kind.prefix));
        return kind.make(text, Slice());
      }
    }
    return Status::IOError(text);
  }

 private:
  char* text_;
};

}  // namespace cantle_detail
}  // namespace leveldb

#endif
