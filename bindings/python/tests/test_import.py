"""Stores that LevelDB wrote. Those that Debian's library wrote are among the tests of crates/cantle-import."""

import pytest
from conftest import module

import cantle


@pytest.fixture
def leveldb(tmp_path):
    plyvel = module("plyvel")
    path = tmp_path / "leveldb"
    with plyvel.DB(str(path), create_if_missing=True, write_buffer_size=64 << 10) as db:
        for i in range(3000):
            db.put(b"%05d" % (i * 7 % 3000), b"value %d " % i * 10)
        # Writes up to now are in tables, and later ones stay in the log.
        db.compact_range()
        for i in range(0, 3000, 3):
            db.delete(b"%05d" % i)
    return path


def test_a_store_of_leveldb_is_copied(leveldb, tmp_path):
    before = {file.name: file.read_bytes() for file in leveldb.iterdir()}
    report = cantle.import_leveldb(leveldb, str(tmp_path / "new"), compression="lz4")
    assert {file.name: file.read_bytes() for file in leveldb.iterdir()} == before
    assert (report.ok, report.pairs, report.lost) == (True, 2000, [])
    assert report.tables > 0
    with cantle.open(tmp_path / "new") as db:
        assert [int(key) for key in db] == [i for i in range(3000) if i % 3]
        assert db[b"00007"] == b"value 1 " * 10


def test_errors_of_an_import(leveldb, tmp_path):
    import plyvel

    with plyvel.DB(str(leveldb)), pytest.raises(cantle.LockedError):
        cantle.import_leveldb(leveldb, tmp_path / "new")
    with pytest.raises(cantle.NotAStoreError):
        cantle.import_leveldb(tmp_path, tmp_path / "new")
    cantle.open(tmp_path / "there").close()
    with pytest.raises(cantle.AlreadyExistsError):
        cantle.import_leveldb(leveldb, tmp_path / "there")
    with pytest.raises(ZeroDivisionError):
        cantle.import_leveldb(leveldb, tmp_path / "new", progress=lambda *at: 1 / 0)
    assert not (tmp_path / "new").exists()
    with pytest.raises(TypeError):
        cantle.import_leveldb(leveldb, tmp_path / "new", nothing=1)


def test_damage_is_raised_or_left_out(leveldb, tmp_path):
    table = max([*leveldb.glob("*.ldb"), *leveldb.glob("*.sst")], key=lambda file: file.stat().st_size)
    data = bytearray(table.read_bytes())
    data[len(data) // 3] ^= 1
    table.write_bytes(data)
    with pytest.raises(cantle.CorruptionError, match="skip_damaged=True") as raised:
        cantle.import_leveldb(leveldb, tmp_path / "new")
    assert raised.value.path == table
    report = cantle.import_leveldb(leveldb, tmp_path / "new", skip_damaged=True)
    assert not report.ok
    assert report.lost[0].path == table
    assert 0 < report.pairs


def test_options_of_the_keyspace_hold(leveldb, tmp_path):
    orders = {"backwards": lambda a, b: (a < b) - (a > b)}
    report = cantle.import_leveldb(leveldb, tmp_path / "new", comparators=orders, comparator="backwards")
    assert report.pairs == 2000
    with cantle.open(tmp_path / "new", comparators=orders) as db:
        assert db.comparator == "backwards"
        assert [int(key) for key in db] == [i for i in range(2999, -1, -1) if i % 3]


def test_pairs_go_to_a_keyspace(leveldb, tmp_path):
    cantle.import_leveldb(leveldb, tmp_path / "new", keyspace="old")
    with cantle.open(tmp_path / "new") as db:
        assert list(db) == []
        assert len(list(db.keyspace("old"))) == 2000
