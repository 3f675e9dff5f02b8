"""Ranges and cursors."""

import pytest

import cantle

KEYS = [b"a", b"a\xff", b"a\xff\xff", b"b", b"ba", b"c"]


@pytest.fixture
def letters(db):
    with db.write_batch() as batch:
        for key in KEYS:
            batch[key] = b"of " + key
    return db


def keys(found):
    return list(found.only_keys())


def test_ends_and_what_they_include(letters):
    assert list(letters.range(b"b", b"c")) == [(b"b", b"of b"), (b"ba", b"of ba")]
    assert keys(letters.range(b"b")) == [b"b", b"ba", b"c"]
    assert keys(letters.range(stop=b"b")) == KEYS[:3]
    assert keys(letters.range(b"b", b"c", include_stop=True)) == [b"b", b"ba", b"c"]
    assert keys(letters.range(b"b", b"c", include_start=False)) == [b"ba"]
    assert keys(letters.range()) == KEYS
    assert keys(letters.range(b"c", b"a")) == []
    assert keys(letters.range(b"b", b"b")) == []
    assert keys(letters.range(b"b", b"b", include_stop=True)) == [b"b"]


def test_reverse_and_limit(letters):
    assert keys(letters.range(reverse=True)) == KEYS[::-1]
    assert keys(letters.range(b"a\xff", b"c", reverse=True, limit=2)) == [b"ba", b"b"]
    assert keys(letters.range(limit=0)) == []
    assert keys(letters.range(limit=2)) == KEYS[:2]
    assert keys(letters.range(limit=100)) == KEYS


def test_prefixes(letters):
    assert keys(letters.prefix(b"a")) == KEYS[:3]
    assert keys(letters.prefix(b"a\xff")) == KEYS[1:3]
    assert keys(letters.prefix(b"")) == KEYS
    assert keys(letters.prefix(b"b", reverse=True, limit=1)) == [b"ba"]
    assert keys(letters.range(b"a\xff", prefix=b"a", include_start=False)) == [b"a\xff\xff"]
    assert keys(letters.range(stop=b"a\xff", prefix=b"a", include_stop=True)) == [b"a", b"a\xff"]
    assert keys(letters.range(b"b", prefix=b"a")) == []
    assert keys(letters.range(b"", b"z", prefix=b"b")) == [b"b", b"ba"]
    letters[b"\xff\xff"] = b""
    letters[b"\xff\xff\x01"] = b""
    assert keys(letters.prefix(b"\xff")) == [b"\xff\xff", b"\xff\xff\x01"]


def test_a_tuple_is_a_prefix_of_tuples(db):
    for parts in [("ada", 1), ("ada", 2), ("ada\0", 1), ("adam", 1), ("ada",)]:
        db[parts] = b""
    assert [key for key, _ in db.prefix(("ada",)).tuples()] == [("ada",), ("ada", 1), ("ada", 2)]
    assert list(db.range(("ada", 2), ("adam", 1)).only_keys().tuples()) == [("ada", 2), ("ada\0", 1)]
    assert list(db.range(("ada", 2), prefix=("ada",)).tuples().only_keys()) == [("ada", 2)]
    db[b"\xfe"] = b""
    with pytest.raises(cantle.InvalidArgumentError):
        list(db.range().tuples())


def test_a_range_is_of_the_moment_when_it_was_made(letters):
    found, same = letters.range(), letters.range().only_values()
    letters.delete_range()
    letters[b"new"] = b""
    assert keys(found) == KEYS
    assert list(same) == [b"of " + key for key in KEYS]


@pytest.mark.parametrize("reverse", [False, True])
def test_many_pairs_and_large_ones_come_once_each_and_in_order(db, reverse):
    with db.write_batch() as batch:
        for i in range(5000):
            batch[b"%06d" % i] = b"v" * (i % 7) if i % 1000 else b"large" * 100_000
    found = list(db.range(reverse=reverse))
    expected = range(4999, -1, -1) if reverse else range(5000)
    assert [int(key) for key, _ in found] == list(expected)
    assert sum(len(value) for _, value in found) > 2_000_000
    assert [int(key) for key in db.range(reverse=reverse, limit=4321).only_keys()] == list(expected)[:4321]


def test_a_range_that_has_ended_stays_so_and_lets_go(letters):
    found = letters.range()
    assert letters.stats()["open_snapshots"] == 1
    assert len(list(found)) == len(KEYS)
    assert list(found) == []
    assert letters.stats()["open_snapshots"] == 0


def test_a_closed_range_says_so(letters):
    with letters.range() as found:
        assert next(found) == (b"a", b"of a")
    with pytest.raises(cantle.ClosedError, match="the range is closed"):
        next(found)
    found.close()
    assert letters.stats()["open_snapshots"] == 0


def test_a_cursor_goes_both_ways(letters):
    cursor = letters.cursor(b"a\xff", b"c")
    assert (cursor.key(), cursor.value(), cursor.item()) == (None, None, None)
    assert not cursor.next()
    assert cursor.seek_to_first()
    assert cursor.item() == (b"a\xff", b"of a\xff")
    assert not cursor.prev()
    assert cursor.key() is None
    assert cursor.seek_to_last()
    assert cursor.key() == b"ba"
    assert cursor.prev()
    assert cursor.next()
    assert cursor.value() == b"of ba"
    assert cursor.seek(b"")
    assert cursor.key() == b"a\xff"
    assert not cursor.seek(b"bb")
    cursor.close()
    for call in (cursor.key, cursor.next, lambda: cursor.seek(b"a")):
        with pytest.raises(cantle.ClosedError, match="the cursor is closed"):
            call()


def test_delete_range_and_sizes(letters):
    letters.delete_range(b"a\xff", b"c")
    assert list(letters) == [b"a", b"c"]
    letters.compact_range()
    assert letters.approximate_bytes() > 0
    assert letters.approximate_bytes(b"x", b"y") == 0
    assert [region["start"] for region in letters.regions()] == [b""]
