/*
 * Cantle: an embedded, ordered, persistent key-value store. https://github.com/cantle-db/cantle
 *
 * Written from the sources in crates/cantle-c/src by the test tests/header.rs, which says how to renew it: do not edit.
 *
 * A store is a directory with keyspaces, ordered maps from byte strings to byte strings. docs/bindings/c.md
 * begins with a program of ten lines; docs/operations.md describes what to do when something goes wrong. The
 * following holds for every function:
 *
 * HANDLES  The functions cantle_..._new and cantle_..._open return handles. The caller frees each by the
 *   function for its kind. Handles are numbers that look like pointers, and none of them is given out twice:
 *   do not dereference one. A handle that was freed, is of another type, or never was one gives
 *   CANTLE_INVALID_ARGUMENT, and so does NULL where a handle is needed. Handles may be freed in any order,
 *   also after the store was closed.
 * POINTERS  Data given by pointer and length must be readable during the call, and is copied if it is kept;
 *   NULL is allowed for 0 bytes. An impossible length gives CANTLE_INVALID_ARGUMENT, and nothing is read:
 *   keys have at most 1 MiB, bounds of ranges one byte more, values at most 1 GiB. Texts end with a zero byte
 *   and are UTF-8 (paths: any bytes). Places of results must be writable; NULL is allowed where the function
 *   says so. If a function fails, its results are NULL, 0 or false.
 * MEMORY  A result that is to be freed by cantle_free is a copy of the caller's own, from malloc. Memory that
 *   a handle lends stays until the event that the function names. Writing past the end of either is not
 *   detected.
 * ERRORS  Functions return a cantle_status, CANTLE_OK (0) for success, or NULL or false if they fail. Each
 *   call writes to `*error`: NULL if it succeeds, else an error with kind and message, which the caller frees
 *   by cantle_error_free. `error` itself may be NULL. Nothing throws or unwinds into the caller: a mistake in
 *   the library (a panic in Rust) gives CANTLE_INTERNAL, and Rust's runtime writes its place to standard
 *   error; nothing else is printed. Two events end the process: no memory for the library's own needs
 *   (CANTLE_OUT_OF_MEMORY is for results), and a thread's stack that is used up.
 * THREADS  Stores, keyspaces, snapshots and transactions may be used from all threads at once. Iterators,
 *   batches and keys are for one thread at a time, which may change; another thread gets
 *   CANTLE_INVALID_ARGUMENT meanwhile. Freeing a handle while another thread is in a call with it is allowed;
 *   reading memory that it lent is not.
 * FORKS  In a forked child, every handle of a store that its parent made gives CANTLE_FORKED, and may be
 *   freed. The child may open other stores if, at the fork, no other thread of its parent was in a call of
 *   the library, and none of the library's own threads was at work (a store that is open and not in use does
 *   no harm). Otherwise a lock of such a thread stays locked in the child, which may then wait for ever. A
 *   child that calls exec is safe. A child shares the lock of a store that was open at the fork, and keeps
 *   others out until it ends or calls exec.
 * CALLBACKS  Callbacks run in the thread of the call that takes them, except comparators. They must neither
 *   throw nor jump out. A child that a callback forks may return from it: the call writes nothing and gives
 *   CANTLE_FORKED (except cantle_repair, from whose callback a child must not return).
 * UNLOADING  The library stays in memory after dlclose: its threads, and a handler of SIGBUS, need it.
 *
 * KEYSPACES  `keyspace` may be NULL except in functions named cantle_keyspace_...: it is the keyspace named
 *   "default" then.
 */


#ifndef CANTLE_H
#define CANTLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/**
 * Major number of the version of this header. The version of the library is cantle_version().
 */
#define CANTLE_VERSION_MAJOR 0

/**
 * Minor number of the version. While the major number is 0, recompile programs when this one
 * changes.
 */
#define CANTLE_VERSION_MINOR 1

/**
 * Patch number of the version.
 */
#define CANTLE_VERSION_PATCH 0

/**
 * Outcome of a call: `CANTLE_OK` (0), or the reason why it failed.
 */
typedef enum {
    /**
     * Success.
     */
    CANTLE_OK = 0,
    /**
     * The operating system refused an operation; the store stays usable.
     */
    CANTLE_IO = 1,
    /**
     * The file system is full. Reads and deletes continue; free space and retry.
     */
    CANTLE_NO_SPACE = 2,
    /**
     * Bytes on disk are not those that were written; cantle_error_path and cantle_error_offset
     * name the place. Other keys stay readable.
     */
    CANTLE_CORRUPTION = 3,
    /**
     * The store accepts no writes (any more), and the message gives the reason. Reads continue.
     */
    CANTLE_READ_ONLY = 4,
    /**
     * The store is open elsewhere, in this process or another.
     */
    CANTLE_LOCKED = 5,
    /**
     * An argument is out of its range, NULL although it is needed, or a handle that was freed, is
     * of another type, or is in use by another thread. Nothing was written.
     */
    CANTLE_INVALID_ARGUMENT = 6,
    /**
     * The path holds something other than a store, which was not touched.
     */
    CANTLE_NOT_A_STORE = 7,
    /**
     * There is no store at the path. (A key that is absent is no error.)
     */
    CANTLE_NOT_FOUND = 8,
    /**
     * There is something at the path already.
     */
    CANTLE_ALREADY_EXISTS = 9,
    /**
     * The file was written by a newer library.
     */
    CANTLE_UNSUPPORTED_FORMAT = 10,
    /**
     * A keyspace was opened with a layout or comparator other than it was created with.
     */
    CANTLE_OPTION_MISMATCH = 11,
    /**
     * The keyspace does not exist, or was dropped.
     */
    CANTLE_NO_KEYSPACE = 12,
    /**
     * A transaction conflicts with another write and wrote nothing: run it again.
     */
    CANTLE_CONFLICT = 13,
    /**
     * The store was closed.
     */
    CANTLE_CLOSED = 14,
    /**
     * The handle was made before this process was forked: a child must open a store of its own.
     */
    CANTLE_FORKED = 15,
    /**
     * There is no memory for a result, or there are as many handles as possible (16,777,216).
     */
    CANTLE_OUT_OF_MEMORY = 16,
    /**
     * A callback gave up. For callbacks to return; the library itself never fails with this.
     */
    CANTLE_ABORTED = 17,
    /**
     * A mistake in the library, caught at its boundary. The message says what to report.
     */
    CANTLE_INTERNAL = 18,
} cantle_status;

/**
 * The type of a part. Types sort in the order null, bytes, text, nested, integers of all sizes,
 * 32-bit float, float, boolean, UUID, versionstamp.
 */
typedef enum {
    /**
     * Nothing.
     */
    CANTLE_PART_NULL = 0,
    /**
     * A byte string, in `bytes`.
     */
    CANTLE_PART_BYTES = 1,
    /**
     * A text in UTF-8, in `bytes`.
     */
    CANTLE_PART_TEXT = 2,
    /**
     * A sequence within the sequence: see cantle_key_nested.
     */
    CANTLE_PART_NESTED = 3,
    /**
     * An integer, in `integer`.
     */
    CANTLE_PART_INT = 4,
    /**
     * A float, in `number`.
     */
    CANTLE_PART_FLOAT = 5,
    /**
     * False or true: `integer` is 0 or 1.
     */
    CANTLE_PART_BOOL = 6,
    /**
     * An integer that does not fit into 64 bits with its sign. Its absolute value is in `bytes`,
     * big endian, without leading zeros; `integer` is -1 or 1, as is its sign. An unsigned integer
     * of 64 bits has 8 bytes.
     */
    CANTLE_PART_BIG_INT = 7,
    /**
     * A float of 32 bits, in `number`.
     */
    CANTLE_PART_FLOAT32 = 8,
    /**
     * A UUID: 16 bytes in network order, in `bytes`.
     */
    CANTLE_PART_UUID = 9,
    /**
     * A versionstamp of FoundationDB: 12 bytes, in `bytes`.
     */
    CANTLE_PART_VERSIONSTAMP = 10,
} cantle_part_kind;

/**
 * Events that an acknowledged write survives.
 */
typedef enum {
    /**
     * The durability with which the store was opened.
     */
    CANTLE_DEFAULT = 0,
    /**
     * Nothing until the next checkpoint; after any crash the store is a consistent prefix of the
     * writes.
     */
    CANTLE_BUFFERED = 1,
    /**
     * The end of the process, however sudden; after a power failure the store is a consistent
     * prefix of the writes. The default of a store.
     */
    CANTLE_PROCESS = 2,
    /**
     * A power failure.
     */
    CANTLE_SYNC = 3,
} cantle_durability;

/**
 * Compression of table blocks.
 */
typedef enum {
    /**
     * No compression.
     */
    CANTLE_NO_COMPRESSION = 0,
    /**
     * LZ4: fast, about half the size of text.
     */
    CANTLE_LZ4 = 1,
    /**
     * Zstandard, at the level that is given with it: smaller, slower.
     */
    CANTLE_ZSTD = 2,
} cantle_compression;

/**
 * Kind of a bound of a range.
 */
typedef enum {
    /**
     * No bound.
     */
    CANTLE_UNBOUNDED = 0,
    /**
     * The key is the bound, and part of the range.
     */
    CANTLE_INCLUDED = 1,
    /**
     * The key is the bound, and not part of the range.
     */
    CANTLE_EXCLUDED = 2,
    /**
     * As the start of a range: the range has the keys that begin with these bytes, and its end is
     * ignored.
     */
    CANTLE_PREFIX = 3,
} cantle_bound_kind;

/**
 * A list of operations that cantle_write applies atomically. Freed by cantle_batch_free. For one
 * thread at a time: another one gets CANTLE_INVALID_ARGUMENT.
 */
typedef struct cantle_batch cantle_batch;

/**
 * An order of keys; freed by cantle_comparator_free.
 */
typedef struct cantle_comparator cantle_comparator;

/**
 * An open store. Closed and freed by cantle_close. Every function may be called with it from any thread at any time.
 */
typedef struct cantle_db cantle_db;

/**
 * The reason why a call failed: a kind, a message for people, and the place. Made by the functions
 * that take a `cantle_error **`; freed by cantle_error_free.
 */
typedef struct cantle_error cantle_error;

/**
 * A position among the pairs of a range, as of one moment, which moves in both directions. It may
 * stay open for hours without hindering other calls. Freed by cantle_iterator_free. For one thread
 * at a time: another one gets CANTLE_INVALID_ARGUMENT.
 */
typedef struct cantle_iterator cantle_iterator;

/**
 * A composite key: parts that were appended, or read from a key. Freed by cantle_key_free. For one
 * thread at a time: another one gets CANTLE_INVALID_ARGUMENT.
 */
typedef struct cantle_key cantle_key;

/**
 * A named, ordered set of pairs within a store. Functions that take a keyspace take NULL for the
 * one named `default`, which every store has. Freed by cantle_keyspace_free. Every function may be
 * called with it from any thread at any time.
 */
