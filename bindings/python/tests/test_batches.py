"""Batches, snapshots, keyspaces and transactions."""

import threading

import pytest

import cantle


def test_a_batch_is_written_at_a_clean_end(db):
    with db.write_batch() as batch:
        batch.put(b"a", b"1")
        batch[b"b"] = b"2"
        batch.delete(b"c")
        assert len(batch) == 3
        assert list(db) == []
    assert dict(db) == {b"a": b"1", b"b": b"2"}
    assert len(batch) == 0
    assert batch


def test_a_batch_is_discarded_by_an_exception(db):
    with pytest.raises(ZeroDivisionError), db.write_batch() as batch:
        batch[b"a"] = b"1"
        1 / 0
    assert list(db) == []
    batch.write()
    assert list(db) == []


def test_a_batch_spans_keyspaces(db):
    counts = db.keyspace("counts")
    db[b"old"] = counts[b"old"] = b""
    with db.write_batch(durability="sync") as batch:
        batch.put(b"a", b"1")
        batch.keyspace(counts).put(b"n", b"1")
        batch.keyspace(counts).delete(b"old")
        batch.delete_range(b"o", b"p")
    assert (list(db), list(counts)) == ([b"a"], [b"n"])
    with counts.write_batch() as batch:
        batch[b"n"] = b"2"
        del batch[b"none"]
        batch.keyspace(db).put(b"a", b"2")
    assert (db[b"a"], counts[b"n"]) == (b"2", b"2")


def test_a_batch_can_be_written_by_hand_and_cleared(db):
    batch = db.write_batch()
    batch[b"a"] = b"1"
    batch.clear()
    batch[b"b"] = b"2"
    batch.write()
    batch.write()
    assert list(db) == [b"b"]
    with pytest.raises(ValueError):
        db.write_batch(durability="none")


def test_a_batch_that_failed_is_still_there(db):
    keyspace = db.keyspace("gone")
    batch = db.write_batch()
    batch.put(b"a", b"1")
    batch.keyspace(keyspace).put(b"b", b"1")
    db.drop_keyspace("gone")
    with pytest.raises(cantle.NoKeyspaceError) as raised:
        batch.write()
    assert raised.value.keyspace == "gone"
    assert isinstance(raised.value, LookupError)
    assert len(batch) == 2
    assert list(db) == []


def test_a_snapshot_is_of_one_moment_over_keyspaces(db):
    other = db.keyspace("other")
    db[b"a"], other[b"b"] = b"1", b"1"
    with db.snapshot() as snapshot:
        db[b"a"], other[b"b"], db[b"c"] = b"2", b"2", b"2"
        assert snapshot[b"a"] == snapshot.keyspace(other).get(b"b") == b"1"
        assert snapshot.get(b"c", 5) == 5
        assert b"c" not in snapshot
        with pytest.raises(KeyError):
            snapshot[b"c"]
        assert list(snapshot) == [b"a"]
        assert list(snapshot.range()) == [(b"a", b"1")]
        assert list(snapshot.keyspace(other).range(reverse=True)) == [(b"b", b"1")]
        assert list(snapshot.keyspace(other).prefix(b"b").only_values()) == [b"1"]
        cursor = snapshot.keyspace(other).cursor()
        assert cursor.seek(b"a")
        assert cursor.item() == (b"b", b"1")
        assert not snapshot.closed
    assert snapshot.closed
    with pytest.raises(cantle.ClosedError, match="the snapshot is closed"):
        snapshot.get(b"a")
    assert other.snapshot()[b"b"] == b"2"


def test_keyspaces_are_made_listed_and_dropped(db):
    users = db.keyspace("users", compression="lz4", layout="chunk:chunk_bytes=1MiB")
    users[b"ada"] = b"1"
    assert db.keyspaces() == ["default", "users"]
    assert (users.name, db.name, users.comparator) == ("users", "default", "cantle.bytewise")
    assert db.keyspace("users")[b"ada"] == b"1"
    assert db.keyspace("default").get(b"ada") is None
    users.metadata = b"names"
    assert db.keyspace("users").metadata == b"names"
    assert users.stats()["name"] == "users"
    assert repr(users) == f"<cantle.Keyspace 'users' of '{db.path}'>"
    db.drop_keyspace("users")
    with pytest.raises(cantle.NoKeyspaceError):
        users.get(b"ada")
    for call in (lambda: db.drop_keyspace("default"), lambda: db.keyspace(""), lambda: db.keyspace("x", layout="chunk:chunk_bytes=5")):
        with pytest.raises(cantle.InvalidArgumentError):
            call()
    with pytest.raises(TypeError):
        db.keyspace("x", memory_budget=5)


