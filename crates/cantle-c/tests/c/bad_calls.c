/* Calls that nobody should make: each is an error, none a crash. */
#include "check.h"

static cantle_db *the_db;

/* Of calls that fail before they read. */
static void never(void *user, size_t number, cantle_status status, const char *value, size_t value_len,
                  const cantle_error *error) {
    (void)user, (void)number, (void)status, (void)value, (void)value_len, (void)error;
    CHECK(!"called");
}

static void count_failures(void *user, size_t number, cantle_status status, const char *value, size_t value_len,
                           const cantle_error *error) {
    (void)number, (void)value, (void)value_len;
    CHECK(cantle_error_status(error) == status);
    *(int *)user += status != CANTLE_OK;
}

static void nulls(cantle_db *db) {
    char *value = (char *)1;
    bool found;
    uint64_t number;
    cantle_slice slice;
    FAILS(CANTLE_INVALID_ARGUMENT, cantle_put(NULL, NULL, "k", 1, "v", 1, &error));
    FAILS(CANTLE_INVALID_ARGUMENT, cantle_put(db, NULL, NULL, 3, "v", 1, &error));
    FAILS(CANTLE_INVALID_ARGUMENT, cantle_put(db, NULL, "k", 1, NULL, 3, &error));
    FAILS(CANTLE_INVALID_ARGUMENT, cantle_put(db, NULL, "k", SIZE_MAX, "v", 1, &error));
    FAILS(CANTLE_INVALID_ARGUMENT, cantle_get(db, NULL, NULL, 1, &value, NULL, &error));
    CHECK(value == NULL);
    FAILS(CANTLE_INVALID_ARGUMENT, cantle_get(db, NULL, "k", 1, NULL, NULL, &error));
    FAILS(CANTLE_INVALID_ARGUMENT, cantle_get_into(db, NULL, "k", 1, NULL, 5, NULL, NULL, &error));
    FAILS(CANTLE_INVALID_ARGUMENT, cantle_contains(db, NULL, "k", 1, NULL, &error));
    cantle_slice keys[] = {{"k", 1}, {NULL, 1}};
    FAILS(CANTLE_INVALID_ARGUMENT, cantle_get_many(NULL, NULL, keys, 1, never, NULL, &error));
    FAILS(CANTLE_INVALID_ARGUMENT, cantle_get_many(NULL, NULL, NULL, 0, never, NULL, &error));
    FAILS(CANTLE_INVALID_ARGUMENT, cantle_get_many(db, NULL, NULL, 1, never, NULL, &error));
    FAILS(CANTLE_INVALID_ARGUMENT, cantle_get_many(db, NULL, keys, 2, never, NULL, &error));
    FAILS(CANTLE_INVALID_ARGUMENT, cantle_get_many(db, NULL, keys, 1, NULL, NULL, &error));
    FAILS(CANTLE_INVALID_ARGUMENT, cantle_snapshot_get_many(NULL, NULL, keys, 1, never, NULL, &error));
    FAILS(CANTLE_INVALID_ARGUMENT, cantle_transaction_get_many(NULL, NULL, keys, 1, never, NULL, &error));
    cantle_error *wrong = NULL;
    CHECK(cantle_get_many(db, NULL, keys, 2, never, NULL, &wrong) == CANTLE_INVALID_ARGUMENT);
    CHECK(strstr(cantle_error_message(wrong), "the key is NULL, but 1 bytes long: keys[1]") != NULL);
    CHECK(cantle_error_free(wrong) == CANTLE_OK);
    FAILS(CANTLE_INVALID_ARGUMENT, cantle_delete(db, NULL, NULL, 2, &error));
    FAILS(CANTLE_INVALID_ARGUMENT, cantle_update(db, NULL, "k", 1, NULL, NULL, NULL, NULL, &error));
    FAILS(CANTLE_INVALID_ARGUMENT, cantle_approximate_bytes(db, NULL, NULL, NULL, &error));
    FAILS(CANTLE_INVALID_ARGUMENT, cantle_write(db, NULL, CANTLE_DEFAULT, &error));
    FAILS(CANTLE_INVALID_ARGUMENT, cantle_stat(db, NULL, &number, &error));
    FAILS(CANTLE_INVALID_ARGUMENT, cantle_stat(db, "disk_bytes", NULL, &error));
    FAILS(CANTLE_INVALID_ARGUMENT, cantle_stat(db, "no.such", &number, &error));
    FAILS(CANTLE_INVALID_ARGUMENT, cantle_backup(db, NULL, &error));
    FAILS(CANTLE_INVALID_ARGUMENT, cantle_repair(NULL, "x", NULL, NULL, NULL, NULL, NULL, &error));
    FAILS(CANTLE_INVALID_ARGUMENT, cantle_sync(NULL, &error));
    FAILS(CANTLE_INVALID_ARGUMENT, cantle_close(NULL, &error));
    FAILS(CANTLE_INVALID_ARGUMENT, cantle_snapshot_contains(NULL, NULL, "k", 1, &found, &error));
    NOTHING(CANTLE_INVALID_ARGUMENT, cantle_open(NULL, NULL, &error));
    NOTHING(CANTLE_INVALID_ARGUMENT, cantle_path(NULL, &error));
    NOTHING(CANTLE_INVALID_ARGUMENT, cantle_keyspace_open(db, NULL, NULL, &error));
    NOTHING(CANTLE_INVALID_ARGUMENT, cantle_keyspace_open(db, "", NULL, &error));
    NOTHING(CANTLE_INVALID_ARGUMENT, cantle_keyspace_open(db, "\xff", NULL, &error));
    NOTHING(CANTLE_INVALID_ARGUMENT, cantle_keyspace_name(NULL, &error));
    NOTHING(CANTLE_INVALID_ARGUMENT, cantle_snapshot_new(NULL, &error));
    NOTHING(CANTLE_INVALID_ARGUMENT, cantle_transaction_new(NULL, &error));
    NOTHING(CANTLE_INVALID_ARGUMENT, cantle_iterator_new(NULL, NULL, NULL, &error));
    NOTHING(CANTLE_INVALID_ARGUMENT, cantle_iterator_next(NULL, &slice, NULL, &error));
    NOTHING(CANTLE_INVALID_ARGUMENT, cantle_stats(NULL, &error));
    NOTHING(CANTLE_INVALID_ARGUMENT, cantle_regions(NULL, NULL, &error));
    NOTHING(CANTLE_INVALID_ARGUMENT, cantle_comparator_new(NULL, NULL, NULL, NULL, true, NULL, &error));
    NOTHING(CANTLE_INVALID_ARGUMENT, cantle_comparator_new("c", NULL, NULL, NULL, true, NULL, &error));
    FAILS(CANTLE_INVALID_ARGUMENT, cantle_batch_put(NULL, NULL, "k", 1, "v", 1, &error));
    FAILS(CANTLE_INVALID_ARGUMENT, cantle_batch_append(NULL, NULL, &error));
    CHECK(cantle_batch_count(NULL) == 0 && cantle_batch_clear(NULL) == CANTLE_INVALID_ARGUMENT);
    CHECK(!cantle_iterator_pair(NULL, &slice, NULL) && cantle_key_data(NULL).data == NULL);
    CHECK(cantle_iterator_status(NULL) == CANTLE_INVALID_ARGUMENT && cantle_key_count(NULL) == 0);
    /* The place for the error may be missing, and freeing nothing is fine. */
    CHECK(cantle_put(NULL, NULL, "k", 1, "v", 1, NULL) == CANTLE_INVALID_ARGUMENT);
    CHECK(cantle_error_status(NULL) == CANTLE_OK && cantle_error_message(NULL) != NULL);
    CHECK(cantle_error_path(NULL) == NULL && cantle_error_offset(NULL) == -1 && cantle_error_os_code(NULL) == 0);
    CHECK(cantle_error_free(NULL) == CANTLE_OK && cantle_snapshot_free(NULL) == CANTLE_OK);
    CHECK(cantle_keyspace_free(NULL) == CANTLE_OK && cantle_options_free(NULL) == CANTLE_OK);
    cantle_free(NULL);
}

