/* Gets of many keys: values, absent keys and errors of each, as of one moment, and callbacks that call the library. */
#include "check.h"
#include <pthread.h>

enum { PAIRS = 3000, STEP = 30, WANTED = PAIRS / STEP + 2 };

static cantle_db *db;

/* Results by the number of the key. */
struct results {
    size_t count; /* how many there are to be */
    size_t received;
    bool was[WANTED];
    cantle_status status[WANTED];
    char value[WANTED][32]; /* "none" for an absent key */
};

static void receive(void *user, size_t number, cantle_status status, const char *value, size_t value_len,
                    const cantle_error *error) {
    struct results *results = user;
    CHECK(number < results->count && !results->was[number]);
    results->was[number] = true;
    results->received++;
    results->status[number] = status;
    CHECK(cantle_error_status(error) == status && (error == NULL) == (status == CANTLE_OK));
    CHECK(value != NULL || value_len == 0);
    if (status != CANTLE_OK) CHECK(value == NULL && strlen(cantle_error_message(error)) > 10);
    CHECK(value_len < sizeof results->value[0]);
    snprintf(results->value[number], sizeof results->value[0], "%.*s", (int)value_len, value == NULL ? "" : value);
    if (value == NULL) snprintf(results->value[number], sizeof results->value[0], "none");
}

/* The values in the order of the keys, joined by blanks, once each key had its turn. */
static const char *values(const struct results *results) {
    static char text[4096];
    size_t at = 0;
    CHECK(results->received == results->count);
    text[0] = 0;
    for (size_t i = 0; i < results->count; i++)
        at += (size_t)snprintf(text + at, sizeof text - at, "%s%s", i ? " " : "", results->value[i]);
    return text;
}

static cantle_slice slice(const char *text) {
    cantle_slice slice = {text, strlen(text)};
    return slice;
}

static void in_stores_and_keyspaces(void) {
    cantle_keyspace *other;
    cantle_slice keys[] = {slice("b"), slice("absent"), slice("a"), {NULL, 0}, slice("b"), slice("empty")};
    put(db, NULL, "a", "1");
    put(db, NULL, "b", "2");
    put(db, NULL, "empty", "");
    put(db, NULL, "", "nothing");
    struct results first = {.count = 6};
    OK(cantle_get_many(db, NULL, keys, 6, receive, &first, &error));
    CHECK(strcmp(values(&first), "2 none 1 nothing 2 ") == 0);
    SOME(other, cantle_keyspace_open(db, "other", NULL, &error));
    put(db, other, "a", "other's");
    struct results second = {.count = 3};
    OK(cantle_get_many(db, other, keys, 3, receive, &second, &error));
    CHECK(strcmp(values(&second), "none none other's") == 0);
    struct results third = {.count = 0};
    OK(cantle_get_many(db, other, keys, 0, receive, &third, &error));
    OK(cantle_get_many(db, NULL, NULL, 0, receive, NULL, NULL));
    CHECK(third.received == 0);

    cantle_snapshot *snapshot;
    SOME(snapshot, cantle_snapshot_new(db, &error));
    put(db, NULL, "a", "later");
    OK(cantle_keyspace_drop(db, "other", &error));
    struct results before = {.count = 3}, dropped = {.count = 3}, refused = {.count = 3};
    OK(cantle_snapshot_get_many(snapshot, NULL, keys, 3, receive, &before, &error));
    CHECK(strcmp(values(&before), "2 none 1") == 0);
    OK(cantle_snapshot_get_many(snapshot, other, keys, 3, receive, &dropped, &error));
    CHECK(strcmp(values(&dropped), "none none other's") == 0);
    FAILS(CANTLE_NO_KEYSPACE, cantle_get_many(db, other, keys, 3, receive, &refused, &error));
    for (size_t i = 0; i < 3; i++) CHECK(refused.was[i] && refused.status[i] == CANTLE_NO_KEYSPACE);
    CHECK(cantle_snapshot_free(snapshot) == CANTLE_OK && cantle_keyspace_free(other) == CANTLE_OK);
}

struct overwriting {
    struct results results;
    cantle_transaction *tx;
    const cantle_slice *keys;
};

static void overwrite(void *user, size_t number, cantle_status status, const char *value, size_t value_len,
                      const cantle_error *error) {
    struct overwriting *overwriting = user;
    receive(&overwriting->results, number, status, value, value_len, error);
    for (size_t i = 0; i < overwriting->results.count; i++)
        OK(cantle_transaction_put(overwriting->tx, NULL, overwriting->keys[i].data, 2, "new", 3, &error));
}

