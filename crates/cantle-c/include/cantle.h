/*
 * Cantle: an embedded, ordered, persistent key-value store. https://github.com/cantle-db/cantle
 *
 * Written from the sources in crates/cantle-c/src by the test tests/header.rs, which says how to renew it: do not edit.
 *
 * A store is a directory with keyspaces, ordered maps from byte strings to byte strings. docs/bindings/c.md begins with a program of
 * ten lines; docs/operations.md tells what to do when something goes wrong. What holds for every function:
 *
 * HANDLES  What cantle_..._new and cantle_..._open return is a handle, to be given back to the function that frees its kind. Handles are
 *   numbers that look like pointers, none of which is given out twice: to follow one is a mistake. A handle that was freed, is of another
 *   type, is NULL where none is needed or never was one is found out, and gives CANTLE_INVALID_ARGUMENT. Free them in any order, also after
 *   the store was closed.
 * POINTERS  What is given by pointer and length must be readable for the time of the call, and is copied where it is kept; NULL will do for
 *   0 bytes. A length that is more than can be is CANTLE_INVALID_ARGUMENT, and nothing is read: keys are up to 65,536 bytes long, bounds of
 *   ranges one more, values up to 1 GiB. Texts end with a zero byte and are UTF-8 (paths: any bytes). What results are written to must be
 *   writable; NULL is allowed where it says so. Where a function fails, its results are NULL, 0 or false.
 * MEMORY  What a function says is to be freed by cantle_free is a copy of the caller's own, from malloc. What a handle lends stays until what
 *   the function names as its end. Writing behind the end of either is not found out.
 * ERRORS  Functions return a cantle_status, CANTLE_OK (0) for success, or NULL or false where they fail. Each call writes to `*error`: NULL
 *   if it succeeds, else an error with kind and message, which the caller frees by cantle_error_free. `error` itself may be NULL. Nothing
 *   throws or unwinds into the caller: a mistake in the library (a panic of Rust's) is CANTLE_INTERNAL, and Rust's runtime writes to standard
 *   error where it was; nothing else is printed. What does end the process: no memory for what the library itself needs
 *   (CANTLE_OUT_OF_MEMORY is for results), and a thread's stack that is used up.
 * THREADS  Stores, keyspaces and snapshots may be used from all threads at once. Iterators, batches and keys are for one thread at a time,
 *   which may change; so are transactions, save that several threads may read. Who comes in between gets CANTLE_INVALID_ARGUMENT. Freeing
 *   a handle while another thread is in a call with it is allowed; reading what it lent is not.
 * FORKS  A forked child gets CANTLE_FORKED from every handle of a store that its parent made, and may free them. It may open other stores
 *   if no other thread of its parent was in a call of the library, and none of the library's own at work, when it was forked (a store that
 *   is open and not in use does no harm): what such a thread had locked stays locked in the child, which may then wait for ever. A child
 *   that calls exec has nothing to fear. A child has its part in the lock of a store that was open when it was forked, and keeps others out
 *   until it ends or calls exec.
 * CALLBACKS  run in the thread of the call that takes them, save for comparators. They must neither throw nor jump out. A child that a
 *   callback forks may return from it: the call writes nothing and gives CANTLE_FORKED (save for cantle_repair, whose callback must not).
 * UNLOADING  The library stays in memory after dlclose: its threads, and a handler of SIGBUS, need it.
 *
 * KEYSPACES  `keyspace` may be NULL everywhere but in functions named cantle_keyspace_...: it is the keyspace named "default" then.
 */


#ifndef CANTLE_H
#define CANTLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/**
 * The version of this header, as "0.1.0". That of the library is cantle_version().
 */
#define CANTLE_VERSION_MAJOR 0

/**
 * See CANTLE_VERSION_MAJOR. While the major version is 0, programs are to be compiled anew where this one changes.
 */
#define CANTLE_VERSION_MINOR 1

/**
 * See CANTLE_VERSION_MAJOR.
 */
#define CANTLE_VERSION_PATCH 0

/**
 * What became of a call: `CANTLE_OK` (0), or why it failed.
 */
typedef enum {
    /**
     * Done.
     */
    CANTLE_OK = 0,
    /**
     * The operating system refused an operation; the store stays usable.
     */
    CANTLE_IO = 1,
    /**
     * The file system is full. Reads and deletes go on; free space and retry.
     */
    CANTLE_NO_SPACE = 2,
    /**
     * Bytes on disk are not what was written; cantle_error_path and cantle_error_offset say where. Other keys stay
     * readable.
     */
    CANTLE_CORRUPTION = 3,
    /**
     * The store accepts no writes (any more), and the message says why. Reads go on.
     */
    CANTLE_READ_ONLY = 4,
    /**
     * The store is open elsewhere, in this process or another.
     */
    CANTLE_LOCKED = 5,
    /**
     * An argument is outside what is accepted, NULL where something is needed, or a handle that was freed, is of
     * another type, or is in use by another thread. Nothing was written.
     */
    CANTLE_INVALID_ARGUMENT = 6,
    /**
     * The path holds something else than a store; it was not touched.
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
     * A transaction lost a race and wrote nothing: run it again.
     */
    CANTLE_CONFLICT = 13,
    /**
     * The store was closed.
     */
    CANTLE_CLOSED = 14,
    /**
     * The handle was made before this process was forked off: a child must open a store of its own.
     */
    CANTLE_FORKED = 15,
    /**
     * There is no memory for what was to be returned, or there are as many handles as can be (16,777,216).
     */
    CANTLE_OUT_OF_MEMORY = 16,
    /**
     * A callback gave up. For callbacks to return; the library has no such failure of its own.
     */
    CANTLE_ABORTED = 17,
    /**
     * A mistake in the library, caught at its boundary. The message says what to report.
     */
    CANTLE_INTERNAL = 18,
} cantle_status;

/**
 * The type of a part, in the order in which types sort.
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
} cantle_part_kind;

/**
 * What an acknowledged write survives.
 */
typedef enum {
    /**
     * What the store was opened with.
     */
    CANTLE_DEFAULT = 0,
    /**
     * Nothing until the next checkpoint; after any crash the store is a consistent prefix of what was written.
     */
    CANTLE_BUFFERED = 1,
    /**
     * The end of the process, however sudden; after a power loss a consistent prefix. The default of a store.
     */
    CANTLE_PROCESS = 2,
    /**
     * Power loss.
     */
    CANTLE_SYNC = 3,
} cantle_durability;

/**
 * How blocks of tables are compressed.
 */
typedef enum {
    /**
     * As they are.
     */
    CANTLE_NO_COMPRESSION = 0,
    /**
     * LZ4: fast, about half the size of text.
     */
    CANTLE_LZ4 = 1,
    /**
     * Zstandard, at the level that goes with it: smaller, slower.
     */
    CANTLE_ZSTD = 2,
} cantle_compression;

/**
 * How a range ends at one side.
 */
typedef enum {
    /**
     * Not at all.
     */
    CANTLE_UNBOUNDED = 0,
    /**
     * With the key, which is part of the range.
     */
    CANTLE_INCLUDED = 1,
    /**
     * Before (or behind) the key, which is not.
     */
    CANTLE_EXCLUDED = 2,
    /**
     * As the start: the range has the keys that begin with these bytes, and the end is ignored.
     */
    CANTLE_PREFIX = 3,
} cantle_bound_kind;

/**
 * Operations that cantle_write applies as one. Freed by cantle_batch_free. One thread at a time: another gets CANTLE_INVALID_ARGUMENT.
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
 * Why a call failed: a kind, a message for people, and where. Made by the functions that take a `cantle_error **`; freed by
 * cantle_error_free.
 */
typedef struct cantle_error cantle_error;

/**
 * A position among the pairs of a range, as of one moment, which moves in both directions. Open for hours it hinders nobody. Freed by
 * cantle_iterator_free. One thread at a time: another gets CANTLE_INVALID_ARGUMENT.
 */
typedef struct cantle_iterator cantle_iterator;