static void freed_and_foreign_handles(cantle_db *db, const char *directory) {
    cantle_snapshot *snapshot, *fresh;
    cantle_iterator *it;
    cantle_keyspace *keyspace;
    cantle_slice key, keys[] = {{"k", 1}, {"l", 1}};
    char *value;
    bool found;
    int failures = 0;
    SOME(snapshot, cantle_snapshot_new(db, &error));
    CHECK(cantle_snapshot_free(snapshot) == CANTLE_OK);
    FAILS(CANTLE_INVALID_ARGUMENT, cantle_snapshot_get_many(snapshot, NULL, keys, 2, never, NULL, &error));
    CHECK(cantle_snapshot_free(snapshot) == CANTLE_INVALID_ARGUMENT);
    FAILS(CANTLE_INVALID_ARGUMENT, cantle_snapshot_get(snapshot, NULL, "k", 1, &value, NULL, &error));
    /* The next one has the same slot, and is not taken for it. */
    SOME(fresh, cantle_snapshot_new(db, &error));
    FAILS(CANTLE_INVALID_ARGUMENT, cantle_snapshot_contains(snapshot, NULL, "k", 1, &found, &error));
    OK(cantle_snapshot_contains(fresh, NULL, "k", 1, &found, &error));

    SOME(it, cantle_iterator_new(db, NULL, NULL, &error));
    CHECK(cantle_iterator_free(it) == CANTLE_OK && cantle_iterator_free(it) == CANTLE_INVALID_ARGUMENT);
    NOTHING(CANTLE_INVALID_ARGUMENT, cantle_iterator_next(it, &key, NULL, &error));

    /* Of another type, and no handle at all. */
    FAILS(CANTLE_INVALID_ARGUMENT, cantle_put((cantle_db *)fresh, NULL, "k", 1, "v", 1, &error));
    FAILS(CANTLE_INVALID_ARGUMENT, cantle_put(db, (cantle_keyspace *)fresh, "k", 1, "v", 1, &error));
    FAILS(CANTLE_INVALID_ARGUMENT, cantle_get_many(db, (cantle_keyspace *)fresh, keys, 2, never, NULL, &error));
    FAILS(CANTLE_INVALID_ARGUMENT,
          cantle_transaction_get_many((cantle_transaction *)fresh, NULL, keys, 2, never, NULL, &error));
    CHECK(cantle_iterator_free((cantle_iterator *)fresh) == CANTLE_INVALID_ARGUMENT);
    FAILS(CANTLE_INVALID_ARGUMENT, cantle_sync((cantle_db *)directory, &error));
    FAILS(CANTLE_INVALID_ARGUMENT, cantle_sync((cantle_db *)(void *)&key, &error));
    FAILS(CANTLE_INVALID_ARGUMENT, cantle_sync((cantle_db *)(uintptr_t)8, &error));
    FAILS(CANTLE_INVALID_ARGUMENT, cantle_sync((cantle_db *)UINTPTR_MAX, &error));
    OK(cantle_snapshot_contains(fresh, NULL, "k", 1, &found, &error));
    CHECK(cantle_snapshot_free(fresh) == CANTLE_OK);

    cantle_error *twice = NULL;
    CHECK(cantle_sync(NULL, &twice) == CANTLE_INVALID_ARGUMENT);
    CHECK(cantle_error_free(twice) == CANTLE_OK && cantle_error_free(twice) == CANTLE_INVALID_ARGUMENT);
    CHECK(cantle_error_status(twice) == CANTLE_INVALID_ARGUMENT && cantle_error_message(twice) != NULL);

    /* A keyspace of another store. */
    cantle_db *other;
    SOME(other, cantle_open(below(directory, "other"), NULL, &error));
    SOME(keyspace, cantle_keyspace_open(other, "k", NULL, &error));
    FAILS(CANTLE_INVALID_ARGUMENT, cantle_put(db, keyspace, "k", 1, "v", 1, &error));
    SOME(snapshot, cantle_snapshot_new(db, &error));
    FAILS(CANTLE_INVALID_ARGUMENT, cantle_snapshot_contains(snapshot, keyspace, "k", 1, &found, &error));
    FAILS(CANTLE_INVALID_ARGUMENT, cantle_get_many(db, keyspace, keys, 2, never, NULL, &error));
    FAILS(CANTLE_INVALID_ARGUMENT,
          cantle_snapshot_get_many(snapshot, keyspace, keys, 2, count_failures, &failures, &error));
    CHECK(failures == 2 && cantle_snapshot_free(snapshot) == CANTLE_OK);
    cantle_transaction *tx;
    SOME(tx, cantle_transaction_new(db, &error));
    FAILS(CANTLE_INVALID_ARGUMENT,
          cantle_transaction_get_many(tx, keyspace, keys, 2, count_failures, &failures, &error));
    CHECK(failures == 4 && cantle_transaction_rollback(tx) == CANTLE_OK);
    FAILS(CANTLE_INVALID_ARGUMENT, cantle_transaction_get_many(tx, NULL, keys, 2, never, NULL, &error));
    cantle_batch *batch = cantle_batch_new();
    OK(cantle_batch_put(batch, keyspace, "k", 1, "v", 1, &error));
    FAILS(CANTLE_INVALID_ARGUMENT, cantle_write(db, batch, CANTLE_DEFAULT, &error));
    CHECK(cantle_batch_free(batch) == CANTLE_OK);
    FAILS(CANTLE_INVALID_ARGUMENT, cantle_keyspace_drop(db, "default", &error));
    FAILS(CANTLE_NO_KEYSPACE, cantle_keyspace_drop(db, "never was", &error));
    OK(cantle_close(other, &error));
    FAILS(CANTLE_INVALID_ARGUMENT, cantle_close(other, &error));
    /* The store is closed, the keyspace's handle is there. */
    FAILS(CANTLE_CLOSED, cantle_keyspace_set_metadata(keyspace, "m", 1, &error));
    /* The handle that is left keeps nobody from opening the store. */
    SOME(other, cantle_open(below(directory, "other"), NULL, &error));
    FAILS(CANTLE_CLOSED, cantle_keyspace_set_metadata(keyspace, "m", 1, &error));
    CHECK(cantle_keyspace_free(keyspace) == CANTLE_OK);
    OK(cantle_close(other, &error));
}