def test_keyspaces_of_another_store_are_refused(db, tmp_path):
    with cantle.open(tmp_path / "other") as other:
        for use in (lambda: db.snapshot().keyspace(other).get(b"a"), lambda: db.transaction().keyspace(other).put(b"a", b"")):
            with pytest.raises(cantle.InvalidArgumentError, match="belongs to another store"):
                use()
        batch = db.write_batch()
        batch.keyspace(other).put(b"a", b"")
        with pytest.raises(cantle.InvalidArgumentError):
            batch.write()


def test_a_transaction_sees_its_writes_and_commits_at_a_clean_end(db):
    other = db.keyspace("other")
    db[b"a"] = b"1"
    with db.transaction() as tx:
        assert tx[b"a"] == b"1"
        tx[b"b"] = b"2"
        tx.keyspace(other).put(b"n", b"3")
        assert tx.get(b"b") == b"2"
        assert tx.keyspace(other).get(b"n") == b"3"
        del tx[b"a"]
        with pytest.raises(KeyError):
            del tx[b"a"]
        with pytest.raises(KeyError):
            tx[b"a"]
        assert b"a" not in tx
        assert list(tx.range()) == [(b"b", b"2")]
        assert list(tx.keyspace(other).prefix(b"n").only_keys()) == [b"n"]
        assert list(db) == [b"a"]
    assert tx.closed
    assert (dict(db), dict(other)) == ({b"b": b"2"}, {b"n": b"3"})
    with pytest.raises(cantle.ClosedError, match="the transaction is closed"):
        tx.get(b"a")
    with db.transaction(durability="sync") as tx:
        tx.delete_range()
        tx.keyspace(other).delete(b"n")
    assert (dict(db), dict(other)) == ({}, {})


def test_an_exception_rolls_back(db):
    with pytest.raises(ZeroDivisionError), db.transaction() as tx:
        tx[b"a"] = b"1"
        1 / 0
    with db.transaction() as tx:
        tx[b"a"] = b"1"
        tx.rollback()
    with db.transaction() as tx:
        tx[b"b"] = b"1"
        tx.commit()
    assert list(db) == [b"b"]


def test_a_lost_race_is_a_conflict_error(db):
    db[b"seat"] = b"free"
    tx = db.transaction()
    assert tx[b"seat"] == b"free"
    tx[b"mine"] = b""
    db[b"seat"] = b"taken"
    with pytest.raises(cantle.ConflictError, match='key "seat"') as raised:
        tx.commit()
    assert (raised.value.keyspace, raised.value.keys) == ("default", (b"seat", b"seat"))
    assert tx.closed
    assert list(db) == [b"seat"]


def test_only_what_was_taken_of_a_range_counts_as_read(db):
    with db.write_batch() as batch:
        for i in range(100):
            batch[b"%02d" % i] = b""
    with db.transaction() as tx:
        found = tx.range().only_keys()
        assert [next(found) for _ in range(10)][-1] == b"09"
        tx[b"x"] = b""
        db[b"50"] = b"changed"
    with pytest.raises(cantle.ConflictError), db.transaction() as tx:
        list(tx.range(limit=10))
        tx[b"x"] = b""
        db[b"05"] = b"changed"


def test_transact_runs_again_after_a_conflict(db):
    db[b"n"] = b"0"
    runs = []

    def add(tx):
        runs.append(tx)
        old = int(tx[b"n"])
        if len(runs) == 1:
            db[b"n"] = b"5"
        tx[b"n"] = b"%d" % (old + 1)
        return old + 1

    assert db.transact(add) == 6
    assert db[b"n"] == b"6"
    assert len(runs) == 2
    with pytest.raises(ZeroDivisionError):
        db.transact(lambda tx: tx.put(b"n", b"") or 1 / 0)
    assert db[b"n"] == b"6"
    db.transact(lambda tx: tx.rollback())


def test_no_increment_of_many_threads_is_lost(db):
    def add(tx):
        tx[b"n"] = b"%d" % (int(tx.get(b"n", b"0")) + 1)

    def work():
        for _ in range(50):
            db.transact(add)
            db.update(b"m", lambda old: b"%d" % (int(old or b"0") + 1))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (db[b"n"], db[b"m"]) == (b"200", b"200")
