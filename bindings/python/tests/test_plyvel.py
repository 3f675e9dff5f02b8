"""cantle.plyvel, and plyvel itself where it is installed: the same program runs against both and must see the same."""

import itertools
import os
import random
import subprocess
import sys
import tempfile
import threading
import weakref

import pytest
from conftest import module

import cantle
import cantle.plyvel

MODULES = ["cantle.plyvel", "plyvel"]


@pytest.fixture(params=MODULES)
def plyvel(request):
    return module(request.param)


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "store")


@pytest.fixture
def db(plyvel, path):
    with plyvel.DB(path, create_if_missing=True) as db:
        yield db


def fill(db, keys):
    with db.write_batch() as batch:
        for key in keys:
            batch.put(key, b"of " + key)


def test_opening(plyvel, tmp_path):
    path = str(tmp_path / "store")
    with pytest.raises(plyvel.Error):
        plyvel.DB(path)
    with plyvel.DB(path, create_if_missing=True) as db:
        db.put(b"key", b"value")
        assert db.name == path
        assert not db.closed
        with pytest.raises(plyvel.IOError):
            plyvel.DB(path)
    assert db.closed
    with pytest.raises(plyvel.Error):
        plyvel.DB(path, error_if_exists=True)
    with plyvel.DB(os.fsencode(path)) as db:
        assert db.get(b"key") == b"value"
    # Files that do not belong to a store may be there.
    beside = tmp_path / "beside"
    beside.mkdir()
    (beside / "other").write_text("not a store's")
    with plyvel.DB(str(beside), create_if_missing=True) as db:
        db.put(b"key", b"value")
    assert (beside / "other").read_text() == "not a store's"
    assert issubclass(plyvel.IOError, (plyvel.Error, OSError))
    assert issubclass(plyvel.CorruptionError, plyvel.Error)
    assert issubclass(plyvel.IteratorInvalidError, plyvel.Error)
    assert plyvel.__version__.startswith("1.5")
    assert plyvel.__leveldb_version__.startswith("1.2")


@pytest.mark.parametrize(
    ("arguments", "keywords", "error"),
    [
        ((), {}, TypeError),
        ((5,), {}, TypeError),
        (("PATH", True), {}, TypeError),
        (("PATH",), {"nothing": 1}, TypeError),
        (("PATH",), {"compression": "zip"}, ValueError),
        (("PATH",), {"compression": 4}, TypeError),
        (("PATH",), {"lru_cache_size": "x"}, TypeError),
        (("PATH",), {"lru_cache_size": -1}, OverflowError),
        (("PATH",), {"comparator": max}, ValueError),
        (("PATH",), {"comparator_name": b"max"}, ValueError),
        (("PATH",), {"comparator": 5, "comparator_name": b"max"}, TypeError),
        (("PATH",), {"comparator": max, "comparator_name": "max"}, TypeError),
    ],
)
def test_bad_options(plyvel, path, arguments, keywords, error):
    with pytest.raises(error):
        plyvel.DB(*(path if argument == "PATH" else argument for argument in arguments), **keywords)


def test_all_options(plyvel, path):
    db = plyvel.DB(
        path,
        create_if_missing=True,
        error_if_exists=True,
        paranoid_checks=True,
        write_buffer_size=16 << 20,
        max_open_files=512,
        lru_cache_size=64 << 20,
        block_size=2048,
        block_restart_interval=8,
        max_file_size=4 << 20,
        compression="snappy",
        bloom_filter_bits=10,
    )
    db.put(b"key", b"value", sync=True)
    assert db.get(b"key", verify_checksums=True, fill_cache=False) == b"value"
    db.close()
    plyvel.DB(path, compression=None).close()


def test_put_get_delete(db):
    db.put(b"key", b"value")
    db.put(b"", b"")
    assert db.get(b"key") == b"value"
    assert db.get(b"") == b""
    assert db.get(b"none") is None
    assert db.get(b"none", 5) == db.get(b"none", default=5) == 5
    db.delete(b"key")
    db.delete(b"key", sync=True)
    assert db.get(b"key") is None
    db.put(b"key", bytearray(b"array"))
    assert db.get(b"key") == b"array"
    assert isinstance(db.get(b"key"), bytes)


