/* Many threads at once: on one store, on handles that others free, on one iterator, and on a store that is closed meanwhile. */
#include "check.h"
#include <pthread.h>
#include <stdatomic.h>

enum { THREADS = 4, ROUNDS = 2000 };

static void all(void *(*run)(void *), void (*meanwhile)(void));

static cantle_db *db;
static cantle_iterator *iterator;
static _Atomic(cantle_snapshot *) snapshots[8];
static atomic_int freed, made, busy, moved;

static const char *count_up(void *user, const char *old_value, size_t old_len, size_t *new_len) {
    char *buffer = user, digits[16];
    snprintf(digits, sizeof digits, "%.*s", (int)old_len, old_value == NULL ? "" : old_value);
    *new_len = (size_t)snprintf(buffer, 16, "%d", atoi(digits) + 1);
    return buffer;
}

static int transact_up(void *user, cantle_transaction *tx, cantle_error **error) {
    char *old, next[16];
    (void)user;
    int status = (int)cantle_transaction_get(tx, NULL, "t", 1, &old, NULL, error);
    if (status != CANTLE_OK) return status;
    int len = snprintf(next, sizeof next, "%d", old == NULL ? 1 : atoi(old) + 1);
    cantle_free(old);
    return (int)cantle_transaction_put(tx, NULL, "t", 1, next, (size_t)len, error);
}

static void *count(void *argument) {
    (void)argument;
    for (int i = 0; i < ROUNDS; i++) {
        char buffer[16];
        OK(cantle_update(db, NULL, "n", 1, count_up, buffer, NULL, NULL, &error));
        if (i % 10 == 0) OK(cantle_transact(db, transact_up, NULL, &error));
    }
    return NULL;
}

/* Every key is read, or else the store was closed. */
static void is_read_or_closed(void *user, size_t number, cantle_status status, const char *value, size_t value_len,
                              const cantle_error *error) {
    (void)number, (void)value_len, (void)error;
    CHECK((status == CANTLE_OK && value != NULL) || (status == CANTLE_CLOSED && value == NULL));
    ++*(int *)user;
}

/* Each snapshot is freed by one of those that try to. */
static void *free_each_other_s(void *argument) {
    unsigned seed = (unsigned)(uintptr_t)argument;
    for (int i = 0; i < ROUNDS; i++) {
        cantle_snapshot *snapshot;
        bool found;
        SOME(snapshot, cantle_snapshot_new(db, &error));
        made++;
        cantle_snapshot *other = atomic_exchange(&snapshots[(seed + (unsigned)i * 5) % 8], snapshot);
        cantle_status status = cantle_snapshot_contains(snapshot, NULL, "n", 1, &found, NULL);
        CHECK(status == CANTLE_OK || status == CANTLE_INVALID_ARGUMENT);
        int calls = 0;
        const cantle_slice keys[] = {{"n", 1}, {"t", 1}};
        status = cantle_snapshot_get_many(snapshot, NULL, keys, 2, is_read_or_closed, &calls, NULL);
        CHECK(status == CANTLE_OK ? calls == 2 : status == CANTLE_INVALID_ARGUMENT && calls == 0);
        cantle_snapshot *third = snapshots[(unsigned)i % 8];
        if (i % 3 == 0) freed += cantle_snapshot_free(third) == CANTLE_OK && third != NULL;
        freed += cantle_snapshot_free(other) == CANTLE_OK && other != NULL;
    }
    return NULL;
}

static void *move(void *argument) {
    (void)argument;
    for (int i = 0; i < ROUNDS; i++) {
        cantle_error *error = NULL;
        cantle_iterator_first(iterator, NULL, NULL, &error);
        if (error == NULL) moved++;
        else if (cantle_error_status(error) == CANTLE_INVALID_ARGUMENT) busy++;
        else CHECK(0);
        cantle_error_free(error);
    }
    return NULL;
}

static void *use_until_closed(void *argument) {
    (void)argument;
    const cantle_slice keys[] = {{"n", 1}, {"t", 1}, {"n", 1}};
    for (;;) {
        bool found;
        int calls = 0;
        cantle_status many = cantle_get_many(db, NULL, keys, 3, is_read_or_closed, &calls, NULL);
        CHECK(many == CANTLE_OK || many == CANTLE_CLOSED || many == CANTLE_INVALID_ARGUMENT);
        CHECK(calls == (many == CANTLE_INVALID_ARGUMENT ? 0 : 3));
        cantle_status read = cantle_contains(db, NULL, "n", 1, &found, NULL);
        cantle_status written = cantle_put(db, NULL, "n", 1, "v", 1, NULL);
        if (read == CANTLE_INVALID_ARGUMENT) return NULL; /* the handle is gone */
        CHECK(read == CANTLE_OK || read == CANTLE_CLOSED);
        CHECK(written == CANTLE_OK || written == CANTLE_CLOSED || written == CANTLE_INVALID_ARGUMENT);
    }
}

static cantle_batch *batch;
static cantle_key *parts;
static cantle_transaction *transaction;
static atomic_int appended, added, stored;

/* On one batch, key and transaction, which are for one thread at a time: who comes in between is told, and does nothing. */
static void *share(void *argument) {
    char key[16];
    for (int i = 0; i < ROUNDS; i++) {
        int len = snprintf(key, sizeof key, "s%d-%d", (int)(uintptr_t)argument, i);
        cantle_status status = cantle_batch_put(batch, NULL, key, (size_t)len, "v", 1, NULL);
        CHECK(status == CANTLE_OK || status == CANTLE_INVALID_ARGUMENT);
        added += status == CANTLE_OK;
        status = cantle_key_int(parts, i, NULL);
        CHECK(status == CANTLE_OK || status == CANTLE_INVALID_ARGUMENT);
        appended += status == CANTLE_OK;
        status = cantle_transaction_put(transaction, NULL, key, (size_t)len, "v", 1, NULL);
        CHECK(status == CANTLE_OK || status == CANTLE_INVALID_ARGUMENT);
        stored += status == CANTLE_OK;
    }
    return NULL;
}

