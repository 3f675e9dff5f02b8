//! Kinds of errors as C sees them.

/// Outcome of a call: `CANTLE_OK` (0), or the reason why it failed.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum cantle_status {
    /// Success.
    CANTLE_OK = 0,
    /// The operating system refused an operation; the store stays usable.
    CANTLE_IO = 1,
    /// The file system is full. Reads and deletes continue; free space and retry.
    CANTLE_NO_SPACE = 2,
    /// Bytes on disk are not those that were written; cantle_error_path and cantle_error_offset
    /// name the place. Other keys stay readable.
    CANTLE_CORRUPTION = 3,
    /// The store accepts no writes (any more), and the message gives the reason. Reads continue.
    CANTLE_READ_ONLY = 4,
    /// The store is open elsewhere, in this process or another.
    CANTLE_LOCKED = 5,
    /// An argument is out of its range, NULL although it is needed, or a handle that was freed, is
    /// of another type, or is in use by another thread. Nothing was written.
    CANTLE_INVALID_ARGUMENT = 6,
    /// The path holds something other than a store, which was not touched.
    CANTLE_NOT_A_STORE = 7,
    /// There is no store at the path. (A key that is absent is no error.)
    CANTLE_NOT_FOUND = 8,
    /// There is something at the path already.
    CANTLE_ALREADY_EXISTS = 9,
    /// The file was written by a newer library.
    CANTLE_UNSUPPORTED_FORMAT = 10,
    /// A keyspace was opened with a layout or comparator other than it was created with.
    CANTLE_OPTION_MISMATCH = 11,
    /// The keyspace does not exist, or was dropped.
    CANTLE_NO_KEYSPACE = 12,
    /// A transaction conflicts with another write and wrote nothing: run it again.
    CANTLE_CONFLICT = 13,
    /// The store was closed.
    CANTLE_CLOSED = 14,
    /// The handle was made before this process was forked: a child must open a store of its own.
    CANTLE_FORKED = 15,
    /// There is no memory for a result, or there are as many handles as possible (16,777,216).
    CANTLE_OUT_OF_MEMORY = 16,
    /// A callback gave up. For callbacks to return; the library itself never fails with this.
    CANTLE_ABORTED = 17,
    /// A mistake in the library, caught at its boundary. The message says what to report.
    CANTLE_INTERNAL = 18,
}

pub(crate) use cantle_status::*;

const ALL: [cantle_status; 19] = [
    CANTLE_OK,
    CANTLE_IO,
    CANTLE_NO_SPACE,
    CANTLE_CORRUPTION,
    CANTLE_READ_ONLY,
    CANTLE_LOCKED,
    CANTLE_INVALID_ARGUMENT,
    CANTLE_NOT_A_STORE,
    CANTLE_NOT_FOUND,
    CANTLE_ALREADY_EXISTS,
    CANTLE_UNSUPPORTED_FORMAT,
    CANTLE_OPTION_MISMATCH,
    CANTLE_NO_KEYSPACE,
    CANTLE_CONFLICT,
    CANTLE_CLOSED,
    CANTLE_FORKED,
    CANTLE_OUT_OF_MEMORY,
    CANTLE_ABORTED,
    CANTLE_INTERNAL,
];

impl cantle_status {
    /// The status with this number, as callbacks return one.
    pub(crate) fn from_number(number: libc::c_int) -> Option<Self> {
        ALL.into_iter().find(|&status| status as libc::c_int == number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_status_has_its_number() {
        for (number, status) in ALL.into_iter().enumerate() {
            assert_eq!(status as usize, number);
            assert_eq!(cantle_status::from_number(number as libc::c_int), Some(status));
        }
        assert_eq!(cantle_status::from_number(-1), None);
        assert_eq!(cantle_status::from_number(ALL.len() as libc::c_int), None);
    }
}
