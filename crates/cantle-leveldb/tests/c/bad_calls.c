/* Calls that LevelDB does not allow. Here they return errors, or have no effect. */
#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

static leveldb_options_t* options;
static leveldb_readoptions_t* ro;
static leveldb_writeoptions_t* wo;
static const char* bad = "Invalid argument: ";

static leveldb_t* open_or_fail(const char* path) {
  char* error = NULL;
  leveldb_t* db = leveldb_open(options, path, &error);
  CHECK_OK(error);
  CHECK(db != NULL);
  return db;
}

/* Every operation on a handle that is not a database. */
static void check_none(leveldb_t* db, const char* prefix) {
  char* error = NULL;
  size_t length = 7;
  leveldb_put(db, wo, "k", 1, "v", 1, &error);
  CHECK_ERROR(error, prefix, "database");
  leveldb_delete(db, wo, "k", 1, &error);
  CHECK_ERROR(error, prefix, "database");
  leveldb_writebatch_t* batch = leveldb_writebatch_create();
  leveldb_write(db, wo, batch, &error);
  CHECK_ERROR(error, prefix, "database");
  leveldb_writebatch_destroy(batch);
  CHECK(leveldb_get(db, ro, "k", 1, &length, &error) == NULL && length == 0);
  CHECK_ERROR(error, prefix, "database");
  leveldb_get(db, ro, "k", 1, NULL, NULL);
  leveldb_put(db, wo, "k", 1, "v", 1, NULL);
  CHECK(leveldb_create_iterator(db, ro) == NULL);
  CHECK(leveldb_create_snapshot(db) == NULL);
  CHECK(leveldb_property_value(db, "leveldb.stats") == NULL);
  const char* key = "k";
  uint64_t size = 7;
  length = 1;
  leveldb_approximate_sizes(db, 1, &key, &length, &key, &length, &size);
  CHECK(size == 0);
  leveldb_compact_range(db, NULL, 0, NULL, 0);
  leveldb_close(db);
}

static void check_no_iterator(leveldb_iterator_t* it) {
  char* error = NULL;
  size_t length = 7;
  leveldb_iter_seek_to_first(it);
  leveldb_iter_seek_to_last(it);
  leveldb_iter_seek(it, "k", 1);
  leveldb_iter_next(it);
  leveldb_iter_prev(it);
  CHECK(!leveldb_iter_valid(it));
  CHECK(leveldb_iter_key(it, &length) == NULL && length == 0);
  CHECK(leveldb_iter_value(it, NULL) == NULL);
  leveldb_iter_get_error(it, &error);
  CHECK_ERROR(error, bad, "iterator");
  leveldb_iter_get_error(it, NULL);
  leveldb_iter_destroy(it);
}

static void no_extensions(void) {
  char* error = NULL;
  CHECK(leveldb_iter_cantle_view(NULL) == NULL && leveldb_iter_cantle_view((leveldb_iterator_t*)ro) == NULL);
  CHECK(leveldb_cantle_get(NULL, ro, "k", 1, NULL, NULL, &error) == 0);
  CHECK_ERROR(error, bad, "database");
}