@pytest.mark.parametrize("wrong", ["text", 5, None, bytearray(b"key"), (b"key",)])
def test_wrong_types(db, wrong):
    batch, prefixed, snapshot = db.write_batch(), db.prefixed_db(b"p"), db.snapshot()
    calls = [
        lambda: db.get(wrong),
        lambda: db.put(wrong, b""),
        lambda: db.delete(wrong),
        lambda: batch.put(wrong, b""),
        lambda: batch.delete(wrong),
        lambda: prefixed.get(wrong),
        lambda: prefixed.put(wrong, b""),
        lambda: prefixed.delete(wrong),
        lambda: snapshot.get(wrong),
        lambda: db.prefixed_db(wrong),
        lambda: prefixed.prefixed_db(wrong),
        lambda: db.get_property(wrong),
        lambda: db.approximate_size(wrong, b""),
        lambda: db.approximate_sizes((wrong, b"")),
        lambda: db.iterator().seek(wrong),
        lambda: db.raw_iterator().seek(wrong),
        lambda: batch.append(wrong),
    ]
    if wrong is not None:
        calls += [lambda: db.iterator(start=wrong), lambda: db.iterator(stop=wrong), lambda: db.iterator(prefix=wrong), lambda: db.compact_range(start=wrong)]
    for call in calls:
        with pytest.raises(TypeError):
            call()
    for value in ("text", 5, None):
        for call in (lambda: db.put(b"key", value), lambda: batch.put(b"key", value)):
            with pytest.raises(TypeError):
                call()


def test_keywords_are_keywords(db):
    for call in (
        lambda: db.put(b"key", b"", True),
        lambda: db.delete(b"key", True),
        lambda: db.iterator(b"a"),
        lambda: db.iterator(True),
        lambda: db.write_batch(True),
        lambda: db.compact_range(b"a", b"b"),
        lambda: db.get(b"key", None, True),
        lambda: db.put(b"key", b"", sync=5),
        lambda: db.write_batch(sync=5),
    ):
        with pytest.raises(TypeError):
            call()
    with pytest.raises(TypeError, match="'prefix' cannot be used together with 'start' or 'stop'"):
        db.iterator(start=b"a", prefix=b"b")


def test_write_batches(db):
    batch = db.write_batch()
    assert batch.approximate_size() == 12
    batch.put(b"k", b"v")
    batch.put(b"l", bytearray(b"w"))
    assert batch.approximate_size() == 22
    batch.delete(b"k" * 200)
    assert batch.approximate_size() == 22 + 203
    other = db.write_batch()
    other.append(batch)
    assert other.approximate_size() == 22 + 203
    batch.clear()
    assert batch.approximate_size() == 12
    assert list(db) == []
    other.write()
    assert list(db) == [(b"k", b"v"), (b"l", b"w")]
    db.delete(b"k")
    other.write()
    assert list(db) == [(b"k", b"v"), (b"l", b"w")]


def test_a_batch_as_a_context_is_written_even_after_an_exception(db):
    with pytest.raises(ValueError), db.write_batch() as batch:
        batch.put(b"a", b"1")
        raise ValueError
    assert list(db) == [(b"a", b"1")]
    with db.write_batch(sync=True) as batch:
        batch.put(b"b", b"2")
        batch.delete(b"a")
    assert list(db) == [(b"b", b"2")]


def test_a_transaction_is_not_written_after_an_exception(db):
    with pytest.raises(ValueError), db.write_batch(transaction=True) as batch:
        batch.put(b"a", b"1")
        raise ValueError
    assert list(db) == []
    with db.write_batch(transaction=True) as batch:
        batch.put(b"a", b"1")
    assert list(db) == [(b"a", b"1")]


