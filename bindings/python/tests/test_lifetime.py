"""Closing, forgetting, forking, threads: nothing crashes, and nothing keeps a store locked."""

import gc
import os
import signal
import subprocess
import sys
import threading
import time
import weakref

import pytest

import cantle


def uses(db, keyspace):
    """Everything that can be done with what was made while the store was open."""
    snapshot, batch, tx, cursor, found = db.snapshot(), db.write_batch(), db.transaction(), db.cursor(), db.range()
    batch[b"b"] = b"1"
    tx[b"b"] = b"1"
    assert cursor.seek_to_first()
    assert next(found) == (b"a", b"1")
    return [
        lambda: db.get(b"a"),
        lambda: db.get_many([b"a"]),
        lambda: db.put(b"a", b""),
        lambda: db.put(b"a", b"", durability="sync"),
        lambda: db.delete(b"a"),
        lambda: db[b"a"],
        lambda: b"a" in db,
        lambda: list(db),
        lambda: db.range(),
        lambda: db.prefix(b"a"),
        lambda: db.cursor(),
        lambda: db.update(b"a", lambda old: b""),
        lambda: db.pop(b"a"),
        lambda: db.delete_range(),
        lambda: db.approximate_bytes(),
        lambda: db.compact_range(),
        lambda: db.regions(),
        lambda: db.stats(),
        lambda: db.verify(),
        lambda: db.sync(),
        lambda: db.backup("/nowhere"),
        lambda: db.keyspaces(),
        lambda: db.keyspace("new"),
        lambda: db.drop_keyspace("other"),
        lambda: db.snapshot(),
        lambda: db.write_batch(),
        lambda: db.transaction(),
        lambda: db.transact(lambda tx: None),
        lambda: db.metadata,
        lambda: db.comparator,
        lambda: db.__enter__(),
        lambda: keyspace.get(b"a"),
        lambda: keyspace.put(b"a", b""),
        lambda: keyspace.stats(),
        lambda: snapshot.get(b"a"),
        lambda: snapshot.get_many([], errors="return"),
        lambda: snapshot.range(),
        lambda: list(snapshot),
        lambda: snapshot.cursor(),
        lambda: batch.put(b"a", b""),
        lambda: batch.write(),
        lambda: batch.__enter__(),
        lambda: tx.get(b"a"),
        lambda: tx.get_many([b"a"]),
        lambda: tx.put(b"a", b""),
        lambda: tx.range(),
        lambda: tx.commit(),
        lambda: tx.__exit__(None, None, None),
        lambda: cursor.next(),
        lambda: cursor.seek(b"a"),
        lambda: cursor.key(),
        lambda: next(found),
        lambda: found.to_arrow(),
    ]


@pytest.fixture
def filled(db):
    for key in (b"a", b"c", b"d"):
        db[key] = b"1"
    return db


def test_use_after_close_is_a_closed_error(filled):
    db = filled
    calls = uses(db, db.keyspace("other"))
    assert not db.closed
    db.close()
    assert db.closed
    for call in calls:
        try:
            with pytest.raises(cantle.ClosedError, match="the store is closed"):
                call()
        except ImportError:
            pass  # to_arrow without pyarrow
    db.close()
    assert repr(db).endswith("(closed)>")


def test_closing_takes_the_store_back_from_whatever_is_still_open(filled):
    db = filled
    kept = [db.keyspace("other"), db.snapshot(), db.range(), db.cursor(), db.transaction(), db.write_batch()]
    next(kept[2])
    db.close()
    with cantle.open(db.path) as again:
        assert again[b"a"] == b"1"
    del kept


def test_a_forgotten_store_closes_with_the_last_of_its_objects(tmp_path):
    db = cantle.open(tmp_path / "store")
    db[b"a"] = b"1"
    db[b"b"] = b"2"
    found, seen = db.range(), weakref.ref(db)
    del db
    gc.collect()
    assert seen() is None
    assert list(found) == [(b"a", b"1"), (b"b", b"2")]
    with pytest.raises(cantle.LockedError):
        cantle.open(tmp_path / "store")
    del found
    gc.collect()
    cantle.open(tmp_path / "store").close()


