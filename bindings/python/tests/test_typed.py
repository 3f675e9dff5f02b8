"""Keyspaces of typed keys and values."""

import json
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
