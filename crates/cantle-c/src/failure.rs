//! Failures of calls, before they become objects for C.

use crate::status::*;
use cantle::Error;
use std::path::PathBuf;

/// Outcome of a call: its result, or its failure.
pub(crate) type Outcome<T> = Result<T, Failure>;

/// Boxed, so that a success does not carry the size of a failure.
#[derive(Debug)]
pub(crate) struct Failure(pub(crate) Box<Details>);

#[derive(Debug)]
pub(crate) struct Details {
    pub(crate) status: cantle_status,
    pub(crate) message: String,
    pub(crate) path: Option<PathBuf>,
    pub(crate) offset: Option<u64>,
    /// The operating system's number of the error (`errno`), or 0.
    pub(crate) os_code: i32,
}

impl Failure {
    pub(crate) fn new(status: cantle_status, message: impl Into<String>) -> Self {
        Self(Box::new(Details { status, message: message.into(), path: None, offset: None, os_code: 0 }))
    }

    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new(CANTLE_INVALID_ARGUMENT, format!("invalid argument: {}", message.into()))
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let mut failure = Self::new(CANTLE_INTERNAL, error.to_string());
        let details = &mut *failure.0;
        // The code says what failed, and the message that the write took effect.
        let error = match error {
            Error::NotDurable { source, .. } => *source,
            error => error,
        };
        let (status, path) = match error {
            Error::Io { path, source, .. } => {
                details.os_code = source.raw_os_error().unwrap_or(0);
                (CANTLE_IO, Some(path))
            }
            Error::NoSpace { path, source, .. } => {
                details.os_code = source.raw_os_error().unwrap_or(0);
                (CANTLE_NO_SPACE, Some(path))
            }
            Error::Corruption { path, offset, .. } => {
                details.offset = Some(offset);
                (CANTLE_CORRUPTION, Some(path))
            }
            Error::ReadOnly { .. } => (CANTLE_READ_ONLY, None),
            Error::Locked { path, .. } => (CANTLE_LOCKED, Some(path)),
            Error::InvalidArgument(_) => (CANTLE_INVALID_ARGUMENT, None),
            Error::NotAStore { path, .. } => (CANTLE_NOT_A_STORE, Some(path)),
            Error::NotFound { path, .. } => (CANTLE_NOT_FOUND, Some(path)),
            Error::AlreadyExists { path, .. } => (CANTLE_ALREADY_EXISTS, Some(path)),
            Error::UnsupportedFormat { path, .. } => (CANTLE_UNSUPPORTED_FORMAT, Some(path)),
            Error::OptionMismatch { .. } => (CANTLE_OPTION_MISMATCH, None),
            Error::NoKeyspace(_) => (CANTLE_NO_KEYSPACE, None),
            Error::Conflict { .. } => (CANTLE_CONFLICT, None),
            Error::Closed => (CANTLE_CLOSED, None),
            // A kind that this file does not know yet: the message describes it.
            _ => (CANTLE_INTERNAL, None),
        };
        (details.status, details.path) = (status, path);
        failure
    }
}

