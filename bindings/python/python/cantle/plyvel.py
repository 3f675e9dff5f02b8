"""The interface of plyvel 1.5 over Cantle. A program needs ``from cantle import plyvel`` only.

Stores are Cantle's. A LevelDB store is not changed; the error at opening it says how to copy it.
docs/bindings/python.md has the differences from plyvel and the meaning of LevelDB's options.
"""

from __future__ import annotations

import errno
import operator
import os
import re
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Optional, TypeVar, Union, overload

from . import _cantle
from . import destroy as _destroy
from . import open as _open
from ._errors import ClosedError, CorruptionError, Error
from ._errors import IoError as IOError

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = ["DB", "CorruptionError", "Error", "IOError", "IteratorInvalidError", "destroy_db", "repair_db"]

__version__ = "1.5.1"
#: The LevelDB version of plyvel 1.5.1.
__leveldb_version__ = "1.23"

Iterator = _cantle.Iterator
WriteBatch = _cantle.PlyvelBatch
# The native module has another WriteBatch; users know this class by its name here.
WriteBatch.__name__ = WriteBatch.__qualname__ = "WriteBatch"

_T = TypeVar("_T")

# The name of LevelDB's own order. A function of this name is not called.
_BYTEWISE = "leveldb.BytewiseComparator"
_COMPARATOR = Callable[[bytes, bytes], int]


class IteratorInvalidError(Error):
    """A raw iterator is at no entry."""


def _check(name: str, value: object) -> None:
    """Raises TypeError unless a value is bytes."""
    if not isinstance(value, bytes):
        raise TypeError(f"Argument '{name}' has incorrect type (expected bytes, got {type(value).__name__})")


def _flag(name: str, value: object) -> bool:
    """The value of a flag, which is a bool or None."""
    if value is not None and not isinstance(value, bool):
        raise TypeError(f"Argument '{name}' has incorrect type (expected bool, got {type(value).__name__})")
    return bool(value)


def _size(value: object) -> Optional[int]:
    """A number within the limits of C's size_t, or None."""
    if value is None:
        return None
    try:
        size = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise TypeError("an integer is required") from None
    if size < 0:
        raise OverflowError("can't convert negative value to size_t")
    if size >= 1 << 64:
        raise OverflowError("Python int too large to convert to C size_t")
    return size


def _int(value: object) -> None:
    """Raises OverflowError unless a value is None or within the limits of C's int."""
    if value is None:
        return
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise TypeError("an integer is required") from None
    if not -(1 << 31) <= number < 1 << 31:
        raise OverflowError("value too large to convert to int")


def _path(name: object) -> str:
    if isinstance(name, (str, bytes)):
        return os.fsdecode(name)
    raise TypeError("'name' arg must be a byte string or a unicode string")


def _successor(prefix: bytes) -> Optional[bytes]:
    """The first key after all keys that begin with prefix, if there is one."""
    stem = prefix.rstrip(b"\xff")
    return stem[:-1] + bytes([stem[-1] + 1]) if stem else None


def _options(
    paranoid_checks: Optional[bool],
    write_buffer_size: Optional[int],
    max_open_files: Optional[int],
    lru_cache_size: Optional[int],
    block_size: Optional[int],
    block_restart_interval: Optional[int],
    max_file_size: Optional[int],
    compression: Optional[Union[str, bytes]],
    bloom_filter_bits: int,
    comparator: Optional[_COMPARATOR],
    comparator_name: Optional[bytes],
) -> dict[str, Any]:
    """Cantle's options for LevelDB's. Most have no counterpart: see docs/bindings/python.md."""
    buffer, cache = _size(write_buffer_size), _size(lru_cache_size)
    for size in (block_size, max_file_size):
        _size(size)
    for number in (max_open_files, block_restart_interval, bloom_filter_bits):
        _int(number)
    options: dict[str, Any] = {"memory_budget": _cantle.leveldb_memory_budget(buffer, cache), "beside_other_files": True}
    if isinstance(compression, bytes):
        compression = compression.decode("UTF-8")
    if compression is not None:
        if not isinstance(compression, str):
            raise TypeError("'compression' must be None or a string")
        if compression != "snappy":
            raise ValueError("'compression' must be None or 'snappy'")
        options["compression"] = "lz4"
    if comparator_name is not None:
        _check("comparator_name", comparator_name)
    if (comparator is None) != (comparator_name is None):
        raise ValueError("'comparator' and 'comparator_name' must be specified together")
    if comparator is not None and comparator_name is not None:
        if not callable(comparator):
            raise TypeError("custom comparator object must be callable")
        name = comparator_name.decode("UTF-8", "backslashreplace")
        if name != _BYTEWISE:
            options["comparators"] = {name: comparator}
            options["comparator"] = name
    return options


