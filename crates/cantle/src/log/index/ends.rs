//! Where the keys of a log's part begin and end.
//!
//! What writes a part knows them. Of a part of an earlier epoch they are learnt when its index is read first, so that
//! gets and scans pass over the parts that have nothing for them. Parts do without where the budget has no more room
//! for them: then filters and indexes are asked.

use crate::log::LogMemory;
use crate::log::index::memory_part::MemoryHit;
use crate::memory::account::Charge;
use crate::types::entry::EntryRef;

/// What the allocator takes for the keys beside them.
const ALLOCATION_BYTES: usize = 16;

/// The first entry of a part's index, and its last key.
#[derive(Debug)]
pub struct Ends {
    /// The first and the last, one behind the other.
    keys: Box<[u8]>,
    first_key_len: usize,
    pub first: MemoryHit,
    _taken: Charge,
}

impl Ends {
    /// `None` where memory does not suffice.
    pub fn new(memory: &LogMemory, first_key: &[u8], first: MemoryHit, last_key: &[u8]) -> Option<Self> {
        let bytes = first_key.len() + last_key.len() + size_of::<Self>() + ALLOCATION_BYTES;
        let taken = memory.views.charge(bytes as u64)?;
        let keys = [first_key, last_key].concat().into_boxed_slice();
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
