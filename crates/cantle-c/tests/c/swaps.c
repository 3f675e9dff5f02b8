/* Writes that depend on what is there, and the ends of a keyspace. */
#include "check.h"

static bool pair_is(char *key, size_t key_len, char *value, size_t value_len, const char *k, const char *v) {
    bool same = k == NULL ? key == NULL && value == NULL && key_len == 0 && value_len == 0
                          : key != NULL && value != NULL && key_len == strlen(k) && strcmp(key, k) == 0 &&
                                value_len == strlen(v) && strcmp(value, v) == 0;
    cantle_free(key);
    cantle_free(value);
    return same;
}

#define PAIR(call, k, v)                                                                           \
    do {                                                                                           \
        char *key = (char *)1, *value = (char *)1;                                                 \
        size_t key_len = 9, value_len = 9;                                                         \
        OK(call);                                                                                  \
        CHECK(pair_is(key, key_len, value, value_len, k, v));                                      \
    } while (0)

static void ends(cantle_db *db, cantle_keyspace *ks) {
    PAIR(cantle_first(db, ks, &key, &key_len, &value, &value_len, &error), NULL, NULL);
    PAIR(cantle_pop_last(db, ks, &key, &key_len, &value, &value_len, &error), NULL, NULL);
    put(db, ks, "b", "2");
    put(db, ks, "a", "1");
    put(db, ks, "c", "");
    PAIR(cantle_first(db, ks, &key, &key_len, &value, &value_len, &error), "a", "1");
    PAIR(cantle_last(db, ks, &key, &key_len, &value, &value_len, &error), "c", "");
    PAIR(cantle_pop_last(db, ks, &key, &key_len, &value, &value_len, &error), "c", "");
    PAIR(cantle_pop_first(db, ks, &key, &key_len, &value, &value_len, &error), "a", "1");
    char *only_key = NULL;
    OK(cantle_pop_first(db, ks, &only_key, NULL, NULL, NULL, &error));
    CHECK(only_key != NULL && strcmp(only_key, "b") == 0);
    cantle_free(only_key);
    FAILS(CANTLE_INVALID_ARGUMENT, cantle_pop_first(db, ks, NULL, NULL, NULL, NULL, &error));
    CHECK(has(db, ks, "b", NULL));
}

static void swaps(cantle_db *db, cantle_keyspace *ks) {
    bool swapped = false;
    OK(cantle_compare_and_swap(db, ks, "k", 1, NULL, 0, "one", 3, &swapped, &error));
    CHECK(swapped && has(db, ks, "k", "one"));
    OK(cantle_compare_and_swap(db, ks, "k", 1, NULL, 0, "two", 3, &swapped, &error));
    CHECK(!swapped && has(db, ks, "k", "one"));
    OK(cantle_compare_and_swap(db, ks, "k", 1, "one", 3, "", 0, &swapped, &error));
    CHECK(swapped && has(db, ks, "k", ""));
    OK(cantle_compare_and_swap(db, ks, "k", 1, "", 0, NULL, 0, &swapped, &error));
    CHECK(swapped && has(db, ks, "k", NULL));
    swapped = true;
    FAILS(CANTLE_INVALID_ARGUMENT,
          cantle_compare_and_swap(db, ks, NULL, 1, "", 0, NULL, 0, &swapped, &error));
    CHECK(!swapped);
    FAILS(CANTLE_INVALID_ARGUMENT, cantle_compare_and_swap(db, ks, "k", 1, "", 0, NULL, 0, NULL, &error));
}

static void transactions(cantle_db *db, cantle_keyspace *ks) {
    cantle_transaction *tx;
    bool swapped = false;
    put(db, ks, "a", "1");
    SOME(tx, cantle_transaction_new(db, &error));
    OK(cantle_transaction_compare_and_swap(tx, ks, "0", 1, NULL, 0, "own", 3, &swapped, &error));
    CHECK(swapped);
    OK(cantle_transaction_compare_and_swap(tx, ks, "0", 1, "else", 4, "new", 3, &swapped, &error));
    CHECK(!swapped);
    PAIR(cantle_transaction_first(tx, ks, &key, &key_len, &value, &value_len, &error), "0", "own");
    PAIR(cantle_transaction_pop_last(tx, ks, &key, &key_len, &value, &value_len, &error), "a", "1");
    PAIR(cantle_transaction_pop_first(tx, ks, &key, &key_len, &value, &value_len, &error), "0", "own");
    PAIR(cantle_transaction_last(tx, ks, &key, &key_len, &value, &value_len, &error), NULL, NULL);
    OK(cantle_transaction_compare_and_swap(tx, ks, "z", 1, NULL, 0, "left", 4, &swapped, &error));
    CHECK(has(db, ks, "a", "1") && has(db, ks, "z", NULL));
    OK(cantle_transaction_commit(tx, CANTLE_DEFAULT, &error));
    CHECK(has(db, ks, "a", NULL) && has(db, ks, "0", NULL) && has(db, ks, "z", "left"));
    OK(cantle_delete(db, ks, "z", 1, &error));
}

int main(int argc, char **argv) {
    begin(argc);
    cantle_db *db;
    cantle_keyspace *made;
    uint64_t pairs = 99;
    SOME(db, cantle_open(below(argv[1], "store"), NULL, &error));
    SOME(made, cantle_keyspace_create(db, "made", NULL, &error));
    NOTHING(CANTLE_ALREADY_EXISTS, cantle_keyspace_create(db, "made", NULL, &error));
    ends(db, NULL);
    ends(db, made);
    swaps(db, NULL);
    swaps(db, made);
    transactions(db, NULL);
    transactions(db, made);
    for (int number = 0; number < 1000; number++) {
        char key[16];
        snprintf(key, sizeof key, "%d", number);
        put(db, made, key, "some value");
    }
    OK(cantle_len_estimate(db, made, &pairs, &error));
    CHECK(pairs >= 900 && pairs <= 1100);
    CHECK(cantle_keyspace_free(made) == CANTLE_OK);
    OK(cantle_close(db, &error));
    FAILS(CANTLE_INVALID_ARGUMENT, cantle_len_estimate(db, NULL, &pairs, &error));
    CHECK(pairs == 0);
    return 0;
}
