/*
 * Cantle in C with all features that a real program uses: options, errors, a batch over two
 * keyspaces, composite keys, a transaction that is repeated after a conflict, a snapshot, statistics.
 * Usage: seats DIRECTORY
 */
#include <cantle.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What to do about an error depends on its status; the message is for people. */
static void check(cantle_status status, cantle_error *error) {
    if (status == CANTLE_OK) return;
    fprintf(stderr, "seats: %s\n", cantle_error_message(error));
    cantle_error_free(error);
    exit(1);
}

static void check_pointer(const void *pointer, cantle_error *error) {
    check(pointer != NULL ? CANTLE_OK : cantle_error_status(error), error);
}

struct booking {
    cantle_keyspace *taken;
    const char *who;
    char seat[8];
};

/* Takes the first free seat; nobody else gets the same. */
static int book(void *user, cantle_transaction *tx, cantle_error **error) {
    struct booking *booking = user;
    int status = CANTLE_ABORTED; /* no seat is left */
    cantle_slice key;
    cantle_iterator *free_seats = cantle_transaction_iterator(tx, NULL, NULL, error);
    if (free_seats == NULL) return cantle_error_status(*error);
    if (cantle_iterator_next(free_seats, &key, NULL, error)) {
        snprintf(booking->seat, sizeof booking->seat, "%.*s", (int)key.len, key.data);
        status = cantle_transaction_delete(tx, NULL, key.data, key.len, error);
        if (status == CANTLE_OK)
            status = cantle_transaction_put(tx, booking->taken, booking->seat, strlen(booking->seat), booking->who,
                                            strlen(booking->who), error);
    } else if (*error != NULL) {
        status = cantle_error_status(*error);
    }
    cantle_iterator_free(free_seats);
    return status;
}

int main(int argc, char **argv) {
    cantle_error *error = NULL;
    cantle_options *options = cantle_options_new();
    cantle_options_memory_budget(options, 64 << 20);
    cantle_db *db = cantle_open(argc > 1 ? argv[1] : "seats", options, &error);
    check_pointer(db, error);
    cantle_options_free(options);
    cantle_keyspace *taken = cantle_keyspace_open(db, "taken", NULL, &error);
    check_pointer(taken, error);

    /* Three free seats and nobody on board, in one step that survives a loss of power. */
    cantle_batch *batch = cantle_batch_new();
    check(cantle_batch_delete_range(batch, taken, NULL, &error), error);
    check(cantle_batch_put(batch, NULL, "12A", 3, "window", 6, &error), error);
    check(cantle_batch_put(batch, NULL, "12B", 3, "middle", 6, &error), error);
    check(cantle_batch_put(batch, NULL, "12C", 3, "aisle", 5, &error), error);
    check(cantle_write(db, batch, CANTLE_SYNC, &error), error);
    cantle_batch_free(batch);

    cantle_snapshot *before = cantle_snapshot_new(db, &error);
    check_pointer(before, error);
    static const char *passengers[] = {"ada", "bob"};
    for (int i = 0; i < 2; i++) {
        struct booking booking = {taken, passengers[i], ""};
        check(cantle_transact(db, book, &booking, &error), error);
        printf("%s has %s\n", booking.who, booking.seat);
    }

    /* The snapshot is the store as it was. */
    bool found;
    check(cantle_snapshot_contains(before, NULL, "12A", 3, &found, &error), error);
    printf("12A was %s before\n", found ? "free" : "taken");
    cantle_snapshot_free(before);

    char *owner;
    size_t owner_len;
    check(cantle_get(db, taken, "12B", 3, &owner, &owner_len, &error), error);
    if (owner != NULL) printf("12B belongs to %s\n", owner);
    cantle_free(owner);

    uint64_t committed;
    check(cantle_stat(db, "transactions_committed", &committed, &error), error);
    printf("%" PRIu64 " transactions\n", committed);
    cantle_keyspace_free(taken);
    check(cantle_close(db, &error), error);
    return 0;
}
