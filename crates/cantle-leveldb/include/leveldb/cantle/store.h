// leveldb::DB::Open, DestroyDB and RepairDB of leveldb/db.h: a store over LevelDB's C functions.

#ifndef CANTLE_LEVELDB_STORE_H
#define CANTLE_LEVELDB_STORE_H

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "leveldb/c.h"
#include "leveldb/cantle/native.h"
#include "leveldb/cantle/native_options.h"
#include "leveldb/db.h"
#include "leveldb/export.h"
#include "leveldb/iterator.h"
#include "leveldb/options.h"
#include "leveldb/slice.h"
#include "leveldb/status.h"
#include "leveldb/write_batch.h"

namespace leveldb {
namespace cantle_detail {

class LEVELDB_EXPORT StoreIterator final : public Iterator {
 public:
  explicit StoreIterator(leveldb_iterator_t* native) : native_(native), view_(ViewOf(native)) {}

  bool Valid() const override {
    return view_ != nullptr ? Load(&view_->valid) != 0 : leveldb_iter_valid(native_.get()) != 0;
  }
  void SeekToFirst() override { leveldb_iter_seek_to_first(native_.get()); }
  void SeekToLast() override { leveldb_iter_seek_to_last(native_.get()); }
  void Seek(const Slice& target) override { leveldb_iter_seek(native_.get(), Bytes(target), target.size()); }
  void Next() override { leveldb_iter_next(native_.get()); }
  void Prev() override { leveldb_iter_prev(native_.get()); }

  Slice key() const override {
    if (view_ != nullptr) return Valid() ? Slice(Load(&view_->key), Load(&view_->keylen)) : Slice();
    size_t size = 0;
    const char* const bytes = leveldb_iter_key(native_.get(), &size);
    return Slice(bytes, size);
  }
  Slice value() const override {
    if (view_ != nullptr) return Valid() ? Slice(Load(&view_->val), Load(&view_->vallen)) : Slice();
    size_t size = 0;
    const char* const bytes = leveldb_iter_value(native_.get(), &size);
    return Slice(bytes, size);
  }

  Status status() const override {
    Error error;
    leveldb_iter_get_error(native_.get(), error.out());
    return error.status();
  }

 private:
  // The view in which the library publishes the pair at the position; null if there is no iterator,
  // or the library is LevelDB's.
  static const leveldb_cantle_view_t* ViewOf(leveldb_iterator_t* native) {
#if !defined(CANTLE_LEVELDB_C_H)
    if (leveldb_iter_cantle_view == nullptr) return nullptr;
#endif
    return leveldb_iter_cantle_view(native);
  }

  // Reads atomically, since another thread may close the store at the same time.
  template <typename Member>
  static Member Load(const Member* member) {
    return __atomic_load_n(member, __ATOMIC_RELAXED);
  }

  Owned<leveldb_iterator_t, leveldb_iter_destroy> native_;
  const leveldb_cantle_view_t* view_;
};

class LEVELDB_EXPORT Store final : public DB {
 public:
  // `native` was opened with `options`.
  Store(leveldb_t* native, NativeOptions options)
      : comparator_(std::move(options.comparator)), policy_(std::move(options.policy)), native_(native) {
    for (int i = 0; i < 2; i++) {
      write_options_[i].reset(leveldb_writeoptions_create());
      leveldb_writeoptions_set_sync(write_options_[i].get(), i != 0);
    }
    for (int i = 0; i < 4; i++) {
      read_options_[i].reset(leveldb_readoptions_create());
      SetReadOptions(read_options_[i].get(), (i & 1) != 0, (i & 2) != 0);
    }
  }

  Status Put(const WriteOptions& options, const Slice& key, const Slice& value) override {
    Error error;
    leveldb_put(native_.get(), NativeFor(options), Bytes(key), key.size(), Bytes(value), value.size(), error.out());
    return error.status();
  }

  Status Delete(const WriteOptions& options, const Slice& key) override {
    Error error;
    leveldb_delete(native_.get(), NativeFor(options), Bytes(key), key.size(), error.out());
    return error.status();
  }

  Status Write(const WriteOptions& options, WriteBatch* updates) override {
    if (updates == nullptr) return Status::InvalidArgument("DB::Write", "the batch is null");
    Error error;
    leveldb_write(native_.get(), NativeFor(options), updates->native_.get(), error.out());
    return error.status();
  }