class _Reads:
    """Methods that a DB, a prefixed DB and a snapshot share."""

    __slots__ = ()

    def _source(self) -> tuple[DB, Optional[bytes], Optional[_cantle.Snapshot]]:
        raise NotImplementedError

    def __iter__(self) -> Iterator[tuple[bytes, bytes]]:
        return self.iterator()

    @overload
    def iterator(
        self,
        *,
        reverse: bool = ...,
        start: Optional[bytes] = ...,
        stop: Optional[bytes] = ...,
        include_start: bool = ...,
        include_stop: bool = ...,
        prefix: Optional[bytes] = ...,
        include_key: Literal[True] = ...,
        include_value: Literal[True] = ...,
        verify_checksums: bool = ...,
        fill_cache: bool = ...,
    ) -> Iterator[tuple[bytes, bytes]]: ...
    @overload
    def iterator(
        self,
        *,
        reverse: bool = ...,
        start: Optional[bytes] = ...,
        stop: Optional[bytes] = ...,
        include_start: bool = ...,
        include_stop: bool = ...,
        prefix: Optional[bytes] = ...,
        include_key: Literal[True] = ...,
        include_value: Literal[False],
        verify_checksums: bool = ...,
        fill_cache: bool = ...,
    ) -> Iterator[bytes]: ...
    @overload
    def iterator(
        self,
        *,
        reverse: bool = ...,
        start: Optional[bytes] = ...,
        stop: Optional[bytes] = ...,
        include_start: bool = ...,
        include_stop: bool = ...,
        prefix: Optional[bytes] = ...,
        include_key: Literal[False],
        include_value: Literal[True] = ...,
        verify_checksums: bool = ...,
        fill_cache: bool = ...,
    ) -> Iterator[bytes]: ...
    @overload
    def iterator(
        self,
        *,
        reverse: bool = ...,
        start: Optional[bytes] = ...,
        stop: Optional[bytes] = ...,
        include_start: bool = ...,
        include_stop: bool = ...,
        prefix: Optional[bytes] = ...,
        include_key: Literal[False],
        include_value: Literal[False],
        verify_checksums: bool = ...,
        fill_cache: bool = ...,
    ) -> Iterator[None]: ...
    @overload
    def iterator(
        self,
        *,
        reverse: bool = ...,
        start: Optional[bytes] = ...,
        stop: Optional[bytes] = ...,
        include_start: bool = ...,
        include_stop: bool = ...,
        prefix: Optional[bytes] = ...,
        include_key: bool = ...,
        include_value: bool = ...,
        verify_checksums: bool = ...,
        fill_cache: bool = ...,
    ) -> Iterator[Any]: ...
    def iterator(
        self,
        *,
        reverse: bool = False,
        start: Optional[bytes] = None,
        stop: Optional[bytes] = None,
        include_start: bool = True,
        include_stop: bool = False,
        prefix: Optional[bytes] = None,
        include_key: bool = True,
        include_value: bool = True,
        verify_checksums: bool = False,
        fill_cache: bool = True,
    ) -> Iterator[Any]:
        """Entries as (key, value), or the included part of them, from start to stop or with a
        prefix, in either direction."""
        for name, key in (("start", start), ("stop", stop), ("prefix", prefix)):
            if key is not None:
                _check(name, key)
        if prefix is not None:
            if start is not None or stop is not None:
                raise TypeError("'prefix' cannot be used together with 'start' or 'stop'")
            include_start, include_stop = True, False
        db, own, snapshot = self._source()
        if own is not None:
            if prefix is None:
                start, include_start = (own, True) if start is None else (own + start, include_start)
                stop, include_stop = (_successor(own), False) if stop is None else (own + stop, include_stop)
            else:
                prefix = own + prefix
        if prefix is not None:
            start, stop = prefix, _successor(prefix)
        flags = (bool(reverse), bool(include_key), bool(include_value))
        return db._db._gap(start, stop, bool(include_start), bool(include_stop), flags, own or b"", snapshot)


