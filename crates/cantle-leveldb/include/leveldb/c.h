/*
 * LevelDB's C interface (1.23) over Cantle: link libcantle_leveldb instead of libleveldb.
 *
 * Objects. Types are known by name only. The caller owns an object that `..._create`, `..._open` or
 * `leveldb_create_...` returned, until it passes the object to the function that destroys, releases
 * or closes it. Options, comparators and the like may be destroyed while a database is open that
 * was opened with them. Iterators and snapshots may outlive their database; their calls only return
 * errors then. A call with a null pointer, or with an object that was destroyed, is invalid: it
 * returns an error if it has an `errptr`. If not, it has no effect, and its result is NULL or 0.
 *
 * Errors. `*errptr` must be NULL or a text from malloc(). A successful call does not change it. A
 * failed call frees it and stores a new text, to be freed with leveldb_free(). The text begins with
 * "NotFound: ", "Corruption: ", "Not implemented: ", "Invalid argument: " or "IO error: ". `errptr`
 * itself may be NULL; the error is then lost to the caller.
 *
 * Bytes. Keys (at most 1 MiB) and values (at most 1 GiB) are a pointer and a length, copied before
 * a function returns. The pointer may be NULL if the length is 0.
 *
 * Truth. A uint8_t is false if it is 0, else true.
 *
 * Threads. A database, a snapshot, a comparator and a cache may be used by any number of threads at
 * once, and a database may be closed at any time. Every other object may be used by one thread at a
 * time. Only a database may be destroyed while another thread uses it.
 *
 * Processes. A database belongs to the process that opened it. After fork() every call on it
 * returns an error in the child, and closing it there has no effect. A child that opens databases
 * is best forked before the parent opens any.
 *
 * docs/bindings/leveldb-c.md describes each option, and the differences from LevelDB.
 */
#ifndef CANTLE_LEVELDB_C_H
#define CANTLE_LEVELDB_C_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#ifndef LEVELDB_EXPORT
#if defined(__GNUC__)
#define LEVELDB_EXPORT __attribute__((visibility("default")))
#else
#define LEVELDB_EXPORT
#endif
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef struct leveldb_t leveldb_t;
typedef struct leveldb_cache_t leveldb_cache_t;
typedef struct leveldb_comparator_t leveldb_comparator_t;
typedef struct leveldb_env_t leveldb_env_t;
typedef struct leveldb_filelock_t leveldb_filelock_t;
typedef struct leveldb_filterpolicy_t leveldb_filterpolicy_t;
typedef struct leveldb_iterator_t leveldb_iterator_t;
typedef struct leveldb_logger_t leveldb_logger_t;
typedef struct leveldb_options_t leveldb_options_t;
typedef struct leveldb_randomfile_t leveldb_randomfile_t;
typedef struct leveldb_readoptions_t leveldb_readoptions_t;
typedef struct leveldb_seqfile_t leveldb_seqfile_t;
typedef struct leveldb_snapshot_t leveldb_snapshot_t;
typedef struct leveldb_writablefile_t leveldb_writablefile_t;
typedef struct leveldb_writebatch_t leveldb_writebatch_t;
typedef struct leveldb_writeoptions_t leveldb_writeoptions_t;

/* ---- Databases ---- */

/* Opens the database in directory `name`. Returns NULL and an error if the database is missing
 * (unless create_if_missing), exists (if error_if_exists), is already open here or in another
 * process ("IO error: lock ..."), has another comparator, or is damaged; or if the directory is
 * not a Cantle database, which is then not changed. For a database of LevelDB's, the error names
 * the command that imports it. */
LEVELDB_EXPORT leveldb_t* leveldb_open(const leveldb_options_t* options, const char* name, char** errptr);

/* Makes all writes durable and closes the database. Its iterators become invalid. */
LEVELDB_EXPORT void leveldb_close(leveldb_t* db);

/* Stores a pair, and replaces the key's old value. */
LEVELDB_EXPORT void leveldb_put(leveldb_t* db, const leveldb_writeoptions_t* options, const char* key, size_t keylen,
                                const char* val, size_t vallen, char** errptr);

/* Removes a key. No error if it is absent. */
LEVELDB_EXPORT void leveldb_delete(leveldb_t* db, const leveldb_writeoptions_t* options, const char* key, size_t keylen,
                                   char** errptr);

