//! Estimates the bytes of runs that belong to a key range, without reading pairs.
//!
//! Each file counts with its share of bytes that belongs to keys within the bounds. For a table,
//! the index and the blocks at both ends of the range give the range's position in the file. The
//! records of a log are in the order in which they were written. Their keys and lengths are in the
//! indexes of its parts: all index blocks are read if they are few, and a sample if they are many.
//! The shares of neighbouring ranges thus add up to one, and a range without keys has none.
//!
//! *Cost.* One block at each end of the range for each table; for each log, [`LOG_BLOCKS_MAX`] blocks of indexes, or two
//! for each part, whichever is more, and its part in memory.

use super::env::RunEnv;
use super::run::{Run, Source};
use crate::block::BlockCursor;
use crate::format::codec::Decoder;
use crate::log::index::indexed_part::{IndexedPart, decode_place};
use crate::log::index::parts::Parts;
use crate::log::segment::Segment;
use crate::sync::Arc;
use crate::table::TableHandle;
use crate::types::bounds::Bounds;
use crate::types::error::Result;
use crate::types::gap::Gap;
use crate::types::order::KeyOrder;
use crate::types::span::Span;
use std::cmp::Ordering;
use std::ops::Bound;

/// Maximum number of index blocks of a log that are read for one estimate: 1 MiB, or some
/// milliseconds.
const LOG_BLOCKS_MAX: usize = 256;
/// Minimum number of blocks read of each part, even if there are many parts.
const PART_BLOCKS_MIN: usize = 2;
/// Parts without indexes are read from end to end, as by gets. At most this many are read, as a
/// sample of the others.
const PARTS_READ_MAX: usize = 4;

/// The bytes of runs that were not dropped.
pub fn whole(runs: &[Run]) -> Result<u64> {
    runs.iter().filter(|file| file.dropped.is_none()).map(bytes_of).sum()
}

/// Bytes of a run, with the values in logs that it refers to. If no one has read a log since its writer was
/// killed, only its file has the length.
fn bytes_of(file: &Run) -> Result<u64> {
    match (&file.source, file.share_bytes) {
        (Source::Log(segment), None) => segment.file_len(),
        _ => Ok(file.whole_bytes()),
    }
}

/// Bytes of records by their keys.
struct Weights<'a> {
    order: &'a KeyOrder,
    /// Only keys within this span count.
    span: &'a Span,
    bounds: &'a Bounds,
    within: f64,
    all: f64,
}

impl<'a> Weights<'a> {
    fn new(order: &'a KeyOrder, span: &'a Span, bounds: &'a Bounds) -> Self {
        Self { order, span, bounds, within: 0.0, all: 0.0 }
    }

    fn add(&mut self, key: &[u8], bytes: u64) {
        if self.span.contains(self.order, key) {
            self.all += bytes as f64;
            if side_of(self.order, self.bounds, key).is_eq() {
                self.within += bytes as f64;
            }
        }
    }

    /// Adds a sample that represents `factor` times as much.
    fn add_scaled(&mut self, sample: &Self, factor: f64) {
        self.all += sample.all * factor;
        self.within += sample.within * factor;
    }

    fn share(&self) -> f64 {
        if self.all > 0.0 { self.within / self.all } else { 0.0 }
    }

    /// Adds a part as a whole if its keys are on one side of each end of the bounds and of the
    /// span. False if that is not known.
    fn add_whole(&mut self, part: &IndexedPart) -> bool {
        let Some((first, last)) = part.known_keys() else { return false };
        if !self.span.contains(self.order, first) || !self.span.contains(self.order, last) {
            return part.is_outside(self.order, self.span);
        }
        let side = side_of(self.order, self.bounds, first);
        // A part that begins after the start of the bounds lies after it, and one that ends before
        // their end lies before it.
        let is_one = match side {
            Ordering::Greater => true,
            side => side_of(self.order, self.bounds, last) == side,
        };
        if is_one {
            let bytes = part.end.saturating_sub(part.start) as f64;
            self.all += bytes;
            self.within += if side.is_eq() { bytes } else { 0.0 };
        }
        is_one
    }
}

