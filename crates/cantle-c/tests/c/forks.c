/* A forked child must not touch its parent's store, and can open others. */
#define _DEFAULT_SOURCE
#include "check.h"
#include <sys/wait.h>
#include <unistd.h>

static cantle_db *shared;
static pid_t forked;

/* The child is ended, and so the test, if it waits for somebody who is not there. */
static void fork_for_a_while(void) {
    forked = fork();
    CHECK(forked >= 0);
    if (forked == 0) alarm(120);
}

/* Both processes return from it; only the parent's value may get into the store. */
static const char *fork_and_change(void *user, const char *old_value, size_t old_len, size_t *new_len) {
    (void)user, (void)old_value, (void)old_len;
    fork_for_a_while();
    *new_len = 6;
    return forked == 0 ? "child!" : "parent";
}

static int fork_and_put(void *user, cantle_transaction *tx, cantle_error **error) {
    (void)user, (void)error;
    OK(cantle_transaction_put(tx, NULL, "t", 1, "parent", 6, &error));
    fork_for_a_while();
    return CANTLE_OK;
}

/* The child has its first value and no other. */
static void fork_once(void *user, size_t number, cantle_status status, const char *value, size_t value_len,
                      const cantle_error *error) {
    (void)number, (void)value_len;
    CHECK(status == CANTLE_OK && value != NULL && error == NULL);
    if (++*(int *)user == 1) fork_for_a_while();
}

