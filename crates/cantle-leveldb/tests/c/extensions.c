/* Features that only Cantle has: budgets, layouts, directories with other files, damage. */
#include <dirent.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
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

static void check_budget(leveldb_t* db, const char* expected) {
  char* stats = leveldb_property_value(db, "leveldb.stats");
  CHECK(stats != NULL);
  if (strstr(stats, expected) == NULL) {
    fprintf(stderr, "expected \"%s\" in:\n%s\n", expected, stats);
    exit(1);
  }
  leveldb_free(stats);
}

static uint64_t number_of(leveldb_t* db, const char* property) {
  char* text = leveldb_property_value(db, property);
  CHECK(text != NULL);
  uint64_t number = strtoull(text, NULL, 10);
  leveldb_free(text);
  return number;
}

/* Two databases share one budget: the memory of one counts for both. */
static void check_shared(const char* path, const char* second, const char* budget) {
  char* error = NULL;
  leveldb_t* db = open_or_fail(path);
  leveldb_t* other = open_or_fail(second);
  check_budget(db, budget);
  check_budget(other, budget);
  uint64_t before = number_of(other, "leveldb.approximate-memory-usage");
  char key[16], value[1000];
  memset(value, 'v', sizeof value);
  for (int i = 0; i < 8000; i++) {
    size_t length = 0;
    int klen = snprintf(key, sizeof key, "%d", i % 4000);
    if (i < 4000) leveldb_put(db, wo, key, (size_t)klen, value, sizeof value, &error);
    CHECK_OK(error);
    char* found = leveldb_get(db, ro, key, (size_t)klen, &length, &error);
    CHECK(found != NULL && length == sizeof value);
    leveldb_free(found);
  }
  uint64_t used = number_of(other, "leveldb.approximate-memory-usage");
  if (used < before + (1 << 19)) {
    fprintf(stderr, "%s: the other database has %llu bytes, %llu before\n", budget, (unsigned long long)used, (unsigned long long)before);
    exit(1);
  }
  leveldb_close(db);
  leveldb_close(other);
}

static void budgets(const char* path, const char* second) {
  char* error = NULL;
  leveldb_t* db = open_or_fail(path);
  check_budget(db, " of 64.0 MB");
  leveldb_close(db);
  leveldb_options_set_write_buffer_size(options, 64 << 20);
  db = open_or_fail(path);
  check_budget(db, " of 136.0 MB");
  leveldb_close(db);

  /* One cache, one budget. */
  leveldb_cache_t* cache = leveldb_cache_create_lru(300 << 20);
  leveldb_options_set_cache(options, cache);
  db = open_or_fail(path);
  leveldb_options_set_write_buffer_size(options, 4 << 20);
  leveldb_t* other = open_or_fail(second);
  check_budget(db, " of 428.0 MB");
  check_budget(other, " of 428.0 MB");
  put_text(db, wo, "k", "of one");
  put_text(other, wo, "k", "of the other");
  CHECK_VALUE(db, ro, "k", "of one");
  CHECK_VALUE(other, ro, "k", "of the other");
  leveldb_close(db);
  leveldb_close(other);

  check_shared(path, second, " of 428.0 MB");
  leveldb_options_set_cantle_memory_budget(options, 32 << 20);
  check_shared(path, second, " of 32.0 MB");
  CHECK(setenv("CANTLE_MEMORY_BUDGET", "48M", 1) == 0);
  check_shared(path, second, " of 48.0 MB");
  CHECK(setenv("CANTLE_MEMORY_BUDGET", "auto", 1) == 0);
  check_shared(path, second, " MB of ");
  CHECK(setenv("CANTLE_MEMORY_BUDGET", "much", 1) == 0);
  CHECK(leveldb_open(options, path, &error) == NULL);
  CHECK_ERROR(error, bad, "CANTLE_MEMORY_BUDGET is \"much\"");
  CHECK(unsetenv("CANTLE_MEMORY_BUDGET") == 0);
  leveldb_options_set_cantle_memory_budget(options, 1000);
  CHECK(leveldb_open(options, path, &error) == NULL);
  CHECK_ERROR(error, bad, "below 1 MiB");
  leveldb_options_set_cantle_memory_budget(options, 0);
  leveldb_close(open_or_fail(path));
  leveldb_options_set_cantle_memory_budget(options, 32 << 20);
  leveldb_options_set_cache(options, NULL);
  leveldb_cache_destroy(cache);
}

