//! Pieces of a file, mapped into memory.
//!
//! A store to a shared mapping is in the page cache once it is made: the death of the process,
//! however sudden, loses none. Each piece has one owner, so no thread reads bytes that another
//! writes, and after a death the stores are found in the program's order: a kill falls between two
//! instructions, and the fences keep the compiler from moving a store across one that marks it
//! valid.
//!
//! Miri cannot map a file. This file is tested in other ways. In the tests of all file systems
//! (`conformance.rs`), several threads write pieces up to their ends, and pieces outlive file and
//! name and refuse accesses beyond their ends. These tests and those of the write buffer run with
//! AddressSanitizer (`.ci/run`). It finds uses of unmapped memory and accesses beside the
//! allocator's memory, but not an access of one piece to another: for that there is one function
//! that computes addresses (`place`), with its assertion. And processes are killed at every store
//! (`cantle-faults`, `tests/lab/crash/write_buffer.rs`).
#![expect(unsafe_code, reason = "memory that is a file's")]

use super::bus_errors::Guard;
use super::{Backing, MappedPiece, Reminder};
use rustix::fd::AsFd;
use rustix::mm::{MapFlags, MlockFlags, ProtFlags, mlock_with, mmap, munmap};
use std::borrow::Cow;
use std::ffi::c_void;
use std::io;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering, compiler_fence};

/// A mapping. It is unmapped when its last piece is dropped.
#[derive(Debug)]
struct Mapping {
    start: NonNull<u8>,
    bytes: usize,
    /// `None` only while it is being unmapped.
    guard: Option<Guard>,
}

// SAFETY: it is plain memory, and only the pieces access it.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Drop for Mapping {
    fn drop(&mut self) {
        self.guard = None;
        // SAFETY: mapped by `map`, and no piece is left.
        let unmapped = unsafe { munmap(self.start.as_ptr().cast(), self.bytes) };
        debug_assert!(unmapped.is_ok(), "a mapping of our own");
    }
}

/// One of the disjoint pieces of a mapping.
#[derive(Debug)]
struct StdPiece {
    mapping: Arc<Mapping>,
    start: usize,
    bytes: usize,
}

/// Maps `count` pieces of `piece_bytes` each, which follow one another in `file` from `offset` on.
/// Both numbers are multiples of a page, and the file is long enough.
pub(super) fn map(
    file: impl AsFd,
    offset: u64,
    piece_bytes: usize,
    count: usize,
) -> io::Result<Vec<Box<dyn MappedPiece>>> {
    let bytes =
        piece_bytes.checked_mul(count).filter(|&bytes| bytes > 0).ok_or(io::ErrorKind::InvalidInput)?;
    let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
    // SAFETY: a new mapping, at a place that the system chooses.
    let start = unsafe { mmap(std::ptr::null_mut(), bytes, protection, flags, file, offset) }?;
    let start = NonNull::new(start.cast::<u8>()).ok_or(io::ErrorKind::OutOfMemory)?;
    let mut mapping = Mapping { start, bytes, guard: None };
    mapping.guard = Some(Guard::new(start.as_ptr() as usize, bytes)?);
    let mapping = Arc::new(mapping);
    // Pages stay in memory once they are used, if the process may lock that much. Then none has to
    // be read again from a device that may fail.
    // SAFETY: the mapping was made above.
    if let Err(error) = unsafe { mlock_with(start.as_ptr().cast(), bytes, MlockFlags::ONFAULT) } {
        tracing::debug!(%error, bytes, "cannot lock mapped memory");
    }
    let piece = |index| StdPiece { mapping: mapping.clone(), start: index * piece_bytes, bytes: piece_bytes };
    Ok((0..count).map(|index| Box::new(piece(index)) as Box<dyn MappedPiece>).collect())
}

/// Maximum number of mappings by [`remember`] in the whole process: half of the mappings that Linux
/// allows by default (`vm.max_map_count`), as the other half is the application's.
const REMINDERS_MAX: usize = 32_768;

static REMINDERS: AtomicUsize = AtomicUsize::new(0);

/// A page of a file that is never accessed. It keeps the file's inode in memory as an open
/// descriptor would, and does not count towards the limit of open files.
#[derive(Debug)]
struct Untouched {
    start: *mut c_void,
}

// SAFETY: no thread accesses the memory.
unsafe impl Send for Untouched {}
// SAFETY: as above.
unsafe impl Sync for Untouched {}

const UNTOUCHED_BYTES: usize = 4096;