static void nulls(const char* path) {
  char* error = NULL;
  CHECK(leveldb_open(NULL, path, &error) == NULL);
  CHECK_ERROR(error, bad, "options");
  CHECK(leveldb_open(options, NULL, &error) == NULL);
  CHECK_ERROR(error, bad, "name is null");
  CHECK(leveldb_open(options, "", &error) == NULL);
  CHECK_ERROR(error, bad, "name is empty");
  CHECK(leveldb_open(options, NULL, NULL) == NULL);
  leveldb_destroy_db(NULL, path, &error);
  CHECK_ERROR(error, bad, "options");
  leveldb_destroy_db(options, NULL, &error);
  CHECK_ERROR(error, bad, "name is null");
  leveldb_repair_db(NULL, path, &error);
  CHECK_ERROR(error, bad, "options");
  leveldb_repair_db(options, NULL, &error);
  CHECK_ERROR(error, bad, "name is null");
  check_none(NULL, bad);
  check_no_iterator(NULL);
  leveldb_release_snapshot(NULL, NULL);
  leveldb_writebatch_destroy(NULL);
  leveldb_writebatch_clear(NULL);
  leveldb_writebatch_put(NULL, "k", 1, "v", 1);
  leveldb_writebatch_delete(NULL, "k", 1);
  leveldb_writebatch_iterate(NULL, NULL, NULL, NULL);
  leveldb_writebatch_append(NULL, NULL);
  leveldb_options_destroy(NULL);
  leveldb_options_set_comparator(NULL, NULL);
  leveldb_options_set_filter_policy(NULL, NULL);
  leveldb_options_set_create_if_missing(NULL, 1);
  leveldb_options_set_error_if_exists(NULL, 1);
  leveldb_options_set_paranoid_checks(NULL, 1);
  leveldb_options_set_env(NULL, NULL);
  leveldb_options_set_info_log(NULL, NULL);
  leveldb_options_set_write_buffer_size(NULL, 1);
  leveldb_options_set_max_open_files(NULL, 1);
  leveldb_options_set_cache(NULL, NULL);
  leveldb_options_set_block_size(NULL, 1);
  leveldb_options_set_block_restart_interval(NULL, 1);
  leveldb_options_set_max_file_size(NULL, 1);
  leveldb_options_set_compression(NULL, 1);
  leveldb_options_set_cantle_memory_budget(NULL, 1);
  leveldb_options_set_cantle_layout(NULL, NULL);
  CHECK(leveldb_comparator_create(NULL, NULL, NULL, NULL) == NULL);
  leveldb_comparator_destroy(NULL);
  leveldb_filterpolicy_destroy(NULL);
  leveldb_filterpolicy_destroy(leveldb_filterpolicy_create(NULL, NULL, NULL, NULL, NULL));
  leveldb_readoptions_destroy(NULL);
  leveldb_readoptions_set_verify_checksums(NULL, 1);
  leveldb_readoptions_set_fill_cache(NULL, 1);
  leveldb_readoptions_set_snapshot(NULL, NULL);
  leveldb_writeoptions_destroy(NULL);
  leveldb_writeoptions_set_sync(NULL, 1);
  leveldb_cache_destroy(NULL);
  leveldb_env_destroy(NULL);
  CHECK(leveldb_env_get_test_directory(NULL) == NULL);
}