/**
 * A composite key: parts that were appended, or read from a key. Freed by cantle_key_free. One thread at a time: another gets
 * CANTLE_INVALID_ARGUMENT.
 */
typedef struct cantle_key cantle_key;

/**
 * A named, ordered set of pairs within a store. Functions that take one take NULL for the keyspace named `default`, which every store
 * has. Freed by cantle_keyspace_free. Every function may be called with it from any thread at any time.
 */
typedef struct cantle_keyspace cantle_keyspace;

/**
 * Options of a keyspace. Layout and comparator are fixed when it is created; the rest takes effect at each opening. What is wrong with
 * a setting is told by the function that reads the options. A setting returns whether it was taken, which nobody need ask.
 */
typedef struct cantle_keyspace_options cantle_keyspace_options;

/**
 * Options of a store: settings with defaults, each of which may be set once or more before cantle_open or cantle_repair reads them.
 * What is wrong with a setting is told there. A setting returns whether it was taken, which nobody need ask.
 */
typedef struct cantle_options cantle_options;

/**
 * A memory budget and threads for several stores; freed by cantle_resources_free.
 */
typedef struct cantle_resources cantle_resources;

/**
 * A store, with all its keyspaces, as it was when the snapshot was taken. While it lives, the versions that it sees are kept. Freed by
 * cantle_snapshot_free. Every function may be called with it from any thread at any time.
 */
typedef struct cantle_snapshot cantle_snapshot;

/**
 * Reads and writes that take effect together when they are committed, or not at all. Ended and freed by cantle_transaction_commit or
 * cantle_transaction_rollback. Several threads may use it at once.
 */
typedef struct cantle_transaction cantle_transaction;

/**
 * Bytes that somebody else owns: `len` of them at `data`, which need not end with a zero byte.
 */
typedef struct {
    /**
     * Where they are; NULL if there is nothing, as opposed to nothing in it.
     */
    const char *data;
    /**
     * How many they are.
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
 * A range of keys. All zeros, and NULL in the place of a range, is every key. One whose end lies before its start is empty.
 */
typedef struct {
    /**
     * Where it starts.
     */
    cantle_bound start;
    /**
     * Where it ends.
     */
    cantle_bound end;
} cantle_range;

/**
 * Orders two keys: negative if `a` comes first, positive if `b` does, 0 if they are equal. Called from many threads at once; it must
 * be a total order that never changes, must not call the library, and must neither throw nor jump out.
 */
typedef int (*cantle_compare_fn)(void *user, const char *a, size_t a_len, const char *b, size_t b_len);

/**
 * Eight bytes of a key that order as the keys do: if `a` comes before `b`, the number of `a` is not above that of `b`. Called as a
 * cantle_compare_fn is.
 */
typedef uint64_t (*cantle_key_prefix_fn)(void *user, const char *key, size_t key_len);

/**
 * Told once that `user` is not needed any more, in whichever thread finds out.
 */
typedef void (*cantle_destroy_fn)(void *user);

/**
 * Makes a key's new value of its old one, which is NULL if the key is absent. Returns where the new value is and writes its length to
 * `new_len` (0 at first); NULL deletes the key. The bytes belong to the callback, and must stay until it is called again or
 * cantle_update returns. It may be called several times, and may read the store, but not write to one; it must neither throw nor
 * jump out.
 */
typedef const char *(*cantle_update_fn)(void *user, const char *old_value, size_t old_len, size_t *new_len);

/**
 * The body of a transaction: reads and writes by `transaction`, and returns CANTLE_OK to have it committed, or another status to have it
 * rolled back. It may be called several times, once after each conflict, and should have no effects but on the transaction. It may put
 * an error into `*error` (NULL at first), which then becomes that of cantle_transact. It must neither commit nor free the transaction,
 * and neither throw nor jump out.
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
     * Of integers and booleans.
     */
    int64_t integer;
    /**
     * Of floats.
     */
    double number;
    /**
     * Of byte strings and texts.
     */
    cantle_slice bytes;
} cantle_part;

/**
 * Told now and then how far a repair is: bytes of files read, about how many will be, and pairs saved. It must neither throw nor jump out.
 */
typedef void (*cantle_progress_fn)(void *user, uint64_t bytes, uint64_t total_bytes, uint64_t pairs);

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * The version of the library, as "0.1.0".
 *
 * Ownership: the text is the library's, and stays. Errors: none. Threads: any, at any time.
 */
const char *cantle_version(void);

/**
 * The kind of an error.
 *
 * Ownership: nothing changes hands. Errors: CANTLE_OK for NULL, CANTLE_INVALID_ARGUMENT for what is no error, or was freed.
 * Threads: any, at any time.
 */
cantle_status cantle_error_status(const cantle_error *error);

/**
 * What happened, where, and what to do: a sentence in English, without a full stop.
 *
 * Ownership: the text is the error's, and ends with it. Errors: a text that says so for NULL and what is no error, or was freed;
 * never NULL. Threads: any, at any time.
 */
const char *cantle_error_message(const cantle_error *error);

/**
 * The file or directory that an error is about, or NULL if there is none.
 *
 * Ownership: the text is the error's, and ends with it. Errors: NULL for what is no error, or was freed. Threads: any, at any
 * time.
 */
const char *cantle_error_path(const cantle_error *error);

/**
 * Where in the file the damage is, in bytes from its start, or -1 if the error is not CANTLE_CORRUPTION.
 *
 * Ownership: nothing changes hands. Errors: -1 for what is no error, or was freed. Threads: any, at any time.
 */
int64_t cantle_error_offset(const cantle_error *error);

/**
 * The number that the operating system gave (`errno`), or 0 if it had no part in it.
 *
 * Ownership: nothing changes hands. Errors: 0 for what is no error, or was freed. Threads: any, at any time.
 */
int32_t cantle_error_os_code(const cantle_error *error);

/**
 * Frees an error. NULL is nothing to free.
 *
 * Ownership: the error and its texts are gone afterwards. Errors: CANTLE_INVALID_ARGUMENT for what is no error, or was freed.
 * Threads: any; nobody may read its texts meanwhile.
 */
cantle_status cantle_error_free(cantle_error *error);

/**
 * How many handles of any kind this process has not freed yet: for tests that want to know of those which were forgotten, as no tool that
 * watches memory can tell. Looks at all that there ever were at one time.
 *
 * Ownership: nothing changes hands. Errors: none. Threads: any; what others do meanwhile may be counted or not.
 */
size_t cantle_handle_count(void);

/**
 * Frees what a function of this header says is to be freed by it. NULL is nothing to free.
 *
 * Ownership: `data` is gone afterwards. Errors: none; what did not come from this library, or was freed already, must not be
 * given. A handle is not freed by this, and stays as it is. Threads: any.
 */
void cantle_free(void *data);

/**
 * The keys from `start` up to, not including, `end`. Where `start` or `end` is NULL with a length of 0, the range has no bound there.
 * (An empty key that is a bound is one of 0 bytes at any other address, or a cantle_bound.)
 *
 * Ownership: the range points to the caller's bytes, which must stay while it is used. Errors: none here; where the range is used,
 * CANTLE_INVALID_ARGUMENT tells of NULL with another length, and of a bound of more than 65,537 bytes. Threads: any.
 */
cantle_range cantle_range_between(const void *start,
                                  size_t start_len,
                                  const void *end,
                                  size_t end_len);

/**
 * The keys that begin with `prefix`. In a keyspace with a comparator an iterator looks at every pair for them, and other functions
 * refuse such a range.
 *
 * Ownership: the range points to the caller's bytes, which must stay while it is used. Errors: none here; as cantle_range_between where
 * the range is used. Threads: any.
 */
cantle_range cantle_range_prefix(const void *prefix,
                                 size_t prefix_len);