static void too_large(cantle_db *db) {
    char *large = (char *)calloc(1, (1 << 20) + 1);
    CHECK(large != NULL);
    FAILS(CANTLE_INVALID_ARGUMENT, cantle_put(db, NULL, large, (1 << 20) + 1, "v", 1, &error));
    OK(cantle_put(db, NULL, large, 1 << 20, "v", 1, &error));
    int failures = 0;
    cantle_slice keys[] = {{large, 1 << 20}, {large, (1 << 20) + 1}};
    OK(cantle_get_many(db, NULL, keys, 1, count_failures, &failures, &error));
    FAILS(CANTLE_INVALID_ARGUMENT, cantle_get_many(db, NULL, keys, 2, never, NULL, &error));
    CHECK(failures == 0);
    cantle_keyspace *keyspace;
    SOME(keyspace, cantle_keyspace_open(db, "default", NULL, &error));
    FAILS(CANTLE_INVALID_ARGUMENT, cantle_keyspace_set_metadata(keyspace, large, 65537, &error));
    CHECK(cantle_keyspace_free(keyspace) == CANTLE_OK);
    free(large);
}

/* Lengths that nothing can have, as they come from negative numbers: none of so many bytes is read. */
static void impossible_lengths(cantle_db *db) {
    static const size_t lengths[] = {(size_t)1 << 31, (size_t)1 << 40, SIZE_MAX / 2, (size_t)-1};
    cantle_transaction *tx;
    cantle_iterator *it;
    cantle_keyspace *keyspace;
    cantle_slice slice;
    char *value, buffer[4];
    bool found;
    uint64_t bytes;
    cantle_batch *batch = cantle_batch_new();
    SOME(tx, cantle_transaction_new(db, &error));
    SOME(it, cantle_iterator_new(db, NULL, NULL, &error));
    SOME(keyspace, cantle_keyspace_open(db, "default", NULL, &error));
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        size_t len = lengths[i];
        cantle_range ranges[] = {cantle_range_between("k", len, NULL, 0), cantle_range_between(NULL, 0, "k", len),
                                 cantle_range_prefix("k", len), cantle_range_between(NULL, len, NULL, 0),
                                 cantle_range_between("k", 1, NULL, len)};
        FAILS(CANTLE_INVALID_ARGUMENT, cantle_put(db, NULL, "k", len, "v", 1, &error));
        FAILS(CANTLE_INVALID_ARGUMENT, cantle_put(db, NULL, "k", 1, "v", len, &error));
        FAILS(CANTLE_INVALID_ARGUMENT, cantle_delete(db, NULL, "k", len, &error));
        FAILS(CANTLE_INVALID_ARGUMENT, cantle_get(db, NULL, "k", len, &value, NULL, &error));
        FAILS(CANTLE_INVALID_ARGUMENT, cantle_get_into(db, NULL, "k", len, buffer, 4, NULL, &found, &error));
        FAILS(CANTLE_INVALID_ARGUMENT, cantle_contains(db, NULL, "k", len, &found, &error));
        cantle_slice keys[] = {{"k", 1}, {"k", len}};
        FAILS(CANTLE_INVALID_ARGUMENT, cantle_get_many(db, NULL, keys, 2, never, NULL, &error));
        FAILS(CANTLE_INVALID_ARGUMENT, cantle_get_many(db, NULL, keys, len, never, NULL, &error));
        FAILS(CANTLE_INVALID_ARGUMENT, cantle_get_many(db, NULL, NULL, len, never, NULL, &error));
        FAILS(CANTLE_INVALID_ARGUMENT, cantle_transaction_get_many(tx, NULL, keys, 2, never, NULL, &error));
        FAILS(CANTLE_INVALID_ARGUMENT, cantle_transaction_get_many(tx, NULL, keys, len, never, NULL, &error));
        FAILS(CANTLE_INVALID_ARGUMENT, cantle_batch_put(batch, NULL, "k", len, "v", 1, &error));
        FAILS(CANTLE_INVALID_ARGUMENT, cantle_batch_put(batch, NULL, "k", 1, "v", len, &error));
        FAILS(CANTLE_INVALID_ARGUMENT, cantle_batch_delete(batch, NULL, "k", len, &error));
        FAILS(CANTLE_INVALID_ARGUMENT, cantle_transaction_put(tx, NULL, "k", len, "v", 1, &error));
        FAILS(CANTLE_INVALID_ARGUMENT, cantle_transaction_put(tx, NULL, "k", 1, "v", len, &error));
        FAILS(CANTLE_INVALID_ARGUMENT, cantle_transaction_delete(tx, NULL, "k", len, &error));
        FAILS(CANTLE_INVALID_ARGUMENT, cantle_transaction_get(tx, NULL, "k", len, &value, NULL, &error));
        FAILS(CANTLE_INVALID_ARGUMENT, cantle_keyspace_set_metadata(keyspace, "m", len, &error));
        NOTHING(CANTLE_INVALID_ARGUMENT, cantle_iterator_seek(it, "k", len, &slice, NULL, &error));
        for (size_t r = 0; r < sizeof ranges / sizeof *ranges; r++) {
            FAILS(CANTLE_INVALID_ARGUMENT, cantle_delete_range(db, NULL, &ranges[r], &error));
            FAILS(CANTLE_INVALID_ARGUMENT, cantle_compact_range(db, NULL, &ranges[r], &error));
            FAILS(CANTLE_INVALID_ARGUMENT, cantle_approximate_bytes(db, NULL, &ranges[r], &bytes, &error));
            FAILS(CANTLE_INVALID_ARGUMENT, cantle_batch_delete_range(batch, NULL, &ranges[r], &error));
            FAILS(CANTLE_INVALID_ARGUMENT, cantle_transaction_delete_range(tx, NULL, &ranges[r], &error));
            NOTHING(CANTLE_INVALID_ARGUMENT, cantle_iterator_new(db, NULL, &ranges[r], &error));
        }
    }
    CHECK(cantle_batch_count(batch) == 0);
    CHECK(cantle_batch_free(batch) == CANTLE_OK && cantle_iterator_free(it) == CANTLE_OK);
    CHECK(cantle_transaction_rollback(tx) == CANTLE_OK && cantle_keyspace_free(keyspace) == CANTLE_OK);
}

