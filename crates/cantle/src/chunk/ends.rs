//! Where the keys of a log's part begin and end.
//!
//! What writes a part knows them. Of a part of an earlier epoch they are learnt when its index is read first, so that
//! gets and scans pass over the parts that have nothing for them.

use super::context::Context;
use super::indexed_part::{IndexedPart, decode_place};
use super::memory_part::MemoryHit;
use super::segment::{Parts, Segment};
use crate::entry::EntryRef;
use crate::error::Result;
use crate::format::codec::Decoder;
use crate::table::block::BlockCursor;
use bytes::Bytes;

/// The first entry of a part's index, and its last key.
#[derive(Debug, Clone)]
pub struct Ends {
    pub first_key: Bytes,
    pub first: MemoryHit,
    pub last_key: Bytes,
}

impl Ends {
    pub fn first_entry(&self) -> EntryRef<'_> {
        EntryRef { key: &self.first_key, version: self.first.version, kind: self.first.kind }
    }
}

/// Reads the ends of an indexed part, if they are not known yet and it has an index: its root and its first block.
pub fn learn(context: &Context, segment: &Segment, parts: &Parts, part: &IndexedPart) -> Result<()> {
    if part.ends.get().is_some() || part.root.len == 0 {
        return Ok(());
    }
    let cursor = |place| -> Result<BlockCursor> {
        let block = segment.index_block(context, &parts.header, place)?;
        Ok(BlockCursor::new(block, context.order.clone()))
    };
    let malformed = |place| segment.malformed_block(place);
    let mut roots = cursor(part.root)?;
    roots.seek_to_last().map_err(malformed(part.root))?;
    let Some(last_key) = roots.entry().map(|entry| Bytes::copy_from_slice(entry.key)) else {
        return Ok(());
    };
    roots.seek_to_first().map_err(malformed(part.root))?;
    let place = decode_place(&mut Decoder::new(roots.value_bytes())).map_err(malformed(part.root))?;
    let mut block = cursor(place)?;
    block.seek_to_first().map_err(malformed(place))?;
    let Some(entry) = block.entry() else { return Ok(()) };
    let at = decode_place(&mut Decoder::new(block.value_bytes())).map_err(malformed(place))?;
    let first = MemoryHit { kind: entry.kind, version: entry.version, place: at };
    let ends = Ends { first_key: Bytes::copy_from_slice(entry.key), first, last_key };
    // Whoever was first read the same.
    let _ = part.ends.set(ends);
    Ok(())
}
