"""Keyspaces of typed keys and values."""

import json
import threading
from datetime import date, datetime, timedelta, timezone
from typing import Optional
from uuid import UUID

import pytest

import cantle
from cantle import Float32, InvalidArgumentError, OptionMismatchError, WrongTypeError, encode_key

NOON = datetime(2013, 7, 4, 12, tzinfo=timezone.utc)


@pytest.fixture
def flights(db):
    flights = db.typed("flights", (str, datetime, Optional[int]), str)
    for carrier, hour, number in (("UA", 0, 1), ("UA", 1, None), ("UAL", 0, 3), ("DL", 2, 4)):
        flights[carrier, NOON + timedelta(hours=hour), number] = f"{carrier}{hour}"
    return flights


def test_a_typed_keyspace_is_a_map_of_its_types(flights):
    assert flights["UA", NOON, 1] == "UA0" == flights.get(("UA", NOON, 1))
    assert ("UA", NOON, 1) in flights and ("UA", NOON, 2) not in flights
    assert flights.get(("UA", NOON, 2), "none") == "none"
    with pytest.raises(KeyError):
        flights["UA", NOON, 2]
    assert list(flights) == [key for key, _ in flights.items()]
    assert flights.first() == (("DL", NOON + timedelta(hours=2), 4), "DL2")
    assert flights.last() == (("UAL", NOON, 3), "UAL0")
    del flights["UAL", NOON, 3]
    with pytest.raises(KeyError):
        del flights["UAL", NOON, 3]
    flights.delete(("UAL", NOON, 3))
    assert flights.last()[1] == "UA1"
    assert repr(flights) == "<TypedKeyspace 'flights' of text, time, int?: text>"


def test_leading_parts_bound_ranges(flights):
    def found(*bounds, **options):
        return [value for _, value in flights.range(*bounds, **options)]

    assert found(prefix=("UA",)) == ["UA0", "UA1"]
    assert found(prefix=("UA",), reverse=True, limit=1) == ["UA1"]
    assert found(("DL",), ("UA",)) == ["DL2"]
    assert found(("DL",), ("UA",), include_stop=True) == ["DL2", "UA0", "UA1"]
    assert found(("DL",), include_start=False) == ["UA0", "UA1", "UAL0"]
    assert found(("UA", NOON), ("UA", NOON + timedelta(hours=1))) == ["UA0"]
    assert found(("UA", NOON, 1), ("UA", NOON + timedelta(hours=1), None), include_stop=True) == ["UA0", "UA1"]
    assert found(("UA", NOON, 1), ("UA", NOON + timedelta(hours=1), None), include_start=False) == []
    assert found(stop=("E",)) == ["DL2"]
    with pytest.raises(TypeError, match="part 1 of the key is str, not 5"):
        found(prefix=(5,))


def test_a_key_of_one_part_is_a_prefix_of_itself(db):
    words = db.typed("words", str, str)
    words["UA"], words["UAL"] = "1", "2"
    assert [value for _, value in words.range(prefix="UA")] == ["1"]


def test_a_store_that_is_only_read_opens_typed(tmp_path):
    path = tmp_path / "read-only"
    with cantle.open(path) as db:
        loaded = db.keyspace("flights")
        loaded["UA", NOON] = b'{"dest":"IAH"}'
        loaded.metadata = b'{"cantle":1,"key":[["carrier","text"],["at","time"]],"value":"json"}'
    with cantle.open(path, read_only=True) as db:
        assert db.typed("flights", (str, datetime), "json").first()[1] == {"dest": "IAH"}
        assert b"types" not in db.keyspace("flights").metadata


def test_values_of_each_type_come_back(db):
    for number, (kind, values) in enumerate(
        [
            (bytes, [b"", b"\0\xff"]),
            (str, ["", "ä"]),
            (int, [0, -(2**100)]),
            (float, [0.5]),
            (bool, [True, False]),
            (datetime, [NOON]),
            (date, [date(2013, 7, 4)]),
            (UUID, [UUID(int=5)]),
            (Optional[int], [None, 5]),
            ((str, (int, Optional[Float32])), [("a", (1, None)), ("b", (2, Float32(0.5)))]),
            ("json", [{"a": [1, None, "ä"]}, 5]),
        ]
    ):
        typed = db.typed(f"values {number}", int, kind)
        for key, value in enumerate(values):
            typed[key] = value
        assert [value for _, value in typed.items()] == values
        db.typed(f"values {number}", int, kind)


