//! Errors, grouped by the action that the caller can take.

use crate::types::bounds::Bounds;
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fmt, io};

/// The result of every fallible operation of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The operation that failed. Displays as a verb to be followed by a path: `append to`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Attempt {
    /// Allocate blocks of the disk for a file.
    Allocate,
    /// Append to a file.
    Append,
    /// Buffer a write in memory until it is appended: the disk lacks the space that the write will
    /// need.
    BufferWrite,
    /// Create a file.
    Create,
    /// Create a directory.
    CreateDirectory,
    /// Make a file longer.
    Extend,
    /// Ask for the file system of a path, and for the mount of it.
    FindFileSystem,
    /// List the files of a directory.
    List,
    /// Lock a store.
    Lock,
    /// Ask for the kind of file at a path.
    LookAt,
    /// Ask for the length of a file.
    Measure,
    /// Open a file.
    Open,
    /// Open a directory.
    OpenDirectory,
    /// Read a file.
    Read,
    /// Rewrite a chunk of a keyspace.
    Rebalance,
    /// Remove a file.
    Remove,
    /// Rename a file.
    Rename,
    /// Start threads.
    StartThreads,
    /// Sync a file.
    Sync,
    /// Sync a directory, and with it the names of its files.
    SyncDirectory,
    /// Sync several files of a directory.
    SyncFiles,
    /// Sync the name of a file or directory.
    SyncName,
    /// Make a file shorter.
    Truncate,
    /// Write to a file.
    Write,
    /// Write a new file, which nothing refers to yet, out to the disk.
    WriteOut,
}

impl Attempt {
    /// True if a failure means that earlier writes may not be durable, although a later sync
    /// succeeds.
    fn is_sync(self) -> bool {
        matches!(self, Self::Sync | Self::SyncDirectory | Self::SyncFiles | Self::SyncName)
    }
}

impl fmt::Display for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Allocate => "allocate",
            Self::Append => "append to",
            Self::BufferWrite => "buffer a write for",
            Self::Create => "create",
            Self::CreateDirectory => "create directory",
            Self::Extend => "extend",
            Self::FindFileSystem => "find out the file system of",
            Self::List => "list",
            Self::Lock => "lock",
            Self::LookAt => "look at",
            Self::Measure => "read the length of",
            Self::Open => "open",
            Self::OpenDirectory => "open directory",
            Self::Read => "read",
            Self::Rebalance => "rebalance a chunk in",
            Self::Remove => "remove",
            Self::Rename => "rename",
            Self::StartThreads => "start threads for",
            Self::Sync => "sync",
            Self::SyncDirectory => "sync directory",
            Self::SyncFiles => "sync the files of",
            Self::SyncName => "sync the name of",
            Self::Truncate => "truncate",
            Self::Write => "write to",
            Self::WriteOut => "write out",
        })
    }
}

fn of_keyspace(keyspace: &Option<String>) -> String {
    keyspace.as_ref().map_or_else(|| "a store".to_owned(), |name| format!("keyspace {name:?}"))
}

