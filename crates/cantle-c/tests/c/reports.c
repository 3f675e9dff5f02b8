/* Statistics, the chunk map, backup, verification, damage, repair. */
#include "check.h"
#include <dirent.h>

static void fill(cantle_db *db) {
    char key[16], value[200];
    memset(value, 'v', sizeof value);
    for (int i = 0; i < 5000; i++) {
        int len = snprintf(key, sizeof key, "key%06d", i);
        OK(cantle_put(db, NULL, key, (size_t)len, value, sizeof value, &error));
    }
    OK(cantle_compact_range(db, NULL, NULL, &error));
}

/* Changes a byte in the midst of the largest file of a directory and its subdirectories. */
static void damage(const char *directory) {
    char largest[4096] = "", pending[16][4096];
    long most = 0;
    int count = 1;
    snprintf(pending[0], sizeof pending[0], "%s", directory);
    while (count > 0) {
        char current[4096];
        memcpy(current, pending[--count], sizeof current);
        DIR *list = opendir(current);
        if (list == NULL) continue;
        for (struct dirent *entry; (entry = readdir(list)) != NULL;) {
            char path[4096];
            if (entry->d_name[0] == '.') continue;
            if (snprintf(path, sizeof path, "%s/%s", current, entry->d_name) >= (int)sizeof path) continue;
            DIR *inner = opendir(path);
            if (inner != NULL) {
                closedir(inner);
                CHECK(count < 16);
                memcpy(pending[count++], path, sizeof path);
                continue;
            }
            FILE *file = strcmp(entry->d_name, "WRITE-BUFFER") == 0 ? NULL : fopen(path, "rb");
            if (file == NULL) continue;
            fseek(file, 0, SEEK_END);
            if (ftell(file) > most) {
                most = ftell(file);
                memcpy(largest, path, sizeof largest);
            }
            fclose(file);
        }
        closedir(list);
    }
    CHECK(most > 100000);
    FILE *file = fopen(largest, "r+b");
    CHECK(file != NULL);
    fseek(file, most / 2, SEEK_SET);
    int byte = fgetc(file);
    fseek(file, most / 2, SEEK_SET);
    fputc(byte ^ 0x55, file);
    fclose(file);
}

struct damaged {
    int read, failed;
    size_t lowest; /* number of a key that failed */
};

static void count_damage(void *user, size_t number, cantle_status status, const char *value, size_t value_len,
                         const cantle_error *error) {
    struct damaged *damaged = user;
    if (status == CANTLE_OK) {
        CHECK(value_len == 200 && value[199] == 'v' && error == NULL);
        damaged->read++;
        return;
    }
    CHECK(status == CANTLE_CORRUPTION && cantle_error_status(error) == CANTLE_CORRUPTION && value == NULL);
    CHECK(cantle_error_path(error) != NULL && cantle_error_offset(error) > 0);
    if (damaged->failed++ == 0 || number < damaged->lowest) damaged->lowest = number;
}

/* Keys in the damaged block fail, each by itself, and the others are read. */
static void get_many_of_damaged(cantle_db *db) {
    static char text[5000][16];
    static cantle_slice keys[5000];
    struct damaged damaged = {0, 0, 0};
    cantle_error *error = NULL, *same = NULL;
    char *value;
    for (int i = 0; i < 5000; i++) {
        keys[i].len = (size_t)snprintf(text[i], sizeof text[i], "key%06d", i);
        keys[i].data = text[i];
    }
    CHECK(cantle_get_many(db, NULL, keys, 5000, count_damage, &damaged, &error) == CANTLE_CORRUPTION);
    CHECK(damaged.failed > 0 && damaged.read > 2500 && damaged.read + damaged.failed == 5000);
    /* The call's error is that of the first of them. */
    cantle_slice first = keys[damaged.lowest];
    CHECK(cantle_get(db, NULL, first.data, first.len, &value, NULL, &same) == CANTLE_CORRUPTION && value == NULL);
    CHECK(strcmp(cantle_error_message(error), cantle_error_message(same)) == 0);
    CHECK(cantle_error_free(error) == CANTLE_OK && cantle_error_free(same) == CANTLE_OK);
}