KEYS = [b"", b"a", b"a\xff", b"a\xff\xff", b"b", b"ba", b"bb", b"c", b"\xff", b"\xff\xff"]


def test_iterators_and_their_ends(db):
    fill(db, KEYS)
    ordered = sorted(KEYS)
    ends = [None, b"", b"a", b"a\xff", b"aa", b"b", b"bb", b"z", b"\xff", b"\xff\xff\xff"]
    for start, stop, include_start, include_stop in itertools.product(ends, ends, (True, False), (True, False)):
        expected = [
            key
            for key in ordered
            if (start is None or key > start or (include_start and key == start))
            and (stop is None or key < stop or (include_stop and key == stop))
        ]
        options = {"start": start, "stop": stop, "include_start": include_start, "include_stop": include_stop}
        assert list(db.iterator(**options, include_value=False)) == expected, options


def test_iterators_in_reverse(db):
    fill(db, KEYS)
    ordered = sorted(KEYS)
    assert list(db.iterator(reverse=True)) == [(key, b"of " + key) for key in reversed(ordered)]
    assert list(db.iterator(reverse=True, start=b"a", stop=b"b", include_value=False)) == [b"a\xff\xff", b"a\xff", b"a"]
    assert list(db.iterator(reverse=True, start=b"a", stop=b"b", include_stop=True, include_value=False)) == [b"b", b"a\xff\xff", b"a\xff", b"a"]
    assert list(db.iterator(reverse=True, stop=b"aa", include_value=False)) == [b"a", b""]


def test_prefixes(db):
    fill(db, KEYS)
    assert list(db.iterator(prefix=b"a", include_value=False)) == [b"a", b"a\xff", b"a\xff\xff"]
    assert list(db.iterator(prefix=b"a\xff", include_value=False)) == [b"a\xff", b"a\xff\xff"]
    assert list(db.iterator(prefix=b"\xff", include_value=False)) == [b"\xff", b"\xff\xff"]
    assert list(db.iterator(prefix=b"b", reverse=True, include_value=False)) == [b"bb", b"ba", b"b"]
    assert list(db.iterator(prefix=b"", include_value=False)) == sorted(KEYS)


def test_what_an_iterator_gives(db):
    fill(db, [b"a"])
    assert list(db) == list(db.iterator()) == [(b"a", b"of a")]
    assert list(db.iterator(include_value=False)) == [b"a"]
    assert list(db.iterator(include_key=False)) == [b"of a"]
    assert list(db.iterator(include_key=False, include_value=False)) == [None]


def test_an_iterator_is_of_one_moment(db):
    fill(db, [b"a", b"b"])
    iterator = db.iterator()
    db.delete(b"b")
    db.put(b"c", b"")
    assert [key for key, _ in iterator] == [b"a", b"b"]


def test_an_iterator_steps_both_ways(db):
    fill(db, [b"1", b"2", b"3"])
    iterator = db.iterator(include_value=False)
    with pytest.raises(StopIteration):
        iterator.prev()
    assert next(iterator) == b"1"
    assert iterator.prev() == b"1"
    assert next(iterator) == b"1"
    assert next(iterator) == b"2"
    assert iterator.prev() == b"2"
    iterator.seek_to_stop()
    with pytest.raises(StopIteration):
        next(iterator)
    assert iterator.prev() == b"3"
    iterator.seek(b"2")
    assert next(iterator) == b"2"
    iterator.seek(b"25")
    assert iterator.prev() == b"2"
    iterator.seek_to_start()
    assert next(iterator) == b"1"
    with db.iterator(reverse=True, include_value=False) as iterator:
        assert next(iterator) == b"3"
        assert iterator.prev() == b"3"
        assert iterator.__next__() == b"3"
        iterator.seek(b"2")
        assert next(iterator) == b"1"


