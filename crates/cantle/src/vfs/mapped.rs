//! Pieces of a file, mapped into memory.
//!
//! A store to a shared mapping is in the page cache once it is made: the death of the process, however sudden, loses
//! nothing of it. Each piece has one owner, so nobody reads what another writes, and the program's order of stores is
//! the order in which they are found after a death: a kill falls between two instructions, and the fences keep
//! the compiler from moving a store across one that marks it valid.
//!
//! Miri cannot map a file. What checks this file instead: the tests of all file systems (`conformance.rs`), in which pieces
//! are written to their ends by several threads, outlive file and name, and refuse what is beyond them; the same and those
//! of the stage with AddressSanitizer (`.ci/run`), which finds a use of what was unmapped and of what lies beside memory of
//! the allocator, but not one piece's use of another: for that there is one place where addresses are made (`place`), with
//! its assertion; and kills at every store (`cantle-faults`, `tests/crash/stage.rs`).
#![expect(unsafe_code, reason = "memory that is a file's")]

use super::MappedPiece;
use rustix::fd::AsFd;
use rustix::mm::{MapFlags, MlockFlags, ProtFlags, mlock_with, mmap, munmap};
use std::borrow::Cow;
use std::io;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering, compiler_fence};

/// A mapping, until the last of its pieces is gone.
#[derive(Debug)]
struct Mapping {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: it is only memory, and reached by way of the pieces only.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Drop for Mapping {
    fn drop(&mut self) {
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

/// Maps `count` pieces of `piece_bytes` each that stand in `file` from `offset` on. Both are multiples of a page, and
/// the file is as long.
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
    let mapping = Arc::new(Mapping { start, bytes });
    // Pages stay in memory once they are used, if there may be so many: then none has to be read again from a device
    // that may fail.
    // SAFETY: the mapping is ours.
    if let Err(error) = unsafe { mlock_with(start.as_ptr().cast(), bytes, MlockFlags::ONFAULT) } {
        tracing::debug!(%error, bytes, "cannot lock mapped memory");
    }
    let piece = |index| StdPiece { mapping: mapping.clone(), start: index * piece_bytes, bytes: piece_bytes };
    Ok((0..count).map(|index| Box::new(piece(index)) as Box<dyn MappedPiece>).collect())
}

impl StdPiece {
    /// Where the `len` bytes at `at` are.
    fn place(&self, at: usize, len: usize) -> *mut u8 {
        assert!(at <= self.bytes && len <= self.bytes - at, "bytes behind a piece");
        // SAFETY: within the mapping, as pieces are, and these bytes are within the piece.
        unsafe { self.mapping.start.as_ptr().add(self.start + at) }
    }
}

impl MappedPiece for StdPiece {
    fn write(&mut self, at: usize, bytes: &[u8]) {
        let to = self.place(at, bytes.len());
        // SAFETY: `to` has room for the bytes, and the piece is ours alone.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) };
    }

    fn set_word(&mut self, at: usize, word: u64) {
        assert!(at.is_multiple_of(8), "a word is aligned");
        let to = self.place(at, 8).cast::<u64>();
        // SAFETY: aligned, as pieces begin with a page; within the piece, which is ours alone.
        let to = unsafe { AtomicU64::from_ptr(to) };
        compiler_fence(Ordering::SeqCst);
        to.store(word.to_le(), Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
    }

    fn read(&self, at: usize, len: usize) -> Cow<'_, [u8]> {
        let from = self.place(at, len);
        // SAFETY: within the piece; written to by who borrows it exclusively only.
        Cow::Borrowed(unsafe { std::slice::from_raw_parts(from, len) })
    }
}
