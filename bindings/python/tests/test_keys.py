"""Composite keys of each type, and what other languages wrote."""

import random
import re
import uuid
from datetime import date, datetime, timedelta, timezone
from pathlib import Path

import pytest

import cantle
from cantle import Float32, InvalidArgumentError, Versionstamp, decode_key, encode_key

UTC = timezone.utc
NOON = datetime(2013, 7, 4, 12, tzinfo=timezone(timedelta(hours=2)))


def there_and_back(*parts):
    back = decode_key(encode_key(parts))
    return back == parts and [type(part) for part in back] == [type(part) for part in parts]


def test_integers_of_any_size_come_back_and_sort():
    edges = [sign * (2**bits + near) for bits in (7, 8, 63, 64, 65, 127, 128, 2039) for near in (-1, 0, 1) for sign in (-1, 1)]
    largest = 2**2040 - 1
    for integer in [0, *edges, largest, -largest]:
        assert there_and_back(integer, "x", (integer,))
    assert sorted(edges, key=lambda edge: encode_key((edge, "x"))) == sorted(edges)
    # As the bindings of FoundationDB write them.
    assert encode_key((2**64,)) == b"\x1d\x09\x01" + bytes(8)
    assert encode_key((-(2**64),)) == b"\x0b\xf6\xfe" + b"\xff" * 8
    assert encode_key((2**64 - 1,)) == b"\x1c" + b"\xff" * 8
    for too_large in (largest + 1, -largest - 1):
        with pytest.raises(InvalidArgumentError, match="at most 2,040 bits, not 2041"):
            encode_key((too_large,))


def test_each_type_comes_back():
    assert there_and_back(uuid.UUID(int=5), uuid.UUID(int=2**128 - 1), (uuid.uuid4(), None))
    assert there_and_back(Float32(0.5), -0.0, Float32("inf"), True, False, None, b"\0", "\0")
    assert there_and_back(Versionstamp(b"0123456789ab"))
    assert decode_key(b"\x20\x3d\xd7\xff\xff") == (Float32(-42),)
    assert repr(decode_key(encode_key((Float32(0.5), 0.5)))) == "(Float32(0.5), 0.5)"
    assert decode_key(b"\x30" + bytes(range(16))) == (uuid.UUID(bytes=bytes(range(16))),)
    with pytest.raises(InvalidArgumentError, match="12 bytes, not 3"):
        encode_key((Versionstamp(b"abc"),))
    # Other subclasses are what they are subclasses of.
    assert encode_key((type("Name", (bytes,), {})(b"a"), type("Share", (float,), {})(0.5))) == encode_key((b"a", 0.5))


def test_times_are_microseconds():
    micros = 1_372_932_000_000_000
    assert encode_key(("EWR", NOON)) == encode_key(("EWR", micros))
    assert decode_key(encode_key((NOON,))) == (micros,)
    assert decode_key(encode_key((NOON,)), (datetime,)) == (NOON,)
    assert decode_key(encode_key((NOON,)), (datetime,))[0].tzinfo is UTC
    for time in (datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC), datetime(1969, 12, 31, 23, 59, 59, 999_999, UTC)):
        assert decode_key(encode_key((time,)), (datetime,)) == (time,)
    assert encode_key((datetime(1969, 12, 31, 23, 59, 59, 999_999, UTC),)) == encode_key((-1,))
    with pytest.raises(InvalidArgumentError, match="2013-07-04 12:00:00 has no time zone: .*timezone.utc"):
        encode_key(("EWR", datetime(2013, 7, 4, 12)))
    for micros in (2**63 - 1, -(2**63)):
        with pytest.raises(InvalidArgumentError, match="years 1 to 9999"):
            decode_key(encode_key((micros,)), (datetime,))