static void arguments(const char* path) {
  char* error = NULL;
  size_t length = 7;
  leveldb_t* db = open_or_fail(path);
  leveldb_put(db, NULL, "k", 1, "v", 1, &error);
  CHECK_ERROR(error, bad, "write options");
  leveldb_put(db, wo, NULL, 3, "v", 1, &error);
  CHECK_ERROR(error, bad, "key is null");
  leveldb_put(db, wo, "k", 1, NULL, 3, &error);
  CHECK_ERROR(error, bad, "value is null");
  leveldb_put(db, wo, "k", SIZE_MAX, "v", 1, &error);
  CHECK_ERROR(error, bad, "longer than memory");
  leveldb_put(db, wo, NULL, 0, NULL, 0, &error);
  CHECK_OK(error);
  leveldb_delete(db, wo, NULL, 3, &error);
  CHECK_ERROR(error, bad, "key is null");
  leveldb_write(db, wo, NULL, &error);
  CHECK_ERROR(error, bad, "write batch");
  CHECK(leveldb_get(db, NULL, "k", 1, &length, &error) == NULL && length == 0);
  CHECK_ERROR(error, bad, "read options");
  CHECK(leveldb_get(db, ro, NULL, 3, &length, &error) == NULL);
  CHECK_ERROR(error, bad, "key is null");
  char* value = leveldb_get(db, ro, "", 0, NULL, &error);
  CHECK_OK(error);
  CHECK(value != NULL);
  leveldb_free(value);
  CHECK(leveldb_property_value(db, NULL) == NULL);
  leveldb_approximate_sizes(db, 1, NULL, NULL, NULL, NULL, NULL);
  uint64_t size = 7;
  leveldb_approximate_sizes(db, 1, NULL, NULL, NULL, NULL, &size);
  CHECK(size == 0);
  leveldb_approximate_sizes(db, -1, NULL, NULL, NULL, NULL, &size);

  leveldb_iterator_t* it = leveldb_create_iterator(db, NULL);
  leveldb_iter_seek_to_first(it);
  CHECK(!leveldb_iter_valid(it));
  leveldb_iter_get_error(it, &error);
  CHECK_ERROR(error, bad, "read options");
  leveldb_iter_destroy(it);
  it = leveldb_create_iterator(db, ro);
  leveldb_iter_next(it);
  leveldb_iter_prev(it);
  CHECK(!leveldb_iter_valid(it) && leveldb_iter_key(it, &length) == NULL);
  leveldb_iter_seek(it, NULL, 3);
  leveldb_iter_get_error(it, &error);
  CHECK_ERROR(error, bad, "key is null");
  leveldb_iter_seek_to_first(it);
  CHECK_PAIR(it, "", "");
  leveldb_iter_get_error(it, &error);
  CHECK_OK(error);
  leveldb_iter_destroy(it);

  size_t longest = 1 << 20;
  char* key = malloc(longest + 1);
  CHECK(key != NULL);
  memset(key, 'k', longest + 1);
  leveldb_put(db, wo, key, longest, "v", 1, &error);
  CHECK_OK(error);
  leveldb_put(db, wo, key, longest + 1, "v", 1, &error);
  CHECK_ERROR(error, bad, "key");
  CHECK(leveldb_get(db, ro, key, longest + 1, &length, &error) == NULL);
  if (error != NULL) CHECK_ERROR(error, bad, "key");
  leveldb_writebatch_t* batch = leveldb_writebatch_create();
  leveldb_writebatch_put(batch, "small", 5, "v", 1);
  leveldb_writebatch_put(batch, key, longest + 1, "v", 1);
  leveldb_write(db, wo, batch, &error);
  CHECK_ERROR(error, bad, "key");
  CHECK_VALUE(db, ro, "small", NULL);
  free(key);

  /* A batch remembers an operation that could not be added, until it is cleared. */
  leveldb_writebatch_clear(batch);
  leveldb_writebatch_put(batch, "small", 5, NULL, 3);
  leveldb_writebatch_t* all = leveldb_writebatch_create();
  leveldb_writebatch_append(all, batch);
  leveldb_write(db, wo, all, &error);
  CHECK_ERROR(error, bad, "value is null");
  leveldb_writebatch_clear(batch);
  leveldb_writebatch_put(batch, "small", 5, "v", 1);
  leveldb_writebatch_append(batch, batch);
  leveldb_writebatch_iterate(batch, NULL, NULL, NULL);
  leveldb_write(db, wo, batch, &error);
  CHECK_OK(error);
  CHECK_VALUE(db, ro, "small", "v");
  leveldb_writebatch_destroy(all);
  leveldb_writebatch_destroy(batch);
  leveldb_writebatch_destroy(batch);
  leveldb_writebatch_put(batch, "k", 1, "v", 1);
  leveldb_write(db, wo, batch, &error);
  CHECK_ERROR(error, bad, "write batch");

  /* Objects of one type passed as another type. */
  leveldb_write(db, wo, (leveldb_writebatch_t*)ro, &error);
  CHECK_ERROR(error, bad, "write batch");
  check_none((leveldb_t*)ro, bad);
  check_none((leveldb_t*)&error, bad);
  check_no_iterator((leveldb_iterator_t*)db);
  leveldb_close(db);
}

