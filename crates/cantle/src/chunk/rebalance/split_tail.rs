//! Split of a chunk into which keys are inserted in order: later inserts go to a chunk of their
//! own, which begins in memory.
//!
//! A chunk that is inserted into in order keeps its munk ([`crate::chunk::residency::popularity`]),
//! and pairs in memory are logged once and never sorted. Without a munk, as after opening or an
//! eviction, inserts may be faster than a load of the whole chunk reads, and than a rebalance
//! sorts: neither would end but with another chunk that lags as far. The chunk is therefore cut at
//! the greatest key that was inserted lately: at the shortest key that separates it from the one
//! before, as the manifest stores that key. The part after the cut is empty or small, and is loaded
//! at once. The rest keeps the files and gets no further writes.
//!
//! "Lately" means: in the log that the chunk is writing to. It belongs to no other chunk. A log of
//! an earlier epoch, or one that is shared since a split, has keys of other chunks, and is not
//! written any more.

use crate::chunk::Chunks;
use crate::chunk::chunk::Chunk;
use crate::chunk::policy;
use crate::chunk::rebalance::replace::Cut;
use crate::chunk::residency::popularity::live;
use crate::fetch::Directly;
use crate::log::index::indexed_part::IndexedPart;
use crate::log::read::learn;
use crate::log::segment::Segment;
use crate::run::cut::separate;
use crate::run::run::{Run, Source};
use crate::run::stack::RunStack;
use crate::sync::Arc;
use crate::sync::atomic::Ordering::Relaxed;
use crate::types::error::Result;
use crate::types::order::KeyOrder;
use crate::types::span::Span;
use bytes::Bytes;
use std::cmp::Ordering;
use std::collections::HashMap;

/// Minimum number of keys in the newest part of a log that show if inserts are in order.
const KEYS_MIN: usize = 16;
/// One key of this many may be out of order: threads that insert in turns are interrupted now and
/// then.
const LATE_FRACTION: usize = 8;

impl Chunks {
    /// True if a tail split of the chunk is worthwhile: it has no munk, has the size of a full
    /// chunk, and is inserted into in order; and no split of it was refused recently.
    pub(in crate::chunk) fn is_inserted_in_order(&self, chunk: &Chunk) -> bool {
        let limits = self.limits();
        self.context.options().munks
            && chunk.munk.load().is_none()
            && policy::is_end_split(live(chunk).0, &limits)
            && chunk.may_be_split(self.jobs.ticks.load(Relaxed))
            && self.inserted_up_to(chunk).is_some()
    }

    /// The shortest key that separates the greatest key of the log's newest part from those before
    /// it. `None` unless nearly all keys of that part are after those of the part before, and the
    /// chunk can be cut there.
    fn inserted_up_to(&self, chunk: &Chunk) -> Option<Bytes> {
        let funk = chunk.funk.load();
        let newest = funk.files.first()?;
        let Source::Log(segment) = &newest.source else { return None };
        if !self.is_own_log(chunk, newest) {
            return None;
        }
        let parts = segment.loaded()?;
        let (memory, (_, before)) = (parts.memory.as_ref()?, parts.indexed.first()?.known_keys()?);
        let late_max = memory.len() / LATE_FRACTION;
        let last = memory.last_key()?;
        let in_order = memory.len() >= KEYS_MIN && !memory.has_more_up_to(before, late_max);
        let order = &self.context.order;
        if !in_order || order.compare(before, &last) != Ordering::Less {
            return None;
        }
        let neighbour = memory.key_before_last();
        let neighbour = neighbour.as_deref().filter(|key| order.compare(before, key) == Ordering::Less);
        let boundary = separate(order, neighbour.unwrap_or(before), &last);
        let may_begin = is_strictly_within(order, &chunk.span, &boundary);
        canary!(SPLIT_OUTSIDE => let may_begin = true);
        may_begin.then_some(boundary)
    }

