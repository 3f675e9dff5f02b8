//! Blocks: prefix-compressed entries with restart points. Data and index blocks of tables and the index of a
//! log have this form.
//!
//! ```text
//!   entry*  restart offset (u32)*  restart count (u32)
//!
//!   entry:  varint shared · 8 + kind │ varint suffix length │ varint version − base │ varint value length │
//!           suffix │ value
//! ```
//!
//! `shared` is the number of leading bytes that the key has in common with the previous entry's. A
//! restart point is an entry that shares none, so that reading can start there. At most
//! [`RESTART_ENTRIES_MAX`] entries lie between restart points.
//!
//! Invariants of a parsed [`Block`]: the first restart point is at offset 0 unless there is no entry; restart
//! points ascend and lie before the end of the entries. Everything else is checked as it is decoded, so that
//! any bytes at all give entries or [`Malformed`], never a panic, an endless walk, or a key longer than
//! [`KEY_BYTES_MAX`].
//!
//! Thread safety: a block is immutable; builders, probes and cursors belong to one thread.

mod builder;
mod cursor;
mod probe;

pub(crate) use builder::BlockBuilder;
pub(crate) use cursor::BlockCursor;
pub(crate) use probe::Probe;

use crate::format::codec::{Decoder, Malformed};
use crate::format::limits::KEY_BYTES_MAX;
use crate::types::entry::Kind;
use crate::types::order::KeyOrder;
use bytes::Bytes;
use std::cmp::Ordering;
use std::ops::Range;

/// Maximum number of entries from one restart point to the next. Fewer make searches faster and
/// blocks larger.
pub(crate) const RESTART_ENTRIES_MAX: usize = 16;

const KIND_BITS: u32 = 3;
const OFFSET_BYTES: usize = 4;

/// A parsed block.
#[derive(Debug)]
pub(crate) struct Block {
    bytes: Bytes,
    /// Offset at which the entries end and the restart offsets begin.
    entries_end: usize,
    restarts: usize,
    base_version: u64,
}

/// One entry as it stands in the block. The first `shared` bytes of its key are those of the
/// previous entry's key.
#[derive(Debug, Clone)]
struct RawEntry {
    shared: usize,
    kind: Kind,
    version: u64,
    suffix: Range<usize>,
    /// The next entry begins at the end of this range.
    value: Range<usize>,
}

impl Block {
    /// Checks the restart points of a block and adopts its bytes. Versions are differences to
    /// `base_version`.
    pub(crate) fn parse(bytes: Bytes, base_version: u64) -> Result<Self, Malformed> {
        let (rest, count) = bytes
            .split_last_chunk::<OFFSET_BYTES>()
            .ok_or(Malformed("a block is too short for its restart count"))?;
        let restarts = u32::from_le_bytes(*count) as usize;
        let entries_end = restarts
            .checked_mul(OFFSET_BYTES)
            .and_then(|array_bytes| rest.len().checked_sub(array_bytes))
            .ok_or(Malformed("a block is too short for its restart points"))?;
        let block = Self { bytes, entries_end, restarts, base_version };
        if restarts == 0 {
            return if entries_end == 0 {
                Ok(block)
            } else {
                Err(Malformed("a block has entries but no restart point"))
            };
        }
        let mut end = 0;
        for index in 0..restarts {
            let offset = block.restart(index);
            if offset < end || offset >= entries_end || (index == 0 && offset != 0) {
                return Err(Malformed("the restart points of a block are out of order or range"));
            }
            end = offset + 1;
        }
        Ok(block)
    }