static void after_closing(const char* path) {
  char* error = NULL;
  size_t length = 7;
  leveldb_t* db = open_or_fail(path);
  leveldb_t* other = db;
  put_text(db, wo, "k", "v");
  leveldb_iterator_t* it = leveldb_create_iterator(db, ro);
  leveldb_iter_seek(it, "k", 1);
  CHECK_PAIR(it, "k", "v");
  const leveldb_snapshot_t* snapshot = leveldb_create_snapshot(db);
  leveldb_iterator_t* gone = leveldb_create_iterator(db, ro);
  leveldb_iter_destroy(gone);
  check_no_iterator(gone);
  leveldb_close(db);
  CHECK(!leveldb_iter_valid(it));
  CHECK(leveldb_iter_key(it, &length) == NULL && length == 0);
  leveldb_iter_seek_to_first(it);
  CHECK(!leveldb_iter_valid(it));
  leveldb_iter_get_error(it, &error);
  CHECK_ERROR(error, "IO error: ", "closed");
  check_none(db, bad);

  /* The iterator does not hold the lock, and old handles are not taken for new ones. */
  db = open_or_fail(path);
  CHECK(db != other);
  check_none(other, bad);
  CHECK_VALUE(db, ro, "k", "v");
  leveldb_iter_seek_to_first(it);
  CHECK(!leveldb_iter_valid(it));
  leveldb_iter_destroy(it);
  leveldb_iter_destroy(it);
  leveldb_readoptions_set_snapshot(ro, snapshot);
  CHECK(leveldb_get(db, ro, "k", 1, &length, &error) == NULL);
  CHECK_ERROR(error, bad, "another database");
  leveldb_release_snapshot(other, snapshot);
  leveldb_release_snapshot(db, snapshot);
  CHECK(leveldb_get(db, ro, "k", 1, &length, &error) == NULL);
  CHECK_ERROR(error, bad, "released");
  it = leveldb_create_iterator(db, ro);
  leveldb_iter_seek_to_first(it);
  leveldb_iter_get_error(it, &error);
  CHECK_ERROR(error, bad, "released");
  leveldb_iter_destroy(it);
  leveldb_readoptions_set_snapshot(ro, NULL);

  /* Not destroyed on purpose: closing the database closes it. */
  snapshot = leveldb_create_snapshot(db);
  it = leveldb_create_iterator(db, ro);
  leveldb_iter_seek_to_last(it);
  leveldb_close(db);
}

static int destroyed = 0;

static void count(void* state) {
  (void)state;
  destroyed++;
}

static int bytewise(void* state, const char* a, size_t alen, const char* b, size_t blen) {
  (void)state;
  CHECK(destroyed == 0);
  int order = memcmp(a, b, alen < blen ? alen : blen);
  return order != 0 ? order : (alen > blen) - (alen < blen);
}

static const char* name(void* state) {
  (void)state;
  CHECK(destroyed == 0);
  return "test.Bytewise";
}

static const char* no_name(void* state) {
  (void)state;
  return NULL;
}

static const char* reserved_name(void* state) {
  (void)state;
  return "leveldb.BytewiseComparator";
}