    /// True if this chunk alone writes to the log, or wrote to it last.
    fn is_own_log(&self, chunk: &Chunk, log: &Run) -> bool {
        canary!(SPLIT_OUTSIDE => return true);
        let is_new = log.file().epoch == self.context.epoch();
        is_new && log.share_bytes.is_none() && *log.span == chunk.span
    }

    /// Gives later inserts a chunk with a munk; false if that is not possible now.
    pub(in crate::chunk) fn split_tail(&self, parent: &Arc<Chunk>) -> Result<bool> {
        let Some(_change) = parent.begin_change() else { return Ok(false) };
        let Some(about) = self.inserted_up_to(parent) else { return Ok(false) };
        let behind = self.bytes_behind(&parent.funk.load_full(), &about)?;
        // A log that began meanwhile has the key of the cut.
        let behind = move |file: &Run| behind.get(&file.file().id).copied().unwrap_or(1);
        let share_of = move |file: &Run, _: &[Span]| {
            Ok(vec![file.bytes().saturating_sub(behind(file)).max(1), behind(file)])
        };
        let children = self.replace(parent, |before| {
            let at = self.inserted_up_to(parent)?;
            // Files were only searched for keys from `about` on: they may have more keys before it.
            let is_known = self.context.order.compare(&at, &about) != Ordering::Less;
            let is_whole = before.files.iter().all(|file| file.dropped.is_none());
            (is_known && is_whole && parent.munk.load().is_none()).then(|| Cut {
                starts: vec![at],
                share_of: Box::new(share_of),
                sorted: None,
                heirs: 1,
            })
        })?;
        let Some([rest, end]) = children.as_deref() else { return Ok(false) };
        rest.forget_writes();
        self.context.counters.end_splits.add(1);
        tracing::debug!(chunk = parent.id, end = end.id, "split off the end");
        self.load_munk(end)?;
        Ok(true)
    }

    /// Approximate bytes of each file for keys from this one on; 0 if the file certainly has none.
    fn bytes_behind(&self, funk: &RunStack, key: &[u8]) -> Result<HashMap<u64, u64>> {
        let context = &self.context;
        let mut behind = HashMap::new();
        for file in &funk.files {
            let all = match &file.source {
                Source::Log(segment) => self.log_bytes_behind(segment, key)?,
                Source::Table(table) => {
                    let open = table.open(&context.tables, &context.files, &context.order, &context.cache)?;
                    // There may be further blocks after the one for the key.
                    table.file.bytes().saturating_sub(open.offset_of(key)?).max(1)
                }
            };
            behind.insert(file.file().id, all.min(file.bytes()));
        }
        Ok(behind)
    }

    fn log_bytes_behind(&self, segment: &Segment, key: &[u8]) -> Result<u64> {
        let parts = segment.parts(&self.context)?;
        let mut bytes = 0;
        for part in &parts.indexed {
            learn::learn(&self.context, segment, &parts.header, part, &Directly)?;
            bytes += part_bytes_behind(&self.context.order, part, key);
        }
        // In the part that is not indexed on disk yet, it is about the last key.
        Ok(bytes + u64::from(parts.memory.is_some()))
    }
}

/// True if a chunk of this span can be cut at `key`. An empty key is no boundary (`geometry`).
fn is_strictly_within(order: &KeyOrder, span: &Span, key: &[u8]) -> bool {
    let is_behind_start = span.start.as_ref().is_none_or(|start| order.compare(start, key) == Ordering::Less);
    !key.is_empty() && is_behind_start && !span.ends_before(order, key)
}

fn part_bytes_behind(order: &KeyOrder, part: &IndexedPart, key: &[u8]) -> u64 {
    let Some((first, last)) = part.known_keys() else { return 1 };
    match (order.compare(key, first), order.compare(key, last)) {
        (_, Ordering::Greater) => 0,
        (_, Ordering::Equal) => 1,
        (Ordering::Greater, _) => part.bytes() / 2 + 1,
        (_, Ordering::Less) => part.bytes(),
    }
}
