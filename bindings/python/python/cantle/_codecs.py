"""Keys and values of Python's types as bytes, and the names of the types."""

from __future__ import annotations

import json
from datetime import date, datetime
from typing import Any, Callable, Optional, Union, get_args, get_origin
from uuid import UUID

from ._cantle import decode_key, encode_key
from ._errors import InvalidArgumentError, WrongTypeError
from ._keys import Float32

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


class Types:
    """The types of one keyspace's keys and values."""

    def __init__(self, name: str, key: Any, value: Any) -> None:
        self.name = name
        self.key = _Parts(key, "the key")
        self.codec, self.value_type, self.encode_value, self._decode_value = _value_codec(value)

    def encode_optional(self, value: Any) -> Optional[bytes]:
        """The bytes of a value, where None stands for no value."""
        return None if value is None else self.encode_value(value)

    def bounds(
        self, start: Any, stop: Any, include_start: bool, include_stop: bool
    ) -> tuple[Optional[bytes], Optional[bytes], bool, bool]:
        """The bounds in bytes. Leading parts stand for all keys that begin with them."""
        if start is not None:
            start, is_whole = self.key.encode_leading(start)
            if not include_start and not is_whole:
                start, include_start = start + b"\xff", True
        if stop is not None:
            stop, is_whole = self.key.encode_leading(stop)
            if include_stop and not is_whole:
                stop, include_stop = stop + b"\xff", False
        return start, stop, include_start, include_stop

    def read(self, key: bytes, value: bytes) -> tuple[Any, Any]:
        """The pair of these bytes; raises WrongTypeError if they are no such pair."""
        try:
            typed = self.key.decode(key)
        except InvalidArgumentError as error:
            raise self._wrong_type(key, f"the key {_shown(key)}: {error}") from error
        return typed, self.read_value(key, value)

    def read_value(self, key: bytes, value: bytes) -> Any:
        """The value of these bytes; raises WrongTypeError if they are no such value."""
        try:
            return self._decode_value(value)
        except (InvalidArgumentError, ValueError) as error:
            what = f"the value of the key {_shown(key)} is not of the type {self.value_type}: {error}"
            raise self._wrong_type(key, what) from error

    def _wrong_type(self, key: bytes, what: str) -> WrongTypeError:
        error = WrongTypeError(f"keyspace {self.name!r}: {what}")
        error.keyspace, error.key = self.name, key
        return error


def _shown(key: bytes) -> str:
    try:
        return repr(decode_key(key))
    except InvalidArgumentError:
        return repr(key[:32])