static void lifetimes(const char* path, const char* ordinary) {
  char* error = NULL;
  leveldb_options_t* mine = leveldb_options_create();
  leveldb_options_set_create_if_missing(mine, 1);
  leveldb_comparator_t* order = leveldb_comparator_create(NULL, count, bytewise, name);
  leveldb_cache_t* cache = leveldb_cache_create_lru(1 << 20);
  leveldb_filterpolicy_t* policy = leveldb_filterpolicy_create_bloom(10);
  leveldb_env_t* env = leveldb_create_default_env();
  leveldb_options_set_comparator(mine, order);
  leveldb_options_set_cache(mine, cache);
  leveldb_options_set_filter_policy(mine, policy);
  leveldb_options_set_env(mine, env);
  leveldb_t* db = leveldb_open(mine, path, &error);
  CHECK_OK(error);
  leveldb_comparator_destroy(order);
  leveldb_comparator_destroy(order);
  leveldb_cache_destroy(cache);
  leveldb_filterpolicy_destroy(policy);
  leveldb_env_destroy(env);
  put_text(db, wo, "b", "2");
  put_text(db, wo, "a", "1");
  leveldb_compact_range(db, NULL, 0, NULL, 0);
  leveldb_iterator_t* it = leveldb_create_iterator(db, ro);
  leveldb_iter_seek_to_first(it);
  CHECK_PAIR(it, "a", "1");
  CHECK(destroyed == 0);
  leveldb_close(db);
  CHECK(destroyed == 1);
  leveldb_iter_destroy(it);
  CHECK(leveldb_open(mine, path, &error) == NULL);
  CHECK_ERROR(error, bad, "comparator was destroyed");
  leveldb_options_destroy(mine);
  CHECK(leveldb_open(mine, path, &error) == NULL);
  CHECK_ERROR(error, bad, "options");

  /* Opened without its comparator. */
  CHECK(leveldb_open(options, path, &error) == NULL);
  CHECK_ERROR(error, bad, "test.Bytewise does not match existing comparator : leveldb.BytewiseComparator");
  mine = leveldb_options_create();
  destroyed = 0;
  order = leveldb_comparator_create(NULL, NULL, bytewise, no_name);
  leveldb_options_set_comparator(mine, order);
  CHECK(leveldb_open(mine, path, &error) == NULL);
  CHECK_ERROR(error, bad, "name is null");
  leveldb_comparator_destroy(order);
  order = leveldb_comparator_create(NULL, NULL, bytewise, reserved_name);
  leveldb_options_set_comparator(mine, order);
  db = leveldb_open(mine, ordinary, &error);
  CHECK_OK(error);
  leveldb_close(db);
  leveldb_comparator_destroy(order);
  leveldb_options_set_comparator(mine, NULL);
  CHECK(leveldb_open(mine, path, &error) == NULL);
  CHECK_ERROR(error, bad, "comparator is null");
  leveldb_options_destroy(mine);
  mine = leveldb_options_create();
  leveldb_options_set_cache(mine, cache);
  CHECK(leveldb_open(mine, ordinary, &error) == NULL);
  CHECK_ERROR(error, bad, "cache is null, was destroyed");
  leveldb_options_set_env(mine, env);
  leveldb_options_set_cache(mine, NULL);
  CHECK(leveldb_open(mine, ordinary, &error) == NULL);
  CHECK_ERROR(error, bad, "environment is null, was destroyed");
  leveldb_options_set_env(mine, NULL);
  leveldb_options_set_filter_policy(mine, policy);
  CHECK(leveldb_open(mine, ordinary, &error) == NULL);
  CHECK_ERROR(error, bad, "filter policy is null, was destroyed");
  leveldb_options_set_filter_policy(mine, (leveldb_filterpolicy_t*)mine);
  CHECK(leveldb_open(mine, ordinary, &error) == NULL);
  CHECK_ERROR(error, bad, "filter policy is null, was destroyed");
  leveldb_options_set_filter_policy(mine, NULL);
  leveldb_options_set_comparator(mine, order);
  CHECK(leveldb_open(mine, ordinary, &error) == NULL);
  CHECK_ERROR(error, bad, "comparator is null, was destroyed");
  /* A valid object replaces an invalid one. */
  order = leveldb_comparator_create(NULL, NULL, bytewise, reserved_name);
  cache = leveldb_cache_create_lru(1 << 20);
  env = leveldb_create_default_env();
  policy = leveldb_filterpolicy_create_bloom(10);
  leveldb_options_set_comparator(mine, order);
  leveldb_options_set_cache(mine, cache);
  leveldb_options_set_env(mine, env);
  leveldb_options_set_filter_policy(mine, policy);
  leveldb_close(leveldb_open(mine, ordinary, &error));
  CHECK_OK(error);
  leveldb_comparator_destroy(order);
  leveldb_cache_destroy(cache);
  leveldb_env_destroy(env);
  leveldb_filterpolicy_destroy(policy);
  leveldb_options_destroy(mine);
  mine = leveldb_options_create();
  leveldb_options_set_compression(mine, 9);
  CHECK(leveldb_open(mine, ordinary, &error) == NULL);
  CHECK_ERROR(error, bad, "no compression 9");
  leveldb_options_destroy(mine);
}