def test_raw_iterators(plyvel, db):
    iterator = db.raw_iterator()
    assert not iterator.valid()
    for step in (iterator.key, iterator.value, iterator.item, iterator.next, iterator.prev):
        with pytest.raises(plyvel.IteratorInvalidError):
            step()
    fill(db, [b"1", b"2", b"3"])
    with db.raw_iterator(verify_checksums=True, fill_cache=False) as iterator:
        iterator.seek_to_first()
        assert iterator.valid()
        assert (iterator.key(), iterator.value(), iterator.item()) == (b"1", b"of 1", (b"1", b"of 1"))
        iterator.next()
        assert iterator.key() == b"2"
        iterator.seek_to_last()
        assert iterator.key() == b"3"
        iterator.prev()
        assert iterator.key() == b"2"
        iterator.seek(b"25")
        assert iterator.key() == b"3"
        iterator.next()
        assert not iterator.valid()
        with pytest.raises(plyvel.IteratorInvalidError):
            iterator.next()
        iterator.seek(b"4")
        assert not iterator.valid()
        iterator.seek(b"")
        assert iterator.key() == b"1"
        iterator.prev()
        assert not iterator.valid()
    with pytest.raises(RuntimeError):
        iterator.valid()


def test_snapshots(db):
    fill(db, [b"1", b"2"])
    with db.snapshot() as snapshot:
        db.delete(b"1")
        db.put(b"3", b"")
        assert snapshot.get(b"1") == b"of 1"
        assert snapshot.get(b"3", 5) == 5
        assert [key for key, _ in snapshot] == [b"1", b"2"]
        assert list(snapshot.iterator(reverse=True, include_value=False)) == [b"2", b"1"]
        raw = snapshot.raw_iterator()
        raw.seek_to_last()
        assert raw.key() == b"2"
        raw.close()
    for use in (lambda: snapshot.get(b"1"), lambda: snapshot.iterator(), lambda: list(snapshot), lambda: snapshot.raw_iterator()):
        with pytest.raises(RuntimeError):
            use()
    snapshot.close()
    snapshot.release()


def test_prefixed_dbs(db):
    prefixed = db.prefixed_db(b"p/")
    nested = prefixed.prefixed_db(b"q/")
    assert (prefixed.prefix, nested.prefix, nested.db) == (b"p/", b"p/q/", db)
    db.put(b"o", b"")
    db.put(b"q", b"")
    prefixed.put(b"a", b"1")
    nested.put(b"b", b"2", sync=True)
    assert list(db) == [(b"o", b""), (b"p/a", b"1"), (b"p/q/b", b"2"), (b"q", b"")]
    assert (prefixed.get(b"a"), prefixed.get(b"q/b"), nested.get(b"b"), nested.get(b"a", 5)) == (b"1", b"2", b"2", 5)
    assert list(prefixed) == [(b"a", b"1"), (b"q/b", b"2")]
    assert list(nested.iterator(reverse=True)) == [(b"b", b"2")]
    assert list(prefixed.iterator(start=b"b", include_value=False)) == [b"q/b"]
    assert list(prefixed.iterator(stop=b"b", include_value=False)) == [b"a"]
    assert list(prefixed.iterator(start=b"a", include_start=False, include_value=False)) == [b"q/b"]
    assert list(prefixed.iterator(prefix=b"q", include_value=False)) == [b"q/b"]
    iterator = prefixed.iterator(include_value=False)
    iterator.seek(b"b")
    assert next(iterator) == b"q/b"
    iterator.seek(b"")
    assert next(iterator) == b"a"
    with prefixed.snapshot() as snapshot:
        prefixed.delete(b"a")
        assert snapshot.get(b"a") == b"1"
        assert list(snapshot) == [(b"a", b"1"), (b"q/b", b"2")]
    with nested.write_batch(transaction=True) as batch:
        batch.put(b"c", b"3")
        batch.delete(b"b")
    assert list(prefixed) == [(b"q/c", b"3")]
    everything = db.prefixed_db(b"")
    assert list(everything) == list(db)
    high = db.prefixed_db(b"\xff")
    high.put(b"\xff", b"1")
    assert list(high) == [(b"\xff", b"1")]


