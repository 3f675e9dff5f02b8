/* Orders of keys that are callbacks, options of keyspaces, and resources that stores share. */
#define _DEFAULT_SOURCE
#include "check.h"
#include <ctype.h>
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

static atomic_int destroyed, compared;

/* Without regard to upper and lower case. */
static int compare(void *user, const char *a, size_t a_len, const char *b, size_t b_len) {
    CHECK(strcmp(user, "user") == 0);
    compared++;
    for (size_t i = 0; i < a_len && i < b_len; i++) {
        int order = tolower((unsigned char)a[i]) - tolower((unsigned char)b[i]);
        if (order != 0) return order;
    }
    return (a_len > b_len) - (a_len < b_len);
}

static uint64_t prefix(void *user, const char *key, size_t key_len) {
    (void)user;
    uint64_t number = 0;
    for (size_t i = 0; i < 8; i++)
        number = number << 8 | (i < key_len ? (uint64_t)tolower((unsigned char)key[i]) : 0);
    return number;
}

/* Options whose comparator is replaced: what they lock meanwhile would lock out this. */
static cantle_keyspace_options *replacing;

static void destroy(void *user) {
    CHECK(strcmp(user, "user") == 0);
    if (replacing != NULL) CHECK(cantle_keyspace_options_layout(replacing, "chunk") == CANTLE_OK);
    destroyed++;
}

/* Exactly so often, a moment after the last store was closed: one of its threads may be the last to let go. */
static void was_destroyed(int times) {
    for (int i = 0; destroyed < times && i < 10000; i++) usleep(1000);
    usleep(10000);
    CHECK(destroyed == times);
}

static cantle_comparator *caseless(void) {
    static char user[] = "user";
    cantle_comparator *comparator;
    SOME(comparator, cantle_comparator_new("test.caseless", user, compare, prefix, false, destroy, &error));
    return comparator;
}

