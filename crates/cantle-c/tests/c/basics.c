/* Pairs, ranges, iterators, batches, snapshots, keyspaces, opening and closing. */
#define _GNU_SOURCE
#include "check.h"
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *append_bar(void *user, const char *old_value, size_t old_len, size_t *new_len) {
    char *buffer = user;
    memcpy(buffer, old_value == NULL ? "" : old_value, old_len);
    buffer[old_len] = '|';
    *new_len = old_len + 1;
    return buffer;
}

static const char *delete_it(void *user, const char *old_value, size_t old_len, size_t *new_len) {
    (void)new_len;
    *(int *)user += old_value != NULL && old_len > 0;
    return NULL;
}

static void pairs(cantle_db *db) {
    CHECK(has(db, NULL, "absent", NULL));
    put(db, NULL, "a", "1");
    put(db, NULL, "a", "one");
    CHECK(has(db, NULL, "a", "one"));
    put(db, NULL, "empty", "");
    CHECK(has(db, NULL, "empty", ""));
    OK(cantle_put(db, NULL, NULL, 0, "\0x\0", 3, &error));
    char *value;
    size_t len;
    OK(cantle_get(db, NULL, NULL, 0, &value, &len, &error));
    CHECK(len == 3 && memcmp(value, "\0x\0", 4) == 0);
    cantle_free(value);
    OK(cantle_delete(db, NULL, NULL, 0, &error));

    char buffer[8] = "?????";
    bool found = false;
    OK(cantle_get_into(db, NULL, "a", 1, buffer, 2, &len, &found, &error));
    CHECK(found && len == 3 && strcmp(buffer, "on???") == 0);
    OK(cantle_get_into(db, NULL, "a", 1, NULL, 0, &len, &found, &error));
    CHECK(found && len == 3);
    OK(cantle_get_into(db, NULL, "b", 1, buffer, sizeof buffer, &len, &found, &error));
    CHECK(!found && len == 0);
    OK(cantle_contains(db, NULL, "a", 1, &found, &error));
    CHECK(found);
    OK(cantle_delete(db, NULL, "a", 1, &error));
    OK(cantle_contains(db, NULL, "a", 1, &found, &error));
    CHECK(!found);

    char bars[16];
    OK(cantle_update(db, NULL, "bars", 4, append_bar, bars, NULL, NULL, &error));
    OK(cantle_update(db, NULL, "bars", 4, append_bar, bars, &value, &len, &error));
    CHECK(len == 2 && strcmp(value, "||") == 0 && has(db, NULL, "bars", "||"));
    cantle_free(value);
    int calls = 0;
    OK(cantle_update(db, NULL, "bars", 4, delete_it, &calls, &value, &len, &error));
    CHECK(calls >= 1 && value == NULL && len == 0 && has(db, NULL, "bars", NULL));
    OK(cantle_delete_range(db, NULL, NULL, &error));
    CHECK(has(db, NULL, "empty", NULL));
}

