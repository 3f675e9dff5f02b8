//! The only code that touches the operating system's files.
//!
//! A [`Vfs`] is a file system as the store needs it: random-access files, durable renames, locks, and one
//! question that only it can answer: whether what was written, but not synced, outlived the last process
//! (`page_cache_identity`). Implementations: [`StdVfs`] (the operating system), [`MemVfs`] (memory, which
//! can be cloned as a power loss would leave it), [`FaultVfs`] (fails chosen calls of another),
//! [`StallVfs`] (holds them), [`WriteBackVfs`] (reports what the kernel could not write as Linux does), and [`OverlayVfs`] (reads
//! one, writes to another).
//!
//! Names and bytes become durable apart from each other: `sync_data` of a file covers its bytes and length,
//! `sync_dir` of the directory covers its name, and a new directory needs `sync_dir` of its parent. Whoever
//! omits one may lose the file to a power loss although the other succeeded. Directories are created, never
//! renamed or removed by a store; others may do so at any time, and change the working directory. An open store
//! therefore reaches its files through a view that is bound to its directory ([`Vfs::rooted`]). Relative paths
//! begin where the implementation says; `""` is a directory like `"."`.
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
mod read_requests;
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
pub use read_requests::{ReadRequest, read_all};
pub use stall::{Held, Stall, StallVfs};
pub use std_fs::StdVfs;
pub use write_back::WriteBackVfs;

use std::borrow::Cow;
use std::fmt::Debug;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// How a file is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenMode {
    /// An existing file, for reading.
    Read,
    /// An existing file, for reading and writing.
    ReadWrite,
    /// A new file, for reading and writing; fails with `AlreadyExists` if there is one.
    CreateNew,
}

/// What a path names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Metadata {
    /// Length in bytes; 0 for directories.
    pub len: u64,
    /// Whether it is a directory.
    pub is_dir: bool,
}

/// Whether a lock admits others of its kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockMode {
    /// One holder.
    Exclusive,
    /// Many holders, none of them exclusive.
    Shared,
}

/// Why a lock was not granted.
#[derive(Debug)]
pub enum LockError {
    /// Somebody holds it, be it this process; the process id of an exclusive holder where the lock file tells.
    Held(Option<u32>),
    /// The operating system failed.
    Io(io::Error),
}

/// A lock, held until dropped.
pub trait VfsLock: Send + Sync + Debug {
    /// Whether the file that is locked still has the name by which it was locked. A holder may have removed the
    /// name just before it released the lock: then others lock another file of that name, and this lock protects
    /// nothing. Implementations whose files do not work like that return `true`.
    fn is_current(&self) -> io::Result<bool> {
        Ok(true)
    }
}

/// A file system.
pub trait Vfs: Send + Sync + Debug + 'static {
    /// Opens a file.
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn VfsFile>>;
    /// What is at `path`; `None` when there is nothing.
    fn metadata(&self, path: &Path) -> io::Result<Option<Metadata>>;
    /// The names (not paths) of the entries of a directory, in no particular order.
    fn list(&self, dir: &Path) -> io::Result<Vec<String>>;
    /// Creates a directory and its missing parents. No error if it exists.
    fn create_dir_all(&self, dir: &Path) -> io::Result<()>;
    /// Renames a file (not a directory), replacing the target atomically: whoever looks finds one or the other.
    /// Durable after `sync_dir` of the parent, of both parents if they differ; a power loss before that may
    /// leave the file under both names. Does nothing if both are names of the same file.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// A second name for a file's bytes. `Unsupported` or `CrossesDevices` where that cannot be,
    /// `AlreadyExists` if there is something at `to`.
    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file's name; open handles go on using it. Directories are refused.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Makes creations, renames and removals in `dir` durable.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;
    /// Makes the bytes and lengths of all files of the file system of `dir` durable, as `sync_data` of each would, in one go:
    /// for who has written many. Names need `sync_dir` as ever. Fails if something that was written since this view was
    /// bound ([`Vfs::rooted`]) could not be made durable. `Unsupported` where a file system, or a view that is not bound,
    /// cannot tell.
    fn sync_files(&self, dir: &Path) -> io::Result<()> {
        let _ = dir;
        Err(io::ErrorKind::Unsupported.into())
    }
    /// Takes the lock that the file at `path` stands for, creating it if missing; never waits. An exclusive
    /// holder writes its process id into the file.
    fn lock(&self, path: &Path, mode: LockMode) -> Result<Box<dyn VfsLock>, LockError>;
    /// Bytes that an unprivileged writer could still store on the file system of `dir`.
    fn available_bytes(&self, dir: &Path) -> io::Result<u64>;
    /// Names the page cache through which `dir` is written: boot id, device and mounted superblock (of Btrfs the subvolume, too). As long
    /// as it stays the same, unsynced writes of a process that died are still there. `None` when the file
    /// system cannot vouch for that. Compare it for equality; its bytes have no other meaning.
    fn page_cache_identity(&self, dir: &Path) -> io::Result<Option<Vec<u8>>>;
    /// A view of this file system in which `dir` and paths below it mean the directory that is at `dir` now, wherever
    /// it is moved later and whatever takes its place, and whatever becomes of the working directory. Other paths
    /// mean what they mean without the view. `None` where directories are never moved and relative paths always
    /// begin at the same place: then this file system serves as its own view. A file system that wraps another wraps
    /// the view of the other.
    fn rooted(&self, dir: &Path) -> io::Result<Option<Arc<dyn Vfs>>> {
        let _ = dir;
        Ok(None)
    }
}