def test_properties_and_sizes(db):
    fill(db, [b"%04d" % i for i in range(1000)])
    db.compact_range()
    db.compact_range(start=b"0001", stop=b"0002")
    assert isinstance(db.get_property(b"leveldb.stats"), bytes)
    assert isinstance(db.get_property(b"leveldb.sstables"), bytes)
    assert int(db.get_property(b"leveldb.approximate-memory-usage")) >= 0
    assert sum(int(db.get_property(b"leveldb.num-files-at-level%d" % level)) for level in range(7)) > 0
    assert db.get_property(b"leveldb.num-files-at-level7") is None
    assert db.get_property(b"leveldb.nothing") is None
    assert db.get_property(b"") is None
    whole = db.approximate_size(b"", b"9")
    assert whole > 1000
    assert db.approximate_sizes((b"", b"9"), (b"x", b"y")) == [whole, 0]
    assert db.approximate_sizes() == []
    with pytest.raises(TypeError):
        db.approximate_sizes(5)


def by_length(a, b):
    return (len(a) > len(b)) - (len(a) < len(b)) or (a > b) - (a < b)


def test_comparators(plyvel, path):
    options = {"comparator": by_length, "comparator_name": b"by_length"}
    with plyvel.DB(path, create_if_missing=True, **options) as db:
        fill(db, [b"aaa", b"b", b"cc", b"a"])
        assert [key for key, _ in db] == [b"a", b"b", b"cc", b"aaa"]
        assert list(db.iterator(start=b"b", stop=b"aaa", include_value=False)) == [b"b", b"cc"]
        assert list(db.iterator(start=b"b", stop=b"aaa", include_stop=True, reverse=True, include_value=False)) == [b"aaa", b"cc", b"b"]
        iterator = db.raw_iterator()
        iterator.seek(b"zz")
        assert iterator.key() == b"aaa"
        iterator.close()
    with plyvel.DB(path, **options) as db:
        assert db.get(b"cc") == b"of cc"
    with pytest.raises(plyvel.Error):
        plyvel.DB(path)
    with pytest.raises(plyvel.Error):
        plyvel.DB(path, comparator=by_length, comparator_name=b"another")


def test_closed_databases(db):
    fill(db, [b"a"])
    prefixed, snapshot, batch, iterator, raw = db.prefixed_db(b"a"), db.snapshot(), db.write_batch(), db.iterator(), db.raw_iterator()
    db.close()
    db.close()
    assert db.closed
    for use in (
        lambda: db.get(b"a"),
        lambda: db.put(b"a", b""),
        lambda: db.delete(b"a"),
        lambda: db.iterator(),
        lambda: list(db),
        lambda: db.raw_iterator(),
        lambda: db.snapshot(),
        lambda: db.write_batch(),
        lambda: db.get_property(b"leveldb.stats"),
        lambda: db.compact_range(),
        lambda: db.approximate_size(b"", b"z"),
        lambda: db.approximate_sizes(),
        lambda: prefixed.get(b""),
        lambda: list(prefixed),
        lambda: prefixed.snapshot(),
        lambda: snapshot.get(b"a"),
        lambda: snapshot.iterator(),
        lambda: batch.put(b"a", b""),
        lambda: batch.delete(b"a"),
        lambda: batch.write(),
        lambda: batch.clear(),
        lambda: batch.approximate_size(),
        lambda: batch.__enter__(),
        lambda: next(iterator),
        lambda: iterator.prev(),
        lambda: iterator.seek(b"a"),
        lambda: iterator.seek_to_start(),
        lambda: iterator.seek_to_stop(),
        lambda: raw.valid(),
        lambda: raw.seek_to_first(),
    ):
        with pytest.raises(RuntimeError):
            use()
    snapshot.close()
    iterator.close()
    raw.close()