/// The reason why an operation failed, the file concerned, and the remedy.
///
/// Errors are cheap to clone: one failed sync is reported to every writer that waited for it.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system refused an operation. The store stays usable; the operation had no
    /// effect unless its documentation says otherwise.
    #[error("cannot {operation} {}: {source}", path.display())]
    #[non_exhaustive]
    Io {
        /// The operation that failed.
        operation: Attempt,
        /// The file or directory.
        path: PathBuf,
        /// The error of the operating system.
        source: Arc<io::Error>,
    },
    /// The file system is full. Reads go on; deletes and maintenance use a reserve; free space and
    /// retry.
    #[error("no space left to {operation} {}: free space on this file system and retry", path.display())]
    #[non_exhaustive]
    NoSpace {
        /// The operation that failed.
        operation: Attempt,
        /// The file or directory.
        path: PathBuf,
        /// The error of the operating system.
        source: Arc<io::Error>,
    },
    /// Bytes on disk differ from those written. Other keys stay readable; restore this file from a
    /// backup.
    #[error("corruption in {} at offset {offset}: {what}", path.display())]
    #[non_exhaustive]
    Corruption {
        /// The damaged file.
        path: PathBuf,
        /// Offset of the damage in the file, in bytes.
        offset: u64,
        /// The expected content and the content found.
        what: String,
    },
    /// The store accepts no more writes, or was opened read-only. Reads go on.
    #[error("the store is read-only: {reason}")]
    #[non_exhaustive]
    ReadOnly {
        /// The reason, and the remedy.
        reason: String,
    },
    /// Another handle, in this process or another, has the store open.
    #[error("{} is in use{}: close it there first", path.display(), holder(*pid))]
    #[non_exhaustive]
    Locked {
        /// The store's directory.
        path: PathBuf,
        /// The process that holds the lock, if its number could be read.
        pid: Option<u32>,
    },
    /// An argument is outside what the store accepts; nothing was written.
    #[error("invalid argument: {0}")]
    InvalidArgument(String),
    /// The path holds something that is not a Cantle store; it was not touched.
    #[error("{} is not a Cantle store: {what}", path.display())]
    #[non_exhaustive]
    NotAStore {
        /// The path given.
        path: PathBuf,
        /// The content of the path, and the remedy.
        what: String,
    },
    /// There is no store at the path and `create_if_missing` is off.
    #[error("there is no store at {}: check the path or set create_if_missing", path.display())]
    #[non_exhaustive]
    NotFound {
        /// The path given.
        path: PathBuf,
    },
    /// There is a store at the path already and `error_if_exists` is on, or a keyspace that was to
    /// be created.
    #[error("{} exists already {} {}", of_keyspace(keyspace), if keyspace.is_some() { "in" } else { "at" }, path.display())]
    #[non_exhaustive]
    AlreadyExists {
        /// The store's directory.
        path: PathBuf,
        /// The keyspace, if the store is not what was to be created.
        keyspace: Option<String>,
    },
    /// The file was written in a format version that this library does not read.
    #[error(
        "{} has format version {found}; this library reads version {supported}: {}",
        path.display(),
        way_from_format(*found)
    )]
    #[non_exhaustive]
    UnsupportedFormat {
        /// The file.
        path: PathBuf,
        /// The version it carries.
        found: u32,
        /// The version that this library reads.
        supported: u32,
    },
    /// A keyspace was opened with an option (layout or comparator) that differs from the one that
    /// it was created with.
    #[error(
        "keyspace {keyspace:?} was created with {option} {stored:?}, not {given:?}: open it with that, or copy it"
    )]
    #[non_exhaustive]
    OptionMismatch {
        /// The keyspace's name.
        keyspace: String,
        /// The name of the option.
        option: &'static str,
        /// The value with which the keyspace was created.
        stored: String,
        /// The value given at this open.
        given: String,
    },
    /// A pair of a typed keyspace cannot be read as its types: it was written by other means, or by
    /// a program whose types differ. The other pairs stay readable; so does this one through
    /// [`TypedKeyspace::keyspace`](crate::TypedKeyspace::keyspace).
    #[error("keyspace {keyspace:?}: {what}")]
    #[non_exhaustive]
    WrongType {
        /// The keyspace's name.
        keyspace: String,
        /// The key of the pair, in bytes.
        key: Vec<u8>,
        /// The key as its parts, what was to be read, and what is there.
        what: String,
    },
    /// The named keyspace does not exist (or was dropped).
    #[error("there is no keyspace {0:?}")]
    NoKeyspace(String),
    /// A key or range that the transaction read was changed by another write before the commit. The
    /// transaction wrote nothing. Run it again, with new reads, as
    /// [`Db::transact`](crate::Db::transact) does.
    #[error(
        "a transaction conflicts with a later write of {} in keyspace {keyspace:?}: run it again",
        describe(keys)
    )]
    #[non_exhaustive]
    Conflict {
        /// The keyspace's name.
        keyspace: String,
        /// A key or range that changed: one key (both bounds include it), or a range that was
        /// deleted.
        keys: (Bound<Vec<u8>>, Bound<Vec<u8>>),
    },
    /// A write that asked for more durability than the store's default took effect and is visible,
    /// but could not be made as durable as requested. It survives whatever any other write of this
    /// store survives.
    #[error(
        "the write took place, but is not as durable as was asked for: {source}: to make it so, call sync"
    )]
    #[non_exhaustive]
    NotDurable {
        /// The error of the checkpoint.
        source: Box<Error>,
    },
    /// The store was closed through one of its handles.
    #[error("the store is closed")]
    Closed,
}

