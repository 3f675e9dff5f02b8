"""Types and sizes of arguments."""

import array
import ctypes
from pathlib import Path

import pytest

import cantle


@pytest.mark.parametrize("wrong", ["text", 5, 1.5, None, [1], {}, object()])
def test_keys_and_values_of_wrong_types_are_type_errors(db, wrong):
    calls = [
        lambda: db.get(wrong),
        lambda: db.put(wrong, b""),
        lambda: db.put(b"", wrong),
        lambda: db.delete(wrong),
        lambda: db[wrong],
        lambda: wrong in db,
        lambda: db.prefix(wrong),
        lambda: db.update(wrong, lambda old: b""),
        lambda: db.write_batch().put(wrong, b""),
        lambda: db.write_batch().put(b"", wrong),
        lambda: db.transaction().get(wrong),
        lambda: db.snapshot().get(wrong),
        lambda: db.get_many([b"", wrong], errors="return"),
        lambda: db.transaction().get_many([wrong]),
        lambda: db.cursor().seek(wrong),
    ]
    if wrong is not None:
        calls += [lambda: db.range(wrong), lambda: db.range(stop=wrong), lambda: db.delete_range(wrong)]
    for call in calls:
        with pytest.raises(TypeError):
            call()
    assert list(db) == []


def test_a_type_error_says_what_is_wanted(db):
    with pytest.raises(TypeError, match="a key is bytes-like or a tuple, not str: encode it first"):
        db.get("key")
    with pytest.raises(TypeError, match="a value is bytes-like, not tuple"):
        db.put(b"key", (b"value",))


@pytest.mark.parametrize(
    "make", [bytearray, memoryview, lambda b: memoryview(b + b"?")[:-1], lambda b: array.array("B", b), lambda b: (ctypes.c_char * len(b)).from_buffer_copy(b)]
)
def test_bytes_like_objects_are_taken(db, make):
    db.put(make(b"key"), make(b"value"))
    assert db.get(make(b"key")) == b"value"
    assert list(db.range(make(b"k"), make(b"l"))) == [(b"key", b"value")]
    with db.write_batch() as batch:
        batch.put(make(b"other"), make(b"one"))
    assert db[b"other"] == b"one"


def test_a_strided_view_is_taken_as_its_bytes(db):
    db.put(b"key", memoryview(b"a-b-c-")[::2])
    assert db[b"key"] == b"abc"


def test_a_bytearray_may_change_afterwards(db):
    batch, value = db.write_batch(), bytearray(b"before")
    batch.put(b"key", value)
    value[:] = b"behind"
    batch.write()
    assert db[b"key"] == b"before"


def test_sizes_beyond_what_a_store_takes_are_value_errors(db):
    db.put(b"k" * (1 << 20), b"")
    with pytest.raises(ValueError, match="1 MiB|1048576"):
        db.put(b"k" * ((1 << 20) + 1), b"")
    with pytest.raises(cantle.InvalidArgumentError), db.write_batch() as batch:
        batch.put(b"k" * ((1 << 20) + 1), b"")
    with pytest.raises(ValueError):
        db.range(limit=-1)
    with pytest.raises(TypeError):
        db.range(limit=1.5)
    with pytest.raises(TypeError):
        db.range(limit=True)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"memory_budget": -1}, ValueError),
        ({"memory_budget": 2**64}, ValueError),
        ({"memory_budget": "1"}, TypeError),
        ({"durability": "much"}, ValueError),
        ({"durability": 1}, TypeError),
        ({"layout": "tree"}, ValueError),
        ({"create_if_missing": 1}, TypeError),
        ({"io_uring": "off"}, TypeError),
        ({"checkpoint_interval": -1.0}, ValueError),
        ({"checkpoint_interval": float("nan")}, ValueError),
        ({"checkpoint_interval": "1"}, TypeError),
        ({"background_threads": 0}, ValueError),
        ({"compression": "zip"}, ValueError),
        ({"compression_level": 3}, ValueError),
        ({"compression": "zstd", "compression_level": 99}, ValueError),
        ({"layout": "chunk:chunk_bytes=1"}, ValueError),
        ({"layout": "chunk:colour=1"}, ValueError),
        ({"space_amplification": 1.0}, ValueError),
        ({"layout": "chunk:filter_partitions=65"}, ValueError),
        ({"layout": "flsm:munks=true"}, ValueError),
        ({"layout": "flsm:guard_bytes=1"}, ValueError),
        ({"layout": "flsm:max_sstables_per_guard=65"}, ValueError),
        ({"comparator": "mine"}, ValueError),
        ({"comparators": {"mine": 5}}, TypeError),
        ({"comparators": {5: lambda a, b: 0}}, TypeError),
        ({"resources": 5}, TypeError),
        ({"cache": 5}, TypeError),
    ],
)
def test_options_are_checked(tmp_path, options, error):
    with pytest.raises(error):
        cantle.open(tmp_path / "store", **options)