def test_backup(tmp_path):
    plyvel = cantle.plyvel
    path, backup = str(tmp_path / "store"), str(tmp_path / "backup")
    db = plyvel.DB(path, create_if_missing=True)
    fill(db, [b"a", b"b"])
    db.backup(backup)
    db.put(b"a", b"later")
    for there in (backup, os.fsencode(backup), path):
        with pytest.raises(plyvel.Error):
            db.backup(there)
    with pytest.raises(TypeError):
        db.backup(None)
    with plyvel.DB(backup) as copy:
        assert list(copy) == [(b"a", b"of a"), (b"b", b"of b")]
    assert db.get(b"a") == b"later"
    db.close()
    with pytest.raises(plyvel.Error):
        db.backup(str(tmp_path / "another"))


UNWRITABLE = """
import importlib, os, sys
plyvel = importlib.import_module(sys.argv[1])
directory = sys.argv[2]
if os.geteuid() == 0:
    os.seteuid(65534)
names = ["file/store", "empty", "store"]
if sys.argv[1] != "plyvel":
    names.append("missing")  # for LevelDB, which does not ask whether it was made, it is not found
for name in names:
    try:
        plyvel.DB(os.path.join(directory, name), create_if_missing=True)
    except plyvel.IOError as error:
        assert isinstance(error, OSError) or sys.argv[1] == "plyvel"
    else:
        sys.exit(name + " was opened")
"""


@pytest.mark.parametrize("name", MODULES)
def test_what_cannot_be_written_to_is_an_io_error(name):
    """As another user, where this one may write anywhere."""
    plyvel = module(name)
    # tmp_path is the user's alone.
    with tempfile.TemporaryDirectory() as directory:
        os.chmod(directory, 0o755)
        plyvel.DB(os.path.join(directory, "store"), create_if_missing=True).close()
        os.mkdir(os.path.join(directory, "empty"))
        open(os.path.join(directory, "file"), "w").close()
        closed = [os.path.join(directory, "store"), os.path.join(directory, "empty"), directory]
        for path in closed:
            os.chmod(path, 0o555)
        try:
            subprocess.run([sys.executable, "-c", UNWRITABLE, name, directory], check=True)
        finally:
            for path in closed:
                os.chmod(path, 0o755)


def test_repair_and_destroy(plyvel, tmp_path):
    path = str(tmp_path / "store")
    with plyvel.DB(path, create_if_missing=True) as db:
        fill(db, [b"a", b"b"])
        with pytest.raises(plyvel.IOError):
            plyvel.destroy_db(path)
    plyvel.repair_db(path)
    with plyvel.DB(path) as db:
        assert list(db) == [(b"a", b"of a"), (b"b", b"of b")]
    other = str(tmp_path / "other")
    plyvel.DB(other, create_if_missing=True).close()
    plyvel.destroy_db(other)
    assert not os.path.exists(other)
    plyvel.destroy_db(other)
    for wrong in (plyvel.repair_db, plyvel.destroy_db):
        with pytest.raises(TypeError):
            wrong(5)
    assert sorted(os.listdir(tmp_path)) == ["store"]


def test_what_is_not_the_stores_is_not_destroyed(plyvel, tmp_path):
    path = tmp_path / "store"
    plyvel.DB(str(path), create_if_missing=True).close()
    (path / "mine").write_text("text")
    plyvel.destroy_db(str(path))
    assert os.listdir(path) == ["mine"]


def test_repairing_nothing_makes_an_empty_store(plyvel, path):
    plyvel.repair_db(path)
    with plyvel.DB(path) as db:
        assert list(db) == []


def test_none_is_no_flag(db):
    db.put(b"a", b"1", sync=None)
    db.delete(b"b", sync=None)
    with db.write_batch(transaction=None, sync=None) as batch:
        batch.put(b"b", b"2")
    assert list(db) == [(b"a", b"1"), (b"b", b"2")]


class Number:
    """As numpy's integers."""

    def __init__(self, number):
        self.number = number

    def __index__(self):
        return self.number


