"""Paths are str, bytes or path-like, wherever a path is taken, and need not be UTF-8."""

import os
from pathlib import Path

import pytest

import cantle
from cantle import _cantle, plyvel

#: A name that is not UTF-8.
ODD = b"caf\xe9"


class Like:
    """A path-like object that gives what it was made with."""

    def __init__(self, path):
        self.path = path

    def __fspath__(self):
        return self.path


@pytest.fixture(params=["str", "bytes", "Path", "path-like of bytes"])
def given(request, tmp_path):
    """A function that makes an argument of a name."""
    forms = {"str": os.fsdecode, "bytes": bytes, "Path": lambda path: Path(os.fsdecode(path)), "path-like of bytes": Like}
    return lambda name: forms[request.param](os.fsencode(tmp_path) + b"/" + name)


def test_every_function_takes_every_form(given, tmp_path):
    try:
        os.mkdir(os.fsencode(tmp_path) + b"/" + ODD)
    except OSError:
        pytest.skip("the file system has UTF-8 names only")
    with cantle.open(given(ODD), memory_budget=32 << 20) as db:
        db[b"a"] = b"1"
        assert os.fsencode(db.path) == os.fsencode(tmp_path) + b"/" + ODD
        assert repr(db) == f"<cantle.DB {str(db.path)!r}>"
        db.backup(given(b"copy" + ODD))
    assert cantle.repair(given(ODD), given(b"new" + ODD), memory_budget=32 << 20).pairs == 1
    _cantle.repair_in_place(given(b"new" + ODD))
    for name in (ODD, b"copy" + ODD, b"new" + ODD):
        with cantle.open(given(name), create_if_missing=False) as db:
            assert db[b"a"] == b"1"
        cantle.destroy(given(name))
        with pytest.raises(cantle.NotFoundError) as raised:
            cantle.open(given(name), create_if_missing=False)
        assert os.fsencode(raised.value.filename) == os.fsencode(tmp_path) + b"/" + name


def test_an_import_takes_every_form(given):
    with pytest.raises(cantle.Error) as raised:
        cantle.import_leveldb(given(b"none" + ODD), given(b"new"))
    assert ODD in os.fsencode(getattr(raised.value, "path", None) or raised.value.filename)


def test_plyvel_takes_bytes_that_are_not_utf_8(tmp_path):
    path = os.fsencode(tmp_path) + b"/" + ODD
    db = plyvel.DB(path, create_if_missing=True)
    db.put(b"a", b"1")
    db.backup(path + b"-copy")
    assert db.name == path
    db.close()
    plyvel.repair_db(path)
    copy = plyvel.DB(path + b"-copy")
    assert copy.get(b"a") == b"1"
    copy.close()
    plyvel.destroy_db(path)
    assert not os.path.exists(path)


def test_something_else_is_no_path(db):
    for wrong in (5, None, bytearray(b"store"), Like(5)):
        with pytest.raises(TypeError, match="str, bytes or os.PathLike|__fspath__"):
            cantle.open(wrong)
        with pytest.raises(TypeError):
            db.backup(wrong)
    with pytest.raises(ValueError, match="zero byte"):
        cantle.open("a\0b")
