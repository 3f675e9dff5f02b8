"""The exceptions: one class for each kind of error that a caller can react to."""

from pathlib import Path
from typing import Optional


class Error(Exception):
    """The base of all errors of the store."""


class _SystemError(Error, OSError):
    """An error with errno, filename and strerror: the operation that failed, its file, and advice.
    """

    def __str__(self) -> str:
        return str(self.strerror)


class IoError(_SystemError):
    """The operating system refused an operation. The store stays usable."""


class NoSpaceError(IoError):
    """The file system is full. Reads go on, and deletes use a reserve; free space and retry."""


class LockedError(IoError):
    """Another handle, in this process or another (pid, if it is known), has the store open: close
    it there first."""

    pid: Optional[int] = None


class NotFoundError(_SystemError, FileNotFoundError):
    """There is no store at the path, and create_if_missing is off."""


class AlreadyExistsError(_SystemError, FileExistsError):
    """The path, or the name of the keyspace, exists already."""


class CorruptionError(Error):
    """Bytes on disk differ from those that were written. Other keys stay readable; restore the file
    from a backup, or call repair()."""

    #: The damaged file.
    path: Path = Path()
    #: Position of the damage, in bytes from the start of the file.
    offset: int = 0
    #: The expected and the actual content.
    what: str = ""


class ReadOnlyError(Error):
    """The store accepts no writes any more, or was opened read-only; the message gives the reason.
    Reads go on."""


class InvalidArgumentError(Error, ValueError):
    """An argument is outside what the store accepts; nothing was written."""


class NotAStoreError(Error):
    """The path holds something other than a store. It was not changed."""

    path: Path = Path()


class UnsupportedFormatError(Error):
    """The file was written in a format version that this library does not read: use a newer one."""

    path: Path = Path()
    found: int = 0
    supported: int = 0


class OptionMismatchError(Error, ValueError):
    """A keyspace was opened with another layout, comparator or other types than it was created with."""

    keyspace: str = ""
    option: str = ""
    stored: str = ""
    given: str = ""


class WrongTypeError(Error, ValueError):
    """A pair of a typed keyspace is not of its types. The other pairs stay readable; so does this one, in bytes, through
    TypedKeyspace.keyspace."""

    keyspace: str = ""
    #: The key of the pair.
    key: bytes = b""


class NoKeyspaceError(Error, LookupError):
    """The keyspace does not exist, or was dropped."""

    keyspace: str = ""


class ConflictError(Error):
    """Another writer changed data that a transaction had read before its commit. The transaction
    wrote nothing: run it again from its first read, as DB.transact does."""

    keyspace: str = ""
    #: The changed keys, or some of them: first and last; equal for a single key, None for an open
    #: end.
    keys: tuple[Optional[bytes], Optional[bytes]] = (None, None)


class ClosedError(Error, RuntimeError):
    """The store, snapshot, range, cursor or transaction was closed."""


class ForkedError(Error, RuntimeError):
    """This process was forked from the one that opened the store. Open it after the fork, in one of
    them."""