static uint64_t last_pairs;

static void progress(void *user, uint64_t bytes, uint64_t total_bytes, uint64_t pairs) {
    (void)bytes, (void)total_bytes;
    last_pairs = pairs;
    ++*(int *)user;
}

/* A keyspace in levels of guards, and what its statistics and ranges tell of them. */
static void levels(cantle_db *db) {
    cantle_keyspace *keyspace;
    cantle_keyspace_options *options = cantle_keyspace_options_new();
    const char *layout = "flsm:generation_bytes=16KiB,guard_bytes=16KiB,max_sstables_per_guard=3";
    uint64_t number, guards, written;
    char *text, key[16], value[512] = {0};
    CHECK(cantle_keyspace_options_layout(options, layout) == CANTLE_OK);
    SOME(keyspace, cantle_keyspace_open(db, "of.levels", options, &error));
    for (int i = 0; i < 2000; i++) {
        const size_t length = (size_t)snprintf(key, sizeof key, "%05d", i * 7919 % 2000);
        OK(cantle_put(db, keyspace, key, length, value, sizeof value, &error));
    }
    OK(cantle_compact_range(db, keyspace, NULL, &error));
    OK(cantle_stat(db, "keyspaces.of.levels.levels", &number, &error));
    OK(cantle_stat(db, "keyspaces.of.levels.by_level.1.guards", &guards, &error));
    /* Merges of logs write into the first level. */
    OK(cantle_stat(db, "keyspaces.of.levels.by_level.1.table_bytes_written", &written, &error));
    CHECK(number >= 1 && guards >= 1 && written > 2000 * 512);
    FAILS(CANTLE_INVALID_ARGUMENT, cantle_stat(db, "keyspaces.of.levels.by_level.9.guards", &number, &error));
    SOME(text, cantle_regions(db, keyspace, &error));
    CHECK(strstr(text, "\"level\":0") != NULL && strstr(text, "\"level\":1") != NULL && strstr(text, "\"read_debt\":") != NULL);
    cantle_free(text);
    CHECK(cantle_keyspace_free(keyspace) == CANTLE_OK);

    CHECK(cantle_keyspace_options_layout(options, "chunk") == CANTLE_OK);
    NOTHING(CANTLE_OPTION_MISMATCH, cantle_keyspace_open(db, "of.levels", options, &error));
    CHECK(cantle_keyspace_options_layout(options, "flsm:munks=true") == CANTLE_INVALID_ARGUMENT);
    CHECK(cantle_keyspace_options_free(options) == CANTLE_OK);
    options = cantle_keyspace_options_new();
    CHECK(cantle_keyspace_options_layout(options, "flsm:max_sstables_per_guard=65") == CANTLE_OK); /* told when it is read */
    cantle_error *error = NULL;
    CHECK(cantle_keyspace_open(db, "odd", options, &error) == NULL);
    CHECK(cantle_error_status(error) == CANTLE_INVALID_ARGUMENT && strstr(cantle_error_message(error), "1 to 64") != NULL);
    CHECK(cantle_error_free(error) == CANTLE_OK && cantle_keyspace_options_free(options) == CANTLE_OK);
}

