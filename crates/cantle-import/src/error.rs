//! Errors, in terms of the remedies that the caller has.

use std::io;
use std::path::{Path, PathBuf};

/// The result of every fallible operation of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Bytes of the source that are not what was written.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Damage {
    /// The file.
    pub path: PathBuf,
    /// Offset in the file, in bytes.
    pub offset: u64,
    /// The bytes that were expected, and those that were found.
    pub what: String,
    /// The keys that it may concern, from and to, where that is known.
    pub keys: Option<(Vec<u8>, Vec<u8>)>,
}

impl Damage {
    pub(crate) fn new(path: impl AsRef<Path>, offset: u64, what: impl Into<String>) -> Self {
        Self { path: path.as_ref().to_path_buf(), offset, what: what.into(), keys: None }
    }

    pub(crate) fn of_keys(mut self, from: Vec<u8>, to: Vec<u8>) -> Self {
        self.keys = Some((from, to));
        self
    }
}

impl std::fmt::Display for Damage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} at offset {}: {}", self.path.display(), self.offset, self.what)
    }
}

/// Why an import failed, on which file, and what to do. The destination was not created.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Bytes of a table or log are not what was written.
    #[error("damage in {0}: restore the file from a backup, or import what is left (--skip-damaged)")]
    Damaged(Box<Damage>),
    /// A file without which nobody knows what belongs to the store is damaged or missing.
    #[error(
        "{0}: without this file nobody knows what belongs to the store; restore it from a backup, or have LevelDB's \
         RepairDB make a new one in a copy of the directory"
    )]
    Unreadable(Box<Damage>),
    /// The directory is not one that LevelDB wrote.
    #[error("{} is not a LevelDB store: {what}", path.display())]
    #[non_exhaustive]
    NotLevelDb {
        /// The path given.
        path: PathBuf,
        /// The kind of directory that it is instead, and the remedy.
        what: String,
    },
    /// The store's keys are in an order that only its program knows.
    #[error(
        "{} was written with the comparator {name:?}: only leveldb.BytewiseComparator can be imported; copy it with the \
         program that has this comparator", path.display()
    )]
    #[non_exhaustive]
    Comparator {
        /// The store's directory.
        path: PathBuf,
        /// The comparator's name.
        name: String,
    },
    /// LevelDB has the store open.
    #[error("{} is in use{}: close it there first, or import a copy", path.display(), pid.map(|pid| format!(" by process {pid}")).unwrap_or_default())]
    #[non_exhaustive]
    InUse {
        /// The store's directory.
        path: PathBuf,
        /// The process that has it, where the system tells.
        pid: Option<u32>,
    },
    /// There is something at the destination already.
    #[error("there is something at {} already, and an import makes its store itself: give a path where there is nothing", path.display())]
    #[non_exhaustive]
    DestinationExists {
        /// The destination.
        path: PathBuf,
    },
    /// Another process imports into the same destination.
    #[error("another import to the same place is under way in {}: wait for it", path.display())]
    #[non_exhaustive]
    UnderWay {
        /// The directory in which the other import builds its store.
        path: PathBuf,
    },
    /// A line of a dump is not of the form that is documented.
    #[error("{name} line {line}: {what}")]
    #[non_exhaustive]
    Line {
        /// The dump's name.
        name: String,
        /// Its line, from 1.
        line: u64,
        /// The error in the line, and the remedy.
        what: String,
    },
    /// A pair is larger than what a store takes.
    #[error("{what}: key \"{}\"…; shorten it in the source, or leave it out (--skip-damaged)", key.escape_ascii())]
    #[non_exhaustive]
    TooLarge {
        /// The key's first bytes.
        key: Vec<u8>,
        /// The part that is too large, and its limit.
        what: String,
    },
    /// An argument makes no sense; nothing was touched.
    #[error("invalid argument: {0}")]
    InvalidArgument(String),
    /// The progress callback asked for it.
    #[error("the import was cancelled")]
    Cancelled,
    /// The operating system refused an operation.
    #[error("cannot {operation} {}: {source}", path.display())]
    #[non_exhaustive]
    Io {
        /// The attempt, as a verb.
        operation: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The new store could not be written.
    #[error(transparent)]
    Store(#[from] cantle::Error),
}

impl Error {
    pub(crate) fn io(operation: &'static str, path: impl AsRef<Path>, source: io::Error) -> Self {
        Self::Io { operation, path: path.as_ref().to_path_buf(), source }
    }

    /// True if bytes of the source are damaged, as opposed to a failed operation.
    pub fn is_damage(&self) -> bool {
        matches!(self, Self::Damaged(_) | Self::Unreadable(_) | Self::Line { .. })
    }
}
