"""The types of a keyspace, kept in its metadata as Rust's typed keyspaces keep theirs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Optional

from ._errors import InvalidArgumentError, OptionMismatchError, ReadOnlyError

if TYPE_CHECKING:
    from ._cantle import Keyspace
    from ._codecs import Types

#: Types that the command has columns for.
_COLUMNS = {"text": "text", "int": "int", "float": "float", "time": "time", "date": "time"}


def agree(keyspace: Keyspace, types: Types) -> None:
    """Compares the types with those of the keyspace, and records them if it has none."""
    if keyspace.comparator != "cantle.bytewise":
        raise _mismatch(keyspace.name, "comparator", keyspace.comparator, "cantle.bytewise")
    while True:
        stored = keyspace.metadata
        document = _adopted(keyspace, types, stored)
        if document is None:
            return
        new = json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()
        try:
            if keyspace.compare_and_swap_metadata(stored, new):
                return
        except ReadOnlyError:
            # Nothing is written, so nothing has to agree with it later.
            return
        # Another opening was faster: its types count.


def _adopted(keyspace: Keyspace, types: Types, stored: bytes) -> Optional[dict[str, Any]]:
    """The metadata that the keyspace is to have, if it has others that allow for the types."""
    name = keyspace.name
    if not stored:
        if next(keyspace.range(limit=1), None) is not None:
            raise _foreign(name, "it has pairs without types: copy them into one that has types")
        columns = [[f"key{number}", column] for number, column in enumerate(_columns(types), 1)]
        known = all(column for _, column in columns)
        return {"cantle": 1, "key": columns if known else [], "value": _form(types), "types": _types(types)}
    try:
        document: dict[str, Any] = json.loads(stored)
        version = document["cantle"]
    except (ValueError, KeyError, TypeError):
        raise _foreign(name, "its metadata are those of another program") from None
    if version != 1:
        raise _foreign(name, f"its types are described in version {version}, and this library reads version 1: use a newer one")
    try:
        recorded = document.get("types")
        if recorded is None:
            _compare_columns(name, types, document)
            return {**document, "types": _types(types)}
        found = (", ".join(recorded["key"]), recorded["codec"], recorded["value"])
    except (KeyError, TypeError, IndexError):
        raise _foreign(name, "its metadata are those of another program") from None
    _compare(name, "key types", found[0], ", ".join(types.key.names))
    _compare(name, "value encoding", found[1], types.codec)
    # JSON of any type is read as what it is.
    if types.codec != "json":
        _compare(name, "value type", found[2], types.value_type)
    return None


def _columns(types: Types) -> list[Optional[str]]:
    """The command's types of the key's parts."""
    return [_COLUMNS.get(name.rstrip("?")) for name in types.key.names]


def _compare_columns(name: str, types: Types, document: Any) -> None:
    columns = [column[1] for column in document["key"]]
    if not columns or columns != _columns(types):
        raise _mismatch(name, "key types", ", ".join(columns) or "bytes", ", ".join(types.key.names))
    value = document["value"]
    _compare(name, "value encoding", value if isinstance(value, str) else "csv", _form(types))


def _compare(name: str, option: str, stored: str, given: str) -> None:
    if stored != given:
        raise _mismatch(name, option, stored, given)


def _form(types: Types) -> str:
    """The command's name of the values' form."""
    return "json" if types.codec == "json" else "raw"


def _types(types: Types) -> dict[str, Any]:
    return {"key": types.key.names, "value": types.value_type, "codec": types.codec}


def _mismatch(name: str, option: str, stored: str, given: str) -> OptionMismatchError:
    message = f"keyspace {name!r} was created with {option} {stored!r}, not {given!r}: open it with that, or copy it"
    error = OptionMismatchError(message)
    error.keyspace, error.option, error.stored, error.given = name, option, stored, given
    return error


def _foreign(name: str, what: str) -> InvalidArgumentError:
    return InvalidArgumentError(f"keyspace {name!r} cannot be opened with types: {what}")
