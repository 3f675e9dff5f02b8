//! The first and the last key of a log's part.
//!
//! The writer of a part knows them. For a part of an earlier epoch they are read from its index
//! when it is first used, so that gets and scans skip parts without keys for them. If the budget
//! has no room, parts do without them: then filters and indexes are read instead.

use crate::log::LogMemory;
use crate::log::index::memory_part::MemoryHit;
use crate::memory::account::Charge;
use crate::types::entry::EntryRef;
use smallvec::SmallVec;

/// Bytes that the allocator adds to long keys.
const ALLOCATION_BYTES: usize = 16;
/// Maximum length in bytes of first and last key together for which they are stored in the struct
/// itself: a get compares its key with the ends of every part of a log.
const SHORT_BYTES: usize = 32;

/// The first entry of a part's index, and its last key.
#[derive(Debug)]
pub struct Ends {
    /// The first key followed by the last.
    keys: SmallVec<[u8; SHORT_BYTES]>,
    first_key_len: usize,
    pub first: MemoryHit,
    _taken: Charge,
}

impl Ends {
    /// `None` if the budget has no room.
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