/* Number of checkpoints since the database was opened. */
static uint64_t checkpoints(leveldb_t* db) {
  char* stats = leveldb_property_value(db, "leveldb.stats");
  const char* count = stats == NULL ? NULL : strstr(stats, "checkpoints: ");
  CHECK(count != NULL);
  uint64_t number = strtoull(count + strlen("checkpoints: "), NULL, 10);
  leveldb_free(stats);
  return number;
}

/* A write with sync is a checkpoint; a write without it is not. */
static void syncs(const char* path) {
  char* error = NULL;
  leveldb_t* db = open_or_fail(path);
  leveldb_writebatch_t* batch = leveldb_writebatch_create();
  leveldb_writebatch_put(batch, "batched", 7, "v", 1);
  for (int kind = 0; kind < 3; kind++) {
    /* A periodic checkpoint may come in between, but not each time. */
    int plain = 0;
    for (int attempt = 0; attempt < 20; attempt++) {
      for (int sync = 0; sync < 2; sync++) {
        leveldb_writeoptions_set_sync(wo, (uint8_t)sync);
        uint64_t before = checkpoints(db);
        if (kind == 0) leveldb_put(db, wo, "k", 1, "v", 1, &error);
        if (kind == 1) leveldb_delete(db, wo, "k", 1, &error);
        if (kind == 2) leveldb_write(db, wo, batch, &error);
        CHECK_OK(error);
        uint64_t after = checkpoints(db);
        if (sync) CHECK(after > before);
        if (!sync && after == before) plain++;
      }
    }
    CHECK(plain > 10);
  }
  leveldb_writeoptions_set_sync(wo, 0);
  leveldb_writebatch_destroy(batch);
  leveldb_close(db);
}

/* The meaning of levels and tables. */
static void properties(const char* dir) {
  char* error = NULL;
  char* path = path_in(dir, "properties");
  leveldb_t* db = open_or_fail(path);
  put_text(db, wo, "k", "v");
  CHECK(number_of(db, "leveldb.num-files-at-level0") == 1);
  CHECK(number_of(db, "leveldb.num-files-at-level1") == 0);
  leveldb_compact_range(db, NULL, 0, NULL, 0);
  CHECK(number_of(db, "leveldb.num-files-at-level1") == 1);
  CHECK(number_of(db, "leveldb.num-files-at-level2") == 0 && number_of(db, "leveldb.num-files-at-level6") == 0);
  char* text = leveldb_property_value(db, "leveldb.sstables");
  CHECK(text != NULL && strstr(text, "--- chunk 0 from '' ---\n tables: 1, ") == text && strstr(text, "; logs: ") != NULL);
  leveldb_free(text);
  leveldb_close(db);
  leveldb_destroy_db(options, path, &error);
  CHECK_OK(error);
  free(path);
}

static char lent[16];

static void take(void* state, const char* value, size_t length) {
  CHECK(state == lent && length < sizeof lent);
  memcpy(lent, value, length);
  lent[length] = '\0';
}

