//! Reading the ends of parts from their indexes.

use crate::block::BlockCursor;
use crate::fetch::Fetch;
use crate::format::codec::Decoder;
use crate::format::header::FileHeader;
use crate::log::env::LogEnv;
use crate::log::index::ends::Ends;
use crate::log::index::indexed_part::{IndexedPart, decode_place};
use crate::log::index::memory_part::MemoryHit;
use crate::log::segment::Segment;
use crate::types::error::Result;

/// Reads the ends of an indexed part, if they are not known yet and it has an index: its root and its first block.
pub fn learn<F: Fetch>(
    env: &LogEnv,
    segment: &Segment,
    header: &FileHeader,
    part: &IndexedPart,
    fetch: &F,
) -> Result<(), F::Stop> {
    if part.ends.get().is_some() || part.root.len == 0 || !env.memory.has_room_for_ends() {
        return Ok(());
    }
    let cursor = |place| -> Result<BlockCursor, F::Stop> {
        let block = segment.fetch_index_block(env, header, place, fetch)?;
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
        // Another thread may have set the same ends.
        let _ = part.ends.set(ends);
    }
    Ok(())
}