typedef struct cantle_keyspace cantle_keyspace;

/**
 * Options of a keyspace. The layout and the comparator are fixed when the keyspace is created; the
 * other options take effect at each opening. A setting returns a status, which may be ignored: the
 * function that reads the options returns the error of a wrong setting.
 */
typedef struct cantle_keyspace_options cantle_keyspace_options;

/**
 * Options of a store: settings with defaults, each of which may be set once or more before
 * cantle_open or cantle_repair reads them. A setting returns a status, which may be ignored: the
 * function that reads the options returns the error of a wrong setting.
 */
typedef struct cantle_options cantle_options;

/**
 * A memory budget and threads for several stores; freed by cantle_resources_free.
 */
typedef struct cantle_resources cantle_resources;

/**
 * A consistent view of a store, with all its keyspaces, as it was when the snapshot was taken.
 * While a snapshot is open, the store keeps the versions that it sees. Freed by
 * cantle_snapshot_free. Every function may be called with it from any thread at any time.
 */
typedef struct cantle_snapshot cantle_snapshot;

/**
 * Reads and writes that take effect together at the moment of the commit, or not at all. Ended and
 * freed by cantle_transaction_commit or cantle_transaction_rollback. Several threads may use it at
 * once.
 */
typedef struct cantle_transaction cantle_transaction;

/**
 * Bytes that belong to somebody else: `len` bytes at `data`. They need not end with a zero byte.
 */
typedef struct {
    /**
     * Address of the bytes; NULL if there is no value, as opposed to an empty one.
     */
    const char *data;
    /**
     * Number of bytes.
     */
    size_t len;
} cantle_slice;

/**
 * One side of a range.
 */
typedef struct {
    /**
     * A cantle_bound_kind.
     */
    int kind;
    /**
     * The key, unless there is no bound.
     */
    cantle_slice key;
} cantle_bound;

/**
 * A range of keys. All zeros is the range of every key, and so is NULL in the place of a range. A
 * range whose end is before its start is empty.
 */
typedef struct {
    /**
     * The bound at the start.
     */
    cantle_bound start;
    /**
     * The bound at the end.
     */
    cantle_bound end;
} cantle_range;

/**
 * Compares two keys: negative if `a` comes first, positive if `b` does, 0 if they are equal.
 * Called from many threads at once. The order must be total and never change. The callback must
 * not call the library, and must neither throw nor jump out.
 */
typedef int (*cantle_compare_fn)(void *user, const char *a, size_t a_len, const char *b, size_t b_len);

/**
 * Returns eight bytes of a key as a number that orders as the keys do: if `a` comes before `b`,
 * the number of `a` is not above that of `b`. Called in the same way as a cantle_compare_fn.
 */
typedef uint64_t (*cantle_key_prefix_fn)(void *user, const char *key, size_t key_len);

/**
 * Called once, in any thread, when `user` is not needed any more.
 */
typedef void (*cantle_destroy_fn)(void *user);

/**
 * Receives the value of one key of cantle_get_many, cantle_snapshot_get_many or
 * cantle_transaction_get_many. `number` is the place of the key in the array, from 0. If the key
 * was read, `status` is CANTLE_OK and `error` is NULL; `value` has `value_len` bytes, or is NULL if
 * the key is absent. If the read failed, `value` is NULL, and `status` and `error` give the reason.
 * Value and error belong to the library and end with the call of the callback. The callback may
 * read and write stores, but it cannot end the transaction whose read calls it: this gives
 * CANTLE_INVALID_ARGUMENT. It must neither throw nor jump out.
 */
typedef void (*cantle_get_many_fn)(void *user,
                                   size_t number,
                                   cantle_status status,
                                   const char *value,
                                   size_t value_len,
                                   const cantle_error *error);

/**
 * Computes a key's new value from its old one, which is NULL if the key is absent. Returns the
 * address of the new value and writes its length to `new_len` (0 at first); NULL deletes the key.
 * The bytes belong to the callback, and must stay until it is called again or cantle_update
 * returns. The callback may be called several times. It may read the store, but not write to one;
 * it must neither throw nor jump out.
 */
typedef const char *(*cantle_update_fn)(void *user, const char *old_value, size_t old_len, size_t *new_len);

/**
 * The body of a transaction. It reads and writes by `transaction`, and returns CANTLE_OK to have
 * it committed, or another status to have it rolled back. It may be called several times, once
 * after each conflict, and should have no effects except on the transaction. It may put an error
 * into `*error` (NULL at first), which cantle_transact then returns. It must neither commit nor
 * free the transaction, and neither throw nor jump out.
 */
typedef int (*cantle_transact_fn)(void *user, cantle_transaction *transaction, cantle_error **error);

/**
 * One part of a composite key, as cantle_key_part reads it.
 */
typedef struct {
    /**
     * The type.
     */
    cantle_part_kind kind;
    /**
     * The value of an integer or a boolean, or the sign of an integer beyond 64 bits.
     */
    int64_t integer;
    /**
     * The value of a float.
     */
    double number;
    /**
     * The value of a byte string, text, integer beyond 64 bits, UUID or versionstamp.
     */
    cantle_slice bytes;
} cantle_part;

/**
 * Called from time to time with the progress of a repair: bytes of files read, about how many will
 * be read, and pairs saved. Must neither throw nor jump out.
 */
typedef void (*cantle_progress_fn)(void *user, uint64_t bytes, uint64_t total_bytes, uint64_t pairs);

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * The version of the library, such as "0.1.0".
 *
 * Ownership: the text is the library's, and stays. Errors: none. Threads: any, at any time.
 */
const char *cantle_version(void);

/**
 * The kind of an error.
 *
 * Ownership: nothing changes hands. Errors: CANTLE_OK for NULL, CANTLE_INVALID_ARGUMENT for a
 * handle that is no error or was freed. Threads: any, at any time.
 */
cantle_status cantle_error_status(const cantle_error *error);

/**
 * The message: the failed operation, the place, and the remedy, as a sentence in English without a
 * full stop.
 *
 * Ownership: the text is the error's, and ends with it. Errors: a text that says so for NULL, and
 * for a handle that is no error or was freed; never NULL. Threads: any, at any time.
 */
const char *cantle_error_message(const cantle_error *error);

/**
 * The file or directory that an error is about, or NULL if there is none.
 *
 * Ownership: the text is the error's, and ends with it. Errors: NULL for a handle that is no error
 * or was freed. Threads: any, at any time.
 */
const char *cantle_error_path(const cantle_error *error);

/**
 * Offset of the damage in the file, in bytes, or -1 if the error is not CANTLE_CORRUPTION.
 *
 * Ownership: nothing changes hands. Errors: -1 for a handle that is no error or was freed.
 * Threads: any, at any time.
 */
int64_t cantle_error_offset(const cantle_error *error);

/**
 * Error number of the operating system (`errno`), or 0 if there is none.
 *
 * Ownership: nothing changes hands. Errors: 0 for a handle that is no error or was freed. Threads:
 * any, at any time.
 */
int32_t cantle_error_os_code(const cantle_error *error);

/**
 * Frees an error. Does nothing for NULL.
 *
 * Ownership: the error and its texts are gone afterwards. Errors: CANTLE_INVALID_ARGUMENT for a
 * handle that is no error or was freed. Threads: any; no thread may read the error's texts
 * meanwhile.
 */
cantle_status cantle_error_free(cantle_error *error);

/**
 * Number of handles of any kind that this process has not freed yet. For tests that look for
 * forgotten handles, which no tool that watches memory can find. Looks at as many slots as there
 * ever were handles at one time.
 *
 * Ownership: nothing changes hands. Errors: none. Threads: any; handles that other threads create
 * or free meanwhile may be counted or not.
 */
size_t cantle_handle_count(void);

/**
 * Frees memory that a function of this header says is to be freed by cantle_free. Does nothing for
 * NULL.
 *
 * Ownership: `data` is gone afterwards. Errors: none; memory that did not come from this library,
 * or was freed already, must not be given. A handle is not freed by this, and stays as it is.
 * Threads: any.
 */
void cantle_free(void *data);

/**
 * The keys from `start` up to, not including, `end`. If `start` or `end` is NULL with a length of
 * 0, the range has no bound on that side. (For an empty key as a bound, give any other address
 * with a length of 0, or a cantle_bound.)
 *
 * Ownership: the range points to the caller's bytes, which must stay while the range is used.
 * Errors: none here. The function that uses the range returns CANTLE_INVALID_ARGUMENT for NULL
 * with another length, and for a bound that is more than one byte longer than 1 MiB. Threads: any.
 */
cantle_range cantle_range_between(const void *start, size_t start_len, const void *end, size_t end_len);

/**
 * The keys that begin with `prefix`. In a keyspace with a comparator, an iterator reads every pair
 * to find them, and other functions refuse such a range.
 *
 * Ownership: the range points to the caller's bytes, which must stay while the range is used.
 * Errors: none here; as cantle_range_between where the range is used. Threads: any.
 */
cantle_range cantle_range_prefix(const void *prefix, size_t prefix_len);

/**
 * Creates an order of keys from callbacks. A keyspace that is created with it records the `name`,
 * and each opening compares the name: change it whenever the order changes. `equal_is_identical`
 * says that keys which compare equal are the same bytes; otherwise, Bloom filters are off.
 * `prefix` may be NULL (then no prefixes of keys are cached), and so may `destroy`.
 *
 * Ownership: the comparator is the caller's, to be freed by cantle_comparator_free, even at once:
 * options and stores keep the order itself. `user` must live until `destroy` is called, which
 * happens when the last user of the order is gone, in any thread, and perhaps shortly after
 * cantle_close has returned. If this function fails, `user` stays the caller's, and `destroy` is
 * not called. Errors: NULL and CANTLE_INVALID_ARGUMENT without a name or `compare`, for a name
 * that is not UTF-8, and for "cantle.bytewise", the name of the order without a comparator;
 * CANTLE_OUT_OF_MEMORY if there are too many handles. Threads: any; for the callbacks see their
 * types.
 */
cantle_comparator *cantle_comparator_new(const char *name,
                                         void *user,
                                         cantle_compare_fn compare,
                                         cantle_key_prefix_fn prefix,
                                         bool equal_is_identical,
                                         cantle_destroy_fn destroy,
                                         cantle_error **error);

/**
 * Frees a comparator. Stores and options that use it keep its order. Does nothing for NULL.
 *
 * Ownership: the comparator is gone afterwards; `destroy` is called if nothing else uses the
 * order. Errors: CANTLE_INVALID_ARGUMENT for a handle that is no comparator or was freed. Threads:
 * any.
 */
cantle_status cantle_comparator_free(cantle_comparator *comparator);

/**
 * The default options of a keyspace.
 *
 * Ownership: the options are the caller's, to be freed by cantle_keyspace_options_free. Errors: NULL if there are too many handles.
 * Threads: any.
 */