  Status Get(const ReadOptions& options, const Slice& key, std::string* value) override {
    if (value == nullptr) return Status::InvalidArgument("DB::Get", "there is no place for the value: the pointer to it is null");
    Error error;
    const NativeRead read(*this, options);
    if (CanLend()) {
      Taker taker(value);
      if (leveldb_cantle_get(native_.get(), read.get(), Bytes(key), key.size(), &taker, &Taker::Take, error.out()) != 0) {
#if defined(CANTLE_LEVELDB_EXCEPTIONS)
        if (taker.thrown) std::rethrow_exception(taker.thrown);
#endif
        return Status::OK();
      }
      const Status status = error.status();
      return status.ok() ? Status::NotFound(Slice()) : status;
    }
    size_t size = 0;
    char* const bytes = leveldb_get(native_.get(), read.get(), Bytes(key), key.size(), &size, error.out());
    if (bytes == nullptr) {
      const Status status = error.status();
      return status.ok() ? Status::NotFound(Slice()) : status;
    }
    const std::unique_ptr<void, Freer> owned(bytes);
    value->assign(bytes, size);
    return Status::OK();
  }

  Iterator* NewIterator(const ReadOptions& options) override {
    const NativeRead read(*this, options);
    return new StoreIterator(leveldb_create_iterator(native_.get(), read.get()));
  }

  // Programs can only pass a snapshot back, so a pointer to one is the C library's own pointer,
  // cast.
  const Snapshot* GetSnapshot() override {
    return reinterpret_cast<const Snapshot*>(leveldb_create_snapshot(native_.get()));
  }

  void ReleaseSnapshot(const Snapshot* snapshot) override {
    if (snapshot != nullptr) leveldb_release_snapshot(native_.get(), NativeOf(snapshot));
  }

  bool GetProperty(const Slice& property, std::string* value) override {
    if (value == nullptr) return false;
    value->clear();
    const std::string name = property.ToString();
    if (name.find('\0') != std::string::npos) return false;
    char* const text = leveldb_property_value(native_.get(), name.c_str());
    if (text == nullptr) return false;
    const std::unique_ptr<void, Freer> owned(text);
    value->assign(text);
    return true;
  }

  void GetApproximateSizes(const Range* ranges, int n, uint64_t* sizes) override {
    if (n <= 0 || sizes == nullptr) return;
    const size_t count = static_cast<size_t>(n);
    if (ranges == nullptr) {
      for (size_t i = 0; i < count; i++) sizes[i] = 0;
      return;
    }
    std::vector<const char*> starts(count), limits(count);
    std::vector<size_t> start_sizes(count), limit_sizes(count);
    for (size_t i = 0; i < count; i++) {
      starts[i] = Bytes(ranges[i].start);
      start_sizes[i] = ranges[i].start.size();
      limits[i] = Bytes(ranges[i].limit);
      limit_sizes[i] = ranges[i].limit.size();
    }
    leveldb_approximate_sizes(native_.get(), n, starts.data(), start_sizes.data(), limits.data(), limit_sizes.data(), sizes);
  }

  void CompactRange(const Slice* begin, const Slice* end) override {
    leveldb_compact_range(native_.get(), begin == nullptr ? nullptr : Bytes(*begin), begin == nullptr ? 0 : begin->size(),
                          end == nullptr ? nullptr : Bytes(*end), end == nullptr ? 0 : end->size());
  }

  Status CantleBackup(const std::string& directory) override {
    if (directory.find('\0') != std::string::npos) return Status::InvalidArgument("a name with a zero byte");
#if !defined(CANTLE_LEVELDB_C_H)
    if (leveldb_cantle_backup == nullptr) {
      return Status::NotSupported("DB::CantleBackup", "the program is linked with a library that does not know it; link libcantle_leveldb");
    }
#endif
    Error error;
    leveldb_cantle_backup(native_.get(), directory.c_str(), error.out());
    return error.status();
  }

 private:
  using NativeReadOptions = Owned<leveldb_readoptions_t, leveldb_readoptions_destroy>;
  using NativeWriteOptions = Owned<leveldb_writeoptions_t, leveldb_writeoptions_destroy>;

  struct Freer {
    void operator()(void* memory) const { leveldb_free(memory); }
  };

  // True if the library passes values to a callback, so that they are copied only once.
  static bool CanLend() {
#if defined(CANTLE_LEVELDB_C_H)
    return true;
#else
    return leveldb_cantle_get != nullptr;
#endif
  }

  // Copies a value in the callback, and carries exceptions past the library's frames, which cannot
  // unwind.
  struct Taker {
    explicit Taker(std::string* to) : value(to) {}

    static void Take(void* state, const char* bytes, size_t size) noexcept {
      Taker* const taker = static_cast<Taker*>(state);
#if defined(CANTLE_LEVELDB_EXCEPTIONS)
      try {
        taker->value->assign(bytes, size);
      } catch (...) {
        taker->thrown = std::current_exception();
      }
#else
      taker->value->assign(bytes, size);
#endif
    }

