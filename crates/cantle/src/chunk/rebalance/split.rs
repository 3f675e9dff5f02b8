//! Splits at keys that divide a chunk evenly: of a rebalance's output (if it has more than one
//! table), and of a munk that has become large. Both are a [`Cut`] (`replace`).

use crate::chunk::Chunks;
use crate::chunk::chunk::Chunk;
use crate::chunk::context::Context;
use crate::chunk::policy;
use crate::chunk::rebalance::histogram::Histogram;
use crate::chunk::rebalance::rebalance::{Input, Trigger, newer_files};
use crate::chunk::rebalance::replace::{Cut, spans};
use crate::log::segment::Segment;
use crate::run::cut::Cutter;
use crate::run::run::{Run, Source};
use crate::run::stack::RunStack;
use crate::run::writer::OutputTable;
use crate::sync::Arc;
use crate::types::error::Result;
use crate::types::order::KeyOrder;
use crate::types::span::Span;
use bytes::Bytes;
use std::collections::HashMap;
use std::ops::Range;

impl Chunks {
    /// Makes a chunk of each table of a rebalance's output.
    pub(in crate::chunk) fn split(
        &self,
        parent: &Arc<Chunk>,
        input: &Input,
        pieces: &[OutputTable],
    ) -> Result<bool> {
        // A piece without a start, except the first, is refused.
        let start = |piece: &OutputTable| piece.start.clone().unwrap_or_default();
        let starts: Vec<Bytes> = pieces[1..].iter().map(start).collect();
        // Most of the shares in the diverted log are counted before the lock is taken, the rest
        // under it.
        let mut shares = Shares::new(pieces.len());
        for file in newer_files(&parent.funk.load_full(), input) {
            shares.count(&self.context, &file, &spans(&parent.span, &starts))?;
        }
        let share_of = |file: &Run, spans: &[Span]| shares.count(&self.context, file, spans);
        let cut = Cut {
            starts,
            share_of: Box::new(share_of),
            sorted: Some((input, pieces)),
            heirs: pieces.len() as u64,
        };
        // The tables are not lost: if the chunk cannot be split, it takes them as they are.
        Ok(self.replace(parent, |_| Some(cut))?.is_some() || self.flip(parent, input, pieces)?)
    }

    /// Splits a chunk whose munk has become large: the first phase of the paper's split. The new
    /// munks share the parent's blocks, and the new chunks share its files, under key bounds, until
    /// each is rebalanced, which is the second phase. Writes only an edit. The second phase takes
    /// place when a rebalance is due, unless the rules demand it at once.
    pub(in crate::chunk) fn split_in_memory(&self, parent: &Arc<Chunk>) -> Result<bool> {
        let Some(_change) = parent.begin_change() else { return Ok(false) };
        let cut = |before: &RunStack| self.cut_of_munk(parent, before);
        let Some(children) = self.replace(parent, cut)? else { return Ok(false) };
        let limits = self.limits();
        let is_due = |child: &&Arc<Chunk>| {
            let shared_bytes = child.funk.load().files.iter().map(Run::bytes).sum();
            policy::is_sorted_once_divided(shared_bytes, &limits)
        };
        for child in children.iter().filter(is_due) {
            if let Err(error) = self.rebalance(child, Trigger::Background) {
                tracing::debug!(%error, chunk = child.id, "cannot rebalance a chunk after its split");
            }
        }
        Ok(true)
    }

    fn cut_of_munk(&self, parent: &Chunk, before: &RunStack) -> Option<Cut<'_>> {
        let munk = parent.munk.load_full()?;
        let (order, limits, live_bytes) = (&self.context.order, self.limits(), munk.live_bytes());
        if !policy::is_munk_large(live_bytes, &limits) {
            return None;
        }
        let target_bytes = live_bytes / policy::munk_split_count(live_bytes, &limits);
        let mut cutter = Cutter::new(order, live_bytes, target_bytes, limits.rules.cut_prefix_bytes);
        let mut live = Histogram::new(order, live_bytes);
        munk.for_each_key(|key, bytes| {
            cutter.tell(key, bytes);
            live.tell(key, bytes);
        });
        let cuts = cutter.finish();
        if cuts.len() < 2 || before.files.iter().any(|file| file.dropped.is_some()) {
            return None;
        }
        // The range of each part's live bytes, with those of the parent laid end to end.
        let ends = cuts[1..].iter().map(|cut| cut.from_bytes).chain([live_bytes]);
        let parts: Vec<Range<u64>> = cuts.iter().zip(ends).map(|(cut, end)| cut.from_bytes..end).collect();
        Some(Cut {
            starts: cuts[1..].iter().map(|cut| cut.start.clone()).collect(),
            share_of: Box::new(move |file, spans| Ok(shares_of_munk(order, file, spans, &parts, &live))),
            sorted: None,
            heirs: cuts.len() as u64,
        })
    }
}