def test_other_types_are_refused_and_named(db, flights):
    types = (str, datetime, Optional[int])
    for key, value, option, stored, given in (
        ((str, int, Optional[int]), str, "key types", "text, time, int?", "text, int, int?"),
        (types, bytes, "value encoding", "utf-8", "raw"),
        (types, "json", "value encoding", "utf-8", "json"),
    ):
        with pytest.raises(OptionMismatchError) as raised:
            db.typed("flights", key, value)
        error = raised.value
        assert (error.keyspace, error.option, error.stored, error.given) == ("flights", option, stored, given)
    db.typed("counts", int, int)
    with pytest.raises(OptionMismatchError, match="value type 'int', not 'bool'"):
        db.typed("counts", int, bool)
    with pytest.raises(TypeError, match="an Optional or a tuple of these, not <class 'complex'>"):
        db.typed("other", complex, str)
    db.put(b"a", b"b")
    with pytest.raises(InvalidArgumentError, match="pairs without types"):
        db.typed("default", str, str)


def test_arguments_of_other_types_are_type_errors(db, flights):
    for wrong in (("UA", NOON), ("UA", 5, 1), ("UA", NOON, True), "UA", ("UA", None, 1), (b"UA", NOON, 1)):
        with pytest.raises(TypeError, match="the key is|of the key is"):
            flights[wrong] = ""
    with pytest.raises(TypeError, match="the value is str, not 5"):
        flights["UA", NOON, 1] = 5
    days = db.typed("days", date, float)
    with pytest.raises(TypeError, match="the key is date, not datetime"):
        days[NOON] = 0.5
    with pytest.raises(TypeError, match="the value is float, not Float32"):
        days[NOON.date()] = Float32(0.5)


def test_a_pair_of_other_types_is_an_error_that_names_its_key(db):
    typed = db.typed("t", (str, int), (int, bool))
    key = encode_key(("a", 1))
    typed.keyspace[key] = b"nonsense"
    with pytest.raises(WrongTypeError, match=r"the value of the key \('a', 1\) is not of the type \(int, bool\)") as raised:
        typed["a", 1]
    assert (raised.value.keyspace, raised.value.key) == ("t", key)
    with pytest.raises(WrongTypeError):
        typed.update(("a", 1), lambda old: (1, True))
    assert typed.keyspace[key] == b"nonsense"
    del typed.keyspace[key]
    for key in (encode_key(("a", None)), encode_key(("a",)), b"\xff"):
        typed.keyspace[key] = encode_key((1, True))
        with pytest.raises(WrongTypeError, match="keyspace 't': the key"):
            list(typed.items())
        del typed.keyspace[key]


def test_an_update_reads_and_writes_the_type(db):
    counts = db.typed("counts", str, int)
    for expected in (1, 2, 3):
        assert counts.update("a", lambda old: (old or 0) + 1) == expected
    assert counts.update("a", lambda old: None) is None
    assert "a" not in counts


def test_the_metadata_are_those_of_rust(db):
    def metadata(name):
        return db.keyspace(name).metadata.decode()

    # The same texts are in crates/cantle/tests/typed.rs.
    db.typed("columns", (str, datetime, Optional[int], float), int)
    assert metadata("columns") == (
        '{"cantle":1,"key":[["key1","text"],["key2","time"],["key3","int"],["key4","float"]],"value":"raw",'
        '"types":{"key":["text","time","int?","float"],"value":"int","codec":"key"}}'
    )
    db.typed("others", ((str, bool), bytes), bytes)
    assert metadata("others") == (
        '{"cantle":1,"key":[],"value":"raw","types":{"key":["(text, bool)","bytes"],"value":"bytes","codec":"raw"}}'
    )