static void forks(const char* path) {
  leveldb_t* db = open_or_fail(path);
  put_text(db, wo, "k", "v");
  leveldb_iterator_t* it = leveldb_create_iterator(db, ro);
  leveldb_iter_seek_to_first(it);
  const leveldb_snapshot_t* snapshot = leveldb_create_snapshot(db);
  pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    char* error = NULL;
    alarm(120); /* ends the test if the child waits for a thread that does not exist there */
    check_none(db, "IO error: ");
    leveldb_iter_next(it);
    CHECK(!leveldb_iter_valid(it));
    leveldb_iter_get_error(it, &error);
    CHECK_ERROR(error, "IO error: ", "fork()");
    leveldb_iter_destroy(it);
    leveldb_release_snapshot(db, snapshot);
    leveldb_close(db);
    CHECK(leveldb_open(options, path, &error) == NULL);
    CHECK_ERROR(error, "IO error: lock ", "held by process");
    _exit(0);
  }
  int status = 1;
  CHECK(waitpid(child, &status, 0) == child && status == 0);
  put_text(db, wo, "k", "still");
  CHECK_VALUE(db, ro, "k", "still");
  leveldb_iter_seek(it, "k", 1);
  CHECK_PAIR(it, "k", "v");
  leveldb_iter_destroy(it);
  leveldb_release_snapshot(db, snapshot);
  leveldb_close(db);
}

#if !defined(__SANITIZE_ADDRESS__) /* AddressSanitizer's own locks do not survive forks */
/* The child exits with success. An alarm ends a child that waits for a lock that is never
 * released. */
static void in_child(pid_t child) {
  int status = 1;
  CHECK(child > 0 && waitpid(child, &status, 0) == child);
  CHECK(status == 0);
}

static atomic_int has_ended = 0;

static void* options_in_a_loop(void* unused) {
  leveldb_cache_t* cache = leveldb_cache_create_lru(1 << 20);
  while (!has_ended) {
    leveldb_options_t* mine = leveldb_options_create();
    leveldb_options_set_cache(mine, cache);
    leveldb_comparator_t* order = leveldb_comparator_create(NULL, NULL, bytewise, name);
    leveldb_options_set_comparator(mine, order);
    leveldb_comparator_destroy(order);
    leveldb_options_destroy(mine);
  }
  leveldb_cache_destroy(cache);
  return unused;
}

/* The child can go on, in whatever state the other threads are when the process forks. */
static void forks_while_objects_come_and_go(void) {
  pthread_t id;
  CHECK(pthread_create(&id, NULL, options_in_a_loop, NULL) == 0);
  for (int round = 0; round < 50; round++) {
    pid_t child = fork();
    if (child == 0) {
      alarm(60);
      for (int i = 0; i < 10; i++) {
        leveldb_options_t* mine = leveldb_options_create();
        leveldb_comparator_t* order = leveldb_comparator_create(NULL, NULL, bytewise, name);
        leveldb_options_set_comparator(mine, order);
        leveldb_options_destroy(mine);
        leveldb_comparator_destroy(order);
      }
      _exit(0);
    }
    in_child(child);
  }
  has_ended = 1;
  CHECK(pthread_join(id, NULL) == 0);
}

/* Bytes of the budget that databases with the same cache use. */
static uint64_t used_bytes(leveldb_t* db) {
  char* text = leveldb_property_value(db, "leveldb.approximate-memory-usage");
  CHECK(text != NULL);
  uint64_t used = strtoull(text, NULL, 10);
  leveldb_free(text);
  return used;
}

/* Opens a database whose pairs are in memory. The first one of a process finds no other there. */
static leveldb_t* open_and_fill(leveldb_options_t* mine, const char* path, int is_first) {
  char* error = NULL;
  char key[16], value[1000];
  memset(value, 'v', sizeof value);
  leveldb_t* db = leveldb_open(mine, path, &error);
  CHECK_OK(error);
  if (is_first) CHECK(used_bytes(db) < 1 << 19);
  for (int i = 0; i < 8000; i++) {
    size_t length = 0;
    int klen = snprintf(key, sizeof key, "%d", i % 4000);
    if (i < 4000) leveldb_put(db, wo, key, (size_t)klen, value, sizeof value, &error);
    leveldb_free(leveldb_get(db, ro, key, (size_t)klen, &length, &error));
    CHECK_OK(error);
  }
  leveldb_compact_range(db, NULL, 0, NULL, 0);
  return db;
}

/* Databases of the child share resources that the child made, not those that it inherited from
 * its parent. */
