//! A record: one version of one key, in the arena.
//!
//! ```text
//!   ┌───────┬──────┬─────────┬──────────────┬────────────────┬─────┬───────┐
//!   │ older │ cell │ version │ value length │ key length, kind │ key │ value │
//!   └───────┴──────┴─────────┴──────────────┴────────────────┴─────┴───────┘
//!      8       8        8           4               4
//! ```
//!
//! Each record has its key, so that a search finds key and value in adjacent cache lines. Under a
//! comparator with equal keys of different bytes, each version thus has its own key.
//!
//! Invariants:
//! * Once a link to it is set, a record changes in two fields only. `older` is relinked to skip
//!   records that no reader needs. `cell` is cleared once the batch is known to be committed, or
//!   replaced by one that is never committed when the batch writes another record of the same key.
//! * A record lives as long as its block. A [`Link`] lies in a munk or in one of its records. The
//!   munk holds the blocks of all records that can be reached from it, and the cells that they
//!   point to.
//!
//! Thread safety: a link is set with `Release` and followed with `Acquire`, which shows the reader
//! the record's bytes.
#![expect(unsafe_code, reason = "records of any length, linked without counting")]

use crate::mvcc::CommitCell;
use crate::sync::atomic::AtomicPtr;
use crate::sync::atomic::Ordering::{Acquire, Release};
use crate::types::entry::{Content, Kind};
use std::alloc::Layout;
use std::ptr::{NonNull, null_mut, slice_from_raw_parts};

#[repr(C)]
pub struct Header {
    older: Link,
    cell: AtomicPtr<CommitCell>,
    version: u64,
    value_len: u32,
    /// The key's length times 256, plus the kind.
    key_len_and_kind: u32,
}

/// A header with its bytes: the key, then the value.
#[repr(C)]
pub struct Record {
    header: Header,
    bytes: [u8],
}

/// The layout of a record whose key and value have `len` bytes together.
pub fn layout(len: usize) -> Layout {
    let header = Layout::new::<Header>();
    let bytes = (header.size() + len).next_multiple_of(header.align());
    // Keys and values are at most 1 GiB and 1 MiB.
    Layout::from_size_align(bytes, header.align()).unwrap_or_else(|_| unreachable!("a record fits in memory"))
}

impl Record {
    /// Writes a record without a link to an older one.
    ///
    /// # Safety
    /// `place` is valid for writes of `layout(key and value)`, aligned, and used by nobody else.
    pub unsafe fn write(place: NonNull<u8>, content: Content<'_>, cell: Option<&CommitCell>) -> RecordPtr {
        let Content { key, version, kind, value } = content;
        assert!(key.len() < 1 << 24 && value.len() <= u32::MAX as usize, "keys and values are limited");
        debug_assert!(matches!(kind, Kind::Put | Kind::Delete), "munks hold values and deletes of keys");
        let header = Header {
            older: Link::default(),
            cell: AtomicPtr::new(cell.map_or(null_mut(), |cell| std::ptr::from_ref(cell).cast_mut())),
            version,
            value_len: value.len() as u32,
            key_len_and_kind: (key.len() as u32) << 8 | kind as u32,
        };
        let place = place.cast::<Header>();
        // SAFETY: promised by the caller; header, key and value follow one another within the
        // layout.
        unsafe {
            place.write(header);
            let bytes = place.add(1).cast::<u8>();
            bytes.copy_from_nonoverlapping(NonNull::from(key).cast(), key.len());
            bytes.add(key.len()).copy_from_nonoverlapping(NonNull::from(value).cast(), value.len());
        }
        RecordPtr(place)
    }

    pub fn ptr(&self) -> RecordPtr {
        RecordPtr(NonNull::from(self).cast())
    }

    #[inline]
    pub fn key(&self) -> &[u8] {
        &self.bytes[..self.key_len()]
    }

    #[inline]
    pub fn value(&self) -> &[u8] {
        &self.bytes[self.key_len()..]
    }

    #[inline]
    fn key_len(&self) -> usize {
        (self.header.key_len_and_kind >> 8) as usize
    }

    pub fn version(&self) -> u64 {
        self.header.version
    }

    #[inline]
    pub fn kind(&self) -> Kind {
        if self.header.key_len_and_kind as u8 == Kind::Put as u8 { Kind::Put } else { Kind::Delete }
    }

    pub fn content(&self) -> Content<'_> {
        Content { key: self.key(), version: self.version(), kind: self.kind(), value: self.value() }
    }

    /// Bytes of the record in a block.
    pub fn size(&self) -> u64 {
        layout(self.bytes.len()).size() as u64
    }

    pub fn older(&self) -> &Link {
        &self.header.older
    }

    /// The cell of the record's batch, unless that is known to be committed.
    #[inline]
    pub fn cell(&self) -> Option<&CommitCell> {
        let cell = self.header.cell.load(Acquire);
        // SAFETY: null, or a cell that the munk holds for as long as the record points to it, and
        // longer for readers that reach the record through that munk.
        unsafe { cell.as_ref() }
    }

    /// Clears the cell, as the batch is committed.
    pub fn forget_cell(&self) {
        self.header.cell.store(null_mut(), Release);
    }

    /// Withdraws the record: its batch, which is not committed yet, writes another record of this
    /// key. This one never becomes visible.
    ///
    /// # Safety
    /// `never` lives as long as the munk, and is never committed.
    pub unsafe fn withdraw(&self, never: &CommitCell) {
        self.header.cell.store(std::ptr::from_ref(never).cast_mut(), Release);
    }
}

/// A pointer to a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordPtr(NonNull<Header>);

// SAFETY: it is followed only under `get`'s condition, and records may be read by any thread.
unsafe impl Send for RecordPtr {}
// SAFETY: as above.
unsafe impl Sync for RecordPtr {}

impl RecordPtr {
    /// # Safety
    /// The record's block, and the cell that it points to, live for `'a`.
    #[inline]
    pub unsafe fn get<'a>(self) -> &'a Record {
        // SAFETY: promised by the caller. `write` initialised as many bytes as the lengths say, and
        // the pointer was derived from the block, so it may be used for the whole record.
        unsafe {
            let header = self.0.as_ref();
            let len = (header.key_len_and_kind >> 8) as usize + header.value_len as usize;
            &*(slice_from_raw_parts(self.0.as_ptr().cast::<u8>(), len) as *const Record)
        }
    }

    pub fn address(self) -> usize {
        self.0.as_ptr().addr()
    }
}

/// A link to a record, or to none.
pub struct Link(AtomicPtr<Header>);

impl Default for Link {
    fn default() -> Self {
        Self(AtomicPtr::new(null_mut()))
    }
}

impl Link {
    #[inline]
    pub fn get(&self) -> Option<&Record> {
        // SAFETY: the caller of `set` promised that the record outlives this link.
        NonNull::new(self.0.load(Acquire)).map(|record| unsafe { RecordPtr(record).get() })
    }

    /// Links to a record that has been written, and publishes it to readers of the link.
    ///
    /// # Safety
    /// The record, everything that can be reached from it, and their cells outlive this link.
    pub unsafe fn set(&self, record: Option<RecordPtr>) {
        self.0.store(record.map_or(null_mut(), |record| record.0.as_ptr()), Release);
    }
}
