//! A segment: mapped memory that is filled with rows from the front, and freed as a whole.
//!
//! ```text
//!   ┌───────┬──────┬───────┬────────────┬──────────┬───────┬───────┬─────┬───────┬───────┐
//!   │ stamp │ hash │ owner │ value bytes│ key bytes│ slack │ reads │ key │ value │ slack │ next row …
//!   └───────┴──────┴───────┴────────────┴──────────┴───────┴───────┴─────┴───────┴───────┘
//!       8       4      4         4           2         1       1             to a multiple of 8
//! ```
//!
//! Invariants:
//! * A reader that uses a value in place, after the shard's lock was released, holds a reference to
//!   the memory. While there is such a reference, no byte of a key or value in it changes and no
//!   row moves. Only the shard overwrites and moves rows; it needs the segment exclusively (`&mut`)
//!   and checks that nobody else references the memory. It may append at any time: after all lent
//!   values.
//! * Stamp, reads and lengths belong to the shard: nobody else looks at them.
//! * Offsets are those of rows in this segment, as `push` and `first` return them.
//! * Memory counts in a total until the last reference to it is dropped.
#![expect(unsafe_code, reason = "rows are appended to memory while others in it are read")]

use crate::memory::pages::Pages;
use crate::sync::Arc;
use crate::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::alloc::Layout;
use std::mem::offset_of;
use std::ptr::NonNull;

/// Alignment of rows in bytes.
pub(super) const ROW_ALIGN: usize = 8;
/// Segments are multiples of this many bytes.
pub(super) const PAGE_BYTES: usize = 4 << 10;
/// Maximum of the reads counted for a row.
const READS_MAX: u8 = 3;

#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(super) struct Header {
    pub(super) stamp: u64,
    pub(super) hash: u32,
    pub(super) owner: u32,
    pub(super) value_bytes: u32,
    pub(super) key_bytes: u16,
    /// Unused bytes after the row, in multiples of the alignment, where a shorter value has
    /// replaced a longer one.
    pub(super) slack: u8,
    pub(super) reads: u8,
}

pub(super) const HEADER_BYTES: usize = size_of::<Header>();
const _: () = assert!(HEADER_BYTES == 24 && align_of::<Header>() == ROW_ALIGN);

impl Header {
    /// The header of an unread row. `None` if a length does not fit: a key of 64 KiB or more has no
    /// row.
    pub(super) fn new(stamp: u64, hash: u32, owner: u32, key: &[u8], value: &[u8]) -> Option<Self> {
        let (key_bytes, value_bytes) = (key.len().try_into().ok()?, value.len().try_into().ok()?);
        Some(Self { stamp, hash, owner, value_bytes, key_bytes, slack: 0, reads: 0 })
    }

    /// Bytes of the row with its header and slack.
    pub(super) fn row_bytes(&self) -> usize {
        row_bytes(usize::from(self.key_bytes), self.value_bytes as usize)
            + usize::from(self.slack) * ROW_ALIGN
    }
}

/// Bytes of a row whose key and value have these lengths.
pub(super) fn row_bytes(key_bytes: usize, value_bytes: usize) -> usize {
    (HEADER_BYTES + key_bytes + value_bytes).next_multiple_of(ROW_ALIGN)
}

/// Memory that counts in a total.
struct Memory {
    pages: Pages,
    total_bytes: Arc<AtomicU64>,
}

impl Drop for Memory {
    fn drop(&mut self) {
        self.total_bytes.fetch_sub(self.pages.len() as u64, Relaxed);
    }
}

/// A value, lent in place.
pub(crate) struct LentRow {
    memory: Arc<Memory>,
    offset: usize,
    len: usize,
}

impl std::ops::Deref for LentRow {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        // SAFETY: `Segment::lend` made it from a row's value, which does not change while the
        // memory is referenced.
        unsafe { std::slice::from_raw_parts(self.memory.pages.start().add(self.offset).as_ptr(), self.len) }
    }
}

/// The owner of a segment may write to it.
pub(super) struct Segment {
    memory: Arc<Memory>,
    filled_bytes: usize,
}

impl Segment {
    /// A segment of `bytes`, a multiple of a page's length.
    pub(super) fn new(bytes: usize, total_bytes: &Arc<AtomicU64>) -> Self {
        let layout = Layout::from_size_align(bytes, ROW_ALIGN)
            .unwrap_or_else(|_| unreachable!("a segment fits in memory"));
        total_bytes.fetch_add(bytes as u64, Relaxed);
        let memory = Memory { pages: Pages::mapped(layout), total_bytes: total_bytes.clone() };
        Self { memory: Arc::new(memory), filled_bytes: 0 }
    }

    pub(super) fn bytes(&self) -> usize {
        self.memory.pages.len()
    }

    pub(super) fn has_room(&self, bytes: usize) -> bool {
        self.bytes() - self.filled_bytes >= bytes
    }

    /// True if no reader references it: it may be changed anywhere.
    pub(super) fn is_unread(&mut self) -> bool {
        Arc::get_mut(&mut self.memory).is_some()
    }

    fn at(&self, offset: usize) -> NonNull<u8> {
        assert!(offset <= self.bytes(), "an offset outside of its segment");
        // SAFETY: within the memory or at its end.
        unsafe { self.memory.pages.start().add(offset) }
    }