cantle_keyspace_options *cantle_keyspace_options_new(void);

/**
 * Frees options of a keyspace. Does nothing for NULL.
 *
 * Ownership: the options are gone afterwards. Errors: CANTLE_INVALID_ARGUMENT for a handle that is
 * no options of a keyspace or was freed. Threads: any.
 */
cantle_status cantle_keyspace_options_free(cantle_keyspace_options *options);

/**
 * Sets the layout: its name, or its name with options that only this layout has, such as `chunk`,
 * `flsm` or `chunk:munks=false,chunk_bytes=1MiB`. Default: `chunk` for a new keyspace, and the existing
 * layout for an existing one, each with its default options.
 *
 * The options of `chunk`: `chunk_bytes`, the size at which a chunk splits, 64KiB to 1GiB, 8MiB by
 * default; `log_bytes`, a fixed limit of a chunk's log instead of the one that follows from the
 * bound on space, none by default; `munk_log_bytes`, the same for a chunk that is in memory, by
 * default `log_bytes` or else twenty chunks; `filter_partitions`, the parts of a full log's Bloom
 * filter, 1 to 64, 16 by default; `munks`, true if popular chunks are kept in memory, and
 * `recent_appends`, true if the last appends to logs are, both true by default.
 *
 * The options of `flsm` (PebblesDB): `generation_bytes`, the length at which a log is full, 4KiB to
 * 32MiB, by default a 24th of the memory budget, from 1MiB to 16MiB; `log_is_level_0`, false if
 * every full log is written again as a table, and not only those of tiny pairs, true by default;
 * `guard_bytes`, the target length of tables and guards of the last level, 4KiB to 1GiB, 16MiB by
 * default; `max_sstables_per_guard`, the tables of a guard before some of them are merged, 1 to 64,
 * by default 1 to 12 for each guard by its own reads and writes; `seek_compaction`, a number of
 * seeks without a write after which a guard is merged, 1 to 1000000, off by default;
 * `level_percent`, the part of the next level at which a level is merged down, 1 to 100, off by
 * default; `top_level_bits`, the lowest bits of a key's hash that are set if it begins a guard of
 * level 1, 1 to 48, off by default, which chooses guards from the data; `bit_decrement`, the bits
 * fewer for each deeper level, 0 to 16, 2 by default; `parallel_search`, the logs and tables that a
 * get searches at the same time at most, where it has to read several of them from a device, 1 to
 * 16, 16 by default.
 *
 * The options of `forest` (SifrDB): `generation_bytes`, `log_is_level_0` and `parallel_search` as in
 * `flsm`; `growth_factor`, the trees of a stage beyond which the oldest ones become one tree of the
 * next, 2 to 16, 4 by default; `sub_tree_bytes`, the usual length of a sub-tree, 4KiB to 1GiB, by
 * default 2MiB, and more beyond 128GiB of data; `cleaning_threshold`, the sub-trees that a merge
 * writes before it removes those that it has merged, 1 to 10000, by default at least 11;
 * `seek_compaction`, a number of seeks without a write after which a range of keys is merged into
 * one tree, 1 to 1000000, off by default; `filters`, false for no Bloom filters, and `size_tiered`,
 * true for one table a tree, both for comparisons with the paper; `aligned_storing`, true to
 * allocate the space of a sub-tree before it is written, and `direct_io`, true to write sub-trees
 * past the operating system's page cache, both false by default.
 *
 * Ownership: nothing changes hands. Errors: CANTLE_INVALID_ARGUMENT for NULL, for a handle that is
 * no options of a keyspace or was freed, and for a value that is not of its type (a text that
 * names no layout, a number that is no enumerator, an invalid handle). The function that reads the
 * options returns the error of such a value again, and checks the ranges of values. Threads: any.
 */
cantle_status cantle_keyspace_options_layout(cantle_keyspace_options *options, const char *layout);

/**
 * Sets the order of keys. Default: bytewise.
 *
 * Ownership: the options keep the order; the caller frees its handle. Errors: as cantle_keyspace_options_layout. Threads: any.
 */
cantle_status cantle_keyspace_options_comparator(cantle_keyspace_options *options,
                                                 const cantle_comparator *comparator);

/**
 * Sets the compression of table blocks: a cantle_compression, and for CANTLE_ZSTD a level of 1 to
 * 22, which the others ignore. Default: none.
 *
 * Ownership: nothing changes hands. Errors: as cantle_keyspace_options_layout. Threads: any.
 */
cantle_status cantle_keyspace_options_compression(cantle_keyspace_options *options,
                                                  int compression,
                                                  int level);

/**
 * Sets the bound on the bytes on disk per live byte, at least 1.1. Default: 1.5, or up to 3 while
 * the data is small compared to the memory budget.
 *
 * Ownership: nothing changes hands. Errors: as cantle_keyspace_options_layout. Threads: any.
 */
cantle_status cantle_keyspace_options_space_amplification(cantle_keyspace_options *options, double bound);

/**
 * If `on`, popular single pairs of chunks that are not in memory are cached. Default: yes.
 *
 * Ownership: nothing changes hands. Errors: as cantle_keyspace_options_layout. Threads: any.
 */
cantle_status cantle_keyspace_options_row_cache(cantle_keyspace_options *options, bool on);

/**
 * Creates options with the defaults.
 *
 * Ownership: the options are the caller's, to be freed by cantle_options_free. Errors: NULL if there are too many handles.
 * Threads: any.
 */
cantle_options *cantle_options_new(void);

/**
 * Frees options. Stores that were opened with them do not need them. Does nothing for NULL.
 *
 * Ownership: the options are gone afterwards. Errors: CANTLE_INVALID_ARGUMENT for a handle that is
 * no options or was freed. Threads: any.
 */
cantle_status cantle_options_free(cantle_options *options);

/**
 * Sets the memory budget: bytes of memory for everything that the store caches and buffers.
 * Default: a quarter of the memory of the machine or of its control group, at most 4 GiB.
 *
 * Ownership: nothing changes hands. Errors: CANTLE_INVALID_ARGUMENT for NULL, for a handle that is
 * no options or was freed, and for a value that is not of its type (a number that is no
 * enumerator, an invalid handle); CANTLE_FORKED. cantle_open returns the error of such a value
 * again, and checks the ranges of values. Threads: any.
 */
cantle_status cantle_options_memory_budget(cantle_options *options, uint64_t bytes);

/**
 * Sets the events that an acknowledged write survives: a cantle_durability. Default:
 * CANTLE_PROCESS.
 *
 * Ownership: nothing changes hands. Errors: as cantle_options_memory_budget. Threads: any.
 */
cantle_status cantle_options_durability(cantle_options *options, int durability);

/**
 * If `on`, the store is created if there is none. Default: yes.
 *
 * Ownership: nothing changes hands. Errors: as cantle_options_memory_budget. Threads: any.
 */
cantle_status cantle_options_create_if_missing(cantle_options *options, bool on);

/**
 * If `on`, an existing store is an error. Default: no.
 *
 * Ownership: nothing changes hands. Errors: as cantle_options_memory_budget. Threads: any.
 */
cantle_status cantle_options_error_if_exists(cantle_options *options, bool on);

/**
 * If `on`, a store may be created in a directory that holds other files, as long as these belong
 * to no known kind of store. cantle_repair then returns CANTLE_NOT_FOUND for such a directory.
 * Default: no, since most often the path is a mistake. In either case a store does not touch files
 * that are not its own, and a directory of another kind of store is refused.
 *
 * Ownership: nothing changes hands. Errors: as cantle_options_memory_budget. Threads: any.
 */
cantle_status cantle_options_beside_other_files(cantle_options *options, bool on);

/**
 * If `on`, cantle_repair keeps writes since the last checkpoint even if nothing proves that all of
 * them reached the disk: because the process was killed and its volume was unmounted since, or
 * because the power failed. Default: no. Writes between those that are kept may be missing. Has no
 * effect on an opening, which gives these writes up for good if it is for writing.
 *
 * Ownership: nothing changes hands. Errors: as cantle_options_memory_budget. Threads: any.
 */
cantle_status cantle_options_keep_left_behind(cantle_options *options, bool on);

/**
 * If `on`, the store is opened for reading only: writes fail, and nothing on disk changes. Any
 * number of readers may have the store open at once, but no writer. Default: no.
 *
 * Ownership: nothing changes hands. Errors: as cantle_options_memory_budget. Threads: any.
 */
cantle_status cantle_options_read_only(cantle_options *options, bool on);

/**
 * Sets the number of threads for rebalances. Three more threads make checkpoints, split chunks,
 * and do periodic work. Default: half the cores, at least 1 and at most 4.
 *
 * Ownership: nothing changes hands. Errors: as cantle_options_memory_budget. Threads: any.
 */
cantle_status cantle_options_background_threads(cantle_options *options, size_t threads);

/**
 * Sets the longest time between checkpoints while there is something to make durable, in
 * milliseconds. Default: 5000. A shorter time loses fewer writes in a power failure, and costs
 * more syncs.
 *
 * Ownership: nothing changes hands. Errors: as cantle_options_memory_budget. Threads: any.
 */
cantle_status cantle_options_checkpoint_interval_ms(cantle_options *options, uint64_t milliseconds);

/**
 * If `on`, the store has a write buffer: a mapped file that collects appends to logs, so that many
 * of them take one system call. If the process is killed, buffered appends are kept like written
 * ones. Default: yes. The first store of a process that makes a write buffer installs a handler of
 * SIGBUS. The handler stays until the process ends, and passes every SIGBUS that is not about
 * write buffers to the handler that was installed before. If every store is opened without a write
 * buffer, no handler is installed.
 *
 * Ownership: nothing changes hands. Errors: as cantle_options_memory_budget. Threads: any.
 */
cantle_status cantle_options_write_buffer(cantle_options *options, bool on);

/**
 * If `on`, the store reads many places at once through a ring of the kernel (Linux's io_uring), where it
 * can have one. Otherwise it gives the kernel hints and reads the places one by one, with the same results.
 * Default: no, as hints took less time on a local SSD. Where a sandbox ends the process for asking, the
 * environment variable CANTLE_IO_URING=off turns it off for all stores of a process.
 *
 * Ownership: nothing changes hands. Errors: as cantle_options_memory_budget. Threads: any.
 */
cantle_status cantle_options_io_uring(cantle_options *options, bool on);

/**
 * If `on`, the store has a socket in its directory, MONITOR, by which `cantle top`, `stats`,
 * `inspect` and `backup` look at it while this program has it open. Default: no. Programs of the
 * same user and of root get answers. Linux only; opening fails with CANTLE_INVALID_ARGUMENT
 * elsewhere, and for a store that is opened read-only.
 *
 * Ownership: nothing changes hands. Errors: as cantle_options_memory_budget. Threads: any.
 */
