"""Ranges as Arrow tables. Rust makes the columns as Arrow buffers, and nothing is copied here."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Optional

if TYPE_CHECKING:
    from ._cantle import Range

#: Size of a batch, in bytes, at which it ends, with few rows too. Offsets have 31 bits, and a value
#: may have 1 GiB.
BATCH_BYTES = 64 << 20
#: Default rows of a batch: enough to make columns worthwhile, few enough to stay in a processor's
#: cache.
BATCH_ROWS = 64 << 10


def _pyarrow() -> Any:
    try:
        import pyarrow  # type: ignore[import-untyped,import-not-found,unused-ignore]
    except ImportError as error:
        raise ImportError("a range becomes an Arrow table by way of pyarrow: pip install pyarrow", name="pyarrow") from error
    return pyarrow


def _reader(found: Range[Any], batch_rows: int) -> Any:
    arrow = _pyarrow()
    schema = arrow.schema([arrow.field("key", arrow.binary(), nullable=False), arrow.field("value", arrow.binary(), nullable=False)])

    def batches() -> Iterator[Any]:
        while columns := found._columns(batch_rows, BATCH_BYTES):
            rows, buffers = columns
            keys, key_data, values, value_data = map(arrow.py_buffer, buffers)
            key = arrow.Array.from_buffers(arrow.binary(), rows, [None, keys, key_data])
            value = arrow.Array.from_buffers(arrow.binary(), rows, [None, values, value_data])
            yield arrow.RecordBatch.from_arrays([key, value], schema=schema)

    return arrow.RecordBatchReader.from_batches(schema, batches())


def to_arrow(found: Range[Any], batch_rows: Optional[int]) -> Any:
    """A table, or a reader if batches have a size."""
    if batch_rows is None:
        return _reader(found, BATCH_ROWS).read_all()
    return _reader(found, min(batch_rows, 1 << 30))


def stream(found: Range[Any], requested_schema: Any) -> Any:
    """The capsule of the Arrow C stream interface."""
    return _reader(found, BATCH_ROWS).__arrow_c_stream__(requested_schema)
