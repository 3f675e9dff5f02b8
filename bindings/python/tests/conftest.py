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