static void iterators(cantle_db *db) {
    const char *keys[] = {"a1", "a2", "b1", "b2", "c"};
    cantle_iterator *it;
    cantle_slice key, value;
    cantle_error *none = NULL;
    for (size_t i = 0; i < 5; i++) put(db, NULL, keys[i], keys[4 - i]);
    SOME(it, cantle_iterator_new(db, NULL, NULL, &error));
    CHECK(strcmp(keys_of(it, false), "a1 a2 b1 b2 c") == 0);
    SOME(it, cantle_iterator_new(db, NULL, NULL, &error));
    CHECK(strcmp(keys_of(it, true), "c b2 b1 a2 a1") == 0);
    cantle_range range = cantle_range_between("a2", 2, "b2", 2);
    SOME(it, cantle_iterator_new(db, NULL, &range, &error));
    CHECK(strcmp(keys_of(it, true), "b1 a2") == 0);
    range = cantle_range_between("b2", 2, NULL, 0);
    SOME(it, cantle_iterator_new(db, NULL, &range, &error));
    CHECK(strcmp(keys_of(it, false), "b2 c") == 0);
    range.start.kind = CANTLE_EXCLUDED;
    range.end = range.start;
    range.end.kind = CANTLE_INCLUDED;
    range.end.key.data = "c";
    range.end.key.len = 1;
    SOME(it, cantle_iterator_new(db, NULL, &range, &error));
    CHECK(strcmp(keys_of(it, false), "c") == 0);
    range = cantle_range_prefix("b", 1);
    SOME(it, cantle_iterator_new(db, NULL, &range, &error));
    CHECK(strcmp(keys_of(it, false), "b1 b2") == 0);
    range = cantle_range_between("c", 1, "a", 1);
    SOME(it, cantle_iterator_new(db, NULL, &range, &error));
    CHECK(strcmp(keys_of(it, false), "") == 0);

    SOME(it, cantle_iterator_new(db, NULL, NULL, &error));
    CHECK(!cantle_iterator_pair(it, &key, &value) && key.data == NULL && value.data == NULL);
    CHECK(cantle_iterator_seek(it, "b", 1, &key, &value, &none) && is(key, "b1") && is(value, "b1"));
    CHECK(cantle_iterator_prev(it, &key, &value, &none) && is(key, "a2") && is(value, "b2"));
    CHECK(cantle_iterator_next(it, &key, NULL, &none) && is(key, "b1"));
    CHECK(cantle_iterator_last(it, &key, NULL, &none) && is(key, "c"));
    CHECK(cantle_iterator_pair(it, NULL, &value) && is(value, "a1"));
    CHECK(!cantle_iterator_next(it, &key, &value, &none) && none == NULL && key.data == NULL);
    CHECK(cantle_iterator_status(it) == CANTLE_OK && !cantle_iterator_pair(it, &key, NULL));
    CHECK(cantle_iterator_first(it, NULL, NULL, NULL) && cantle_iterator_pair(it, &key, NULL) && is(key, "a1"));
    CHECK(!cantle_iterator_seek(it, "d", 1, &key, NULL, &none) && none == NULL);
    /* It sees what was there when it was made. */
    put(db, NULL, "a0", "late");
    CHECK(cantle_iterator_first(it, &key, NULL, &none) && is(key, "a1"));
    CHECK(cantle_iterator_free(it) == CANTLE_OK);

    range = cantle_range_prefix("a", 1);
    OK(cantle_delete_range(db, NULL, &range, &error));
    SOME(it, cantle_iterator_new(db, NULL, NULL, &error));
    CHECK(strcmp(keys_of(it, false), "b1 b2 c") == 0);
    uint64_t bytes = 99;
    OK(cantle_approximate_bytes(db, NULL, NULL, &bytes, &error));
    CHECK(bytes > 0);
    OK(cantle_compact_range(db, NULL, NULL, &error));
}

