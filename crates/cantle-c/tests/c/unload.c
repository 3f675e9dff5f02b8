/* A program that loads the library, has a store open, and is done with it: what stays behind must find its code. Usage: DIRECTORY LIBRARY */
#define _GNU_SOURCE
#include <cantle.h>
#include <dlfcn.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: failed: %s\n", __FILE__, __LINE__, #condition);                \
            _exit(1);                                                                              \
        }                                                                                          \
    } while (0)

static sigjmp_buf failed;

static void on_bus_error(int signal) {
    (void)signal;
    siglongjmp(failed, 1);
}

static void *find(void *library, const char *name) {
    void *found = dlsym(library, name);
    CHECK(found != NULL);
    return found;
}

int main(int argc, char **argv) {
    CHECK(argc == 3);
    char path[4096];
    cantle_db *(*open_store)(const char *, const cantle_options *, cantle_error **);
    cantle_status (*put)(cantle_db *, cantle_keyspace *, const void *, size_t, const void *, size_t, cantle_error **);
    cantle_status (*close_store)(cantle_db *, cantle_error **);
    CHECK(signal(SIGBUS, on_bus_error) != SIG_ERR);
    snprintf(path, sizeof path, "%s/store", argv[1]);

    void *library = dlopen(argv[2], RTLD_NOW | RTLD_LOCAL);
    CHECK(library != NULL);
    *(void **)&open_store = find(library, "cantle_open");
    *(void **)&put = find(library, "cantle_put");
    *(void **)&close_store = find(library, "cantle_close");
    cantle_db *db = open_store(path, NULL, NULL);
    CHECK(db != NULL && put(db, NULL, "k", 1, "v", 1, NULL) == CANTLE_OK);
    /* The store's threads go on. */
    CHECK(dlclose(library) == 0);
    usleep(50000);
    CHECK(put(db, NULL, "k", 1, "w", 1, NULL) == CANTLE_OK && close_store(db, NULL) == CANTLE_OK);

    /* The library's handler passes on what is not its own: here, a page behind the end of a file. */
    FILE *file = tmpfile();
    CHECK(file != NULL);
    volatile char *page = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fileno(file), 0);
    CHECK(page != MAP_FAILED);
    if (sigsetjmp(failed, 1) == 0) {
        (void)*page;
        CHECK(!"a page that is not there was read");
    }
    fclose(file);
    return 0;
}