impl From<serde_json::Error> for Failure {
    fn from(error: serde_json::Error) -> Self {
        Self::new(CANTLE_INTERNAL, format!("cannot write JSON: {error}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cantle::vfs::{self, FaultVfs, MemVfs, OpenMode, Operation, Verdict, Vfs};
    use cantle::{Comparator, Db, KeyspaceOptions, Options};
    use std::cmp::Ordering;
    use std::path::Path;
    use std::sync::Arc;

    struct Reverse;
    impl Comparator for Reverse {
        fn name(&self) -> &str {
            "reverse"
        }
        fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
            b.cmp(a)
        }
    }

    fn options(vfs: impl Vfs) -> Options {
        Options::new().vfs(Arc::new(vfs)).memory_budget(1 << 20).background_threads(1)
    }

    fn open(vfs: &MemVfs) -> Db {
        options(vfs.clone()).open("store").unwrap()
    }

    /// A store that is closed.
    fn closed() -> MemVfs {
        let vfs = MemVfs::new();
        open(&vfs).close().unwrap();
        vfs
    }

    fn error<T>(result: cantle::Result<T>) -> Error {
        result.err().unwrap()
    }

    fn conflict() -> Error {
        let db = open(&MemVfs::new());
        let transaction = db.transaction();
        transaction.get("k").unwrap();
        db.put("k", "other").unwrap();
        transaction.put("k", "mine").unwrap();
        error(transaction.commit())
    }

    /// The error of an opening if calls of this kind fail in this way.
    fn failing(operation: Operation, failure: vfs::Failure) -> Error {
        let disk = FaultVfs::new(Arc::new(MemVfs::new()));
        disk.fail_always(operation, Verdict::Fail(failure));
        error(options(disk).open("store"))
    }

    /// The error of an opening if the manifest's header is changed in this way.
    fn with_header(change: impl Fn(&mut [u8])) -> Error {
        let vfs = closed();
        let mut names = vfs.list(Path::new("store")).unwrap().into_iter();
        let manifest = names.find_map(|name| {
            let file = vfs.open(&Path::new("store").join(name), OpenMode::ReadWrite).ok()?;
            let mut header = [0; 64];
            file.read_exact_at(&mut header, 0).ok()?;
            header.starts_with(b"CANTLE\0M").then_some((file, header))
        });
        let (file, mut header) = manifest.unwrap();
        change(&mut header);
        file.write_at(&header, 0).unwrap();
        error(options(vfs).open("store"))
    }

    /// For every kind of error: its status, and the data beside the message.
    #[test]
    #[cfg_attr(miri, ignore = "opens stores, which have threads")]
    fn every_kind_of_error_has_its_status_and_keeps_file_offset_and_number() {
        let store = open(&MemVfs::new());
        let locked = MemVfs::new();
        let holder = open(&locked);
        let foreign = MemVfs::new();
        foreign.create_dir_all(Path::new("store")).unwrap();
        foreign.open(Path::new("store/CURRENT"), OpenMode::CreateNew).unwrap().write_at(b"x", 0).unwrap();
        let with_version = |header: &mut [u8]| {
            header[8..12].copy_from_slice(&9u32.to_le_bytes());
            let crc = crc32c::crc32c(&header[..60]);
            header[60..].copy_from_slice(&crc.to_le_bytes());
        };
        let reverse = KeyspaceOptions::new().comparator(Arc::new(Reverse));
        let after_close = {
            let db = open(&MemVfs::new());
            db.close().unwrap();
            error(db.get("k"))
        };
        // The error, its status, whether it has a file and an offset, and the system's number.
        let table = [
            (failing(Operation::Create, vfs::Failure::EIO), CANTLE_IO, true, false, libc::EIO),
            (failing(Operation::Create, vfs::Failure::ENOSPC), CANTLE_NO_SPACE, true, false, libc::ENOSPC),
            (with_header(|header| header[20] ^= 1), CANTLE_CORRUPTION, true, true, 0),
            (with_header(with_version), CANTLE_UNSUPPORTED_FORMAT, true, false, 0),
            (
                error(options(closed()).read_only(true).open("store").unwrap().put("k", "v")),
                CANTLE_READ_ONLY,
                false,
                false,
                0,
            ),
            (error(options(locked.clone()).open("store")), CANTLE_LOCKED, true, false, 0),
            (
                error(store.put(vec![0; cantle::KEY_BYTES_MAX + 1], "v")),
                CANTLE_INVALID_ARGUMENT,
                false,
                false,
                0,
            ),
            (error(options(foreign).open("store")), CANTLE_NOT_A_STORE, true, false, 0),
            (
                error(options(MemVfs::new()).create_if_missing(false).open("store")),
                CANTLE_NOT_FOUND,
                true,
                false,
                0,
            ),
            (
                error(options(closed()).error_if_exists(true).open("store")),
                CANTLE_ALREADY_EXISTS,
                true,
                false,
                0,
            ),
            (error(store.keyspace_with("default", reverse)), CANTLE_OPTION_MISMATCH, false, false, 0),
            (error(store.drop_keyspace("none")), CANTLE_NO_KEYSPACE, false, false, 0),
            (conflict(), CANTLE_CONFLICT, false, false, 0),
            (after_close, CANTLE_CLOSED, false, false, 0),
        ];
        for (error, status, has_path, has_offset, os_code) in table {
            let message = error.to_string();
            let told = *Failure::from(error).0;
            assert_eq!((told.status, &told.message), (status, &message));
            assert_eq!((told.path.is_some(), told.offset.is_some()), (has_path, has_offset), "{message}");
            assert_eq!(told.os_code, os_code, "{message}");
            assert!(told.path.is_none_or(|path| path.starts_with("store")), "{message}");
        }
        drop(holder);
    }
}