def test_a_keyspace_that_the_command_loaded_opens_with_the_types_of_its_columns(db):
    loaded = db.keyspace("flights")
    loaded["UA", NOON] = b'{"dest":"IAH"}'
    columns = '{"cantle":1,"key":[["carrier","text"],["at","time"]],"value":'
    loaded.metadata = (columns + '"json"}').encode()
    with pytest.raises(OptionMismatchError, match="text, time"):
        db.typed("flights", (str, int), "json")
    with pytest.raises(OptionMismatchError, match="'json', not 'raw'"):
        db.typed("flights", (str, datetime), str)
    flights = db.typed("flights", (str, datetime), "json")
    assert flights["UA", NOON] == {"dest": "IAH"}
    assert json.loads(loaded.metadata)["key"] == [["carrier", "text"], ["at", "time"]]
    # Rust names the type; JSON is read as what it is.
    loaded.metadata = loaded.metadata.replace(b'"any"', b'"Flight"')
    assert db.typed("flights", (str, datetime), "json").first()[1] == {"dest": "IAH"}
    for strange in (b"x", b"[]", b"{}", b'{"cantle":1}', b'{"cantle":1,"types":5}', b'{"cantle":1,"key":5,"value":"raw"}'):
        loaded.metadata = strange
        with pytest.raises(InvalidArgumentError, match="another program"):
            db.typed("flights", (str, datetime), "json")
    loaded.metadata = b'{"cantle":2}'
    with pytest.raises(InvalidArgumentError, match="use a newer one"):
        db.typed("flights", (str, datetime), "json")


def test_types_are_names_in_the_package():
    assert cantle.TypedKeyspace.__doc__ and issubclass(WrongTypeError, ValueError)


class Overtaken:
    """A keyspace in which `other` runs between the first look at the metadata and the record of types."""

    def __init__(self, keyspace, other):
        self._keyspace, self._other = keyspace, other

    @property
    def metadata(self):
        stored = self._keyspace.metadata
        other, self._other = self._other, None
        if other is not None:
            other()
        return stored

    def __getattr__(self, name):
        return getattr(self._keyspace, name)


def test_of_two_openings_at_once_the_first_record_of_types_counts(db):
    with pytest.raises(OptionMismatchError) as raised:
        cantle.TypedKeyspace(Overtaken(db.keyspace("t"), lambda: db.typed("t", int, str)), str, str)
    assert (raised.value.stored, raised.value.given) == ("int", "text")
    db.typed("t", int, str)
    same = Overtaken(db.keyspace("u"), lambda: db.typed("u", int, str))
    assert cantle.TypedKeyspace(same, int, str).first() is None


