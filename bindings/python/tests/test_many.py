"""Many keys that are read with one call."""

import threading
from datetime import datetime, timezone

import pytest
from conftest import damage

import cantle

NOON = datetime(2013, 7, 4, 12, tzinfo=timezone.utc)


@pytest.fixture
def filled(db):
    with db.write_batch() as batch:
        for number in range(1000):
            batch[b"%04d" % number] = b"value" * 20
    return db


def test_values_are_in_the_order_of_the_keys(db):
    db[b"a"], db["UA", 5], db[b"empty"] = b"1", b"2", b""
    keys = [("UA", 5), b"none", b"a", bytearray(b"empty"), memoryview(b"a")]
    found = db.get_many(keys)
    assert found == [b"2", None, b"1", b"", b"1"]
    assert [type(value) for value in found] == [bytes, type(None), bytes, bytes, bytes]
    assert found == [db.get(key) for key in keys] == db.get_many(keys, errors="return")
    assert db.get_many(iter(keys)) == db.get_many(key for key in keys) == found
    assert db.get_many([]) == []
    assert db.get_many({b"a": 5}) == [b"1"]
    other = db.keyspace("other")
    other[b"a"] = b"3"
    assert other.get_many([b"a", b"empty"]) == [b"3", None]


def test_many_keys_are_as_many_gets(filled):
    keys = [b"%04d" % (number * 7919 % 1100) for number in range(2000)]
    filled.compact_range()
    filled.close()
    for io_uring in (True, False):
        with cantle.open(filled.path, memory_budget=32 << 20, io_uring=io_uring) as db:
            found = db.get_many(keys)
            assert found == [db.get(key) for key in keys]
            assert {"reads_by_io_uring", "reads_by_hints"} < set(db.stats())
            assert io_uring or db.stats()["reads_by_io_uring"] == 0


def test_arguments_are_checked_before_anything_is_read(db):
    for errors in ("raise", "return"):
        with pytest.raises(TypeError, match="a key is bytes-like or a tuple, not str: encode it first"):
            db.get_many([b"a", "text"], errors=errors)
        with pytest.raises(TypeError):
            db.get_many(5, errors)
        with pytest.raises(ZeroDivisionError):
            db.get_many((1 / number for number in (1, 0)), errors)
    with pytest.raises(TypeError, match="not int"):
        db.get_many(b"key")
    with pytest.raises(TypeError):
        db.get_many([b"a"], errors=None)
    typed = db.typed("typed", int, int)
    for reader, keys in ((db, []), (db.snapshot(), []), (db.transaction(), [b"a"]), (typed, [])):
        with pytest.raises(ValueError, match='errors is "raise" or "return", not "ignore"'):
            reader.get_many(keys, errors="ignore")


def test_keys_whose_container_is_emptied_are_read(db):
    db[b"a"] = b"1"
    keys = [b"a", bytearray(b"b"), bytearray(b"a")]

    def emptied():
        while keys:
            yield keys.pop()

    assert db.get_many(emptied()) == [b"1", None, b"1"]


def test_a_snapshot_reads_its_moment(db):
    other = db.keyspace("other")
    db[b"a"], other[b"a"] = b"1", b"2"
    with db.snapshot() as snapshot:
        db[b"a"], db[b"b"], other[b"a"] = b"3", b"3", b"3"
        assert snapshot.get_many([b"b", b"a"]) == [None, b"1"]
        assert snapshot.keyspace(other).get_many([b"a"]) == [b"2"]
    assert db.get_many([b"b", b"a"]) == [b"3", b"3"]
    with pytest.raises(cantle.ClosedError, match="the snapshot is closed"):
        snapshot.get_many([b"a"], errors="return")