cantle_status cantle_options_monitor(cantle_options *options, bool on);

/**
 * Shares a memory budget and threads with other stores. cantle_options_memory_budget and
 * cantle_options_background_threads then have no effect.
 *
 * Ownership: the options keep the resources; the caller frees its handle. Errors: as cantle_options_memory_budget. Threads: any.
 */
cantle_status cantle_options_resources(cantle_options *options,
                                       const cantle_resources *resources);

/**
 * Sets the options of the keyspace named `default`, as they are now. Default: those of
 * cantle_keyspace_options_new.
 *
 * Ownership: the options of the keyspace are copied. Errors: as cantle_options_memory_budget.
 * Threads: any.
 */
cantle_status cantle_options_default_keyspace(cantle_options *options,
                                              const cantle_keyspace_options *keyspace_options);

/**
 * Registers a comparator, so that keyspaces that were created with a comparator of this name can
 * be opened. May be called for several.
 *
 * Ownership: the options keep the order; the caller frees its handle. Errors: as cantle_options_memory_budget. Threads: any.
 */
cantle_status cantle_options_comparator(cantle_options *options,
                                        const cantle_comparator *comparator);

/**
 * Creates one memory budget in bytes and one pool of threads, for every store that is opened with
 * these resources.
 *
 * Ownership: the resources are the caller's, to be freed by cantle_resources_free, even at once:
 * stores keep the parts that they need. Errors: NULL if there are too many handles; cantle_open
 * returns the error of numbers out of their range. Threads: any.
 */
cantle_resources *cantle_resources_new(uint64_t memory_budget,
                                       size_t background_threads,
                                       cantle_error **error);

/**
 * Frees resources. Stores that were opened with them keep them. Does nothing for NULL.
 *
 * Ownership: the handle is gone afterwards; threads end with the last store. Errors:
 * CANTLE_INVALID_ARGUMENT for a handle that is no resources or was freed. Threads: any.
 */
cantle_status cantle_resources_free(cantle_resources *resources);

/**
 * Opens the store in directory `path`, and recovers it if necessary. `options` may be NULL for the
 * defaults. By default the store is created if there is none.
 *
 * Ownership: the store is the caller's, to be closed by cantle_close; the options stay the
 * caller's. Errors: NULL and CANTLE_LOCKED if the store is open elsewhere; CANTLE_NOT_FOUND if
 * there is no store, and the options do not allow creating one; CANTLE_ALREADY_EXISTS if there is
 * a store, and the options forbid that; CANTLE_NOT_A_STORE if the path holds something else, which
 * is not touched; CANTLE_OPTION_MISMATCH for a comparator that is not registered;
 * CANTLE_INVALID_ARGUMENT if `path` is NULL, if `options` are no options or were freed, and if one
 * of them is wrong; CANTLE_UNSUPPORTED_FORMAT; CANTLE_CORRUPTION if the manifest or the journal is
 * damaged; CANTLE_IO and CANTLE_NO_SPACE; CANTLE_FORKED for options of the process that this one
 * was forked from; CANTLE_OUT_OF_MEMORY if there are too many handles. Threads: any.
 */
cantle_db *cantle_open(const char *path, const cantle_options *options, cantle_error **error);

/**
 * Makes everything durable, closes the store, releases its lock, and frees the handle: the store
 * may be opened again at once. Other handles of the store return CANTLE_CLOSED from now on, and
 * must still be freed.
 *
 * Ownership: `db` is gone afterwards, even if this fails (unless it is no open store, or this is
 * called from a callback that must not write). Errors: CANTLE_INVALID_ARGUMENT if `db` is NULL, is
 * no store, or was closed; CANTLE_FORKED in a forked child, which leaves the store as it is. After
 * any other error, writes since the last checkpoint may be lost; CANTLE_READ_ONLY says that the
 * store had turned read-only before, and why. Threads: any; calls in other threads end with
 * CANTLE_CLOSED.
 */
cantle_status cantle_close(cantle_db *db, cantle_error **error);

/**
 * The store's directory, as the caller gave it.
 *
 * Ownership: the text is the caller's, to be freed by cantle_free. Errors: NULL and
 * CANTLE_INVALID_ARGUMENT for an invalid handle, CANTLE_OUT_OF_MEMORY. Threads: any.
 */
char *cantle_path(cantle_db *db, cantle_error **error);

/**
 * The name of the order of a keyspace: that of its comparator, or "cantle.bytewise". `keyspace` may be NULL for the default one.
 *
 * Ownership: the text is the caller's, to be freed by cantle_free. Errors: NULL and
 * CANTLE_INVALID_ARGUMENT for invalid handles, and for a name that contains a zero byte (made in
 * another language); CANTLE_OUT_OF_MEMORY. Threads: any.
 */
char *cantle_comparator_name(cantle_db *db,
                             cantle_keyspace *keyspace,
                             cantle_error **error);

/**
 * Makes all writes durable that were acknowledged before this call, by a checkpoint. Concurrent
 * callers share one checkpoint.
 *
 * Ownership: nothing changes hands. Errors: after CANTLE_NO_SPACE the store is as before; a failed
 * sync turns it read-only; CANTLE_READ_ONLY, CANTLE_CLOSED. Threads: any.
 */
cantle_status cantle_sync(cantle_db *db, cantle_error **error);

/**
 * Writes a consistent copy of the store into a new or empty directory. The copy is a complete
 * store. If both directories are on one file system, the two stores share the files of tables by
 * hard links. The store may be used meanwhile.
 *
 * Ownership: nothing changes hands. Errors: CANTLE_ALREADY_EXISTS if the directory holds a store,
 * CANTLE_NOT_A_STORE if it holds anything else; errors of writing there. Threads: any.
 */
cantle_status cantle_backup(cantle_db *db, const char *directory, cantle_error **error);

/**
 * Returns the keyspace of this name. If there is none, creates it. If it exists, the layout and
 * the comparator must be the existing ones or not be given. The other options take effect, except
 * in `default`, which keeps those given at opening. `options` may be NULL: an existing keyspace
 * then keeps its settings, and a new one gets the defaults.
 *
 * Ownership: the keyspace is the caller's, to be freed by cantle_keyspace_free, also after
 * cantle_close; the options stay the caller's. Errors: NULL and CANTLE_OPTION_MISMATCH for another
 * comparator, CANTLE_INVALID_ARGUMENT for options out of their range and names that are not 1 to
 * 255 bytes of UTF-8, CANTLE_NO_KEYSPACE if the keyspace would have to be created in a read-only
 * store. Threads: any.
 */
cantle_keyspace *cantle_keyspace_open(cantle_db *db,
                                      const char *name,
                                      const cantle_keyspace_options *options,
                                      cantle_error **error);

/**
 * Creates a keyspace. `options` may be NULL for the defaults.
 *
 * Ownership: as cantle_keyspace_open. Errors: NULL and CANTLE_ALREADY_EXISTS if there is one of this name, which is left as it is;
 * otherwise as cantle_keyspace_open. Threads: any.
 */
cantle_keyspace *cantle_keyspace_create(cantle_db *db,
                                        const char *name,
                                        const cantle_keyspace_options *options,
                                        cantle_error **error);

/**
 * Frees the handle of a keyspace; the keyspace stays. Does nothing for NULL.
 *
 * Ownership: the handle is gone afterwards. Errors: CANTLE_INVALID_ARGUMENT for a handle that is
 * no keyspace or was freed. Threads: any.
 */
cantle_status cantle_keyspace_free(cantle_keyspace *keyspace);

/**
 * The name of a keyspace.
 *
 * Ownership: the text is the caller's, to be freed by cantle_free. Errors: NULL and
 * CANTLE_INVALID_ARGUMENT for an invalid handle, and for a name that contains a zero byte (made in
 * another language); CANTLE_OUT_OF_MEMORY. Threads: any.
 */
char *cantle_keyspace_name(cantle_keyspace *keyspace, cantle_error **error);

/**
 * The names of all keyspaces, in order: texts, and NULL after the last one. `count` may be NULL.
 *
 * Ownership: the array, with its texts, is one block that is the caller's, to be freed by one call
 * of cantle_free. Errors: NULL and CANTLE_INVALID_ARGUMENT for an invalid handle, and if a name
 * contains a zero byte (made in another language); CANTLE_CLOSED, CANTLE_OUT_OF_MEMORY; `*count`
 * is 0 then. Threads: any.
 */
char **cantle_keyspaces(cantle_db *db, size_t *count, cantle_error **error);

/**
 * Drops a keyspace and everything in it. Snapshots that were taken before can still read it,
 * through a handle from before; every other use of such a handle returns CANTLE_NO_KEYSPACE.
 *
 * Ownership: handles of the keyspace must still be freed. Errors: CANTLE_NO_KEYSPACE if there is
 * none, CANTLE_INVALID_ARGUMENT for `default`; as cantle_put. Threads: any.
 */
cantle_status cantle_keyspace_drop(cantle_db *db, const char *name, cantle_error **error);

/**
 * The metadata of a keyspace: bytes of the application that are stored with the keyspace. Empty
 * until set. `len` may be NULL.
 *
 * Ownership: the bytes, followed by a zero byte that does not count, are the caller's, to be freed
 * by cantle_free. Errors: NULL and CANTLE_INVALID_ARGUMENT for an invalid handle,
 * CANTLE_OUT_OF_MEMORY. Threads: any.
 */
char *cantle_keyspace_metadata(cantle_keyspace *keyspace, size_t *len, cantle_error **error);

/**
 * Replaces the metadata of a keyspace, which has at most 64 KiB. The metadata is durable when this
 * returns, and everything that was written before is durable before it.
 *
 * Ownership: the bytes are copied. Errors: CANTLE_INVALID_ARGUMENT for more than 64 KiB,
 * CANTLE_NO_KEYSPACE, and as cantle_sync: the metadata may have been replaced then. Threads: any.
 */
cantle_status cantle_keyspace_set_metadata(cantle_keyspace *keyspace,
                                           const void *metadata,
                                           size_t len,
                                           cantle_error **error);

/**
 * Returns the key's value, in a new block and followed by a zero byte that does not count.
 * `*value` is NULL if the key is absent, which is no error. Never waits for writers. `keyspace`
 * may be NULL for the default one, and `value_len` may be NULL.
 *
 * Ownership: the block is the caller's, to be freed by cantle_free. Errors: CANTLE_CORRUPTION if
 * the read needs damaged bytes; other keys stay readable; CANTLE_IO, CANTLE_CLOSED,
 * CANTLE_NO_KEYSPACE, CANTLE_INVALID_ARGUMENT, CANTLE_OUT_OF_MEMORY. `*value` is NULL then.
 * Threads: any.
 */
cantle_status cantle_get(cantle_db *db,
                         cantle_keyspace *keyspace,
                         const void *key,
                         size_t key_len,
                         char **value,
                         size_t *value_len,
                         cantle_error **error);

