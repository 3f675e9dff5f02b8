//! A sorted view of the indexed parts of a log: one index in the place of many.
//!
//! After REMIX (FAST '21), which stores the merged order of the entries of several sorted runs.
//! Here only the indexes of logs are merged, not the tables below, as a chunk has many parts of
//! logs and mostly one table:
//!
//! ```text
//!   part ends   │ c f k │ a f t │ b k m │      a scan without a view: a cursor in each, merged
//!                   ╲       │      ╱
//!   view          a b c f k m t → places       with it: one cursor
//! ```
//!
//! A view is made in memory by the scans that gain by it, once the same parts have been merged as
//! often as making it costs. It belongs to the list of these parts, and is dropped with it when a
//! part is added or the log unloaded. The block cache would evict it in favour of scans that read
//! much else.
//!
//! Entries are those of the parts. If a key has several entries at one version, only the latest is
//! kept: the others are hidden for every reader, and versions are kept or dropped as a whole.

use crate::block::{Block, BlockBuilder, BlockCursor};
use crate::format::codec::{Decoder, Malformed};
use crate::log::index::indexed_part::decode_place;
use crate::log::index::memory_part::RecordPtr;
use crate::log::index::view::View;
use crate::log::read::ahead::ReadAhead;
use crate::log::read::cursor::IndexedCursor;
use crate::log::read::pass::LogWalk;
use crate::log::segment::Segment;
use crate::merge::MergeCursor;
use crate::sync::Arc;
use crate::sync::atomic::Ordering::Relaxed;
use crate::types::entry::{EntryCursor, EntryRef, Kind};
use crate::types::error::{Error, Result};
use bytes::Bytes;

/// Minimum number of parts for a view: merging fewer is as fast as walking a view.
const PARTS_MIN: usize = 3;
/// Cost of positioning a cursor in a part, in entries that could be merged into a view meanwhile.
const ENTRIES_PER_SEEK: u64 = 8;

/// The view of a log's indexed parts, if there is one or it is time to make it.
pub fn of(log: &Arc<LogWalk>) -> Result<Option<Arc<Block>>> {
    let LogWalk { env, parts, .. } = &**log;
    if parts.indexed.len() < PARTS_MIN {
        return Ok(None);
    }
    if let Some(view) = &*parts.view.view.load() {
        env.counters.scans_log_view.add(1);
        return Ok(Some(view.block.clone()));
    }
    let merges = parts.view.merges.fetch_add(1, Relaxed) + 1;
    if merges * ENTRIES_PER_SEEK * (parts.indexed.len() as u64) < parts.view.entries {
        return Ok(None);
    }
    // If there is no room, or another thread does the same, later scans try again.
    parts.view.merges.store(0, Relaxed);
    // The view takes less than indexes and filters together.
    let bytes: u64 = parts.indexed.iter().map(|part| part.at.offset - part.end).sum();
    let is_indexed =
        |part: &Arc<crate::log::index::indexed_part::IndexedPart>| part.root.len > 0 || part.entries == 0;
    if !parts.indexed.iter().all(is_indexed) {
        return Ok(None);
    }
    let Some(mut charge) = env.memory.charge_view(bytes) else { return Ok(None) };
    let block = Arc::new(merge(log)?);
    charge.shrink_to(block.heap_bytes() as u64);
    parts.view.view.store(Some(Arc::new(View { block: block.clone(), _charge: charge })));
    Ok(Some(block))
}

fn merge(log: &Arc<LogWalk>) -> Result<Block> {
    let base_version = log.parts.header.base_version;
    let mut sources: Vec<Box<dyn EntryCursor>> = Vec::with_capacity(log.parts.indexed.len());
    for (number, _) in log.parts.indexed.iter().enumerate().filter(|(_, part)| part.root.len > 0) {
        sources.push(Box::new(IndexedCursor::of_places(log.clone(), number)));
    }
    let mut merged = MergeCursor::new(log.env.order.clone(), sources);
    let mut builder = BlockBuilder::new(base_version);
    let mut last: Option<(Vec<u8>, u64)> = None;
    merged.seek_to_first()?;
    while let Some(entry) = merged.entry() {
        let (kind, version) = (entry.kind, entry.version);
        if last.as_ref().is_none_or(|(key, at)| *at != version || key != entry.key) {
            let mut key = last.take().map(|(key, _)| key).unwrap_or_default();
            key.clear();
            key.extend_from_slice(entry.key);
            let place = merged.value()?;
            builder.add(&key, version, kind, &place);
            last = Some((key, version));
        }
        merged.advance()?;
    }
    Block::parse(Bytes::from(builder.finish()), base_version).map_err(malformed(&log.segment))
}

fn malformed(segment: &Segment) -> impl Fn(Malformed) -> Error {
    |what| Error::corruption(&segment.file.path, 0, format!("a view of the log {}", what.0))
}

/// Walks a view.
pub struct ViewCursor {
    log: Arc<LogWalk>,
    entries: BlockCursor,
    ahead: ReadAhead,
}

impl ViewCursor {
    pub fn new(log: Arc<LogWalk>, view: Arc<Block>) -> Self {
        let entries = BlockCursor::new(view, log.env.order.clone());
        let ahead = ReadAhead::new(log.reads.clone());
        Self { log, entries, ahead }
    }

    fn place(&self) -> Result<RecordPtr> {
        decode_place(&mut Decoder::new(self.entries.value_bytes())).map_err(malformed(&self.log.segment))
    }
}

impl EntryCursor for ViewCursor {
    fn seek_to_first(&mut self) -> Result<()> {
        self.entries.seek_to_first().map_err(malformed(&self.log.segment))
    }

    fn seek_to_last(&mut self) -> Result<()> {
        self.entries.seek_to_last().map_err(malformed(&self.log.segment))
    }

    fn seek(&mut self, key: &[u8]) -> Result<()> {
        self.entries.seek(key).map_err(malformed(&self.log.segment))
    }

    fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        self.entries.seek_before(key).map_err(malformed(&self.log.segment))
    }

    fn next(&mut self) -> Result<()> {
        self.entries.next().map_err(malformed(&self.log.segment))
    }

    fn prev(&mut self) -> Result<()> {
        self.entries.prev().map_err(malformed(&self.log.segment))
    }

    #[inline]
    fn entry(&self) -> Option<EntryRef<'_>> {
        self.entries.entry()
    }

    fn position(&self) -> u64 {
        // A place that does not decode is reported by `value`.
        self.place().map_or(0, |place| place.offset)
    }

    fn value(&mut self) -> Result<Bytes> {
        match self.entry() {
            Some(entry) if entry.kind == Kind::Put => {
                let place = self.place()?;
                self.ahead.value(&self.log.segment, &self.log.parts, place)
            }
            _ => Ok(Bytes::new()),
        }
    }
}
