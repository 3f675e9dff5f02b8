"""Cantle: an embedded, ordered, persistent key-value store for data that has neighbours.

>>> import cantle, tempfile
>>> db = cantle.open(tempfile.mkdtemp() + "/flights")
>>> db["UA", "EWR", 1545] = b"delayed"
>>> db["UA", "LGA", 1714] = b"on time"
>>> for key, value in db.prefix(("UA",), reverse=True).tuples():
...     print(key, value)
('UA', 'LGA', 1714) b'on time'
('UA', 'EWR', 1545) b'delayed'
>>> db.close()

A store is a directory. It holds keyspaces: ordered maps from bytes to bytes; a DB is its own keyspace "default". Handles may
be used from any thread; the interpreter lock is let go while the store works. cantle.plyvel has the interface of plyvel.
"""

from __future__ import annotations

import atexit as _atexit
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Optional

from . import _cantle, types
from ._cantle import (
    DB,
    Cursor,
    Keyspace,
    Range,
    Resources,
    Snapshot,
    Transaction,
    WriteBatch,
    decode_key,
    encode_key,
)
from ._errors import (
    AlreadyExistsError,
    ClosedError,
    ConflictError,
    CorruptionError,
    Error,
    ForkedError,
    InvalidArgumentError,
    IoError,
    LockedError,
    NoKeyspaceError,
    NoSpaceError,
    NotAStoreError,
    NotFoundError,
    OptionMismatchError,
    ReadOnlyError,
    UnsupportedFormatError,
)
from ._reports import ImportDamage, ImportReport, LeftOut, RepairedKeyspace, RepairReport, UncertainKeys, VerifyReport

if TYPE_CHECKING:
    from typing_extensions import Unpack

__version__ = "0.1.0"

__all__ = [
    "DB",
    "AlreadyExistsError",
    "ClosedError",
    "ConflictError",
    "CorruptionError",
    "Cursor",
    "Error",
    "ForkedError",
    "ImportDamage",
    "ImportReport",
    "InvalidArgumentError",
    "IoError",
    "Keyspace",
    "LeftOut",
    "LockedError",
    "NoKeyspaceError",
    "NoSpaceError",
    "NotAStoreError",
    "NotFoundError",
    "OptionMismatchError",
    "Range",
    "ReadOnlyError",
    "RepairReport",
    "RepairedKeyspace",
    "Resources",
    "Snapshot",
    "Transaction",
    "UncertainKeys",
    "UnsupportedFormatError",
    "VerifyReport",
    "WriteBatch",
    "decode_key",
    "destroy",
    "encode_key",
    "import_leveldb",
    "open",
    "repair",
]

# Threads of a store may call comparators, which have to be there.
_atexit.register(_cantle.close_all)


