"""What can go wrong, in terms of what the caller can do about it: one class for each kind of the library's errors."""

from pathlib import Path
from typing import Optional


class Error(Exception):
    """The base of all errors of the store."""


class _SystemError(Error, OSError):
    """An error with errno, strerror (which says what was attempted, on what, and what to do) and filename."""

    def __str__(self) -> str:
        return str(self.strerror)


class IoError(_SystemError):
    """The operating system refused an operation. The store stays usable."""


class NoSpaceError(IoError):
    """The file system is full. Reads go on, and deletes use a reserve; free space and retry."""


class LockedError(IoError):
    """Another handle, in this process or another (pid, if it is known), has the store open: close it there first."""

    pid: Optional[int] = None


class NotFoundError(_SystemError, FileNotFoundError):
    """There is no store at the path, and create_if_missing is off."""


class AlreadyExistsError(_SystemError, FileExistsError):
    """There is something at the path already, and nothing may be."""


class CorruptionError(Error):
    """Bytes on disk are not what was written. Other keys stay readable; restore the file from a backup, or repair()."""

    #: The damaged file.
    path: Path = Path()
    #: Where in the file, in bytes from its start.
    offset: int = 0
    #: What was expected and what was found.
    what: str = ""


class ReadOnlyError(Error):
    """The store accepts no writes any more (or was opened read-only); the message says why. Reads go on."""


class InvalidArgumentError(Error, ValueError):
    """An argument is outside what the store accepts; nothing was written."""


class NotAStoreError(Error):
    """The path holds something that is not a store; it was not touched."""

    path: Path = Path()


class UnsupportedFormatError(Error):
    """The file was written in a format version that this library does not read: use a newer one."""

    path: Path = Path()
    found: int = 0
    supported: int = 0


class OptionMismatchError(Error, ValueError):
    """A keyspace was opened with a layout or comparator that contradicts how it was created."""

    keyspace: str = ""
    option: str = ""
    stored: str = ""
    given: str = ""


class NoKeyspaceError(Error, LookupError):
    """The keyspace does not exist, or was dropped."""

    keyspace: str = ""


class ConflictError(Error):
    """What a transaction read was changed by somebody else before it was committed. Nothing of it was written: run it again,
    reading anew, as DB.transact does."""

    keyspace: str = ""
    #: What changed, or a part of it: from and to; the same twice for a single key, None for an open end.
    keys: tuple[Optional[bytes], Optional[bytes]] = (None, None)


class ClosedError(Error, RuntimeError):
    """The store, snapshot, range, cursor or transaction was closed."""


class ForkedError(Error, RuntimeError):
    """This process was forked from the one that opened the store. Open it after the fork, in one of them."""
