/* The behaviour of every function. The program must pass with LevelDB's own library and with
 * Cantle's. */
#include <pthread.h>
#include <strings.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

static leveldb_options_t* options;
static leveldb_readoptions_t* ro;
static leveldb_writeoptions_t* wo;

/* ---- Callbacks ---- */

static int destroyed_comparators = 0;
static int destroyed_policies = 0;

static void comparator_destroyed(void* state) {
  CHECK(strcmp(state, "state") == 0);
  destroyed_comparators++;
}

static int reversed(void* state, const char* a, size_t alen, const char* b, size_t blen) {
  CHECK(strcmp(state, "state") == 0);
  size_t least = alen < blen ? alen : blen;
  int order = memcmp(b, a, least);
  return order != 0 ? order : (blen > alen) - (blen < alen);
}

static const char* reversed_name(void* state) {
  (void)state;
  return "test.Reversed";
}

static int without_case(void* state, const char* a, size_t alen, const char* b, size_t blen) {
  (void)state;
  int order = strncasecmp(a, b, alen < blen ? alen : blen);
  return order != 0 ? order : (alen > blen) - (alen < blen);
}

static const char* without_case_name(void* state) {
  (void)state;
  return "test.WithoutCase";
}

static const char* another_name(void* state) {
  (void)state;
  return "test.Another";
}

static void policy_destroyed(void* state) {
  CHECK(strcmp(state, "policy") == 0);
  destroyed_policies++;
}

/* A filter that matches every key. */
static char* create_filter(void* state, const char* const* keys, const size_t* lengths, int count, size_t* length) {
  (void)state, (void)keys, (void)lengths, (void)count;
  *length = 4;
  char* filter = malloc(4);
  CHECK(filter != NULL);
  memcpy(filter, "fake", 4);
  return filter;
}

static uint8_t may_match(void* state, const char* key, size_t length, const char* filter, size_t filter_length) {
  (void)state, (void)key, (void)length;
  CHECK(is_text(filter, filter_length, "fake"));
  return 1;
}

static const char* policy_name(void* state) {
  (void)state;
  return "test.Policy";
}

/* ---- Parts ---- */

static leveldb_t* open_or_fail(const char* path) {
  char* error = NULL;
  leveldb_t* db = leveldb_open(options, path, &error);
  CHECK_OK(error);
  CHECK(db != NULL);
  return db;
}

static void opening(const char* path) {
  char* error = NULL;
  leveldb_destroy_db(options, path, &error);
  CHECK_OK(error);
  /* An error replaces the error before it. */
  error = malloc(4);
  CHECK(error != NULL);
  strcpy(error, "old");
  CHECK(leveldb_open(options, path, &error) == NULL);
  CHECK_ERROR(error, "Invalid argument: ", "does not exist (create_if_missing is false)");
  leveldb_options_set_create_if_missing(options, 1);
  leveldb_t* db = open_or_fail(path);
  CHECK(leveldb_open(options, path, &error) == NULL);
  CHECK_ERROR(error, "IO error: lock ", "/LOCK: already held by process");
  leveldb_destroy_db(options, path, &error);
  CHECK_ERROR(error, "IO error: lock ", "/LOCK: already held by process");
  leveldb_close(db);
  leveldb_options_set_error_if_exists(options, 1);
  CHECK(leveldb_open(options, path, &error) == NULL);
  CHECK_ERROR(error, "Invalid argument: ", "exists (error_if_exists is true)");
  leveldb_options_set_error_if_exists(options, 0);
}

