//! The only code that touches the operating system's files.
//!
//! A [`Vfs`] is a file system with the operations that a store needs: random-access files, durable
//! renames, locks, and a question that only it can answer: did unsynced writes of the last process
//! survive it (`page_cache_identity`)? Implementations: [`StdVfs`] (the operating system),
//! [`MemVfs`] (memory; can be cloned as a power loss would leave it), [`FaultVfs`] (fails chosen
//! calls of another), [`StallVfs`] (holds them), [`WriteBackVfs`] (reports failed write-backs as
//! Linux does), and [`OverlayVfs`] (reads one, writes to another).
//!
//! Names and bytes become durable separately: `sync_data` of a file covers its bytes and length,
//! `sync_dir` of the directory covers its name, and a new directory needs `sync_dir` of its parent.
//! A caller that omits one may lose the file in a power loss although the other succeeded. A store
//! creates directories, and never renames or removes them. Other programs may do so at any time,
//! and change the working directory. An open store therefore accesses its files through a view that
//! is bound to its directory ([`Vfs::rooted`]). The implementation decides where relative paths
//! begin; `""` is a directory like `"."`.
//!
//! Thread safety: every method may be called from any thread. Files are written at explicit offsets; callers
//! serialise writers of one file. Nothing here panics; every operation returns a `Result`.

#[cfg(all(target_os = "linux", not(miri)))]
mod btrfs;
#[cfg(all(target_os = "linux", not(miri)))]
mod bus_errors;
mod fault;
mod lock_file;
mod longer;
mod lossy;
mod machine;
#[cfg(all(target_os = "linux", not(miri)))]
mod mapped;
mod mem;
mod overlay;
mod page_cache;
mod read_depth;
mod read_queue;
#[cfg_attr(
    not(all(
        target_os = "linux",
        not(miri),
        any(
            target_arch = "x86_64",
            target_arch = "aarch64",
            target_arch = "riscv64",
            target_arch = "loongarch64"
        )
    )),
    path = "no_ring.rs"
)]
mod ring;
mod rooted_fs;
mod stall;
mod std_fs;
mod write_back;
#[cfg(all(target_os = "linux", not(miri)))]
mod write_out;

pub use fault::{Call, Failure, FaultVfs, Operation, Verdict};
pub(crate) use lossy::LossyVfs;
pub(crate) use machine::memory_bytes;
pub use mem::{CrashPlan, MemFile, MemVfs, PendingChange, PendingKind, Survival, Tail};
pub use overlay::OverlayVfs;
pub(crate) use read_depth::DEPTH_MAX;
pub use read_queue::{ReadQueue, ReadRequest};
pub use stall::{Held, Stall, StallVfs};
pub use std_fs::StdVfs;
pub use write_back::WriteBackVfs;

use std::borrow::Cow;
use std::fmt::Debug;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// Length in bytes to which writes past the page cache are aligned ([`VfsFile::set_direct`]). No device of today
/// has longer sectors.
pub const DIRECT_BYTES: usize = 4096;

/// The mode in which a file is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenMode {
    /// An existing file, for reading.
    Read,
    /// An existing file, for reading and writing.
    ReadWrite,
    /// A new file, for reading and writing; fails with `AlreadyExists` if there is one.
    CreateNew,
}

/// The kind and length of the file at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Metadata {
    /// Length in bytes; 0 for directories.
    pub len: u64,
    /// True for a directory.
    pub is_dir: bool,
    /// True for a socket, which only a directory of the system's can hold.
    pub is_socket: bool,
}

/// The mode of a lock: for one holder, or for several.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockMode {
    /// One holder.
    Exclusive,
    /// Many holders, none of them exclusive.
    Shared,
}

/// The reason why a lock was not granted.
#[derive(Debug)]
pub enum LockError {
    /// The lock is held, perhaps by this process. With the process id of an exclusive holder, if
    /// the lock file contains it.
    Held(Option<u32>),
    /// The operating system failed.
    Io(io::Error),
}

/// A lock, held until dropped.
pub trait VfsLock: Send + Sync + Debug {
    /// True if the locked file still has the name by which it was locked. A holder may have removed
    /// the name just before it released the lock: then others lock another file of that name, and
    /// this lock protects nothing. Implementations whose files cannot lose their name in this way
    /// return `true`.
    fn is_current(&self) -> io::Result<bool> {
        Ok(true)
    }
}