    /// Memory that the block keeps alive, in bytes.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.bytes.len() + size_of::<Self>()
    }

    /// The bytes of a range in an entry, sharing the block's memory.
    #[inline]
    pub(crate) fn slice(&self, range: Range<usize>) -> Bytes {
        self.bytes.slice(range)
    }

    /// As `slice`, without sharing: for values that are used at once.
    #[inline]
    pub(crate) fn bytes(&self, range: Range<usize>) -> &[u8] {
        &self.bytes[range]
    }

    /// The offset of a restart point. `index` must be below `self.restarts`.
    #[inline]
    fn restart(&self, index: usize) -> usize {
        let at = self.entries_end + index * OFFSET_BYTES;
        match self.bytes[at..].first_chunk::<OFFSET_BYTES>() {
            Some(offset) => u32::from_le_bytes(*offset) as usize,
            None => self.entries_end, // unreachable: parse counted the offsets
        }
    }

    /// Decodes the entry at `offset`, which must not be greater than the end of the entries; `None`
    /// at the end. All ranges of the result are within the entries, and the entry ends after
    /// `offset`.
    #[inline]
    fn entry_at(&self, offset: usize) -> Result<Option<RawEntry>, Malformed> {
        let entries = &self.bytes[..self.entries_end];
        if offset >= entries.len() {
            return Ok(None);
        }
        let mut rest = &entries[offset..];
        let head = varint(&mut rest)?;
        let suffix_bytes = length(varint(&mut rest)?);
        let version = varint(&mut rest)?;
        let value_bytes = length(varint(&mut rest)?);
        let kind = Kind::in_table((head & ((1 << KIND_BITS) - 1)) as u8)
            .ok_or(Malformed("an entry is of unknown kind"))?;
        let shared = length(head >> KIND_BITS);
        if shared > KEY_BYTES_MAX || suffix_bytes > KEY_BYTES_MAX - shared {
            return Err(Malformed("a key exceeds 1 MiB"));
        }
        let version = self.base_version.checked_add(version).ok_or(Malformed("a version exceeds 64 bits"))?;
        let room = rest.len();
        let start = entries.len() - room;
        if suffix_bytes > room || value_bytes > room - suffix_bytes {
            return Err(Malformed("an entry reaches beyond the end of its block"));
        }
        let suffix = start..start + suffix_bytes;
        let value = suffix.end..suffix.end + value_bytes;
        Ok(Some(RawEntry { shared, kind, version, suffix, value }))
    }

    /// The offset of the last restart point whose entry is before (`key`, `version`), or of the
    /// first one if none is. A walk from there finds the first entry at or after (`key`,
    /// `version`).
    #[inline]
    fn restart_before(&self, order: &KeyOrder, key: &[u8], version: u64) -> Result<usize, Malformed> {
        if self.restarts == 0 {
            return Ok(0);
        }
        let (mut low, mut high) = (0, self.restarts);
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            let entry =
                self.entry_at(self.restart(middle))?.ok_or(Malformed("a restart point has no entry"))?;
            if entry.shared != 0 {
                return Err(Malformed("a restart point does not hold a whole key"));
            }
            if entry_order(order, &self.bytes[entry.suffix], entry.version, key, version) == Ordering::Less {
                low = middle;
            } else {
                high = middle;
            }
        }
        Ok(self.restart(low))
    }

    /// The offset of the last restart point before `offset`, which must be above 0.
    fn restart_before_offset(&self, offset: usize) -> usize {
        let (mut low, mut high) = (0, self.restarts);
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if self.restart(middle) < offset { low = middle } else { high = middle }
        }
        self.restart(low)
    }
}

/// The next varint. Most have one byte, which gets a fast path: a search decodes dozens.
#[inline(always)]
fn varint(rest: &mut &[u8]) -> Result<u64, Malformed> {
    if let [byte @ 0..0x80, tail @ ..] = rest {
        let value = u64::from(*byte);
        *rest = tail;
        return Ok(value);
    }
    let mut decoder = Decoder::new(rest);
    let value = decoder.varint()?;
    *rest = decoder.rest();
    Ok(value)
}

/// A length as `usize`. A number that exceeds the address space exceeds every block.
#[inline]
fn length(value: u64) -> usize {
    usize::try_from(value).unwrap_or(usize::MAX)
}

/// The order of entries: keys ascending, the versions of a key newest first.
#[inline]
pub(crate) fn entry_order(order: &KeyOrder, a: &[u8], a_version: u64, b: &[u8], b_version: u64) -> Ordering {
    order.compare(a, b).then_with(|| b_version.cmp(&a_version))
}

/// Number of leading bytes that two strings have in common.
#[inline]
pub(crate) fn shared_prefix(a: &[u8], b: &[u8]) -> usize {
    let words = a.chunks_exact(8).zip(b.chunks_exact(8)).take_while(|(a, b)| a == b).count() * 8;
    words + a[words..].iter().zip(&b[words..]).take_while(|(a, b)| a == b).count()
}

#[cfg(test)]
pub(crate) mod model;
#[cfg(test)]
mod tests;
