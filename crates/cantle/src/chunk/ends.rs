//! Where the keys of a log's part begin and end.
//!
//! What writes a part knows them. Of a part of an earlier epoch they are learnt when its index is read first, so that
//! gets and scans pass over the parts that have nothing for them. Parts do without where the budget has no more room
//! for them: then filters and indexes are asked.

use super::indexed_part::{IndexedPart, decode_place};
use super::memory_part::MemoryHit;
use super::parts::Parts;
use super::segment::Segment;
use crate::block::BlockCursor;
use crate::format::codec::Decoder;
use crate::log::LogMemory;
use crate::log::env::LogEnv;
use crate::memory::account::Charge;
use crate::types::entry::EntryRef;
use crate::types::error::Result;

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

/// Reads the ends of an indexed part, if they are not known yet and it has an index: its root and its first block.
pub fn learn(env: &LogEnv, segment: &Segment, parts: &Parts, part: &IndexedPart) -> Result<()> {
    if part.ends.get().is_some() || part.root.len == 0 || !env.memory.has_room_for_ends() {
        return Ok(());
    }
    let cursor = |place| -> Result<BlockCursor> {
        let block = segment.index_block(env, &parts.header, place)?;
        Ok(BlockCursor::new(block, env.order.clone()))
    };
    let malformed = |place| segment.malformed_block(place);
    let mut roots = cursor(part.root)?;
    roots.seek_to_last().map_err(malformed(part.root))?;
    let Some(last_key) = roots.entry().map(|entry| entry.key.to_vec()) else { return Ok(()) };
    roots.seek_to_first().map_err(malformed(part.root))?;
    let place = decode_place(&mut Decoder::new(roots.value_bytes())).map_err(malformed(part.root))?;
    let mut block = cursor(place)?;
    block.seek_to_first().map_err(malformed(place))?;
    let Some(entry) = block.entry() else { return Ok(()) };
    let at = decode_place(&mut Decoder::new(block.value_bytes())).map_err(malformed(place))?;
    let first = MemoryHit { kind: entry.kind, version: entry.version, place: at };
    if let Some(ends) = Ends::new(&env.memory, entry.key, first, &last_key) {
        // Whoever was first read the same.
        if part.ends.set(ends).is_ok() {
            parts.note_ends();
        }
    }
    Ok(())
}
