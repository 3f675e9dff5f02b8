// Conversion of the C++ interface's options into options of the C interface.

#ifndef CANTLE_LEVELDB_NATIVE_OPTIONS_H
#define CANTLE_LEVELDB_NATIVE_OPTIONS_H

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>

#include "leveldb/c.h"
#include "leveldb/cache.h"
#include "leveldb/cantle/native.h"
#include "leveldb/comparator.h"
#include "leveldb/env.h"
#include "leveldb/export.h"
#include "leveldb/filter_policy.h"
#include "leveldb/options.h"
#include "leveldb/slice.h"
#include "leveldb/status.h"

namespace leveldb {
namespace cantle_detail {

class LEVELDB_EXPORT NativeOptions {
 public:
  // An open store keeps using the first two, which are null if the program set none of its own.
  // Destroyed in the opposite order: the options before the objects that they point to.
  Owned<leveldb_comparator_t, leveldb_comparator_destroy> comparator;
  Owned<leveldb_filterpolicy_t, leveldb_filterpolicy_destroy> policy;
  Owned<leveldb_options_t, leveldb_options_destroy> options;

  NativeOptions() : options(leveldb_options_create()) {}

  static Status CheckEnv(const Options& from) {
    if (from.env == nullptr || from.env == Env::Default() || from.env->posix_) return Status::OK();
    return Status::NotSupported("Options::env", "a store opens with leveldb::Env::Default() only; leave Options::env as it is");
  }

  Status Set(const Options& from) {
    const Status status = CheckEnv(from);
    if (!status.ok()) return status;
    leveldb_options_t* const to = options.get();
    leveldb_options_set_create_if_missing(to, from.create_if_missing);
    leveldb_options_set_error_if_exists(to, from.error_if_exists);
    leveldb_options_set_paranoid_checks(to, from.paranoid_checks);
    leveldb_options_set_write_buffer_size(to, from.write_buffer_size);
    leveldb_options_set_max_open_files(to, from.max_open_files);
    leveldb_options_set_block_size(to, from.block_size);
    leveldb_options_set_block_restart_interval(to, from.block_restart_interval);
    leveldb_options_set_max_file_size(to, from.max_file_size);
    leveldb_options_set_compression(to, from.compression);
    if (from.block_cache != nullptr && from.block_cache->native_ != nullptr) {
      leveldb_options_set_cache(to, from.block_cache->native_);
    }
    if (from.comparator != nullptr && !from.comparator->bytewise_) {
      comparator.reset(leveldb_comparator_create(State(from.comparator), &Ignore, &Compare, &ComparatorName));
      leveldb_options_set_comparator(to, comparator.get());
    }
    if (from.filter_policy != nullptr) {
      leveldb_filterpolicy_t* native = from.filter_policy->native_;
      if (native == nullptr) {
        policy.reset(leveldb_filterpolicy_create(State(from.filter_policy), &Ignore, &CreateFilter, &KeyMayMatch, &PolicyName));
        native = policy.get();
      }
      leveldb_options_set_filter_policy(to, native);
    }
    return SetExtensions(from);
  }

 private:
  Status SetExtensions(const Options& from) {
    leveldb_options_t* const to = options.get();
#if !defined(CANTLE_LEVELDB_C_H)
    const char* const unknown = "the program is linked with a library that does not know it; link libcantle_leveldb";
    if (from.cantle_memory_budget != 0 && leveldb_options_set_cantle_memory_budget == nullptr) {
      return Status::NotSupported("Options::cantle_memory_budget", unknown);
    }
    if (!from.cantle_layout.empty() && leveldb_options_set_cantle_layout == nullptr) {
      return Status::NotSupported("Options::cantle_layout", unknown);
    }
#endif
    if (from.cantle_memory_budget != 0) leveldb_options_set_cantle_memory_budget(to, from.cantle_memory_budget);
    if (!from.cantle_layout.empty()) leveldb_options_set_cantle_layout(to, from.cantle_layout.c_str());
    return Status::OK();
  }

  // The C interface has no const parameters; the callbacks below add the const again.
  template <typename Object>
  static void* State(const Object* object) {
    return const_cast<Object*>(object);
  }

  // The program owns its objects, so the library must not delete them.
  static void Ignore(void*) noexcept {}

  static int Compare(void* state, const char* a, size_t a_size, const char* b, size_t b_size) noexcept {
    return static_cast<const Comparator*>(state)->Compare(Slice(a, a_size), Slice(b, b_size));
  }
  static const char* ComparatorName(void* state) noexcept { return static_cast<const Comparator*>(state)->Name(); }

  static char* CreateFilter(void* state, const char* const* keys, const size_t* sizes, int n, size_t* size) noexcept {
    std::unique_ptr<Slice[]> slices(new Slice[static_cast<size_t>(n > 0 ? n : 0)]);
    for (int i = 0; i < n; i++) slices[static_cast<size_t>(i)] = Slice(keys[i], sizes[i]);
    std::string filter;
    static_cast<const FilterPolicy*>(state)->CreateFilter(slices.get(), n, &filter);
    // The library frees the copy.
    char* const copy = static_cast<char*>(std::malloc(filter.size() + 1));
    *size = copy == nullptr ? 0 : filter.size();
    if (copy != nullptr) std::memcpy(copy, filter.data(), filter.size());
    return copy;
  }
  static unsigned char KeyMayMatch(void* state, const char* key, size_t key_size, const char* filter, size_t filter_size) noexcept {
    return static_cast<const FilterPolicy*>(state)->KeyMayMatch(Slice(key, key_size), Slice(filter, filter_size));
  }
  static const char* PolicyName(void* state) noexcept { return static_cast<const FilterPolicy*>(state)->Name(); }
};

}  // namespace cantle_detail
}  // namespace leveldb

#endif