static void options(const char *directory) {
    const char *path = below(directory, "never");
    cantle_options *options = cantle_options_new();
    CHECK(cantle_options_durability(options, CANTLE_SYNC) == CANTLE_OK);
    CHECK(cantle_options_durability(options, 9) == CANTLE_INVALID_ARGUMENT);
    NOTHING(CANTLE_INVALID_ARGUMENT, cantle_open(path, options, &error));
    CHECK(cantle_options_free(options) == CANTLE_OK);
    NOTHING(CANTLE_INVALID_ARGUMENT, cantle_open(path, options, &error));
    /* Who sets something where nothing is must learn of it: to open without options takes the defaults. */
    CHECK(cantle_options_memory_budget(options, 1) == CANTLE_INVALID_ARGUMENT);
    CHECK(cantle_options_memory_budget(NULL, 1 << 20) == CANTLE_INVALID_ARGUMENT);
    CHECK(cantle_options_read_only((cantle_options *)the_db, true) == CANTLE_INVALID_ARGUMENT);
    CHECK(cantle_keyspace_options_layout(NULL, "chunk") == CANTLE_INVALID_ARGUMENT);

    options = cantle_options_new();
    cantle_keyspace_options *keyspace = cantle_keyspace_options_new();
    CHECK(cantle_keyspace_options_compression(keyspace, 7, 0) == CANTLE_INVALID_ARGUMENT);
    CHECK(cantle_options_default_keyspace(options, keyspace) == CANTLE_INVALID_ARGUMENT);
    NOTHING(CANTLE_INVALID_ARGUMENT, cantle_open(path, options, &error));
    CHECK(cantle_options_free(options) == CANTLE_OK && cantle_keyspace_options_free(keyspace) == CANTLE_OK);
    keyspace = cantle_keyspace_options_new();
    CHECK(cantle_keyspace_options_layout(keyspace, "chunk:chunk_bytes=1") == CANTLE_OK); /* told when it is read */
    NOTHING(CANTLE_INVALID_ARGUMENT, cantle_keyspace_open(the_db, "odd", keyspace, &error));
    CHECK(cantle_keyspace_options_free(keyspace) == CANTLE_OK);
    options = cantle_options_new();
    CHECK(cantle_options_comparator(options, NULL) == CANTLE_INVALID_ARGUMENT);
    NOTHING(CANTLE_INVALID_ARGUMENT, cantle_open(path, options, &error));
    CHECK(cantle_options_free(options) == CANTLE_OK);

    cantle_range range = cantle_range_between("a", 1, "b", 1);
    range.end.kind = CANTLE_PREFIX;
    NOTHING(CANTLE_INVALID_ARGUMENT, cantle_iterator_new(the_db, NULL, &range, &error));
    range.end.kind = 77;
    FAILS(CANTLE_INVALID_ARGUMENT, cantle_delete_range(the_db, NULL, &range, &error));
    range = cantle_range_prefix(NULL, 4);
    FAILS(CANTLE_INVALID_ARGUMENT, cantle_compact_range(the_db, NULL, &range, &error));
}