static void reading_and_writing(const char* path) {
  leveldb_t* db = open_or_fail(path);
  put_text(db, wo, "foo", "hello");
  CHECK_VALUE(db, ro, "foo", "hello");
  CHECK_VALUE(db, ro, "fo", NULL);
  CHECK_VALUE(db, ro, "fooo", NULL);
  put_text(db, wo, "foo", "");
  CHECK_VALUE(db, ro, "foo", "");
  put_text(db, wo, "", "of the empty key");
  CHECK_VALUE(db, ro, "", "of the empty key");

  /* A successful call does not change the error. */
  char* error = malloc(4);
  CHECK(error != NULL);
  strcpy(error, "old");
  leveldb_put(db, wo, "zero\0a", 6, "v\0w", 3, &error);
  CHECK(strcmp(error, "old") == 0);
  size_t length = 0;
  char* value = leveldb_get(db, ro, "zero\0a", 6, &length, &error);
  CHECK(length == 3 && memcmp(value, "v\0w", 3) == 0);
  CHECK(strcmp(error, "old") == 0);
  leveldb_free(value);
  CHECK_VALUE(db, ro, "zero", NULL);
  leveldb_delete(db, wo, "zero\0a", 6, &error);
  CHECK(strcmp(error, "old") == 0);
  leveldb_free(error);
  error = NULL;
  value = leveldb_get(db, ro, "zero\0a", 6, &length, &error);
  CHECK(value == NULL && length == 0 && error == NULL);
  leveldb_delete(db, wo, "never there", 11, &error);
  CHECK_OK(error);
  leveldb_delete(db, wo, "", 0, &error);
  CHECK_OK(error);

  leveldb_writeoptions_set_sync(wo, 1);
  put_text(db, wo, "synced", "yes");
  put_text(db, wo, "unsynced", "soon");
  leveldb_delete(db, wo, "unsynced", 8, &error);
  CHECK_OK(error);
  leveldb_writeoptions_set_sync(wo, 0);
  leveldb_close(db);

  db = open_or_fail(path);
  CHECK_VALUE(db, ro, "foo", "");
  CHECK_VALUE(db, ro, "synced", "yes");
  CHECK_VALUE(db, ro, "unsynced", NULL);
  CHECK_VALUE(db, ro, "", NULL);

  size_t large = 3 << 20;
  char* bytes = malloc(large);
  CHECK(bytes != NULL);
  for (size_t i = 0; i < large; i++) bytes[i] = (char)(i * 2654435761u >> 13);
  leveldb_put(db, wo, "large", 5, bytes, large, &error);
  CHECK_OK(error);
  value = leveldb_get(db, ro, "large", 5, &length, &error);
  CHECK_OK(error);
  CHECK(length == large && memcmp(value, bytes, large) == 0);
  leveldb_free(value);
  free(bytes);
  leveldb_delete(db, wo, "large", 5, &error);
  CHECK_OK(error);
  leveldb_close(db);
}

static char told[256];

static void tell_put(void* state, const char* k, size_t klen, const char* v, size_t vlen) {
  CHECK(state == told);
  snprintf(told + strlen(told), sizeof told - strlen(told), "put(%.*s,%.*s)", (int)klen, k, (int)vlen, v);
}

static void tell_deleted(void* state, const char* k, size_t klen) {
  CHECK(state == told);
  snprintf(told + strlen(told), sizeof told - strlen(told), "del(%.*s)", (int)klen, k);
}

static void batches(const char* path) {
  char* error = NULL;
  leveldb_t* db = open_or_fail(path);
  leveldb_writebatch_t* batch = leveldb_writebatch_create();
  leveldb_writebatch_put(batch, "foo", 3, "a", 1);
  leveldb_writebatch_clear(batch);
  leveldb_writebatch_put(batch, "bar", 3, "b", 1);
  leveldb_writebatch_put(batch, "box", 3, "c", 1);
  leveldb_writebatch_t* second = leveldb_writebatch_create();
  leveldb_writebatch_delete(second, "bar", 3);
  leveldb_writebatch_put(second, "", 0, "", 0);
  leveldb_writebatch_append(batch, second);
  leveldb_writebatch_iterate(batch, told, tell_put, tell_deleted);
  CHECK(strcmp(told, "put(bar,b)put(box,c)del(bar)put(,)") == 0);
  leveldb_write(db, wo, batch, &error);
  CHECK_OK(error);
  CHECK_VALUE(db, ro, "foo", "");
  CHECK_VALUE(db, ro, "bar", NULL);
  CHECK_VALUE(db, ro, "box", "c");
  CHECK_VALUE(db, ro, "", "");

  /* A batch can be applied again. */
  put_text(db, wo, "box", "changed");
  leveldb_write(db, wo, batch, &error);
  CHECK_OK(error);
  CHECK_VALUE(db, ro, "box", "c");

  /* The last operation on a key counts. */
  leveldb_writebatch_clear(batch);
  leveldb_writebatch_put(batch, "twice", 5, "1", 1);
  leveldb_writebatch_delete(batch, "twice", 5);
  leveldb_writebatch_put(batch, "twice", 5, "2", 1);
  leveldb_writeoptions_set_sync(wo, 1);
  leveldb_write(db, wo, batch, &error);
  CHECK_OK(error);
  CHECK_VALUE(db, ro, "twice", "2");
  leveldb_writebatch_clear(batch);
  leveldb_write(db, wo, batch, &error);
  CHECK_OK(error);
  leveldb_writeoptions_set_sync(wo, 0);
  told[0] = '\0';
  leveldb_writebatch_iterate(batch, told, tell_put, tell_deleted);
  CHECK(told[0] == '\0');
  leveldb_writebatch_delete(batch, "", 0);
  leveldb_writebatch_delete(batch, "twice", 5);
  leveldb_write(db, wo, batch, &error);
  CHECK_OK(error);
  leveldb_writebatch_destroy(second);
  leveldb_writebatch_destroy(batch);
  leveldb_close(db);
}

