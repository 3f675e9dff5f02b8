/* Helpers of the test programs: checks that say where they failed. */
#ifndef CHECK_H
#define CHECK_H

#include <cantle.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: failed: %s\n", __FILE__, __LINE__, #condition);                \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

/* Runs a call that must succeed; `error` is the name of its error variable. */
#define OK(call)                                                                                   \
    do {                                                                                           \
        cantle_error *error = NULL;                                                                \
        if ((call) != CANTLE_OK || error != NULL) {                                                \
            fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call,                          \
                    cantle_error_message(error));                                                  \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

/* Runs a call that must fail with this status, and an error of the same. */
#define FAILS(expected, call)                                                                      \
    do {                                                                                           \
        cantle_error *error = NULL;                                                                \
        int status = (int)(call);                                                                  \
        if (status != (int)(expected) || (int)cantle_error_status(error) != (int)(expected)) {     \
            fprintf(stderr, "%s:%d: %s: status %d, error %d (%s)\n", __FILE__, __LINE__, #call,    \
                    status, (int)cantle_error_status(error), cantle_error_message(error));         \
            exit(1);                                                                               \
        }                                                                                          \
        CHECK(strlen(cantle_error_message(error)) > 10);                                           \
        CHECK(cantle_error_free(error) == CANTLE_OK);                                              \
    } while (0)

/* Runs a call that must return nothing, with an error of this status. */
#define NOTHING(expected, call)                                                                    \
    do {                                                                                           \
        cantle_error *error = NULL;                                                                \
        CHECK(!(call));                                                                            \
        if (cantle_error_status(error) != (expected)) {                                            \
            fprintf(stderr, "%s:%d: %s: error %d (%s)\n", __FILE__, __LINE__, #call,               \
                    (int)cantle_error_status(error), cantle_error_message(error));                 \
            exit(1);                                                                               \
        }                                                                                          \
        CHECK(cantle_error_free(error) == CANTLE_OK);                                              \
    } while (0)

/* Assigns what a call returns, which must be something. */
#define SOME(variable, call)                                                                       \
    do {                                                                                           \
        cantle_error *error = NULL;                                                                \
        variable = (call);                                                                         \
        if (variable == NULL || error != NULL) {                                                   \
            fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call,                          \
                    cantle_error_message(error));                                                  \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

/* A handle that is forgotten is nothing that LeakSanitizer could see: the library remembers it. */
static void no_handle_is_left(void) {
    size_t left = cantle_handle_count();
    if (left == 0) return;
    fprintf(stderr, "%d handles were not freed\n", (int)left);
    fflush(stderr);
    _Exit(1);
}

/* Programs call this first. */
static inline void begin(int argc) {
    CHECK(argc == 2);
    CHECK(atexit(no_handle_is_left) == 0);
}

/* A path below the directory that the program was given. */
static inline const char *below(const char *directory, const char *name) {
    static char paths[8][4096];
    static int next;
    char *path = paths[next++ % 8];
    snprintf(path, sizeof paths[0], "%s/%s", directory, name);
    return path;
}

static inline bool is(cantle_slice slice, const char *text) {
    return slice.len == strlen(text) && memcmp(slice.data, text, slice.len) == 0;
}

static inline void put(cantle_db *db, cantle_keyspace *keyspace, const char *key, const char *value) {
    OK(cantle_put(db, keyspace, key, strlen(key), value, strlen(value), &error));
}

/* True if the key has this value; NULL: if it has none. */
static inline bool has(cantle_db *db, cantle_keyspace *keyspace, const char *key, const char *value) {
    char *found = NULL;
    size_t len = 99;
    OK(cantle_get(db, keyspace, key, strlen(key), &found, &len, &error));
    bool same = value == NULL ? found == NULL && len == 0
                              : found != NULL && len == strlen(value) && strcmp(found, value) == 0;
    cantle_free(found);
    return same;
}

/* The keys that an iterator gives, joined by blanks, and frees it. */
static inline const char *keys_of(cantle_iterator *iterator, bool backwards) {
    static char text[4096];
    size_t at = 0;
    cantle_slice key;
    cantle_error *error = NULL;
    text[0] = 0;
    CHECK(iterator != NULL);
    while (backwards ? cantle_iterator_prev(iterator, &key, NULL, &error)
                     : cantle_iterator_next(iterator, &key, NULL, &error))
        at += (size_t)snprintf(text + at, sizeof text - at, "%s%.*s", at ? " " : "", (int)key.len, key.data);
    CHECK(error == NULL);
    CHECK(cantle_iterator_free(iterator) == CANTLE_OK);
    return text;
}

#endif