/* Applies the operations of a batch in their order, atomically. The batch is not changed. */
LEVELDB_EXPORT void leveldb_write(leveldb_t* db, const leveldb_writeoptions_t* options, leveldb_writebatch_t* batch,
                                  char** errptr);

/* Returns the value, to be freed with leveldb_free(), and its length in `*vallen`. Returns NULL
 * and 0, and no error, if the key is absent. */
LEVELDB_EXPORT char* leveldb_get(leveldb_t* db, const leveldb_readoptions_t* options, const char* key, size_t keylen,
                                 size_t* vallen, char** errptr);

/* An iterator over the current state of the database, or over the options' snapshot. It has no
 * position until it is moved. */
LEVELDB_EXPORT leveldb_iterator_t* leveldb_create_iterator(leveldb_t* db, const leveldb_readoptions_t* options);

/* A snapshot of the current state, to be read with read options. NULL for a database that is not
 * open. If there are too many snapshots, the result is a snapshot whose reads return an error. */
LEVELDB_EXPORT const leveldb_snapshot_t* leveldb_create_snapshot(leveldb_t* db);
LEVELDB_EXPORT void leveldb_release_snapshot(leveldb_t* db, const leveldb_snapshot_t* snapshot);

/* The text of a property, to be freed with leveldb_free(): "leveldb.stats", "leveldb.sstables",
 * "leveldb.num-files-at-level<N>" or "leveldb.approximate-memory-usage". NULL for any other
 * name. */
LEVELDB_EXPORT char* leveldb_property_value(leveldb_t* db, const char* propname);

/* For each range the approximate number of bytes on disk of its keys, from the start key
 * (included) to the limit key (excluded). */
LEVELDB_EXPORT void leveldb_approximate_sizes(leveldb_t* db, int num_ranges, const char* const* range_start_key,
                                              const size_t* range_start_key_len, const char* const* range_limit_key,
                                              const size_t* range_limit_key_len, uint64_t* sizes);

/* Rebalances the keys between two keys: sorts them and removes old versions. A NULL key means no
 * bound. */
LEVELDB_EXPORT void leveldb_compact_range(leveldb_t* db, const char* start_key, size_t start_key_len, const char* limit_key,
                                          size_t limit_key_len);

/* ---- Databases that are not open ---- */

/* Removes the database's files, and the directory unless it contains other files. No error if
 * there is no database. */
LEVELDB_EXPORT void leveldb_destroy_db(const leveldb_options_t* options, const char* name, char** errptr);

/* Repairs a damaged database. If some data could not be saved, the damaged database is kept next
 * to it, as NAME.lost. */
LEVELDB_EXPORT void leveldb_repair_db(const leveldb_options_t* options, const char* name, char** errptr);

/* ---- Iterators ---- */

LEVELDB_EXPORT void leveldb_iter_destroy(leveldb_iterator_t*);
LEVELDB_EXPORT uint8_t leveldb_iter_valid(const leveldb_iterator_t*);
LEVELDB_EXPORT void leveldb_iter_seek_to_first(leveldb_iterator_t*);
LEVELDB_EXPORT void leveldb_iter_seek_to_last(leveldb_iterator_t*);
/* Moves to the first key that is at or after this one. */
LEVELDB_EXPORT void leveldb_iter_seek(leveldb_iterator_t*, const char* k, size_t klen);
LEVELDB_EXPORT void leveldb_iter_next(leveldb_iterator_t*);
LEVELDB_EXPORT void leveldb_iter_prev(leveldb_iterator_t*);
/* The bytes are valid until the iterator is moved or destroyed, or its database is closed. */
LEVELDB_EXPORT const char* leveldb_iter_key(const leveldb_iterator_t*, size_t* klen);
LEVELDB_EXPORT const char* leveldb_iter_value(const leveldb_iterator_t*, size_t* vlen);
/* The iterator's error, if it is not valid because of one. */
LEVELDB_EXPORT void leveldb_iter_get_error(const leveldb_iterator_t*, char** errptr);

/* ---- Write batches ---- */

LEVELDB_EXPORT leveldb_writebatch_t* leveldb_writebatch_create(void);
LEVELDB_EXPORT void leveldb_writebatch_destroy(leveldb_writebatch_t*);
LEVELDB_EXPORT void leveldb_writebatch_clear(leveldb_writebatch_t*);
LEVELDB_EXPORT void leveldb_writebatch_put(leveldb_writebatch_t*, const char* key, size_t klen, const char* val, size_t vlen);
LEVELDB_EXPORT void leveldb_writebatch_delete(leveldb_writebatch_t*, const char* key, size_t klen);
/* Calls `put` and `deleted` with `state`, in the order of the operations. The bytes are valid
 * until the callback returns. */