impl Drop for Untouched {
    fn drop(&mut self) {
        // SAFETY: mapped by `remember`, and nobody else has its address.
        let unmapped = unsafe { munmap(self.start, UNTOUCHED_BYTES) };
        debug_assert!(unmapped.is_ok(), "a mapping of our own");
        REMINDERS.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Keeps the inode of `file` in memory.
pub(super) fn remember(file: impl AsFd) -> io::Result<Reminder> {
    let more = |count| (count < REMINDERS_MAX).then_some(count + 1);
    if REMINDERS.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_err() {
        return Err(io::ErrorKind::OutOfMemory.into());
    }
    // SAFETY: a new mapping, at a place that the system chooses.
    let mapped = unsafe {
        mmap(std::ptr::null_mut(), UNTOUCHED_BYTES, ProtFlags::empty(), MapFlags::PRIVATE, file, 0)
    };
    match mapped {
        Ok(start) => Ok(Box::new(Untouched { start })),
        Err(error) => {
            REMINDERS.fetch_sub(1, Ordering::Relaxed);
            Err(error.into())
        }
    }
}

impl StdPiece {
    /// The address of the `len` bytes at `at`.
    fn place(&self, at: usize, len: usize) -> *mut u8 {
        assert!(at <= self.bytes && len <= self.bytes - at, "bytes behind a piece");
        // SAFETY: within the mapping, as pieces are, and these bytes are within the piece.
        unsafe { self.mapping.start.as_ptr().add(self.start + at) }
    }
}

impl MappedPiece for StdPiece {
    fn write(&mut self, at: usize, bytes: &[u8]) {
        let to = self.place(at, bytes.len());
        // SAFETY: `to` has room for the bytes, and `self` is borrowed exclusively.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) };
    }

    fn set_word(&mut self, at: usize, word: u64) {
        assert!(at.is_multiple_of(8), "a word is aligned");
        let to = self.place(at, 8).cast::<u64>();
        // SAFETY: aligned, as pieces begin with a page, and within the piece, which is borrowed
        // exclusively.
        let to = unsafe { AtomicU64::from_ptr(to) };
        compiler_fence(Ordering::SeqCst);
        to.store(word.to_le(), Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
    }

    fn read(&self, at: usize, len: usize) -> Cow<'_, [u8]> {
        let from = self.place(at, len);
        // SAFETY: within the piece; only a holder of an exclusive borrow writes to it.
        Cow::Borrowed(unsafe { std::slice::from_raw_parts(from, len) })
    }

    fn backing(&self) -> Backing {
        // Earlier stores are made, and have failed or not, before the state of the mapping is read.
        compiler_fence(Ordering::SeqCst);
        self.mapping.guard.as_ref().map_or(Backing::File, Guard::state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    const PAGE: usize = 64 << 10;

    fn pieces(file: &File) -> Vec<Box<dyn MappedPiece>> {
        file.set_len(3 * PAGE as u64).unwrap();
        map(file, 0, PAGE, 3).unwrap()
    }

    #[test]
    fn a_mapped_page_that_fails_kills_nobody() {
        let file = tempfile::tempfile().unwrap();
        let mut first = pieces(&file);
        first[0].write(10, b"kept");
        first[1].write(0, b"lost");
        assert_eq!(first[1].backing(), Backing::File);
        // Stores after the end of the file raise SIGBUS, like those to a file system that has gone
        // down.
        file.set_len(PAGE as u64).unwrap();
        first[1].set_word(8, 7);
        assert_eq!(first[1].backing(), Backing::Lost);
        // From now on it is anonymous memory.
        assert_eq!(*first[1].read(8, 8), 7u64.to_le_bytes());
        assert_eq!(*first[1].read(0, 4), [0; 4]);
        assert_eq!(*first[2].read(0, 4), [0; 4]);
        assert_eq!(*first[0].read(10, 4), *b"kept");
        drop(first);
        // Another mapping has its own state, wherever it lies.
        let other = tempfile::tempfile().unwrap();
        let mut second = pieces(&other);
        second[2].write(0, b"more");
        assert_eq!(second[0].backing(), Backing::File);
    }

    /// A fault outside of the registered mappings still ends the process, as it would without the
    /// handler.
    #[test]
    fn a_fault_elsewhere_is_not_ours() {
        const CHILD: &str = "CANTLE_TEST_FAULT_ELSEWHERE";
        if std::env::var_os(CHILD).is_none() {
            use std::os::unix::process::ExitStatusExt;
            let mut child = std::process::Command::new(std::env::current_exe().unwrap());
            child.args(["--exact", "vfs::mapped::tests::a_fault_elsewhere_is_not_ours"]).env(CHILD, "1");
            let output = child.output().unwrap();
            assert_eq!(output.status.signal(), Some(libc::SIGBUS), "{output:?}");
            return;
        }
        let file = tempfile::tempfile().unwrap();
        let ours = pieces(&file);
        let other = tempfile::tempfile().unwrap();
        let theirs = pieces(&other);
        other.set_len(0).unwrap();
        // As if the mapping had not been registered.
        let place = theirs[0].read(0, 8).as_ptr();
        let mapping = NonNull::new(place.cast_mut()).unwrap();
        std::mem::forget(theirs);
        super::super::bus_errors::forget(mapping.as_ptr() as usize);
        assert_eq!(ours[0].backing(), Backing::File);
        // SAFETY: mapped; the system answers with a signal.
        unsafe { mapping.as_ptr().read_volatile() };
    }
}
