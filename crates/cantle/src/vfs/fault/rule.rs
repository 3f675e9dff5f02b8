//! Calls as a rule sees them, and the verdicts that it may give.

use std::io;
use std::path::Path;

/// A kind of call. `Create` is `open` with `CreateNew`, `Open` the other modes; the rest are named
/// after the methods of [`Vfs`] and [`VfsFile`]. `Store` is a store to a [`MappedPiece`], which
/// cannot fail: it takes place with any verdict. `Prefetch` is a hint, whose failure no caller
/// sees.
///
/// [`Vfs`]: crate::vfs::Vfs
/// [`VfsFile`]: crate::vfs::VfsFile
/// [`MappedPiece`]: crate::vfs::MappedPiece
#[expect(missing_docs, reason = "named after the methods")]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Operation {
    Open,
    Create,
    Metadata,
    List,
    CreateDirAll,
    Rename,
    HardLink,
    Remove,
    SyncDir,
    Lock,
    AvailableBytes,
    PageCacheIdentity,
    ReadAt,
    WriteAt,
    SetLen,
    Allocate,
    Len,
    SyncData,
    Remember,
    Map,
    Store,
    SyncFiles,
    Prefetch,
    StartWriteback,
    SetDirect,
}

impl Operation {
    /// All kinds, in the order of declaration.
    pub const ALL: [Self; 25] = [
        Self::Open,
        Self::Create,
        Self::Metadata,
        Self::List,
        Self::CreateDirAll,
        Self::Rename,
        Self::HardLink,
        Self::Remove,
        Self::SyncDir,
        Self::Lock,
        Self::AvailableBytes,
        Self::PageCacheIdentity,
        Self::ReadAt,
        Self::WriteAt,
        Self::SetLen,
        Self::Allocate,
        Self::Len,
        Self::SyncData,
        Self::Remember,
        Self::Map,
        Self::Store,
        Self::SyncFiles,
        Self::Prefetch,
        Self::StartWriteback,
        Self::SetDirect,
    ];

    /// True if the call changes files or names, or makes such changes durable.
    pub fn changes(self) -> bool {
        matches!(
            self,
            Self::Create
                | Self::CreateDirAll
                | Self::Rename
                | Self::HardLink
                | Self::Remove
                | Self::SyncDir
                | Self::WriteAt
                | Self::SetLen
                | Self::Allocate
                | Self::SyncData
                | Self::Store
                | Self::SyncFiles
                | Self::StartWriteback
        )
    }
}

/// A call, as a rule sees it.
#[derive(Debug, Clone, Copy)]
pub struct Call<'a> {
    /// The kind of the call.
    pub operation: Operation,
    /// The file (by the name under which it was opened) or directory; the first one if there are
    /// two.
    pub path: &'a Path,
    /// Number of calls of any kind before it.
    pub number: u64,
    /// Number of calls of the same kind before it.
    pub number_of_kind: u64,
    /// The offset in the file; 0 if the call has none.
    pub offset: u64,
    /// Number of bytes, or the requested length; 0 if the call has none.
    pub len: u64,
}

/// The error that a call fails with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// An error of this kind, without a system error.
    Kind(io::ErrorKind),
    /// This system error.
    Errno(i32),
}

impl Failure {
    /// The device failed.
    pub const EIO: Self = Self::Errno(rustix::io::Errno::IO.raw_os_error());
    /// The file system is full.
    pub const ENOSPC: Self = Self::Errno(rustix::io::Errno::NOSPC.raw_os_error());
    /// The process has too many open files.
    pub const EMFILE: Self = Self::Errno(rustix::io::Errno::MFILE.raw_os_error());
    /// The call was interrupted by a signal.
    pub const EINTR: Self = Self::Errno(rustix::io::Errno::INTR.raw_os_error());

    pub(super) fn error(self) -> io::Error {
        match self {
            Self::Kind(kind) => kind.into(),
            Self::Errno(errno) => io::Error::from_raw_os_error(errno),
        }
    }
}

/// The outcome of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The call takes place.
    Pass,
    /// The call fails without effect.
    Fail(Failure),
    /// A write stores its first `bytes` bytes and fails; other calls fail.
    ShortWrite {
        /// Number of bytes that are stored, at most those of the write.
        bytes: usize,
        /// The error of the call.
        failure: Failure,
    },
    /// The call takes place, but reports a failure: a sync whose data did reach the disk, a rename
    /// that was done.
    FailDone(Failure),
    /// A sync fails, and the changes that it covers never become durable, although programs
    /// continue to read them (over a [`MemVfs`]; over others it just fails). Other calls fail.
    ///
    /// [`MemVfs`]: crate::vfs::MemVfs
    FailLost(Failure),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_operations_is_in_the_order_of_declaration() {
        for (index, operation) in Operation::ALL.into_iter().enumerate() {
            assert_eq!(operation as usize, index);
        }
    }
}
