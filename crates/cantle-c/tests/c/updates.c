/* Callbacks of cantle_update: run again because somebody else was faster, reading the store, giving up. */
#include "check.h"
#include <pthread.h>

static cantle_db *db;

struct change {
    int calls;
    int meet;             /* how many runs somebody else is faster than */
    const char *makes[4]; /* what each run makes of the value; NULL deletes it */
    int impossible;       /* which run's length is none; 0 for none */
    char seen[4][16];     /* the value that each was given */
};

static void *somebody_else(void *value) {
    put(db, NULL, "k", value);
    return NULL;
}

static const char *change(void *user, const char *old_value, size_t old_len, size_t *new_len) {
    static char faster[32];
    struct change *change = user;
    int run = change->calls++;
    snprintf(change->seen[run], sizeof change->seen[run], "%.*s", (int)old_len, old_value == NULL ? "none" : old_value);
    if (old_value == NULL) snprintf(change->seen[run], sizeof change->seen[run], "none");
    if (run < change->meet) {
        pthread_t thread;
        snprintf(faster, sizeof faster, "faster%d", run);
        CHECK(pthread_create(&thread, NULL, somebody_else, faster) == 0 && pthread_join(thread, NULL) == 0);
    }
    const char *made = change->makes[run];
    *new_len = change->impossible == run + 1 ? SIZE_MAX : made == NULL ? 0 : strlen(made);
    return made;
}

static void runs_that_differ(void) {
    char *value;
    size_t len;
    /* The second makes something else of what it finds: only that counts. */
    struct change first = {.meet = 1, .makes = {"one", NULL}};
    put(db, NULL, "k", "before");
    OK(cantle_update(db, NULL, "k", 1, change, &first, &value, &len, &error));
    CHECK(first.calls == 2 && strcmp(first.seen[0], "before") == 0 && strcmp(first.seen[1], "faster0") == 0);
    CHECK(value == NULL && len == 0 && has(db, NULL, "k", NULL));

    struct change second = {.meet = 2, .makes = {NULL, "longer than that", "x"}};
    OK(cantle_update(db, NULL, "k", 1, change, &second, &value, &len, &error));
    CHECK(second.calls == 3 && strcmp(second.seen[0], "none") == 0 && strcmp(second.seen[2], "faster1") == 0);
    CHECK(len == 1 && strcmp(value, "x") == 0 && has(db, NULL, "k", "x"));
    cantle_free(value);

    /* One that fails ends it; nothing is run again, and what somebody else wrote stays. */
    struct change third = {.meet = 2, .makes = {"fine", "short"}, .impossible = 2};
    value = (char *)1;
    FAILS(CANTLE_INVALID_ARGUMENT, cantle_update(db, NULL, "k", 1, change, &third, &value, &len, &error));
    CHECK(third.calls == 2 && value == NULL && len == 0 && has(db, NULL, "k", "faster1"));
    struct change fourth = {.makes = {"fine"}};
    OK(cantle_update(db, NULL, "k", 1, change, &fourth, NULL, &len, &error));
    CHECK(len == 4 && has(db, NULL, "k", "fine"));
}

/* Joins the values of all other keys, read in every way that there is. */
static const char *join(void *user, const char *old_value, size_t old_len, size_t *new_len) {
    static char joined[64];
    cantle_iterator *it;
    cantle_snapshot *snapshot;
    cantle_transaction *tx;
    cantle_slice key, value;
    cantle_error *error = NULL;
    bool found;
    size_t at = 0;
    (void)user, (void)old_value, (void)old_len;
    cantle_range range = cantle_range_prefix("part", 4);
    SOME(it, cantle_iterator_new(db, NULL, &range, &error));
    while (cantle_iterator_next(it, &key, &value, &error))
        at += (size_t)snprintf(joined + at, sizeof joined - at, "%.*s", (int)value.len, value.data);
    CHECK(error == NULL && cantle_iterator_free(it) == CANTLE_OK);
    CHECK(has(db, NULL, "part1", "a"));
    SOME(snapshot, cantle_snapshot_new(db, &error));
    OK(cantle_snapshot_contains(snapshot, NULL, "part2", 5, &found, &error));
    CHECK(found && cantle_snapshot_free(snapshot) == CANTLE_OK);
    SOME(tx, cantle_transaction_new(db, &error));
    OK(cantle_transaction_contains(tx, NULL, "joined", 6, &found, &error));
    CHECK(!found && cantle_transaction_rollback(tx) == CANTLE_OK);
    *new_len = at;
    return joined;
}

int main(int argc, char **argv) {
    begin(argc);
    char *value;
    SOME(db, cantle_open(below(argv[1], "store"), NULL, &error));
    runs_that_differ();
    put(db, NULL, "part1", "a");
    put(db, NULL, "part2", "b");
    OK(cantle_update(db, NULL, "joined", 6, join, NULL, &value, NULL, &error));
    CHECK(strcmp(value, "ab") == 0);
    cantle_free(value);
    OK(cantle_close(db, &error));
    return 0;
}
