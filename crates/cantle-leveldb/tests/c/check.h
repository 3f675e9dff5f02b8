/* Macros and functions that the test programs share. */
#ifndef CHECK_H
#define CHECK_H

#include <leveldb/c.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Ends the program if a condition does not hold. */
#define CHECK(condition)                                                        \
  do {                                                                          \
    if (!(condition)) {                                                         \
      fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #condition); \
      exit(1);                                                                  \
    }                                                                           \
  } while (0)

/* Checks that there is no error. */
#define CHECK_OK(error)                                                                 \
  do {                                                                                  \
    if ((error) != NULL) {                                                              \
      fprintf(stderr, "%s:%d: unexpected error: %s\n", __FILE__, __LINE__, (error));    \
      exit(1);                                                                          \
    }                                                                                   \
  } while (0)

/* Checks that there is an error that begins with one text and contains another. Frees the error. */
#define CHECK_ERROR(error, prefix, part) check_error(__FILE__, __LINE__, &(error), prefix, part)

static inline void check_error(const char* file, int line, char** error, const char* prefix, const char* part) {
  if (*error == NULL || strncmp(*error, prefix, strlen(prefix)) != 0 || strstr(*error, part) == NULL) {
    fprintf(stderr, "%s:%d: expected \"%s...%s...\", got \"%s\"\n", file, line, prefix, part,
            *error == NULL ? "no error" : *error);
    exit(1);
  }
  leveldb_free(*error);
  *error = NULL;
}

/* Checks that `length` bytes are those of a text. */
static inline int is_text(const char* bytes, size_t length, const char* text) {
  return bytes != NULL && length == strlen(text) && memcmp(bytes, text, length) == 0;
}

static inline void put_text(leveldb_t* db, leveldb_writeoptions_t* options, const char* key, const char* value) {
  char* error = NULL;
  leveldb_put(db, options, key, strlen(key), value, strlen(value), &error);
  CHECK_OK(error);
}

/* Checks that the key has this value; NULL: that it is absent. */
#define CHECK_VALUE(db, options, key, expected) check_value(__FILE__, __LINE__, db, options, key, expected)

static inline void check_value(const char* file, int line, leveldb_t* db, leveldb_readoptions_t* options,
                               const char* key, const char* expected) {
  char* error = NULL;
  size_t length = 77;
  char* value = leveldb_get(db, options, key, strlen(key), &length, &error);
  CHECK_OK(error);
  int holds = expected == NULL ? value == NULL && length == 0 : is_text(value, length, expected);
  if (!holds) {
    fprintf(stderr, "%s:%d: %s is %.*s, expected %s\n", file, line, key, (int)length, value == NULL ? "" : value,
            expected == NULL ? "nothing" : expected);
    exit(1);
  }
  leveldb_free(value);
}

/* Checks that the iterator is at this pair. */
#define CHECK_PAIR(iterator, k, v)                              \
  do {                                                          \
    size_t klen = 0, vlen = 0;                                  \
    CHECK(leveldb_iter_valid(iterator));                        \
    const char* found_key = leveldb_iter_key(iterator, &klen);  \
    CHECK(is_text(found_key, klen, k));                         \
    const char* found_value = leveldb_iter_value(iterator, &vlen); \
    CHECK(is_text(found_value, vlen, v));                       \
  } while (0)

static inline char* path_in(const char* dir, const char* name) {
  size_t length = strlen(dir) + strlen(name) + 2;
  char* path = malloc(length);
  CHECK(path != NULL);
  snprintf(path, length, "%s/%s", dir, name);
  return path;
}

#endif
