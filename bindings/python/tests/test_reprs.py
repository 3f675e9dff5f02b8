"""The text of each object: the store, the keyspace, the state, the position."""

import os

import pytest

import cantle
from cantle import plyvel


@pytest.fixture
def filled(db):
    for key in (b"a", b"b", b"c"):
        db[key] = b"value of " + key
    return db


def test_a_store_and_a_keyspace(filled):
    users = filled.keyspace("us'ers")
    path = repr(str(filled.path))
    assert repr(filled) == f"<cantle.DB {path}>"
    assert repr(users) == f"""<cantle.Keyspace "us'ers" of {path}>"""
    filled.close()
    assert repr(filled) == f"<cantle.DB {path} (closed)>"
    assert repr(users) == f"""<cantle.Keyspace "us'ers" of {path} (closed)>"""


def test_a_snapshot_is_open_or_closed(filled):
    of = f"of keyspace 'default' of '{filled.path}'"
    snapshot, other = filled.snapshot(), filled.snapshot()
    users = snapshot.keyspace(filled.keyspace("users"))
    assert repr(snapshot) == f"<cantle.Snapshot {of}>"
    assert repr(users) == f"<cantle.Snapshot of keyspace 'users' of '{filled.path}'>"
    snapshot.close()
    assert repr(snapshot) == f"<cantle.Snapshot {of} (closed)>"
    assert repr(users).endswith(" (closed)>")
    filled.close()
    assert repr(other) == f"<cantle.Snapshot {of} (closed)>"


def test_a_batch_counts_its_operations(filled):
    of = f"of keyspace 'default' of '{filled.path}'"
    batch = filled.write_batch()
    assert repr(batch) == f"<cantle.WriteBatch {of}, 0 operations>"
    batch.put(b"d", b"")
    assert repr(batch) == f"<cantle.WriteBatch {of}, 1 operation>"
    batch.keyspace(filled.keyspace("users")).delete(b"e")
    assert repr(batch) == f"<cantle.WriteBatch {of}, 2 operations>"
    batch.write()
    filled.close()
    assert repr(batch) == f"<cantle.WriteBatch {of}, 0 operations (closed)>"


def test_a_transaction_says_how_it_ended(filled):
    of = f"<cantle.Transaction of keyspace 'default' of '{filled.path}'"
    users = filled.keyspace("users")
    with filled.transaction() as tx:
        assert repr(tx) == f"{of}, 0 writes>"
        tx.put(b"d", b"")
        tx.keyspace(users).delete(b"e")
        tx.delete_range(b"x", b"y")
        assert tx.pop_first() is not None
        assert not tx.insert_if_absent(b"c", b"")
        assert repr(tx) == f"{of}, 4 writes>"
    assert repr(tx) == f"{of}, 4 writes (committed)>"
    tx = filled.transaction()
    tx.rollback()
    tx.rollback()
    assert repr(tx) == f"{of}, 0 writes (rolled back)>"
    tx = filled.transaction()
    tx.get(b"b")
    tx[b"d"] = b"of mine"
    filled[b"b"] = b"of another"
    with pytest.raises(cantle.ConflictError):
        tx.commit()
    assert repr(tx) == f"{of}, 1 write (not committed: conflict)>"
    open_one = filled.transaction()
    filled.close()
    assert repr(open_one) == f"{of}, 0 writes (closed)>"
    assert repr(tx) == f"{of}, 1 write (not committed: conflict)>"


def test_a_transaction_that_transact_ran_again_has_met_a_conflict(filled):
    seen = []

    def run(tx):
        tx.get(b"b")
        tx[b"d"] = b""
        if not seen:
            filled[b"b"] = b"of another"
        seen.append(tx)

    filled.transact(run)
    assert [repr(tx).partition(" writ")[2] or repr(tx) for tx in seen] == ["e (not committed: conflict)>", "e (committed)>"]


