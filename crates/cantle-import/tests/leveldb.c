/* Runs a script against LevelDB itself, or prints what it iterates. For the tests of the import.
 *
 *   leveldb DIR dump
 *   leveldb DIR script [NAME=NUMBER]... < SCRIPT
 *
 * Options: write_buffer, block_size, file_size, compression (0 none, 1 Snappy), restarts, comparator (1: one of its own), bloom (bits).
 * Script, one step a line, keys and values in hexadecimal behind 0x:
 *   p KEY VALUE   put            d KEY   delete           [ ... ]  the puts and deletes between as one batch
 *   r KEY N BYTE  put N bytes    n KEY N SEED  put N bytes that do not compress
 *   c   compact all    o   close and open    f   repair    k   SIGKILL to itself    w   say so, and wait for the end of input
 */
#include <leveldb/c.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void check(char *error) {
    if (error != NULL) {
        fprintf(stderr, "%s\n", error);
        exit(1);
    }
}

static void destroy(void *state) { (void)state; }
static int compare(void *state, const char *a, size_t al, const char *b, size_t bl) {
    (void)state;
    int order = memcmp(b, a, al < bl ? al : bl);
    return order != 0 ? order : (al < bl) - (al > bl);
}
static const char *name(void *state) {
    (void)state;
    return "test.Reverse";
}

static void print_hex(const char *bytes, size_t length) {
    printf("0x");
    for (size_t i = 0; i < length; i++) printf("%02X", (unsigned char)bytes[i]);
}

static size_t from_hex(const char *text, char *bytes) {
    size_t length = 0;
    unsigned byte;
    for (text += 2; sscanf(text, "%2x", &byte) == 1; text += 2) bytes[length++] = (char)byte;
    return length;
}

static leveldb_t *open_db(leveldb_options_t *options, const char *dir) {
    char *error = NULL;
    leveldb_t *db = leveldb_open(options, dir, &error);
    check(error);
    return db;
}

static void dump(leveldb_options_t *options, const char *dir) {
    leveldb_t *db = open_db(options, dir);
    leveldb_readoptions_t *reading = leveldb_readoptions_create();
    leveldb_readoptions_set_verify_checksums(reading, 1);
    leveldb_iterator_t *iterator = leveldb_create_iterator(db, reading);
    unsigned long count = 0;
    for (leveldb_iter_seek_to_first(iterator); leveldb_iter_valid(iterator); leveldb_iter_next(iterator)) {
        size_t kl, vl;
        const char *key = leveldb_iter_key(iterator, &kl), *value = leveldb_iter_value(iterator, &vl);
        print_hex(key, kl);
        printf(" ==> ");
        print_hex(value, vl);
        printf("\n");
        count++;
    }
    char *error = NULL;
    leveldb_iter_get_error(iterator, &error);
    check(error);
    printf("Keys in range: %lu\n", count);
    leveldb_iter_destroy(iterator);
    leveldb_readoptions_destroy(reading);
    leveldb_close(db);
}

int main(int count, char **arguments) {
    const char *dir = arguments[1];
    leveldb_options_t *options = leveldb_options_create();
    leveldb_options_set_create_if_missing(options, 1);
    leveldb_options_set_compression(options, leveldb_snappy_compression);
    if (strcmp(arguments[2], "dump") == 0) {
        dump(options, dir);
        return 0;
    }
    for (int i = 3; i < count; i++) {
        char *equals = strchr(arguments[i], '=');
        size_t number = strtoul(equals + 1, NULL, 10);
        *equals = '\0';
        if (strcmp(arguments[i], "write_buffer") == 0) leveldb_options_set_write_buffer_size(options, number);
        else if (strcmp(arguments[i], "block_size") == 0) leveldb_options_set_block_size(options, number);
        else if (strcmp(arguments[i], "file_size") == 0) leveldb_options_set_max_file_size(options, number);
        else if (strcmp(arguments[i], "compression") == 0) leveldb_options_set_compression(options, (int)number);
        else if (strcmp(arguments[i], "restarts") == 0) leveldb_options_set_block_restart_interval(options, (int)number);
        else if (strcmp(arguments[i], "bloom") == 0)
            leveldb_options_set_filter_policy(options, leveldb_filterpolicy_create_bloom((int)number));
        else if (strcmp(arguments[i], "comparator") == 0)
            leveldb_options_set_comparator(options, leveldb_comparator_create(NULL, destroy, compare, name));
        else return 2;
    }
    leveldb_t *db = open_db(options, dir);
    leveldb_writeoptions_t *writing = leveldb_writeoptions_create();
    leveldb_writebatch_t *batch = leveldb_writebatch_create();
    int together = 0;
    static char line[1 << 22], text[2][1 << 21], bytes[2][1 << 20];
    while (fgets(line, sizeof line, stdin) != NULL) {
        char *error = NULL;
        unsigned long length, seed;
        text[0][0] = text[1][0] = '\0';
        int parts = sscanf(line + 1, " %2097151s %2097151s %lu", text[0], text[1], &seed);
        size_t kl = parts > 0 ? from_hex(text[0], bytes[0]) : 0;
        switch (line[0]) {
        case 'p': leveldb_writebatch_put(batch, bytes[0], kl, bytes[1], from_hex(text[1], bytes[1])); break;
        case 'd': leveldb_writebatch_delete(batch, bytes[0], kl); break;
        case 'r':
        case 'n': {
            length = strtoul(text[1], NULL, 10);
            char *value = malloc(length + 1);
            unsigned long long state = seed * 2862933555777941757ULL + 3037000493ULL;
            for (unsigned long i = 0; i < length; i++) {
                state = state * 6364136223846793005ULL + 1442695040888963407ULL;
                value[i] = line[0] == 'r' ? (char)seed : (char)(state >> 56);
            }
            leveldb_writebatch_put(batch, bytes[0], kl, value, length);
            free(value);
            break;
        }
        case '[': together = 1; continue;
        case ']': together = 0; break;
        case 'c': leveldb_compact_range(db, NULL, 0, NULL, 0); continue;
        case 'o':
        case 'f':
            leveldb_close(db);
            if (line[0] == 'f') leveldb_repair_db(options, dir, &error);
            check(error);
            db = open_db(options, dir);
            continue;
        case 'k': kill(getpid(), SIGKILL); break;
        case 'w':
            printf("waiting\n");
            fflush(stdout);
            continue;
        default: return 3;
        }
        if (together) continue;
        leveldb_write(db, writing, batch, &error);
        check(error);
        leveldb_writebatch_clear(batch);
    }
    leveldb_writebatch_destroy(batch);
    leveldb_writeoptions_destroy(writing);
    leveldb_close(db);
    leveldb_options_destroy(options);
    return 0;
}