static void views_and_lent_values(const char* dir) {
  char* error = NULL;
  char* path = path_in(dir, "views");
  leveldb_t* db = open_or_fail(path);
  put_text(db, wo, "a", "1");
  const leveldb_snapshot_t* snapshot = leveldb_create_snapshot(db);
  put_text(db, wo, "a", "22");
  put_text(db, wo, "b", "3");
  leveldb_iterator_t* it = leveldb_create_iterator(db, ro);
  const leveldb_cantle_view_t* view = leveldb_iter_cantle_view(it);
  CHECK(view != NULL && !view->valid);
  leveldb_iter_seek_to_first(it);
  CHECK(view->valid && is_text(view->key, view->keylen, "a") && is_text(view->val, view->vallen, "22"));
  leveldb_iter_next(it);
  CHECK(view->valid && is_text(view->key, view->keylen, "b") && is_text(view->val, view->vallen, "3"));
  leveldb_iter_next(it);
  CHECK(!view->valid);
  leveldb_iter_seek(it, "a", 1);
  CHECK(view->valid);

  CHECK(leveldb_cantle_get(db, ro, "a", 1, lent, take, &error) == 1 && strcmp(lent, "22") == 0);
  CHECK(leveldb_cantle_get(db, ro, "b", 1, lent, NULL, &error) == 1 && strcmp(lent, "22") == 0);
  CHECK(leveldb_cantle_get(db, ro, "c", 1, lent, take, &error) == 0 && strcmp(lent, "22") == 0);
  leveldb_readoptions_set_snapshot(ro, snapshot);
  CHECK(leveldb_cantle_get(db, ro, "a", 1, lent, take, &error) == 1 && strcmp(lent, "1") == 0);
  CHECK(leveldb_cantle_get(db, ro, "b", 1, lent, take, &error) == 0);
  CHECK_OK(error);
  leveldb_release_snapshot(db, snapshot);
  CHECK(leveldb_cantle_get(db, ro, "a", 1, lent, take, &error) == 0);
  CHECK_ERROR(error, bad, "released");
  leveldb_readoptions_set_snapshot(ro, NULL);
  leveldb_close(db);
  CHECK(!view->valid);
  leveldb_iter_destroy(it);
  leveldb_destroy_db(options, path, &error);
  CHECK_OK(error);
  free(path);
}

static void layouts(const char* path) {
  char* error = NULL;
  leveldb_options_set_cantle_layout(options, "chunk");
  leveldb_close(open_or_fail(path));
  leveldb_options_set_cantle_layout(options, "btree");
  CHECK(leveldb_open(options, path, &error) == NULL);
  CHECK_ERROR(error, bad, "leveldb_options_set_cantle_layout asks for the layout \"btree\"");
  CHECK(setenv("CANTLE_LAYOUT", "chunk", 1) == 0);
  leveldb_close(open_or_fail(path));
  CHECK(setenv("CANTLE_LAYOUT", "heap", 1) == 0);
  CHECK(leveldb_open(options, path, &error) == NULL);
  CHECK_ERROR(error, bad, "CANTLE_LAYOUT asks for the layout \"heap\"");
  CHECK(unsetenv("CANTLE_LAYOUT") == 0);
  leveldb_options_set_cantle_layout(options, NULL);
  leveldb_close(open_or_fail(path));
}

/* Guards of several levels instead of chunks. A database keeps its layout. */
static void guards(const char* path) {
  char *error = NULL, *text, key[16], value[512] = {0};
  leveldb_options_set_cantle_layout(options, "flsm:generation_bytes=16KiB,guard_bytes=16KiB");
  leveldb_t* db = open_or_fail(path);
  for (int i = 0; i < 2000; i++) {
    const size_t length = (size_t)snprintf(key, sizeof key, "%05d", i * 7919 % 2000);
    leveldb_put(db, wo, key, length, value, sizeof value, &error);
    CHECK_OK(error);
  }
  leveldb_compact_range(db, NULL, 0, NULL, 0);
  uint64_t files = 0;
  char name[] = "leveldb.num-files-at-level1";
  for (; name[26] <= '6'; name[26]++) files += number_of(db, name);
  CHECK(files > 1);
  text = leveldb_property_value(db, "leveldb.stats");
  CHECK(text != NULL && strstr(text, "guards: ") != NULL && strstr(text, "chunks") == NULL);
  leveldb_free(text);
  text = leveldb_property_value(db, "leveldb.sstables");
  CHECK(text != NULL && strstr(text, "--- level 1, part 1 from '' ---") != NULL);
  leveldb_free(text);
  leveldb_close(db);

  leveldb_options_set_cantle_layout(options, NULL);
  db = open_or_fail(path);
  size_t length;
  leveldb_free(leveldb_get(db, ro, "00000", 5, &length, &error));
  CHECK(error == NULL && length == sizeof value);
  leveldb_close(db);
  leveldb_options_set_cantle_layout(options, "chunk");
  CHECK(leveldb_open(options, path, &error) == NULL);
  CHECK_ERROR(error, bad, "layout");
  leveldb_options_set_cantle_layout(options, "flsm:guard_bytes=1");
  CHECK(leveldb_open(options, path, &error) == NULL);
  CHECK_ERROR(error, bad, "outside 4 KiB to 1 GiB");
  leveldb_options_set_cantle_layout(options, NULL);
  leveldb_destroy_db(options, path, &error);
  CHECK_OK(error);
}