LEVELDB_EXPORT void leveldb_writebatch_iterate(const leveldb_writebatch_t*, void* state,
                                               void (*put)(void*, const char* k, size_t klen, const char* v, size_t vlen),
                                               void (*deleted)(void*, const char* k, size_t klen));
/* Adds the operations of `source` to those of `destination`. */
LEVELDB_EXPORT void leveldb_writebatch_append(leveldb_writebatch_t* destination, const leveldb_writebatch_t* source);

/* ---- Options. Functions marked (*) are accepted and have no effect. ---- */

LEVELDB_EXPORT leveldb_options_t* leveldb_options_create(void);
LEVELDB_EXPORT void leveldb_options_destroy(leveldb_options_t*);
LEVELDB_EXPORT void leveldb_options_set_comparator(leveldb_options_t*, leveldb_comparator_t*);
LEVELDB_EXPORT void leveldb_options_set_filter_policy(leveldb_options_t*, leveldb_filterpolicy_t*);
LEVELDB_EXPORT void leveldb_options_set_create_if_missing(leveldb_options_t*, uint8_t);
LEVELDB_EXPORT void leveldb_options_set_error_if_exists(leveldb_options_t*, uint8_t);
LEVELDB_EXPORT void leveldb_options_set_paranoid_checks(leveldb_options_t*, uint8_t); /* (*) */
LEVELDB_EXPORT void leveldb_options_set_env(leveldb_options_t*, leveldb_env_t*);
LEVELDB_EXPORT void leveldb_options_set_info_log(leveldb_options_t*, leveldb_logger_t*); /* (*) */
LEVELDB_EXPORT void leveldb_options_set_write_buffer_size(leveldb_options_t*, size_t);
LEVELDB_EXPORT void leveldb_options_set_max_open_files(leveldb_options_t*, int); /* (*) */
LEVELDB_EXPORT void leveldb_options_set_cache(leveldb_options_t*, leveldb_cache_t*);
LEVELDB_EXPORT void leveldb_options_set_block_size(leveldb_options_t*, size_t);          /* (*) */
LEVELDB_EXPORT void leveldb_options_set_block_restart_interval(leveldb_options_t*, int); /* (*) */
LEVELDB_EXPORT void leveldb_options_set_max_file_size(leveldb_options_t*, size_t);       /* (*) */

/* Snappy in LevelDB is LZ4 here. */
enum { leveldb_no_compression = 0, leveldb_snappy_compression = 1 };
LEVELDB_EXPORT void leveldb_options_set_compression(leveldb_options_t*, int);

/* Extensions of Cantle: the memory budget in bytes (0: a quarter of the machine's memory, at
 * most 4 GiB), instead of the sum of write buffers and cache; and the layout ("chunk", "flsm", or
 * with options, as "flsm:guard_bytes=8MiB"; NULL: that of the database, "chunk" for a new one). The environment variables CANTLE_MEMORY_BUDGET and CANTLE_LAYOUT have precedence
 * over both. */
LEVELDB_EXPORT void leveldb_options_set_cantle_memory_budget(leveldb_options_t*, size_t bytes);
LEVELDB_EXPORT void leveldb_options_set_cantle_layout(leveldb_options_t*, const char* name);

/* An extension for programs that read much. A view holds the results of leveldb_iter_valid, _key
 * and _value at the iterator's position, without a call. Its address is fixed until the iterator
 * is destroyed. NULL for no iterator. If another thread may close the database, read the members
 * atomically. */
typedef struct leveldb_cantle_view_t {
  const char* key;
  size_t keylen;
  const char* val;
  size_t vallen;
  uint8_t valid;
} leveldb_cantle_view_t;
LEVELDB_EXPORT const leveldb_cantle_view_t* leveldb_iter_cantle_view(const leveldb_iterator_t*);

/* Passes the value to `found`, which must neither keep the bytes nor call this library. Returns
 * 1 if the key is present. If it is absent, or if there is an error, `found` is not called. */
