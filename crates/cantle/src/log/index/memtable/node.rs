//! The memory layout of the skip list's nodes in the arena.
//!
//! ```text
//!   ┌──────┬────────────┬────────────┬─────────┬────────┬─────────────────┬────────┬──────┬───────────┬─────┬───────┐
//!   │ meta │ record len │ offset, 32 │ version │ links  │ [upper halves]  │[prefix]│[cell]│[value len]│ key │[value]│
//!   └──────┴────────────┴────────────┴─────────┴────────┴─────────────────┴────────┴──────┴───────────┴─────┴───────┘
//!      4         4            4           4      4 each     4 and 4           8        8        4
//! ```
//!
//! `meta` has the kind, the number of links, a flag for each optional field, the key's length, and
//! eight more bits of the place's offset. Key and value of a long node lie apart; then their
//! address and the key's length stand in their place. The version is stored relative to a
//! [base](BaseVersion) of the list. If a version or an offset is too large for its field, its upper
//! half has a field of its own.
//!
//! Invariants:
//! * All fields but the links are written before a link to the node is set, and do not change after
//!   that.
//! * A node lives as long as its arena, and so does memory that lies apart.
//!
//! Thread safety: a link is set with `Release` and followed with `Acquire`, which shows the reader the node's bytes.
#![expect(unsafe_code, reason = "nodes of any length, written where they lie")]

use super::arena::{Arena, Full};
use crate::log::index::record_ptr::RecordPtr;
use crate::mvcc::CommitCell;
use crate::sync::atomic::AtomicU32;
use crate::types::entry::Kind;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::sync::OnceLock;

/// Maximum number of links of a node: with one of four nodes on each next level, enough for 16 M
/// nodes.
pub const LINKS_MAX: usize = 12;
/// Key and value lie apart from their node if they are together longer than this, in bytes.
const NEAR_BYTES_MAX: usize = 4 << 10;
/// Maximum key length of a list: longer than any that a store accepts.
pub const KEY_BYTES_MAX: usize = u32::MAX as usize;

const KIND_MASK: u32 = 0b111;
const LINKS_SHIFT: u32 = 3;
const LINKS_MASK: u32 = 0b1111;
const HAS_PREFIX: u32 = 1 << 7;
const HAS_CELL: u32 = 1 << 8;
const HAS_VALUE: u32 = 1 << 9;
const IS_APART: u32 = 1 << 10;
const IS_FAR: u32 = 1 << 11;
const KEY_LEN_SHIFT: u32 = 12;
const KEY_LEN_MASK: u32 = 0xfff;
const OFFSET_SHIFT: u32 = 24;
/// Offsets from here on need the field of upper halves, as do versions this far from the base.
const FAR_OFFSET: u64 = 1 << 40;
const FAR_VERSION: u64 = 1 << 32;

/// A key that is longer than its length's field allows always lies apart.
const _: () = assert!(LINKS_MAX <= LINKS_MASK as usize && KEY_LEN_MASK as usize + 1 == NEAR_BYTES_MAX);

const LEN_AT: usize = 4;
const OFFSET_AT: usize = 8;
const VERSION_AT: usize = 12;
const LINKS_AT: usize = 16usize.next_multiple_of(align_of::<AtomicU32>());

/// The version that is subtracted from all versions of a list. It is below that of the first
/// operation by half of the field's range, as several threads may insert in another order.
#[derive(Default)]
pub struct BaseVersion(OnceLock<u64>);

impl BaseVersion {
    #[inline]
    fn get(&self) -> u64 {
        self.0.get().copied().unwrap_or(0)
    }

    fn get_or_set(&self, version: u64) -> u64 {
        *self.0.get_or_init(|| version.saturating_sub(FAR_VERSION / 2))
    }
}

/// An operation to be inserted.
pub struct Item<'a> {
    pub key: &'a [u8],
    pub version: u64,
    pub kind: Kind,
    pub place: RecordPtr,
    /// Shared with the other operations of its batch. `None` if the operation is committed.
    pub cell: Option<CommitCell>,
    /// The value, if the list is to store it.
    pub value: Option<&'a [u8]>,
}

/// A node in the arena, with all its bytes readable.
#[derive(Clone, Copy)]
pub struct Node {
    start: NonNull<u8>,
    meta: u32,
}

