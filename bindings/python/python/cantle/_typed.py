"""Keyspaces whose keys and values are Python's types, and views of them in snapshots, transactions and batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Callable, Literal, Optional, Union

from ._codecs import Types
from ._errors import Error, InvalidArgumentError, WrongTypeError
from ._schema import agree
from .types import Durability

if TYPE_CHECKING:
    from ._cantle import DB, Keyspace, Snapshot, Transaction, WriteBatch


class _Reads:
    """Operations that keyspaces, snapshots and transactions share."""

    _types: Types
    _bytes: Union[Keyspace, Snapshot, Transaction]

    @property
    def name(self) -> str:
        """The name of the keyspace."""
        return self._types.name

    def __repr__(self) -> str:
        types = self._types
        return f"<{type(self).__name__} {types.name!r} of {', '.join(types.key.names)}: {types.value_type}>"

    def get(self, key: Any, default: Any = None) -> Any:
        """The key's value, or default."""
        data = self._types.key.encode(key)
        value = self._bytes.get(data)
        return default if value is None else self._types.read_value(data, value)

    def get_many(self, keys: Iterable[Any], errors: Literal["raise", "return"] = "raise") -> list[Any]:
        """The values of many keys, as a list in the order of the keys and as of one moment; None for a key that is absent. errors
        is that of Keyspace.get_many. A stored value of another type is an error of its key, WrongTypeError."""
        if errors not in ("raise", "return"):
            raise InvalidArgumentError(f'errors is "raise" or "return", not "{errors}"')
        data = [self._types.key.encode(key) for key in keys]
        values = [self._read_found(key, found) for key, found in zip(data, self._bytes.get_many(data, "return"))]
        if errors == "raise":
            for value in values:
                if isinstance(value, Error):
                    raise value
        return values

    def _read_found(self, key: bytes, found: Union[bytes, Error, None]) -> Any:
        if not isinstance(found, bytes):
            return found
        try:
            return self._types.read_value(key, found)
        except WrongTypeError as error:
            return error

    def __getitem__(self, key: Any) -> Any:
        data = self._types.key.encode(key)
        value = self._bytes.get(data)
        if value is None:
            raise KeyError(key)
        return self._types.read_value(data, value)

    def __contains__(self, key: Any) -> bool:
        return self._types.key.encode(key) in self._bytes

    def __iter__(self) -> Iterator[Any]:
        return (key for key, _ in self.items())

    def items(self) -> Iterator[tuple[Any, Any]]:
        """All pairs, in order, as they are at this moment, or as the snapshot or transaction sees them."""
        return self.range()

    def range(
        self,
        start: Any = None,
        stop: Any = None,
        *,
        prefix: Optional[tuple[Any, ...]] = None,
        reverse: bool = False,
        limit: Optional[int] = None,
        include_start: bool = True,
        include_stop: bool = False,
    ) -> Iterator[tuple[Any, Any]]:
        """The pairs between two keys, in order, as in items(). Leading parts of a key, as a tuple, stand for all keys that begin
        with them; so does prefix."""
        bounds = self._types.bounds(start, stop, include_start, include_stop)
        if prefix is not None:
            self._types.key.encode_leading(prefix)
            prefix = prefix if isinstance(prefix, tuple) else (prefix,)
        found = self._bytes.range(
            bounds[0],
            bounds[1],
            prefix=prefix,
            reverse=reverse,
            limit=limit,
            include_start=bounds[2],
            include_stop=bounds[3],
        )
        return (self._types.read(key, value) for key, value in found)

    def first(self) -> Optional[tuple[Any, Any]]:
        """The first pair, or None."""
        return self._read_pair(self._bytes.first())

    def last(self) -> Optional[tuple[Any, Any]]:
        """The last pair, or None."""
        return self._read_pair(self._bytes.last())

    def _read_pair(self, pair: Optional[tuple[bytes, bytes]]) -> Optional[tuple[Any, Any]]:
        return None if pair is None else self._types.read(*pair)


class _Writes:
    """Operations that keyspaces, transactions and batches share."""

    _types: Types
    _bytes: Union[Keyspace, Transaction, WriteBatch]

    def put(self, key: Any, value: Any) -> None:
        """Stores a pair, replacing the key's value."""
        self._bytes.put(self._types.key.encode(key), self._types.encode_value(value))

    def delete(self, key: Any) -> None:
        """Removes the key, if it is there."""
        self._bytes.delete(self._types.key.encode(key))

    def delete_range(self, start: Any = None, stop: Any = None) -> None:
        """Removes every key from start to stop, atomically. stop is excluded. Leading parts of a key bound the range as in range()."""
        start, stop, _, _ = self._types.bounds(start, stop, True, False)
        self._bytes.delete_range(start, stop)

    def __setitem__(self, key: Any, value: Any) -> None:
        self.put(key, value)

    def __delitem__(self, key: Any) -> None:
        try:
            del self._bytes[self._types.key.encode(key)]
        except KeyError:
            raise KeyError(key) from None