/**
 * Copies the key's value into the caller's buffer. `*found` is true if the key has a value, and
 * `*value_len` is the length of the value; `value_len` may be NULL. If the length is more than
 * `capacity`, the buffer has the first `capacity` bytes. `buffer` may be NULL, to ask for the
 * length.
 *
 * Ownership: the buffer stays the caller's. Errors: as cantle_get. Threads: any.
 */
cantle_status cantle_get_into(cantle_db *db,
                              cantle_keyspace *keyspace,
                              const void *key,
                              size_t key_len,
                              void *buffer,
                              size_t capacity,
                              size_t *value_len,
                              bool *found,
                              cantle_error **error);

/**
 * Tests if the key has a value: `*found` is true then.
 *
 * Ownership: nothing changes hands. Errors: as cantle_get; `*found` is false then. Threads: any.
 */
cantle_status cantle_contains(cantle_db *db,
                              cantle_keyspace *keyspace,
                              const void *key,
                              size_t key_len,
                              bool *found,
                              cantle_error **error);

/**
 * Reads the values of `count` keys, all as of one moment, and calls `receive` with `user` and the
 * value of each key: once for each key, in any order. The device reads for many keys at the same
 * time: keys that are in no cache take a fraction of the time that as many calls of cantle_get
 * take. This call does not see what `receive` writes. `count` is at most 16,777,216; `keys` may be
 * NULL if it is 0. `keyspace` may be NULL for the default one.
 *
 * Ownership: the keys stay the caller's, and must not change during the call; values and errors are
 * the library's, and `receive` has them for its call only; `user` stays the caller's. Errors:
 * CANTLE_INVALID_ARGUMENT for invalid handles, without `receive`, and if there are too many keys or
 * one of them is too long or NULL, and CANTLE_OUT_OF_MEMORY: `receive` was not called then.
 * Otherwise each key fails by itself, as cantle_get does, and `receive` is called for all of them.
 * If keys failed, the call returns the error of the one with the lowest number. CANTLE_FORKED in a
 * child that was forked by `receive`. Threads: any; `receive` is called in this thread.
 */
cantle_status cantle_get_many(cantle_db *db,
                              cantle_keyspace *keyspace,
                              const cantle_slice *keys,
                              size_t count,
                              cantle_get_many_fn receive,
                              void *user,
                              cantle_error **error);

/**
 * Stores a pair, and replaces the key's previous value. `keyspace` may be NULL for the default
 * one. Keys have at most 1 MiB, values at most 1 GiB; a key or value of 0 bytes may be NULL. Use
 * cantle_write for more durability than the store's.
 *
 * Ownership: key and value are copied. Errors: CANTLE_INVALID_ARGUMENT for a key or value that is
 * too long, CANTLE_NO_SPACE, CANTLE_READ_ONLY, CANTLE_CLOSED, CANTLE_NO_KEYSPACE, CANTLE_IO.
 * Nothing was written then, unless the message says that a sync failed: in this case the next
 * opening shows if the write took effect. Threads: any.
 */
cantle_status cantle_put(cantle_db *db,
                         cantle_keyspace *keyspace,
                         const void *key,
                         size_t key_len,
                         const void *value,
                         size_t value_len,
                         cantle_error **error);

/**
 * Removes a key, if it is there. `keyspace` may be NULL for the default one.
 *
 * Ownership: the key is copied. Errors: as cantle_put, but deletes succeed for longer on a full
 * disk. Threads: any.
 */
cantle_status cantle_delete(cantle_db *db,
                            cantle_keyspace *keyspace,
                            const void *key,
                            size_t key_len,
                            cantle_error **error);

/**
 * Removes every key of the range (NULL: every key), atomically. `keyspace` may be NULL for the default one.
 *
 * Ownership: the range is copied. Errors: as cantle_delete; CANTLE_INVALID_ARGUMENT for a prefix in a keyspace with a comparator.
 * Threads: any.
 */
cantle_status cantle_delete_range(cantle_db *db,
                                  cantle_keyspace *keyspace,
                                  const cantle_range *range,
                                  cantle_error **error);

/**
 * Replaces the key's value by the result of `change`, atomically; `change` is called with `user`.
 * If `value` is not NULL it gets the new value in a new block, or NULL if the key was deleted, and
 * `value_len` (which may be NULL) its length. `keyspace` may be NULL for the default one.
 *
 * Ownership: the key is copied, and so is the result of `change`; `user` stays the caller's; the
 * block is the caller's, to be freed by cantle_free. Errors: as cantle_get and cantle_put;
 * CANTLE_INVALID_ARGUMENT without `change`, for a new value that is too long, and from within
 * another callback of cantle_update; CANTLE_FORKED in a child that was forked by `change`. Nothing
 * was written then, except with CANTLE_OUT_OF_MEMORY, which says that there is no memory for the
 * block: the new value is in the store. Threads: any; `change` is called in this thread.
 */
cantle_status cantle_update(cantle_db *db,
                            cantle_keyspace *keyspace,
                            const void *key,
                            size_t key_len,
                            cantle_update_fn change,
                            void *user,
                            char **value,
                            size_t *value_len,
                            cantle_error **error);

/**
 * Approximate number of bytes on disk that the keys of the range (NULL: every key) take, garbage
 * included. Reads indexes, and at most two blocks of pairs for each table.
 *
 * Ownership: nothing changes hands. Errors: CANTLE_CLOSED, CANTLE_NO_KEYSPACE, CANTLE_INVALID_ARGUMENT; `*bytes` is 0 then. Threads: any.
 */
cantle_status cantle_approximate_bytes(cantle_db *db,
                                       cantle_keyspace *keyspace,
                                       const cantle_range *range,
                                       uint64_t *bytes,
                                       cantle_error **error);

/**
 * Sorts everything within the range (NULL: every key) and removes garbage, now, in the calling
 * thread. Never necessary. Afterwards the range takes as little disk space as possible.
 *
 * Ownership: nothing changes hands. Errors: as cantle_put and cantle_sync. Threads: any; other
 * calls continue meanwhile.
 */
cantle_status cantle_compact_range(cantle_db *db,
                                   cantle_keyspace *keyspace,
                                   const cantle_range *range,
                                   cantle_error **error);

/**
 * Creates an empty batch. It belongs to the process that made it, because it may hold keyspaces: a
 * forked child must make its own.
 *
 * Ownership: the batch is the caller's, to be freed by cantle_batch_free. Errors: NULL if there
 * are too many handles, or if there is no memory to watch for forks of the process. Threads: any.
 */
cantle_batch *cantle_batch_new(void);

/**
 * Frees a batch. Does nothing for NULL.
 *
 * Ownership: the batch is gone afterwards. Errors: CANTLE_INVALID_ARGUMENT for a handle that is no
 * batch or was freed. Threads: any.
 */
cantle_status cantle_batch_free(cantle_batch *batch);

/**
 * Adds a put. `keyspace` may be NULL for the default one of the store to which the batch is
 * written.
 *
 * Ownership: key and value are copied; the keyspace's handle may be freed before the batch is
 * written. Errors: CANTLE_INVALID_ARGUMENT for invalid handles and pointers, and for a key or
 * value that is too long. Threads: one at a time.
 */
cantle_status cantle_batch_put(cantle_batch *batch,
                               cantle_keyspace *keyspace,
                               const void *key,
                               size_t key_len,
                               const void *value,
                               size_t value_len,
                               cantle_error **error);

/**
 * Adds a delete. `keyspace` may be NULL for the default one of the store to which the batch is
 * written.
 *
 * Ownership: the key is copied. Errors: as cantle_batch_put. Threads: one at a time.
 */
cantle_status cantle_batch_delete(cantle_batch *batch,
                                  cantle_keyspace *keyspace,
                                  const void *key,
                                  size_t key_len,
                                  cantle_error **error);

/**
 * Adds the delete of every key of the range (NULL: every key). `keyspace` may be NULL for the
 * default one of the store to which the batch is written.
 *
 * Ownership: the range is copied. Errors: as cantle_batch_put; CANTLE_INVALID_ARGUMENT for a
 * prefix in a keyspace with a comparator (for the default keyspace, cantle_write returns this
 * error). Threads: one at a time.
 */
cantle_status cantle_batch_delete_range(cantle_batch *batch,
                                        cantle_keyspace *keyspace,
                                        const cantle_range *range,
                                        cantle_error **error);

/**
 * Appends the operations of `other`, which keeps them. Keys and values are shared, not copied.
 *
 * Ownership: both stay the caller's. Errors: CANTLE_INVALID_ARGUMENT for a handle that is no
 * batch, was freed, or is in use by another thread. Threads: one at a time for both.
 */
cantle_status cantle_batch_append(cantle_batch *batch, const cantle_batch *other, cantle_error **error);

/**
 * Number of operations in a batch.
 *
 * Ownership: nothing changes hands. Errors: 0 for a handle that is no batch, was freed, or is in
 * use. Threads: one at a time.
 */
size_t cantle_batch_count(cantle_batch *batch);

/**
 * Removes all operations from a batch.
 *
 * Ownership: nothing changes hands. Errors: CANTLE_INVALID_ARGUMENT for a handle that is no batch,
 * was freed, or is in use. Threads: one at a time.
 */
cantle_status cantle_batch_clear(cantle_batch *batch);

/**
 * Applies a batch atomically, over any keys and keyspaces: either all of its operations take
 * effect or none, and readers see all of them or none. `durability` is the least durability of the
 * batch: a cantle_durability, CANTLE_DEFAULT for that of the store. The batch keeps its
 * operations.
 *
 * Ownership: the batch stays the caller's. Errors: as cantle_put, and CANTLE_INVALID_ARGUMENT for
 * keyspaces of another store; nothing was written then. An exception is a batch that asks for more
 * durability than the store's: if the checkpoint that follows fails, the batch has taken effect,
 * and is as durable as any other write. Threads: any for the store, one at a time for the batch.
 */
cantle_status cantle_write(cantle_db *db, const cantle_batch *batch, int durability, cantle_error **error);

/**
 * Takes a snapshot of the store as it is now. Waits some microseconds for the writes that are
 * under way.
 *
 * Ownership: the snapshot is the caller's, to be freed by cantle_snapshot_free, also after
 * cantle_close. Errors: NULL and CANTLE_INVALID_ARGUMENT for an invalid handle. Threads: any.
 */
cantle_snapshot *cantle_snapshot_new(cantle_db *db, cantle_error **error);

/**
 * Frees a snapshot. Iterators over it stay valid. Does nothing for NULL.
 *
 * Ownership: the snapshot is gone afterwards. Errors: CANTLE_INVALID_ARGUMENT for a handle that is
 * no snapshot or was freed. Threads: any.
 */
cantle_status cantle_snapshot_free(cantle_snapshot *snapshot);

