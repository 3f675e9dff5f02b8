//! Split of a chunk into several (EvenDB §3.4): the second half of a rebalance that gave more than one table.
//!
//! The chunk becomes immutable for a moment: under its lock the diverted segment is sealed, each new chunk gets
//! its own table and shares that segment, under key bounds, until its next rebalance. The index is flipped once;
//! who still holds the old chunk reads the same pairs from it, and who wants to write finds it retired.
//!
//! Invariants, which `tests/shuttle_store.rs` checks: whoever finds a new chunk finds its files, and the manifest knows it
//! already, as the next to write there tells the manifest of a log; the old one is retired after the flip and before its
//! lock is released; its files are released after the manifest was told.

use crate::chunk::Chunks;
use crate::chunk::chunk::{Chunk, ChunkWriter};
use crate::chunk::context::Context;
use crate::chunk::geometry::first_key;
use crate::chunk::munk::room_for;
use crate::chunk::policy;
use crate::chunk::rebalance::histogram::Histogram;
use crate::chunk::rebalance::rebalance::{Input, Trigger, newer_files, table_ref};
use crate::log::segment::Segment;
use crate::run::cut::Cutter;
use crate::run::run::{Run, Source};
use crate::run::stack::{RunStack, StackSizes};
use crate::run::writer::OutputTable;
use crate::sync::Arc;
use crate::sync::atomic::Ordering::Relaxed;
use crate::types::error::Result;
use crate::types::order::KeyOrder;
use crate::types::span::Span;
use bytes::Bytes;
use std::collections::HashMap;
use std::ops::Range;

/// A chunk whose split was refused is not split before so many ticks have passed, about a second: it would be refused again,
/// and to find out where to cut takes milliseconds.
const SPLIT_PAUSE_TICKS: u64 = 48;

impl Chunks {
    pub(in crate::chunk) fn split(
        &self,
        parent: &Arc<Chunk>,
        input: &Input,
        pieces: &[OutputTable],
    ) -> Result<bool> {
        let _span = tracing::debug_span!("split", chunk = parent.id).entered();
        let order = &self.context.order;
        let spans = spans(parent, pieces.iter().map(|piece| piece.start.clone()).collect());
        // What the diverted log holds for whom is counted before the lock is taken; what comes meanwhile after.
        let mut shares = Shares::new(spans.len());
        shares.count(&self.context, &newer_files(&parent.funk.load_full(), input), &spans)?;
        let mut writer = parent.writer.lock();
        if writer.retired {
            return Ok(false); // the keyspace was dropped
        }
        // Each child will look into it: by its index, not by a memory part that nobody evicts.
        if let Err(error) = self.index_part(&mut writer) {
            tracing::warn!(%error, "cannot index a part of a log");
        }
        writer.end_log();
        let before = parent.funk.load_full();
        let newer = newer_files(&before, input);
        shares.count(&self.context, &newer, &spans)?;
        let mut children = Vec::with_capacity(pieces.len());
        for (index, (piece, span)) in pieces.iter().zip(spans).enumerate() {
            let part = |file: &Run, share_bytes: u64| {
                let span = file.span.intersect(order, &span)?;
                (share_bytes > 0).then(|| file.part(span, share_bytes))
            };
            let mut files: Vec<Run> =
                newer.iter().filter_map(|file| part(file, shares.of(file, index))).collect();
            let table = table_ref(piece, parent, &before, newer.len());
            files.push(Run { span: span.clone().into(), ..table });
            let kept_share = |file: &Run| (file.bytes() / pieces.len() as u64).max(1);
            files.extend(input.kept.iter().filter_map(|file| part(file, kept_share(file))));
            let child = Chunk::new(self.next_id(), span, RunStack { files });
            child.inherit(parent, pieces.len() as u64);
            child.note_version(parent.newest_version());
            children.push(Arc::new(child));
        }
        let is_split = self.succeed(parent, &mut writer, &before, &children)?;
        drop(writer);
        if !is_split {
            // What was sorted is not lost: the chunk takes it as it is.
            return self.flip(parent, input, pieces);
        }
        self.release(&before.files, &[]);
        tracing::debug!(chunk = parent.id, count = children.len(), "split");
        Ok(true)
    }

