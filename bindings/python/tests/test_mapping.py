"""A store as a mapping, and single operations."""

import pytest

import cantle


def test_what_is_put_is_got(db):
    db.put(b"key", b"value")
    assert db.get(b"key") == b"value"
    assert db[b"key"] == b"value"
    assert b"key" in db
    assert db.get(b"other") is None
    assert db.get(b"other", 5) == 5
    assert db.get(b"other", default=b"") == b""
    assert b"other" not in db


def test_empty_keys_and_values_are_some(db):
    db[b""] = b""
    assert db[b""] == b""
    assert db.get(b"", 5) == b""


def test_missing_keys_raise_key_error(db):
    with pytest.raises(KeyError) as raised:
        db[b"key"]
    assert raised.value.args == (b"key",)
    with pytest.raises(KeyError):
        del db[b"key"]
    with pytest.raises(KeyError):
        db.pop(b"key")
    db.delete(b"key")


def test_del_removes(db):
    db[b"key"] = b"value"
    del db[b"key"]
    assert b"key" not in db
    db[b"key"] = b"value"
    db.delete(b"key", durability="sync")
    assert b"key" not in db


def test_pop_and_setdefault_do_as_a_dict(db):
    assert db.setdefault(b"key", b"1") == b"1"
    assert db.setdefault(b"key", b"2") == b"1"
    assert db.pop(b"key", None) == b"1"
    assert db.pop(b"key", None) is None
    with pytest.raises(TypeError):
        db.pop(b"key", None, None)


def test_update_sees_the_old_value_and_stores_the_new(db):
    assert db.update(b"n", lambda old: b"1" if old is None else old + b"1") == b"1"
    assert db.update(b"n", lambda old: b"1" if old is None else old + b"1") == b"11"
    assert db.update(b"n", lambda old: None) is None
    assert b"n" not in db
    assert db.update(b"n", lambda old: bytearray(b"x")) == b"x"


def test_an_update_that_raises_changes_nothing(db):
    db[b"n"] = b"1"
    with pytest.raises(ZeroDivisionError):
        db.update(b"n", lambda old: 1 / 0)
    with pytest.raises(TypeError, match="a value is bytes-like, not int"):
        db.update(b"n", lambda old: 5)
    with pytest.raises(TypeError):
        db.update(b"n", b"function")
    assert db[b"n"] == b"1"
    assert list(db) == [b"n"]


def test_keys_values_and_items_are_in_order(db):
    for key in (b"b", b"a", b"c"):
        db[key] = key.upper()
    assert list(db) == [b"a", b"b", b"c"]
    assert list(db.keys()) == [b"a", b"b", b"c"]
    assert list(db.values()) == [b"A", b"B", b"C"]
    assert dict(db.items()) == {b"a": b"A", b"b": b"B", b"c": b"C"}
    assert dict(db) == {b"a": b"A", b"b": b"B", b"c": b"C"}


def test_a_store_has_no_length_and_is_true(db):
    assert db
    with pytest.raises(TypeError):
        len(db)


def test_tuples_are_composite_keys(db):
    db["UA", "EWR", 1545] = b"delayed"
    assert db["UA", "EWR", 1545] == b"delayed"
    assert ("UA", "EWR", 1545) in db
    assert db.get(cantle.encode_key(("UA", "EWR", 1545))) == b"delayed"
    parts = (None, b"\0\xff", "ä", -5, 2**63 - 1, -(2**63), 0.5, True, False, ("nested", (1, None)))
    assert cantle.decode_key(cantle.encode_key(parts)) == parts
    assert [type(part) for part in cantle.decode_key(cantle.encode_key(parts))] == [type(part) for part in parts]
    assert cantle.encode_key(()) == b""
    assert cantle.encode_key((["a", 1],)) == cantle.encode_key((("a", 1),))
    assert cantle.encode_key((bytearray(b"a"), memoryview(b"b"))) == cantle.encode_key((b"a", b"b"))


def test_composite_keys_sort_as_their_tuples():
    tuples = sorted([("a", -10), ("a", 2), ("a", 300), ("b",), ("a",), ("ab", 0), ("a", 2, 1)])
    assert sorted(tuples, key=cantle.encode_key) == tuples


def test_what_is_no_composite_key_is_refused():
    for key in (b"\x02text", b"\xfe", b"\x15"):
        with pytest.raises(cantle.InvalidArgumentError, match="not a composite key"):
            cantle.decode_key(key)
    with pytest.raises(ValueError, match="at most 2,040 bits, not 2041"):
        cantle.encode_key((2**2040,))
    with pytest.raises(TypeError, match="a part of a key is"):
        cantle.encode_key((object(),))
    nested = ()
    for _ in range(40):
        nested = (nested,)
    with pytest.raises(ValueError, match="nested deeper"):
        cantle.encode_key(nested)
    cycle = []
    cycle.append(cycle)
    with pytest.raises(ValueError, match="nested deeper"):
        cantle.encode_key((cycle,))