/**
 * An order of keys by callbacks. `name` is recorded in each keyspace that is created with it, and compared at each opening: change it
 * whenever the order changes. `equal_is_identical` says that keys which compare equal are the same bytes; where not, Bloom filters are
 * off. `prefix` may be NULL (then no prefixes of keys are cached), and so may `destroy`.
 *
 * Ownership: the comparator is the caller's, to be freed by cantle_comparator_free, at once if need be: options and stores keep the
 * order itself. `user` must live until `destroy` is called, which is when the last of them is gone, from any thread, and may be
 * shortly after cantle_close has returned. If this fails `user` stays the caller's, and `destroy` is not called.
 * Errors: NULL and CANTLE_INVALID_ARGUMENT without a name or `compare`, for a name that is not UTF-8 or that of the order without a
 * comparator, "cantle.bytewise"; CANTLE_OUT_OF_MEMORY if there are too many handles. Threads: any; for the callbacks see their types.
 */
cantle_comparator *cantle_comparator_new(const char *name,
                                         void *user,
                                         cantle_compare_fn compare,
                                         cantle_key_prefix_fn prefix,
                                         bool equal_is_identical,
                                         cantle_destroy_fn destroy,
                                         cantle_error **error);

/**
 * Frees a comparator. Stores and options that were given it keep its order. NULL is nothing to free.
 *
 * Ownership: the comparator is gone afterwards; `destroy` is called if nobody else has the order. Errors: CANTLE_INVALID_ARGUMENT for
 * what is no comparator, or was freed. Threads: any.
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
 * Frees options of a keyspace. NULL is nothing to free.
 *
 * Ownership: the options are gone afterwards. Errors: CANTLE_INVALID_ARGUMENT for what are no such options, or were freed. Threads: any.
 */
cantle_status cantle_keyspace_options_free(cantle_keyspace_options *options);

/**
 * The layout: its name, or that with options that only this layout has, as `chunk` or `chunk:munks=false,chunk_bytes=1MiB`. Default:
 * `chunk` for a new keyspace, whatever it has for an existing one, each with its defaults.
 *
 * The options of `chunk`: `chunk_bytes`, the size at which a chunk splits, 64KiB to 1GiB, 8MiB by default; `log_bytes`, a fixed limit of a
 * chunk's log instead of the one that follows from the bound of space, none by default; `munk_log_bytes`, the same for a chunk that is
 * in memory, by default `log_bytes` or else twenty chunks; `filter_partitions`, the parts of a full log's Bloom filter, 1 to 64, 16 by
 * default; `munks`, whether popular chunks are kept in memory, and `recent_appends`, whether the last appends to logs are, both true by
 * default.
 *
 * Ownership: nothing changes hands. Errors: CANTLE_INVALID_ARGUMENT for NULL, for what are no options of a keyspace, or were freed, and
 * for a value that is not of its type (a text that names no layout, an enumerator, a handle); whether it is within its range is told
 * where the options are read, which tells of the former once more. Threads: any.
 */
cantle_status cantle_keyspace_options_layout(cantle_keyspace_options *options,
                                             const char *layout);

/**
 * The order of keys. Default: bytewise.
 *
 * Ownership: the options keep the order; the caller frees its handle. Errors: as cantle_keyspace_options_layout. Threads: any.
 */
cantle_status cantle_keyspace_options_comparator(cantle_keyspace_options *options,
                                                 const cantle_comparator *comparator);

/**
 * Compression of table blocks: a cantle_compression, and for CANTLE_ZSTD a level of 1 to 22, which the others ignore. Default:
 * none.
 *
 * Ownership: nothing changes hands. Errors: as cantle_keyspace_options_layout. Threads: any.
 */
cantle_status cantle_keyspace_options_compression(cantle_keyspace_options *options,
                                                  int compression,
                                                  int level);

/**
 * Bytes on disk per live byte; above 1.1. Default: 1.5, or up to 3 while the data is small beside the memory budget.
 *
 * Ownership: nothing changes hands. Errors: as cantle_keyspace_options_layout. Threads: any.
 */
cantle_status cantle_keyspace_options_space_amplification(cantle_keyspace_options *options,
                                                          double bound);

/**
 * Whether popular single pairs of other chunks are cached. Default: yes.
 *
 * Ownership: nothing changes hands. Errors: as cantle_keyspace_options_layout. Threads: any.
 */
cantle_status cantle_keyspace_options_row_cache(cantle_keyspace_options *options, bool on);

/**
 * The default options.
 *
 * Ownership: the options are the caller's, to be freed by cantle_options_free. Errors: NULL if there are too many handles.
 * Threads: any.
 */
cantle_options *cantle_options_new(void);

/**
 * Frees options. Stores that were opened with them do not need them. NULL is nothing to free.
 *
 * Ownership: the options are gone afterwards. Errors: CANTLE_INVALID_ARGUMENT for what are no options, or were freed. Threads: any.
 */
cantle_status cantle_options_free(cantle_options *options);

/**
 * Bytes of memory for everything that the store caches and buffers. Default: a quarter of the memory of the machine or of its
 * control group, at most 4 GiB.
 *
 * Ownership: nothing changes hands. Errors: CANTLE_INVALID_ARGUMENT for NULL, for what are no options, or were freed, CANTLE_FORKED, and
 * CANTLE_INVALID_ARGUMENT for a value that is not of its type (an enumerator, a handle); whether it is within its range is told by
 * cantle_open, which tells of the former once more. Threads: any.
 */
cantle_status cantle_options_memory_budget(cantle_options *options,
                                           uint64_t bytes);

/**
 * What an acknowledged write survives: a cantle_durability. Default: CANTLE_PROCESS.
 *
 * Ownership: nothing changes hands. Errors: as cantle_options_memory_budget. Threads: any.
 */
cantle_status cantle_options_durability(cantle_options *options, int durability);

/**
 * Whether to create the store if there is none. Default: yes.
 *
 * Ownership: nothing changes hands. Errors: as cantle_options_memory_budget. Threads: any.
 */
cantle_status cantle_options_create_if_missing(cantle_options *options, bool on);

/**
 * Whether an existing store is an error. Default: no.
 *
 * Ownership: nothing changes hands. Errors: as cantle_options_memory_budget. Threads: any.
 */
cantle_status cantle_options_error_if_exists(cantle_options *options, bool on);

/**
 * Whether a store may be created in a directory that holds other files, of no store that is known, and cantle_repair says
 * CANTLE_NOT_FOUND of such a directory. Default: no, since most often the path is a mistake. A store leaves alone what is not its own in
 * either case; a directory of another kind of store is always refused.
 *
 * Ownership: nothing changes hands. Errors: as cantle_options_memory_budget. Threads: any.
 */
cantle_status cantle_options_beside_other_files(cantle_options *options,
                                                bool on);

/**
 * Whether cantle_repair keeps what was written since the last checkpoint where nothing proves that all of it reached the disk: the
 * process was killed, and its volume unmounted since, or the power failed. Default: no. Some of these writes may be missing between
 * those that are kept. Has no effect on an opening, which gives them up for good if it is for writing.
 *
 * Ownership: nothing changes hands. Errors: as cantle_options_memory_budget. Threads: any.
 */
cantle_status cantle_options_keep_left_behind(cantle_options *options,
                                              bool on);

/**
 * Reads only: writes fail, nothing on disk changes, and any number of readers may have the store open at once, but no writer.
 * Default: no.
 *
 * Ownership: nothing changes hands. Errors: as cantle_options_memory_budget. Threads: any.
 */
cantle_status cantle_options_read_only(cantle_options *options,
                                       bool on);

/**
 * Threads for rebalances, splits and checkpoints. Default: half the cores, at least one, at most four.
 *
 * Ownership: nothing changes hands. Errors: as cantle_options_memory_budget. Threads: any.
 */
cantle_status cantle_options_background_threads(cantle_options *options, size_t threads);

/**
 * The longest time between checkpoints while there is something to make durable, in milliseconds. Default: 5000. Shorter loses
 * less at a power loss and syncs more often.
 *
 * Ownership: nothing changes hands. Errors: as cantle_options_memory_budget. Threads: any.
 */
cantle_status cantle_options_checkpoint_interval_ms(cantle_options *options,
                                                    uint64_t milliseconds);