/// A file system.
pub trait Vfs: Send + Sync + Debug + 'static {
    /// Opens a file.
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn VfsFile>>;
    /// The kind and length of the file at `path`; `None` if there is none.
    fn metadata(&self, path: &Path) -> io::Result<Option<Metadata>>;
    /// The names (not paths) of the entries of a directory, in no particular order.
    fn list(&self, dir: &Path) -> io::Result<Vec<String>>;
    /// Creates a directory and its missing parents. No error if it exists.
    fn create_dir_all(&self, dir: &Path) -> io::Result<()>;
    /// Renames a file (not a directory), replacing the target atomically: a reader finds the old
    /// file or the new one. Durable after `sync_dir` of the parent, of both parents if they differ;
    /// a power loss before that may leave the file under both names. Does nothing if both are names
    /// of the same file.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Adds a second name for a file's bytes. `Unsupported` or `CrossesDevices` if that is
    /// impossible, `AlreadyExists` if there is something at `to`.
    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file's name; open handles remain usable. Fails for directories.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Makes creations, renames and removals in `dir` durable.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;
    /// Makes the bytes and lengths of all files of the file system of `dir` durable at once, as
    /// `sync_data` of each would: for a caller that has written many. Names still need `sync_dir`.
    /// Fails if any write since this view was bound ([`Vfs::rooted`]) could not be made durable.
    /// `Unsupported` if a file system, or a view that is not bound, cannot tell.
    fn sync_files(&self, dir: &Path) -> io::Result<()> {
        let _ = dir;
        Err(io::ErrorKind::Unsupported.into())
    }
    /// Locks the file at `path`, creating it if missing; never waits. An exclusive holder writes
    /// its process id into the file.
    fn lock(&self, path: &Path, mode: LockMode) -> Result<Box<dyn VfsLock>, LockError>;
    /// Bytes that an unprivileged writer can still store on the file system of `dir`.
    fn available_bytes(&self, dir: &Path) -> io::Result<u64>;
    /// Identifies the page cache through which `dir` is written: boot id, device and mounted
    /// superblock (on Btrfs the subvolume, too). As long as it stays the same, unsynced writes of a
    /// process that died are still there. `None` if the file system cannot guarantee that. Callers
    /// compare it for equality only; its bytes have no other meaning.
    fn page_cache_identity(&self, dir: &Path) -> io::Result<Option<Vec<u8>>>;
    /// A view of this file system in which `dir`, and paths below it, mean the directory that is at
    /// `dir` now. This holds even if the directory is moved, another takes its place, or the
    /// working directory changes. Other paths have the same meaning as without the view. `None` if
    /// directories are never moved and relative paths always begin at the same place: then this
    /// file system is its own view. A file system that wraps another wraps the view of the other.
    fn rooted(&self, dir: &Path) -> io::Result<Option<Arc<dyn Vfs>>> {
        let _ = dir;
        Ok(None)
    }
}

/// The view of `vfs` that is bound to the directory that is at `dir` now (see [`Vfs::rooted`]).
pub(crate) fn rooted(vfs: &Arc<dyn Vfs>, dir: &Path) -> io::Result<Arc<dyn Vfs>> {
    Ok(vfs.rooted(dir)?.unwrap_or_else(|| vfs.clone()))
}

/// See [`VfsFile::remember`].
pub type Reminder = Box<dyn Debug + Send + Sync>;