impl Error {
    /// Wraps an error of the operating system. A full file system becomes `NoSpace`, anything else
    /// `Io`.
    pub(crate) fn io(operation: Attempt, path: impl AsRef<Path>, source: io::Error) -> Self {
        let path = path.as_ref().to_path_buf();
        // A failed sync is never `NoSpace`: the kernel does not write the lost pages again when
        // there is space.
        let full = is_full(&source) && !operation.is_sync();
        let source = Arc::new(source);
        if full { Self::NoSpace { operation, path, source } } else { Self::Io { operation, path, source } }
    }

    /// The error for a failed sync of a file that nothing refers to yet and that the caller
    /// discards now.
    ///
    /// A full disk is then an ordinary error, and the caller may try again with a new file: the
    /// pages that the kernel could not write, but will consider clean, belong to this file only,
    /// since the kernel records write errors for each file. Syncs of other files report their own
    /// errors. Any other error means a failing device, and is as serious as any failed sync.
    pub(crate) fn sync_unreferenced(path: impl AsRef<Path>, source: io::Error) -> Self {
        Self::io(if is_full(&source) { Attempt::WriteOut } else { Attempt::Sync }, path, source)
    }

    /// Damage at `offset` of `path`.
    pub(crate) fn corruption(path: impl AsRef<Path>, offset: u64, what: impl Into<String>) -> Self {
        Self::Corruption { path: path.as_ref().to_path_buf(), offset, what: what.into() }
    }

    /// The error for a transaction whose read of `keys` is out of date.
    pub(crate) fn conflict(keyspace: &str, keys: Bounds) -> Self {
        Self::Conflict { keyspace: keyspace.to_owned(), keys: (keys.start, keys.end) }
    }

    /// True if a transaction conflicts with another write: run it again.
    pub fn is_conflict(&self) -> bool {
        matches!(self, Self::Conflict { .. })
    }

    /// True if bytes on disk are damaged, as opposed to a failed operation.
    pub fn is_corruption(&self) -> bool {
        matches!(self, Self::Corruption { .. })
    }

    /// True if a sync failed: the writes that it covered may be lost, although a later sync
    /// succeeds. Excludes a directory that could not be opened: it was not synced, but the kernel
    /// lost no page of it either.
    pub(crate) fn is_sync(&self) -> bool {
        matches!(self, Self::Io { operation, .. } if operation.is_sync()) && !self.is_unopened()
    }

    /// True if a file or directory could not be opened or created: no descriptors were left,
    /// permission was missing, or a directory does not exist. No written bytes are in doubt then.
    /// The sync of a file that is open is none of these, whatever the system says of it.
    pub(crate) fn is_unopened(&self) -> bool {
        use io::ErrorKind::{NotADirectory, NotFound, PermissionDenied};
        let unopened = |source: &io::Error| {
            is_out_of_files(source) || matches!(source.kind(), NotADirectory | NotFound | PermissionDenied)
        };
        matches!(self, Self::Io { operation, source, .. } if *operation != Attempt::Sync && unopened(source))
    }

    /// True if freeing space on the file system and retrying can help.
    pub fn is_no_space(&self) -> bool {
        matches!(self, Self::NoSpace { .. })
    }
}

pub(crate) fn is_out_of_files(error: &io::Error) -> bool {
    use rustix::io::Errno;
    error
        .raw_os_error()
        .is_some_and(|code| [Errno::MFILE, Errno::NFILE].map(Errno::raw_os_error).contains(&code))
}