static void orders(const char *path) {
    cantle_db *db;
    cantle_iterator *it;
    cantle_keyspace *named;
    cantle_comparator *comparator = caseless();
    cantle_keyspace_options *keyspace = cantle_keyspace_options_new();
    cantle_options *options = cantle_options_new();
    cantle_keyspace_options_comparator(keyspace, comparator);
    cantle_options_default_keyspace(options, keyspace);
    SOME(db, cantle_open(path, options, &error));
    put(db, NULL, "b", "1");
    put(db, NULL, "A1", "2");
    put(db, NULL, "a2", "3");
    put(db, NULL, "C", "4");
    CHECK(has(db, NULL, "B", "1"));
    SOME(it, cantle_iterator_new(db, NULL, NULL, &error));
    CHECK(strcmp(keys_of(it, false), "A1 a2 b C") == 0);
    char *name;
    SOME(name, cantle_comparator_name(db, NULL, &error));
    CHECK(strcmp(name, "test.caseless") == 0);
    cantle_free(name);
    SOME(named, cantle_keyspace_open(db, "bytes", NULL, &error));
    SOME(name, cantle_comparator_name(db, named, &error));
    CHECK(strcmp(name, "cantle.bytewise") == 0 && cantle_keyspace_free(named) == CANTLE_OK);
    cantle_free(name);
    NOTHING(CANTLE_INVALID_ARGUMENT, cantle_comparator_name(db, named, &error));
    /* A prefix is one of bytes: every pair is looked at, in both directions. */
    cantle_range range = cantle_range_prefix("a", 1);
    SOME(it, cantle_iterator_new(db, NULL, &range, &error));
    CHECK(strcmp(keys_of(it, false), "a2") == 0);
    SOME(it, cantle_iterator_new(db, NULL, &range, &error));
    CHECK(strcmp(keys_of(it, true), "a2") == 0);
    SOME(it, cantle_iterator_new(db, NULL, &range, &error));
    CHECK(cantle_iterator_seek(it, "A", 1, NULL, NULL, NULL) && !cantle_iterator_next(it, NULL, NULL, NULL));
    CHECK(!cantle_iterator_pair(it, NULL, NULL) && cantle_iterator_free(it) == CANTLE_OK);
    FAILS(CANTLE_INVALID_ARGUMENT, cantle_delete_range(db, NULL, &range, &error));
    cantle_snapshot *snapshot;
    SOME(snapshot, cantle_snapshot_new(db, &error));
    SOME(it, cantle_snapshot_iterator(snapshot, NULL, &range, &error));
    CHECK(strcmp(keys_of(it, false), "a2") == 0);
    CHECK(cantle_snapshot_free(snapshot) == CANTLE_OK);
    cantle_transaction *tx;
    SOME(tx, cantle_transaction_new(db, &error));
    FAILS(CANTLE_INVALID_ARGUMENT, cantle_transaction_delete_range(tx, NULL, &range, &error));
    SOME(it, cantle_transaction_iterator(tx, NULL, &range, &error));
    CHECK(strcmp(keys_of(it, false), "a2") == 0);
    CHECK(cantle_transaction_rollback(tx) == CANTLE_OK);
    cantle_batch *batch = cantle_batch_new();
    OK(cantle_batch_delete_range(batch, NULL, &range, &error));
    FAILS(CANTLE_INVALID_ARGUMENT, cantle_write(db, batch, CANTLE_DEFAULT, &error));
    SOME(named, cantle_keyspace_open(db, "named", keyspace, &error));
    FAILS(CANTLE_INVALID_ARGUMENT, cantle_batch_delete_range(batch, named, &range, &error));
    put(db, named, "Z", "1");
    CHECK(has(db, named, "z", "1"));
    CHECK(cantle_batch_free(batch) == CANTLE_OK && cantle_keyspace_free(named) == CANTLE_OK);
    OK(cantle_close(db, &error));

    /* Whoever opens the store again must know the order. */
    NOTHING(CANTLE_OPTION_MISMATCH, cantle_open(path, NULL, &error));
    CHECK(cantle_options_free(options) == CANTLE_OK && cantle_keyspace_options_free(keyspace) == CANTLE_OK);
    options = cantle_options_new();
    cantle_options_comparator(options, comparator);
    CHECK(cantle_comparator_free(comparator) == CANTLE_OK);
    CHECK(cantle_comparator_free(comparator) == CANTLE_INVALID_ARGUMENT);
    CHECK(destroyed == 0);
    SOME(db, cantle_open(path, options, &error));
    CHECK(has(db, NULL, "a1", "2"));
    SOME(named, cantle_keyspace_open(db, "named", NULL, &error));
    CHECK(has(db, named, "z", "1") && cantle_keyspace_free(named) == CANTLE_OK);
    CHECK(cantle_options_free(options) == CANTLE_OK && destroyed == 0);
    OK(cantle_close(db, &error));
    was_destroyed(1);
    CHECK(cantle_comparator_free(caseless()) == CANTLE_OK);
    CHECK(destroyed == 2);

    /* One that is replaced goes at once, and may call the library then; one that could not be made never had it. */
    keyspace = replacing = cantle_keyspace_options_new();
    for (int i = 0; i < 3; i++) {
        comparator = caseless();
        CHECK(cantle_keyspace_options_comparator(keyspace, comparator) == CANTLE_OK);
        CHECK(cantle_comparator_free(comparator) == CANTLE_OK && destroyed == 2 + i);
    }
    replacing = NULL;
    CHECK(cantle_keyspace_options_free(keyspace) == CANTLE_OK && destroyed == 5);
    NOTHING(CANTLE_INVALID_ARGUMENT,
            cantle_comparator_new("", "user", compare, prefix, false, destroy, &error));
    CHECK(destroyed == 5);
}

enum { THREADS = 4, KEYS = 500 };

static cantle_db *ordered;