/**
 * The key's value at the moment of the snapshot, as cantle_get returns it. `keyspace` may be NULL
 * for the default one.
 *
 * Ownership: the block is the caller's, to be freed by cantle_free. Errors: as cantle_get, and CANTLE_INVALID_ARGUMENT for a keyspace
 * of another store. Threads: any.
 */
cantle_status cantle_snapshot_get(cantle_snapshot *snapshot,
                                  cantle_keyspace *keyspace,
                                  const void *key,
                                  size_t key_len,
                                  char **value,
                                  size_t *value_len,
                                  cantle_error **error);

/**
 * Copies the key's value at the moment of the snapshot into the caller's buffer, as
 * cantle_get_into does.
 *
 * Ownership: the buffer stays the caller's. Errors: as cantle_snapshot_get. Threads: any.
 */
cantle_status cantle_snapshot_get_into(cantle_snapshot *snapshot,
                                       cantle_keyspace *keyspace,
                                       const void *key,
                                       size_t key_len,
                                       void *buffer,
                                       size_t capacity,
                                       size_t *value_len,
                                       bool *found,
                                       cantle_error **error);

/**
 * Tests if the key had a value at the moment of the snapshot: `*found` is true then.
 *
 * Ownership: nothing changes hands. Errors: as cantle_snapshot_get; `*found` is false then. Threads: any.
 */
cantle_status cantle_snapshot_contains(cantle_snapshot *snapshot,
                                       cantle_keyspace *keyspace,
                                       const void *key,
                                       size_t key_len,
                                       bool *found,
                                       cantle_error **error);

/**
 * Reads the values of `count` keys at the moment of the snapshot, and calls `receive` with `user`
 * and the value of each key, as cantle_get_many does. `keyspace` may be NULL for the default one.
 *
 * Ownership: as cantle_get_many. Errors: as cantle_get_many; for a keyspace of another store, each
 * key fails with CANTLE_INVALID_ARGUMENT. Threads: any; `receive` is called in this thread.
 */
cantle_status cantle_snapshot_get_many(cantle_snapshot *snapshot,
                                       cantle_keyspace *keyspace,
                                       const cantle_slice *keys,
                                       size_t count,
                                       cantle_get_many_fn receive,
                                       void *user,
                                       cantle_error **error);

/**
 * Begins a transaction, which reads the store as it is now, overlaid with its own writes. Nobody
 * else sees these writes before the commit.
 *
 * Ownership: the transaction is the caller's, to be ended by cantle_transaction_commit or
 * cantle_transaction_rollback, also after cantle_close. Errors: NULL and CANTLE_INVALID_ARGUMENT
 * for an invalid handle. Threads: any.
 */
cantle_transaction *cantle_transaction_new(cantle_db *db, cantle_error **error);

/**
 * Makes the writes take effect now, if everything that was read (keys, found or not, and ranges as
 * far as they were consumed) has not been written to since. `durability` is the least durability
 * of the writes: a cantle_durability, CANTLE_DEFAULT for that of the store.
 *
 * Ownership: the transaction is gone afterwards, even if this fails (except for an invalid handle
 * or durability, and in a callback that must not write). Errors: CANTLE_CONFLICT if something that
 * was read has changed: run the transaction again; CANTLE_NO_KEYSPACE if a keyspace was dropped;
 * as cantle_write. Nothing was written then. Threads: any; waits for calls of other threads that
 * use the transaction.
 */
cantle_status cantle_transaction_commit(cantle_transaction *transaction,
                                        int durability,
                                        cantle_error **error);

/**
 * Ends a transaction and discards its writes. Does nothing for NULL.
 *
 * Ownership: the transaction is gone afterwards. Errors: CANTLE_INVALID_ARGUMENT for a handle that
 * is no transaction, was ended, or was handed to a callback. Threads: any; waits for calls of
 * other threads that use the transaction.
 */
cantle_status cantle_transaction_rollback(cantle_transaction *transaction);

/**
 * The key's value: the one that the transaction wrote, or else the one when the transaction began,
 * as cantle_get returns it. `keyspace` may be NULL for the default one.
 *
 * Ownership: the block is the caller's, to be freed by cantle_free. Errors: as cantle_get, and CANTLE_INVALID_ARGUMENT for a keyspace of
 * another store. Threads: any.
 */
cantle_status cantle_transaction_get(cantle_transaction *transaction,
                                     cantle_keyspace *keyspace,
                                     const void *key,
                                     size_t key_len,
                                     char **value,
                                     size_t *value_len,
                                     cantle_error **error);

/**
 * Copies the key's value into the caller's buffer, as cantle_get_into does.
 *
 * Ownership: the buffer stays the caller's. Errors: as cantle_transaction_get. Threads: any.
 */
cantle_status cantle_transaction_get_into(cantle_transaction *transaction,
                                          cantle_keyspace *keyspace,
                                          const void *key,
                                          size_t key_len,
                                          void *buffer,
                                          size_t capacity,
                                          size_t *value_len,
                                          bool *found,
                                          cantle_error **error);

/**
 * Tests if the key has a value: `*found` is true then.
 *
 * Ownership: nothing changes hands. Errors: as cantle_transaction_get; `*found` is false then. Threads: any.
 */
cantle_status cantle_transaction_contains(cantle_transaction *transaction,
                                          cantle_keyspace *keyspace,
                                          const void *key,
                                          size_t key_len,
                                          bool *found,
                                          cantle_error **error);

/**
 * Reads the values of `count` keys as the transaction sees them, and calls `receive` with `user`
 * and the value of each key, as cantle_get_many does. Each key counts as read, as by
 * cantle_transaction_get. `keyspace` may be NULL for the default one.
 *
 * Ownership: as cantle_get_many. Errors: as cantle_get_many; for a keyspace of another store, each
 * key fails with CANTLE_INVALID_ARGUMENT. Threads: any; `receive` is called in this thread.
 */
cantle_status cantle_transaction_get_many(cantle_transaction *transaction,
                                          cantle_keyspace *keyspace,
                                          const cantle_slice *keys,
                                          size_t count,
                                          cantle_get_many_fn receive,
                                          void *user,
                                          cantle_error **error);

/**
 * Stores a pair when the transaction is committed. `keyspace` may be NULL for the default one.
 *
 * Ownership: key and value are copied. Errors: as cantle_put for invalid arguments and in a store
 * that cannot be written to; other errors come with the commit. Threads: any.
 */
cantle_status cantle_transaction_put(cantle_transaction *transaction,
                                     cantle_keyspace *keyspace,
                                     const void *key,
                                     size_t key_len,
                                     const void *value,
                                     size_t value_len,
                                     cantle_error **error);

/**
 * Removes a key, if it is there, when the transaction is committed. `keyspace` may be NULL for the default one.
 *
 * Ownership: the key is copied. Errors: as cantle_transaction_put. Threads: any.
 */
cantle_status cantle_transaction_delete(cantle_transaction *transaction,
                                        cantle_keyspace *keyspace,
                                        const void *key,
                                        size_t key_len,
                                        cantle_error **error);

/**
 * Removes every key of the range (NULL: every key) when the transaction is committed: keys that
 * the transaction sees, and keys that other writers have put there before the commit. Reads
 * nothing, so no put of another writer conflicts with it. `keyspace` may be NULL for the default
 * one.
 *
 * Ownership: the range is copied. Errors: as cantle_transaction_put; CANTLE_INVALID_ARGUMENT for a prefix in a keyspace with a comparator.
 * Threads: any.
 */
cantle_status cantle_transaction_delete_range(cantle_transaction *transaction,
                                              cantle_keyspace *keyspace,
                                              const cantle_range *range,
                                              cantle_error **error);

/**
 * Calls `run` with a transaction and `user`, and commits the transaction. After a conflict, starts
 * again with a new transaction, after a pause that grows to some milliseconds.
 *
 * Ownership: the transaction is the library's, and the callback has it for its call only; `user`
 * stays the caller's. Errors: the status that `run` returned, with its error or one that says so;
 * as cantle_transaction_commit, except conflicts; CANTLE_FORKED in a child that was forked by
 * `run`, which writes nothing. Threads: any; `run` is called in this thread.
 */
cantle_status cantle_transact(cantle_db *db, cantle_transact_fn run, void *user, cantle_error **error);

/**
 * The pair with the least key: in blocks of their own, or NULL if there is no pair. `value` may be
 * NULL if it is not wanted. `keyspace` may be NULL for the default one.
 *
 * Ownership: the blocks are the caller's, each to be freed by cantle_free. Errors: as cantle_get.
 * Threads: any.
 */
cantle_status cantle_first(cantle_db *db,
                           cantle_keyspace *keyspace,
                           char **key,
                           size_t *key_len,
                           char **value,
                           size_t *value_len,
                           cantle_error **error);

/**
 * The pair with the greatest key: in blocks of their own, or NULL if there is no pair. `value` may
 * be NULL if it is not wanted. `keyspace` may be NULL for the default one.
 *
 * Ownership: the blocks are the caller's, each to be freed by cantle_free. Errors: as cantle_get.
 * Threads: any.
 */
cantle_status cantle_last(cantle_db *db,
                          cantle_keyspace *keyspace,
                          char **key,
                          size_t *key_len,
                          char **value,
                          size_t *value_len,
                          cantle_error **error);

/**
 * Removes the pair with the least key, atomically, and returns it as cantle_first does. Each pair
 * is returned to one caller. `keyspace` may be NULL for the default one.
 *
 * Ownership: the blocks are the caller's, each to be freed by cantle_free. Errors: as cantle_get
 * and cantle_put. Nothing was removed then, except with CANTLE_OUT_OF_MEMORY, which says that
 * there is no memory for the blocks. Threads: any.
 */
cantle_status cantle_pop_first(cantle_db *db,
                               cantle_keyspace *keyspace,
                               char **key,
                               size_t *key_len,
                               char **value,
                               size_t *value_len,
                               cantle_error **error);

/**
 * Removes the pair with the greatest key, atomically, and returns it as cantle_first does. Each
 * pair is returned to one caller. `keyspace` may be NULL for the default one.
 *
 * Ownership: the blocks are the caller's, each to be freed by cantle_free. Errors: as cantle_get
 * and cantle_put. Nothing was removed then, except with CANTLE_OUT_OF_MEMORY, which says that
 * there is no memory for the blocks. Threads: any.
 */
cantle_status cantle_pop_last(cantle_db *db,
                              cantle_keyspace *keyspace,
                              char **key,
                              size_t *key_len,
                              char **value,
                              size_t *value_len,
                              cantle_error **error);

/**
 * Replaces the key's value by `new_value` if the value is `expected`, atomically. An `expected` of
 * NULL is an absent key, a `new_value` of NULL deletes the key: with `expected` NULL this inserts
 * if absent. `*swapped` says if the value was `expected`. `keyspace` may be NULL for the default
 * one.
 *
 * Ownership: key and values are copied. Errors: as cantle_get and cantle_put; `*swapped` is false
 * then. Threads: any.
 */