/// The view of `vfs` that is bound to the directory which is at `dir` now (see [`Vfs::rooted`]).
pub(crate) fn rooted(vfs: &Arc<dyn Vfs>, dir: &Path) -> io::Result<Arc<dyn Vfs>> {
    Ok(vfs.rooted(dir)?.unwrap_or_else(|| vfs.clone()))
}

/// See [`VfsFile::remember`].
pub type Reminder = Box<dyn Debug + Send + Sync>;

/// An open file.
pub trait VfsFile: Send + Sync + Debug {
    /// Reads at `offset` until `buffer` is full or the file ends; returns how many bytes were read.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;
    /// Writes all of `bytes` at `offset`, extending the file if need be. On an error any prefix of them, and
    /// nothing beyond, may have been written.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;
    /// Cuts or extends (with zeros) the file to `len` bytes.
    fn set_len(&self, len: u64) -> io::Result<()>;
    /// Reserves space for the file's first `len` bytes and extends it to that length, so that writing them
    /// needs no more space. `Unsupported` where the file system cannot.
    fn allocate(&self, len: u64) -> io::Result<()>;
    /// Length in bytes.
    fn len(&self) -> io::Result<u64>;
    /// Whether the file is empty.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }
    /// Makes the data, and what is needed to read it back, durable. After an error nothing is known about
    /// what was written since the last success: callers must not retry as if nothing had happened.
    fn sync_data(&self) -> io::Result<()>;
    /// Has the operating system begin to read these bytes, which will be asked for soon. A hint: it waits for no
    /// device, changes nothing that can be read, and fails for nobody to notice. A length beyond the file's end
    /// does no harm. File systems that wait for no device have nothing to do.
    fn prefetch(&self, offset: u64, len: u64) {
        let _ = (offset, len);
    }
    /// Has the operating system begin to write these bytes to the device, so that the `sync_data` that follows finds less to
    /// do. It makes nothing durable, waits for the device only where its queue is full, and may be left out. File systems that
    /// write nothing back, and those that cannot begin by parts, have nothing to do.
    ///
    /// An error counts as one of `sync_data`: nothing is known about what was written since the last success, as
    /// the pages that could not be submitted may be lost. A write-back that was begun and fails later is reported by the next
    /// `sync_data` of every file that was open at the time, as one that the operating system begins by itself. So what was
    /// begun is durable if, and only if, a `sync_data` by a file that was open when this was called succeeds, and this did.
    fn start_writeback(&self, offset: u64, len: u64) -> io::Result<()> {
        let _ = (offset, len);
        Ok(())
    }
    /// Has the operating system remember failed write-backs of this file for as long as the result lives, be every handle
    /// closed meanwhile: a later sync by another handle reports them. Without that, an inode that no handle is open on may be
    /// evicted with what it remembers. File systems that write nothing back have nothing to remember.
    fn remember(&self) -> io::Result<Reminder> {
        Ok(Box::new(()))
    }
    /// Maps `count` pieces of `piece_bytes` each that stand from `offset` on, all multiples of 4 KiB, into memory. The
    /// file is as long already, and its space reserved: a store for which the file system finds none kills the process.
    /// Nobody else changes these bytes. `Unsupported` where that cannot be.
    fn map(&self, offset: u64, piece_bytes: usize, count: usize) -> io::Result<Vec<Box<dyn MappedPiece>>> {
        let _ = (offset, piece_bytes, count);
        Err(io::ErrorKind::Unsupported.into())
    }
    /// Fills `buffer` from `offset`, or fails with `UnexpectedEof`.
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let read = self.read_at(buffer, offset)?;
        if read == buffer.len() { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    }
}

/// A piece of a file that was mapped into memory. What is stored in it is, to the death of the process, as if it had
/// been written to the file in the same order. Who reads or writes beyond its end, or stores a number elsewhere than at a
/// multiple of eight, panics.
pub trait MappedPiece: Send + Sync + Debug {
    /// Stores bytes.
    fn write(&mut self, at: usize, bytes: &[u8]);
    /// Stores a number at a multiple of eight, little endian: it is found whole or not at all, and only if all that was
    /// stored before is found, too.
    fn set_word(&mut self, at: usize, word: u64);
    /// What is there.
    fn read(&self, at: usize, len: usize) -> Cow<'_, [u8]>;
    /// Where it is now: to be asked after storing, which returns no error, and before relying on what was read.
    fn backing(&self) -> Backing {
        Backing::File
    }
}

/// What holds the bytes of a mapping.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Backing {
    /// The file: they outlive the process.
    File,
    /// Memory, some of them at least: the file failed. They can be read, and are gone with the process.
    Memory,
    /// Some are lost.
    Lost,
}

#[cfg(test)]
mod conformance;