/// Writes a node to memory of the arena and returns its offset. Its links are 0.
pub fn write(
    (arena, base): (&Arena, &BaseVersion),
    item: Item<'_>,
    links: usize,
    prefix: Option<u64>,
) -> Result<u32, Full> {
    let Item { key, version, kind, place, cell, value } = item;
    assert!((1..=LINKS_MAX).contains(&links) && key.len() <= KEY_BYTES_MAX, "checked by the list");
    let bytes_len = key.len() + value.map_or(0, <[u8]>::len);
    let is_apart = bytes_len > NEAR_BYTES_MAX || key.len() > KEY_LEN_MASK as usize;
    // Wraps if the version is less than the base.
    let version = version.wrapping_sub(base.get_or_set(version));
    let is_far = place.offset >= FAR_OFFSET || version >= FAR_VERSION;
    let flag = |is_set: bool, flag: u32| if is_set { flag } else { 0 };
    let meta = kind as u32
        | (links as u32) << LINKS_SHIFT
        | flag(prefix.is_some(), HAS_PREFIX)
        | flag(cell.is_some(), HAS_CELL)
        | flag(value.is_some(), HAS_VALUE)
        | flag(is_apart, IS_APART)
        | flag(is_far, IS_FAR)
        | if is_apart { 0 } else { (key.len() as u32) << KEY_LEN_SHIFT }
        | ((place.offset >> 32) as u32) << OFFSET_SHIFT;
    let body_at = body_at(meta);
    let near_len = if is_apart { size_of::<NonNull<u8>>() + 4 } else { bytes_len };
    let allocation = arena.allocate(body_at + near_len)?;
    let start = allocation.start;
    let body = if is_apart {
        arena.allocate_apart(bytes_len)
    } else {
        // SAFETY: the node's allocation has a body of this length at this place.
        unsafe { start.add(body_at) }
    };
    // SAFETY: every field lies within the allocation at its place by `meta`, and no other thread
    // has the offset yet. Links are aligned, as the allocation is; the other fields need not be.
    // Key and value follow one another in the body, which has their length.
    unsafe {
        start.cast().write_unaligned(meta);
        start.add(LEN_AT).cast().write_unaligned(place.len);
        start.add(OFFSET_AT).cast().write_unaligned(place.offset as u32);
        start.add(VERSION_AT).cast().write_unaligned(version as u32);
        for link in 0..links {
            start.add(LINKS_AT).cast::<AtomicU32>().add(link).write(AtomicU32::new(0));
        }
        if is_far {
            start
                .add(far_at(meta))
                .cast()
                .write_unaligned([place.offset, version].map(|number| (number >> 32) as u32));
        }
        if let Some(prefix) = prefix {
            start.add(prefix_at(meta)).cast().write_unaligned(prefix);
        }
        if let Some(cell) = cell {
            start.add(cell_at(meta)).cast().write_unaligned(ManuallyDrop::new(cell));
        }
        if let Some(value) = value {
            // Values are at most 1 GiB.
            start.add(value_len_at(meta)).cast().write_unaligned(value.len() as u32);
            body.add(key.len()).copy_from_nonoverlapping(NonNull::from(value).cast(), value.len());
        }
        body.copy_from_nonoverlapping(NonNull::from(key).cast(), key.len());
        if is_apart {
            start.add(body_at).cast().write_unaligned(body);
            start.add(body_at + size_of::<NonNull<u8>>()).cast().write_unaligned(key.len() as u32);
        }
    }
    Ok(allocation.offset)
}

fn links_of(meta: u32) -> usize {
    ((meta >> LINKS_SHIFT) & LINKS_MASK) as usize
}

fn far_at(meta: u32) -> usize {
    LINKS_AT + links_of(meta) * size_of::<AtomicU32>()
}

fn prefix_at(meta: u32) -> usize {
    far_at(meta) + if meta & IS_FAR != 0 { 8 } else { 0 }
}

fn cell_at(meta: u32) -> usize {
    prefix_at(meta) + if meta & HAS_PREFIX != 0 { 8 } else { 0 }
}

fn value_len_at(meta: u32) -> usize {
    cell_at(meta) + if meta & HAS_CELL != 0 { size_of::<CommitCell>() } else { 0 }
}

/// Offset of key and value, or of their address.
#[inline]
fn body_at(meta: u32) -> usize {
    if meta & (IS_FAR | HAS_PREFIX | HAS_CELL | HAS_VALUE) == 0 {
        return far_at(meta);
    }
    value_len_at(meta) + if meta & HAS_VALUE != 0 { 4 } else { 0 }
}

impl Node {
    /// The node at an offset.
    ///
    /// # Safety
    /// `write` returned the offset for this arena, and a link showed it to this thread or this thread wrote it. The
    /// arena outlives the node.
    #[inline]
    pub unsafe fn at(arena: &Arena, offset: u32) -> Self {
        // SAFETY: promised by the caller.
        let start = unsafe { arena.at(offset) };
        // SAFETY: every node begins with `meta`.
        let meta = unsafe { start.cast().read_unaligned() };
        Self { start, meta }
    }