def test_a_store_beside_other_files_must_be_wanted(tmp_path):
    (tmp_path / "other").write_text("not a store's")
    with pytest.raises(cantle.NotAStoreError):
        cantle.open(tmp_path)
    with cantle.open(tmp_path, beside_other_files=True) as db:
        db[b"a"] = b"1"
    assert (tmp_path / "other").read_text() == "not a store's"


def test_all_options_together_open_a_store(tmp_path):
    resources = cantle.Resources(64 << 20, 2)
    with cantle.open(
        str(tmp_path / "store"),
        memory_budget=32 << 20,
        durability="sync",
        create_if_missing=True,
        error_if_exists=True,
        beside_other_files=True,
        read_only=False,
        background_threads=1,
        checkpoint_interval=0.5,
        resources=resources,
        comparators={"reverse": lambda a, b: (a < b) - (a > b)},
        comparator="reverse",
        compression="zstd",
        compression_level=1,
        layout="chunk:chunk_bytes=1MiB,log_bytes=1MiB,munk_log_bytes=1MiB,munks=true,filter_partitions=4,recent_appends=false",
        space_amplification=2.0,
        row_cache=False,
        write_buffer=False,
        io_uring=False,
    ) as db:
        db[b"key"] = b"value"
        assert db[b"key"] == b"value"
        assert db.stats()["memory_budget"] == 64 << 20


def test_paths_are_strings_or_path_like(tmp_path):
    with cantle.open(tmp_path / "store") as db:
        assert db.path == tmp_path / "store"
        assert isinstance(db.path, Path)
        assert repr(db) == f"<cantle.DB '{tmp_path}/store'>"
    with pytest.raises(TypeError):
        cantle.open(5)


def test_errors_of_opening_have_their_kinds(tmp_path, db):
    with pytest.raises(cantle.LockedError) as raised:
        cantle.open(db.path)
    assert isinstance(raised.value, OSError)
    assert str(raised.value).startswith(f"{db.path} is in use")
    with pytest.raises(cantle.NotFoundError) as raised:
        cantle.open(tmp_path / "none", create_if_missing=False)
    assert isinstance(raised.value, FileNotFoundError)
    assert raised.value.errno == 2
    assert "set create_if_missing" in str(raised.value)
    db.close()
    with pytest.raises(cantle.AlreadyExistsError) as raised:
        cantle.open(db.path, error_if_exists=True)
    assert isinstance(raised.value, FileExistsError)
    (tmp_path / "file").write_text("text")
    with pytest.raises(cantle.NotAStoreError) as raised:
        cantle.open(tmp_path / "file")
    assert raised.value.path == tmp_path / "file"
    with pytest.raises(cantle.IoError) as raised:
        cantle.open("/proc/nothing/here")
    assert isinstance(raised.value, OSError)
    assert raised.value.errno
    for error in (cantle.LockedError, cantle.IoError, cantle.NotAStoreError, cantle.NotFoundError):
        assert issubclass(error, cantle.Error)


def test_a_read_only_store_refuses_writes(db):
    db[b"key"] = b"value"
    db.close()
    with cantle.open(db.path, read_only=True) as reader, cantle.open(db.path, read_only=True) as second:
        assert reader[b"key"] == second[b"key"] == b"value"
        with pytest.raises(cantle.ReadOnlyError):
            reader.put(b"key", b"other")
        with pytest.raises(cantle.ReadOnlyError):
            reader.update(b"key", lambda old: b"other")
