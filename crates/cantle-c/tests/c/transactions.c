/* Transactions: commits, conflicts, callbacks that are run again, and those that give up. */
#include "check.h"

static void count_up(cantle_transaction *transaction, const char *key) {
    char *old;
    OK(cantle_transaction_get(transaction, NULL, key, strlen(key), &old, NULL, &error));
    char next[16];
    int len = snprintf(next, sizeof next, "%d", old == NULL ? 1 : atoi(old) + 1);
    cantle_free(old);
    OK(cantle_transaction_put(transaction, NULL, key, strlen(key), next, (size_t)len, &error));
}

static void by_hand(cantle_db *db) {
    cantle_transaction *one, *two;
    SOME(one, cantle_transaction_new(db, &error));
    SOME(two, cantle_transaction_new(db, &error));
    count_up(one, "n");
    count_up(two, "n");
    CHECK(has(db, NULL, "n", NULL));
    OK(cantle_transaction_commit(one, CANTLE_DEFAULT, &error));
    CHECK(has(db, NULL, "n", "1"));
    FAILS(CANTLE_CONFLICT, cantle_transaction_commit(two, CANTLE_SYNC, &error));
    CHECK(has(db, NULL, "n", "1"));
    /* Both are gone. */
    FAILS(CANTLE_INVALID_ARGUMENT, cantle_transaction_commit(one, CANTLE_DEFAULT, &error));
    CHECK(cantle_transaction_rollback(two) == CANTLE_INVALID_ARGUMENT);

    SOME(one, cantle_transaction_new(db, &error));
    FAILS(CANTLE_INVALID_ARGUMENT, cantle_transaction_commit(one, 99, &error));
    count_up(one, "n");
    CHECK(cantle_transaction_rollback(one) == CANTLE_OK && cantle_transaction_rollback(NULL) == CANTLE_OK);
    CHECK(has(db, NULL, "n", "1"));
}

static void ranges_and_keyspaces(cantle_db *db) {
    cantle_keyspace *other;
    cantle_transaction *tx;
    cantle_iterator *it, *late;
    cantle_slice key;
    char buffer[4];
    size_t len;
    bool found;
    SOME(other, cantle_keyspace_open(db, "other", NULL, &error));
    put(db, other, "a1", "1");
    put(db, other, "a2", "2");
    put(db, other, "b", "3");
    SOME(tx, cantle_transaction_new(db, &error));
    cantle_range range = cantle_range_prefix("a", 1);
    OK(cantle_transaction_delete_range(tx, other, &range, &error));
    OK(cantle_transaction_put(tx, other, "a3", 2, "x", 1, &error));
    OK(cantle_transaction_delete(tx, NULL, "n", 1, &error));
    SOME(it, cantle_transaction_iterator(tx, other, NULL, &error));
    CHECK(strcmp(keys_of(it, true), "b a3") == 0);
    OK(cantle_transaction_contains(tx, other, "a1", 2, &found, &error));
    CHECK(!found);
    OK(cantle_transaction_get_into(tx, other, "a3", 2, buffer, sizeof buffer, &len, &found, &error));
    CHECK(found && len == 1 && buffer[0] == 'x');
    SOME(it, cantle_transaction_iterator(tx, NULL, NULL, &error));
    CHECK(!cantle_iterator_next(it, &key, NULL, NULL));
    SOME(late, cantle_transaction_iterator(tx, other, NULL, &error));
    OK(cantle_transaction_commit(tx, CANTLE_DEFAULT, &error));
    NOTHING(CANTLE_INVALID_ARGUMENT, cantle_iterator_next(late, &key, NULL, &error));
    CHECK(cantle_iterator_status(late) == CANTLE_INVALID_ARGUMENT);
    CHECK(cantle_iterator_free(it) == CANTLE_OK && cantle_iterator_free(late) == CANTLE_OK);
    CHECK(has(db, other, "a1", NULL) && has(db, other, "a3", "x") && has(db, NULL, "n", NULL));
    CHECK(cantle_keyspace_free(other) == CANTLE_OK);
}

struct run {
    cantle_db *db;
    cantle_transaction *kept;
    int calls;
    int meet;
    int give_up;
};

static int body(void *user, cantle_transaction *tx, cantle_error **error) {
    struct run *run = user;
    run->calls++;
    run->kept = tx;
    count_up(tx, "c");
    if (run->calls <= run->meet) put(run->db, NULL, "c", "10"); /* somebody else was faster */
    if (run->give_up == 1) return CANTLE_ABORTED;
    if (run->give_up == 2) return cantle_transaction_put(tx, NULL, NULL, 1, "", 0, error);
    if (run->give_up == 3) return 1234;
    FAILS(CANTLE_INVALID_ARGUMENT, cantle_transaction_commit(tx, CANTLE_DEFAULT, &error));
    CHECK(cantle_transaction_rollback(tx) == CANTLE_INVALID_ARGUMENT);
    return CANTLE_OK;
}

static void by_callback(cantle_db *db) {
    struct run run = {db, NULL, 0, 0, 0};
    OK(cantle_transact(db, body, &run, &error));
    CHECK(run.calls == 1 && has(db, NULL, "c", "1"));
    FAILS(CANTLE_INVALID_ARGUMENT, cantle_transaction_put(run.kept, NULL, "a", 1, "b", 1, &error));
    run.calls = 0;
    run.meet = 2;
    OK(cantle_transact(db, body, &run, &error));
    CHECK(run.calls == 3 && has(db, NULL, "c", "11"));
    run.meet = 0;
    run.give_up = 1;
    FAILS(CANTLE_ABORTED, cantle_transact(db, body, &run, &error));
    run.give_up = 2;
    cantle_error *passed = NULL;
    CHECK(cantle_transact(db, body, &run, &passed) == CANTLE_INVALID_ARGUMENT);
    CHECK(strstr(cantle_error_message(passed), "the key is NULL, but 1 bytes long") != NULL);
    CHECK(cantle_error_free(passed) == CANTLE_OK);
    run.give_up = 3;
    FAILS(CANTLE_ABORTED, cantle_transact(db, body, &run, &error));
    CHECK(has(db, NULL, "c", "11"));
    FAILS(CANTLE_INVALID_ARGUMENT, cantle_transact(db, NULL, NULL, &error));
}

int main(int argc, char **argv) {
    begin(argc);
    cantle_db *db;
    SOME(db, cantle_open(below(argv[1], "store"), NULL, &error));
    by_hand(db);
    ranges_and_keyspaces(db);
    by_callback(db);
    cantle_transaction *left;
    SOME(left, cantle_transaction_new(db, &error));
    OK(cantle_transaction_put(left, NULL, "a", 1, "b", 1, &error));
    OK(cantle_close(db, &error));
    FAILS(CANTLE_CLOSED, cantle_transaction_commit(left, CANTLE_DEFAULT, &error));
    return 0;
}