    /// # Safety
    /// The node has a field of this type at that place.
    #[inline]
    unsafe fn field<T>(self, at: usize) -> T {
        // SAFETY: promised by the caller; the field was written before the node was published.
        unsafe { self.start.add(at).cast().read_unaligned() }
    }

    #[inline]
    pub fn links(self) -> usize {
        links_of(self.meta)
    }

    /// # Safety
    /// The node has more than `level` links, and the arena lives for `'a`.
    #[inline]
    pub unsafe fn link<'a>(self, level: usize) -> &'a AtomicU32 {
        debug_assert!(level < self.links(), "a node is on the levels of its links only");
        // SAFETY: promised by the caller: this link lies there, aligned. Since it was written it is
        // only accessed as an atomic.
        unsafe { self.start.add(LINKS_AT).cast::<AtomicU32>().add(level).as_ref() }
    }

    /// Upper halves of the offset and of the version.
    #[inline]
    fn upper(self) -> [u32; 2] {
        if self.meta & IS_FAR == 0 {
            return [self.meta >> OFFSET_SHIFT, 0];
        }
        // SAFETY: as the flag says.
        unsafe { self.field(far_at(self.meta)) }
    }

    #[inline]
    pub fn version(self, base: &BaseVersion) -> u64 {
        // SAFETY: every node has this field.
        let low: u32 = unsafe { self.field(VERSION_AT) };
        (u64::from(self.upper()[1]) << 32 | u64::from(low)).wrapping_add(base.get())
    }

    #[inline]
    pub fn kind(self) -> Kind {
        Kind::from_u8((self.meta & KIND_MASK) as u8).unwrap_or(Kind::Delete)
    }

    pub fn place(self) -> RecordPtr {
        // SAFETY: every node has these two fields.
        let (len, low): (u32, u32) = unsafe { (self.field(LEN_AT), self.field(OFFSET_AT)) };
        RecordPtr { offset: u64::from(self.upper()[0]) << 32 | u64::from(low), len }
    }

    /// The prefix that was stored with the node.
    #[inline]
    pub fn prefix(self) -> Option<u64> {
        // SAFETY: as the flag says.
        (self.meta & HAS_PREFIX != 0).then(|| unsafe { self.field(prefix_at(self.meta)) })
    }

    /// True once the operation's batch is committed.
    #[inline]
    pub fn is_visible(self) -> bool {
        if self.meta & HAS_CELL == 0 {
            return true;
        }
        // SAFETY: as the flag says. The cell stays the node's own: the copy is not dropped.
        let cell: ManuallyDrop<CommitCell> = unsafe { self.field(cell_at(self.meta)) };
        cell.is_committed()
    }

    /// Drops the cell.
    ///
    /// # Safety
    /// Call it once, when nobody uses the node any more.
    pub unsafe fn drop_cell(self) {
        if self.meta & HAS_CELL != 0 {
            // SAFETY: as the flag says; nobody uses the cell from here on.
            drop(unsafe { self.field::<CommitCell>(cell_at(self.meta)) });
        }
    }

    /// The address of the key, which the value follows, and the key's length.
    #[inline]
    fn body(self) -> (NonNull<u8>, usize) {
        let at = body_at(self.meta);
        if self.meta & IS_APART == 0 {
            // SAFETY: within the node.
            return (unsafe { self.start.add(at) }, ((self.meta >> KEY_LEN_SHIFT) & KEY_LEN_MASK) as usize);
        }
        // SAFETY: as the flag says.
        let (body, len): (_, u32) = unsafe { (self.field(at), self.field(at + size_of::<NonNull<u8>>())) };
        (body, len as usize)
    }

    /// # Safety
    /// The arena lives for `'a`.
    #[inline]
    pub unsafe fn key<'a>(self) -> &'a [u8] {
        let (body, len) = self.body();
        // SAFETY: this many bytes were written before the node was published, and they do not
        // change.
        unsafe { std::slice::from_raw_parts(body.as_ptr(), len) }
    }

    /// The value, if it was written with the node.
    ///
    /// # Safety
    /// The arena lives for `'a`.
    pub unsafe fn value<'a>(self) -> Option<&'a [u8]> {
        if self.meta & HAS_VALUE == 0 {
            return None;
        }
        let (body, key_len) = self.body();
        // SAFETY: as the flag says; the value follows the key, as above.
        unsafe {
            let len: u32 = self.field(value_len_at(self.meta));
            Some(std::slice::from_raw_parts(body.add(key_len).as_ptr(), len as usize))
        }
    }
}