def test_sizes_are_whatever_is_an_integer(plyvel, path):
    options = {"max_open_files": -1, "bloom_filter_bits": -1, "block_restart_interval": -5, "lru_cache_size": Number(16 << 20)}
    if plyvel is not cantle.plyvel:
        # LevelDB takes them as they are, and may not survive them.
        options = {"max_open_files": -1, "bloom_filter_bits": -1}
    plyvel.DB(path, create_if_missing=True, **options).close()
    with pytest.raises(OverflowError):
        plyvel.DB(path, max_open_files=1 << 40)
    with pytest.raises(TypeError):
        plyvel.DB(path, write_buffer_size="x")


def test_names_and_weak_references(db, path):
    with pytest.raises(AttributeError):
        db.name = "other"
    assert db.name == path
    raw = db.raw_iterator()
    assert weakref.ref(raw)() is raw
    db.put(b"a", b"1")
    iterator = db.iterator(include_value=False)
    iterator.seek(target=b"a")
    assert next(iterator) == b"a"


def test_threads(db):
    def work(number):
        for i in range(100):
            key = b"%d/%d" % (number, i)
            db.put(key, key)
            assert db.get(key) == key

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(list(db)) == 400


TWENTY = [b"%02d" % i for i in range(20)]


def walk(db, seed):
    """The entries of a random walk of an iterator; None where plyvel is known to differ."""
    choose = random.Random(seed)
    ends = [None, b"03", b"05", b"055", b"12", b"00", b"19"]
    start, stop = choose.choice(ends), choose.choice([None, b"15", b"08", b"085", b"99", b"05"])
    includes = {"include_start": choose.random() < 0.7, "include_stop": choose.random() < 0.5}
    reverse = choose.random() < 0.5
    options = {"start": start, "stop": stop, **includes, "reverse": reverse}
    prefix = choose.choice([b"0", b"1", b"2"])
    if choose.random() < 0.2:
        options = {"prefix": prefix, "reverse": reverse}
        start, stop, includes = prefix, prefix + b":", {"include_start": True, "include_stop": False}
    seen = [options]
    behind = [key for key in TWENTY if start is None or key > start or (key == start and includes["include_start"])]
    inside = [key for key in behind if stop is None or key < stop or (key == stop and includes["include_stop"])]
    # Backwards, or from its end, plyvel does not find the start of a range in which there is nothing else.
    if inside == [start]:
        return None
    iterator = db.iterator(include_value=False, **options)
    for _ in range(30):
        step = choose.randrange(10)
        try:
            if step < 4:
                seen.append(next(iterator))
            elif step < 8:
                seen.append(iterator.prev())
            elif step == 8:
                # Not to the first entry of the range or before, nor behind the last: from there plyvel steps out of it.
                if len(inside) > 1:
                    iterator.seek(choose.choice(inside[1:]))
            else:
                choose.choice([iterator.seek_to_start, iterator.seek_to_stop])()
        except StopIteration:
            seen.append("end")
    return seen


def test_iterators_walk_as_those_of_plyvel(tmp_path):
    original = module("plyvel")
    with original.DB(str(tmp_path / "plyvel"), create_if_missing=True) as theirs:
        with cantle.plyvel.DB(str(tmp_path / "cantle"), create_if_missing=True) as ours:
            for db in (theirs, ours):
                fill(db, TWENTY)
            for seed in range(1000):
                assert walk(ours, seed) == walk(theirs, seed), seed
            assert list(ours.iterator(start=b"19", reverse=True, include_value=False)) == [b"19"]


def test_a_store_that_leveldb_wrote_is_not_touched(tmp_path):
    original = module("plyvel")
    path = str(tmp_path / "leveldb")
    with original.DB(path, create_if_missing=True) as db:
        db.put(b"key", b"value")
    before = sorted(os.listdir(path))
    with pytest.raises(cantle.NotAStoreError, match=r"LevelDB.*cantle\.import_leveldb\(.*leveldb"):
        cantle.plyvel.DB(path)
    with pytest.raises(cantle.Error):
        cantle.plyvel.destroy_db(path)
    assert sorted(os.listdir(path)) == before
    told = []
    report = cantle.import_leveldb(path, tmp_path / "cantle", progress=lambda *at: told.append(at))
    assert (report.ok, report.pairs, report.logs) == (True, 1, 1)
    assert told[-1][2] == 1
    with cantle.open(tmp_path / "cantle") as db:
        assert dict(db) == {b"key": b"value"}