class _Swaps:
    """Writes that depend on the stored value, which keyspaces and transactions share."""

    _types: Types
    _bytes: Union[Keyspace, Transaction]

    def insert_if_absent(self, key: Any, value: Any) -> bool:
        """Stores a pair unless the key has a value, atomically. Returns True if the pair was stored."""
        return self._bytes.insert_if_absent(self._types.key.encode(key), self._types.encode_value(value))

    def compare_and_swap(self, key: Any, expected: Any, new: Any) -> bool:
        """Replaces the key's value by new if the value is expected, atomically. None stands for no value. Values are compared by
        their encodings. Returns True if the value was replaced."""
        types = self._types
        return self._bytes.compare_and_swap(types.key.encode(key), types.encode_optional(expected), types.encode_optional(new))


class TypedKeyspace(_Reads, _Writes, _Swaps):
    """A keyspace with types of keys and values, made by DB.typed. It has no state of its own.

    >>> import cantle, tempfile
    >>> from datetime import datetime, timezone
    >>> db = cantle.open(tempfile.mkdtemp() + "/flights")
    >>> flights = db.typed("flights", (str, datetime, int), str)
    >>> flights["UA", datetime(2013, 7, 4, 10, tzinfo=timezone.utc), 1545] = "delayed"
    >>> [(key[2], status) for key, status in flights.range(prefix=("UA",))]
    [(1545, 'delayed')]
    >>> with db.transaction() as tx:
    ...     tx.typed(flights).pop_first()[1]
    'delayed'
    >>> db.close()
    """

    _bytes: Keyspace

    def __init__(self, keyspace: Keyspace, key: Any, value: Any) -> None:
        self._bytes = keyspace
        self._types = Types(keyspace.name, key, value)
        agree(keyspace, self._types)

    @property
    def keyspace(self) -> Keyspace:
        """The keyspace itself, with keys and values in bytes."""
        return self._bytes

    def put(self, key: Any, value: Any, *, durability: Optional[Durability] = None) -> None:
        """Stores a pair, replacing the key's value."""
        self._bytes.put(self._types.key.encode(key), self._types.encode_value(value), durability=durability)

    def delete(self, key: Any, *, durability: Optional[Durability] = None) -> None:
        """Removes the key, if it is there."""
        self._bytes.delete(self._types.key.encode(key), durability=durability)

    def update(self, key: Any, change: Callable[[Any], Any]) -> Any:
        """Replaces the key's value (None if there is none) by what change makes of it, atomically; None deletes it. Returns the new
        value. change may run several times."""
        data = self._types.key.encode(key)

        def changed(old: Optional[bytes]) -> Optional[bytes]:
            return self._types.encode_optional(change(None if old is None else self._types.read_value(data, old)))

        new = self._bytes.update(data, changed)
        return None if new is None else self._types.read_value(data, new)

    def pop_first(self) -> Optional[tuple[Any, Any]]:
        """Removes the first pair and returns it, atomically, or None. Each pair is returned to one caller only. A pair of other
        types raises WrongTypeError, and stays."""
        return self._bytes.transact(lambda tx: TypedTransaction(tx, self).pop_first())

    def pop_last(self) -> Optional[tuple[Any, Any]]:
        """As pop_first(), for the last pair."""
        return self._bytes.transact(lambda tx: TypedTransaction(tx, self).pop_last())


def _check(typed: Any) -> None:
    if not isinstance(typed, TypedKeyspace):
        raise TypeError(f"typed takes a TypedKeyspace, as DB.typed makes it, not {typed!r}")


class TypedSnapshot(_Reads):
    """A typed keyspace as a snapshot sees it, made by Snapshot.typed."""

    def __init__(self, snapshot: Snapshot, typed: TypedKeyspace) -> None:
        _check(typed)
        self._bytes = snapshot.keyspace(typed.keyspace)
        self._types = typed._types


class TypedTransaction(_Reads, _Writes, _Swaps):
    """A typed keyspace as a transaction sees and changes it, made by Transaction.typed."""

    _bytes: Transaction

    def __init__(self, transaction: Transaction, typed: TypedKeyspace) -> None:
        _check(typed)
        self._bytes = transaction.keyspace(typed.keyspace)
        self._types = typed._types

    def pop_first(self) -> Optional[tuple[Any, Any]]:
        """Removes the first pair when the transaction is committed, and returns it, or None. Every key up to that one counts as
        read. A pair of other types raises WrongTypeError, and stays."""
        return self._pop(self._bytes.first())

    def pop_last(self) -> Optional[tuple[Any, Any]]:
        """As pop_first(), for the last pair."""
        return self._pop(self._bytes.last())

    def _pop(self, pair: Optional[tuple[bytes, bytes]]) -> Optional[tuple[Any, Any]]:
        typed = self._read_pair(pair)
        if pair is not None:
            self._bytes.delete(pair[0])
        return typed


class TypedBatch(_Writes):
    """A typed keyspace as a batch writes to it, made by WriteBatch.typed."""

    def __init__(self, batch: WriteBatch, typed: TypedKeyspace) -> None:
        _check(typed)
        self._bytes = batch.keyspace(typed.keyspace)
        self._types = typed._types


def typed(db: DB, name: str, key: Any, value: Any) -> TypedKeyspace:
    """For DB.typed."""
    return TypedKeyspace(db.keyspace(name), key, value)