    /// Splits a chunk whose munk has become large: the first phase of the paper's split. The munks share the parent's
    /// blocks, the chunks its files, under key bounds, until the rebalance of each, which is the second phase. Writes
    /// nothing but an edit. The second phase is left to when a rebalance is due, unless the rules have it follow at once.
    pub(in crate::chunk) fn split_in_memory(&self, parent: &Arc<Chunk>) -> Result<bool> {
        let Some(children) = self.divide_munk(parent)? else { return Ok(false) };
        let limits = self.limits();
        let is_due = |child: &&Arc<Chunk>| {
            let shared_bytes = child.funk.load().files.iter().map(Run::bytes).sum();
            policy::is_sorted_once_divided(shared_bytes, &limits)
        };
        for child in children.iter().filter(is_due) {
            if let Err(error) = self.rebalance(child, Trigger::Background) {
                tracing::debug!(%error, chunk = child.id, "shares files until it is rebalanced");
            }
        }
        Ok(true)
    }

    fn divide_munk(&self, parent: &Arc<Chunk>) -> Result<Option<Vec<Arc<Chunk>>>> {
        let Some(_change) = parent.begin_change() else { return Ok(None) };
        let _span = tracing::debug_span!("split", chunk = parent.id).entered();
        let mut writer = parent.writer.lock();
        let Some(munk) = parent.munk.load_full().filter(|_| !writer.retired) else { return Ok(None) };
        let limits = self.limits();
        if !policy::is_munk_large(munk.live_bytes(), &limits) {
            return Ok(None);
        }
        let order = &self.context.order;
        let live_bytes = munk.live_bytes();
        let target_bytes = live_bytes / policy::munk_split_count(live_bytes, &limits);
        let mut cutter = Cutter::new(order, live_bytes, target_bytes, limits.rules.cut_prefix_bytes);
        let mut live = Histogram::new(order, live_bytes);
        munk.for_each_key(|key, bytes| {
            cutter.tell(key, bytes);
            live.tell(key, bytes);
        });
        let cuts = cutter.finish();
        let before = parent.funk.load_full();
        if cuts.len() < 2 || before.files.iter().any(|file| file.dropped.is_some()) {
            return Ok(None);
        }
        self.index_part(&mut writer)?;
        writer.end_log();
        let spans = spans(parent, cuts.iter().map(|cut| Some(cut.start.clone())).collect());
        let part = |(index, span): (usize, Span)| {
            let end = cuts.get(index + 1).map_or(live_bytes, |next| next.from_bytes);
            SplitPart { span, live: cuts[index].from_bytes..end }
        };
        let parts: Vec<SplitPart> = spans.into_iter().enumerate().map(part).collect();
        let mut files = vec![Vec::new(); parts.len()];
        before.files.iter().for_each(|file| divide_file(order, file, &parts, &live, &mut files));
        let mut children = Vec::with_capacity(parts.len());
        for (part, files) in parts.into_iter().zip(files) {
            let child = Chunk::new(self.next_id(), part.span, RunStack { files });
            child.inherit(parent, cuts.len() as u64);
            child.note_version(parent.newest_version());
            children.push(Arc::new(child));
        }
        if !self.succeed(parent, &mut writer, &before, &children)? {
            return Ok(None);
        }
        drop(writer);
        self.release(&before.files, &[]);
        tracing::debug!(chunk = parent.id, count = children.len(), "split in memory");
        Ok(Some(children))
    }

    /// Puts the children in the parent's place: in the manifest, the totals and the index. False, and nothing is changed, if they
    /// do not fit there: then the parent is not split again for a while.
    pub(in crate::chunk) fn succeed(
        &self,
        parent: &Arc<Chunk>,
        writer: &mut ChunkWriter,
        before: &RunStack,
        children: &[Arc<Chunk>],
    ) -> Result<bool> {
        let funks: Vec<_> = children.iter().map(|child| child.funk.load_full()).collect();
        let added: Vec<_> =
            children.iter().zip(&funks).map(|(child, funk)| (&**child, &funk.files[..])).collect();
        let Some(edit) = self.replacement(&[parent], &added)? else {
            parent.put_off_split(self.jobs.ticks.load(Relaxed) + SPLIT_PAUSE_TICKS);
            return Ok(false);
        };
        self.context.publish(&edit)?;
        // Only now, as a munk that was split is not written any more. The first phase of the paper's munk split: the
        // children share the parent's blocks.
        if let Some(munk) = parent.munk.load_full() {
            let boundaries: Vec<_> = children[1..].iter().map(|child| first_key(child)).collect();
            let munks = munk.split(&boundaries, room_for, self.is_needed());
            for (child, munk) in children.iter().zip(munks) {
                child.munk.store(Some(Arc::new(munk)));
            }
            self.context.counters.munk_splits.add(1);
        }
        for child in children {
            child.funk.load().files.iter().for_each(|file| file.retain(&self.context.totals));
        }
        let mut after = StackSizes::default();
        for child in children {
            after.add(&child.funk.load().sizes());
        }
        self.account(&before.sizes(), &after);
        let added = children.iter().map(|child| (first_key(child), child.clone())).collect();
        self.index.replace(&first_key(parent), 1, added);
        // From here on others find them.
        self.purge_later(children);
        for child in children.iter().filter(|child| child.munk.load().is_some()) {
            self.add_resident(child);
        }
        // After the flip: who finds the chunk retired finds its successors.
        writer.retired = true;
        self.context.counters.splits.add(1);
        Ok(true)
    }
}