/* The database contains: foo = "", box = "c", synced = "yes". */
static void iterators(const char* path) {
  char* error = NULL;
  leveldb_t* db = open_or_fail(path);
  leveldb_iterator_t* it = leveldb_create_iterator(db, ro);
  CHECK(!leveldb_iter_valid(it));
  put_text(db, wo, "after", "the iterator was created");
  leveldb_iter_seek_to_first(it);
  CHECK_PAIR(it, "box", "c");
  leveldb_iter_next(it);
  CHECK_PAIR(it, "foo", "");
  leveldb_iter_prev(it);
  CHECK_PAIR(it, "box", "c");
  leveldb_iter_prev(it);
  CHECK(!leveldb_iter_valid(it));
  leveldb_iter_seek_to_last(it);
  CHECK_PAIR(it, "synced", "yes");
  leveldb_iter_prev(it);
  CHECK_PAIR(it, "foo", "");
  leveldb_iter_next(it);
  CHECK_PAIR(it, "synced", "yes");
  leveldb_iter_next(it);
  CHECK(!leveldb_iter_valid(it));
  leveldb_iter_seek(it, "b", 1);
  CHECK_PAIR(it, "box", "c");
  leveldb_iter_seek(it, "foo", 3);
  CHECK_PAIR(it, "foo", "");
  leveldb_iter_seek(it, "foo\0", 4);
  CHECK_PAIR(it, "synced", "yes");
  leveldb_iter_seek(it, "", 0);
  CHECK_PAIR(it, "box", "c");
  leveldb_iter_seek(it, "z", 1);
  CHECK(!leveldb_iter_valid(it));
  leveldb_iter_get_error(it, &error);
  CHECK_OK(error);
  leveldb_iter_destroy(it);
  it = leveldb_create_iterator(db, ro);
  leveldb_iter_seek_to_first(it);
  CHECK_PAIR(it, "after", "the iterator was created");
  leveldb_iter_destroy(it);
  leveldb_delete(db, wo, "after", 5, &error);
  CHECK_OK(error);
  leveldb_close(db);
}

static void snapshots(const char* path) {
  char* error = NULL;
  leveldb_t* db = open_or_fail(path);
  const leveldb_snapshot_t* snapshot = leveldb_create_snapshot(db);
  CHECK(snapshot != NULL);
  put_text(db, wo, "box", "later");
  leveldb_delete(db, wo, "synced", 6, &error);
  CHECK_OK(error);
  leveldb_readoptions_set_snapshot(ro, snapshot);
  CHECK_VALUE(db, ro, "box", "c");
  CHECK_VALUE(db, ro, "synced", "yes");
  leveldb_iterator_t* it = leveldb_create_iterator(db, ro);
  leveldb_compact_range(db, NULL, 0, NULL, 0);
  leveldb_iter_seek_to_last(it);
  CHECK_PAIR(it, "synced", "yes");
  leveldb_readoptions_set_snapshot(ro, NULL);
  leveldb_release_snapshot(db, snapshot);
  leveldb_iter_seek_to_first(it);
  CHECK_PAIR(it, "box", "c");
  leveldb_iter_destroy(it);
  CHECK_VALUE(db, ro, "box", "later");
  CHECK_VALUE(db, ro, "synced", NULL);
  leveldb_close(db);
}