class DB(_Reads):
    """An open store."""

    __slots__ = ("_db", "_get", "_name", "_put")

    def __init__(
        self,
        name: Union[str, bytes],
        *,
        create_if_missing: bool = False,
        error_if_exists: bool = False,
        paranoid_checks: Optional[bool] = None,
        write_buffer_size: Optional[int] = None,
        max_open_files: Optional[int] = None,
        lru_cache_size: Optional[int] = None,
        block_size: Optional[int] = None,
        block_restart_interval: Optional[int] = None,
        max_file_size: Optional[int] = None,
        compression: Optional[Union[str, bytes]] = "snappy",
        bloom_filter_bits: int = 0,
        comparator: Optional[_COMPARATOR] = None,
        comparator_name: Optional[bytes] = None,
    ) -> None:
        path = _path(name)
        options = _options(
            paranoid_checks,
            write_buffer_size,
            max_open_files,
            lru_cache_size,
            block_size,
            block_restart_interval,
            max_file_size,
            compression,
            bloom_filter_bits,
            comparator,
            comparator_name,
        )
        self._name = name
        self._db = _open(path, create_if_missing=bool(create_if_missing), error_if_exists=bool(error_if_exists), **options)
        self._get = self._db.get
        self._put = self._db.put

    def __repr__(self) -> str:
        closed = " (closed)" if self.closed else ""
        return f"<plyvel.DB with name {self.name!r}{closed} at {hex(id(self))}>"

    def __enter__(self) -> DB:
        return self

    def __exit__(self, kind: Optional[type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]) -> None:
        self.close()

    def _check_open(self) -> None:
        if self._db.closed:
            raise ClosedError("Database is closed")

    def _source(self) -> tuple[DB, Optional[bytes], Optional[_cantle.Snapshot]]:
        return self, None, None

    @property
    def name(self) -> Union[str, bytes]:
        """The path as it was given to DB()."""
        return self._name

    @property
    def closed(self) -> bool:
        """True once the store was closed."""
        return self._db.closed

    def close(self) -> None:
        """Closes the store, and all iterators and snapshots of it."""
        self._db.close()

    @overload
    def get(self, key: bytes, default: None = None, *, verify_checksums: bool = ..., fill_cache: bool = ...) -> Optional[bytes]: ...
    @overload
    def get(self, key: bytes, default: _T, *, verify_checksums: bool = ..., fill_cache: bool = ...) -> Union[bytes, _T]: ...
    def get(self, key: bytes, default: Any = None, *, verify_checksums: bool = False, fill_cache: bool = True) -> Any:
        """The value of a key, or default."""
        if not isinstance(key, bytes):
            _check("key", key)
        return self._get(key, default)

    def put(self, key: bytes, value: Buffer, *, sync: Optional[bool] = False) -> None:
        """Sets the value of a key."""
        if not isinstance(key, bytes):
            _check("key", key)
        if sync is False or not _flag("sync", sync):
            self._put(key, value)
        else:
            self._put(key, value, durability="sync")

    def delete(self, key: bytes, *, sync: Optional[bool] = False) -> None:
        """Deletes a key, if there is one."""
        _check("key", key)
        self._db.delete(key, durability="sync" if _flag("sync", sync) else None)

    def write_batch(self, *, transaction: Optional[bool] = False, sync: Optional[bool] = False) -> WriteBatch:
        """A batch of writes. With transaction=True an exception in its with statement discards
        them."""
        return self._db._plyvel_batch(b"", _flag("transaction", transaction), _flag("sync", sync))

    def raw_iterator(self, *, verify_checksums: bool = False, fill_cache: bool = True) -> RawIterator:
        """An iterator with LevelDB's own methods."""
        return RawIterator(self._db.cursor())

    def snapshot(self) -> Snapshot:
        """The store as it is now."""
        return Snapshot(db=self)

    def get_property(self, name: bytes) -> Optional[bytes]:
        """A property of LevelDB, filled with Cantle's numbers. None if there is no such property.
        """
        _check("name", name)
        self._check_open()
        return _property(self._db, name)

    def compact_range(self, *, start: Optional[bytes] = None, stop: Optional[bytes] = None) -> None:
        """Rewrites the keys from start to stop, sorted and without garbage."""
        for argument, key in (("start", start), ("stop", stop)):
            if key is not None:
                _check(argument, key)
        self._db.compact_range(start, stop)

    def approximate_size(self, start: bytes, stop: bytes) -> int:
        """Approximate bytes on disk of the keys from start to stop."""
        _check("start", start)
        _check("stop", stop)
        return self._db.approximate_bytes(start, stop)

    def approximate_sizes(self, *ranges: tuple[bytes, bytes]) -> list[int]:
        """approximate_size() of several ranges."""
        sizes = []
        for start, stop in ranges:
            if not isinstance(start, bytes) or not isinstance(stop, bytes):
                raise TypeError("Start and stop of range must be byte strings")
            sizes.append(self._db.approximate_bytes(start, stop))
        self._check_open()
        return sizes

    def backup(self, directory: Union[str, bytes]) -> None:
        """Writes a consistent copy of the store into a new or empty directory. plyvel does not have
        this."""
        self._db.backup(_path(directory))

    def prefixed_db(self, prefix: bytes) -> PrefixedDB:
        """A view of the keys that begin with a prefix."""
        return PrefixedDB(db=self, prefix=prefix)