static int bytewise(void* state, const char* a, size_t alen, const char* b, size_t blen) {
  (void)state;
  int order = memcmp(a, b, alen < blen ? alen : blen);
  return order != 0 ? order : (alen > blen) - (alen < blen);
}

static const char* name(void* state) {
  (void)state;
  return "test.Bytewise";
}

/* With a policy a comparator's keys are hashed, without one they are not. Files of both kinds
 * can be read with and without the policy. */
static void filters_of_comparators(const char* dir) {
  char* path = path_in(dir, "filters");
  leveldb_comparator_t* order = leveldb_comparator_create(NULL, NULL, bytewise, name);
  leveldb_filterpolicy_t* policy = leveldb_filterpolicy_create_bloom(10);
  leveldb_options_set_comparator(options, order);
  for (int round = 0; round < 6; round++) {
    char key[16];
    leveldb_options_set_filter_policy(options, round % 2 == 0 ? NULL : policy);
    leveldb_t* db = open_or_fail(path);
    for (int i = 0; i < round * 1000; i++) {
      snprintf(key, sizeof key, "%d", i);
      CHECK_VALUE(db, ro, key, key);
    }
    for (int i = round * 1000; i < (round + 1) * 1000; i++) {
      snprintf(key, sizeof key, "%d", i);
      CHECK_VALUE(db, ro, key, NULL);
      put_text(db, wo, key, key);
    }
    if (round % 3 == 2) leveldb_compact_range(db, NULL, 0, NULL, 0);
    leveldb_close(db);
  }
  leveldb_options_t* defaults = leveldb_options_create();
  leveldb_options_destroy(options);
  options = defaults;
  leveldb_options_set_create_if_missing(options, 1);
  leveldb_comparator_destroy(order);
  leveldb_filterpolicy_destroy(policy);
  free(path);
}

static void write_file(const char* dir, const char* name) {
  char* path = path_in(dir, name);
  FILE* file = fopen(path, "w");
  CHECK(file != NULL && fputs("of somebody else", file) >= 0 && fclose(file) == 0);
  free(path);
}

static int entries(const char* path) {
  DIR* dir = opendir(path);
  CHECK(dir != NULL);
  int count = -2; /* itself and its parent */
  while (readdir(dir) != NULL) count++;
  closedir(dir);
  return count;
}

static void directories_of_others(const char* dir) {
  char* error = NULL;
  char* path = path_in(dir, "theirs");
  char* within = path_in(path, "CURRENT/db");
  char* file = path_in(path, "CURRENT");
  CHECK(mkdir(path, 0755) == 0);
  const char* names[] = {"CURRENT", "MANIFEST-000004", "000005.ldb", "000006.log", "LOCK", "LOG"};
  for (int i = 0; i < 6; i++) write_file(path, names[i]);
  CHECK(leveldb_open(options, path, &error) == NULL);
  CHECK_ERROR(error, bad, "LevelDB");
  leveldb_repair_db(options, path, &error);
  CHECK_ERROR(error, bad, "LevelDB");
  leveldb_destroy_db(options, path, &error);
  CHECK_ERROR(error, bad, "cantle import --leveldb");
  CHECK(entries(path) == 6);
  CHECK(leveldb_open(options, file, &error) == NULL);
  CHECK_ERROR(error, bad, "CURRENT: it is a file");
  leveldb_destroy_db(options, file, &error);
  CHECK_ERROR(error, bad, "it is a file");
  CHECK(leveldb_open(options, within, &error) == NULL);
  CHECK_ERROR(error, "IO error: ", "CURRENT/db");
  for (int i = 0; i < 6; i++) {
    char* name = path_in(path, names[i]);
    CHECK(unlink(name) == 0);
    free(name);
  }

  /* Some data of LevelDB's database is missing. */
  write_file(path, names[2]);
  CHECK(leveldb_open(options, path, &error) == NULL);
  CHECK_ERROR(error, bad, "LevelDB");
  leveldb_repair_db(options, path, &error);
  CHECK_ERROR(error, bad, "LevelDB");
  char* table = path_in(path, names[2]);
  CHECK(entries(path) == 1 && unlink(table) == 0);
  free(table);
  free(file);
  free(within);
  free(path);
}