static void check_number(leveldb_t* db, const char* name) {
  char* value = leveldb_property_value(db, name);
  CHECK(value != NULL && value[0] != '\0' && strspn(value, "0123456789") == strlen(value));
  leveldb_free(value);
}

static void properties_and_sizes(const char* path) {
  char* error = NULL;
  leveldb_t* db = open_or_fail(path);
  char key[32], value[256];
  leveldb_writebatch_t* batch = leveldb_writebatch_create();
  srand(7);
  for (int i = 0; i < 20000; i++) {
    int klen = snprintf(key, sizeof key, "k%020d", i);
    for (size_t j = 0; j < sizeof value; j++) value[j] = (char)rand();
    leveldb_writebatch_put(batch, key, (size_t)klen, value, sizeof value);
    if (i % 1000 == 999) {
      leveldb_write(db, wo, batch, &error);
      CHECK_OK(error);
      leveldb_writebatch_clear(batch);
    }
  }
  leveldb_writebatch_destroy(batch);
  leveldb_compact_range(db, "k", 1, "l", 1);
  leveldb_compact_range(db, NULL, 0, "l", 1);
  leveldb_compact_range(db, "k", 1, NULL, 0);
  leveldb_compact_range(db, NULL, 0, NULL, 0);
  const char* starts[4] = {"a", "k00000000000000010000", "m", "l"};
  const char* limits[4] = {"z", "k00000000000000020000", "z", "a"};
  size_t start_lengths[4] = {1, 21, 1, 1}, limit_lengths[4] = {1, 21, 1, 1};
  uint64_t sizes[4] = {7, 7, 7, 7};
  leveldb_approximate_sizes(db, 4, starts, start_lengths, limits, limit_lengths, sizes);
  /* 5 MB of bytes that do not compress, and half of them. */
  CHECK(sizes[0] > 4000000 && sizes[0] < 12000000);
  CHECK(sizes[1] > 1500000 && sizes[1] < sizes[0]);
  CHECK(sizes[2] == 0 && sizes[3] == 0);

  char* text = leveldb_property_value(db, "leveldb.stats");
  CHECK(text != NULL && strstr(text, "Compactions") != NULL && strstr(text, "Files Size(MB)") != NULL);
  leveldb_free(text);
  text = leveldb_property_value(db, "leveldb.sstables");
  CHECK(text != NULL && strlen(text) > 0);
  leveldb_free(text);
  for (int level = 0; level < 7; level++) {
    snprintf(key, sizeof key, "leveldb.num-files-at-level%d", level);
    check_number(db, key);
  }
  check_number(db, "leveldb.approximate-memory-usage");
  const char* unknown[] = {"leveldb.num-files-at-level7", "leveldb.num-files-at-level", "leveldb.num-files-at-level1x",
                           "nosuchprop", "stats", "leveldb.", ""};
  for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++) {
    CHECK(leveldb_property_value(db, unknown[i]) == NULL);
  }

  leveldb_iterator_t* it = leveldb_create_iterator(db, ro);
  int count = 0;
  for (leveldb_iter_seek(it, "k", 1); leveldb_iter_valid(it); leveldb_iter_next(it)) {
    size_t length = 0;
    snprintf(key, sizeof key, "k%020d", count++);
    const char* found = leveldb_iter_key(it, &length);
    CHECK(is_text(found, length, key));
    leveldb_iter_value(it, &length);
    CHECK(length == sizeof value);
  }
  CHECK(count == 20000);
  for (leveldb_iter_seek_to_last(it); leveldb_iter_valid(it); leveldb_iter_prev(it)) count--;
  CHECK(count == -2);
  leveldb_iter_get_error(it, &error);
  CHECK_OK(error);
  leveldb_iter_destroy(it);
  leveldb_close(db);
}

/* Repetitive bytes take less space if they are compressed. */
static void compression(const char* path) {
  char* error = NULL;
  uint64_t sizes[2] = {0, 0};
  char key[16], value[1000];
  memset(value, 'v', sizeof value);
  for (int kind = 0; kind < 2; kind++) {
    leveldb_options_set_compression(options, kind);
    leveldb_t* db = open_or_fail(path);
    for (int i = 0; i < 2000; i++) {
      int klen = snprintf(key, sizeof key, "%08d", i);
      leveldb_put(db, wo, key, (size_t)klen, value, sizeof value, &error);
      CHECK_OK(error);
    }
    leveldb_compact_range(db, NULL, 0, NULL, 0);
    const char *start = "0", *limit = "1";
    size_t length = 1;
    leveldb_approximate_sizes(db, 1, &start, &length, &limit, &length, &sizes[kind]);
    leveldb_close(db);
    leveldb_destroy_db(options, path, &error);
    CHECK_OK(error);
  }
  CHECK(sizes[0] > 1500000 && sizes[1] < sizes[0] / 4);
}