/// What becomes a chunk of its own: its keys, and where its live bytes lie among those of the parent, laid end to end.
struct SplitPart {
    span: Span,
    live: Range<u64>,
}

/// Gives a file to those of the new chunks whom it concerns. Inserts in order fill one log after the other, and each chunk
/// would go on referring to all that came before it. Where it is not known what the file holds for whom, it is taken to be
/// spread as the live bytes.
fn divide_file(
    order: &KeyOrder,
    file: &Run,
    parts: &[SplitPart],
    live: &Histogram<'_>,
    files: &mut [Vec<Run>],
) {
    let known = match &file.source {
        Source::Log(segment) => log_bytes_for(order, segment, parts, live),
        Source::Table(_) => None,
    };
    let as_live = || parts.iter().map(|part| part.live.end.saturating_sub(part.live.start).max(1)).collect();
    let known: Vec<u64> = known.unwrap_or_else(as_live);
    // A part of the log may be shared with chunks that are not among these.
    let all = known.iter().sum::<u64>().max(1) as f64;
    let scale = file.bytes() as f64 / all;
    for ((part, part_bytes), files) in parts.iter().zip(known).zip(files) {
        let share_bytes = if part_bytes == 0 { 0 } else { ((part_bytes as f64 * scale) as u64).max(1) };
        let span = file.span.intersect(order, &part.span).filter(|_| share_bytes > 0);
        files.extend(span.map(|span| file.part(span, share_bytes)));
    }
}

/// About how many bytes of a log are for whom: those of an indexed part are taken to be spread as the live bytes between its
/// least and its greatest key. `None` where the log would have to be read for that, as [`Shares`] does: this is done under
/// the chunk's lock.
fn log_bytes_for(
    order: &KeyOrder,
    segment: &Segment,
    parts: &[SplitPart],
    live: &Histogram<'_>,
) -> Option<Vec<u64>> {
    let mut bytes = vec![0; parts.len()];
    for indexed in &segment.all_indexed()?.indexed {
        let (first, last) = indexed.known_keys()?;
        let within = live.bytes_from_to(first, last);
        let common = |part: &SplitPart| {
            let concerned = !part.span.starts_behind(order, last) && !part.span.ends_before(order, first);
            let common = within.end.min(part.live.end).saturating_sub(within.start.max(part.live.start));
            if concerned { common.max(1) } else { 0 }
        };
        let common: Vec<u64> = parts.iter().map(common).collect();
        let all = common.iter().sum::<u64>().max(1) as f64;
        for (bytes, common) in bytes.iter_mut().zip(common) {
            *bytes += (indexed.bytes() as f64 * common as f64 / all).ceil() as u64;
        }
    }
    Some(bytes)
}

/// The ranges of the new chunks, which begin at these keys, but for the first.
fn spans(parent: &Chunk, starts: Vec<Option<Bytes>>) -> Vec<Span> {
    let ends: Vec<_> = starts.iter().skip(1).cloned().chain([parent.span.end.clone()]).collect();
    let mut spans: Vec<_> = starts.into_iter().zip(ends).map(|(start, end)| Span { start, end }).collect();
    if let Some(first) = spans.first_mut() {
        first.start.clone_from(&parent.span.start);
    }
    spans
}

/// How many bytes of each diverted log lie in which of the new chunks: who has none does not refer to it.
struct Shares {
    children: usize,
    /// By log: how far it was counted, and the bytes of each child.
    logs: HashMap<u64, (u64, Vec<u64>)>,
}

impl Shares {
    fn new(children: usize) -> Self {
        Self { children, logs: HashMap::new() }
    }

    /// Counts what the logs among `files` hold beyond what was counted before.
    fn count(&mut self, context: &Arc<Context>, files: &[Run], spans: &[Span]) -> Result<()> {
        for file in files {
            let Source::Log(segment) = &file.source else { continue };
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
                // Whom they concern is not worth finding out.
                shares.iter_mut().for_each(|share| *share = (*share).max(1));
            }
            *counted = len;
        }
        Ok(())
    }

    fn of(&self, file: &Run, child: usize) -> u64 {
        self.logs.get(&file.file().id).map_or(0, |(_, shares)| shares[child])
    }
}
