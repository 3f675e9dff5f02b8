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

A store is a directory. It holds keyspaces, which are ordered maps from bytes to bytes; a DB is its
own keyspace "default". Objects may be used from any thread, and every call releases the interpreter
lock while the store works. cantle.plyvel has the interface of plyvel, cantle.types the names for
annotations.
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
    WrongTypeError,
)
from ._keys import Float32, Versionstamp
from ._reports import (
    ImportDamage,
    ImportReport,
    LeftOut,
    RepairedKeyspace,
    RepairReport,
    ReturnedKeys,
    UncertainKeys,
    VerifyReport,
)
from ._typed import TypedBatch, TypedKeyspace, TypedSnapshot, TypedTransaction

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
    "Float32",
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
    "ReturnedKeys",
    "Snapshot",
    "Transaction",
    "TypedBatch",
    "TypedKeyspace",
    "TypedSnapshot",
    "TypedTransaction",
    "UncertainKeys",
    "UnsupportedFormatError",
    "VerifyReport",
    "Versionstamp",
    "WriteBatch",
    "WrongTypeError",
    "decode_key",
    "destroy",
    "encode_key",
    "import_leveldb",
    "open",
    "repair",
]

# Stores close while comparators, which are Python functions, can still run.
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
    io_uring: Optional[bool] = None,
    monitor: Optional[bool] = None,
    resources: Optional[Resources] = None,
    comparators: Optional[Mapping[str, types.Comparator]] = None,
    comparator: Optional[str] = None,
    compression: Optional[types.Compression] = None,
    compression_level: Optional[int] = None,
    space_amplification: Optional[float] = None,
    row_cache: Optional[bool] = None,
) -> DB:
    """Opens the store in a directory, and creates it if there is none. An option that is None keeps
    its default.

    Options of the store:

    memory_budget: bytes that the store may cache and buffer. Default: a quarter of the memory of
        the machine or control group, at most 4 GiB.
    durability: the failure that an acknowledged write survives: "process", the end of the process
        (default); "sync", a loss of power; "buffered", none until the next checkpoint.
    create_if_missing: default True. error_if_exists, read_only: default False.
    beside_other_files: True lets open() create a store in a directory that holds other files.
        Default False, since such a path is most often a mistake. A directory with another kind of
        store is always refused.
    background_threads: default half of the cores, at least one and at most four.
    checkpoint_interval: the longest time between checkpoints, in seconds; default 5.
    monitor: True makes a socket in the store's directory, by which `cantle top`, `stats`, `inspect` and
        `backup` look at the store while this program has it open. Linux only. Default: False.
    write_buffer: True collects appends to logs in a mapped file, which a killed process does not
        lose. Default True. The first such store of a process installs a handler of SIGBUS, which
        passes on signals of other code.
    io_uring: True reads many places at once through a ring of the kernel (Linux's io_uring), where
        the kernel gives one: for get_many() and in merges. False gives the kernel hints
        and reads the places one by one, with the same results. Default False, as hints took less
        time on a local SSD. CANTLE_IO_URING=off in the environment switches it off for every store
        of the process.
    resources: memory and threads that several stores share. memory_budget and background_threads
        have no effect then.
    comparators: orders that keyspaces may have, by name: functions of two keys that return a
        negative number, 0 or a positive number. An order must be total, must never change, and must
        not use the store.

    Options of its keyspace "default"; DB.keyspace() takes the same options for another keyspace:

    layout: a name, or a name with options of the layout: "chunk" (default for a new keyspace),
        "flsm", "chunk:munks=false,chunk_bytes=1MiB". It is fixed when the keyspace is created.
        Options of "chunk": chunk_bytes, the size at which a
        chunk splits, default 8MiB; munks and recent_appends, false to keep no chunks, or no recent
        appends, in memory. log_bytes, munk_log_bytes and filter_partitions are for experiments; the
        Rust library documents them. Options of "flsm" (PebblesDB): generation_bytes, the length at
        which a log is full, by default a 24th of the memory budget, from 1MiB to 16MiB;
        log_is_level_0, false to write every full log again as a table, and not only those of
        tiny pairs, default true;
        guard_bytes, the target length of tables and guards of the last level, default 16MiB;
        max_sstables_per_guard, the tables of a guard before some are merged, 1 to 64, by default
        1 to 12 for each guard by its own reads and writes; seek_compaction, a number of seeks
        without a write after which a guard is merged, default off; level_percent, the part of the
        next level at which a level is merged down, default off; top_level_bits and bit_decrement,
        which choose guards by the hash of keys as PebblesDB does, default off and 2;
        parallel_search, the logs and tables that a get searches at the same time at most, where it
        has to read several of them from a device, 1 to 16, default 16. Options of "forest" (SifrDB):
        generation_bytes, log_is_level_0 and parallel_search as in "flsm"; growth_factor, the trees
        of a stage beyond which the oldest ones become one tree of the next, 2 to 16, default 4;
        sub_tree_bytes, the usual length of a sub-tree, by default 2MiB, and more beyond 128GiB of
        data; cleaning_threshold, the sub-trees that a merge writes before it removes those that it
        has merged, by default at least 11; seek_compaction, a number of seeks without a write after
        which a range of keys is merged into one tree, default off; filters, False for no Bloom
        filters, and size_tiered, True for one table a tree, both for comparisons with the paper;
        aligned_storing, True to allocate the space of a sub-tree before it is written, and direct_io,
        True to write sub-trees past the operating system's page cache, both default False.
    comparator: one of comparators, fixed when the keyspace is created. Default: bytewise, or the
        order of an existing keyspace.
    compression: "none" (default), "lz4" or "zstd". compression_level: of Zstandard, 1 to 22,
        default 3.
    space_amplification: bytes on disk per live byte, above 1.1. Default 1.5, and more for a
        keyspace that is small beside the memory budget.
    row_cache: False switches off the cache of single popular pairs.
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
    """Copies the readable pairs of the damaged store in source into a new store in target, which
    must not exist. source is not changed. Options are those of open(); comparators of keyspaces
    must be among them.

    progress is called from time to time with the bytes read, the bytes of all files, and the pairs
    copied.

    keep_left_behind: True also keeps writes since the last checkpoint that may not all have reached
        the disk, because the power failed, or the process was killed and its volume unmounted
        since. Every intact write is kept, though writes between them may be missing. Repair before
        the store is opened for writing: opening discards them.

    The report lists every damaged place, every file left out, and the keys that may have lost their
    newest version.
    """
    return _cantle.repair(source, target, progress, keep_left_behind=keep_left_behind, **options)


def destroy(path: types.PathLike) -> None:
    """Removes the store in a directory, damaged or not, with all its data. Files that do not belong
    to the store stay, and so does the directory. Without a store it does nothing. Raises
    LockedError if the store is open, and NotAStoreError for another kind of store.
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
    """Copies the LevelDB store in directory src into a new store in directory dst, which must be
    absent or empty. The newest value of each key is copied. src is not changed, and LevelDB cannot
    open it meanwhile. Options are those of open(). keyspace: the keyspace for the pairs, default
    "default"; options of a keyspace apply to it.

    progress is called from time to time with the bytes read, the bytes of the source, and the pairs
    written; an exception of progress ends the import. skip_damaged leaves out damaged data and
    lists it in the report's lost, instead of raising CorruptionError. log_memory: bytes of memory
    for sorting writes that are not in tables yet; default 64 MiB, at least 1 MiB.

    After an error dst does not exist.
    """
    given: dict[str, Any] = dict(options)
    if keyspace is not None:
        given["keyspace"] = keyspace
    return _cantle.import_leveldb(src, dst, progress, skip_damaged, log_memory, **given)


# Tracebacks and reprs show the name that users import, not the private module.
for _name in __all__:
    globals()[_name].__module__ = __name__
del _name