static void comparators(const char* path) {
  char* error = NULL;
  leveldb_comparator_t* order =
      leveldb_comparator_create((void*)"state", comparator_destroyed, reversed, reversed_name);
  leveldb_comparator_t* other =
      leveldb_comparator_create((void*)"state", comparator_destroyed, reversed, another_name);
  leveldb_options_set_comparator(options, order);
  leveldb_t* db = open_or_fail(path);
  put_text(db, wo, "a", "1");
  put_text(db, wo, "aa", "2");
  put_text(db, wo, "b", "3");
  for (int round = 0; round < 2; round++) {
    leveldb_iterator_t* it = leveldb_create_iterator(db, ro);
    leveldb_iter_seek_to_first(it);
    CHECK_PAIR(it, "b", "3");
    leveldb_iter_next(it);
    CHECK_PAIR(it, "aa", "2");
    leveldb_iter_next(it);
    CHECK_PAIR(it, "a", "1");
    leveldb_iter_seek(it, "ab", 2);
    CHECK_PAIR(it, "aa", "2");
    leveldb_iter_destroy(it);
    leveldb_compact_range(db, NULL, 0, NULL, 0);
  }
  const char* starts[2] = {"b", "a"};
  const char* limits[2] = {"a", "b"};
  size_t lengths[2] = {1, 1};
  uint64_t sizes[2] = {7, 7};
  leveldb_approximate_sizes(db, 2, starts, lengths, limits, lengths, sizes);
  CHECK(sizes[1] == 0);
  leveldb_close(db);

  leveldb_options_set_comparator(options, other);
  CHECK(leveldb_open(options, path, &error) == NULL);
  CHECK_ERROR(error, "Invalid argument: ", "test.Reversed does not match existing comparator : test.Another");
  leveldb_options_set_comparator(options, order);
  db = open_or_fail(path);
  CHECK_VALUE(db, ro, "aa", "2");
  leveldb_close(db);
  leveldb_destroy_db(options, path, &error);
  CHECK_OK(error);
  CHECK(destroyed_comparators == 0);
  leveldb_comparator_destroy(other);
  CHECK(destroyed_comparators == 1);
  leveldb_comparator_destroy(order);
  CHECK(destroyed_comparators == 2);
}

/* Keys that are equal by the comparator are the same key, even if their bytes differ; also with
 * a filter that ignores the same parts of keys as the comparator. */
static void equal_keys(const char* path, leveldb_filterpolicy_t* policy) {
  char* error = NULL;
  leveldb_options_set_filter_policy(options, policy);
  leveldb_comparator_t* order =
      leveldb_comparator_create((void*)"state", comparator_destroyed, without_case, without_case_name);
  leveldb_options_set_comparator(options, order);
  leveldb_t* db = open_or_fail(path);
  put_text(db, wo, "Key", "1");
  put_text(db, wo, "other", "2");
  for (int round = 0; round < 3; round++) {
    CHECK_VALUE(db, ro, "kEY", "1");
    CHECK_VALUE(db, ro, "OTHER", "2");
    CHECK_VALUE(db, ro, "none", NULL);
    if (round == 0) leveldb_compact_range(db, NULL, 0, NULL, 0);
    if (round == 1) {
      leveldb_close(db);
      db = open_or_fail(path);
    }
  }
  put_text(db, wo, "KEY", "3");
  leveldb_delete(db, wo, "Other", 5, &error);
  CHECK_OK(error);
  for (int round = 0; round < 2; round++) {
    CHECK_VALUE(db, ro, "key", "3");
    CHECK_VALUE(db, ro, "other", NULL);
    leveldb_iterator_t* it = leveldb_create_iterator(db, ro);
    leveldb_iter_seek(it, "kEy", 3);
    size_t length = 0;
    CHECK(leveldb_iter_valid(it));
    const char* value = leveldb_iter_value(it, &length);
    CHECK(is_text(value, length, "3"));
    leveldb_iter_next(it);
    CHECK(!leveldb_iter_valid(it));
    leveldb_iter_destroy(it);
    leveldb_compact_range(db, NULL, 0, NULL, 0);
  }
  leveldb_close(db);
  leveldb_destroy_db(options, path, &error);
  CHECK_OK(error);
  leveldb_comparator_destroy(order);
  CHECK(destroyed_comparators == 1);
  destroyed_comparators = 0;
  leveldb_options_set_filter_policy(options, NULL);
}