/// `Less` for a key before the bounds, `Equal` within them, `Greater` after them.
fn side_of(order: &KeyOrder, bounds: &Bounds, key: &[u8]) -> Ordering {
    let is_before = match &bounds.start {
        Bound::Included(start) => order.compare(key, start).is_lt(),
        Bound::Excluded(start) => order.compare(key, start).is_le(),
        Bound::Unbounded => false,
    };
    let is_behind = || match &bounds.end {
        Bound::Included(end) => order.compare(key, end).is_gt(),
        Bound::Excluded(end) => order.compare(key, end).is_ge(),
        Bound::Unbounded => false,
    };
    match is_before {
        true => Ordering::Less,
        false if is_behind() => Ordering::Greater,
        false => Ordering::Equal,
    }
}

/// The bytes of runs for keys within the bounds, garbage included. The bounds cover their spans
/// in part.
pub fn within(env: &RunEnv, runs: &[Run], bounds: &Bounds) -> Result<u64> {
    let mut bytes = 0;
    for file in runs.iter().filter(|file| file.dropped.is_none()) {
        let share = match &file.source {
            Source::Log(segment) => share_of_log(env, segment, &file.span, bounds)?,
            Source::Table(table) => share_of_table(env, table, &file.span, bounds)?,
        };
        bytes += (bytes_of(file)? as f64 * share) as u64;
    }
    Ok(bytes)
}

fn share_of_table(env: &RunEnv, handle: &TableHandle, span: &Span, bounds: &Bounds) -> Result<f64> {
    let table = handle.open(&env.tables, &env.files, &env.order, &env.cache)?;
    let data = table.data();
    let key_place =
        |key: Option<&[u8]>, otherwise| key.map_or(Ok(otherwise), |key| table.place_of(key, false));
    let from = key_place(span.start.as_deref(), data.start)?;
    let to = key_place(span.end.as_deref(), data.end)?;
    let start = match &bounds.start {
        Bound::Included(key) => table.place_of(key, false)?,
        Bound::Excluded(key) => table.place_of(key, true)?,
        Bound::Unbounded => from,
    };
    let end = match &bounds.end {
        Bound::Included(key) => table.place_of(key, true)?,
        Bound::Excluded(key) => table.place_of(key, false)?,
        Bound::Unbounded => to,
    };
    let bytes = end.min(to).saturating_sub(start.max(from));
    Ok(if to > from { bytes as f64 / (to - from) as f64 } else { 0.0 })
}

/// The place between keys of a run as a place in its file, in bytes. `None` for a log that was not written in
/// key order, or has no index yet.
pub fn place_in(env: &RunEnv, run: &Run, gap: Gap<'_>) -> Result<Option<u64>> {
    match &run.source {
        Source::Table(table) => {
            let table = table.open(&env.tables, &env.files, &env.order, &env.cache)?;
            let place = match gap {
                Gap::First => table.data().start,
                Gap::Before(key) => table.place_of(key, false)?,
                Gap::Behind(key) => table.place_of(key, true)?,
                Gap::Last => table.data().end,
            };
            Ok(Some(place))
        }
        Source::Log(segment) => {
            let parts = segment.parts(env)?;
            let is_whole = parts.memory.as_ref().is_none_or(|memory| memory.is_empty());
            let [part] = &parts.indexed[..] else { return Ok(None) };
            if !is_whole || part.root.len == 0 || !part.is_in_key_order() {
                return Ok(None);
            }
            let place = match gap {
                Gap::First => 0,
                Gap::Before(key) | Gap::Behind(key) => bytes_upto(env, segment, &parts, part, key)?,
                Gap::Last => part.end - part.start,
            };
            Ok(Some(place))
        }
    }
}

/// Bytes of a log in key order up to a key, or a little more. The operations without a stretch are divided
/// among the blocks.
pub fn bytes_upto(
    env: &RunEnv,
    segment: &Segment,
    parts: &Parts,
    part: &IndexedPart,
    key: &[u8],
) -> Result<u64> {
    let malformed = segment.malformed_block(part.root);
    let root = segment.index_block(env, &parts.header, part.root)?;
    let mut root = BlockCursor::new(root, env.order.clone());
    root.seek_to_first().map_err(&malformed)?;
    // Bytes of all stretches and of all blocks, and of those up to the key.
    let (mut stretches, mut blocks, mut upto) = (0_u64, 0_u64, None);
    while let Some(entry) = root.entry() {
        let is_last = upto.is_none() && env.order.compare(entry.key, key).is_ge();
        let place = decode_place(&mut Decoder::new(root.value_bytes())).map_err(&malformed)?;
        // A place behind the operations is a block.
        match place.offset < part.end {
            true => stretches += u64::from(place.len),
            false => blocks += u64::from(place.len),
        }
        if is_last {
            upto = Some((stretches, blocks));
        }
        root.next().map_err(&malformed)?;
    }
    let part_bytes = part.end - part.start;
    let per_block_byte = part_bytes.saturating_sub(stretches) as f64 / blocks.max(1) as f64;
    let bytes = |(stretches, blocks)| stretches + (blocks as f64 * per_block_byte) as u64;
    Ok(upto.map_or(part_bytes, bytes))
}