/* Each writes its keys, in capitals or not, and reads those of all. */
static void *write_and_read(void *argument) {
    int thread = (int)(intptr_t)argument;
    char key[16];
    for (int i = 0; i < KEYS; i++) {
        snprintf(key, sizeof key, thread % 2 == 0 ? "key%c%04d" : "KEY%c%04d", 'a' + thread, i);
        put(ordered, NULL, key, "v");
        snprintf(key, sizeof key, thread % 2 == 0 ? "KEY%c%04d" : "key%c%04d", 'A' + thread, i);
        CHECK(has(ordered, NULL, key, "v"));
        if (i % 100 != 0) continue;
        cantle_iterator *it;
        cantle_slice found;
        cantle_error *error = NULL;
        char last[16] = "";
        SOME(it, cantle_iterator_new(ordered, NULL, NULL, &error));
        while (cantle_iterator_next(it, &found, NULL, &error)) {
            CHECK(compare("user", last, strlen(last), found.data, found.len) < 0 && found.len < sizeof last);
            memcpy(last, found.data, found.len);
            last[found.len] = 0;
        }
        CHECK(error == NULL && cantle_iterator_free(it) == CANTLE_OK);
    }
    return NULL;
}

static void from_many_threads(const char *path) {
    pthread_t threads[THREADS];
    int before = destroyed;
    uint64_t regions;
    cantle_comparator *comparator = caseless();
    cantle_keyspace_options *keyspace = cantle_keyspace_options_new();
    cantle_options *options = cantle_options_new();
    CHECK(cantle_keyspace_options_comparator(keyspace, comparator) == CANTLE_OK);
    CHECK(cantle_options_default_keyspace(options, keyspace) == CANTLE_OK);
    SOME(ordered, cantle_open(path, options, &error));
    CHECK(cantle_comparator_free(comparator) == CANTLE_OK);
    CHECK(cantle_options_free(options) == CANTLE_OK && cantle_keyspace_options_free(keyspace) == CANTLE_OK);
    compared = 0;
    for (intptr_t i = 0; i < THREADS; i++) CHECK(pthread_create(&threads[i], NULL, write_and_read, (void *)i) == 0);
    OK(cantle_compact_range(ordered, NULL, NULL, &error)); /* beside them */
    for (int i = 0; i < THREADS; i++) CHECK(pthread_join(threads[i], NULL) == 0);
    CHECK(compared > THREADS * KEYS);
    OK(cantle_stat(ordered, "keyspaces.default.regions", &regions, &error));
    CHECK(regions > 0 && destroyed == before);
    OK(cantle_close(ordered, &error));
    was_destroyed(before + 1);
}

static void keyspace_options(cantle_db *db) {
    cantle_keyspace *keyspace;
    cantle_keyspace_options *options = cantle_keyspace_options_new();
    const char *layout = "chunk:chunk_bytes=1MiB,log_bytes=1MiB,munk_log_bytes=4MiB,filter_partitions=8,munks=true,recent_appends=true";
    CHECK(cantle_keyspace_options_layout(options, layout) == CANTLE_OK);
    CHECK(cantle_keyspace_options_row_cache(options, false) == CANTLE_OK);
    cantle_keyspace_options_compression(options, CANTLE_LZ4, 0);
    cantle_keyspace_options_space_amplification(options, 2.0);
    SOME(keyspace, cantle_keyspace_open(db, "one", options, &error));
    CHECK(cantle_keyspace_options_free(options) == CANTLE_OK);
    put(db, keyspace, "k", "v");
    CHECK(has(db, keyspace, "k", "v") && cantle_keyspace_free(keyspace) == CANTLE_OK);
}

static void shared_resources(const char *directory) {
    cantle_resources *resources;
    cantle_db *one, *two;
    uint64_t budget;
    cantle_options *options = cantle_options_new();
    SOME(resources, cantle_resources_new(64 << 20, 1, &error));
    cantle_options_resources(options, resources);
    CHECK(cantle_resources_free(resources) == CANTLE_OK);
    CHECK(cantle_resources_free(resources) == CANTLE_INVALID_ARGUMENT);
    SOME(one, cantle_open(below(directory, "one"), options, &error));
    SOME(two, cantle_open(below(directory, "two"), options, &error));
    CHECK(cantle_options_free(options) == CANTLE_OK);
    OK(cantle_stat(two, "memory_budget", &budget, &error));
    CHECK(budget == 64 << 20);
    keyspace_options(one);
    OK(cantle_close(one, &error));
    put(two, NULL, "k", "v");
    OK(cantle_close(two, &error));
}

int main(int argc, char **argv) {
    begin(argc);
    orders(below(argv[1], "store"));
    from_many_threads(below(argv[1], "threads"));
    shared_resources(argv[1]);
    return 0;
}