static void filters(const char* path) {
  char* error = NULL;
  for (int round = 0; round < 3; round++) {
    leveldb_filterpolicy_t* policy = NULL;
    if (round == 1) policy = leveldb_filterpolicy_create_bloom(10);
    if (round == 2) {
      policy = leveldb_filterpolicy_create((void*)"policy", policy_destroyed, create_filter, may_match, policy_name);
    }
    leveldb_options_set_filter_policy(options, policy);
    leveldb_t* db = open_or_fail(path);
    put_text(db, wo, "foo", "foovalue");
    put_text(db, wo, "bar", "barvalue");
    leveldb_compact_range(db, NULL, 0, NULL, 0);
    CHECK_VALUE(db, ro, "foo", "foovalue");
    CHECK_VALUE(db, ro, "bar", "barvalue");
    CHECK_VALUE(db, ro, "baz", NULL);
    leveldb_close(db);
    leveldb_options_set_filter_policy(options, NULL);
    if (policy != NULL) leveldb_filterpolicy_destroy(policy);
  }
  CHECK(destroyed_policies == 1);
  leveldb_destroy_db(options, path, &error);
  CHECK_OK(error);
}

static void write_file(const char* path) {
  FILE* file = fopen(path, "w");
  CHECK(file != NULL && fputs("not the database's", file) > 0 && fclose(file) == 0);
}

/* A database can be created next to other files, which no operation on the database removes; but
 * only if its directory can be created. */
static void beside_other_files(const char* dir) {
  char* error = NULL;
  char* path = path_in(dir, "beside");
  char* letter = path_in(path, "letter.txt");
  char* draft = path_in(path, "draft.tmp");
  CHECK(mkdir(path, 0755) == 0);
  write_file(letter);
  write_file(draft);
  leveldb_repair_db(options, path, &error);
  CHECK_OK(error);
  for (int round = 0; round < 3; round++) {
    leveldb_t* db = open_or_fail(path);
    CHECK_VALUE(db, ro, "k", round == 0 ? NULL : "v");
    put_text(db, wo, "k", "v");
    leveldb_close(db);
    leveldb_repair_db(options, path, &error);
    CHECK_OK(error);
    CHECK(access(letter, F_OK) == 0 && access(draft, F_OK) == 0);
  }
  leveldb_destroy_db(options, path, &error);
  CHECK_OK(error);
  CHECK(access(letter, F_OK) == 0 && access(draft, F_OK) == 0);
  leveldb_close(open_or_fail(path));
  leveldb_destroy_db(options, path, &error);
  CHECK_OK(error);
  CHECK(access(letter, F_OK) == 0 && access(draft, F_OK) == 0);
  free(draft);
  free(letter);
  free(path);

  char* nowhere = path_in(dir, "nowhere");
  path = path_in(nowhere, "db");
  for (uint8_t create = 0; create < 2; create++) {
    leveldb_options_set_create_if_missing(options, create);
    CHECK(leveldb_open(options, path, &error) == NULL);
    CHECK_ERROR(error, "NotFound: ", "nowhere/db/LOCK: No such file or directory");
    leveldb_repair_db(options, path, &error);
    CHECK_ERROR(error, "NotFound: ", "nowhere/db");
    leveldb_destroy_db(options, path, &error);
    CHECK_OK(error);
    CHECK(access(nowhere, F_OK) != 0);
  }
  free(nowhere);
  free(path);
}

