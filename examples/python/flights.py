"""Flights by airline, airport and day: composite keys, ranges, batches, updates, transactions, snapshots, keyspaces.

    python flights.py DIRECTORY
"""

import sys

import cantle


def main(directory: str) -> None:
    with cantle.open(directory, memory_budget=64 << 20) as db:
        # Tuples are keys, and sort as their parts do.
        db["UA", "EWR", "2013-07-04", 1545] = b"delayed"
        db["UA", "EWR", "2013-07-05", 1545] = b"on time"
        db["DL", "LGA", "2013-07-04", 461] = b"on time"

        # All of United's departures from Newark, the last one first: one consistent moment of the store.
        for (_, airport, day, number), status in db.prefix(("UA", "EWR"), reverse=True).tuples():
            print(f"{number} from {airport} on {day}: {status.decode()}")

        # A batch is seen whole or not at all, over all keyspaces; an exception discards it.
        counts = db.keyspace("counts")
        with db.write_batch() as batch:
            batch["DL", "LGA", "2013-07-05", 461] = b"cancelled"
            batch.keyspace(counts).put(("flights",), b"4")

        # Read, modify, write, atomically; and several keys as one step, which is run again if others interfere.
        counts.update(("flights",), lambda old: b"%d" % (int(old or b"0") + 1))

        def cancel(tx: cantle.Transaction) -> int:
            cancelled = list(tx.prefix(("UA",)).only_keys())
            for key in cancelled:
                tx.delete(key)
            left = int(tx.keyspace(counts).get(("flights",), b"0")) - len(cancelled)
            tx.keyspace(counts).put(("flights",), b"%d" % left)
            return left

        with db.snapshot() as before:
            print("left:", db.transact(cancel))
            print("before:", sum(1 for _ in before), "now:", sum(1 for _ in db))


if __name__ == "__main__":
    main(sys.argv[1])