def test_repair_keeps_what_was_damaged(tmp_path):
    path = tmp_path / "store"
    with cantle.plyvel.DB(str(path), create_if_missing=True, compression=None) as db:
        fill(db, [b"%04d" % i for i in range(2000)])
        db.compact_range()
    table = max(path.glob("*.table"), key=lambda file: file.stat().st_size)
    data = bytearray(table.read_bytes())
    data[len(data) // 2] ^= 1
    table.write_bytes(data)
    with cantle.plyvel.DB(str(path)) as db, pytest.raises(cantle.plyvel.CorruptionError):
        list(db)
    cantle.plyvel.repair_db(str(path))
    with cantle.plyvel.DB(str(path)) as db:
        assert 0 < len(list(db)) < 2000
    assert (tmp_path / "store.damaged").is_dir()


def test_a_repair_touches_nothing_that_it_has_not_made(tmp_path):
    path = tmp_path / "store"
    with cantle.plyvel.DB(str(path), create_if_missing=True) as db:
        fill(db, [b"a", b"b"])
        before = set(os.listdir(path)) - {"WRITE-BUFFER"}
        with pytest.raises(cantle.LockedError):
            cantle.plyvel.repair_db(str(path))
    (tmp_path / "store.repairing").mkdir()
    (tmp_path / "store.repairing" / "letter").write_text("mine")
    with pytest.raises(cantle.AlreadyExistsError, match="store.repairing"):
        cantle.plyvel.repair_db(str(path))
    assert (tmp_path / "store.repairing" / "letter").read_text() == "mine"
    assert set(os.listdir(path)) - {"WRITE-BUFFER"} == before
    (tmp_path / "store.repairing" / "letter").unlink()
    (tmp_path / "store.repairing").rmdir()
    # Files that do not belong to the store move along, and a link stays a link.
    (path / "letter").write_text("mine")
    (tmp_path / "link").symlink_to(path)
    cantle.plyvel.repair_db(str(tmp_path / "link"))
    assert (tmp_path / "link").is_symlink() and not path.is_symlink()
    assert (path / "letter").read_text() == "mine"
    with cantle.plyvel.DB(str(path)) as db:
        assert list(db) == [(b"a", b"of a"), (b"b", b"of b")]
    assert sorted(os.listdir(tmp_path)) == ["link", "store"]


def test_the_memory_budget_is_that_of_the_libraries_for_c(tmp_path, monkeypatch):
    def budget(**options):
        with cantle.plyvel.DB(str(tmp_path / "store"), create_if_missing=True, **options) as db:
            return db._db.stats()["memory_budget"]

    assert budget() == budget(write_buffer_size=4 << 20) == 64 << 20
    assert budget(write_buffer_size=64 << 20) == (2 * 64 + 8) << 20
    assert budget(write_buffer_size=8 << 20, lru_cache_size=100 << 20) == (2 * 8 + 100) << 20
    monkeypatch.setenv("CANTLE_MEMORY_BUDGET", "96 MiB")
    assert budget(write_buffer_size=64 << 20) == 96 << 20
    monkeypatch.setenv("CANTLE_MEMORY_BUDGET", "auto")
    assert budget() not in (64 << 20, 96 << 20)
    monkeypatch.setenv("CANTLE_MEMORY_BUDGET", "much")
    with pytest.raises(ValueError, match="CANTLE_MEMORY_BUDGET"):
        budget()


def test_leveldbs_own_order_is_not_called(tmp_path):
    options = {"comparator": lambda a, b: 1 / 0, "comparator_name": b"leveldb.BytewiseComparator"}
    with cantle.plyvel.DB(str(tmp_path / "store"), create_if_missing=True, **options) as db:
        fill(db, [b"b", b"a"])
        assert list(db.iterator(include_value=False)) == [b"a", b"b"]
