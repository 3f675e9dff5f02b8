"""Costs of a get: cantle, cantle.plyvel and plyvel (LevelDB), in turns, on the same pairs.

    python benches/get.py [--pairs 100000] [--value-bytes 100] [--rounds 15]

Everything is in memory: LevelDB has a block cache, and Cantle a budget, beyond what the pairs take. Each round looks up every
key in an order of its own and steps over all pairs once; a line has the medians over the rounds, in nanoseconds, and the lowest and
highest. The loop itself is in all of them.
"""

from __future__ import annotations

import argparse
import gc
import platform
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import cantle
import cantle.plyvel

try:
    import plyvel
except ImportError:
    sys.exit("plyvel is missing: pip install -r requirements-test.txt")

BUDGET = 256 << 20


def nanos_each(run: Callable[[], None], times: int) -> tuple[float, float]:
    """By the clock, and of the processor: a machine with other work changes the second less."""
    started, used = time.perf_counter_ns(), time.thread_time_ns()
    run()
    return (time.perf_counter_ns() - started) / times, (time.thread_time_ns() - used) / times


def getting(get: Callable[[bytes], Any], keys: list[bytes]) -> Callable[[], None]:
    def run() -> None:
        for key in keys:
            get(key)

    return run


def walking(walk: Callable[[], Iterable[object]]) -> Callable[[], None]:
    def run() -> None:
        for _ in walk():
            pass

    return run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=100_000)
    parser.add_argument("--value-bytes", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=15)
    arguments = parser.parse_args()
    keys = [b"%016d" % (i * 7919) for i in range(arguments.pairs)]
    shuffled = list(keys)
    choose = random.Random(1)
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory)
        native = cantle.open(path / "cantle", memory_budget=BUDGET)
        options = {"create_if_missing": True, "lru_cache_size": BUDGET, "bloom_filter_bits": 10, "compression": None}
        compatible = cantle.plyvel.DB(str(path / "compatible"), **options)
        original = plyvel.DB(str(path / "plyvel"), **options)
        stores: dict[str, Any] = {"cantle": native, "cantle.plyvel": compatible, "plyvel": original}
        value = bytes(choose.randrange(256) for _ in range(arguments.value_bytes))
        for store in stores.values():
            with store.write_batch() as batch:
                for key in keys:
                    batch.put(key, value)
            store.compact_range()
        walks = {"cantle": native.range, "cantle.plyvel": compatible.iterator, "plyvel": original.iterator}
        gets: dict[str, list[tuple[float, float]]] = {name: [] for name in stores}
        steps: dict[str, list[tuple[float, float]]] = {name: [] for name in stores}
        # Two rounds that do not count: caches fill, and chunks become popular.
        for counted in [False] * 2 + [True] * arguments.rounds:
            for name, store in stores.items():
                choose.shuffle(shuffled)
                gc.collect()
                get = nanos_each(getting(store.get, shuffled), len(keys))
                step = nanos_each(walking(walks[name]), len(keys))
                if counted:
                    gets[name].append(get)
                    steps[name].append(step)
            if not counted:
                time.sleep(1)
        for store in stores.values():
            store.close()
    print(f"Python {platform.python_version()}, {arguments.pairs} pairs of {len(keys[0])} + {len(value)} bytes, {arguments.rounds} rounds")
    print(f"{'':14} {'ns a get':>24} {'of the processor':>24} {'ns a step':>24} {'of the processor':>24}")
    for name in stores:
        columns = [*zip(*gets[name]), *zip(*steps[name])]
        cells = [f"{statistics.median(found):.0f} ({min(found):.0f}-{max(found):.0f})" for found in columns]
        print(f"{name:14}", *(f"{cell:>24}" for cell in cells))


if __name__ == "__main__":
    main()