static void batches(cantle_db *db) {
    cantle_keyspace *other, *again;
    SOME(other, cantle_keyspace_open(db, "other", NULL, &error));
    cantle_batch *batch = cantle_batch_new();
    cantle_range all = cantle_range_prefix("", 0);
    OK(cantle_batch_delete_range(batch, NULL, &all, &error));
    OK(cantle_batch_put(batch, NULL, "x", 1, "1", 1, &error));
    OK(cantle_batch_put(batch, other, "x", 1, "2", 1, &error));
    OK(cantle_batch_put(batch, other, "y", 1, NULL, 0, &error));
    OK(cantle_batch_delete(batch, other, "y", 1, &error));
    CHECK(cantle_batch_count(batch) == 5);
    CHECK(has(db, NULL, "x", NULL));
    OK(cantle_write(db, batch, CANTLE_SYNC, &error));
    CHECK(has(db, NULL, "x", "1") && has(db, other, "x", "2") && has(db, other, "y", NULL));
    CHECK(has(db, NULL, "c", NULL));
    OK(cantle_delete(db, other, "x", 1, &error));
    OK(cantle_write(db, batch, CANTLE_DEFAULT, &error));
    CHECK(has(db, other, "x", "2"));
    cantle_batch *twice = cantle_batch_new();
    OK(cantle_batch_put(twice, NULL, "w", 1, "0", 1, &error));
    OK(cantle_batch_append(twice, batch, &error));
    CHECK(cantle_batch_clear(batch) == CANTLE_OK && cantle_batch_count(batch) == 0);
    OK(cantle_batch_append(twice, twice, &error));
    CHECK(cantle_batch_count(twice) == 12);
    OK(cantle_batch_append(batch, twice, &error));
    CHECK(cantle_batch_free(twice) == CANTLE_OK && cantle_batch_count(batch) == 12);
    OK(cantle_delete(db, other, "x", 1, &error));
    OK(cantle_write(db, batch, CANTLE_DEFAULT, &error));
    /* The second range deletes what came before it. */
    CHECK(has(db, NULL, "w", NULL) && has(db, NULL, "x", "1") && has(db, other, "x", "2"));
    CHECK(cantle_batch_clear(batch) == CANTLE_OK && cantle_batch_count(batch) == 0);
    FAILS(CANTLE_INVALID_ARGUMENT, cantle_write(db, batch, 17, &error));
    CHECK(cantle_batch_free(batch) == CANTLE_OK);

    char *name, **names, *metadata;
    size_t count;
    SOME(name, cantle_keyspace_name(other, &error));
    CHECK(strcmp(name, "other") == 0);
    cantle_free(name);
    OK(cantle_keyspace_set_metadata(other, "m\0", 2, &error));
    SOME(metadata, cantle_keyspace_metadata(other, &count, &error));
    CHECK(count == 2 && memcmp(metadata, "m\0", 3) == 0);
    cantle_free(metadata);
    SOME(names, cantle_keyspaces(db, &count, &error));
    CHECK(count == 2 && strcmp(names[0], "default") == 0 && strcmp(names[1], "other") == 0 && names[2] == NULL);
    cantle_free(names);

    cantle_snapshot *before;
    SOME(before, cantle_snapshot_new(db, &error));
    OK(cantle_keyspace_drop(db, "other", &error));
    FAILS(CANTLE_NO_KEYSPACE, cantle_put(db, other, "x", 1, "1", 1, &error));
    SOME(again, cantle_keyspace_open(db, "other", NULL, &error));
    CHECK(has(db, again, "x", NULL));
    char *value;
    OK(cantle_snapshot_get(before, other, "x", 1, &value, NULL, &error));
    CHECK(strcmp(value, "2") == 0);
    cantle_free(value);
    CHECK(cantle_snapshot_free(before) == CANTLE_OK);
    CHECK(cantle_keyspace_free(other) == CANTLE_OK && cantle_keyspace_free(again) == CANTLE_OK);
}

static void snapshots(cantle_db *db) {
    cantle_snapshot *snapshot;
    cantle_iterator *it;
    char buffer[4] = "", *value;
    size_t len;
    bool found;
    SOME(snapshot, cantle_snapshot_new(db, &error));
    put(db, NULL, "x", "2");
    put(db, NULL, "z", "3");
    OK(cantle_snapshot_get(snapshot, NULL, "x", 1, &value, &len, &error));
    CHECK(len == 1 && strcmp(value, "1") == 0);
    cantle_free(value);
    OK(cantle_snapshot_get_into(snapshot, NULL, "x", 1, buffer, sizeof buffer, &len, &found, &error));
    CHECK(found && len == 1 && buffer[0] == '1');
    OK(cantle_snapshot_contains(snapshot, NULL, "z", 1, &found, &error));
    CHECK(!found);
    SOME(it, cantle_snapshot_iterator(snapshot, NULL, NULL, &error));
    CHECK(cantle_snapshot_free(snapshot) == CANTLE_OK);
    CHECK(strcmp(keys_of(it, false), "x") == 0);
}