/**
 * Gives the store a write buffer: a mapped file that collects appends to logs, so that many of them take one system call. A
 * killed process loses nothing of it. Default: yes. The first store of a process that makes a write buffer installs a handler of
 * SIGBUS, which stays until the process ends and passes on what is not its own. Where each store opens without, there is none.
 *
 * Ownership: nothing changes hands. Errors: as cantle_options_memory_budget. Threads: any.
 */
cantle_status cantle_options_write_buffer(cantle_options *options,
                                          bool on);

/**
 * Shares budget and threads with other stores; then cantle_options_memory_budget and cantle_options_background_threads have no effect.
 *
 * Ownership: the options keep the resources; the caller frees its handle. Errors: as cantle_options_memory_budget. Threads: any.
 */
cantle_status cantle_options_resources(cantle_options *options,
                                       const cantle_resources *resources);

/**
 * Options of the keyspace named `default`, as they are now. Default: those of cantle_keyspace_options_new.
 *
 * Ownership: they are copied. Errors: as cantle_options_memory_budget. Threads: any.
 */
cantle_status cantle_options_default_keyspace(cantle_options *options,
                                              const cantle_keyspace_options *keyspace_options);

/**
 * Registers a comparator, so that keyspaces that were created with one of its name can be opened. May be called for several.
 *
 * Ownership: the options keep the order; the caller frees its handle. Errors: as cantle_options_memory_budget. Threads: any.
 */
cantle_status cantle_options_comparator(cantle_options *options,
                                        const cantle_comparator *comparator);

/**
 * One budget in bytes and one pool of threads for every store that is opened with these resources.
 *
 * Ownership: the resources are the caller's, to be freed by cantle_resources_free, at once if need be: stores keep what they need.
 * Errors: NULL if there are too many handles; numbers that will not do are told by cantle_open. Threads: any.
 */
cantle_resources *cantle_resources_new(uint64_t memory_budget,
                                       size_t background_threads,
                                       cantle_error **error);

/**
 * Frees resources. Stores that were opened with them keep them. NULL is nothing to free.
 *
 * Ownership: the handle is gone afterwards; threads end with the last store. Errors: CANTLE_INVALID_ARGUMENT for what are no resources,
 * or were freed. Threads: any.
 */
cantle_status cantle_resources_free(cantle_resources *resources);

/**
 * Opens the store in directory `path`, with `options` or, where they are NULL, the defaults, recovering it if need be. By default
 * it is created if there is none.
 *
 * Ownership: the store is the caller's, to be closed by cantle_close; the options stay the caller's. Errors: NULL and CANTLE_LOCKED
 * if it is open elsewhere; CANTLE_NOT_FOUND and CANTLE_ALREADY_EXISTS by the options for that; CANTLE_NOT_A_STORE for something else,
 * which is not touched; CANTLE_OPTION_MISMATCH for a comparator that is not registered; CANTLE_INVALID_ARGUMENT for a path that is NULL,
 * for what are no options, or were freed, and for what is wrong in them; CANTLE_UNSUPPORTED_FORMAT; CANTLE_CORRUPTION if manifest or
 * journal are damaged; CANTLE_IO and CANTLE_NO_SPACE; CANTLE_FORKED for options of the process that this one was forked from;
 * CANTLE_OUT_OF_MEMORY if there are too many handles. Threads: any.
 */
cantle_db *cantle_open(const char *path,
                       const cantle_options *options,
                       cantle_error **error);

/**
 * Makes everything durable, closes the store, releases the lock that keeps others out, and frees the handle: the store may be
 * opened again at once. Other handles of the store give CANTLE_CLOSED from now on, and are still to be freed.
 *
 * Ownership: `db` is gone afterwards, even if this fails (unless it is no open store, or this is called from a callback that must not
 * write). Errors: CANTLE_INVALID_ARGUMENT for NULL, for what is no store, or was closed; CANTLE_FORKED in a forked child, which leaves
 * the store as it is; otherwise what was written since the last checkpoint may be lost, and CANTLE_READ_ONLY says that the store had
 * turned read-only before that, and why. Threads: any; calls in other threads end with CANTLE_CLOSED.
 */
cantle_status cantle_close(cantle_db *db,
                           cantle_error **error);

/**
 * The store's directory, as it was given.
 *
 * Ownership: the text is the caller's, to be freed by cantle_free. Errors: NULL and CANTLE_INVALID_ARGUMENT for a handle that will
 * not do, CANTLE_OUT_OF_MEMORY. Threads: any.
 */
char *cantle_path(cantle_db *db,
                  cantle_error **error);

/**
 * The name of the order of a keyspace: that of its comparator, or "cantle.bytewise". `keyspace` may be NULL for the default one.
 *
 * Ownership: the text is the caller's, to be freed by cantle_free. Errors: NULL and CANTLE_INVALID_ARGUMENT for handles that will not do,
 * and for a name that holds a zero byte (made in another language); CANTLE_OUT_OF_MEMORY. Threads: any.
 */
char *cantle_comparator_name(cantle_db *db,
                             cantle_keyspace *keyspace,
                             cantle_error **error);

/**
 * Makes everything that was acknowledged before durable, by a checkpoint. Callers at the same time share one.
 *
 * Ownership: nothing changes hands. Errors: CANTLE_NO_SPACE leaves the store as it was; a sync that fails turns it read-only;
 * CANTLE_READ_ONLY, CANTLE_CLOSED. Threads: any.
 */
cantle_status cantle_sync(cantle_db *db,
                          cantle_error **error);

/**
 * Writes a consistent copy of the store into a new or empty directory: a store that opens. Tables are shared by hard links where
 * both are on one file system. The store may be used meanwhile.
 *
 * Ownership: nothing changes hands. Errors: CANTLE_ALREADY_EXISTS and CANTLE_NOT_A_STORE if the directory is not empty; what writing
 * there may fail with. Threads: any.
 */
cantle_status cantle_backup(cantle_db *db,
                            const char *directory,
                            cantle_error **error);

/**
 * The keyspace of this name, created if there is none. Layout and comparator of an existing one must be the same, or not given;
 * other options take effect, save for `default`, which has those given at opening. `options` may be NULL: an existing
 * keyspace keeps the settings that it has, and a new one gets the defaults.
 *
 * Ownership: the keyspace is the caller's, to be freed by cantle_keyspace_free, also after cantle_close; the options stay the
 * caller's. Errors: NULL and CANTLE_OPTION_MISMATCH for another comparator, CANTLE_INVALID_ARGUMENT for options out of their range and
 * names that are not 1 to 255 bytes of UTF-8, CANTLE_NO_KEYSPACE if it would have to be created in a read-only store. Threads: any.
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
 * Frees the handle of a keyspace; the keyspace stays. NULL is nothing to free.
 *
 * Ownership: the handle is gone afterwards. Errors: CANTLE_INVALID_ARGUMENT for what is no keyspace, or was freed. Threads: any.
 */
cantle_status cantle_keyspace_free(cantle_keyspace *keyspace);

/**
 * The name of a keyspace.
 *
 * Ownership: the text is the caller's, to be freed by cantle_free. Errors: NULL and CANTLE_INVALID_ARGUMENT for a handle that will
 * not do, and for a name that holds a zero byte (made in another language); CANTLE_OUT_OF_MEMORY. Threads: any.
 */
char *cantle_keyspace_name(cantle_keyspace *keyspace,
                           cantle_error **error);

/**
 * The names of all keyspaces, in order: texts, and NULL behind the last one. `count` may be NULL.
 *
 * Ownership: the array, with its texts, is one block that is the caller's, to be freed by one call of cantle_free. Errors: NULL and
 * CANTLE_INVALID_ARGUMENT for a handle that will not do, and if a name holds a zero byte (made in another language); CANTLE_CLOSED,
 * CANTLE_OUT_OF_MEMORY; `*count` is 0 then. Threads: any.
 */
char **cantle_keyspaces(cantle_db *db,
                        size_t *count,
                        cantle_error **error);