/* If the name is a symbolic link, or ends in "/" or "/.", the directory itself is repaired. */
static void repairing_by_other_names(const char* dir) {
  char* error = NULL;
  char* path = path_in(dir, "named");
  char* relative = path_in(dir, "relative");
  char* absolute = path_in(dir, "absolute");
  CHECK(symlink("named", relative) == 0 && symlink(path, absolute) == 0);
  const char* names[] = {"named", "relative", "absolute", "named/", "named/.", "relative/", "absolute/."};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    char key[2] = {(char)('a' + i), '\0'};
    char* name = path_in(dir, names[i]);
    leveldb_t* db = open_or_fail(path);
    put_text(db, wo, key, "v");
    leveldb_close(db);
    leveldb_repair_db(options, name, &error);
    CHECK_OK(error);
    struct stat found;
    CHECK(lstat(relative, &found) == 0 && S_ISLNK(found.st_mode));
    CHECK(lstat(absolute, &found) == 0 && S_ISLNK(found.st_mode));
    db = open_or_fail(path);
    for (; key[0] >= 'a'; key[0]--) CHECK_VALUE(db, ro, key, "v");
    leveldb_close(db);
    free(name);
  }
  leveldb_destroy_db(options, path, &error);
  CHECK_OK(error);
  CHECK(unlink(relative) == 0 && unlink(absolute) == 0);
  free(absolute);
  free(relative);
  free(path);
}

static void managing(const char* path, const char* missing) {
  char* error = NULL;
  leveldb_repair_db(options, path, &error);
  CHECK_OK(error);
  leveldb_options_set_create_if_missing(options, 0);
  leveldb_t* db = open_or_fail(path);
  CHECK_VALUE(db, ro, "box", "later");
  CHECK_VALUE(db, ro, "synced", NULL);
  leveldb_close(db);

  char* theirs = path_in(path, "letter.txt");
  write_file(theirs);
  leveldb_repair_db(options, path, &error);
  CHECK_OK(error);
  CHECK(access(theirs, F_OK) == 0);
  leveldb_destroy_db(options, path, &error);
  CHECK_OK(error);
  CHECK(access(theirs, F_OK) == 0);
  CHECK(leveldb_open(options, path, &error) == NULL);
  CHECK_ERROR(error, "Invalid argument: ", "");
  CHECK(unlink(theirs) == 0);
  leveldb_destroy_db(options, path, &error);
  CHECK_OK(error);
  free(theirs);

  /* Repairing an empty directory gives an empty database. */
  leveldb_repair_db(options, missing, &error);
  CHECK_OK(error);
  db = open_or_fail(missing);
  CHECK_VALUE(db, ro, "box", NULL);
  leveldb_close(db);
  leveldb_destroy_db(options, missing, &error);
  CHECK_OK(error);
  leveldb_options_set_create_if_missing(options, 1);
}

static leveldb_t* shared_db;

static void* work(void* argument) {
  const char* name = argument;
  char key[32], value[32];
  leveldb_readoptions_t* reading = leveldb_readoptions_create();
  leveldb_writeoptions_t* writing = leveldb_writeoptions_create();
  for (int i = 0; i < 2000; i++) {
    snprintf(key, sizeof key, "%s%d", name, i % 100);
    snprintf(value, sizeof value, "%d", i);
    put_text(shared_db, writing, key, value);
    CHECK_VALUE(shared_db, reading, key, value);
  }
  leveldb_writeoptions_destroy(writing);
  leveldb_readoptions_destroy(reading);
  return NULL;
}

static void threads(const char* path) {
  static char names[4][2] = {"a", "b", "c", "d"};
  pthread_t ids[4];
  shared_db = open_or_fail(path);
  for (int i = 0; i < 4; i++) CHECK(pthread_create(&ids[i], NULL, work, names[i]) == 0);
  for (int i = 0; i < 4; i++) CHECK(pthread_join(ids[i], NULL) == 0);
  CHECK_VALUE(shared_db, ro, "a0", "1900");
  CHECK_VALUE(shared_db, ro, "d99", "1999");
  leveldb_close(shared_db);
}

/* A second process, with nothing open, finds the database locked by this one, and free after it
 * is closed. */
