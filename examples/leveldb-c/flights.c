/* A program for LevelDB. Linked with Cantle's library instead of LevelDB's, it keeps its data in a
 * Cantle store:
 *
 *     cc flights.c $(pkg-config --cflags --libs leveldb) -o flights && ./flights /tmp/flights
 */
#include <leveldb/c.h>
#include <stdio.h>
#include <string.h>

static int failed(char* error) {
  fprintf(stderr, "%s\n", error);
  leveldb_free(error);
  return 1;
}

int main(int argc, char** argv) {
  if (argc != 2) {
    fprintf(stderr, "usage: %s DIRECTORY\n", argv[0]);
    return 2;
  }
  char* error = NULL;
  leveldb_options_t* options = leveldb_options_create();
  leveldb_options_set_create_if_missing(options, 1);
  leveldb_t* db = leveldb_open(options, argv[1], &error);
  leveldb_options_destroy(options);
  if (error != NULL) return failed(error);

  /* All three or none, and safe from a loss of power. */
  leveldb_writebatch_t* batch = leveldb_writebatch_create();
  leveldb_writebatch_put(batch, "UA EWR 2013-07-04 1545", 22, "delayed", 7);
  leveldb_writebatch_put(batch, "UA EWR 2013-07-05 1545", 22, "on time", 7);
  leveldb_writebatch_put(batch, "DL LGA 2013-07-04 0461", 22, "on time", 7);
  leveldb_writeoptions_t* durably = leveldb_writeoptions_create();
  leveldb_writeoptions_set_sync(durably, 1);
  leveldb_write(db, durably, batch, &error);
  leveldb_writeoptions_destroy(durably);
  leveldb_writebatch_destroy(batch);
  if (error != NULL) return failed(error);

  leveldb_readoptions_t* reading = leveldb_readoptions_create();
  size_t length = 0;
  char* value = leveldb_get(db, reading, "DL LGA 2013-07-04 0461", 22, &length, &error);
  if (error != NULL) return failed(error);
  printf("DL LGA 2013-07-04 0461: %.*s\n", (int)length, value);
  leveldb_free(value);

  /* United's departures, the last one first. */
  leveldb_iterator_t* it = leveldb_create_iterator(db, reading);
  for (leveldb_iter_seek_to_last(it); leveldb_iter_valid(it); leveldb_iter_prev(it)) {
    size_t key_length = 0;
    const char* key = leveldb_iter_key(it, &key_length);
    if (key_length < 3 || memcmp(key, "UA ", 3) != 0) break;
    const char* found = leveldb_iter_value(it, &length);
    printf("%.*s: %.*s\n", (int)key_length, key, (int)length, found);
  }
  leveldb_iter_get_error(it, &error);
  leveldb_iter_destroy(it);
  leveldb_readoptions_destroy(reading);
  leveldb_close(db);
  return error == NULL ? 0 : failed(error);
}