/**
 * Drops a keyspace with everything in it. Snapshots taken before still read it, through a handle from before; every other use of such
 * a handle gives CANTLE_NO_KEYSPACE.
 *
 * Ownership: handles of it are still to be freed. Errors: CANTLE_NO_KEYSPACE if there is none, CANTLE_INVALID_ARGUMENT for `default`;
 * as cantle_put. Threads: any.
 */
cantle_status cantle_keyspace_drop(cantle_db *db,
                                   const char *name,
                                   cantle_error **error);

/**
 * Bytes of the application's own that are kept with the keyspace. Empty until set. `len` may be NULL.
 *
 * Ownership: the bytes, with a zero byte behind them that does not count, are the caller's, to be freed by cantle_free. Errors: NULL and
 * CANTLE_INVALID_ARGUMENT for a handle that will not do, CANTLE_OUT_OF_MEMORY. Threads: any.
 */
char *cantle_keyspace_metadata(cantle_keyspace *keyspace,
                               size_t *len,
                               cantle_error **error);

/**
 * Replaces the metadata of a keyspace; at most 64 KiB. Durable when this returns, and what was written before it is durable before it.
 *
 * Ownership: the bytes are copied. Errors: CANTLE_INVALID_ARGUMENT if they are too many, CANTLE_NO_KEYSPACE, and as cantle_sync: then
 * they may be replaced. Threads: any.
 */
cantle_status cantle_keyspace_set_metadata(cantle_keyspace *keyspace,
                                           const void *metadata,
                                           size_t len,
                                           cantle_error **error);

/**
 * The key's value, in a new block with a zero byte behind it that does not count; `*value` is NULL if the key is absent, which is no
 * error. Never waits for writers. `keyspace` may be NULL for the default one, and `value_len` NULL if nobody asks.
 *
 * Ownership: the block is the caller's, to be freed by cantle_free. Errors: CANTLE_CORRUPTION if what is touched is damaged; other
 * keys stay readable; CANTLE_IO, CANTLE_CLOSED, CANTLE_NO_KEYSPACE, CANTLE_INVALID_ARGUMENT, CANTLE_OUT_OF_MEMORY. `*value` is NULL
 * then. Threads: any.
 */
cantle_status cantle_get(cantle_db *db,
                         cantle_keyspace *keyspace,
                         const void *key,
                         size_t key_len,
                         char **value,
                         size_t *value_len,
                         cantle_error **error);

/**
 * Copies the key's value into the caller's buffer. `*found` says whether the key is there, `*value_len` (which may be NULL) how long
 * its value is: if that is more than `capacity`, the buffer has the first `capacity` bytes. `buffer` may be NULL, to ask for the length.
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
 * Whether the key has a value.
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
 * Stores a pair, replacing the key's value. `keyspace` may be NULL for the default one. Keys are 0 to 65,536 bytes long, values up to
 * 1 GiB; NULL will do for a key or value of 0 bytes. More durability than the store's is asked for by cantle_write.
 *
 * Ownership: key and value are copied. Errors: CANTLE_INVALID_ARGUMENT for a key or value that is too long, CANTLE_NO_SPACE,
 * CANTLE_READ_ONLY, CANTLE_CLOSED, CANTLE_NO_KEYSPACE, CANTLE_IO. Nothing was written then, unless the message says that a sync failed:
 * then the outcome shows after the next opening. Threads: any.
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
 * Ownership: the key is copied. Errors: as cantle_put, but it goes on for longer on a full disk. Threads: any.
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
 * Replaces the key's value by what `change` makes of it, atomically; `user` is handed to it. If `value` is not NULL it gets the new
 * value in a new block, or NULL if the key was deleted, and `value_len` (which may be NULL) its length. `keyspace` may be NULL for the
 * default one.
 *
 * Ownership: the key is copied, and so is what `change` returns; `user` stays the caller's; the block is the caller's, to be freed by
 * cantle_free. Errors: as cantle_get and cantle_put; CANTLE_INVALID_ARGUMENT without `change`, for a new value that is too long, and from
 * within another callback of cantle_update; CANTLE_FORKED in a child that was forked by `change`. Nothing was written then, except with
 * CANTLE_OUT_OF_MEMORY, which says that there is no memory for the block: the new value is in the store. Threads: any; `change` is
 * called in this thread.
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
 * About how many bytes on disk the keys of the range (NULL: every key) take, garbage included. Reads no pairs.
 *
 * Ownership: nothing changes hands. Errors: CANTLE_CLOSED, CANTLE_NO_KEYSPACE, CANTLE_INVALID_ARGUMENT; `*bytes` is 0 then. Threads: any.
 */
cantle_status cantle_approximate_bytes(cantle_db *db,
                                       cantle_keyspace *keyspace,
                                       const cantle_range *range,
                                       uint64_t *bytes,
                                       cantle_error **error);

/**
 * Sorts and cleans everything within the range (NULL: every key), now, in this thread. Never needed; it makes the store as small as it
 * gets.
 *
 * Ownership: nothing changes hands. Errors: as cantle_put and cantle_sync. Threads: any; others go on meanwhile.
 */
cantle_status cantle_compact_range(cantle_db *db,
                                   cantle_keyspace *keyspace,
                                   const cantle_range *range,
                                   cantle_error **error);

/**
 * An empty batch. It belongs to the process that made it, as it may hold keyspaces: a forked child makes its own.
 *
 * Ownership: the batch is the caller's, to be freed by cantle_batch_free. Errors: NULL if there are too many handles, or forks of the
 * process cannot be watched for want of memory. Threads: any.
 */
cantle_batch *cantle_batch_new(void);

/**
 * Frees a batch. NULL is nothing to free.
 *
 * Ownership: the batch is gone afterwards. Errors: CANTLE_INVALID_ARGUMENT for what is no batch, or was freed. Threads: any.
 */
cantle_status cantle_batch_free(cantle_batch *batch);

/**
 * Adds a put. `keyspace` may be NULL for the default one of the store that the batch is written to.
 *
 * Ownership: key and value are copied; the keyspace's handle may be freed before the batch is written. Errors: CANTLE_INVALID_ARGUMENT
 * for handles and pointers that will not do, and for a key or value that is too long. Threads: one at a time.
 */
cantle_status cantle_batch_put(cantle_batch *batch,
                               cantle_keyspace *keyspace,
                               const void *key,
                               size_t key_len,
                               const void *value,
                               size_t value_len,
                               cantle_error **error);

/**
 * Adds a delete. `keyspace` may be NULL for the default one of the store that the batch is written to.
 *
 * Ownership: the key is copied. Errors: as cantle_batch_put. Threads: one at a time.
 */
cantle_status cantle_batch_delete(cantle_batch *batch,
                                  cantle_keyspace *keyspace,
                                  const void *key,
                                  size_t key_len,
                                  cantle_error **error);

/**
 * Adds the delete of every key of the range (NULL: every key). `keyspace` may be NULL for the default one of the store that the batch
 * is written to.
 *
 * Ownership: the range is copied. Errors: as cantle_batch_put; CANTLE_INVALID_ARGUMENT for a prefix in a keyspace with a comparator (told
 * by cantle_write for the default one). Threads: one at a time.
 */
cantle_status cantle_batch_delete_range(cantle_batch *batch,
                                        cantle_keyspace *keyspace,
                                        const cantle_range *range,
                                        cantle_error **error);

/**
 * Adds the operations of `other`, which stay there; keys and values are shared.
 *
 * Ownership: both stay the caller's. Errors: CANTLE_INVALID_ARGUMENT for what is no batch, was freed, or is in use by another thread.
 * Threads: one at a time for both.
 */
cantle_status cantle_batch_append(cantle_batch *batch,
                                  const cantle_batch *other,
                                  cantle_error **error);

/**
 * How many operations a batch holds.
 *
 * Ownership: nothing changes hands. Errors: 0 for what is no batch, was freed, or is in use. Threads: one at a time.
 */
size_t cantle_batch_count(cantle_batch *batch);

/**
 * Takes all operations out of a batch.
 *
 * Ownership: nothing changes hands. Errors: CANTLE_INVALID_ARGUMENT for what is no batch, was freed, or is in use. Threads: one at a time.
 */
