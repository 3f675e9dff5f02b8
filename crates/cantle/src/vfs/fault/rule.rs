//! Calls as a rule sees them, and what it may decide.

use std::io;
use std::path::Path;

/// A kind of call. `Create` is `open` with `CreateNew`, `Open` the other modes; the rest are named after the
/// methods of [`Vfs`] and [`VfsFile`]. `Store` is a store to a [`MappedPiece`], which cannot fail: it takes place
/// whatever the rule says. `Prefetch` is a hint, which nobody is told the failure of.
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
}

impl Operation {
    /// All of them, in the order of declaration.
    pub const ALL: [Self; 24] = [
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
    ];

    /// True if it changes files or names, or makes such changes durable.
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
    /// The file (under the name it was opened by) or directory; the first one where there are two.
    pub path: &'a Path,
    /// The number of calls of any kind before it.
    pub number: u64,
    /// The number of calls of the same kind before it.
    pub number_of_kind: u64,
    /// The place in the file; 0 where that means nothing.
    pub offset: u64,
    /// The number of bytes, or the length asked for; 0 where that means nothing.
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
    /// It takes place.
    Pass,
    /// It fails and nothing happens.
    Fail(Failure),
    /// A write stores its first `bytes` bytes and fails; other calls fail.
    ShortWrite {
        /// The number of bytes that are stored, at most those of the write.
        bytes: usize,
        /// With what it fails.
        failure: Failure,
    },
    /// It takes place, yet reports a failure: a sync whose data did reach the disk, a rename that was done.
    FailDone(Failure),
    /// A sync fails, and what it was to make durable never will be, though programs go on reading it (over a
    /// [`MemVfs`]; over others it just fails). Other calls fail.
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
