"""Names for annotations: options, the texts that they accept, and paths.

>>> import cantle, tempfile
>>> from cantle.types import StoreOptions
>>> small: StoreOptions = {"memory_budget": 32 << 20, "durability": "sync", "compression": "lz4"}
>>> cantle.open(tempfile.mkdtemp(), **small).close()
"""

from __future__ import annotations

import os as _os
from collections.abc import Callable, Mapping
from typing import Literal, Optional, TypedDict, Union

from ._cantle import Resources

__all__ = ["Comparator", "Compression", "Durability", "KeyspaceOptions", "Layout", "PathLike", "StoreOptions"]

# Unions of single literals: stubtest takes a literal of several texts for an alias that differs at
# run time.

#: Compression of the blocks of a keyspace's tables.
Compression = Union[Literal["none"], Literal["lz4"], Literal["zstd"]]

#: Failure that an acknowledged write survives: the end of the process ("process"), a loss of power
#: ("sync"), or none until the next checkpoint ("buffered").
Durability = Union[Literal["buffered"], Literal["process"], Literal["sync"]]

#: Layout of a keyspace: a name, or a name with options of the layout, as in
#: "chunk:munks=false,chunk_bytes=1MiB" or "flsm:guard_bytes=8MiB".
Layout = Union[Literal["chunk"], Literal["flsm"], Literal["forest"], str]

#: Path of a file or directory: str, bytes, or an object whose __fspath__ returns either.
PathLike = Union[str, bytes, _os.PathLike[str], _os.PathLike[bytes]]

#: Order of keys: a function of two keys that returns a negative number, 0 or a positive number.
Comparator = Callable[[bytes, bytes], int]


class KeyspaceOptions(TypedDict, total=False):
    """Keyword arguments of DB.keyspace(). open() documents them."""

    layout: Optional[Layout]
    comparator: Optional[str]
    compression: Optional[Compression]
    compression_level: Optional[int]
    space_amplification: Optional[float]
    row_cache: Optional[bool]


class StoreOptions(KeyspaceOptions, total=False):
    """Keyword arguments of open()."""

    memory_budget: Optional[int]
    durability: Optional[Durability]
    create_if_missing: Optional[bool]
    error_if_exists: Optional[bool]
    beside_other_files: Optional[bool]
    read_only: Optional[bool]
    background_threads: Optional[int]
    checkpoint_interval: Optional[float]
    write_buffer: Optional[bool]
    io_uring: Optional[bool]
    monitor: Optional[bool]
    resources: Optional[Resources]
    comparators: Optional[Mapping[str, Comparator]]