def test_a_date_sorts_before_the_times_of_its_day():
    day = date(2013, 7, 4)
    assert decode_key(encode_key((day,)), (date,)) == (day,)
    assert encode_key((day,)) == encode_key((datetime(2013, 7, 4, tzinfo=UTC),))
    assert encode_key((day,)) < encode_key((NOON,)) < encode_key((day + timedelta(days=1),))
    for day in (date.min, date.max):
        assert decode_key(encode_key((day,)), (date,)) == (day,)
    with pytest.raises(InvalidArgumentError, match="is not of the type date"):
        decode_key(encode_key((NOON,)), (date,))


class PreciseTime(datetime):
    nanosecond = 5


def test_a_time_finer_than_a_microsecond_is_refused():
    with pytest.raises(InvalidArgumentError, match="finer than a microsecond"):
        encode_key((PreciseTime(2013, 7, 4, tzinfo=UTC),))


def test_types_are_checked():
    key = encode_key(("UA", 5, (b"x", None), uuid.UUID(int=1), 0.5, True))
    types = (str, int, (bytes, int), uuid.UUID, float, bool)
    assert decode_key(key, types) == decode_key(key)
    assert decode_key(key, types=(object,) * 6) == decode_key(key)
    assert decode_key(key, (str, int, tuple, object, object, object)) == decode_key(key)
    for index, wrong in enumerate((int, str, (bytes,), str, Float32, int)):
        with pytest.raises(InvalidArgumentError):
            decode_key(key, types[:index] + (wrong,) + types[index + 1 :])
    with pytest.raises(InvalidArgumentError, match='part "UA" is not of the type int'):
        decode_key(key, (int,) + types[1:])
    with pytest.raises(InvalidArgumentError, match="6 parts, and there are 5 types"):
        decode_key(key, types[:5])


def test_parts_of_random_types_sort_as_they_do_and_come_back():
    chosen = random.Random(29)
    kinds = [
        lambda: chosen.choice(["", "a", "a\0", "ä", "b"]),
        lambda: chosen.choice([0, 1, -1, 255, 2**63, -(2**64), 2**200]),
        lambda: uuid.UUID(int=chosen.getrandbits(128)),
        lambda: chosen.choice([-1.5, 0.0, 1e300]),
        lambda: NOON + timedelta(microseconds=chosen.randrange(-5, 5)),
    ]
    for _ in range(300):
        columns = [chosen.choice(kinds) for _ in range(chosen.randrange(1, 4))]
        tuples = [tuple(column() for column in columns) for _ in range(5)]
        assert sorted(tuples, key=encode_key) == sorted(tuples)
        types = tuple(type(part) for part in tuples[0])
        assert [decode_key(encode_key(parts), types) for parts in tuples] == tuples


def test_times_and_uuids_are_keys_of_a_store(db):
    user = uuid.uuid4()
    db[user, NOON] = b"noon"
    db[user, NOON + timedelta(hours=1)] = b"one"
    assert db[user, NOON] == b"noon"
    day = date(2013, 7, 4)
    assert list(db.range((user, day), (user, day + timedelta(days=1))).only_values()) == [b"noon", b"one"]
    assert [decode_key(key, (uuid.UUID, datetime))[1].hour for key in db.prefix((user,)).only_keys()] == [10, 11]


def test_a_part_of_no_type_of_keys_is_refused():
    with pytest.raises(TypeError, match="a part of a key is str, int, .* datetime, date, UUID, .* not complex"):
        encode_key((1j,))


def test_the_program_of_the_page_about_keys(tmp_path, monkeypatch, capsys):
    page = (Path(__file__).parents[3] / "docs" / "choosing-keys.md").read_text()
    program = re.search(r"```python\n(.*?)```", page, re.DOTALL).group(1)
    monkeypatch.chdir(tmp_path)
    exec(compile(program, "choosing-keys.md", "exec"), {})
    assert capsys.readouterr().out == (
        "2013-07-04 10:00:00+00:00 1545 b'delayed'\n2013-07-04 12:30:00+00:00 1714 b'on time'\n"
    )
