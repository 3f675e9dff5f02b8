//! Split of a chunk where keys are inserted in order: what comes next goes to a chunk of its own, which begins in memory.
//!
//! A chunk that is inserted into in order keeps its munk ([`crate::chunk::residency::popularity`]), and what is in memory is logged once and sorted
//! never. But where there is no munk, as after opening, or where it had to go, inserts come faster than a load of the whole chunk
//! reads, and than a rebalance sorts: neither would end but with another chunk that is behind as far. So the chunk is cut at the
//! greatest key that was inserted lately, or rather at the shortest that separates it from the one before: the manifest keeps that. What is behind that is little or nothing, and is loaded at once; the rest
//! keeps the files and is left alone by writers.
//!
//! "Lately" is what the log says that the chunk is writing to. It belongs to no other chunk; a log of an earlier epoch, or one that
//! is shared since a split, has keys of other chunks, and nobody inserts into it any more.

use crate::chunk::Chunks;
use crate::chunk::chunk::Chunk;
use crate::chunk::policy;
use crate::chunk::rebalance::replace::Cut;
use crate::chunk::residency::popularity::live;
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

/// With fewer keys the newest part of a log does not say whether they come in order.
const KEYS_MIN: usize = 16;
/// Of them one in so many may have come late: threads that take turns are put aside for a moment.
const LATE_FRACTION: usize = 8;

impl Chunks {
    /// Whether it is worth splitting so: it has no munk, is as large as chunks are, and is inserted into in order; and no split of
    /// it was refused just now.
    pub(in crate::chunk) fn is_inserted_in_order(&self, chunk: &Chunk) -> bool {
        let limits = self.limits();
        self.context.options().munks
            && chunk.munk.load().is_none()
            && policy::is_end_split(live(chunk).0, &limits)
            && chunk.may_be_split(self.jobs.ticks.load(Relaxed))
            && self.inserted_up_to(chunk).is_some()
    }

    /// The shortest key that separates the greatest of the part of the log that is being written from those before it, if nearly all
    /// of that part is behind what the part before has, and the chunk can be cut there.
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

    /// Whether this chunk alone writes to the log, or did so last.
    fn is_own_log(&self, chunk: &Chunk, log: &Run) -> bool {
        canary!(SPLIT_OUTSIDE => return true);
        let is_new = log.file().epoch == self.context.epoch();
        is_new && log.share_bytes.is_none() && *log.span == chunk.span
    }

    /// Gives what is inserted next a chunk with a munk; false if that cannot be done now.
    pub(in crate::chunk) fn split_tail(&self, parent: &Arc<Chunk>) -> Result<bool> {
        let Some(_change) = parent.begin_change() else { return Ok(false) };
        let Some(about) = self.inserted_up_to(parent) else { return Ok(false) };
        let behind = self.bytes_behind(&parent.funk.load_full(), &about)?;
        // One that began meanwhile has the key it is cut at.
        let behind = move |file: &Run| behind.get(&file.file().id).copied().unwrap_or(1);
        let share_of = move |file: &Run, _: &[Span]| {
            Ok(vec![file.bytes().saturating_sub(behind(file)).max(1), behind(file)])
        };
        let children = self.replace(parent, |before| {
            let at = self.inserted_up_to(parent)?;
            // Files were asked for keys from there on: of those before they may have more.
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

    /// About how many bytes of each file concern the keys from this one on: none, where it is known to have none.
    fn bytes_behind(&self, funk: &RunStack, key: &[u8]) -> Result<HashMap<u64, u64>> {
        let context = &self.context;
        let mut behind = HashMap::new();
        for file in &funk.files {
            let all = match &file.source {
                Source::Log(segment) => self.log_bytes_behind(segment, key)?,
                Source::Table(table) => {
                    let open = table.open(&context.tables, &context.files, &context.order, &context.cache)?;
                    // The block that would have the key may have others behind it.
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
            learn::learn(&self.context, segment, &parts.header, part)?;
            bytes += part_bytes_behind(&self.context.order, part, key);
        }
        // Of what is not indexed on disk yet it is the last key, or about that.
        Ok(bytes + u64::from(parts.memory.is_some()))
    }
}

/// Whether a chunk of this span can be cut at `key`. At an empty one none is cut (`geometry`).
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