def test_a_range_counts_what_it_has_yielded(filled):
    of = f"<cantle.Range of keyspace 'default' of '{filled.path}'"
    found = filled.range()
    assert repr(found) == f"{of}, 0 pairs yielded>"
    next(found)
    assert repr(found) == f"{of}, 1 pair yielded>"
    assert len(list(found)) == 2
    assert repr(found) == f"{of}, 3 pairs yielded (at its end)>"
    found = filled.range(reverse=True).only_keys()
    next(found)
    assert repr(found) == f"{of}, reverse, 1 key yielded>"
    found.close()
    assert repr(found) == f"{of}, reverse, 1 key yielded (closed)>"
    assert repr(filled.range().only_values()) == f"{of}, 0 values yielded>"
    assert repr(filled.range().tuples()) == f"{of}, keys as tuples, 0 pairs yielded>"
    with filled.transaction() as tx:
        assert repr(tx.range()) == f"{of}, 0 pairs yielded>"


def test_a_cursor_shows_its_key(filled):
    of = f"<cantle.Cursor of keyspace 'default' of '{filled.path}'"
    filled[b"k" * 1000] = b""
    cursor = filled.cursor()
    assert repr(cursor) == f"{of}, at no pair>"
    cursor.seek(b"b")
    assert repr(cursor) == f"{of}, at b'b'>"
    cursor.seek_to_last()
    assert repr(cursor) == f"{of}, at {b'k' * 64!r}... (1000 bytes)>"
    cursor.close()
    assert repr(cursor) == f"{of} (closed)>"


def test_resources():
    resources = cantle.Resources(1 << 20, background_threads=2)
    assert repr(resources) == "cantle.Resources(memory_budget=1048576, background_threads=2)"
    assert (resources.memory_budget, resources.background_threads) == (1 << 20, 2)


def test_objects_of_plyvel(tmp_path):
    path = str(tmp_path / "store")
    db = plyvel.DB(path, create_if_missing=True)
    for key in (b"a", b"b", b"p:c"):
        db.put(key, b"")
    prefixed = db.prefixed_db(b"p:")
    assert repr(db).startswith(f"<plyvel.DB with name {path!r} at ")
    assert repr(prefixed).startswith(f"<plyvel.PrefixedDB with prefix b'p:' of {path!r} at ")
    snapshot = prefixed.snapshot()
    assert repr(snapshot) == f"<plyvel.Snapshot of {path!r} with prefix b'p:'>"
    snapshot.close()
    assert repr(snapshot) == f"<plyvel.Snapshot of {path!r} with prefix b'p:' (closed)>"
    batch = prefixed.write_batch()
    batch.put(b"d", b"")
    assert repr(batch) == f"<plyvel.WriteBatch {path!r}, prefix b'p:', 1 operation>"
    iterator = db.iterator()
    assert repr(iterator) == f"<plyvel.Iterator {path!r}, at the start>"
    next(iterator)
    assert repr(iterator) == f"<plyvel.Iterator {path!r}, after b'a'>"
    iterator.seek(b"b")
    assert repr(iterator) == f"<plyvel.Iterator {path!r}, before b'b'>"
    assert len(list(iterator)) == 2
    assert repr(iterator) == f"<plyvel.Iterator {path!r}, at the stop>"
    backwards = prefixed.iterator(reverse=True)
    next(backwards)
    assert repr(backwards) == f"<plyvel.Iterator {path!r}, prefix b'p:', reverse, before b'c'>"
    raw = db.raw_iterator()
    assert repr(raw) == f"<plyvel.RawIterator {path!r}, at no pair>"
    raw.seek(b"b")
    assert repr(raw) == f"<plyvel.RawIterator {path!r}, at b'b'>"
    iterator.close()
    assert repr(iterator) == f"<plyvel.Iterator {path!r} (closed)>"
    db.close()
    assert repr(backwards) == f"<plyvel.Iterator {path!r}, prefix b'p:', reverse (closed)>"
    assert " (closed) at " in repr(db)
    assert " (closed) at " in repr(prefixed)
    assert repr(batch).endswith("(closed)>")
    assert repr(raw).endswith("(closed)>")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_objects_of_a_forked_process_say_so(filled):
    objects = [
        filled,
        filled.keyspace("users"),
        filled.snapshot(),
        filled.transaction(),
        filled.write_batch(),
        filled.range(),
        filled.cursor(),
    ]
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(writing, "\n".join(map(repr, objects)).encode())
        finally:
            os._exit(0)
    os.close(writing)
    with open(reading) as pipe:
        lines = pipe.read().splitlines()
    os.waitpid(child, 0)
    assert len(lines) == len(objects)
    assert [line for line in lines if not line.endswith(f"'{filled.path}' (forked)>")] == []