/* A limit on the size of files simulates a full disk. */
static void no_space(const char* dir) {
  char* error = NULL;
  char* path = path_in(dir, "full");
  size_t length = 4 << 20;
  char* value = calloc(1, length);
  CHECK(value != NULL);
  leveldb_t* db = open_or_fail(path);
  put_text(db, wo, "k", "v");
  struct rlimit before;
  CHECK(signal(SIGXFSZ, SIG_IGN) != SIG_ERR && getrlimit(RLIMIT_FSIZE, &before) == 0);
  struct rlimit limit = {1 << 20, before.rlim_max};
  CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
  leveldb_put(db, wo, "large", 5, value, length, &error);
  CHECK_ERROR(error, "IO error: ", "no space left");
  CHECK_VALUE(db, ro, "k", "v");
  CHECK_VALUE(db, ro, "large", NULL);
  CHECK(setrlimit(RLIMIT_FSIZE, &before) == 0);
  leveldb_writeoptions_set_sync(wo, 1);
  do { /* the space that was reserved for deletes is used first */
    leveldb_free(error);
    error = NULL;
    leveldb_put(db, wo, "large", 5, value, length, &error);
  } while (error != NULL && usleep(100000) == 0);
  leveldb_writeoptions_set_sync(wo, 0);
  leveldb_close(db);
  free(value);
  free(path);
}

enum { KEYS = 20000, VALUE = 256 };

static int get_all(leveldb_t* db, int* damaged) {
  int found = 0;
  for (int i = 0; i < KEYS; i++) {
    char key[16];
    char* error = NULL;
    size_t length = 0;
    int klen = snprintf(key, sizeof key, "%08d", i);
    char* value = leveldb_get(db, ro, key, (size_t)klen, &length, &error);
    if (error != NULL) {
      CHECK(value == NULL);
      CHECK_ERROR(error, "Corruption: ", " at offset ");
      ++*damaged;
    } else if (value != NULL) {
      CHECK(length == VALUE && value[0] == (char)i && value[VALUE - 1] == (char)(i >> 8));
      found++;
    }
    leveldb_free(value);
  }
  return found;
}

/* Overwrites a range of the largest table. */
static void damage(const char* dir) {
  char largest[512] = "";
  off_t size = 0;
  DIR* listed = opendir(dir);
  CHECK(listed != NULL);
  for (struct dirent* entry; (entry = readdir(listed)) != NULL;) {
    struct stat found;
    char* path = path_in(dir, entry->d_name);
    if (strstr(entry->d_name, ".table") != NULL && stat(path, &found) == 0 && found.st_size > size) {
      size = found.st_size;
      CHECK(strlen(path) < sizeof largest);
      strcpy(largest, path);
    }
    free(path);
  }
  closedir(listed);
  CHECK(size > 1000000);
  FILE* file = fopen(largest, "r+");
  CHECK(file != NULL && fseek(file, size / 2, SEEK_SET) == 0);
  for (int i = 0; i < 20000; i++) CHECK(fputc(0x5a, file) != EOF);
  CHECK(fclose(file) == 0);
}