static void in_transactions(void) {
    cantle_transaction *tx;
    cantle_slice keys[] = {slice("t1"), slice("t2"), slice("t3"), slice("t4")};
    put(db, NULL, "t1", "1");
    put(db, NULL, "t2", "2");
    SOME(tx, cantle_transaction_new(db, &error));
    OK(cantle_transaction_put(tx, NULL, "t3", 2, "own", 3, &error));
    OK(cantle_transaction_delete(tx, NULL, "t2", 2, &error));
    struct results first = {.count = 4};
    OK(cantle_transaction_get_many(tx, NULL, keys, 4, receive, &first, &error));
    CHECK(strcmp(values(&first), "1 none own none") == 0);
    struct overwriting overwriting = {.results = {.count = 4}, .tx = tx, .keys = keys};
    OK(cantle_transaction_get_many(tx, NULL, keys, 4, overwrite, &overwriting, &error));
    CHECK(strcmp(values(&overwriting.results), "1 none own none") == 0);
    struct results again = {.count = 4};
    OK(cantle_transaction_get_many(tx, NULL, keys, 4, receive, &again, &error));
    CHECK(strcmp(values(&again), "new new new new") == 0);
    /* A key that was absent counts as read, too. */
    put(db, NULL, "t4", "faster");
    FAILS(CANTLE_CONFLICT, cantle_transaction_commit(tx, CANTLE_DEFAULT, &error));

    cantle_keyspace *other;
    SOME(other, cantle_keyspace_open(db, "of transactions", NULL, &error));
    put(db, other, "t2", "2");
    SOME(tx, cantle_transaction_new(db, &error));
    struct results second = {.count = 2};
    OK(cantle_transaction_get_many(tx, other, keys, 2, receive, &second, &error));
    CHECK(strcmp(values(&second), "none 2") == 0);
    put(db, NULL, "t1", "not read");
    OK(cantle_transaction_put(tx, NULL, "t5", 2, "5", 1, &error));
    OK(cantle_transaction_commit(tx, CANTLE_DEFAULT, &error));
    CHECK(has(db, NULL, "t5", "5"));
    CHECK(cantle_keyspace_free(other) == CANTLE_OK);
}

/* From files: a store that was opened again has nothing in its caches. */
static void from_disk(const char *path, const char *other) {
    static char text[WANTED][16];
    static struct results results = {.count = WANTED};
    cantle_slice keys[WANTED];
    uint64_t by_ring, by_hints;
    cantle_keyspace_options *keyspace = cantle_keyspace_options_new();
    cantle_options *options = cantle_options_new();
    OK(cantle_close(db, &error));
    CHECK(cantle_keyspace_options_layout(keyspace, "chunk:munks=false") == CANTLE_OK);
    CHECK(cantle_options_default_keyspace(options, keyspace) == CANTLE_OK);
    SOME(db, cantle_open(other, options, &error));
    for (int i = 0; i < PAIRS; i++) {
        char key[16], value[16];
        snprintf(key, sizeof key, "key%05d", i);
        snprintf(value, sizeof value, "%d", i);
        put(db, NULL, key, value);
    }
    OK(cantle_compact_range(db, NULL, NULL, &error));
    OK(cantle_close(db, &error));
    SOME(db, cantle_open(other, options, &error));
    /* Backwards, one that is absent, and one twice. */
    for (int i = 0; i < WANTED; i++) {
        snprintf(text[i], sizeof text[i], "key%05d", i == WANTED - 1 ? STEP : PAIRS - i * STEP);
        keys[i] = slice(text[i]);
    }
    OK(cantle_get_many(db, NULL, keys, WANTED, receive, &results, &error));
    CHECK(results.received == WANTED && strcmp(results.value[0], "none") == 0);
    OK(cantle_stat(db, "reads_by_io_uring", &by_ring, &error));
    OK(cantle_stat(db, "reads_by_hints", &by_hints, &error));
    CHECK(by_ring + by_hints > 0);
    for (int i = 1; i < WANTED; i++)
        CHECK(atoi(results.value[i]) == atoi(text[i] + 3) && has(db, NULL, text[i], results.value[i]));
    OK(cantle_close(db, &error));
    SOME(db, cantle_open(path, NULL, &error));
    CHECK(cantle_options_free(options) == CANTLE_OK && cantle_keyspace_options_free(keyspace) == CANTLE_OK);
}

