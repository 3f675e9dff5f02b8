"""Costs of puts and batches: cantle, cantle.plyvel and plyvel (LevelDB), in turns.

    python benches/put.py [--pairs 50000] [--value-bytes 100] [--rounds 7]

Each round puts every key, in an order of its own, into stores that have them all already: one by one, and in batches of a hundred.
A line has the medians over the rounds, in nanoseconds a pair, and the lowest and highest. The loop itself is in all of them.
"""

from __future__ import annotations

import argparse
import gc
import platform
import random
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

from get import BUDGET, nanos_each

import cantle
import cantle.plyvel

try:
    import plyvel
except ImportError:
    sys.exit("plyvel is missing: pip install -r requirements-test.txt")

BATCH_PAIRS = 100


def put_all(store: Any, keys: list[bytes], value: bytes) -> None:
    put = store.put
    for key in keys:
        put(key, value)


def put_in_batches(store: Any, keys: list[bytes], value: bytes) -> None:
    for first in range(0, len(keys), BATCH_PAIRS):
        with store.write_batch() as batch:
            put_all(batch, keys[first : first + BATCH_PAIRS], value)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=50_000)
    parser.add_argument("--value-bytes", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=7)
    arguments = parser.parse_args()
    keys = [b"%016d" % (i * 7919) for i in range(arguments.pairs)]
    choose = random.Random(1)
    value = bytes(choose.randrange(256) for _ in range(arguments.value_bytes))
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory)
        options = {"create_if_missing": True, "write_buffer_size": BUDGET // 2, "bloom_filter_bits": 10, "compression": None}
        stores: dict[str, Any] = {
            "cantle": cantle.open(path / "cantle", memory_budget=BUDGET),
            "cantle.plyvel": cantle.plyvel.DB(str(path / "compatible"), **options),
            "plyvel": plyvel.DB(str(path / "plyvel"), **options),
        }
        works = {"a put": put_all, "in a batch": put_in_batches}
        found: dict[tuple[str, str], list[tuple[float, float]]] = {(name, work): [] for name in stores for work in works}
        for counted in [False] + [True] * arguments.rounds:
            for name, store in stores.items():
                for work, run in works.items():
                    choose.shuffle(keys)
                    gc.collect()
                    nanos = nanos_each(lambda run=run, store=store: run(store, keys, value), len(keys))
                    if counted:
                        found[name, work].append(nanos)
        for store in stores.values():
            store.close()
    print(f"Python {platform.python_version()}, {arguments.pairs} pairs of {len(keys[0])} + {len(value)} bytes, {arguments.rounds} rounds")
    print(f"{'':14}", *(f"{'ns ' + work:>24} {'of the processor':>24}" for work in works))
    for name in stores:
        columns = [column for work in works for column in zip(*found[name, work])]
        cells = [f"{statistics.median(column):.0f} ({min(column):.0f}-{max(column):.0f})" for column in columns]
        print(f"{name:14}", *(f"{cell:>24}" for cell in cells))


if __name__ == "__main__":
    main()