def test_a_transaction_sees_its_writes_and_counts_each_key_as_read(db):
    db[b"a"] = db[b"b"] = db[b"c"] = b"1"
    tx = db.transaction()
    tx[b"b"] = b"own"
    del tx[b"c"]
    assert tx.get_many([b"c", b"b", b"a", b"d"]) == [None, b"own", b"1", None]
    db[b"d"] = b"somebody else's"
    with pytest.raises(cantle.ConflictError):
        tx.commit()
    with db.transaction() as tx:
        assert tx.get_many([b"a", b"b"]) == [b"1", b"1"]
        tx[b"a"] = b"2"
        db[b"c"] = b"was not read"
    assert db[b"a"] == b"2"


def test_the_values_are_of_one_moment(db):
    keys = [b"%03d" % number for number in range(100)]

    def write():
        for number in range(200):
            with db.write_batch() as batch:
                for key in keys:
                    batch[key] = b"%d" % number

    writer = threading.Thread(target=write)
    writer.start()
    while writer.is_alive():
        assert len(set(db.get_many(keys))) == 1
    writer.join()


def test_a_damaged_pair_is_the_error_of_its_key(filled):
    filled.compact_range()
    filled.close()
    table = damage(filled.path)
    keys = [b"%04d" % number for number in range(999, -1, -1)]
    with cantle.open(filled.path) as db:
        found = db.get_many([b"none", *keys], errors="return")
        assert found.pop(0) is None
        failed = [value for value in found if isinstance(value, cantle.Error)]
        assert 0 < len(failed) < 500
        assert all(isinstance(error, cantle.CorruptionError) and error.path == table for error in failed)
        assert found.count(b"value" * 20) + len(failed) == 1000
        with pytest.raises(cantle.CorruptionError) as raised:
            db.get_many(keys)
        assert (raised.value.path, raised.value.offset) == (table, failed[0].offset)
        sound = [key for key, value in zip(keys, found) if isinstance(value, bytes)]
        assert db.get_many(sound) == [b"value" * 20] * len(sound)


def test_a_dropped_keyspace_is_the_error_of_each_key(db):
    gone = db.keyspace("gone")
    db.drop_keyspace("gone")
    with pytest.raises(cantle.NoKeyspaceError):
        gone.get_many([b"a"])
    errors = gone.get_many([b"a", b"b"], errors="return")
    assert [type(error) for error in errors] == [cantle.NoKeyspaceError] * 2


def test_an_order_that_is_a_function_compares_and_refuses_keys(tmp_path):
    orders = {"by number": lambda a, b: int(a) - int(b)}
    with cantle.open(tmp_path / "store", comparators=orders, comparator="by number") as db:
        for number in range(100):
            db[b"%d" % number] = b"%d" % number
        db.compact_range()
        assert db.get_many([b"007", b"100", b"99"]) == [b"7", None, b"99"]
        for errors in ("raise", "return"):
            with pytest.raises(ValueError, match="invalid literal"):
                db.get_many([b"1", b"one"], errors)


def test_typed_keyspaces_read_many(db):
    flights = db.typed("flights", (str, datetime), int)
    flights["UA", NOON], flights["DL", NOON] = 1, 2
    keys = [("DL", NOON), ("AA", NOON), ("UA", NOON)]
    assert flights.get_many(keys) == [2, None, 1]
    with db.snapshot() as snapshot, db.transaction() as tx:
        tx.typed(flights).put(("AA", NOON), 3)
        assert snapshot.typed(flights).get_many(iter(keys)) == [2, None, 1]
        assert tx.typed(flights).get_many(keys) == [2, 3, 1]
    with pytest.raises(TypeError):
        flights.get_many([("UA", 5)])

    flights.keyspace["UA", NOON] = b"nonsense"
    found = flights.get_many(keys, errors="return")
    assert found[:2] == [2, 3]
    assert isinstance(found[2], cantle.WrongTypeError)
    assert found[2].key == cantle.encode_key(("UA", NOON))
    with pytest.raises(cantle.WrongTypeError):
        flights.get_many(keys)
