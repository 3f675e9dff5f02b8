/* Cantle in C: a few pairs, and a scan in reverse of those with a prefix. Usage: flights DIRECTORY */
#include <cantle.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv) {
    cantle_error *error = NULL;
    cantle_db *db = cantle_open(argc > 1 ? argv[1] : "flights", NULL, &error);
    if (db == NULL) return fprintf(stderr, "%s\n", cantle_error_message(error)), 1;
    cantle_put(db, NULL, "UA/EWR/2013-07-04", 17, "delayed", 7, &error);
    cantle_put(db, NULL, "UA/EWR/2013-07-05", 17, "on time", 7, &error);
    cantle_put(db, NULL, "DL/LGA/2013-07-04", 17, "on time", 7, &error);
    cantle_range united = cantle_range_prefix("UA/EWR/", 7);
    cantle_iterator *it = cantle_iterator_new(db, NULL, &united, &error);
    for (cantle_slice key, value; cantle_iterator_prev(it, &key, &value, &error);)
        printf("%.*s: %.*s\n", (int)key.len, key.data, (int)value.len, value.data);
    cantle_iterator_free(it);
    return cantle_close(db, &error) == CANTLE_OK ? 0 : 1;
}
