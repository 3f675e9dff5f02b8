"""Layouts of keyspaces: chosen at creation, kept, and seen in statistics and ranges."""

import cantle
import pytest
from cantle import plyvel

SMALL = "flsm:generation_bytes=16KiB,guard_bytes=16KiB,max_sstables_per_guard=3"


def fill(keyspace):
    for number in range(2000):
        keyspace.put(b"%05d" % (number * 7919 % 2000), bytes(512))
    keyspace.compact_range()


def test_each_keyspace_has_its_own_layout_and_keeps_it(tmp_path):
    with cantle.open(tmp_path / "store") as db:
        guards = db.keyspace("guards", layout=SMALL)
        fill(guards)
        with db.write_batch() as batch:
            batch.put(b"k", b"chunk")
            batch.keyspace(guards).put(b"k", b"flsm")
    with cantle.open(tmp_path / "store") as db:
        guards = db.keyspace("guards")
        assert (db[b"k"], guards[b"k"]) == (b"chunk", b"flsm")
        assert sum(1 for _ in guards.range()) == 2001
        with pytest.raises(cantle.OptionMismatchError):
            db.keyspace("guards", layout="chunk")
    with pytest.raises(cantle.OptionMismatchError):
        cantle.open(tmp_path / "store", layout="flsm")


def test_statistics_and_ranges_show_levels_of_guards(tmp_path):
    with cantle.open(tmp_path / "store", layout=SMALL) as db:
        fill(db)
        (own,) = db.stats()["keyspaces"]
        assert len(own["by_level"]) == own["levels"]
        assert sum(level["guards"] for level in own["by_level"]) == own["regions"]
        # Merges of logs write into the first level.
        assert own["by_level"][0]["table_bytes_written"] > 2000 * 512
        logs, *guards = db.regions()
        assert (logs["level"], logs["tables"]) == (0, 0) and len(guards) > 1
        assert [guard["level"] for guard in guards] == sorted(guard["level"] for guard in guards)
        assert all(guard["read_debt"] >= 0 for guard in guards)
        assert all(guard["tables_max"] == 3 for guard in guards) and logs["tables_max"] == 0


def test_an_option_of_another_layout_and_a_value_out_of_range_are_told(tmp_path):
    for layout, told in [
        ("flsm:munks=true", "its options: generation_bytes, guard_bytes, max_sstables_per_guard"),
        ("chunk:guard_bytes=1MiB", "its options: chunk_bytes"),
        ("flsm:generation_bytes=33MiB", "outside 4 KiB to 32 MiB"),
        ("flsm:max_sstables_per_guard=0", "outside 1 to 64"),
        ("btree", "there is no layout"),
    ]:
        with pytest.raises(cantle.InvalidArgumentError) as raised:
            cantle.open(tmp_path / "store", layout=layout)
        assert told in str(raised.value)


def test_plyvel_opens_a_store_of_guards(tmp_path):
    with cantle.open(tmp_path / "store", layout=SMALL) as db:
        fill(db)
    with plyvel.DB(str(tmp_path / "store")) as db:
        assert db.get(b"00007") == bytes(512)
        assert b"merges" in db.get_property(b"leveldb.stats")
        assert int(db.get_property(b"leveldb.num-files-at-level0")) > 1