LEVELDB_EXPORT uint8_t leveldb_cantle_get(leveldb_t* db, const leveldb_readoptions_t* options, const char* key, size_t keylen,
                                          void* state, void (*found)(void* state, const char* val, size_t vallen),
                                          char** errptr);

/* An extension: writes a consistent copy of an open database into a new or empty directory. The
 * copy is a database that can be opened. Other threads may read and write during the call; the
 * copy contains all writes before the call. The copy is durable once this returns. */
LEVELDB_EXPORT void leveldb_cantle_backup(leveldb_t* db, const char* name, char** errptr);

/* ---- Comparators ---- */

/* An order of keys, which must never change and is called from any thread. A database stores the
 * comparator's name, and cannot be opened with another one. The destructor (which may be NULL)
 * is called when the comparator was destroyed and no open database uses it any more. */
LEVELDB_EXPORT leveldb_comparator_t* leveldb_comparator_create(
    void* state, void (*destructor)(void*),
    int (*compare)(void*, const char* a, size_t alen, const char* b, size_t blen), const char* (*name)(void*));
LEVELDB_EXPORT void leveldb_comparator_destroy(leveldb_comparator_t*);

/* ---- Filter policies ---- */

/* Policies are never called, as Cantle has Bloom filters of its own. If a comparator is set too,
 * leveldb_filterpolicy_create_bloom declares that keys are equal only if their bytes are, as
 * LevelDB demands in this case. Without it, a database with a comparator has no filters. */
LEVELDB_EXPORT leveldb_filterpolicy_t* leveldb_filterpolicy_create(
    void* state, void (*destructor)(void*),
    char* (*create_filter)(void*, const char* const* key_array, const size_t* key_length_array, int num_keys,
                           size_t* filter_length),
    uint8_t (*key_may_match)(void*, const char* key, size_t length, const char* filter, size_t filter_length),
    const char* (*name)(void*));
LEVELDB_EXPORT void leveldb_filterpolicy_destroy(leveldb_filterpolicy_t*);
LEVELDB_EXPORT leveldb_filterpolicy_t* leveldb_filterpolicy_create_bloom(int bits_per_key);

/* ---- Read options ---- */

LEVELDB_EXPORT leveldb_readoptions_t* leveldb_readoptions_create(void);
LEVELDB_EXPORT void leveldb_readoptions_destroy(leveldb_readoptions_t*);
LEVELDB_EXPORT void leveldb_readoptions_set_verify_checksums(leveldb_readoptions_t*, uint8_t); /* (*) always on */
LEVELDB_EXPORT void leveldb_readoptions_set_fill_cache(leveldb_readoptions_t*, uint8_t);       /* (*) */
/* NULL: the state of the database at the time of the read. */
LEVELDB_EXPORT void leveldb_readoptions_set_snapshot(leveldb_readoptions_t*, const leveldb_snapshot_t*);

/* ---- Write options ---- */

LEVELDB_EXPORT leveldb_writeoptions_t* leveldb_writeoptions_create(void);
LEVELDB_EXPORT void leveldb_writeoptions_destroy(leveldb_writeoptions_t*);
/* If set, a write and all writes before it are durable (survive a loss of power) when the write
 * returns. If not, a write survives the end of the process, also a kill. */
LEVELDB_EXPORT void leveldb_writeoptions_set_sync(leveldb_writeoptions_t*, uint8_t);

/* ---- Caches ---- */

/* A share of the memory budget. Databases that are opened with the same cache share one budget
 * and one set of threads. */
LEVELDB_EXPORT leveldb_cache_t* leveldb_cache_create_lru(size_t capacity);
LEVELDB_EXPORT void leveldb_cache_destroy(leveldb_cache_t* cache);

/* ---- Environments ---- */

LEVELDB_EXPORT leveldb_env_t* leveldb_create_default_env(void);
LEVELDB_EXPORT void leveldb_env_destroy(leveldb_env_t*);
/* A directory for tests ($TEST_TMPDIR, or one of the user's in /tmp), created if it is missing.
 * The name must be freed with leveldb_free(). */
LEVELDB_EXPORT char* leveldb_env_get_test_directory(leveldb_env_t*);

/* ---- Other ---- */

/* Frees memory that a function of this library returned. */
LEVELDB_EXPORT void leveldb_free(void* ptr);

/* The version of LevelDB's interface: 1 and 23. */
LEVELDB_EXPORT int leveldb_major_version(void);
LEVELDB_EXPORT int leveldb_minor_version(void);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif
