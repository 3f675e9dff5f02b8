"""What verify() and repair() tell."""

import builtins
from dataclasses import dataclass
from pathlib import Path
from typing import Optional

from ._errors import Error


@dataclass(frozen=True)
class VerifyReport:
    """What DB.verify found."""

    #: Files, bytes and entries read.
    files: int
    bytes: int
    entries: int
    #: Each damage with its file and offset.
    damage: list[Error]
    #: Files in the directory that the store does not know; harmless.
    unknown_files: list[Path]

    @property
    def ok(self) -> bool:
        """Whether nothing is damaged."""
        return not self.damage


@dataclass(frozen=True)
class RepairedKeyspace:
    """One keyspace of a repaired store: its pairs, and the bytes of their keys and values."""

    name: str
    pairs: int
    bytes: int


@dataclass(frozen=True)
class LeftOut:
    """A file of which a repair took nothing, why, and whether it may have held pairs that are missing now."""

    path: Path
    why: str
    loses: bool


@dataclass(frozen=True)
class UncertainKeys:
    """A range of keys, from and to, of which damage may have taken the newest versions."""

    keyspace: str
    keys: tuple[Optional[bytes], Optional[bytes]]
    path: Path
    offset: int


@dataclass(frozen=True)
class RepairReport:
    """What repair() saved, and what it could not."""

    #: Each keyspace of the new store.
    keyspaces: list[RepairedKeyspace]
    #: Files and bytes read.
    files: int
    bytes: int
    #: Each damaged place, and how many more there are than the list holds.
    damage: list[Error]
    damage_untold: int
    #: Files of which nothing was taken.
    left_out: list[LeftOut]
    #: Keys of which the newest version may be lost, and how many ranges more there are than the list holds.
    uncertain: list[UncertainKeys]
    uncertain_untold: int
    #: What else is to be known of the new store.
    notes: list[str]
    #: Whether the new store has everything that the old one had.
    ok: bool

    @property
    def pairs(self) -> int:
        """Pairs saved in all keyspaces."""
        return sum(keyspace.pairs for keyspace in self.keyspaces)


@dataclass(frozen=True)
class ImportDamage:
    """Bytes of an imported store that are not what was written, and the keys that they may concern, where that is known."""

    path: Path
    offset: int
    what: str
    keys: Optional[tuple[builtins.bytes, builtins.bytes]]


@dataclass(frozen=True)
class ImportReport:
    """What import_leveldb() copied, and what it could not."""

    #: Pairs, and the bytes of their keys and values.
    pairs: int
    bytes: int
    #: Tables of the store, logs that were not in tables yet, and the bytes read of both.
    tables: int
    logs: int
    read_bytes: int
    #: Files whose last record was not written to its end, as its writer died. No damage.
    torn: list[ImportDamage]
    #: What skip_damaged left out, and how many more places there are than the list holds.
    lost: list[ImportDamage]
    lost_untold: int

    @property
    def ok(self) -> bool:
        """Whether everything was copied."""
        return not self.lost
