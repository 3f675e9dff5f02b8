"""Keyspaces whose keys and values are Python's types. The types are kept in the keyspace's metadata, as those of Rust's typed keyspaces are."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import date, datetime
from typing import TYPE_CHECKING, Any, Callable, Optional, Union, get_args, get_origin
from uuid import UUID

from ._cantle import decode_key, encode_key
from ._errors import InvalidArgumentError, OptionMismatchError, ReadOnlyError, WrongTypeError
from ._keys import Float32
from .types import Durability

if TYPE_CHECKING:
    from ._cantle import DB, Keyspace

_NAMES = {
    object: "any",
    bytes: "bytes",
    str: "text",
    int: "int",
    float: "float",
    Float32: "float32",
    bool: "bool",
    UUID: "uuid",
    datetime: "time",
    date: "date",
}
#: Types that the command has columns for.
_COLUMNS = {"text": "text", "int": "int", "float": "float", "time": "time", "date": "time"}


def _optional(kind: Any) -> tuple[Any, bool]:
    """The type within an Optional, and whether it was one."""
    arguments = get_args(kind)
    if type(None) not in arguments or (get_origin(kind) is not Union and type(kind).__name__ != "UnionType"):
        return kind, False
    others = tuple(argument for argument in arguments if argument is not type(None))
    return (others[0], True) if len(others) == 1 else (kind, False)


def _name(kind: Any) -> str:
    kind, may_be_none = _optional(kind)
    if isinstance(kind, tuple):
        name = f"({', '.join(map(_name, kind))})"
    elif isinstance(kind, type) and kind in _NAMES:
        name = _NAMES[kind]
    else:
        types = ", ".join(known.__name__ for known in _NAMES)
        raise TypeError(f"a type of a key or value is {types}, an Optional or a tuple of these, not {kind!r}")
    return name + "?" * may_be_none


def _bare(kind: Any) -> Any:
    """The type as decode_key takes it."""
    kind, _ = _optional(kind)
    return tuple(map(_bare, kind)) if isinstance(kind, tuple) else kind


def _check(value: Any, kind: Any, where: str) -> None:
    """Raises TypeError for a value that is not of the type."""
    kind, may_be_none = _optional(kind)
    if kind is object or (value is None and may_be_none):
        return
    if isinstance(kind, tuple):
        if not isinstance(value, (tuple, list)) or len(value) != len(kind):
            raise TypeError(f"{where} is a tuple of {len(kind)} parts, not {value!r}")
        for number, (part, expected) in enumerate(zip(value, kind), 1):
            _check(part, expected, f"part {number} of {where}")
        return
    # Booleans are integers, times are dates and 32-bit floats are floats, but other parts of keys.
    narrower = {int: bool, date: datetime, float: Float32}.get(kind)
    if not isinstance(value, kind) or (narrower is not None and isinstance(value, narrower)):
        raise TypeError(f"{where} is {kind.__name__}, not {value!r}")


def _check_read(value: Any, kind: Any) -> None:
    """Raises InvalidArgumentError for a None where there may be none; other types were checked by decode_key."""
    kind, may_be_none = _optional(kind)
    if value is None and not may_be_none and kind is not object:
        raise InvalidArgumentError(f"a part is None and not of the type {kind if isinstance(kind, tuple) else kind.__name__}")
    if isinstance(kind, tuple) and value is not None:
        for part, expected in zip(value, kind):
            _check_read(part, expected)


class _Parts:
    """A key, or a value that is encoded as one: a tuple of parts, or a single part."""

    def __init__(self, kind: Any, what: str) -> None:
        bare, _ = _optional(kind)
        self.is_tuple = isinstance(bare, tuple) and bare is kind
        self.kinds = kind if self.is_tuple else (kind,)
        self.names = list(map(_name, self.kinds))
        self.name = _name(kind)
        self._bare = tuple(map(_bare, self.kinds))
        self._what = what

    def encode(self, value: Any) -> bytes:
        _check(value, self.kinds if self.is_tuple else self.kinds[0], self._what)
        return encode_key(tuple(value) if self.is_tuple else (value,))

    def encode_leading(self, parts: Any) -> tuple[bytes, bool]:
        """The bytes of a key or of leading parts, and whether it is whole."""
        if not self.is_tuple or not isinstance(parts, tuple) or len(parts) >= len(self.kinds):
            return self.encode(parts), True
        _check(parts, self.kinds[: len(parts)], self._what)
        return encode_key(parts), False

    def decode(self, data: bytes) -> Any:
        parts = decode_key(data, self._bare)
        _check_read(parts, self.kinds)
        return parts if self.is_tuple else parts[0]


def _encode_json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def _encode_bytes(value: Any) -> bytes:
    _check(value, bytes, "the value")
    return bytes(value)


def _encode_text(value: Any) -> bytes:
    _check(value, str, "the value")
    return str(value).encode()


def _value_codec(kind: Any) -> tuple[str, str, Callable[[Any], bytes], Callable[[bytes], Any]]:
    """The name of the encoding, that of the type, and both directions."""
    if kind == "json":
        return "json", "any", _encode_json, json.loads
    if kind is bytes:
        return "raw", "bytes", _encode_bytes, bytes
    if kind is str:
        return "utf-8", "text", _encode_text, bytes.decode
    parts = _Parts(kind, "the value")
    return "key", parts.name, parts.encode, parts.decode


class TypedKeyspace:
    """A keyspace with types of keys and values, made by DB.typed. It has no state of its own.

    >>> import cantle, tempfile
    >>> from datetime import datetime, timezone
    >>> db = cantle.open(tempfile.mkdtemp() + "/flights")
    >>> flights = db.typed("flights", (str, datetime, int), str)
    >>> flights["UA", datetime(2013, 7, 4, 10, tzinfo=timezone.utc), 1545] = "delayed"
    >>> [(key[2], status) for key, status in flights.range(prefix=("UA",))]
    [(1545, 'delayed')]
    >>> db.close()
    """

    def __init__(self, keyspace: Keyspace, key: Any, value: Any) -> None:
        self._keyspace = keyspace
        self._key = _Parts(key, "the key")
        self._codec, self._value_type, self._encode, self._decode = _value_codec(value)
        self._agree()

    @property
    def keyspace(self) -> Keyspace:
        """The keyspace itself, with keys and values in bytes."""
        return self._keyspace

    @property
    def name(self) -> str:
        """Its name."""
        return self._keyspace.name

    def __repr__(self) -> str:
        return f"<TypedKeyspace {self.name!r} of {', '.join(self._key.names)}: {self._value_type}>"

    def get(self, key: Any, default: Any = None) -> Any:
        """The key's value, or default."""
        data = self._key.encode(key)
        value = self._keyspace.get(data)
        return default if value is None else self._read_value(data, value)

    def put(self, key: Any, value: Any, *, durability: Optional[Durability] = None) -> None:
        """Stores a pair, replacing the key's value."""
        self._keyspace.put(self._key.encode(key), self._encode(value), durability=durability)

    def delete(self, key: Any, *, durability: Optional[Durability] = None) -> None:
        """Removes the key, if it is there."""
        self._keyspace.delete(self._key.encode(key), durability=durability)

    def update(self, key: Any, change: Callable[[Any], Any]) -> Any:
        """Replaces the key's value (None if there is none) by what change makes of it, atomically; None deletes it. Returns the new
        value. change may run several times."""
        data = self._key.encode(key)

        def changed(old: Optional[bytes]) -> Optional[bytes]:
            new = change(None if old is None else self._read_value(data, old))
            return None if new is None else self._encode(new)

        new = self._keyspace.update(data, changed)
        return None if new is None else self._decode(new)

    def __getitem__(self, key: Any) -> Any:
        data = self._key.encode(key)
        value = self._keyspace.get(data)
        if value is None:
            raise KeyError(key)
        return self._read_value(data, value)

    def __setitem__(self, key: Any, value: Any) -> None:
        self.put(key, value)

    def __delitem__(self, key: Any) -> None:
        try:
            del self._keyspace[self._key.encode(key)]
        except KeyError:
            raise KeyError(key) from None

    def __contains__(self, key: Any) -> bool:
        return self._key.encode(key) in self._keyspace

    def __iter__(self) -> Iterator[Any]:
        return (key for key, _ in self.items())

    def items(self) -> Iterator[tuple[Any, Any]]:
        """All pairs, in order, as of now."""
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
        """The pairs between two keys, in order, as of now. Leading parts of a key, as a tuple, stand for all keys that begin with
        them; so does prefix."""
        if start is not None:
            start, is_whole = self._key.encode_leading(start)
            if not include_start and not is_whole:
                start, include_start = start + b"\xff", True
        if stop is not None:
            stop, is_whole = self._key.encode_leading(stop)
            if include_stop and not is_whole:
                stop, include_stop = stop + b"\xff", False
        if prefix is not None:
            self._key.encode_leading(prefix)
            prefix = prefix if isinstance(prefix, tuple) else (prefix,)
        found = self._keyspace.range(
            start,
            stop,
            prefix=prefix,
            reverse=reverse,
            limit=limit,
            include_start=include_start,
            include_stop=include_stop,
        )
        return (self._read(key, value) for key, value in found)

    def first(self) -> Optional[tuple[Any, Any]]:
        """The first pair, or None."""
        return next(self.range(limit=1), None)

    def last(self) -> Optional[tuple[Any, Any]]:
        """The last pair, or None."""
        return next(self.range(limit=1, reverse=True), None)

    def _read(self, key: bytes, value: bytes) -> tuple[Any, Any]:
        try:
            typed = self._key.decode(key)
        except InvalidArgumentError as error:
            raise self._wrong_type(key, f"the key {_shown(key)}: {error}") from error
        return typed, self._read_value(key, value)

    def _read_value(self, key: bytes, value: bytes) -> Any:
        try:
            return self._decode(value)
        except (InvalidArgumentError, ValueError) as error:
            what = f"the value of the key {_shown(key)} is not of the type {self._value_type}: {error}"
            raise self._wrong_type(key, what) from error

    def _wrong_type(self, key: bytes, what: str) -> WrongTypeError:
        error = WrongTypeError(f"keyspace {self.name!r}: {what}")
        error.keyspace, error.key = self.name, key
        return error

    def _agree(self) -> None:
        """Compares the types with those of the keyspace, and records them if it has none."""
        if self._keyspace.comparator != "cantle.bytewise":
            raise self._mismatch("comparator", self._keyspace.comparator, "cantle.bytewise")
        stored = self._keyspace.metadata
        if not stored:
            if next(self._keyspace.range(limit=1), None) is not None:
                raise self._foreign("it has pairs without types: copy them into one that has types")
            names = [name.rstrip("?") for name in self._key.names]
            columns = [[f"key{number}", _COLUMNS.get(name)] for number, name in enumerate(names, 1)]
            known = all(column for _, column in columns)
            document = {"cantle": 1, "key": columns if known else [], "value": self._form(), "types": self._types()}
            self._record(document)
            return
        try:
            document = json.loads(stored)
            version = document["cantle"]
        except (ValueError, KeyError, TypeError):
            raise self._foreign("its metadata are those of another program") from None
        if version != 1:
            raise self._foreign(f"its types are described in version {version}, and this library reads version 1: use a newer one")
        try:
            types = document.get("types")
            if types is None:
                self._compare_columns(document)
                document["types"] = self._types()
                self._record(document)
                return
            found = (", ".join(types["key"]), types["codec"], types["value"])
        except (KeyError, TypeError, IndexError):
            raise self._foreign("its metadata are those of another program") from None
        self._compare("key types", found[0], ", ".join(self._key.names))
        self._compare("value encoding", found[1], self._codec)
        # JSON of any type is read as what it is.
        if self._codec != "json":
            self._compare("value type", found[2], self._value_type)

    def _compare_columns(self, document: Any) -> None:
        columns = [column[1] for column in document["key"]]
        ours = [_COLUMNS.get(name.rstrip("?")) for name in self._key.names]
        if not columns or columns != ours:
            raise self._mismatch("key types", ", ".join(columns) or "bytes", ", ".join(self._key.names))
        value = document["value"]
        self._compare("value encoding", value if isinstance(value, str) else "csv", self._form())

    def _compare(self, option: str, stored: str, given: str) -> None:
        if stored != given:
            raise self._mismatch(option, stored, given)

    def _form(self) -> str:
        """The command's name of the values' form."""
        return "json" if self._codec == "json" else "raw"

    def _types(self) -> dict[str, Any]:
        return {"key": self._key.names, "value": self._value_type, "codec": self._codec}

    def _record(self, document: Any) -> None:
        try:
            self._keyspace.metadata = json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()
        except ReadOnlyError:
            # Nothing is written, so nothing has to agree with it later.
            pass

    def _mismatch(self, option: str, stored: str, given: str) -> OptionMismatchError:
        message = f"keyspace {self.name!r} was created with {option} {stored!r}, not {given!r}: open it with that, or copy it"
        error = OptionMismatchError(message)
        error.keyspace, error.option, error.stored, error.given = self.name, option, stored, given
        return error

    def _foreign(self, what: str) -> InvalidArgumentError:
        return InvalidArgumentError(f"keyspace {self.name!r} cannot be opened with types: {what}")


def _shown(key: bytes) -> str:
    try:
        return repr(decode_key(key))
    except InvalidArgumentError:
        return repr(key[:32])


def typed(db: DB, name: str, key: Any, value: Any) -> TypedKeyspace:
    """For DB.typed."""
    return TypedKeyspace(db.keyspace(name), key, value)
