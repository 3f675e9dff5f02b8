"""The socket by which other programs look at a store that is open."""

from __future__ import annotations

import json
import os
import socket
import stat
from pathlib import Path

import cantle
import pytest


def test_other_programs_see_a_store_that_asks_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = tmp_path / "store"
    with cantle.open(store, monitor=True) as db:
        db[b"k"] = b"v"
        assert stat.S_IMODE(os.stat(store / "MONITOR").st_mode) == 0o600
        # The path of a socket is short.
        monkeypatch.chdir(store)
        with socket.socket(socket.AF_UNIX) as client:
            client.connect("MONITOR")
            client.sendall(b'{"request":"stats"}\n')
            answer = json.loads(client.makefile().readline())
        assert answer["answer"]["keyspaces"][0]["writes"] == 1
    assert not (store / "MONITOR").exists()
    with pytest.raises(cantle.InvalidArgumentError, match="monitor"):
        cantle.open(store, monitor=True, read_only=True)
    with cantle.open(store):
        assert not (store / "MONITOR").exists()
