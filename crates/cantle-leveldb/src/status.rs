//! Errors in LevelDB's wording: its five kinds, each with the prefix that `Status::ToString` gives
//! it.

use cantle::Error;
use std::fmt;
use std::path::Path;

/// The name of LevelDB's own order of keys.
pub const LEVELDB_BYTEWISE: &str = "leveldb.BytewiseComparator";
/// Cantle's name of the same order.
const CANTLE_BYTEWISE: &str = "cantle.bytewise";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    NotFound,
    Corruption,
    NotSupported,
    InvalidArgument,
    IoError,
}

/// The error of a call.
#[derive(Clone, Debug)]
pub struct Status {
    pub code: Code,
    pub message: String,
}

pub type Result<T> = std::result::Result<T, Status>;

impl Status {
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(Code::InvalidArgument, message)
    }

    pub fn io(message: impl Into<String>) -> Self {
        Self::new(Code::IoError, message)
    }

    /// The error for a handle that names no object.
    pub fn no_object(what: &str) -> Self {
        Self::invalid(format!("the {what} is null, was destroyed, or is not a {what}"))
    }

    /// The error of every call on a database that was opened before a fork.
    pub fn forked() -> Self {
        Self::io(
            "the database was opened before fork() and belongs to the parent process: open it after fork()",
        )
    }

    pub fn closed() -> Self {
        Self::io("the database was closed")
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let prefix = match self.code {
            Code::NotFound => "NotFound: ",
            Code::Corruption => "Corruption: ",
            Code::NotSupported => "Not implemented: ",
            Code::InvalidArgument => "Invalid argument: ",
            Code::IoError => "IO error: ",
        };
        write!(f, "{prefix}{}", self.message)
    }
}

/// LevelDB names the lock's file, and names its holder only if that is this process.
fn locked(path: &Path, pid: Option<u32>) -> Status {
    let lock = path.join("LOCK");
    let holder = match pid {
        Some(pid) if pid != std::process::id() => {
            format!("held by process {pid}: close the database there first")
        }
        _ => "already held by process".into(),
    };
    Status::io(format!("lock {}: {holder}", lock.display()))
}

/// LevelDB's name of an order, from the name in Cantle's messages.
fn order(name: &str) -> &str {
    if name.starts_with(CANTLE_BYTEWISE) { LEVELDB_BYTEWISE } else { name }
}

impl From<Error> for Status {
    fn from(error: Error) -> Self {
        match &error {
            Error::Corruption { path, offset, what, .. } => {
                Self::new(Code::Corruption, format!("{} at offset {offset}: {what}", path.display()))
            }
            Error::Locked { path, pid, .. } => locked(path, *pid),
            Error::InvalidArgument(what) => Self::invalid(what),
            Error::NotAStore { path, what, .. } => Self::invalid(format!("{}: {what}", path.display())),
            Error::NotFound { path, .. } => {
                Self::invalid(format!("{}: does not exist (create_if_missing is false)", path.display()))
            }
            Error::AlreadyExists { path, .. } => {
                Self::invalid(format!("{}: exists (error_if_exists is true)", path.display()))
            }
            Error::OptionMismatch { option: "comparator", stored, given, .. } => Self::invalid(format!(
                "{} does not match existing comparator : {}",
                order(stored),
                order(given)
            )),
            Error::OptionMismatch { .. } => Self::invalid(error.to_string()),
            Error::UnsupportedFormat { .. } => Self::new(Code::NotSupported, error.to_string()),
            Error::NoKeyspace(_) => Self::new(Code::NotFound, error.to_string()),
            Error::Closed => Self::closed(),
            // Errors of the device or the file system, and variants that may be added later.
            _ => Self::io(error.to_string()),
        }
    }
}