/* In a callback that must not write, a callback of a read must not either. */
static void try_to_write(void *user, size_t number, cantle_status status, const char *value, size_t value_len,
                         const cantle_error *error) {
    (void)number, (void)value, (void)value_len, (void)error;
    CHECK(status == CANTLE_OK);
    FAILS(CANTLE_INVALID_ARGUMENT, cantle_put(the_db, NULL, "k", 1, "v", 1, &error));
    ++*(int *)user;
}

static const char *meddle(void *user, const char *old_value, size_t old_len, size_t *new_len) {
    cantle_batch *batch = (cantle_batch *)user;
    (void)old_value, (void)old_len;
    char *value;
    OK(cantle_get(the_db, NULL, "k", 1, &value, NULL, &error));
    cantle_free(value);
    int calls = 0;
    cantle_slice keys[] = {{"k", 1}, {"key", 3}};
    OK(cantle_get_many(the_db, NULL, keys, 2, try_to_write, &calls, &error));
    CHECK(calls == 2);
    FAILS(CANTLE_INVALID_ARGUMENT, cantle_put(the_db, NULL, "k", 1, "v", 1, &error));
    FAILS(CANTLE_INVALID_ARGUMENT, cantle_delete(the_db, NULL, "k", 1, &error));
    FAILS(CANTLE_INVALID_ARGUMENT, cantle_delete_range(the_db, NULL, NULL, &error));
    FAILS(CANTLE_INVALID_ARGUMENT, cantle_write(the_db, batch, CANTLE_DEFAULT, &error));
    FAILS(CANTLE_INVALID_ARGUMENT, cantle_update(the_db, NULL, "k", 1, meddle, NULL, NULL, NULL, &error));
    FAILS(CANTLE_INVALID_ARGUMENT, cantle_sync(the_db, &error));
    FAILS(CANTLE_INVALID_ARGUMENT, cantle_compact_range(the_db, NULL, NULL, &error));
    FAILS(CANTLE_INVALID_ARGUMENT, cantle_backup(the_db, "nowhere", &error));
    FAILS(CANTLE_INVALID_ARGUMENT, cantle_keyspace_drop(the_db, "k", &error));
    NOTHING(CANTLE_INVALID_ARGUMENT, cantle_keyspace_open(the_db, "k", NULL, &error));
    FAILS(CANTLE_INVALID_ARGUMENT, cantle_transact(the_db, NULL, NULL, &error));
    FAILS(CANTLE_INVALID_ARGUMENT, cantle_close(the_db, &error));
    *new_len = 3;
    return "new";
}