static void processes(const char* path) {
  int to_child[2], to_parent[2];
  CHECK(pipe(to_child) == 0 && pipe(to_parent) == 0);
  char byte = 0;
  pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    char* error = NULL;
    alarm(120);
    CHECK(read(to_child[0], &byte, 1) == 1);
    CHECK(leveldb_open(options, path, &error) == NULL);
    CHECK_ERROR(error, "IO error: lock ", "/LOCK: ");
    CHECK(write(to_parent[1], "x", 1) == 1);
    CHECK(read(to_child[0], &byte, 1) == 1);
    leveldb_t* db = open_or_fail(path);
    CHECK_VALUE(db, ro, "from", "parent");
    put_text(db, wo, "from", "child");
    leveldb_close(db);
    _exit(0);
  }
  leveldb_t* db = open_or_fail(path);
  put_text(db, wo, "from", "parent");
  CHECK(write(to_child[1], "x", 1) == 1 && read(to_parent[0], &byte, 1) == 1);
  leveldb_close(db);
  CHECK(write(to_child[1], "x", 1) == 1);
  int status = 1;
  CHECK(waitpid(child, &status, 0) == child && status == 0);
  db = open_or_fail(path);
  CHECK_VALUE(db, ro, "from", "child");
  leveldb_close(db);
  for (int i = 0; i < 2; i++) close(to_child[i]), close(to_parent[i]);
}

int main(int argc, char** argv) {
  CHECK(argc == 2);
  const char* dir = argv[1];
  CHECK(leveldb_major_version() == 1 && leveldb_minor_version() == 23);
  CHECK(leveldb_no_compression == 0 && leveldb_snappy_compression == 1);
  leveldb_free(NULL);

  leveldb_env_t* env = leveldb_create_default_env();
  CHECK(setenv("TEST_TMPDIR", dir, 1) == 0);
  char* test_dir = leveldb_env_get_test_directory(env);
  CHECK(test_dir != NULL && strcmp(test_dir, dir) == 0);
  leveldb_free(test_dir);
  CHECK(unsetenv("TEST_TMPDIR") == 0);
  test_dir = leveldb_env_get_test_directory(env);
  struct stat found;
  CHECK(test_dir != NULL && strncmp(test_dir, "/tmp/leveldbtest-", 17) == 0 && stat(test_dir, &found) == 0);
  leveldb_free(test_dir);

  leveldb_cache_t* cache = leveldb_cache_create_lru(100000);
  options = leveldb_options_create();
  leveldb_options_set_env(options, env);
  leveldb_options_set_info_log(options, NULL);
  leveldb_options_set_cache(options, cache);
  leveldb_options_set_write_buffer_size(options, 100000);
  leveldb_options_set_paranoid_checks(options, 1);
  leveldb_options_set_max_open_files(options, 20);
  leveldb_options_set_block_size(options, 1024);
  leveldb_options_set_block_restart_interval(options, 8);
  leveldb_options_set_max_file_size(options, 3 << 20);
  leveldb_options_set_compression(options, leveldb_no_compression);
  ro = leveldb_readoptions_create();
  leveldb_readoptions_set_verify_checksums(ro, 1);
  leveldb_readoptions_set_fill_cache(ro, 0);
  wo = leveldb_writeoptions_create();

  char* path = path_in(dir, "db");
  char* other = path_in(dir, "other");
  char* missing = path_in(dir, "missing");
  leveldb_options_set_create_if_missing(options, 1);
  processes(other); /* first, as nothing must be open before the fork */
  leveldb_options_set_create_if_missing(options, 0);
  char* error = NULL;
  leveldb_destroy_db(options, other, &error);
  CHECK_OK(error);
  CHECK(access(other, F_OK) != 0);

  opening(path);
  reading_and_writing(path);
  leveldb_options_set_compression(options, leveldb_snappy_compression);
  batches(path);
  iterators(path);
  snapshots(path);
  properties_and_sizes(path);
  managing(path, missing);
  beside_other_files(dir);
  repairing_by_other_names(dir);
  filters(other);
  threads(other);
  leveldb_destroy_db(options, other, &error);
  CHECK_OK(error);
  compression(other);
  equal_keys(other, NULL);
  leveldb_filterpolicy_t* policy =
      leveldb_filterpolicy_create((void*)"policy", policy_destroyed, create_filter, may_match, policy_name);
  equal_keys(other, policy);
  leveldb_filterpolicy_destroy(policy);
  comparators(other);

  free(missing);
  free(other);
  free(path);
  leveldb_writeoptions_destroy(wo);
  leveldb_readoptions_destroy(ro);
  leveldb_options_destroy(options);
  leveldb_cache_destroy(cache);
  leveldb_env_destroy(env);
  puts("PASS");
  return 0;
}