static void on_one_object(void) {
    uint64_t keys = 0;
    cantle_iterator *it;
    cantle_range range = cantle_range_prefix("s", 1);
    batch = cantle_batch_new();
    parts = cantle_key_new();
    SOME(transaction, cantle_transaction_new(db, &error));
    all(share, NULL);
    CHECK(added > 0 && cantle_batch_count(batch) == (size_t)added);
    CHECK(appended > 0 && cantle_key_count(parts) == (size_t)appended);
    CHECK(stored > 0);
    OK(cantle_transaction_commit(transaction, CANTLE_DEFAULT, &error));
    SOME(it, cantle_iterator_new(db, NULL, &range, &error));
    while (cantle_iterator_next(it, NULL, NULL, NULL)) keys++;
    CHECK(keys == (uint64_t)stored);
    CHECK(cantle_iterator_free(it) == CANTLE_OK && cantle_batch_free(batch) == CANTLE_OK);
    CHECK(cantle_key_free(parts) == CANTLE_OK);
}

static atomic_int inside;

/* Until the handles are gone. What a call makes of it is one of three things, and no crash. */
static void *walk_until_freed(void *argument) {
    for (int ended = 0; ended < 2; inside++) {
        cantle_error *error = NULL;
        char *value = NULL;
        ended = 0;
        cantle_slice key;
        if ((uintptr_t)argument == 0) {
            /* The one that walks may read what it is lent: nobody frees the iterator but the main thread, which waits. */
            while (cantle_iterator_next(iterator, &key, NULL, &error)) {}
            cantle_status status = cantle_error_status(error);
            CHECK(status == CANTLE_OK || status == CANTLE_CLOSED || status == CANTLE_INVALID_ARGUMENT);
            ended += status == CANTLE_INVALID_ARGUMENT;
            cantle_error_free(error);
            error = NULL;
            cantle_iterator_first(iterator, NULL, NULL, NULL);
        } else {
            ended++;
        }
        cantle_status status = cantle_transaction_get(transaction, NULL, "n", 1, &value, NULL, &error);
        CHECK(status == CANTLE_OK || status == CANTLE_CLOSED || status == CANTLE_INVALID_ARGUMENT);
        ended += status == CANTLE_INVALID_ARGUMENT;
        cantle_free(value);
        cantle_error_free(error);
    }
    return NULL;
}

static void close_and_free(void) {
    while (inside < 50) {}
    OK(cantle_close(db, &error));
    for (int before = inside; inside < before + 50;) {}
    CHECK(cantle_iterator_free(iterator) == CANTLE_OK);
    CHECK(cantle_transaction_rollback(transaction) == CANTLE_OK);
}

static void close_while_others_are_inside(const char *path) {
    cantle_iterator *kept;
    cantle_slice key, value;
    char digits[16] = "";
    SOME(kept, cantle_iterator_new(db, NULL, NULL, &error));
    CHECK(cantle_iterator_seek(kept, "n", 1, &key, &value, NULL) && value.len < sizeof digits);
    memcpy(digits, value.data, value.len);
    SOME(iterator, cantle_iterator_new(db, NULL, NULL, &error));
    SOME(transaction, cantle_transaction_new(db, &error));
    all(walk_until_freed, close_and_free);
    /* What an iterator lent stays until it moves or goes, also after the store was closed. */
    CHECK(is(key, "n") && is(value, digits));
    NOTHING(CANTLE_CLOSED, cantle_iterator_next(kept, &key, NULL, &error));
    CHECK(cantle_iterator_free(kept) == CANTLE_OK);
    SOME(db, cantle_open(path, NULL, &error));
}

static void all(void *(*run)(void *), void (*meanwhile)(void)) {
    pthread_t threads[THREADS];
    for (uintptr_t i = 0; i < THREADS; i++) CHECK(pthread_create(&threads[i], NULL, run, (void *)i) == 0);
    if (meanwhile != NULL) meanwhile();
    for (int i = 0; i < THREADS; i++) CHECK(pthread_join(threads[i], NULL) == 0);
}

static void close_it(void) { OK(cantle_close(db, &error)); }

int main(int argc, char **argv) {
    begin(argc);
    char expected[16];
    SOME(db, cantle_open(below(argv[1], "store"), NULL, &error));
    all(count, NULL);
    snprintf(expected, sizeof expected, "%d", THREADS * ROUNDS);
    CHECK(has(db, NULL, "n", expected));
    snprintf(expected, sizeof expected, "%d", THREADS * ROUNDS / 10);
    CHECK(has(db, NULL, "t", expected));

    all(free_each_other_s, NULL);
    for (int i = 0; i < 8; i++)
        freed += cantle_snapshot_free(snapshots[i]) == CANTLE_OK && snapshots[i] != NULL;
    CHECK(freed == made && made == THREADS * ROUNDS);
    uint64_t open_snapshots;
    OK(cantle_stat(db, "open_snapshots", &open_snapshots, &error));
    CHECK(open_snapshots == 0);

    SOME(iterator, cantle_iterator_new(db, NULL, NULL, &error));
    all(move, NULL);
    CHECK(moved > 0 && moved + busy == THREADS * ROUNDS);
    CHECK(cantle_iterator_free(iterator) == CANTLE_OK);

    on_one_object();
    close_while_others_are_inside(below(argv[1], "store"));
    all(use_until_closed, close_it);
    SOME(db, cantle_open(below(argv[1], "store"), NULL, &error));
    close_it();
    return 0;
}