static int order(void *user, const char *a, size_t a_len, const char *b, size_t b_len) {
    (void)user, (void)a, (void)a_len, (void)b, (void)b_len;
    return 0;
}

/* Under the name of the order without a comparator, keys would be looked for in another order than they lie. */
static void reserved_name(void) {
    NOTHING(CANTLE_INVALID_ARGUMENT,
            cantle_comparator_new("cantle.bytewise", NULL, order, NULL, true, NULL, &error));
    NOTHING(CANTLE_INVALID_ARGUMENT, cantle_comparator_new("", NULL, order, NULL, true, NULL, &error));
}

/* A handle that is freed as memory is neither, and goes on. */
static void freed_as_memory(void) {
    cantle_key *key = cantle_key_new();
    cantle_free(key);
    CHECK(cantle_key_free(key) == CANTLE_OK);
    cantle_free(key);
}

static const char *impossible(void *user, const char *old_value, size_t old_len, size_t *new_len) {
    (void)user, (void)old_value, (void)old_len;
    *new_len = SIZE_MAX;
    return "x";
}

int main(int argc, char **argv) {
    begin(argc);
    cantle_db *db;
    SOME(db, cantle_open(below(argv[1], "store"), NULL, &error));
    the_db = db;
    nulls(db);
    freed_and_foreign_handles(db, argv[1]);
    too_large(db);
    impossible_lengths(db);
    options(argv[1]);
    reserved_name();
    freed_as_memory();
    cantle_batch *batch = cantle_batch_new();
    OK(cantle_update(db, NULL, "key", 3, meddle, batch, NULL, NULL, &error));
    CHECK(has(db, NULL, "key", "new"));
    /* What fails writes nothing, not even the old value: nobody conflicts with it. */
    cantle_transaction *tx;
    char *value;
    SOME(tx, cantle_transaction_new(db, &error));
    OK(cantle_transaction_get(tx, NULL, "key", 3, &value, NULL, &error));
    cantle_free(value);
    FAILS(CANTLE_INVALID_ARGUMENT, cantle_update(db, NULL, "key", 3, impossible, NULL, NULL, NULL, &error));
    CHECK(has(db, NULL, "key", "new"));
    OK(cantle_transaction_put(tx, NULL, "other", 5, "1", 1, &error));
    OK(cantle_transaction_commit(tx, CANTLE_DEFAULT, &error));
    /* The thread may write again. */
    put(db, NULL, "key", "newer");

    /* Handles of a store that is closed. */
    cantle_snapshot *snapshot;
    cantle_iterator *it;
    cantle_slice key;
    bool found;
    SOME(snapshot, cantle_snapshot_new(db, &error));
    SOME(it, cantle_iterator_new(db, NULL, NULL, &error));
    OK(cantle_close(db, &error));
    FAILS(CANTLE_INVALID_ARGUMENT, cantle_put(db, NULL, "k", 1, "v", 1, &error));
    FAILS(CANTLE_CLOSED, cantle_snapshot_contains(snapshot, NULL, "k", 1, &found, &error));
    NOTHING(CANTLE_CLOSED, cantle_iterator_next(it, &key, NULL, &error));
    CHECK(cantle_iterator_status(it) == CANTLE_CLOSED && !cantle_iterator_pair(it, &key, NULL));
    CHECK(cantle_snapshot_free(snapshot) == CANTLE_OK && cantle_iterator_free(it) == CANTLE_OK);
    CHECK(cantle_batch_free(batch) == CANTLE_OK);
    return 0;
}