fn is_full(error: &io::Error) -> bool {
    use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    matches!(error.kind(), StorageFull | QuotaExceeded | FileTooLarge)
}

/// The holder of a store's lock, as messages name it.
fn holder(pid: Option<u32>) -> String {
    match pid {
        Some(own) if own == std::process::id() => " by this process".into(),
        Some(other) => format!(" by process {other}"),
        None => String::new(),
    }
}

/// Maximum number of bytes of a key that a message shows, so that a message stays a line or two.
const SHOWN_BYTES: usize = 64;

/// A key as messages show it, escaped and shortened.
pub(crate) fn shown(key: &[u8]) -> impl std::fmt::Display {
    let (beginning, rest) = key.split_at(key.len().min(SHOWN_BYTES));
    let more = if rest.is_empty() { String::new() } else { format!("… ({} bytes)", key.len()) };
    format!("\"{}\"{more}", beginning.escape_ascii())
}

/// A key, or a range in the notation of intervals.
fn describe(keys: &(Bound<Vec<u8>>, Bound<Vec<u8>>)) -> String {
    let key = |key: &[u8]| shown(key).to_string();
    if let (Bound::Included(start), Bound::Included(end)) = keys
        && start == end
    {
        return format!("key {}", key(start));
    }
    let start = match &keys.0 {
        Bound::Included(start) => format!("[{}", key(start)),
        Bound::Excluded(start) => format!("({}", key(start)),
        Bound::Unbounded => "(".into(),
    };
    let end = match &keys.1 {
        Bound::Included(end) => format!("{}]", key(end)),
        Bound::Excluded(end) => format!("{})", key(end)),
        Bound::Unbounded => ")".into(),
    };
    format!("the range {start} to {end}")
}

const _: fn() = || {
    fn assert<T: Send + Sync + 'static>() {}
    assert::<Error>();
};

/// The advice for a store of another format version: before 0.1 a library reads only its own
/// version.
fn way_from_format(version: u32) -> String {
    let revision = match version {
        1 => "f85b57b",
        2 => "1500dff",
        _ => return "use the library that wrote it".into(),
    };
    format!(
        "export it by revision {revision} of Cantle and load it here (docs/operations.md, Stores of earlier formats)"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_no_matter_of_space_to_a_sync() {
        let full = || io::Error::from(io::ErrorKind::StorageFull);
        for sync in [Attempt::Sync, Attempt::SyncDirectory, Attempt::SyncFiles, Attempt::SyncName] {
            let error = Error::io(sync, "file", full());
            assert!(error.is_sync() && !error.is_no_space(), "{error}");
        }
        for other in [Attempt::Append, Attempt::Allocate, Attempt::Extend, Attempt::Write, Attempt::WriteOut]
        {
            let error = Error::io(other, "file", full());
            assert!(error.is_no_space() && !error.is_sync(), "{error}");
        }
        let error = Error::sync_unreferenced("file", full());
        assert_eq!(error.to_string().split(':').next(), Some("no space left to write out file"));
    }

    #[test]
    fn the_holder_of_a_lock_may_be_this_process() {
        let message = |pid| Error::Locked { path: "store".into(), pid }.to_string();
        assert_eq!(
            message(Some(std::process::id())),
            "store is in use by this process: close it there first"
        );
        assert_eq!(message(Some(0)), "store is in use by process 0: close it there first");
        assert_eq!(message(None), "store is in use: close it there first");
    }

    #[test]
    fn a_name_that_cannot_be_opened_is_no_failed_sync() {
        let error = Error::io(Attempt::SyncDirectory, "directory", io::ErrorKind::PermissionDenied.into());
        assert!(!error.is_sync() && error.is_unopened());
        for kind in [io::ErrorKind::PermissionDenied, io::ErrorKind::NotFound] {
            let error = Error::io(Attempt::Sync, "open file", kind.into());
            assert!(error.is_sync() && !error.is_unopened(), "{error}");
        }
    }
}