struct meddling {
    struct results results;
    cantle_snapshot *snapshot;
    cantle_transaction *tx;
    const cantle_slice *keys;
};

/* Writes all keys, and reads them in every way. */
static void meddle(void *user, size_t number, cantle_status status, const char *value, size_t value_len,
                   const cantle_error *error) {
    struct meddling *meddling = user;
    receive(&meddling->results, number, status, value, value_len, error);
    for (size_t i = 0; i < meddling->results.count; i++)
        OK(cantle_put(db, NULL, meddling->keys[i].data, meddling->keys[i].len, "new", 3, &error));
    struct results inner = {.count = 2}, older = {.count = 2};
    OK(cantle_get_many(db, NULL, meddling->keys, 2, receive, &inner, &error));
    CHECK(strcmp(values(&inner), "new new") == 0);
    if (meddling->snapshot != NULL) {
        OK(cantle_snapshot_get_many(meddling->snapshot, NULL, meddling->keys, 2, receive, &older, &error));
        CHECK(strcmp(values(&older), "old old") == 0);
    }
    if (meddling->tx != NULL) {
        OK(cantle_transaction_get_many(meddling->tx, NULL, meddling->keys, 2, receive, &older, &error));
        CHECK(strcmp(values(&older), "old old") == 0);
        OK(cantle_transaction_put(meddling->tx, NULL, "by a callback", 13, "1", 1, &error));
        /* Its end would wait for the read that this is a part of. */
        FAILS(CANTLE_INVALID_ARGUMENT, cantle_transaction_commit(meddling->tx, CANTLE_DEFAULT, &error));
        CHECK(cantle_transaction_rollback(meddling->tx) == CANTLE_INVALID_ARGUMENT);
        cantle_transaction *another;
        SOME(another, cantle_transaction_new(db, &error));
        OK(cantle_transaction_put(another, NULL, "by another", 10, "1", 1, &error));
        OK(cantle_transaction_commit(another, CANTLE_DEFAULT, &error));
    }
}

static void callbacks_that_call_the_library(void) {
    cantle_slice keys[] = {slice("m1"), slice("m2"), slice("m3")};
    struct meddling of_db = {.keys = keys}, of_snapshot = {.keys = keys}, of_tx = {.keys = keys};
    for (size_t i = 0; i < 3; i++) put(db, NULL, keys[i].data, "old");
    SOME(of_snapshot.snapshot, cantle_snapshot_new(db, &error));
    SOME(of_tx.tx, cantle_transaction_new(db, &error));
    of_db.results.count = of_snapshot.results.count = of_tx.results.count = 3;
    OK(cantle_get_many(db, NULL, keys, 3, meddle, &of_db, &error));
    CHECK(strcmp(values(&of_db.results), "old old old") == 0 && has(db, NULL, "m3", "new"));
    OK(cantle_snapshot_get_many(of_snapshot.snapshot, NULL, keys, 3, meddle, &of_snapshot, &error));
    CHECK(strcmp(values(&of_snapshot.results), "old old old") == 0);
    OK(cantle_transaction_get_many(of_tx.tx, NULL, keys, 3, meddle, &of_tx, &error));
    CHECK(strcmp(values(&of_tx.results), "old old old") == 0 && has(db, NULL, "by another", "1"));
    /* It is still there, and its keys have changed. */
    FAILS(CANTLE_CONFLICT, cantle_transaction_commit(of_tx.tx, CANTLE_DEFAULT, &error));
    CHECK(has(db, NULL, "by a callback", NULL));
    CHECK(cantle_snapshot_free(of_snapshot.snapshot) == CANTLE_OK);
}

static void *commit(void *tx) {
    OK(cantle_transaction_commit(tx, CANTLE_DEFAULT, &error));
    return NULL;
}

struct waiting {
    cantle_transaction *tx;
    pthread_t thread;
    int calls;
};

/* Another thread's commit waits for the read, and nobody else finds the transaction meanwhile. */
static void while_another_commits(void *user, size_t number, cantle_status status, const char *value,
                                  size_t value_len, const cantle_error *error) {
    struct waiting *waiting = user;
    bool found;
    (void)number, (void)value, (void)value_len, (void)error;
    CHECK(status == CANTLE_OK);
    if (waiting->calls++ > 0) return;
    CHECK(pthread_create(&waiting->thread, NULL, commit, waiting->tx) == 0);
    while (cantle_transaction_contains(waiting->tx, NULL, "k", 1, &found, NULL) == CANTLE_OK) {}
}