/// The share of each new chunk in a file. Inserts in order fill one log after the other, and
/// without exact shares each new chunk would refer to all earlier logs. If the distribution of a
/// file's bytes is unknown, it is assumed to be that of the live bytes.
fn shares_of_munk(
    order: &KeyOrder,
    file: &Run,
    spans: &[Span],
    parts: &[Range<u64>],
    live: &Histogram<'_>,
) -> Vec<u64> {
    let known = match &file.source {
        Source::Log(segment) => log_bytes_for(order, segment, spans, parts, live),
        Source::Table(_) => None,
    };
    let as_live = || parts.iter().map(|part| part.end.saturating_sub(part.start).max(1)).collect();
    let mut shares: Vec<u64> = known.unwrap_or_else(as_live);
    // A part of the log may be shared with chunks outside of this split.
    let scale = file.bytes() as f64 / shares.iter().sum::<u64>().max(1) as f64;
    for share in shares.iter_mut().filter(|share| **share > 0) {
        *share = ((*share as f64 * scale) as u64).max(1);
    }
    shares
}

/// Approximate bytes of a log for each new chunk. The bytes of an indexed part are assumed to be
/// spread like the live bytes between its smallest and its greatest key. `None` if the log would
/// have to be read for that, as [`Shares`] does: this runs under the chunk's lock.
fn log_bytes_for(
    order: &KeyOrder,
    segment: &Segment,
    spans: &[Span],
    parts: &[Range<u64>],
    live: &Histogram<'_>,
) -> Option<Vec<u64>> {
    let mut bytes = vec![0; parts.len()];
    for indexed in &segment.all_indexed()?.indexed {
        let (first, last) = indexed.known_keys()?;
        let within = live.bytes_from_to(first, last);
        let common = |(span, part): (&Span, &Range<u64>)| {
            let concerned = !span.starts_behind(order, last) && !span.ends_before(order, first);
            let common = within.end.min(part.end).saturating_sub(within.start.max(part.start));
            if concerned { common.max(1) } else { 0 }
        };
        let common: Vec<u64> = spans.iter().zip(parts).map(common).collect();
        let all = common.iter().sum::<u64>().max(1) as f64;
        for (bytes, common) in bytes.iter_mut().zip(common) {
            *bytes += (indexed.bytes() as f64 * common as f64 / all).ceil() as u64;
        }
    }
    Some(bytes)
}

/// The bytes of each diverted log that belong to each new chunk.
struct Shares {
    children: usize,
    /// For each log: the offset up to which it was counted, and the bytes of each child.
    logs: HashMap<u64, (u64, Vec<u64>)>,
}

impl Shares {
    fn new(children: usize) -> Self {
        Self { children, logs: HashMap::new() }
    }

    /// If the file is a log, counts its records after those counted before. Returns the totals.
    fn count(&mut self, context: &Context, file: &Run, spans: &[Span]) -> Result<Vec<u64>> {
        let Source::Log(segment) = &file.source else { return Ok(vec![0; self.children]) };
        let (counted, shares) =
            self.logs.entry(segment.file.id).or_insert_with(|| (0, vec![0; self.children]));
        let len = segment.len();
        segment.for_each_since(context, *counted, |key, hit| {
            let child = spans.partition_point(|span| span.ends_before(&context.order, key));
            if let Some(share) = shares.get_mut(child) {
                *share += u64::from(hit.place.len);
            }
        })?;
        if segment.has_range_deletes_since(context, 0)? {
            // Finding the children that they concern costs more than reading the log in all of
            // them.
            shares.iter_mut().for_each(|share| *share = (*share).max(1));
        }
        *counted = len;
        Ok(shares.clone())
    }
}