static void damaged_files(const char* dir) {
  char* error = NULL;
  char* path = path_in(dir, "damaged");
  char* lost = path_in(dir, "damaged.lost");
  char* repairing = path_in(dir, "damaged.repairing");
  char value[VALUE];
  srand(7);
  leveldb_t* db = open_or_fail(path);
  for (int i = 0; i < KEYS; i++) {
    char key[16];
    int klen = snprintf(key, sizeof key, "%08d", i);
    for (int j = 0; j < VALUE; j++) value[j] = (char)rand();
    value[0] = (char)i;
    value[VALUE - 1] = (char)(i >> 8);
    leveldb_put(db, wo, key, (size_t)klen, value, VALUE, &error);
    CHECK_OK(error);
  }
  leveldb_compact_range(db, NULL, 0, NULL, 0);
  leveldb_close(db);
  leveldb_repair_db(options, path, &error);
  CHECK_OK(error);
  CHECK(access(lost, F_OK) != 0 && access(repairing, F_OK) != 0);
  db = open_or_fail(path);
  int wrong = 0;
  CHECK(get_all(db, &wrong) == KEYS && wrong == 0);
  leveldb_compact_range(db, NULL, 0, NULL, 0);
  leveldb_close(db);

  damage(path);
  db = open_or_fail(path);
  int found = get_all(db, &wrong);
  CHECK(wrong > 0 && found == KEYS - wrong && found > KEYS / 2);
  leveldb_iterator_t* it = leveldb_create_iterator(db, ro);
  int seen = 0;
  for (leveldb_iter_seek_to_first(it); leveldb_iter_valid(it); leveldb_iter_next(it)) seen++;
  CHECK(seen < KEYS);
  leveldb_iter_get_error(it, &error);
  CHECK_ERROR(error, "Corruption: ", ".table at offset ");
  leveldb_repair_db(options, path, &error);
  CHECK_ERROR(error, "IO error: lock ", "already held");
  leveldb_iter_destroy(it);
  leveldb_close(db);

  /* Files that an interrupted repair left do not matter. */
  leveldb_close(open_or_fail(repairing));
  char* link = path_in(dir, "link");
  char* log = path_in(path, "LOG");
  write_file(path, "LOG");
  CHECK(symlink("damaged", link) == 0);
  leveldb_repair_db(options, link, &error);
  CHECK_OK(error);
  CHECK(access(lost, F_OK) == 0 && access(repairing, F_OK) != 0 && access(log, F_OK) == 0);
  struct stat what;
  CHECK(lstat(link, &what) == 0 && S_ISLNK(what.st_mode) && lstat(path, &what) == 0 && S_ISDIR(what.st_mode));
  free(log);
  free(link);
  db = open_or_fail(path);
  wrong = 0;
  CHECK(get_all(db, &wrong) >= found && wrong == 0);
  leveldb_close(db);
  leveldb_destroy_db(options, lost, &error);
  CHECK_OK(error);
  CHECK(access(lost, F_OK) != 0);
  free(repairing);
  free(lost);
  free(path);
}

static void backups(const char* dir) {
  char* error = NULL;
  char* from = path_in(dir, "original");
  char* to = path_in(dir, "backup");
  leveldb_t* db = open_or_fail(from);
  put_text(db, wo, "a", "1");
  put_text(db, wo, "b", "2");
  leveldb_cantle_backup(db, to, &error);
  CHECK_OK(error);
  put_text(db, wo, "a", "later");
  /* The new database exists now, and so does the original. */
  leveldb_cantle_backup(db, to, &error);
  CHECK_ERROR(error, bad, "new or an empty directory");
  leveldb_cantle_backup(db, from, &error);
  CHECK_ERROR(error, bad, "new or an empty directory");
  leveldb_cantle_backup(db, NULL, &error);
  CHECK_ERROR(error, bad, "");
  leveldb_cantle_backup(NULL, to, &error);
  CHECK_ERROR(error, bad, "null");
  leveldb_t* copy = open_or_fail(to);
  CHECK_VALUE(copy, ro, "a", "1");
  CHECK_VALUE(copy, ro, "b", "2");
  put_text(copy, wo, "c", "3");
  CHECK_VALUE(db, ro, "a", "later");
  CHECK_VALUE(db, ro, "c", NULL);
  leveldb_close(copy);
  leveldb_close(db);
  leveldb_cantle_backup(db, to, &error);
  CHECK_ERROR(error, bad, "closed");
  free(to);
  free(from);
}

int main(int argc, char** argv) {
  CHECK(argc == 2);
  char* path = path_in(argv[1], "db");
  char* second = path_in(argv[1], "second");
  options = leveldb_options_create();
  leveldb_options_set_create_if_missing(options, 1);
  ro = leveldb_readoptions_create();
  wo = leveldb_writeoptions_create();
  budgets(path, second);
  syncs(path);
  properties(argv[1]);
  views_and_lent_values(argv[1]);
  layouts(path);
  char* levels = path_in(argv[1], "levels");
  guards(levels);
  free(levels);
  backups(argv[1]);
  filters_of_comparators(argv[1]);
  directories_of_others(argv[1]);
  no_space(argv[1]);
  damaged_files(argv[1]);
  leveldb_writeoptions_destroy(wo);
  leveldb_readoptions_destroy(ro);
  leveldb_options_destroy(options);
  free(second);
  free(path);
  puts("PASS");
  return 0;
}