cantle_status cantle_batch_clear(cantle_batch *batch);

/**
 * Applies a batch: all of it or nothing, seen whole or not at all, over any keys and keyspaces. `durability` is what it must survive at
 * least: a cantle_durability, CANTLE_DEFAULT for the store's. The batch keeps its operations.
 *
 * Ownership: the batch stays the caller's. Errors: as cantle_put, and CANTLE_INVALID_ARGUMENT for keyspaces of another store; nothing was
 * written then, unless more durability was asked for than is the store's: then a checkpoint follows, and if that fails the batch is
 * there, as durable as any other write. Threads: any store, one thread at a time for the batch.
 */
cantle_status cantle_write(cantle_db *db,
                           const cantle_batch *batch,
                           int durability,
                           cantle_error **error);

/**
 * The store as it is now, for as long as the snapshot lives. Waits for writes that are under way, a matter of microseconds.
 *
 * Ownership: the snapshot is the caller's, to be freed by cantle_snapshot_free, also after cantle_close. Errors: NULL and
 * CANTLE_INVALID_ARGUMENT for a handle that will not do. Threads: any.
 */
cantle_snapshot *cantle_snapshot_new(cantle_db *db,
                                     cantle_error **error);

/**
 * Frees a snapshot. Iterators over it go on. NULL is nothing to free.
 *
 * Ownership: the snapshot is gone afterwards. Errors: CANTLE_INVALID_ARGUMENT for what is no snapshot, or was freed. Threads: any.
 */
cantle_status cantle_snapshot_free(cantle_snapshot *snapshot);

/**
 * The key's value at that moment, as cantle_get gives it. `keyspace` may be NULL for the default one.
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
 * Copies the key's value at that moment into the caller's buffer, as cantle_get_into does.
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
 * Whether the key had a value.
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
 * Begins a transaction, which reads the store as it is now, with its own writes laid over it. Nobody else sees these before it is
 * committed.
 *
 * Ownership: the transaction is the caller's, to be ended by cantle_transaction_commit or cantle_transaction_rollback, also after
 * cantle_close. Errors: NULL and CANTLE_INVALID_ARGUMENT for a handle that will not do. Threads: any.
 */
cantle_transaction *cantle_transaction_new(cantle_db *db,
                                           cantle_error **error);

/**
 * Makes the writes take effect, as of now, provided that what was read (keys, found or not, and ranges as far as they were walked) has
 * not been written to since. `durability` is what they must survive at least: a cantle_durability, CANTLE_DEFAULT for the store's.
 *
 * Ownership: the transaction is gone afterwards, even if this fails (save for a handle or durability that will not do, and in a
 * callback that must not write). Errors: CANTLE_CONFLICT if what was read does not hold: run it again; CANTLE_NO_KEYSPACE if a keyspace
 * was dropped; as cantle_write. Nothing was written then. Threads: any; waits for calls of others that use it.
 */
cantle_status cantle_transaction_commit(cantle_transaction *transaction,
                                        int durability,
                                        cantle_error **error);

/**
 * Ends a transaction without a trace. NULL is nothing to end.
 *
 * Ownership: the transaction is gone afterwards. Errors: CANTLE_INVALID_ARGUMENT for what is no transaction, was ended, or was handed to
 * a callback. Threads: any; waits for calls of others that use it.
 */
cantle_status cantle_transaction_rollback(cantle_transaction *transaction);

/**
 * The key's value: what the transaction wrote, or else what was there when it began; as cantle_get gives it. `keyspace` may be NULL for
 * the default one.
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
 * Whether the key has a value.
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
 * Stores a pair when the transaction is committed. `keyspace` may be NULL for the default one.
 *
 * Ownership: key and value are copied. Errors: as cantle_put for its arguments and in a store that cannot be written to; others come with
 * the commit. Threads: any.
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
 * Removes every key of the range (NULL: every key) when the transaction is committed: those that it sees, and those that others put there
 * meanwhile. Nothing is read, so nobody's put conflicts with it. `keyspace` may be NULL for the default one.
 *
 * Ownership: the range is copied. Errors: as cantle_transaction_put; CANTLE_INVALID_ARGUMENT for a prefix in a keyspace with a comparator.
 * Threads: any.
 */
cantle_status cantle_transaction_delete_range(cantle_transaction *transaction,
                                              cantle_keyspace *keyspace,
                                              const cantle_range *range,
                                              cantle_error **error);

/**
 * Runs a transaction by `run`, to which `user` is handed, and commits it, again and again until it has met no conflict, with pauses in
 * between that grow to some milliseconds.
 *
 * Ownership: the transaction is the library's, and the callback has it for its call only; `user` stays the caller's. Errors: what `run`
 * returned, with its error or one that says so; as cantle_transaction_commit, save for conflicts; CANTLE_FORKED in a child that was
 * forked by `run`, which writes nothing. Threads: any; `run` is called in this thread.
 */
cantle_status cantle_transact(cantle_db *db,
                              cantle_transact_fn run,
                              void *user,
                              cantle_error **error);

/**
 * The pair with the least key: in blocks of their own, or NULL if there is no pair. `value`
 * may be NULL if it is not wanted. `keyspace` may be NULL for the default one.
 *
 * Ownership: the blocks are the caller's, each to be freed by cantle_free. Errors: as cantle_get. Threads: any.
 */
cantle_status cantle_first(cantle_db *db,
                           cantle_keyspace *keyspace,
                           char **key,
                           size_t *key_len,
                           char **value,
                           size_t *value_len,
                           cantle_error **error);

/**
 * The pair with the greatest key: in blocks of their own, or NULL if there is no pair. `value`
 * may be NULL if it is not wanted. `keyspace` may be NULL for the default one.
 *
 * Ownership: the blocks are the caller's, each to be freed by cantle_free. Errors: as cantle_get. Threads: any.
 */
cantle_status cantle_last(cantle_db *db,
                          cantle_keyspace *keyspace,
                          char **key,
                          size_t *key_len,
                          char **value,
                          size_t *value_len,
                          cantle_error **error);

/**
 * Removes the pair with the least key, atomically, and returns it as cantle_first does.
 * Each pair is returned to one caller. `keyspace` may be NULL for the default one.
 *
 * Ownership: the blocks are the caller's, each to be freed by cantle_free. Errors: as cantle_get and cantle_put. Nothing was removed then, except with CANTLE_OUT_OF_MEMORY, which says that there is no memory for the blocks.
 * Threads: any.
 */
cantle_status cantle_pop_first(cantle_db *db,
                               cantle_keyspace *keyspace,
                               char **key,
                               size_t *key_len,
                               char **value,
                               size_t *value_len,
                               cantle_error **error);

/**
 * Removes the pair with the greatest key, atomically, and returns it as cantle_first does.
 * Each pair is returned to one caller. `keyspace` may be NULL for the default one.
 *
 * Ownership: the blocks are the caller's, each to be freed by cantle_free. Errors: as cantle_get and cantle_put. Nothing was removed then, except with CANTLE_OUT_OF_MEMORY, which says that there is no memory for the blocks.
 * Threads: any.
 */
cantle_status cantle_pop_last(cantle_db *db,
                              cantle_keyspace *keyspace,
                              char **key,
                              size_t *key_len,
                              char **value,
                              size_t *value_len,
                              cantle_error **error);

/**
 * Replaces the key's value by `new_value` if the value is `expected`, atomically. An `expected` of NULL is an absent key, a `new_value` of
 * NULL deletes the key: with `expected` NULL this inserts if absent. `*swapped` says if the value was `expected`. `keyspace` may be NULL for the default one.
 *
 * Ownership: key and values are copied. Errors: as cantle_get and cantle_put; `*swapped` is false then. Threads: any.
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
 * Ownership: the blocks are the caller's, each to be freed by cantle_free. Errors: as cantle_transaction_get. Threads: any.
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
 * Ownership: the blocks are the caller's, each to be freed by cantle_free. Errors: as cantle_transaction_get. Threads: any.
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
 * Ownership: the blocks are the caller's, each to be freed by cantle_free. Errors: as cantle_transaction_get and cantle_transaction_put. Threads: any; two that pop at the same time may get the same pair.
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
 * Ownership: the blocks are the caller's, each to be freed by cantle_free. Errors: as cantle_transaction_get and cantle_transaction_put. Threads: any; two that pop at the same time may get the same pair.
 */
