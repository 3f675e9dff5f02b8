//! Where the keys of a log's part begin and end.
//!
//! What writes a part knows them. Of a part of an earlier epoch they are learnt when its index is read first, so that
//! gets and scans pass over the parts that have nothing for them. Parts do without where the budget has no more room
//! for them: then filters and indexes are asked.

use crate::log::LogMemory;
use crate::log::index::memory_part::MemoryHit;
use crate::memory::account::Charge;
use crate::types::entry::EntryRef;
use smallvec::SmallVec;

/// What the allocator takes for long keys beside them.
const ALLOCATION_BYTES: usize = 16;
/// The first and the last key of a part lie in its own memory if they are together no longer: a get compares its key with those of
/// each part of a log.
const SHORT_BYTES: usize = 32;

/// The first entry of a part's index, and its last key.
#[derive(Debug)]
pub struct Ends {
    /// The first and the last, one behind the other.
    keys: SmallVec<[u8; SHORT_BYTES]>,
    first_key_len: usize,
    pub first: MemoryHit,
    _taken: Charge,
}

impl Ends {
    /// `None` where memory does not suffice.
    pub fn new(memory: &LogMemory, first_key: &[u8], first: MemoryHit, last_key: &[u8]) -> Option<Self> {
        let key_bytes = first_key.len() + last_key.len();
        let allocated = if key_bytes > SHORT_BYTES { key_bytes + ALLOCATION_BYTES } else { 0 };
        let taken = memory.views.charge((size_of::<Self>() + allocated) as u64)?;
        let mut keys = SmallVec::with_capacity(key_bytes);
        keys.extend_from_slice(first_key);
        keys.extend_from_slice(last_key);
        Some(Self { keys, first_key_len: first_key.len(), first, _taken: taken })
    }

    pub fn first_key(&self) -> &[u8] {
        &self.keys[..self.first_key_len]
    }

    pub fn last_key(&self) -> &[u8] {
        &self.keys[self.first_key_len..]
    }

    pub fn first_entry(&self) -> EntryRef<'_> {
        EntryRef { key: self.first_key(), version: self.first.version, kind: self.first.kind }
    }
}
