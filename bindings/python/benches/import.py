"""Costs of an import of a LevelDB store, beside LevelDB's own walk over it, in turns.

    python benches/import.py [--pairs 1000000] [--value-bytes 800] [--budget-mib 64] [--rounds 5]

The pairs are written in an order of chance, half of each value compresses, and LevelDB has its defaults, so that tables overlap. Every
turn is a process of its own, whose largest resident size is told. A line has the medians over the rounds, and the lowest and highest;
a megabyte is 10^6 bytes of keys and values.
"""

from __future__ import annotations

import argparse
import platform
import random
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import cantle

try:
    import plyvel
except ImportError:
    sys.exit("plyvel is missing: pip install -r requirements-test.txt")

BATCH_PAIRS = 1000


def fill(path: Path, pairs: int, value_bytes: int) -> None:
    choose = random.Random(1)
    order = list(range(pairs))
    choose.shuffle(order)
    with plyvel.DB(str(path), create_if_missing=True) as store:
        for start in range(0, pairs, BATCH_PAIRS):
            with store.write_batch() as batch:
                for index in order[start : start + BATCH_PAIRS]:
                    batch.put(b"%016d" % index, choose.randbytes(value_bytes // 2) + bytes(value_bytes - value_bytes // 2))


def walk(source: Path) -> None:
    with plyvel.DB(str(source)) as store:
        for _ in store.iterator(fill_cache=False):
            pass


def turn(what: str, source: Path, destination: Path, budget: int) -> None:
    """In a process of its own: prints seconds and the largest resident size, in bytes."""
    started = time.perf_counter()
    if what == "walk":
        walk(source)
    else:
        cantle.import_leveldb(source, destination, memory_budget=budget)
    print(time.perf_counter() - started, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=1_000_000)
    parser.add_argument("--value-bytes", type=int, default=800)
    parser.add_argument("--budget-mib", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--turn", nargs=4, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.turn:
        what, source, destination, budget = arguments.turn
        return turn(what, Path(source), Path(destination), int(budget))
    megabytes = arguments.pairs * (16 + arguments.value_bytes) / 1e6
    found: dict[str, list[tuple[float, float]]] = {"LevelDB's walk": [], "import": []}
    with tempfile.TemporaryDirectory() as directory:
        source, destination = Path(directory) / "leveldb", Path(directory) / "cantle"
        fill(source, arguments.pairs, arguments.value_bytes)
        for _ in range(arguments.rounds):
            for name, what in ("LevelDB's walk", "walk"), ("import", "import"):
                shutil.rmtree(destination, ignore_errors=True)
                command = [sys.executable, __file__, "--turn", what, source, destination, str(arguments.budget_mib << 20)]
                took, peak = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
                found[name].append((megabytes / float(took), int(peak) / (1 << 20)))
    print(f"Python {platform.python_version()}, {arguments.pairs} pairs of 16 + {arguments.value_bytes} bytes, "
          f"a budget of {arguments.budget_mib} MiB, {arguments.rounds} rounds")
    print(f"{'':16} {'MB/s':>24} {'MiB at most':>24}")
    for name, turns in found.items():
        cells = [f"{statistics.median(column):.0f} ({min(column):.0f}-{max(column):.0f})" for column in zip(*turns)]
        print(f"{name:16}", *(f"{cell:>24}" for cell in cells))


if __name__ == "__main__":
    main()
