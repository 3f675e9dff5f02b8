"""Statistics, verification, backups, repair."""

import pickle

import pytest
from conftest import damage

import cantle


@pytest.fixture
def filled(db):
    with db.write_batch() as batch:
        for i in range(1000):
            batch[b"%04d" % i] = b"value" * 20
    db.keyspace("other")[b"a"] = b"1"
    return db


def test_stats_are_a_dict(filled):
    filled.get(b"0005")
    stats = filled.stats()
    assert stats["memory_budget"] == 32 << 20
    assert isinstance(stats["open_time"], float)
    assert stats["read_only"] is None
    default, other = stats["keyspaces"]
    assert (default["name"], other["name"]) == ("default", "other")
    assert default["writes"] == 1000
    assert default["gets"] == 1
    assert sum(default["gets_served"].values()) == 1
    assert filled.keyspace("other").stats()["writes"] == 1
    stalls = stats["write_stalls"]
    assert set(stalls) == {"brake", "lock", "allocation", "device"}
    # Durations are seconds.
    assert all(isinstance(of["longest"], float) and of["total"] >= of["longest"] for of in stalls.values())
    assert stats["write_delay_longest"] == 0.0


def test_a_sound_store_verifies(filled):
    filled.sync()
    report = filled.verify()
    assert report.ok
    assert report.damage == report.unknown_files == []
    assert report.files > 0
    assert report.bytes > 100_000


def test_a_backup_opens(filled, tmp_path):
    filled.backup(tmp_path / "backup")
    filled.delete_range()
    with cantle.open(tmp_path / "backup") as copy:
        assert len(list(copy)) == 1000
        assert copy.keyspace("other")[b"a"] == b"1"
    with pytest.raises(cantle.AlreadyExistsError):
        filled.backup(tmp_path / "backup")


def test_damage_is_found_raised_and_repaired(filled, tmp_path):
    filled.compact_range()
    filled.close()
    table = damage(filled.path)
    with cantle.open(filled.path) as db:
        report = db.verify()
        assert not report.ok
        error = report.damage[0]
        assert isinstance(error, cantle.CorruptionError)
        assert error.path == table
        assert 0 < error.offset < table.stat().st_size
        assert error.what in str(error)
        with pytest.raises(cantle.CorruptionError) as raised:
            list(db)
        assert raised.value.path == table
        assert db[b"0000"]
    told = []
    repaired = cantle.repair(filled.path, tmp_path / "new", progress=lambda *at: told.append(at), memory_budget=32 << 20)
    assert not repaired.ok
    assert 0 < repaired.pairs < 1001
    assert [keyspace.name for keyspace in repaired.keyspaces] == ["default", "other"]
    assert repaired.uncertain[0].keyspace == "default"
    start, stop = repaired.uncertain[0].keys
    assert (start or b"") < (stop or b"\xff")
    assert repaired.damage[0].path == table
    assert all(len(at) == 3 for at in told)
    with cantle.open(tmp_path / "new") as db:
        assert len(list(db)) == repaired.keyspaces[0].pairs
    with pytest.raises(cantle.AlreadyExistsError):
        cantle.repair(filled.path, tmp_path / "new")
    with pytest.raises(cantle.NotFoundError):
        cantle.repair(tmp_path / "none", tmp_path / "newer")


def test_what_progress_raises_is_raised(filled, tmp_path):
    filled.compact_range()
    filled.close()
    with pytest.raises(ZeroDivisionError):
        cantle.repair(filled.path, tmp_path / "new", progress=lambda *at: 1 / 0)


def test_errors_can_be_pickled(filled):
    with pytest.raises(cantle.LockedError) as raised:
        cantle.open(filled.path)
    again = pickle.loads(pickle.dumps(raised.value))
    assert (type(again), str(again), again.errno) == (cantle.LockedError, str(raised.value), raised.value.errno)


def test_each_kind_of_error_has_a_documented_class():
    kinds = [kind for kind in vars(cantle).values() if isinstance(kind, type) and issubclass(kind, cantle.Error)]
    assert {cantle.AlreadyExistsError, cantle.ClosedError, cantle.Error} <= set(kinds)
    assert [kind.__name__ for kind in kinds if not kind.__doc__] == []
