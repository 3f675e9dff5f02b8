"""Ranges as Arrow tables."""

import subprocess
import sys

import pytest

import cantle


def test_without_pyarrow_an_import_error_says_what_to_do(db, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match="pip install pyarrow"):
        db.range().to_arrow()


@pytest.fixture
def arrow():
    return pytest.importorskip("pyarrow")


@pytest.fixture
def filled(db):
    with db.write_batch() as batch:
        for i in range(1000):
            batch[b"%04d" % i] = b"v" * (i % 50)
    return db


def test_a_range_becomes_a_table(filled, arrow):
    table = filled.range(b"0010", b"0900").to_arrow()
    assert isinstance(table, arrow.Table)
    table.validate(full=True)
    assert table.schema.names == ["key", "value"]
    assert table.schema.types == [arrow.binary(), arrow.binary()]
    assert list(zip(table["key"].to_pylist(), table["value"].to_pylist())) == list(filled.range(b"0010", b"0900"))


def test_the_rest_of_a_range_in_reverse(filled, arrow):
    found = filled.range(reverse=True, limit=10)
    next(found)
    assert found.to_arrow()["key"].to_pylist() == [b"%04d" % i for i in range(998, 989, -1)]
    assert filled.range(b"x").to_arrow().num_rows == 0


def test_batches_are_read_one_by_one(filled, arrow):
    reader = filled.range().to_arrow(batch_rows=300)
    assert isinstance(reader, arrow.RecordBatchReader)
    assert [batch.num_rows for batch in reader] == [300, 300, 300, 100]
    for wrong, error in ((0, ValueError), (-1, ValueError), ("1", TypeError)):
        with pytest.raises(error):
            filled.range().to_arrow(batch_rows=wrong)


def test_others_read_the_stream(filled, arrow):
    assert arrow.table(filled.range()).num_rows == 1000


def test_a_store_that_is_closed_meanwhile_ends_the_stream(filled, arrow):
    reader = filled.range().to_arrow(batch_rows=10)
    reader.read_next_batch()
    filled.close()
    with pytest.raises(cantle.ClosedError):
        reader.read_next_batch()


def test_importing_cantle_does_not_import_pyarrow():
    code = "import cantle, cantle.plyvel, sys; sys.exit('pyarrow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