static void beside_other_files(const char *path, const char *file) {
    cantle_db *db;
    cantle_options *options = cantle_options_new();
    CHECK(mkdir(path, 0777) == 0);
    FILE *other = fopen(file, "w");
    CHECK(other != NULL && fputs("not a store's", other) >= 0 && fclose(other) == 0);
    NOTHING(CANTLE_NOT_A_STORE, cantle_open(path, options, &error));
    CHECK(cantle_options_beside_other_files(options, true) == CANTLE_OK);
    SOME(db, cantle_open(path, options, &error));
    put(db, NULL, "a", "1");
    OK(cantle_close(db, &error));
    other = fopen(file, "r");
    CHECK(other != NULL && fgetc(other) == 'n' && fclose(other) == 0);
    CHECK(cantle_options_free(options) == CANTLE_OK);
}

/* Neither the file nor a handler of SIGBUS is made. */
static void without_write_buffer(const char *path, const char *file) {
    cantle_db *db;
    /* A sanitizer has one of its own. */
    struct sigaction before, after;
    cantle_options *options = cantle_options_new();
    CHECK(sigaction(SIGBUS, NULL, &before) == 0);
    CHECK(cantle_options_write_buffer(options, false) == CANTLE_OK);
    CHECK(cantle_options_io_uring(options, true) == CANTLE_OK);
    SOME(db, cantle_open(path, options, &error));
    for (int round = 0; round < 100; round++) put(db, NULL, "a", "1");
    CHECK(has(db, NULL, "a", "1") && access(file, F_OK) != 0);
    OK(cantle_close(db, &error));
    CHECK(sigaction(SIGBUS, NULL, &after) == 0 && after.sa_handler == before.sa_handler);
    CHECK(cantle_options_free(options) == CANTLE_OK);
}

int main(int argc, char **argv) {
    begin(argc);
    char version[32];
    snprintf(version, sizeof version, "%d.%d.%d", CANTLE_VERSION_MAJOR, CANTLE_VERSION_MINOR, CANTLE_VERSION_PATCH);
    CHECK(strcmp(cantle_version(), version) == 0);

    const char *path = below(argv[1], "store");
    cantle_db *db, *second = NULL;
    cantle_options *options = cantle_options_new();
    cantle_options_create_if_missing(options, false);
    NOTHING(CANTLE_NOT_FOUND, cantle_open(path, options, &error));
    cantle_options_create_if_missing(options, true);
    cantle_options_error_if_exists(options, true);
    cantle_options_memory_budget(options, 32 << 20);
    cantle_options_durability(options, CANTLE_BUFFERED);
    cantle_options_background_threads(options, 1);
    cantle_options_checkpoint_interval_ms(options, 1000);
    SOME(db, cantle_open(path, options, &error));
    uint64_t budget;
    OK(cantle_stat(db, "memory_budget", &budget, &error));
    CHECK(budget == 32 << 20);
    char *where;
    SOME(where, cantle_path(db, &error));
    CHECK(strcmp(where, path) == 0);
    cantle_free(where);
    cantle_error *locked = NULL;
    CHECK(cantle_open(path, NULL, &locked) == NULL && cantle_error_status(locked) == CANTLE_LOCKED);
    CHECK(strcmp(cantle_error_path(locked), path) == 0 && cantle_error_offset(locked) == -1);
    CHECK(cantle_error_free(locked) == CANTLE_OK);

    pairs(db);
    iterators(db);
    batches(db);
    snapshots(db);
    OK(cantle_sync(db, &error));
    OK(cantle_close(db, &error));

    NOTHING(CANTLE_ALREADY_EXISTS, cantle_open(path, options, &error));
    cantle_options_error_if_exists(options, false);
    cantle_options_read_only(options, true);
    SOME(db, cantle_open(path, options, &error));
    SOME(second, cantle_open(path, options, &error));
    CHECK(has(db, NULL, "x", "2") && has(second, NULL, "z", "3"));
    FAILS(CANTLE_READ_ONLY, cantle_put(db, NULL, "a", 1, "b", 1, &error));
    OK(cantle_close(db, &error));
    OK(cantle_close(second, &error));
    CHECK(cantle_options_free(options) == CANTLE_OK);
    without_write_buffer(below(argv[1], "unbuffered"), below(argv[1], "unbuffered/WRITE-BUFFER"));
    beside_other_files(below(argv[1], "beside"), below(argv[1], "beside/other"));
    return 0;
}