cantle_status cantle_transaction_pop_last(cantle_transaction *transaction,
                                          cantle_keyspace *keyspace,
                                          char **key,
                                          size_t *key_len,
                                          char **value,
                                          size_t *value_len,
                                          cantle_error **error);

/**
 * Replaces the key's value when the transaction is committed, if it is `expected` as the transaction sees it: as cantle_compare_and_swap.
 *
 * Ownership: key and values are copied. Errors: as cantle_transaction_get and cantle_transaction_put; `*swapped` is false then.
 * Threads: any.
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
 * Estimated number of pairs, from counters that maintenance keeps: overwritten and deleted pairs that are not merged yet may count.
 * `keyspace` may be NULL for the default one.
 *
 * Ownership: nothing changes hands. Errors: CANTLE_CLOSED, CANTLE_NO_KEYSPACE, CANTLE_INVALID_ARGUMENT; `*pairs` is 0 then. Threads: any.
 */
cantle_status cantle_len_estimate(cantle_db *db,
                                  cantle_keyspace *keyspace,
                                  uint64_t *pairs,
                                  cantle_error **error);

/**
 * An iterator over the range (NULL: every key) as of now. `keyspace` may be NULL for the default one. It stands before the first pair and
 * behind the last: its first movement decides.
 *
 * Ownership: the iterator is the caller's, to be freed by cantle_iterator_free, also after cantle_close; the range is copied. Errors: NULL
 * and CANTLE_INVALID_ARGUMENT for handles and ranges that will not do; others come with the first movement. Threads: any.
 */
cantle_iterator *cantle_iterator_new(cantle_db *db,
                                     cantle_keyspace *keyspace,
                                     const cantle_range *range,
                                     cantle_error **error);

/**
 * An iterator over the range (NULL: every key) of a snapshot. `keyspace` may be NULL for the default one.
 *
 * Ownership: as cantle_iterator_new; the snapshot may be freed before. Errors: as cantle_iterator_new. Threads: any.
 */
cantle_iterator *cantle_snapshot_iterator(cantle_snapshot *snapshot,
                                          cantle_keyspace *keyspace,
                                          const cantle_range *range,
                                          cantle_error **error);

/**
 * An iterator over the range (NULL: every key) as a transaction sees it, with the writes made up to now. What it walks over counts as
 * read. Once the transaction is over it gives CANTLE_INVALID_ARGUMENT. `keyspace` may be NULL for the default one.
 *
 * Ownership: as cantle_iterator_new; it may be freed before the transaction ends or after. Errors: as cantle_iterator_new. Threads: any.
 */
cantle_iterator *cantle_transaction_iterator(cantle_transaction *transaction,
                                             cantle_keyspace *keyspace,
                                             const cantle_range *range,
                                             cantle_error **error);

/**
 * Frees an iterator. NULL is nothing to free.
 *
 * Ownership: the iterator and what it lent are gone afterwards. Errors: CANTLE_INVALID_ARGUMENT for what is no iterator, or was freed.
 * Threads: any.
 */
cantle_status cantle_iterator_free(cantle_iterator *iterator);

/**
 * To the next pair, or from where a new iterator stands to the first. Returns whether there is one, and its key and value, either of which
 * nobody need ask for (NULL). Behind the last pair it stays there; cantle_iterator_last leads back.
 *
 * Ownership: key and value are the iterator's, until it moves again or is freed. Errors: false, as at the end; then `*error` is set, and
 * cantle_iterator_status says so too: CANTLE_CORRUPTION, CANTLE_IO, CANTLE_CLOSED, CANTLE_NO_KEYSPACE, CANTLE_INVALID_ARGUMENT. Threads:
 * one at a time.
 */
bool cantle_iterator_next(cantle_iterator *iterator,
                          cantle_slice *key,
                          cantle_slice *value,
                          cantle_error **error);

/**
 * To the previous pair, or from where a new iterator stands to the last.
 *
 * Ownership: as cantle_iterator_next. Errors: as cantle_iterator_next. Threads: one at a time.
 */
bool cantle_iterator_prev(cantle_iterator *iterator,
                          cantle_slice *key,
                          cantle_slice *value,
                          cantle_error **error);

/**
 * To the first pair.
 *
 * Ownership: as cantle_iterator_next. Errors: as cantle_iterator_next. Threads: one at a time.
 */
bool cantle_iterator_first(cantle_iterator *iterator,
                           cantle_slice *key,
                           cantle_slice *value,
                           cantle_error **error);

/**
 * To the last pair.
 *
 * Ownership: as cantle_iterator_next. Errors: as cantle_iterator_next. Threads: one at a time.
 */
bool cantle_iterator_last(cantle_iterator *iterator,
                          cantle_slice *key,
                          cantle_slice *value,
                          cantle_error **error);

/**
 * To the first pair at or behind `target`.
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
 * The pair under the iterator, as its last movement gave it: whether there is one, and its key and value, either of which nobody need ask
 * for (NULL).
 *
 * Ownership: key and value are the iterator's, until it moves again or is freed. Errors: false for what is no iterator, was freed, or is
 * in use. Threads: one at a time.
 */
bool cantle_iterator_pair(cantle_iterator *iterator,
                          cantle_slice *key,
                          cantle_slice *value);

/**
 * What became of the last movement: CANTLE_OK, also where there was no pair any more, or why it failed.
 *
 * Ownership: nothing changes hands. Errors: CANTLE_INVALID_ARGUMENT for what is no iterator, was freed, or is in use; CANTLE_FORKED.
 * Threads: one at a time.
 */
cantle_status cantle_iterator_status(cantle_iterator *iterator);

/**
 * A key without parts.
 *
 * Ownership: the key is the caller's, to be freed by cantle_key_free. Errors: NULL if there are too many handles. Threads: any.
 */
cantle_key *cantle_key_new(void);

/**
 * The parts of a key that was encoded from such.
 *
 * Ownership: the key is the caller's, to be freed by cantle_key_free; the bytes are copied. Errors: NULL and CANTLE_INVALID_ARGUMENT if
 * `bytes` are no composite key, are more than 65,536, or nest deeper than 32 levels. Threads: any.
 */
cantle_key *cantle_key_parse(const void *bytes,
                             size_t len,
                             cantle_error **error);

/**
 * Frees a key. NULL is nothing to free.
 *
 * Ownership: the key and what it lent are gone afterwards. Errors: CANTLE_INVALID_ARGUMENT for what is no key, or was freed. Threads: any.
 */
cantle_status cantle_key_free(cantle_key *key);

/**
 * Takes all parts out of a key.
 *
 * Ownership: what the key lent is gone afterwards. Errors: CANTLE_INVALID_ARGUMENT for what is no key, was freed, or is in use. Threads: one
 * at a time.
 */
cantle_status cantle_key_clear(cantle_key *key);

/**
 * Appends a text in UTF-8 of `len` bytes.
 *
 * Ownership: the text is copied; what the key lent before is gone. Errors: CANTLE_INVALID_ARGUMENT if it is not UTF-8, for handles and
 * pointers that will not do, and if the key would be longer than 65,536 bytes, which is the longest that a store takes. Threads: one at a time.
 */
cantle_status cantle_key_text(cantle_key *key,
                              const void *text,
                              size_t len,
                              cantle_error **error);

/**
 * Appends a byte string.
 *
 * Ownership: the bytes are copied; what the key lent before is gone. Errors: CANTLE_INVALID_ARGUMENT for handles and pointers that will not
 * do, and if the key would be too long. Threads: one at a time.
 */
cantle_status cantle_key_bytes(cantle_key *key,
                               const void *bytes,
                               size_t len,
                               cantle_error **error);