    pub(super) fn header(&self, offset: usize) -> Header {
        assert!(offset + HEADER_BYTES <= self.filled_bytes, "no row begins there");
        // SAFETY: a row begins there, whose header was written and belongs to the owner; rows are
        // aligned.
        unsafe { self.at(offset).cast::<Header>().read() }
    }

    fn set_header(&mut self, offset: usize, header: Header) {
        assert!(offset + HEADER_BYTES <= self.bytes(), "no room for a header");
        // SAFETY: within the memory and aligned; headers are never lent.
        unsafe { self.at(offset).cast::<Header>().write(header) }
    }

    pub(super) fn key(&self, offset: usize, header: &Header) -> &[u8] {
        self.slice(offset + HEADER_BYTES, usize::from(header.key_bytes))
    }

    pub(super) fn value(&self, offset: usize, header: &Header) -> &[u8] {
        self.slice(offset + HEADER_BYTES + usize::from(header.key_bytes), header.value_bytes as usize)
    }

    fn slice(&self, from: usize, len: usize) -> &[u8] {
        assert!(from + len <= self.filled_bytes, "a row behind the end");
        // SAFETY: bytes of a row that were written; they change only through `&mut self`.
        unsafe { std::slice::from_raw_parts(self.at(from).as_ptr(), len) }
    }

    /// Copies bytes to a place where nothing is lent.
    fn write(&mut self, offset: usize, bytes: &[u8]) {
        assert!(offset + bytes.len() <= self.bytes(), "no room for a row");
        // SAFETY: within the memory; `bytes` are not in it, as they are borrowed beside `&mut
        // self`. Nobody reads the place: it lies after the filled part, or the caller found the
        // segment unread.
        unsafe { self.at(offset).copy_from_nonoverlapping(NonNull::from(bytes).cast(), bytes.len()) }
    }

    /// Appends a row; the caller has checked that there is room.
    pub(super) fn push(&mut self, header: Header, key: &[u8], value: &[u8]) -> usize {
        let offset = self.filled_bytes;
        let header = Header { slack: 0, ..header };
        assert!(self.has_room(header.row_bytes()), "no room for a row");
        self.set_header(offset, header);
        self.write(offset + HEADER_BYTES, key);
        self.write(offset + HEADER_BYTES + key.len(), value);
        self.filled_bytes += header.row_bytes();
        offset
    }

    /// Counts a read.
    pub(super) fn count_read(&mut self, offset: usize) {
        let reads = self.header(offset).reads;
        self.set_reads(offset, (reads + 1).min(READS_MAX));
    }

    pub(super) fn lend(&self, offset: usize) -> LentRow {
        let header = self.header(offset);
        let from = offset + HEADER_BYTES + usize::from(header.key_bytes);
        let len = header.value_bytes as usize;
        assert!(from + len <= self.filled_bytes, "a row behind the end");
        LentRow { memory: self.memory.clone(), offset: from, len }
    }

    /// Replaces a row's value, if the new one fits there and nobody reads in the segment.
    pub(super) fn overwrite(&mut self, offset: usize, stamp: u64, value: &[u8]) -> bool {
        let header = self.header(offset);
        let key_bytes = usize::from(header.key_bytes);
        let Some(left) = header.row_bytes().checked_sub(row_bytes(key_bytes, value.len())) else {
            return false;
        };
        let (Ok(slack), Ok(value_bytes)) = (u8::try_from(left / ROW_ALIGN), u32::try_from(value.len()))
        else {
            return false;
        };
        if !self.is_unread() {
            return false;
        }
        self.set_header(offset, Header { stamp, value_bytes, slack, ..header });
        self.write(offset + HEADER_BYTES + key_bytes, value);
        true
    }

    /// The offset of the first row, if there is one.
    pub(super) fn first(&self) -> Option<usize> {
        (self.filled_bytes > 0).then_some(0)
    }

    /// The offset of the row after the one at `offset`, which has this length.
    pub(super) fn next(&self, offset: usize, row_bytes: usize) -> Option<usize> {
        let next = offset + row_bytes;
        (next < self.filled_bytes).then_some(next)
    }

    pub(super) fn set_reads(&mut self, offset: usize, reads: u8) {
        if self.header(offset).reads != reads {
            // SAFETY: a header is there, as was just read, and never lent.
            unsafe { self.at(offset + offset_of!(Header, reads)).write(reads) }
        }
    }

    /// Moves a row towards the front, over rows that are no longer needed. Nobody reads in the
    /// segment.
    pub(super) fn shift(&mut self, from: usize, to: usize) {
        let bytes = self.header(from).row_bytes();
        assert!(to <= from && from + bytes <= self.filled_bytes && self.is_unread(), "a row cannot be moved");
        if to < from {
            // SAFETY: both within the memory, in which nobody reads.
            unsafe { self.at(from).copy_to(self.at(to), bytes) };
        }
    }

    /// Removes all rows from this offset on.
    pub(super) fn truncate(&mut self, filled_bytes: usize) {
        assert!(filled_bytes <= self.filled_bytes);
        self.filled_bytes = filled_bytes;
    }
}