    std::string* value;
#if defined(CANTLE_LEVELDB_EXCEPTIONS)
    std::exception_ptr thrown;
#endif
  };

  static const leveldb_snapshot_t* NativeOf(const Snapshot* snapshot) {
    return reinterpret_cast<const leveldb_snapshot_t*>(snapshot);
  }

  static void SetReadOptions(leveldb_readoptions_t* options, bool verify_checksums, bool fill_cache) {
    leveldb_readoptions_set_verify_checksums(options, verify_checksums);
    leveldb_readoptions_set_fill_cache(options, fill_cache);
  }

  const leveldb_writeoptions_t* NativeFor(const WriteOptions& options) const { return write_options_[options.sync ? 1 : 0].get(); }

  // Options of one read: the store's shared ones, or new ones for a snapshot.
  class NativeRead {
   public:
    NativeRead(const Store& store, const ReadOptions& options)
        : kept_(store.read_options_[(options.verify_checksums ? 1 : 0) + (options.fill_cache ? 2 : 0)].get()) {
      if (options.snapshot == nullptr) return;
      made_.reset(leveldb_readoptions_create());
      SetReadOptions(made_.get(), options.verify_checksums, options.fill_cache);
      leveldb_readoptions_set_snapshot(made_.get(), NativeOf(options.snapshot));
    }
    const leveldb_readoptions_t* get() const { return made_ ? made_.get() : kept_; }

   private:
    const leveldb_readoptions_t* kept_;
    NativeReadOptions made_;
  };

  // Destroyed in the opposite order: the store before the objects that it calls.
  Owned<leveldb_comparator_t, leveldb_comparator_destroy> comparator_;
  Owned<leveldb_filterpolicy_t, leveldb_filterpolicy_destroy> policy_;
  Owned<leveldb_t, leveldb_close> native_;

  // Immutable, so that all threads share them: one for each value of `sync`.
  NativeWriteOptions write_options_[2];
  NativeReadOptions read_options_[4];
};

// The C interface takes names that end at their first zero byte.
LEVELDB_EXPORT inline Status CheckName(const std::string& name) {
  if (name.find('\0') == std::string::npos) return Status::OK();
  return Status::InvalidArgument(name.c_str(), "the name of a store cannot have a zero byte");
}

}  // namespace cantle_detail

CANTLE_LEVELDB_INLINE Status DB::Open(const Options& options, const std::string& name, DB** db) {
  if (db == nullptr) return Status::InvalidArgument("DB::Open", "there is no place for the store: the pointer to it is null");
  *db = nullptr;
  Status status = cantle_detail::CheckName(name);
  if (!status.ok()) return status;
  cantle_detail::NativeOptions native;
  status = native.Set(options);
  if (!status.ok()) return status;
  cantle_detail::Error error;
  leveldb_t* const opened = leveldb_open(native.options.get(), name.c_str(), error.out());
  if (opened == nullptr) return error.status();
  *db = new cantle_detail::Store(opened, std::move(native));
  return Status::OK();
}

CANTLE_LEVELDB_INLINE Status DB::Put(const WriteOptions& options, const Slice& key, const Slice& value) {
  WriteBatch batch;
  batch.Put(key, value);
  return Write(options, &batch);
}

CANTLE_LEVELDB_INLINE Status DB::Delete(const WriteOptions& options, const Slice& key) {
  WriteBatch batch;
  batch.Delete(key);
  return Write(options, &batch);
}

CANTLE_LEVELDB_INLINE Status DestroyDB(const std::string& name, const Options& options) {
  Status status = cantle_detail::CheckName(name);
  if (!status.ok()) return status;
  // Programs pass options whose cache and filter they have deleted with the store. Hence only the
  // Env is checked.
  status = cantle_detail::NativeOptions::CheckEnv(options);
  if (!status.ok()) return status;
  const cantle_detail::NativeOptions native;
  cantle_detail::Error error;
  leveldb_destroy_db(native.options.get(), name.c_str(), error.out());
  return error.status();
}

CANTLE_LEVELDB_INLINE Status RepairDB(const std::string& name, const Options& options) {
  Status status = cantle_detail::CheckName(name);
  if (!status.ok()) return status;
  cantle_detail::NativeOptions native;
  status = native.Set(options);
  if (!status.ok()) return status;
  cantle_detail::Error error;
  leveldb_repair_db(native.options.get(), name.c_str(), error.out());
  return error.status();
}

}  // namespace leveldb

#endif