static void ended_meanwhile(void) {
    cantle_slice keys[] = {slice("w1"), slice("w2"), slice("w3")};
    struct waiting waiting = {.calls = 0};
    SOME(waiting.tx, cantle_transaction_new(db, &error));
    OK(cantle_transaction_put(waiting.tx, NULL, "w1", 2, "1", 1, &error));
    OK(cantle_transaction_get_many(waiting.tx, NULL, keys, 3, while_another_commits, &waiting, &error));
    CHECK(waiting.calls == 3 && pthread_join(waiting.thread, NULL) == 0);
    CHECK(has(db, NULL, "w1", "1"));
}

/* The kept error is of no use after the call. */
struct kept {
    const cantle_error *error;
    int calls;
};

static void keep(void *user, size_t number, cantle_status status, const char *value, size_t value_len,
                 const cantle_error *error) {
    struct kept *kept = user;
    (void)number, (void)value_len;
    CHECK(value == NULL && status == CANTLE_CLOSED && cantle_error_status(error) == CANTLE_CLOSED);
    kept->error = error;
    kept->calls++;
}

/* Frees what it is lent, against the rules. */
static void free_it(void *user, size_t number, cantle_status status, const char *value, size_t value_len,
                    const cantle_error *error) {
    (void)number, (void)value, (void)value_len;
    CHECK(status == CANTLE_CLOSED && cantle_error_free((cantle_error *)error) == CANTLE_OK);
    ++*(int *)user;
}

struct closing {
    int calls, read;
};

static void close_it(void *user, size_t number, cantle_status status, const char *value, size_t value_len,
                     const cantle_error *error) {
    struct closing *closing = user;
    (void)number, (void)error;
    CHECK(status == CANTLE_OK || status == CANTLE_CLOSED);
    if (closing->calls++ == 0) OK(cantle_close(db, &error));
    /* The value stays for the whole of the call. */
    if (status == CANTLE_OK) CHECK(value_len == 1 && value[0] == '1');
    closing->read += status == CANTLE_OK;
}

static void of_stores_that_are_closed(void) {
    cantle_slice keys[WANTED];
    cantle_snapshot *snapshot;
    cantle_transaction *tx;
    struct closing closing = {0, 0};
    struct kept kept = {NULL, 0};
    int frees = 0;
    for (int i = 0; i < WANTED; i++) keys[i] = slice("a");
    put(db, NULL, "a", "1");
    SOME(snapshot, cantle_snapshot_new(db, &error));
    SOME(tx, cantle_transaction_new(db, &error));
    /* Some may have been read together with the first. */
    FAILS(CANTLE_CLOSED, cantle_get_many(db, NULL, keys, WANTED, close_it, &closing, &error));
    CHECK(closing.calls == WANTED && closing.read > 0);
    FAILS(CANTLE_INVALID_ARGUMENT, cantle_get_many(db, NULL, keys, 3, keep, &kept, &error));
    CHECK(kept.calls == 0);
    FAILS(CANTLE_CLOSED, cantle_snapshot_get_many(snapshot, NULL, keys, 3, keep, &kept, &error));
    CHECK(kept.calls == 3 && cantle_error_status(kept.error) == CANTLE_INVALID_ARGUMENT);
    FAILS(CANTLE_CLOSED, cantle_transaction_get_many(tx, NULL, keys, 3, keep, &kept, &error));
    CHECK(kept.calls == 6 && cantle_error_path(kept.error) == NULL);
    CHECK(cantle_snapshot_get_many(snapshot, NULL, keys, 3, free_it, &frees, NULL) == CANTLE_CLOSED && frees == 3);
    CHECK(cantle_snapshot_free(snapshot) == CANTLE_OK && cantle_transaction_rollback(tx) == CANTLE_OK);
}

int main(int argc, char **argv) {
    begin(argc);
    const char *path = below(argv[1], "store");
    SOME(db, cantle_open(path, NULL, &error));
    in_stores_and_keyspaces();
    in_transactions();
    callbacks_that_call_the_library();
    ended_meanwhile();
    from_disk(path, below(argv[1], "files"));
    of_stores_that_are_closed();
    return 0;
}