class PrefixedDB(_Reads):
    """A view of the keys of a DB that begin with a prefix. Its keys do not show the prefix."""

    __slots__ = ("db", "prefix")

    def __init__(self, db: DB, *, prefix: bytes) -> None:
        _check("prefix", prefix)
        self.db = db
        self.prefix = prefix

    def __repr__(self) -> str:
        closed = " (closed)" if self.db.closed else ""
        return f"<plyvel.PrefixedDB with prefix {self.prefix!r} of {self.db.name!r}{closed} at {hex(id(self))}>"

    def _source(self) -> tuple[DB, Optional[bytes], Optional[_cantle.Snapshot]]:
        return self.db, self.prefix, None

    @overload
    def get(self, key: bytes, default: None = None, *, verify_checksums: bool = ..., fill_cache: bool = ...) -> Optional[bytes]: ...
    @overload
    def get(self, key: bytes, default: _T, *, verify_checksums: bool = ..., fill_cache: bool = ...) -> Union[bytes, _T]: ...
    def get(self, key: bytes, default: Any = None, *, verify_checksums: bool = False, fill_cache: bool = True) -> Any:
        """As DB.get."""
        _check("key", key)
        return self.db.get(self.prefix + key, default)

    def put(self, key: bytes, value: Buffer, *, sync: Optional[bool] = False) -> None:
        """As DB.put."""
        _check("key", key)
        self.db.put(self.prefix + key, value, sync=sync)

    def delete(self, key: bytes, *, sync: Optional[bool] = False) -> None:
        """As DB.delete."""
        _check("key", key)
        self.db.delete(self.prefix + key, sync=sync)

    def write_batch(self, *, transaction: Optional[bool] = False, sync: Optional[bool] = False) -> WriteBatch:
        """As DB.write_batch."""
        return self.db._db._plyvel_batch(self.prefix, bool(transaction), _flag("sync", sync))

    def snapshot(self) -> Snapshot:
        """As DB.snapshot."""
        return Snapshot(db=self.db, prefix=self.prefix)

    def prefixed_db(self, prefix: bytes) -> PrefixedDB:
        """A view of the keys that begin with this prefix and another one."""
        _check("prefix", prefix)
        return PrefixedDB(db=self.db, prefix=self.prefix + prefix)


class Snapshot(_Reads):
    """A DB or prefixed DB as it was at one moment."""

    __slots__ = ("_db", "_prefix", "_snapshot")

    def __init__(self, db: DB, *, prefix: Optional[bytes] = None) -> None:
        db._check_open()
        self._db = db
        self._prefix = prefix
        self._snapshot = db._db.snapshot()

    def __repr__(self) -> str:
        prefix = "" if self._prefix is None else f" with prefix {self._prefix!r}"
        closed = " (closed)" if self._snapshot.closed else ""
        return f"<plyvel.Snapshot of {self._db.name!r}{prefix}{closed}>"

    def __enter__(self) -> Snapshot:
        return self

    def __exit__(self, kind: Optional[type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]) -> None:
        self.close()

    def _source(self) -> tuple[DB, Optional[bytes], Optional[_cantle.Snapshot]]:
        if self._snapshot.closed:
            raise ClosedError("Database or snapshot is closed")
        return self._db, self._prefix, self._snapshot

    def close(self) -> None:
        """Releases the snapshot."""
        self._snapshot.close()

    release = close

    @overload
    def get(self, key: bytes, default: None = None, *, verify_checksums: bool = ..., fill_cache: bool = ...) -> Optional[bytes]: ...
    @overload
    def get(self, key: bytes, default: _T, *, verify_checksums: bool = ..., fill_cache: bool = ...) -> Union[bytes, _T]: ...
    def get(self, key: bytes, default: Any = None, *, verify_checksums: bool = False, fill_cache: bool = True) -> Any:
        """The value of a key at that moment, or default."""
        _check("key", key)
        if self._prefix is not None:
            key = self._prefix + key
        return self._snapshot.get(key, default)

    def raw_iterator(self, *, verify_checksums: bool = False, fill_cache: bool = True) -> RawIterator:
        """An iterator with LevelDB's own methods."""
        self._source()
        return RawIterator(self._snapshot.cursor())