static void wait_for_child(void) {
    int status = 0;
    CHECK(waitpid(forked, &status, 0) == forked && WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void in_callback_of_read(cantle_status status, cantle_error *failed, int calls) {
    if (forked == 0) {
        CHECK(status == CANTLE_FORKED && cantle_error_status(failed) == CANTLE_FORKED && calls == 1);
        _exit(0);
    }
    CHECK(status == CANTLE_OK && failed == NULL && calls == 3);
    wait_for_child();
}

static void in_callbacks_of_reads(void) {
    const cantle_slice keys[] = {{"u", 1}, {"t", 1}, {"u", 1}};
    cantle_error *failed = NULL;
    cantle_snapshot *snapshot;
    cantle_transaction *tx;
    int calls = 0;
    cantle_status status = cantle_get_many(shared, NULL, keys, 3, fork_once, &calls, &failed);
    in_callback_of_read(status, failed, calls);
    SOME(snapshot, cantle_snapshot_new(shared, &error));
    calls = 0;
    status = cantle_snapshot_get_many(snapshot, NULL, keys, 3, fork_once, &calls, &failed);
    in_callback_of_read(status, failed, calls);
    CHECK(cantle_snapshot_free(snapshot) == CANTLE_OK);
    SOME(tx, cantle_transaction_new(shared, &error));
    OK(cantle_transaction_put(tx, NULL, "u", 1, "own", 3, &error));
    calls = 0;
    status = cantle_transaction_get_many(tx, NULL, keys, 3, fork_once, &calls, &failed);
    in_callback_of_read(status, failed, calls);
    CHECK(cantle_transaction_rollback(tx) == CANTLE_OK);
}

static void in_callbacks(const char *path) {
    cantle_error *failed = NULL;
    uint64_t writes, before;
    SOME(shared, cantle_open(path, NULL, &error));
    OK(cantle_stat(shared, "keyspaces.default.writes", &before, &error));
    cantle_status status = cantle_update(shared, NULL, "u", 1, fork_and_change, NULL, NULL, NULL, &failed);
    if (forked == 0) {
        CHECK(status == CANTLE_FORKED && cantle_error_status(failed) == CANTLE_FORKED);
        _exit(0);
    }
    CHECK(status == CANTLE_OK);
    wait_for_child();
    CHECK(has(shared, NULL, "u", "parent"));
    status = cantle_transact(shared, fork_and_put, NULL, &failed);
    if (forked == 0) {
        CHECK(status == CANTLE_FORKED && cantle_error_status(failed) == CANTLE_FORKED);
        _exit(0);
    }
    CHECK(status == CANTLE_OK);
    wait_for_child();
    OK(cantle_stat(shared, "keyspaces.default.writes", &writes, &error));
    CHECK(writes == before + 2 && has(shared, NULL, "t", "parent"));
    in_callbacks_of_reads();
    OK(cantle_close(shared, &error));
    /* What a child had written would have got into the log by its shared mapping or file. */
    SOME(shared, cantle_open(path, NULL, &error));
    CHECK(has(shared, NULL, "u", "parent") && has(shared, NULL, "t", "parent"));
    OK(cantle_close(shared, &error));
}

/* Children open stores of their own while the parent's is open, and its threads sleep. */
static void again_and_again(const char *directory) {
#ifdef __SANITIZE_ADDRESS__
    enum { ROUNDS = 10 };
#else
    enum { ROUNDS = 100 };
#endif
    SOME(shared, cantle_open(below(directory, "parent"), NULL, &error));
    put(shared, NULL, "k", "parent");
    for (int i = 0; i < ROUNDS; i++) {
        fork_for_a_while();
        if (forked == 0) {
            cantle_db *own;
            SOME(own, cantle_open(below(directory, "own"), NULL, &error));
            put(own, NULL, "k", "child");
            OK(cantle_sync(own, &error));
            CHECK(has(own, NULL, "k", "child"));
            OK(cantle_close(own, &error));
            _exit(0);
        }
        wait_for_child();
    }
    OK(cantle_close(shared, &error));
}

int main(int argc, char **argv) {
    begin(argc);
    cantle_db *db, *own;
    cantle_keyspace *keyspace;
    cantle_snapshot *snapshot;
    cantle_iterator *it;
    cantle_transaction *tx;
    cantle_slice key;
    char *value;
    bool found;
    uint64_t number;
    SOME(db, cantle_open(below(argv[1], "store"), NULL, &error));
    put(db, NULL, "k", "parent");
    SOME(keyspace, cantle_keyspace_open(db, "other", NULL, &error));
    SOME(snapshot, cantle_snapshot_new(db, &error));
    SOME(it, cantle_iterator_new(db, NULL, NULL, &error));
    SOME(tx, cantle_transaction_new(db, &error));
    cantle_batch *batch = cantle_batch_new();
    cantle_key *parts = cantle_key_new();
    OK(cantle_batch_put(batch, NULL, "k", 1, "batch", 5, &error));

    fork_for_a_while();
    if (forked == 0) {
        cantle_slice keys = {"k", 1};
        FAILS(CANTLE_FORKED, cantle_get(db, NULL, "k", 1, &value, NULL, &error));
        FAILS(CANTLE_FORKED, cantle_get_many(db, NULL, &keys, 1, fork_once, NULL, &error));
        FAILS(CANTLE_FORKED, cantle_snapshot_get_many(snapshot, NULL, &keys, 1, fork_once, NULL, &error));
        FAILS(CANTLE_FORKED, cantle_transaction_get_many(tx, NULL, &keys, 1, fork_once, NULL, &error));
        FAILS(CANTLE_FORKED, cantle_put(db, NULL, "k", 1, "child", 5, &error));
        FAILS(CANTLE_FORKED, cantle_keyspace_set_metadata(keyspace, "m", 1, &error));
        FAILS(CANTLE_FORKED, cantle_snapshot_contains(snapshot, NULL, "k", 1, &found, &error));
        FAILS(CANTLE_FORKED, cantle_write(db, batch, CANTLE_DEFAULT, &error));
        FAILS(CANTLE_FORKED, cantle_transaction_commit(tx, CANTLE_DEFAULT, &error));
        FAILS(CANTLE_FORKED, cantle_stat(db, "disk_bytes", &number, &error));
        NOTHING(CANTLE_FORKED, cantle_iterator_next(it, &key, NULL, &error));
        CHECK(cantle_iterator_status(it) == CANTLE_FORKED);
        /* Letting go of them says nothing to the store. */
        CHECK(cantle_keyspace_free(keyspace) == CANTLE_OK && cantle_snapshot_free(snapshot) == CANTLE_OK);
        CHECK(cantle_iterator_free(it) == CANTLE_OK && cantle_batch_free(batch) == CANTLE_OK);
        CHECK(cantle_transaction_rollback(tx) == CANTLE_OK);
        FAILS(CANTLE_FORKED, cantle_close(db, &error));
        FAILS(CANTLE_INVALID_ARGUMENT, cantle_close(db, &error));
        /* What is no store's works on, and so does a store of the child's own. */
        OK(cantle_key_int(parts, 7, &error));
        NOTHING(CANTLE_LOCKED, cantle_open(below(argv[1], "store"), NULL, &error));
        SOME(own, cantle_open(below(argv[1], "own"), NULL, &error));
        put(own, NULL, "k", "child");
        CHECK(has(own, NULL, "k", "child"));
        OK(cantle_close(own, &error));
        _exit(0);
    }
    wait_for_child();

    CHECK(has(db, NULL, "k", "parent"));
    OK(cantle_write(db, batch, CANTLE_DEFAULT, &error));
    CHECK(cantle_iterator_next(it, &key, NULL, NULL) && is(key, "k"));
    OK(cantle_transaction_commit(tx, CANTLE_DEFAULT, &error));
    CHECK(cantle_batch_free(batch) == CANTLE_OK && cantle_iterator_free(it) == CANTLE_OK);
    CHECK(cantle_snapshot_free(snapshot) == CANTLE_OK && cantle_keyspace_free(keyspace) == CANTLE_OK);
    CHECK(cantle_key_free(parts) == CANTLE_OK);
    OK(cantle_close(db, &error));
    SOME(db, cantle_open(below(argv[1], "store"), NULL, &error));
    CHECK(has(db, NULL, "k", "batch"));
    OK(cantle_close(db, &error));
    in_callbacks(below(argv[1], "callbacks"));
    again_and_again(argv[1]);
    return 0;
}