int main(int argc, char **argv) {
    begin(argc);
    const char *path = below(argv[1], "store"), *copy = below(argv[1], "copy");
    const char *repaired = below(argv[1], "repaired");
    cantle_db *db;
    char *text;
    uint64_t number;
    SOME(db, cantle_open(path, NULL, &error));
    fill(db);

    SOME(text, cantle_stats(db, &error));
    CHECK(text[0] == '{' && strstr(text, "\"open_time_nanos\":") != NULL && strstr(text, "\"keyspaces\":[{") != NULL);
    cantle_free(text);
    OK(cantle_stat(db, "keyspaces.default.writes", &number, &error));
    CHECK(number == 5000);
    OK(cantle_stat(db, "disk_bytes", &number, &error));
    CHECK(number > 500000);
    OK(cantle_stat(db, "open_time_nanos", &number, &error));
    CHECK(number > 0);
    SOME(text, cantle_regions(db, NULL, &error));
    CHECK(strncmp(text, "[{", 2) == 0 && strstr(text, "\"start_hex\":\"\"") != NULL && strstr(text, "\"table_bytes\":") != NULL);
    cantle_free(text);
    cantle_error *first = (cantle_error *)1;
    OK(cantle_verify(db, &number, &first, &text, &error));
    CHECK(first == NULL);
    CHECK(number == 0 && strstr(text, "\"ok\":true") != NULL && strstr(text, "\"damage\":[]") != NULL);
    cantle_free(text);
    OK(cantle_verify(db, NULL, NULL, NULL, &error));
    FAILS(CANTLE_INVALID_ARGUMENT, cantle_verify(NULL, &number, &first, &text, &error));
    CHECK(number == 0 && first == NULL && text == NULL);
    OK(cantle_backup(db, copy, &error));
    FAILS(CANTLE_ALREADY_EXISTS, cantle_backup(db, copy, &error));
    FAILS(CANTLE_LOCKED, cantle_repair(path, repaired, NULL, NULL, NULL, NULL, NULL, &error));
    levels(db);
    OK(cantle_keyspace_drop(db, "of.levels", &error));
    OK(cantle_close(db, &error));

    bool complete = false;
    int steps = 0;
    OK(cantle_repair(path, repaired, NULL, progress, &steps, &complete, &text, &error));
    CHECK(complete && steps > 0 && last_pairs <= 5000 && strstr(text, "\"pairs\":5000") != NULL);
    cantle_free(text);
    FAILS(CANTLE_ALREADY_EXISTS, cantle_repair(path, repaired, NULL, NULL, NULL, NULL, NULL, &error));

    /* The backup's tables are links to the store's own: the copy that the repair wrote is damaged. */
    damage(repaired);
    SOME(db, cantle_open(repaired, NULL, &error));
    OK(cantle_verify(db, &number, &first, &text, &error));
    CHECK(cantle_error_status(first) == CANTLE_CORRUPTION && cantle_error_offset(first) > 0);
    CHECK(strncmp(cantle_error_path(first), repaired, strlen(repaired)) == 0);
    CHECK(cantle_error_free(first) == CANTLE_OK);
    CHECK(number > 0 && strstr(text, "\"ok\":false") != NULL && strstr(text, "\"offset\":") != NULL);
    cantle_free(text);
    get_many_of_damaged(db);
    cantle_iterator *it;
    cantle_error *error = NULL;
    SOME(it, cantle_iterator_new(db, NULL, NULL, &error));
    while (cantle_iterator_next(it, NULL, NULL, &error)) {}
    CHECK(cantle_error_status(error) == CANTLE_CORRUPTION && cantle_iterator_status(it) == CANTLE_CORRUPTION);
    CHECK(strncmp(cantle_error_path(error), repaired, strlen(repaired)) == 0 && cantle_error_offset(error) > 0);
    CHECK(cantle_error_free(error) == CANTLE_OK && cantle_iterator_free(it) == CANTLE_OK);
    OK(cantle_close(db, &error));
    OK(cantle_repair(repaired, below(argv[1], "again"), NULL, NULL, NULL, &complete, &text, &error));
    CHECK(!complete && strstr(text, "\"uncertain\":[{") != NULL);
    cantle_free(text);

    SOME(db, cantle_open(copy, NULL, &error));
    OK(cantle_stat(db, "epoch", &number, &error));
    bool found;
    OK(cantle_contains(db, NULL, "key004999", 9, &found, &error));
    CHECK(found);
    FAILS(CANTLE_LOCKED, cantle_destroy(copy, &error));
    OK(cantle_close(db, &error));
    OK(cantle_destroy(copy, &error));
    OK(cantle_destroy(copy, &error));
    SOME(db, cantle_open(copy, NULL, &error));
    OK(cantle_contains(db, NULL, "key004999", 9, &found, &error));
    CHECK(!found);
    OK(cantle_close(db, &error));
    FAILS(CANTLE_INVALID_ARGUMENT, cantle_destroy(NULL, &error));
    return 0;
}