class RawIterator:
    """An iterator with LevelDB's own methods: a position, which may be at no entry."""

    __slots__ = ("__weakref__", "_cursor")

    def __init__(self, cursor: _cantle.Cursor) -> None:
        self._cursor = cursor

    def __repr__(self) -> str:
        return repr(self._cursor).replace("cantle.Cursor of keyspace 'default' of", "plyvel.RawIterator", 1)

    def __enter__(self) -> RawIterator:
        return self

    def __exit__(self, kind: Optional[type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]) -> None:
        self.close()

    def close(self) -> None:
        """Ends the iterator."""
        self._cursor.close()

    def valid(self) -> bool:
        """True if the iterator is at an entry."""
        return self._cursor.key() is not None

    def _check_valid(self) -> None:
        if self._cursor.key() is None:
            raise IteratorInvalidError()

    def seek_to_first(self) -> None:
        """Moves to the first entry."""
        self._cursor.seek_to_first()

    def seek_to_last(self) -> None:
        """Moves to the last entry."""
        self._cursor.seek_to_last()

    def seek(self, target: bytes) -> None:
        """Moves to the first entry at or after target."""
        _check("target", target)
        self._cursor.seek(target)

    def next(self) -> None:
        """Moves to the next entry."""
        self._check_valid()
        self._cursor.next()

    def prev(self) -> None:
        """Moves to the previous entry."""
        self._check_valid()
        self._cursor.prev()

    def key(self) -> bytes:
        """The key at the iterator's position."""
        key = self._cursor.key()
        if key is None:
            raise IteratorInvalidError()
        return key

    def value(self) -> bytes:
        """The value at the iterator's position."""
        value = self._cursor.value()
        if value is None:
            raise IteratorInvalidError()
        return value

    def item(self) -> tuple[bytes, bytes]:
        """The key and the value at the iterator's position."""
        item = self._cursor.item()
        if item is None:
            raise IteratorInvalidError()
        return item


def _property(db: _cantle.DB, name: bytes) -> Optional[bytes]:
    """A property of LevelDB. The store's only level is reported as level 0."""
    level = re.fullmatch(rb"leveldb\.num-files-at-level(\d+)", name)
    if level:
        if int(level[1]) > 6:
            return None
        files = sum(chunk["tables"] for chunk in db.regions()) if int(level[1]) == 0 else 0
        return b"%d" % files
    if name == b"leveldb.approximate-memory-usage":
        return b"%d" % db.stats()["memory_used"]
    if name == b"leveldb.sstables":
        lines = ["--- level 0 ---"]
        for chunk in db.regions():
            start = chunk["start"]
            lines.append(f" {start!r}: {chunk['tables']} tables of {chunk['table_bytes']} bytes, logs of {chunk['log_bytes']} bytes")
        return "".join(line + "\n" for line in lines).encode()
    if name == b"leveldb.stats":
        stats = db.stats()
        own = next(keyspace for keyspace in stats["keyspaces"] if keyspace["name"] == "default")
        counters = ("regions", "live_bytes", "table_bytes", "log_bytes", "rebalances", "splits", "merges", "table_bytes_written", "log_bytes_written")
        lines = ["                               Cantle", "Counter                        Value", "-" * 50]
        lines += [f"{counter:<30} {own[counter]}" for counter in counters if counter in own]
        return "".join(line + "\n" for line in lines).encode()
    return None


def repair_db(
    name: Union[str, bytes],
    *,
    paranoid_checks: Optional[bool] = None,
    write_buffer_size: Optional[int] = None,
    max_open_files: Optional[int] = None,
    lru_cache_size: Optional[int] = None,
    block_size: Optional[int] = None,
    block_restart_interval: Optional[int] = None,
    max_file_size: Optional[int] = None,
    compression: Optional[Union[str, bytes]] = "snappy",
    bloom_filter_bits: int = 0,
    comparator: Optional[_COMPARATOR] = None,
    comparator_name: Optional[bytes] = None,
) -> None:
    """Repairs a store in place. If anything was lost, the damaged store stays beside it, with
    ".damaged" appended to its name. A path without a store becomes an empty store.

    The new store is built beside the old one, with ".repairing" appended to its name; that path
    must not exist.
    """
    path = _path(name)
    options = _options(
        paranoid_checks,
        write_buffer_size,
        max_open_files,
        lru_cache_size,
        block_size,
        block_restart_interval,
        max_file_size,
        compression,
        bloom_filter_bits,
        comparator,
        comparator_name,
    )
    _cantle.repair_in_place(path, **options)


def destroy_db(name: Union[str, bytes]) -> None:
    """Removes a store with all its data. Files that do not belong to the store stay, and their
    directory with them."""
    path = _path(name)
    _destroy(path)
    try:
        os.rmdir(path)
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.ENOTEMPTY):
            raise
