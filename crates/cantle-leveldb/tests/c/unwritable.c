/* Directories that cannot be written to, as a user without the permission: IO errors, with this
 * library and with LevelDB's. */
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"

static leveldb_options_t* options;
static const char* io = "IO error: ";

static void check_refused(const char* path) {
  char* error = NULL;
  leveldb_t* db = leveldb_open(options, path, &error);
  CHECK(db == NULL);
  CHECK_ERROR(error, io, "");
}

int main(int argc, char** argv) {
  CHECK(argc == 2);
  (void)argv; /* a directory that belongs to this user alone */
  char dir[] = "/tmp/leveldb-unwritable-XXXXXX";
  CHECK(mkdtemp(dir) != NULL && chmod(dir, 0755) == 0);
  options = leveldb_options_create();
  leveldb_options_set_create_if_missing(options, 1);
  char* error = NULL;

  char* store = path_in(dir, "store");
  char* empty = path_in(dir, "empty");
  char* missing = path_in(dir, "missing");
  char* file = path_in(dir, "file");
  char* below = path_in(file, "store");
  leveldb_t* db = leveldb_open(options, store, &error);
  CHECK_OK(error);
  leveldb_writeoptions_t* wo = leveldb_writeoptions_create();
  put_text(db, wo, "key", "value");
  leveldb_close(db);
  CHECK(mkdir(empty, 0755) == 0);
  FILE* made = fopen(file, "w");
  CHECK(made != NULL && fclose(made) == 0);
  CHECK(chmod(store, 0555) == 0 && chmod(empty, 0555) == 0 && chmod(dir, 0555) == 0);

  check_refused(below); /* refused for every user */
  pid_t user = getuid();
  CHECK(user != 0 || seteuid(65534) == 0);
#if defined(CANTLE_LEVELDB_C_H)
  check_refused(missing); /* LevelDB does not check that it was created, and does not find it later */
#endif
  check_refused(empty);
  check_refused(store);
  CHECK(seteuid(user) == 0);

  CHECK(chmod(store, 0755) == 0 && chmod(empty, 0755) == 0 && chmod(dir, 0755) == 0);
  leveldb_readoptions_t* ro = leveldb_readoptions_create();
  db = leveldb_open(options, store, &error);
  CHECK_OK(error);
  CHECK_VALUE(db, ro, "key", "value");
  leveldb_close(db);
  leveldb_destroy_db(options, store, &error);
  CHECK_OK(error);
  (void)rmdir(store);
  CHECK(rmdir(empty) == 0 && unlink(file) == 0 && rmdir(dir) == 0);
  leveldb_readoptions_destroy(ro);
  leveldb_writeoptions_destroy(wo);
  leveldb_options_destroy(options);
  free(below);
  free(file);
  free(missing);
  free(empty);
  free(store);
  puts("PASS");
  return 0;
}