static void caches_after_forks(const char* path, const char* dir) {
  char* error = NULL;
  leveldb_options_t* mine = leveldb_options_create();
  leveldb_cache_t* cache = leveldb_cache_create_lru(80 << 20);
  leveldb_options_set_create_if_missing(mine, 1);
  leveldb_options_set_cache(mine, cache);
  leveldb_t* db = open_and_fill(mine, path, 1);
  CHECK(used_bytes(db) > 1 << 20);
  put_text(db, wo, "k", "v");
  /* The cache stays. An open database has threads, which may be running when the process forks;
   * a child may then be ended by a signal. */
  leveldb_close(db);
  char* of_child = path_in(dir, "of_child");
  int status = -1;
  for (int attempt = 0; attempt < 2 && status != 0; attempt++) {
    usleep(200000);
    pid_t child = fork();
    if (child == 0) {
      alarm(10);
      leveldb_close(open_and_fill(mine, of_child, 1));
      leveldb_cache_destroy(cache);
      leveldb_close(open_and_fill(mine, of_child, 0));
      leveldb_options_destroy(mine);
      _exit(0);
    }
    CHECK(child > 0 && waitpid(child, &status, 0) == child);
    CHECK(status == 0 || WIFSIGNALED(status));
    leveldb_destroy_db(mine, of_child, &error);
    CHECK_OK(error);
  }
  db = leveldb_open(mine, path, &error);
  CHECK_OK(error);
  CHECK_VALUE(db, ro, "k", "v");
  leveldb_close(db);
  leveldb_cache_destroy(cache);
  leveldb_options_destroy(mine);
  free(of_child);
}
#endif

static leveldb_t* shared_db;

/* Reads and writes until the database is closed. */
static void* work(void* unused) {
  char key[32];
  char* error = NULL;
  leveldb_readoptions_t* reading = leveldb_readoptions_create();
  leveldb_writeoptions_t* writing = leveldb_writeoptions_create();
  for (int i = 0;; i++) {
    size_t length = 0;
    int klen = snprintf(key, sizeof key, "%d", i % 1000);
    leveldb_put(shared_db, writing, key, (size_t)klen, key, (size_t)klen, &error);
    if (error != NULL) break;
    char* value = leveldb_get(shared_db, reading, key, (size_t)klen, &length, &error);
    leveldb_free(value);
    if (error != NULL) break;
    leveldb_iterator_t* it = leveldb_create_iterator(shared_db, reading);
    leveldb_iter_seek_to_first(it);
    leveldb_iter_get_error(it, &error);
    leveldb_iter_destroy(it);
    if (it == NULL || error != NULL) break;
  }
  leveldb_free(error);
  leveldb_writeoptions_destroy(writing);
  leveldb_readoptions_destroy(reading);
  return unused;
}

static void closing_at_work(const char* path) {
  for (int round = 0; round < 10; round++) {
    pthread_t ids[3];
    shared_db = open_or_fail(path);
    for (int i = 0; i < 3; i++) CHECK(pthread_create(&ids[i], NULL, work, NULL) == 0);
    usleep(3000);
    leveldb_close(shared_db);
    for (int i = 0; i < 3; i++) CHECK(pthread_join(ids[i], NULL) == 0);
  }
}

int main(int argc, char** argv) {
  CHECK(argc == 2);
  char* path = path_in(argv[1], "db");
  char* other = path_in(argv[1], "other");
  options = leveldb_options_create();
  leveldb_options_set_create_if_missing(options, 1);
  ro = leveldb_readoptions_create();
  wo = leveldb_writeoptions_create();
  nulls(path);
  no_extensions();
  arguments(path);
  after_closing(path);
  lifetimes(other, path);
  forks(path);
#if !defined(__SANITIZE_ADDRESS__)
  forks_while_objects_come_and_go();
  caches_after_forks(path, argv[1]);
#endif
  closing_at_work(path);
  leveldb_writeoptions_destroy(wo);
  leveldb_readoptions_destroy(ro);
  leveldb_options_destroy(options);
  free(other);
  free(path);
  puts("PASS");
  return 0;
}