cantle_status cantle_compare_and_swap(cantle_db *db,
                                      cantle_keyspace *keyspace,
                                      const void *key,
                                      size_t key_len,
                                      const void *expected,
                                      size_t expected_len,
                                      const void *new_value,
                                      size_t new_len,
                                      bool *swapped,
                                      cantle_error **error);

/**
 * The pair with the least key, as the transaction sees it: as cantle_first gives it.
 *
 * Ownership: the blocks are the caller's, each to be freed by cantle_free. Errors: as
 * cantle_transaction_get. Threads: any.
 */
cantle_status cantle_transaction_first(cantle_transaction *transaction,
                                       cantle_keyspace *keyspace,
                                       char **key,
                                       size_t *key_len,
                                       char **value,
                                       size_t *value_len,
                                       cantle_error **error);

/**
 * The pair with the greatest key, as the transaction sees it: as cantle_first gives it.
 *
 * Ownership: the blocks are the caller's, each to be freed by cantle_free. Errors: as
 * cantle_transaction_get. Threads: any.
 */
cantle_status cantle_transaction_last(cantle_transaction *transaction,
                                      cantle_keyspace *keyspace,
                                      char **key,
                                      size_t *key_len,
                                      char **value,
                                      size_t *value_len,
                                      cantle_error **error);

/**
 * Removes the pair with the least key when the transaction is committed, and returns it as
 * cantle_first does.
 *
 * Ownership: the blocks are the caller's, each to be freed by cantle_free. Errors: as
 * cantle_transaction_get and cantle_transaction_put. Threads: any; two that pop at the same time
 * may get the same pair.
 */
cantle_status cantle_transaction_pop_first(cantle_transaction *transaction,
                                           cantle_keyspace *keyspace,
                                           char **key,
                                           size_t *key_len,
                                           char **value,
                                           size_t *value_len,
                                           cantle_error **error);

/**
 * Removes the pair with the greatest key when the transaction is committed, and returns it as
 * cantle_first does.
 *
 * Ownership: the blocks are the caller's, each to be freed by cantle_free. Errors: as
 * cantle_transaction_get and cantle_transaction_put. Threads: any; two that pop at the same time
 * may get the same pair.
 */
cantle_status cantle_transaction_pop_last(cantle_transaction *transaction,
                                          cantle_keyspace *keyspace,
                                          char **key,
                                          size_t *key_len,
                                          char **value,
                                          size_t *value_len,
                                          cantle_error **error);

/**
 * Replaces the key's value when the transaction is committed, if it is `expected` as the
 * transaction sees it: as cantle_compare_and_swap.
 *
 * Ownership: key and values are copied. Errors: as cantle_transaction_get and
 * cantle_transaction_put; `*swapped` is false then. Threads: any.
 */
cantle_status cantle_transaction_compare_and_swap(cantle_transaction *transaction,
                                                  cantle_keyspace *keyspace,
                                                  const void *key,
                                                  size_t key_len,
                                                  const void *expected,
                                                  size_t expected_len,
                                                  const void *new_value,
                                                  size_t new_len,
                                                  bool *swapped,
                                                  cantle_error **error);

/**
 * Estimated number of pairs, from counters that maintenance keeps: overwritten and deleted pairs
 * that are not merged yet may count. `keyspace` may be NULL for the default one.
 *
 * Ownership: nothing changes hands. Errors: CANTLE_CLOSED, CANTLE_NO_KEYSPACE,
 * CANTLE_INVALID_ARGUMENT; `*pairs` is 0 then. Threads: any.
 */
cantle_status cantle_len_estimate(cantle_db *db,
                                  cantle_keyspace *keyspace,
                                  uint64_t *pairs,
                                  cantle_error **error);

/**
 * Creates an iterator over the range (NULL: every key) as of now. `keyspace` may be NULL for the
 * default one. The iterator stands before the first pair and after the last: its first movement
 * decides.
 *
 * Ownership: the iterator is the caller's, to be freed by cantle_iterator_free, also after
 * cantle_close; the range is copied. Errors: NULL and CANTLE_INVALID_ARGUMENT for invalid handles
 * and ranges; other errors come with the first movement. Threads: any.
 */
cantle_iterator *cantle_iterator_new(cantle_db *db,
                                     cantle_keyspace *keyspace,
                                     const cantle_range *range,
                                     cantle_error **error);

/**
 * Creates an iterator over the range (NULL: every key) of a snapshot. `keyspace` may be NULL for
 * the default one.
 *
 * Ownership: as cantle_iterator_new; the snapshot may be freed before the iterator. Errors: as
 * cantle_iterator_new. Threads: any.
 */
cantle_iterator *cantle_snapshot_iterator(cantle_snapshot *snapshot,
                                          cantle_keyspace *keyspace,
                                          const cantle_range *range,
                                          cantle_error **error);

/**
 * Creates an iterator over the range (NULL: every key) as a transaction sees it, with the writes
 * made up to now. Pairs that it moves across count as read. Once the transaction is over, the
 * iterator returns CANTLE_INVALID_ARGUMENT. `keyspace` may be NULL for the default one.
 *
 * Ownership: as cantle_iterator_new; the iterator may be freed before the transaction ends or
 * after. Errors: as cantle_iterator_new. Threads: any.
 */
cantle_iterator *cantle_transaction_iterator(cantle_transaction *transaction,
                                             cantle_keyspace *keyspace,
                                             const cantle_range *range,
                                             cantle_error **error);

/**
 * Frees an iterator. Does nothing for NULL.
 *
 * Ownership: the iterator, its keys and its values are gone afterwards. Errors:
 * CANTLE_INVALID_ARGUMENT for a handle that is no iterator or was freed. Threads: any.
 */
cantle_status cantle_iterator_free(cantle_iterator *iterator);

/**
 * Moves to the next pair; a new iterator moves to the first. Returns true if there is a pair, with
 * its key and value; `key` and `value` may be NULL. After the last pair the iterator stays there;
 * cantle_iterator_last leads back.
 *
 * Ownership: key and value are the iterator's, until it moves again or is freed. Errors: false, as
 * at the end; then `*error` is set, and cantle_iterator_status returns the same status:
 * CANTLE_CORRUPTION, CANTLE_IO, CANTLE_CLOSED, CANTLE_NO_KEYSPACE, CANTLE_INVALID_ARGUMENT.
 * Threads: one at a time.
 */
bool cantle_iterator_next(cantle_iterator *iterator,
                          cantle_slice *key,
                          cantle_slice *value,
                          cantle_error **error);

/**
 * Moves to the previous pair; a new iterator moves to the last.
 *
 * Ownership: as cantle_iterator_next. Errors: as cantle_iterator_next. Threads: one at a time.
 */
bool cantle_iterator_prev(cantle_iterator *iterator,
                          cantle_slice *key,
                          cantle_slice *value,
                          cantle_error **error);

/**
 * Moves to the first pair.
 *
 * Ownership: as cantle_iterator_next. Errors: as cantle_iterator_next. Threads: one at a time.
 */
bool cantle_iterator_first(cantle_iterator *iterator,
                           cantle_slice *key,
                           cantle_slice *value,
                           cantle_error **error);

/**
 * Moves to the last pair.
 *
 * Ownership: as cantle_iterator_next. Errors: as cantle_iterator_next. Threads: one at a time.
 */
bool cantle_iterator_last(cantle_iterator *iterator,
                          cantle_slice *key,
                          cantle_slice *value,
                          cantle_error **error);

/**
 * Moves to the first pair at or after `target`.
 *
 * Ownership: as cantle_iterator_next; the target stays the caller's. Errors: as cantle_iterator_next. Threads: one at a time.
 */
bool cantle_iterator_seek(cantle_iterator *iterator,
                          const void *target,
                          size_t target_len,
                          cantle_slice *key,
                          cantle_slice *value,
                          cantle_error **error);

/**
 * The pair under the iterator, as of its last movement. Returns true if there is a pair, with its
 * key and value; `key` and `value` may be NULL.
 *
 * Ownership: key and value are the iterator's, until it moves again or is freed. Errors: false for
 * a handle that is no iterator, was freed, or is in use. Threads: one at a time.
 */
bool cantle_iterator_pair(cantle_iterator *iterator, cantle_slice *key, cantle_slice *value);

/**
 * Status of the last movement: CANTLE_OK, also if there was no pair any more, or the reason why it
 * failed.
 *
 * Ownership: nothing changes hands. Errors: CANTLE_INVALID_ARGUMENT for a handle that is no
 * iterator, was freed, or is in use; CANTLE_FORKED. Threads: one at a time.
 */
cantle_status cantle_iterator_status(cantle_iterator *iterator);

/**
 * Creates a key without parts.
 *
 * Ownership: the key is the caller's, to be freed by cantle_key_free. Errors: NULL if there are
 * too many handles. Threads: any.
 */
cantle_key *cantle_key_new(void);

/**
 * Reads the parts of an encoded key.
 *
 * Ownership: the key is the caller's, to be freed by cantle_key_free; the bytes are copied.
 * Errors: NULL and CANTLE_INVALID_ARGUMENT if `bytes` are no composite key, are longer than 1 MiB,
 * or nest deeper than 32 levels. Threads: any.
 */
cantle_key *cantle_key_parse(const void *bytes, size_t len, cantle_error **error);

/**
 * Frees a key. Does nothing for NULL.
 *
 * Ownership: the key and the bytes that it lent are gone afterwards. Errors:
 * CANTLE_INVALID_ARGUMENT for a handle that is no key or was freed. Threads: any.
 */
cantle_status cantle_key_free(cantle_key *key);

/**
 * Removes all parts from a key.
 *
 * Ownership: bytes that the key lent are gone afterwards. Errors: CANTLE_INVALID_ARGUMENT for a
 * handle that is no key, was freed, or is in use. Threads: one at a time.
 */
cantle_status cantle_key_clear(cantle_key *key);

/**
 * Appends a text in UTF-8 of `len` bytes.
 *
 * Ownership: the text is copied; bytes that the key lent before are gone. Errors:
 * CANTLE_INVALID_ARGUMENT if the text is not UTF-8, for invalid handles and pointers, and if the
 * key would be longer than 1 MiB, the maximum of a store. Threads: one at a time.
 */
cantle_status cantle_key_text(cantle_key *key, const void *text, size_t len, cantle_error **error);

/**
 * Appends a byte string.
 *
 * Ownership: the bytes are copied; bytes that the key lent before are gone. Errors:
 * CANTLE_INVALID_ARGUMENT for invalid handles and pointers, and if the key would be too long.
 * Threads: one at a time.
 */
cantle_status cantle_key_bytes(cantle_key *key, const void *bytes, size_t len, cantle_error **error);

/**
 * Appends an integer, or a time in microseconds since 1970-01-01T00:00:00Z.
 *
 * Ownership: bytes that the key lent before are gone. Errors: CANTLE_INVALID_ARGUMENT for an
 * invalid handle, and if the key would be too long. Threads: one at a time.
 */
