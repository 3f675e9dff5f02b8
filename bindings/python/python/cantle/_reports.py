"""Reports of verify(), repair() and import_leveldb()."""

import builtins
from dataclasses import dataclass
from pathlib import Path
from typing import Optional

from ._errors import Error


@dataclass(frozen=True)
class VerifyReport:
    """Result of DB.verify()."""

    #: Files, bytes and entries read.
    files: int
    bytes: int
    entries: int
    #: Each damage with its file and offset.
    damage: list[Error]
    #: Files in the directory that do not belong to the store; harmless.
    unknown_files: list[Path]

    @property
    def ok(self) -> bool:
        """True if nothing is damaged."""
        return not self.damage


@dataclass(frozen=True)
class RepairedKeyspace:
    """One keyspace of a repaired store: its pairs, and the bytes of their keys and values."""

    name: str
    pairs: int
    bytes: int


@dataclass(frozen=True)
class LeftOut:
    """A file that a repair left out, the reason, and loses: True if pairs of the file may be
    missing now."""

    path: Path
    why: str
    loses: bool


@dataclass(frozen=True)
class UncertainKeys:
    """A range of keys, first and last, that may have lost their newest versions to damage at path
    and offset."""

    keyspace: str
    keys: tuple[Optional[bytes], Optional[bytes]]
    path: Path
    offset: int


@dataclass(frozen=True)
class ReturnedKeys:
    """A range of keys, first and last, in which the file at path may bring back deleted pairs."""

    keyspace: str
    keys: tuple[Optional[bytes], Optional[bytes]]
    path: Path


@dataclass(frozen=True)
class RepairReport:
    """Result of repair(): the pairs that were saved, and the damage."""

    #: Each keyspace of the new store.
    keyspaces: list[RepairedKeyspace]
    #: Files and bytes read.
    files: int
    bytes: int
    #: The damaged places, and the number of places beyond the list.
    damage: list[Error]
    damage_untold: int
    #: Files that were left out.
    left_out: list[LeftOut]
    #: Keys that may have lost their newest version, and the number of ranges beyond the list.
    uncertain: list[UncertainKeys]
    uncertain_untold: int
    #: Files that may bring back deleted pairs, and the number of ranges beyond the list.
    may_return: list[ReturnedKeys]
    may_return_untold: int
    #: Remarks on the new store.
    notes: list[str]
    #: True if the new store has everything that the old one had.
    ok: bool

    @property
    def pairs(self) -> int:
        """Pairs saved in all keyspaces."""
        return sum(keyspace.pairs for keyspace in self.keyspaces)


@dataclass(frozen=True)
class ImportDamage:
    """A damaged place in an imported store, and the keys that it may concern, if they are known."""

    path: Path
    offset: int
    what: str
    keys: Optional[tuple[builtins.bytes, builtins.bytes]]


@dataclass(frozen=True)
class ImportReport:
    """Result of import_leveldb(): the pairs that were copied, and the damage."""

    #: Pairs, and the bytes of their keys and values.
    pairs: int
    bytes: int
    #: Tables and logs of the store, and the bytes read from both.
    tables: int
    logs: int
    read_bytes: int
    #: Files whose last record is incomplete because its writer died. This is no damage.
    torn: list[ImportDamage]
    #: Places that skip_damaged left out, and the number of places beyond the list.
    lost: list[ImportDamage]
    lost_untold: int

    @property
    def ok(self) -> bool:
        """True if everything was copied."""
        return not self.lost