/**
 * Appends an integer, or a time in microseconds since 1970-01-01T00:00:00Z.
 *
 * Ownership: what the key lent before is gone. Errors: CANTLE_INVALID_ARGUMENT for a handle that will not do, and if the key would be too
 * long. Threads: one at a time.
 */
cantle_status cantle_key_int(cantle_key *key,
                             int64_t integer,
                             cantle_error **error);

/**
 * Appends a float, which sorts by IEEE 754's total order.
 *
 * Ownership: what the key lent before is gone. Errors: CANTLE_INVALID_ARGUMENT for a handle that will not do, and if the key would be too
 * long. Threads: one at a time.
 */
cantle_status cantle_key_float(cantle_key *key,
                               double number,
                               cantle_error **error);

/**
 * Appends a boolean.
 *
 * Ownership: what the key lent before is gone. Errors: CANTLE_INVALID_ARGUMENT for a handle that will not do, and if the key would be too
 * long. Threads: one at a time.
 */
cantle_status cantle_key_bool(cantle_key *key,
                              bool boolean,
                              cantle_error **error);

/**
 * Appends a null, which sorts before everything else.
 *
 * Ownership: what the key lent before is gone. Errors: CANTLE_INVALID_ARGUMENT for a handle that will not do, and if the key would be too
 * long. Threads: one at a time.
 */
cantle_status cantle_key_null(cantle_key *key,
                              cantle_error **error);

/**
 * Appends all parts of another key as one part, a sequence within the sequence.
 *
 * Ownership: the other key's parts are copied; what the key lent before is gone. Errors: CANTLE_INVALID_ARGUMENT for handles that will not
 * do, if both are the same, and if the key would be too long or nest deeper than 32 levels, which is as deep as cantle_key_parse reads.
 * Threads: one at a time, for both.
 */
cantle_status cantle_key_append_nested(cantle_key *key,
                                       const cantle_key *nested,
                                       cantle_error **error);

/**
 * The key's bytes, which sort as the parts do.
 *
 * Ownership: the bytes are the key's, until a part is appended or it is cleared or freed. Errors: a slice of NULL for a handle that will not
 * do. Threads: one at a time.
 */
cantle_slice cantle_key_data(const cantle_key *key);

/**
 * The range of every key that begins with these parts, the key itself included.
 *
 * Ownership: the range points to the key's memory, until a part is appended or it is cleared or freed. Errors: CANTLE_INVALID_ARGUMENT for a
 * handle that will not do. Threads: one at a time.
 */
cantle_status cantle_key_range(cantle_key *key,
                               cantle_range *range,
                               cantle_error **error);

/**
 * How many parts a key has.
 *
 * Ownership: nothing changes hands. Errors: 0 for what is no key, was freed, or is in use. Threads: one at a time.
 */
size_t cantle_key_count(const cantle_key *key);

/**
 * A part of a key; the first is number 0.
 *
 * Ownership: its bytes are the key's, until a part is appended or it is cleared or freed. Errors: CANTLE_INVALID_ARGUMENT if there are not so
 * many, and for a handle that will not do; `*part` is a null then. Threads: one at a time.
 */
cantle_status cantle_key_part(const cantle_key *key,
                              size_t index,
                              cantle_part *part,
                              cantle_error **error);

/**
 * The parts of a part that is a sequence, as a key of their own.
 *
 * Ownership: the key is the caller's, to be freed by cantle_key_free. Errors: NULL and CANTLE_INVALID_ARGUMENT if there is no such part, or it is
 * no sequence, and for a handle that will not do. Threads: one at a time.
 */
cantle_key *cantle_key_nested(const cantle_key *key,
                              size_t index,
                              cantle_error **error);

/**
 * Counters and sizes of the store and each keyspace, as a JSON object: the fields of `Stats` in Rust, with times in nanoseconds (and so
 * named). Takes microseconds.
 *
 * Ownership: the text is the caller's, to be freed by cantle_free. Errors: NULL and CANTLE_INVALID_ARGUMENT for a handle that will not do,
 * CANTLE_OUT_OF_MEMORY. Threads: any.
 */
char *cantle_stats(cantle_db *db,
                   cantle_error **error);

/**
 * One number of the statistics by its name, as "disk_bytes", "memory_used", "open_time_nanos", "memory.rows.used" or
 * "keyspaces.default.live_bytes".
 *
 * Ownership: nothing changes hands. Errors: CANTLE_INVALID_ARGUMENT if there is no such number, for NULL and for a handle that will not
 * do; CANTLE_FORKED; `*number` is 0 then. Threads: any.
 */
cantle_status cantle_stat(cantle_db *db,
                          const char *name,
                          uint64_t *number,
                          cantle_error **error);

/**
 * The key ranges that a keyspace's layout manages (chunks), in key order, as a JSON array of objects: `start_hex` (the smallest possible
 * key, in hexadecimal digits), `level`, `table_bytes`, `log_bytes`, `garbage_bytes`, `tables`, `segments`, `resident_bytes`, `heat`. `keyspace` may be NULL for the default one.
 *
 * Ownership: the text is the caller's, to be freed by cantle_free. Errors: NULL and CANTLE_CLOSED, CANTLE_NO_KEYSPACE,
 * CANTLE_INVALID_ARGUMENT, CANTLE_OUT_OF_MEMORY. Threads: any.
 */
char *cantle_regions(cantle_db *db,
                     cantle_keyspace *keyspace,
                     cantle_error **error);

/**
 * Reads and checks every file of the store. `*damaged` (which may be NULL) is the number of damaged places, 0 if the store is sound; damage
 * is no error of this function. `*first` (which may be NULL) tells of the first of them as an error would, by cantle_error_path,
 * cantle_error_offset and cantle_error_message; it is NULL if there is none. `*report` (which may be NULL) is a JSON object: `ok`, `files`,
 * `bytes`, `entries`, `damage` with `path`, `offset` and `message`, and `unknown_files`, which are harmless.
 *
 * Ownership: the text is the caller's, to be freed by cantle_free; so is `*first`, by cantle_error_free. Errors: CANTLE_CLOSED, CANTLE_IO,
 * CANTLE_INVALID_ARGUMENT for a handle that will not do, CANTLE_FORKED, CANTLE_OUT_OF_MEMORY; `*first` and `*report` are NULL then.
 * Threads: any; the store may be used meanwhile.
 */
cantle_status cantle_verify(cantle_db *db,
                            uint64_t *damaged,
                            cantle_error **first,
                            char **report,
                            cantle_error **error);

/**
 * Removes the store in directory `path`, damaged or not, with everything in it. Files that are not the store's stay, and so does the
 * directory. No error if there is no store.
 *
 * Ownership: nothing changes hands. Errors: CANTLE_LOCKED if the store is open, CANTLE_NOT_A_STORE for a file or another kind of store,
 * CANTLE_IO if a file cannot be removed: then the store does not open any more, and removing it can be tried again. Threads: any.
 */
cantle_status cantle_destroy(const char *path,
                             cantle_error **error);

/**
 * Saves what is left of the damaged store in directory `source` into a new store in directory `target`, which must not exist. Nothing in
 * `source` is changed. `options` are those of the new store, and have the comparators of its keyspaces; NULL for the defaults. `progress` may
 * be NULL; `user` is handed to it. `*complete` (which may be NULL) says whether the new store has everything that the old one had. `*report`
 * (which may be NULL) is a JSON object: `ok`, `pairs`, `keyspaces`, `files`, `bytes`, `damage`, `damage_untold`, `left_out`, `uncertain`
 * (ranges of keys whose newest value may be lost), `uncertain_untold`, `notes`.
 *
 * Ownership: the text is the caller's, to be freed by cantle_free; `user` stays the caller's. Errors: damage is in the report, not an error.
 * CANTLE_ALREADY_EXISTS, CANTLE_NOT_FOUND, CANTLE_NOT_A_STORE, CANTLE_LOCKED if the store is open, CANTLE_OPTION_MISMATCH for a comparator that
 * is not registered, CANTLE_CORRUPTION if no file says whose it is, and what writing may fail with; the new store is not complete then: remove it.
 * Threads: any; `progress` is called in this thread.
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