fn share_of_log(env: &RunEnv, segment: &Segment, span: &Span, bounds: &Bounds) -> Result<f64> {
    let parts = segment.parts(env)?;
    let mut weights = Weights::new(&env.order, span, bounds);
    if let Some(memory) = &parts.memory {
        memory.for_each_length(|key, bytes| weights.add(key, bytes.into()));
    }
    let is_indexed = |part: &&Arc<IndexedPart>| part.root.len > 0;
    let mixed: Vec<_> = parts.indexed.iter().filter(|part| !weights.add_whole(part)).collect();
    let (indexed, others): (Vec<_>, Vec<_>) = mixed.into_iter().partition(is_indexed);
    let blocks = (LOG_BLOCKS_MAX / indexed.len().max(1)).max(PART_BLOCKS_MIN);
    for (number, part) in indexed.into_iter().enumerate() {
        weigh_part(env, segment, &parts, part, (number, blocks), &mut weights)?;
    }
    weigh_unindexed(segment, &parts, &others, &mut weights)?;
    Ok(weights.share())
}

/// Reads up to `blocks_max` blocks of a part's index. The first block depends on the part's
/// number, so that samples differ.
fn weigh_part(
    env: &RunEnv,
    segment: &Segment,
    parts: &Parts,
    part: &IndexedPart,
    (number, blocks_max): (usize, usize),
    weights: &mut Weights<'_>,
) -> Result<()> {
    let cursor = |place| -> Result<BlockCursor> {
        let block = segment.index_block(env, &parts.header, place)?;
        Ok(BlockCursor::new(block, env.order.clone()))
    };
    let mut places = Vec::new();
    let malformed = segment.malformed_block(part.root);
    let mut root = cursor(part.root)?;
    root.seek_to_first().map_err(&malformed)?;
    while root.entry().is_some() {
        places.push(decode_place(&mut Decoder::new(root.value_bytes())).map_err(&malformed)?);
        root.next().map_err(&malformed)?;
    }
    let step = places.len().div_ceil(blocks_max).max(1);
    let mut sample = Weights::new(weights.order, weights.span, weights.bounds);
    let mut looked_at = 0;
    for &place in places.iter().skip(number % step).step_by(step) {
        let malformed = segment.malformed_block(place);
        let mut block = cursor(place)?;
        block.seek_to_first().map_err(&malformed)?;
        while let Some(entry) = block.entry() {
            let record = decode_place(&mut Decoder::new(block.value_bytes())).map_err(&malformed)?;
            sample.add(entry.key, record.len.into());
            block.next().map_err(&malformed)?;
        }
        looked_at += 1;
    }
    if looked_at > 0 {
        weights.add_scaled(&sample, places.len() as f64 / f64::from(looked_at));
    }
    Ok(())
}

/// Reads some of these parts from end to end.
fn weigh_unindexed(
    segment: &Segment,
    parts: &Parts,
    unindexed: &[&Arc<IndexedPart>],
    weights: &mut Weights<'_>,
) -> Result<()> {
    let step = unindexed.len().div_ceil(PARTS_READ_MAX).max(1);
    let mut sample = Weights::new(weights.order, weights.span, weights.bounds);
    let mut read = 0;
    for part in unindexed.iter().step_by(step) {
        segment.scan_part(&parts.header, part, |place, op| {
            if op.kind != crate::types::entry::Kind::DeleteRange {
                sample.add(op.key, place.len.into());
            }
            Ok(())
        })?;
        read += 1;
    }
    if read > 0 {
        weights.add_scaled(&sample, unindexed.len() as f64 / f64::from(read));
    }
    Ok(())
}
