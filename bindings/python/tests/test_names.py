"""Tracebacks, reprs and pickles have the names that users import."""

import inspect
import pickle
import subprocess
import sys
import typing

import pytest

import cantle
import cantle.types
from cantle import plyvel


def test_everything_public_is_of_the_package():
    assert {name: getattr(cantle, name).__module__ for name in cantle.__all__} == dict.fromkeys(cantle.__all__, "cantle")
    assert {getattr(cantle, name).__qualname__ for name in cantle.__all__} == set(cantle.__all__)


def test_everything_of_plyvel_has_its_name_there():
    for name in ("DB", "PrefixedDB", "Snapshot", "RawIterator", "Iterator", "WriteBatch", "IteratorInvalidError", "repair_db", "destroy_db"):
        thing = getattr(plyvel, name)
        assert (thing.__module__, thing.__qualname__) == ("cantle.plyvel", name)
    assert repr(plyvel.IOError) == "<class 'cantle.IoError'>"


def test_a_traceback_has_the_public_name(tmp_path):
    program = "import cantle, sys; cantle.open(sys.argv[1], create_if_missing=False)"
    done = subprocess.run([sys.executable, "-c", program, tmp_path / "none"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("cantle.NotFoundError: ")
    assert "cantle._errors" not in done.stderr


def test_a_report_is_pickled_by_its_public_name(db):
    report = db.verify()
    assert repr(report).startswith("VerifyReport(")
    data = pickle.dumps(report)
    assert b"_reports" not in data
    assert pickle.loads(data) == report


def test_annotations_can_be_evaluated():
    assert typing.get_type_hints(cantle.VerifyReport)["damage"] == list[cantle.Error]
    assert typing.get_type_hints(cantle.ImportDamage)["offset"] is int
    assert typing.get_type_hints(cantle.open)["path"] == cantle.types.PathLike
    assert typing.get_type_hints(cantle.types.StoreOptions)["durability"] == typing.Optional[cantle.types.Durability]


def test_the_typed_options_are_those_of_open():
    parameters = list(inspect.signature(cantle.open).parameters)
    assert sorted(cantle.types.StoreOptions.__annotations__) == sorted(parameters[1:])
    assert set(cantle.types.KeyspaceOptions.__annotations__) < set(parameters)


def test_the_literals_are_what_the_store_accepts(db, tmp_path):
    def texts(alias):
        return [text for one in typing.get_args(alias) for text in typing.get_args(one)]

    for durability in texts(cantle.types.Durability):
        db.put(b"a", b"1", durability=durability)
    for number, compression in enumerate(texts(cantle.types.Compression)):
        db.keyspace(f"k{number}", compression=compression)
    for layout in texts(cantle.types.Layout):
        db.keyspace(layout, layout=layout)
    # The message names every text, so that the aliases cannot miss one.
    for alias, option in ((cantle.types.Durability, "durability"), (cantle.types.Compression, "compression")):
        with pytest.raises(cantle.InvalidArgumentError) as raised:
            cantle.open(tmp_path / "other", **{option: "no"})
        assert str(raised.value) == f"{option} is " + " or ".join(f'"{text}"' for text in texts(alias)) + ', not "no"'