/// An open file.
pub trait VfsFile: Send + Sync + Debug {
    /// Reads at `offset` until `buffer` is full or the file ends; returns the number of bytes read.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;
    /// The same, unless it would wait for a device, or might: then `None`, and the buffer has any content. A file
    /// system that cannot tell answers `None`. Fewer bytes may be read than there are.
    fn read_now_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<Option<usize>> {
        let _ = (buffer, offset);
        Ok(None)
    }
    /// Writes all of `bytes` at `offset`, extending the file if need be. After an error any prefix
    /// of them, and nothing beyond it, may have been written.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;
    /// Makes later writes go past the operating system's page cache, or through it again. Those that go past it
    /// begin at a multiple of [`DIRECT_BYTES`] in the file and in memory, and have such a length: others may fail with
    /// `InvalidInput`. They are durable after `sync_data`, as all are. Nobody else uses the file meanwhile.
    /// `Unsupported` if the file system has no such writes.
    fn set_direct(&self, is_direct: bool) -> io::Result<()> {
        let _ = is_direct;
        Err(io::ErrorKind::Unsupported.into())
    }
    /// Truncates the file to `len` bytes, or extends it with zeros.
    fn set_len(&self, len: u64) -> io::Result<()>;
    /// Reserves space for the file's first `len` bytes and extends it to that length, so that
    /// writing them needs no more space. `Unsupported` if the file system cannot.
    fn allocate(&self, len: u64) -> io::Result<()>;
    /// Length in bytes.
    fn len(&self) -> io::Result<u64>;
    /// True if the file is empty.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }
    /// Makes the data durable, with the metadata needed to read it back. After an error, any write
    /// since the last success may be lost: callers must not retry as if nothing had happened.
    fn sync_data(&self) -> io::Result<()>;
    /// Makes the operating system begin to read these bytes, which will be needed soon. A hint: it
    /// waits for no device, changes no bytes, and reports no failure. A length beyond the file's
    /// end does no harm. File systems that wait for no device do nothing.
    fn prefetch(&self, offset: u64, len: u64) {
        let _ = (offset, len);
    }
    /// Makes the operating system begin to write these bytes to the device, so that the next
    /// `sync_data` has less to do. It makes nothing durable, waits for the device only if its queue
    /// is full, and may be omitted. File systems without write-back, and those that cannot begin it
    /// for a part of a file, do nothing.
    ///
    /// An error counts as one of `sync_data`: any write since the last success may be lost, because
    /// the pages that could not be submitted may be. If a write-back that has begun fails later,
    /// the next `sync_data` of every file that was open at the time reports it, like one that the
    /// operating system begins by itself. Therefore these bytes are durable if, and only if, this
    /// call succeeds and so does a `sync_data` of a file that was open at the time of this call.
    fn start_writeback(&self, offset: u64, len: u64) -> io::Result<()> {
        let _ = (offset, len);
        Ok(())
    }
    /// Makes the operating system remember failed write-backs of this file as long as the result
    /// lives, even if every handle is closed meanwhile: a later sync by another handle reports
    /// them. Without this, an inode without an open handle may be evicted together with its record
    /// of failures. File systems without write-back have nothing to remember.
    fn remember(&self) -> io::Result<Reminder> {
        Ok(Box::new(()))
    }
    /// Maps `count` pieces of `piece_bytes` each, which follow one another from `offset` on, into
    /// memory. All numbers are multiples of 4 KiB. The file is long enough already, and its space
    /// reserved: a store for which the file system finds no space kills the process. Nobody else
    /// changes these bytes. `Unsupported` if mapping is impossible.
    fn map(&self, offset: u64, piece_bytes: usize, count: usize) -> io::Result<Vec<Box<dyn MappedPiece>>> {
        let _ = (offset, piece_bytes, count);
        Err(io::ErrorKind::Unsupported.into())
    }
    /// The file's descriptor in the operating system, by which the kernel may read it while the file is open.
    /// `None` for a file that is not the operating system's, or whose reads somebody else wants to see.
    #[cfg(unix)]
    fn descriptor(&self) -> Option<std::os::fd::BorrowedFd<'_>> {
        None
    }
    /// Fills `buffer` from `offset`, or fails with `UnexpectedEof`.
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let read = self.read_at(buffer, offset)?;
        if read == buffer.len() { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    }
}

/// A piece of a file that is mapped into memory. If the process dies, its stores are found in the
/// file as if they had been written there in the same order. Reads and writes beyond its end panic,
/// and so does storing a number at a place that is no multiple of eight.
pub trait MappedPiece: Send + Sync + Debug {
    /// Stores bytes.
    fn write(&mut self, at: usize, bytes: &[u8]);
    /// Stores a number at a multiple of eight, little endian. After a death it is found whole or
    /// not at all, and only if all earlier stores are found, too.
    fn set_word(&mut self, at: usize, word: u64);
    /// The bytes at `at`.
    fn read(&self, at: usize, len: usize) -> Cow<'_, [u8]>;
    /// The memory that holds the bytes now. Asked after stores, which return no errors, and before
    /// relying on bytes that were read.
    fn backing(&self) -> Backing {
        Backing::File
    }
}

/// The memory that holds the bytes of a mapping.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Backing {
    /// The file: the bytes survive the process.
    File,
    /// Anonymous memory, at least for some of them, because the file failed. They can be read until
    /// the process ends.
    Memory,
    /// Some bytes are lost.
    Lost,
}

#[cfg(test)]
mod conformance;