def open(
    path: types.PathLike,
    *,
    memory_budget: Optional[int] = None,
    layout: Optional[types.Layout] = None,
    durability: Optional[types.Durability] = None,
    create_if_missing: Optional[bool] = None,
    error_if_exists: Optional[bool] = None,
    beside_other_files: Optional[bool] = None,
    read_only: Optional[bool] = None,
    background_threads: Optional[int] = None,
    checkpoint_interval: Optional[float] = None,
    write_buffer: Optional[bool] = None,
    resources: Optional[Resources] = None,
    comparators: Optional[Mapping[str, types.Comparator]] = None,
    comparator: Optional[str] = None,
    compression: Optional[types.Compression] = None,
    compression_level: Optional[int] = None,
    space_amplification: Optional[float] = None,
    row_cache: Optional[bool] = None,
) -> DB:
    """Opens the store in a directory, which is created if there is none. What is None keeps its default.

    Of the store:

    memory_budget: bytes for everything that the store caches and buffers. Default: a quarter of the machine's (or control
        group's) memory, at most 4 GiB.
    durability: what an acknowledged write survives: "buffered" (nothing until the next checkpoint), "process" (the end of the
        process; default) or "sync" (a loss of power).
    create_if_missing: default True. error_if_exists, read_only: default False.
    beside_other_files: whether a store may be created in a directory that holds other files. Default False, since most often the
        path is a mistake; a directory of another kind of store is always refused.
    background_threads: default half of the cores, one to four.
    checkpoint_interval: the longest time between checkpoints, in seconds; default 5.
    write_buffer: whether appends to logs are collected in a mapped file, of which a killed process loses nothing. Default True.
        The first store of a process that has one installs a handler of SIGBUS, which passes on what is not its own.
    resources: memory and threads that several stores share; then memory_budget and background_threads have no effect.
    comparators: orders that keyspaces may have, by name: functions of two keys that return a negative number, 0 or a positive
        one. An order must be total, never change, and not use the store.

    Of its keyspace "default"; DB.keyspace() takes the same for another one:

    layout: its name, or that with options that only this layout has: "chunk" (default), "chunk:munks=false,chunk_bytes=1MiB". Options
        of "chunk": chunk_bytes, at which size a chunk splits, default 8MiB; munks and recent_appends: false switches off chunks in
        memory, the last appends in memory; log_bytes, munk_log_bytes, filter_partitions: for experiments; see the Rust library.
    comparator: one of comparators, fixed when the keyspace is created. Default: bytewise, or what an existing one has.
    compression: "none" (default), "lz4" or "zstd"; compression_level: of Zstandard, 1 to 22, default 3.
    space_amplification: bytes on disk per live byte, above 1.1; default 1.5, or more for what is small beside the budget.
    row_cache: False switches off the cache of popular single pairs.
    """
    given: dict[str, Any] = {name: value for name, value in locals().items() if name != "path" and value is not None}
    if comparators is not None:
        given["comparators"] = dict(comparators)
    return _cantle.open(path, **given)


def repair(
    source: types.PathLike,
    target: types.PathLike,
    *,
    progress: Optional[Callable[[int, int, int], object]] = None,
    keep_left_behind: bool = False,
    **options: Unpack[types.StoreOptions],
) -> RepairReport:
    """Saves what is left of the damaged store in source into a new store in target, which must not exist. source is not
    changed. Options are those of open(); comparators of keyspaces must be among them.

    progress is called now and then with the bytes read, the bytes of all files, and the pairs saved.

    keep_left_behind: also keeps what was written since the last checkpoint where nothing proves that all of it reached the disk (the
        process was killed, and its volume unmounted since, or the power failed): every intact write, though some may be
        missing between those that are there. Repair before the store is opened for writing, which gives them up for good.

    The report has every damaged place, every file left out, and the keys of which the newest version may be lost.
    """
    return _cantle.repair(source, target, progress, keep_left_behind=keep_left_behind, **options)


def destroy(path: types.PathLike) -> None:
    """Removes the store in a directory, damaged or not, with everything in it. Files that are not the store's stay, and so does
    the directory. No error if there is no store; LockedError if it is open, NotAStoreError for another kind of store.
    """
    _cantle.destroy(path)


def import_leveldb(
    src: types.PathLike,
    dst: types.PathLike,
    *,
    progress: Optional[Callable[[int, Optional[int], int], object]] = None,
    skip_damaged: bool = False,
    log_memory: Optional[int] = None,
    keyspace: Optional[str] = None,
    **options: Unpack[types.StoreOptions],
) -> ImportReport:
    """Copies the store that LevelDB wrote to directory src into a new store in directory dst, where there must be nothing, or an
    empty directory. Of each key the newest value is copied. src is not changed, and LevelDB cannot open it meanwhile. Options
    are those of open(). keyspace: where the pairs go instead of to "default"; options of a keyspace are then its own.

    progress is called now and then with the bytes read, the bytes of the source, and the pairs written; what it raises ends
    the import. skip_damaged leaves out what is damaged, and tells it in the report's lost, instead of raising CorruptionError.
    log_memory: in how many bytes of memory writes are sorted that are not in tables yet; default 64 MiB, at least 1 MiB.

    After an error there is no dst.
    """
    given: dict[str, Any] = dict(options)
    if keyspace is not None:
        given["keyspace"] = keyspace
    return _cantle.import_leveldb(src, dst, progress, skip_damaged, log_memory, **given)


# Tracebacks and reprs show the name that users import, not the private module.
for _name in __all__:
    globals()[_name].__module__ = __name__
del _name