def test_threads_that_open_with_different_types_agree_on_one(db):
    barrier = threading.Barrier(4)
    opened = []

    def open_as(kind):
        barrier.wait()
        try:
            opened.append(db.typed("t", kind, str))
        except OptionMismatchError:
            pass

    threads = [threading.Thread(target=open_as, args=(kind,)) for kind in (int, str, bytes, float)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(opened) == 1


def test_metadata_is_swapped_only_if_it_is_what_was_expected(db):
    keyspace = db.keyspace("t")
    assert not keyspace.compare_and_swap_metadata(b"old", b"new") and keyspace.metadata == b""
    assert keyspace.compare_and_swap_metadata(b"", bytearray(b"new")) and keyspace.metadata == b"new"
    with pytest.raises(InvalidArgumentError, match="64 KiB"):
        keyspace.compare_and_swap_metadata(b"new", b"x" * 65537)


def test_typed_pairs_come_from_both_ends(flights):
    first, last = flights.first(), flights.last()
    assert flights.pop_first() == first == (("DL", NOON + timedelta(hours=2), 4), "DL2")
    assert flights.pop_last() == last and flights.last()[1] == "UA1"
    assert [flights.pop_first()[1], flights.pop_first()[1], flights.pop_first(), flights.pop_last()] == ["UA0", "UA1", None, None]


def test_threads_empty_a_typed_queue_and_each_pair_comes_out_once(db):
    queue = db.typed("queue", int, str)
    for number in range(200):
        queue[number] = str(number)
    popped = []

    def empty(pop):
        while (pair := pop()) is not None:
            popped.append(pair)

    threads = [threading.Thread(target=empty, args=(pop,)) for pop in (queue.pop_first, queue.pop_last) * 2]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(popped) == [(number, str(number)) for number in range(200)]


def test_a_pair_of_other_types_is_not_popped(db):
    queue = db.typed("queue", int, int)
    queue.keyspace[encode_key((1,))] = b"nonsense"
    for pop in (queue.pop_first, queue.pop_last):
        with pytest.raises(WrongTypeError):
            pop()
    with db.transaction() as tx:
        for pop in (tx.typed(queue).pop_first, tx.typed(queue).pop_last):
            with pytest.raises(WrongTypeError):
                pop()
    assert queue.keyspace[encode_key((1,))] == b"nonsense"


def test_typed_swaps(db):
    counts = db.typed("counts", str, int)
    assert counts.insert_if_absent("a", 1) and not counts.insert_if_absent("a", 2)
    assert not counts.compare_and_swap("a", 2, 3)
    assert counts.compare_and_swap("a", 1, 3) and counts["a"] == 3
    assert counts.compare_and_swap("a", 3, None) and "a" not in counts
    assert counts.compare_and_swap("a", None, 5) and counts["a"] == 5
    for swap in (lambda: counts.insert_if_absent(5, 1), lambda: counts.compare_and_swap("a", "5", 6)):
        with pytest.raises(TypeError):
            swap()


def test_ranges_of_typed_keys_are_deleted(flights):
    flights.delete_range(("UA", NOON), ("UA", NOON + timedelta(hours=1)))
    assert [value for _, value in flights.items()] == ["DL2", "UA1", "UAL0"]
    flights.delete_range(stop=("E",))
    flights.delete_range(("UAL",))
    assert [value for _, value in flights.items()] == ["UA1"]


def test_snapshots_transactions_and_batches_have_typed_views(db, flights):
    counts = db.typed("counts", str, int)
    snapshot = db.snapshot()
    with db.write_batch() as batch:
        batch.typed(counts)["a"] = 1
        batch.typed(counts).put("b", 2)
        batch.typed(counts)["c"] = 3
        del batch.typed(counts)["c"]
        batch.typed(flights).delete_range(("UA",), ("UB",))
        batch.typed(flights).delete(("DL", NOON + timedelta(hours=2), 4))
        assert counts.first() is None and len(batch) == 6
    assert list(counts.items()) == [("a", 1), ("b", 2)] and list(flights) == []

    then = snapshot.typed(flights)
    assert [value for _, value in then.range(prefix=("UA",))] == ["UA0", "UA1"]
    assert then["UA", NOON, 1] == "UA0" == then.get(("UA", NOON, 1)) and ("UA", NOON, 2) not in then
    assert then.first()[1] == "DL2" and then.last()[1] == "UAL0" and len(list(then)) == 4
    assert snapshot.typed(counts).first() is None
    assert repr(then) == "<TypedSnapshot 'flights' of text, time, int?: text>"
    snapshot.close()
    with pytest.raises(cantle.ClosedError):
        then.first()

    def move(tx):
        within = tx.typed(counts)
        within["a"] = within["a"] + 1
        assert within.insert_if_absent("c", 3) and not within.insert_if_absent("c", 4)
        assert within.compare_and_swap("c", 3, 4)
        assert within.pop_last() == ("c", 4) and within.pop_first() == ("a", 2)
        with pytest.raises(KeyError):
            del within["a"]
        tx.typed(flights)["UA", NOON, 1] = "moved"
        assert counts["a"] == 1
        return within.first()

    assert db.transact(move) == ("b", 2)
    assert list(counts.items()) == [("b", 2)] and flights["UA", NOON, 1] == "moved"
    with pytest.raises(TypeError, match="the value is int, not 'x'"):
        db.write_batch().typed(counts)["a"] = "x"
    for view in (db.snapshot(), db.transaction(), db.write_batch()):
        with pytest.raises(TypeError, match="typed takes a TypedKeyspace, as DB.typed makes it, not <cantle.DB"):
            view.typed(db)