def test_cycles_through_a_store_are_collected(tmp_path):
    class Holder:
        pass

    holder = Holder()
    holder.db = cantle.open(tmp_path / "store")
    holder.range = holder.db.range()
    holder.self = holder
    del holder
    gc.collect()
    cantle.open(tmp_path / "store").close()


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_gets_errors_and_harms_nothing(filled):
    db = filled
    calls = uses(db, db.keyspace("other"))
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            wrong = []
            for number, call in enumerate([*calls, db.close]):
                try:
                    call()
                    wrong.append(number)
                except cantle.ForkedError:
                    pass
                except ImportError:
                    pass
            # Forgetting them does not close the parent's store.
            del calls, call, db, filled
            gc.collect()
            os.write(writing, repr(wrong).encode())
        finally:
            os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert os.read(reading, 1000) == b"[]"
    os.close(reading)
    os.close(writing)
    db[b"e"] = b"1"
    db.close()
    with cantle.open(db.path) as again:
        assert list(again) == [b"a", b"c", b"d", b"e"]


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_child_that_lives_on_does_not_keep_the_store_locked(filled):
    db = filled
    child = os.fork()
    if child == 0:
        time.sleep(60)
        os._exit(0)
    try:
        db.close()
        cantle.open(db.path).close()
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_child_may_open_a_store_of_its_own(filled, tmp_path):
    child = os.fork()
    if child == 0:
        try:
            with cantle.open(tmp_path / "child") as own:
                own[b"a"] = b"1"
                os._exit(0 if own[b"a"] == b"1" else 1)
        except BaseException:
            os._exit(2)
    assert os.waitpid(child, 0)[1] == 0


def test_children_end_whatever_threads_did_at_the_fork(tmp_path):
    script = """
import os, sys, threading, cantle
from pathlib import Path
def work(number):
    while True:
        cantle.open(Path(sys.argv[1]) / str(number), memory_budget=1 << 20, background_threads=1).close()
for number in range(4):
    threading.Thread(target=work, args=(number,), daemon=True).start()
for number in range(100):
    child = os.fork()
    if child == 0:
        # As atexit does it.
        cantle._cantle.close_all()
        os._exit(0)
    os.waitpid(child, 0)
os._exit(0)
"""
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", script, str(tmp_path)], timeout=120, check=False)
    assert done.returncode == 0


def test_a_process_may_end_without_closing(tmp_path):
    script = """
import sys, threading, cantle
db = cantle.open(sys.argv[1], comparators={"c": lambda a, b: (a > b) - (a < b)}, comparator="c")
for i in range(2000):
    db[b"%06d" % (i * 7919 % 2000)] = b"value"
found, tx = db.range(), db.transaction()
next(found)
def work():
    while True:
        try:
            db[b"x"] = b"y"
        except cantle.ClosedError:
            return
threading.Thread(target=work, daemon=True).start()
"""
    for _ in range(3):
        done = subprocess.run([sys.executable, "-c", script, str(tmp_path / "store")], capture_output=True, text=True, timeout=60)
        assert (done.returncode, done.stderr) == (0, "")


def test_many_threads_use_one_store(db):
    errors = []

    def work(number):
        try:
            for i in range(200):
                key = b"%d/%04d" % (number, i)
                db[key] = key
                assert db[key] == key
                assert (key, key) in list(db.prefix(b"%d/" % number))
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert len(list(db)) == 1200


@pytest.mark.parametrize("limit", [None, 2500])
def test_threads_may_share_a_range(db, limit):
    with db.write_batch() as batch:
        for i in range(3000):
            batch[b"%04d" % i] = b""

    def work():
        try:
            seen.extend(found)
        except BaseException as error:
            seen.append(error)

    for _ in range(20):
        found, seen = db.range(limit=limit).only_keys(), []
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(seen) == [b"%04d" % i for i in range(limit or 3000)]


def test_closing_while_others_work_ends_them_with_an_error(tmp_path):
    """And whatever they were about to make does not keep the store locked."""
    for _ in range(10):
        db, ended = cantle.open(tmp_path / "store", memory_budget=32 << 20), []

        def work(number):
            kept = []
            try:
                while True:
                    kept = kept[-20:] + [db.range(), db.snapshot(), db.transaction(), db.cursor(), db.keyspace("other")]
                    kept.append(kept[-4].keyspace(kept[-1]).range())
                    db[b"%d" % number] = b"1"
            except cantle.ClosedError:
                ended.append(kept)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        time.sleep(0.05)
        db.close()
        cantle.open(tmp_path / "store").close()
        for thread in threads:
            thread.join(timeout=30)
        assert len(ended) == 4


def test_the_interpreter_runs_while_the_store_works(db):
    """Other threads make progress during one long call."""
    with db.write_batch() as batch:
        for i in range(200):
            batch[b"%04d" % i] = os.urandom(200_000)
    ticks, done = 0, threading.Event()

    def work():
        for _ in range(5):
            db.verify()
            db.compact_range()
        done.set()

    thread = threading.Thread(target=work)
    interval = sys.getswitchinterval()
    # The interpreter forces no switch now: other threads run only because the call released its lock.
    sys.setswitchinterval(1000)
    try:
        thread.start()
        while not done.is_set():
            ticks += 1
            time.sleep(0.001)
    finally:
        sys.setswitchinterval(interval)
    thread.join()
    assert ticks > 5


def test_a_closed_store_cannot_be_closed_by_its_own_update(filled):
    with pytest.raises(cantle.ClosedError):
        filled.update(b"a", lambda old: filled.close())
    assert filled.closed
