"""A store for each test, closed at its end."""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

import cantle


@pytest.fixture
def db(tmp_path: Path) -> Iterator[cantle.DB]:
    with cantle.open(tmp_path / "store", memory_budget=32 << 20) as db:
        yield db


def module(name):
    """A module, without which the test is left out; where CANTLE_REQUIRE_PLYVEL is set, as in .ci/run, plyvel must be there."""
    if name == "plyvel" and os.environ.get("CANTLE_REQUIRE_PLYVEL"):
        return importlib.import_module(name)
    return pytest.importorskip(name)


def damage(path):
    """Flips a byte in the middle of the largest table."""
    table = max(path.glob("*.table"), key=lambda file: file.stat().st_size)
    data = bytearray(table.read_bytes())
    data[len(data) // 2] ^= 1
    table.write_bytes(data)
    return table