cantle_status cantle_key_int(cantle_key *key, int64_t integer, cantle_error **error);

/**
 * Appends an unsigned integer. It is the same part as the same number of cantle_key_int.
 *
 * Ownership: bytes that the key lent before are gone. Errors: CANTLE_INVALID_ARGUMENT for an
 * invalid handle, and if the key would be too long. Threads: one at a time.
 */
cantle_status cantle_key_uint(cantle_key *key, uint64_t integer, cantle_error **error);

/**
 * Appends an integer of any size by its sign and its absolute value, which is `len` bytes, big
 * endian. It is the same part as the same number of cantle_key_int.
 *
 * Ownership: the bytes are copied; bytes that the key lent before are gone. Errors:
 * CANTLE_INVALID_ARGUMENT for invalid handles and pointers, for more than 255 bytes (leading zeros
 * not counted), and if the key would be too long. Threads: one at a time.
 */
cantle_status cantle_key_big_int(cantle_key *key,
                                 bool is_negative,
                                 const void *magnitude,
                                 size_t len,
                                 cantle_error **error);

/**
 * Appends a UUID, which is 16 bytes in network order.
 *
 * Ownership: the bytes are copied; bytes that the key lent before are gone. Errors:
 * CANTLE_INVALID_ARGUMENT for invalid handles and pointers, if `len` is not 16, and if the key
 * would be too long. Threads: one at a time.
 */
cantle_status cantle_key_uuid(cantle_key *key, const void *uuid, size_t len, cantle_error **error);

/**
 * Appends a versionstamp of FoundationDB, which is 12 bytes: 10 of the database's version and 2 of
 * the user's.
 *
 * Ownership: the bytes are copied; bytes that the key lent before are gone. Errors:
 * CANTLE_INVALID_ARGUMENT for invalid handles and pointers, if `len` is not 12, and if the key
 * would be too long. Threads: one at a time.
 */
cantle_status cantle_key_versionstamp(cantle_key *key, const void *stamp, size_t len, cantle_error **error);

/**
 * Appends a float of 32 bits, which is another part than the same number in 64 bits, and sorts
 * before all of those.
 *
 * Ownership: bytes that the key lent before are gone. Errors: CANTLE_INVALID_ARGUMENT for an
 * invalid handle, and if the key would be too long. Threads: one at a time.
 */
cantle_status cantle_key_float32(cantle_key *key, float number, cantle_error **error);

/**
 * Appends a float of 64 bits, which sorts by IEEE 754's total order.
 *
 * Ownership: bytes that the key lent before are gone. Errors: CANTLE_INVALID_ARGUMENT for an
 * invalid handle, and if the key would be too long. Threads: one at a time.
 */
cantle_status cantle_key_float(cantle_key *key, double number, cantle_error **error);

/**
 * Appends a boolean.
 *
 * Ownership: bytes that the key lent before are gone. Errors: CANTLE_INVALID_ARGUMENT for an
 * invalid handle, and if the key would be too long. Threads: one at a time.
 */
cantle_status cantle_key_bool(cantle_key *key, bool boolean, cantle_error **error);

/**
 * Appends a null, which sorts before everything else.
 *
 * Ownership: bytes that the key lent before are gone. Errors: CANTLE_INVALID_ARGUMENT for an
 * invalid handle, and if the key would be too long. Threads: one at a time.
 */
cantle_status cantle_key_null(cantle_key *key, cantle_error **error);

/**
 * Appends all parts of another key as one part, a sequence within the sequence.
 *
 * Ownership: the other key's parts are copied; bytes that the key lent before are gone. Errors:
 * CANTLE_INVALID_ARGUMENT for invalid handles, if both are the same, and if the key would be too
 * long or nest deeper than 32 levels, which is as deep as cantle_key_parse reads. Threads: one at
 * a time, for both.
 */
cantle_status cantle_key_append_nested(cantle_key *key, const cantle_key *nested, cantle_error **error);

/**
 * The bytes of a key, which sort as the parts do.
 *
 * Ownership: the bytes are the key's, until a part is appended or it is cleared or freed. Errors:
 * a slice of NULL for an invalid handle. Threads: one at a time.
 */
cantle_slice cantle_key_data(const cantle_key *key);

/**
 * The range of every key that begins with these parts, including the key itself.
 *
 * Ownership: the range points to the key's memory, until a part is appended or it is cleared or
 * freed. Errors: CANTLE_INVALID_ARGUMENT for an invalid handle. Threads: one at a time.
 */
cantle_status cantle_key_range(cantle_key *key, cantle_range *range, cantle_error **error);

/**
 * Number of parts of a key.
 *
 * Ownership: nothing changes hands. Errors: 0 for a handle that is no key, was freed, or is in
 * use. Threads: one at a time.
 */
size_t cantle_key_count(const cantle_key *key);

/**
 * A part of a key; the first is number 0.
 *
 * Ownership: its bytes are the key's, until a part is appended or it is cleared or freed. Errors:
 * CANTLE_INVALID_ARGUMENT if there is no such part, and for an invalid handle; `*part` is a null
 * then. Threads: one at a time.
 */
cantle_status cantle_key_part(const cantle_key *key, size_t index, cantle_part *part, cantle_error **error);

/**
 * The parts of a part that is a sequence, as a key of their own.
 *
 * Ownership: the key is the caller's, to be freed by cantle_key_free. Errors: NULL and
 * CANTLE_INVALID_ARGUMENT if there is no such part, or it is no sequence, and for an invalid
 * handle. Threads: one at a time.
 */
cantle_key *cantle_key_nested(const cantle_key *key, size_t index, cantle_error **error);

/**
 * Counters and sizes of the store and of each keyspace, as a JSON object: the fields of `Stats` in
 * Rust, with durations in nanoseconds (and named so). Takes microseconds.
 *
 * Ownership: the text is the caller's, to be freed by cantle_free. Errors: NULL and
 * CANTLE_INVALID_ARGUMENT for an invalid handle, CANTLE_OUT_OF_MEMORY. Threads: any.
 */
char *cantle_stats(cantle_db *db, cantle_error **error);

/**
 * One number of the statistics by its name, such as "disk_bytes", "memory_used",
 * "open_time_nanos", "memory.rows.used", "write_stalls.lock.total_nanos" (the cause of a stall is
 * "brake", "lock", "allocation" or "device"), "keyspaces.default.live_bytes" or, in the layout
 * `flsm`, "keyspaces.default.by_level.1.table_bytes_written".
 *
 * Ownership: nothing changes hands. Errors: CANTLE_INVALID_ARGUMENT if there is no such number,
 * for NULL and for an invalid handle; CANTLE_FORKED; `*number` is 0 then. Threads: any.
 */
cantle_status cantle_stat(cantle_db *db, const char *name, uint64_t *number, cantle_error **error);

/**
 * The key ranges that a keyspace's layout manages (chunks; in `flsm` the logs of level 0, then the
 * guards level by level), in key order, as a JSON array of objects: `start_hex` (the smallest
 * possible key, in hexadecimal digits), `level`, `table_bytes`, `log_bytes`, `referred_bytes` (long
 * values in logs that its tables refer to), `garbage_bytes`, `tables`, `tables_max` (the limit of a guard), `dropped_ranges` (parts of tables that range
 * deletes have dropped), `segments`, `resident_bytes`, `heat`, `read_debt`. `keyspace` may be NULL
 * for the default one.
 *
 * Ownership: the text is the caller's, to be freed by cantle_free. Errors: NULL and CANTLE_CLOSED, CANTLE_NO_KEYSPACE,
 * CANTLE_INVALID_ARGUMENT, CANTLE_OUT_OF_MEMORY. Threads: any.
 */
char *cantle_regions(cantle_db *db,
                     cantle_keyspace *keyspace,
                     cantle_error **error);

/**
 * Reads and checks every file of the store. `*damaged` is the number of damaged places, 0 if the
 * store is sound; damage is not an error of this function. `*first` describes the first damage as
 * an error does, by cantle_error_path, cantle_error_offset and cantle_error_message; it is NULL if
 * there is none. `*report` is a JSON object: `ok`, `files`, `bytes`, `entries`, `damage` with
 * `path`, `offset` and `message`, and `unknown_files`, which are harmless. `damaged`, `first` and
 * `report` may be NULL.
 *
 * Ownership: the text is the caller's, to be freed by cantle_free; so is `*first`, by
 * cantle_error_free. Errors: CANTLE_CLOSED, CANTLE_IO, CANTLE_INVALID_ARGUMENT for an invalid
 * handle, CANTLE_FORKED, CANTLE_OUT_OF_MEMORY; `*first` and `*report` are NULL then. Threads: any;
 * the store may be used meanwhile.
 */
cantle_status cantle_verify(cantle_db *db,
                            uint64_t *damaged,
                            cantle_error **first,
                            char **report,
                            cantle_error **error);

/**
 * Removes the store in directory `path`, damaged or not, and everything in it. The directory
 * stays, and so do files that are not the store's. Succeeds if there is no store.
 *
 * Ownership: nothing changes hands. Errors: CANTLE_LOCKED if the store is open, CANTLE_NOT_A_STORE
 * for a file or another kind of store, CANTLE_IO if a file cannot be removed: then the store
 * cannot be opened any more; call this again to remove the rest. Threads: any.
 */
cantle_status cantle_destroy(const char *path, cantle_error **error);

/**
 * Saves the remains of the damaged store in directory `source` into a new store in directory
 * `target`, which must not exist. Nothing in `source` is changed. `options` are those of the new
 * store, and have the comparators of its keyspaces; NULL for the defaults. `progress` may be NULL;
 * it is called with `user`. `*complete` is true if the new store has everything that the old one
 * had. `*report` is a JSON object: `ok`, `pairs`, `keyspaces`, `files`, `bytes`, `damage`,
 * `damage_untold`, `left_out`, `uncertain` (ranges of keys whose newest value may be lost),
 * `uncertain_untold`, `may_return` (files that may bring back deleted pairs, and ranges of keys),
 * `may_return_untold`, `notes`. `complete` and `report` may be NULL.
 *
 * Ownership: the text is the caller's, to be freed by cantle_free; `user` stays the caller's.
 * Errors: damage is in the report, and not an error. CANTLE_ALREADY_EXISTS, CANTLE_NOT_FOUND,
 * CANTLE_NOT_A_STORE, CANTLE_LOCKED if the store is open, CANTLE_OPTION_MISMATCH for a comparator
 * that is not registered, CANTLE_CORRUPTION if no file tells to which store it belongs, and errors
 * of writing; the new store is not complete then: remove it. Threads: any; `progress` is called in
 * this thread.
 */
cantle_status cantle_repair(const char *source,
                            const char *target,
                            const cantle_options *options,
                            cantle_progress_fn progress,
                            void *user,
                            bool *complete,
                            char **report,
                            cantle_error **error);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* CANTLE_H */
