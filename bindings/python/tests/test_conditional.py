"""Writes that depend on what is there, the ends of a keyspace, and views of other keyspaces."""

from __future__ import annotations

import threading
from pathlib import Path

import cantle
import pytest


def test_pairs_come_from_both_ends(tmp_path: Path) -> None:
    with cantle.open(tmp_path / "store") as db:
        assert db.first() is None and db.pop_last() is None
        for key in b"b", b"a", b"c":
            db[key] = key.upper()
        snapshot = db.snapshot()
        assert db.first() == (b"a", b"A") and db.last() == (b"c", b"C")
        assert db.pop_first() == (b"a", b"A") and db.pop_last() == (b"c", b"C")
        assert list(db) == [b"b"]
        assert snapshot.first() == (b"a", b"A") and snapshot.last() == (b"c", b"C")


def test_threads_empty_a_queue_and_each_value_comes_out_once(tmp_path: Path) -> None:
    with cantle.open(tmp_path / "store") as db:
        queue = db.keyspace("queue")
        for number in range(2000):
            queue[(number,)] = str(number).encode()
        popped: list[bytes] = []

        def empty() -> None:
            while (pair := queue.pop_first()) is not None:
                popped.append(pair[1])

        threads = [threading.Thread(target=empty) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(popped) == len(set(popped)) == 2000


def test_swaps(tmp_path: Path) -> None:
    with cantle.open(tmp_path / "store") as db:
        assert db.insert_if_absent(b"k", b"1") and not db.insert_if_absent(b"k", b"2")
        assert not db.compare_and_swap(b"k", b"2", b"3")
        assert db.compare_and_swap(b"k", b"1", b"") and db[b"k"] == b""
        assert db.compare_and_swap(b"k", b"", None) and b"k" not in db
        assert db.compare_and_swap(b"k", None, b"new")
        for number in range(500):
            db[b"%d" % number] = b"value"
        assert 450 <= db.len_estimate() <= 550
        with pytest.raises(TypeError):
            db.compare_and_swap("k", None, b"1")  # type: ignore[arg-type]


def test_a_transaction_pops_and_swaps_by_what_it_sees(tmp_path: Path) -> None:
    with cantle.open(tmp_path / "store") as db:
        other = db.keyspace("other")
        db[b"a"] = b"1"
        with db.transaction() as tx:
            within = tx.keyspace(other)
            assert within.insert_if_absent(b"k", b"own") and not within.insert_if_absent(b"k", b"2")
            assert within.compare_and_swap(b"k", b"own", b"new")
            assert tx.pop_first() == (b"a", b"1") and tx.pop_last() is None and tx.first() is None
            assert within.last() == (b"k", b"new") and other.get(b"k") is None
        assert other[b"k"] == b"new" and b"a" not in db


def test_views_are_of_one_transaction_batch_and_snapshot(tmp_path: Path) -> None:
    with cantle.open(tmp_path / "store") as db:
        a, b = db.keyspace("a"), db.keyspace("b")
        with db.write_batch() as batch:
            batch[b"k"] = b"default"
            in_a = batch.keyspace(a)
            in_a[b"k"] = b"a"
            assert len(batch) == len(in_a) == 2
        snapshot = db.snapshot()
        of_a, of_b = snapshot.keyspace(a), snapshot.keyspace(b)
        tx = db.transaction()
        tx.keyspace(b)[b"k"] = tx.keyspace(a)[b"k"] + tx[b"k"]
        tx.keyspace(a).commit()
        assert tx.closed and b[b"k"] == b"adefault"
        assert of_a[b"k"] == b"a" and b"k" not in of_b and list(of_a) == [b"k"]
        of_a.close()
        assert snapshot.closed
        with pytest.raises(cantle.ClosedError):
            of_b.get(b"k")


def test_the_state_of_a_transaction_decides_on_another_run(tmp_path: Path) -> None:
    with cantle.open(tmp_path / "store") as db:
        runs = []

        def run(tx: cantle.Transaction) -> int:
            runs.append(tx.get(b"n"))
            tx[b"n"] = b"own"
            if len(runs) == 1:
                db[b"n"] = b"other"
                tx.commit()  # conflicts
            return len(runs)

        assert db.transact(run) == 2 and runs == [None, b"other"] and db[b"n"] == b"own"

        def give_up(tx: cantle.Transaction) -> None:
            tx.get(b"n")
            tx[b"m"] = b"1"
            db[b"n"] = b"again"
            try:
                tx.commit()
            except cantle.ConflictError:
                raise KeyError("own") from None

        with pytest.raises(KeyError):
            db.transact(give_up)

        def fail(tx: cantle.Transaction) -> None:
            runs.append(b"")
            tx[b"m"] = b"1"
            raise cantle.ConflictError("of something else")

        with pytest.raises(cantle.ConflictError):
            db.transact(fail)
        assert len(runs) == 3 and b"m" not in db


def test_a_keyspace_is_opened_or_created_as_asked(tmp_path: Path) -> None:
    with cantle.open(tmp_path / "store") as db:
        made = db.create_keyspace("made", compression="lz4")
        made[b"k"] = b"v"
        with pytest.raises(cantle.AlreadyExistsError, match='keyspace "made" exists already'):
            db.create_keyspace("made")
        assert db.keyspace("made")[b"k"] == b"v"
        assert db.keyspaces() == ["default", "made"]
