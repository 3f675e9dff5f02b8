//! Chunks in the place of others (EvenDB §3.4): the one body of all splits, and the flip that they have in
//! common with merges.
//!
//! The chunk becomes immutable for a moment: under its lock the log that it writes to is sealed, and each new
//! chunk shares the files, under key bounds, until its next rebalance. The index is flipped once; who still
//! holds the old chunk reads the same pairs from it, and who wants to write finds it retired. A [`Cut`] says
//! where the new chunks begin and how much of a file is whose.
//!
//! Invariants, which `tests/shuttle_store.rs` checks: whoever finds a new chunk finds its files, and the
//! manifest knows it already, as the next to write there tells the manifest of a log; the old one is retired
//! after the flip and before its lock is released; its files are released after the manifest was told.

use crate::chunk::Chunks;
use crate::chunk::chunk::{Chunk, ChunkWriter};
use crate::chunk::edit::ChunkEdit;
use crate::chunk::geometry::first_key;
use crate::chunk::munk::room_for;
use crate::chunk::rebalance::rebalance::{Input, table_ref};
use crate::run::run::Run;
use crate::run::stack::{RunStack, StackSizes};
use crate::run::writer::OutputTable;
use crate::sync::Arc;
use crate::sync::atomic::Ordering::Relaxed;
use crate::types::error::Result;
use crate::types::order::KeyOrder;
use crate::types::span::Span;
use bytes::Bytes;

/// A chunk whose split was refused is not split before so many ticks have passed, about a second: it would be
/// refused again, and to find out where to cut takes milliseconds.
const SPLIT_PAUSE_TICKS: u64 = 48;

/// A way to cut a chunk into several.
pub(super) struct Cut<'a> {
    /// The keys at which the new chunks begin, but for the first.
    pub starts: Vec<Bytes>,
    /// About how many bytes of one of the parent's files are of each of the new chunks: who has none does not
    /// refer to it.
    pub share_of: ShareOf<'a>,
    /// The result of a merge: a table for each takes the place of these files; those that were added
    /// meanwhile are shared.
    pub sorted: Option<(&'a Input, &'a [OutputTable])>,
    /// Among how many the parent's heat is divided.
    pub heirs: u64,
}

/// Takes a file and the keys of the new chunks.
pub(super) type ShareOf<'a> = Box<dyn FnMut(&Run, &[Span]) -> Result<Vec<u64>> + 'a>;

impl Chunks {
    /// Cuts a chunk as `cut` says, which is asked under its lock, and shown its files: nothing is changed if
    /// it does not say. None also if the chunk is replaced already, or what would take its place does not fit
    /// there.
    pub(super) fn replace<'a>(
        &self,
        parent: &Arc<Chunk>,
        cut: impl FnOnce(&RunStack) -> Option<Cut<'a>>,
    ) -> Result<Option<Vec<Arc<Chunk>>>> {
        let _span = tracing::debug_span!("split", chunk = parent.id).entered();
        let mut writer = parent.writer.lock();
        if writer.retired {
            return Ok(None); // or the keyspace was dropped
        }
        let before = parent.funk.load_full();
        let Some(cut) = cut(&before) else { return Ok(None) };
        self.index_and_end_log(&mut writer);
        let (spans, heirs) = (spans(&parent.span, &cut.starts), cut.heirs);
        let files = self.divide(parent, &before, cut, &spans)?;
        let child = |(span, files)| {
            let child = Chunk::new(self.next_id(), span, RunStack { files });
            child.inherit(parent, heirs);
            child.note_version(parent.newest_version());
            Arc::new(child)
        };
        let children: Vec<_> = spans.into_iter().zip(files).map(child).collect();
        let publish = |edit: &ChunkEdit| self.context.publish(edit);
        let take_over = || self.take_over(parent, &before, &children);
        if !self.succeed(&[parent], &children, publish, take_over)? {
            return Ok(None);
        }
        // After the flip: who finds the chunk retired finds its successors.
        writer.retired = true;
        drop(writer);
        self.context.counters.splits.add(1);
        self.release(&before.files, &[]);
        tracing::debug!(count = children.len(), "split");
        Ok(Some(children))
    }

    /// The next write begins another log. Others will look into this one: by its index, not by a memory part
    /// that nobody evicts.
    pub(super) fn index_and_end_log(&self, writer: &mut ChunkWriter) {
        if let Err(error) = self.index_part(writer) {
            tracing::warn!(%error, "cannot index a part of a log");
        }
        writer.end_log();
    }

    /// The files of each of the new chunks, newest first.
    fn divide(
        &self,
        parent: &Chunk,
        before: &RunStack,
        mut cut: Cut<'_>,
        spans: &[Span],
    ) -> Result<Vec<Vec<Run>>> {
        let order = &self.context.order;
        let mut files = vec![Vec::new(); spans.len()];
        let sorted = cut.sorted.map_or(0, |(input, _)| input.funk.files.len());
        let newer = before.files.len() - sorted;
        for file in &before.files[..newer] {
            share(order, file, spans, (cut.share_of)(file, spans)?, &mut files);
        }
        let Some((input, pieces)) = cut.sorted else { return Ok(files) };
        for ((piece, span), files) in pieces.iter().zip(spans).zip(&mut files) {
            let table = table_ref(piece, parent, before, newer);
            files.push(Run { span: span.clone().into(), ..table });
        }
        for file in &input.kept {
            let share_bytes = (file.bytes() / spans.len() as u64).max(1);
            share(order, file, spans, vec![share_bytes; spans.len()], &mut files);
        }
        Ok(files)
    }

    /// The children have what the parent had, as the manifest says already. Only now, as a munk that was
    /// split is not written any more. The first phase of the paper's munk split: they share the parent's
    /// blocks.
    fn take_over(&self, parent: &Chunk, before: &RunStack, children: &[Arc<Chunk>]) {
        if let Some(munk) = parent.munk.load_full() {
            let boundaries: Vec<_> = children[1..].iter().map(|child| first_key(child)).collect();
            let munks = munk.split(&boundaries, room_for, self.is_needed());
            for (child, munk) in children.iter().zip(munks) {
                child.munk.store(Some(Arc::new(munk)));
            }
            self.context.counters.munk_splits.add(1);
        }
        let mut after = StackSizes::default();
        for child in children {
            let funk = child.funk.load();
            funk.files.iter().for_each(|file| file.retain(&self.context.totals));
            after.add(&funk.sizes());
        }
        self.account(&before.sizes(), &after);
    }

    /// Puts `children` in the place of `parents`, all in key order: in the manifest, then, once they took
    /// over what the parents had, in the index. False, and nothing is changed, if they do not fit there: then
    /// the parents are not split for a while. For who holds the locks of the parents, and retires them then.
    pub(in crate::chunk) fn succeed(
        &self,
        parents: &[&Arc<Chunk>],
        children: &[Arc<Chunk>],
        publish: impl FnOnce(&ChunkEdit) -> Result<()>,
        take_over: impl FnOnce(),
    ) -> Result<bool> {
        let funks: Vec<_> = children.iter().map(|child| child.funk.load_full()).collect();
        let added: Vec<_> =
            children.iter().zip(&funks).map(|(child, funk)| (&**child, &funk.files[..])).collect();
        let Some(edit) = self.replacement(parents, &added)? else {
            let tick = self.jobs.ticks.load(Relaxed) + SPLIT_PAUSE_TICKS;
            parents.iter().for_each(|parent| parent.put_off_split(tick));
            return Ok(false);
        };
        publish(&edit)?;
        take_over();
        let added = children.iter().map(|child| (first_key(child), child.clone())).collect();
        self.index.replace(&first_key(parents[0]), parents.len(), added);
        // From here on others find them.
        self.purge_later(children);
        for child in children.iter().filter(|child| child.munk.load().is_some()) {
            self.add_resident(child);
        }
        Ok(true)
    }
}

/// The ranges of new chunks that begin at these keys, but for the first.
pub(super) fn spans(parent: &Span, starts: &[Bytes]) -> Vec<Span> {
    let starts = || starts.iter().cloned().map(Some);
    let ends = starts().chain([parent.end.clone()]);
    let starts = [parent.start.clone()].into_iter().chain(starts());
    starts.zip(ends).map(|(start, end)| Span { start, end }).collect()
}

/// Gives a file to those of the new chunks that have something of it.
fn share(order: &KeyOrder, file: &Run, spans: &[Span], shares: Vec<u64>, files: &mut [Vec<Run>]) {
    for ((span, share_bytes), files) in spans.iter().zip(shares).zip(files) {
        let span = file.span.intersect(order, span).filter(|_| share_bytes > 0);
        files.extend(span.map(|span| file.part(span, share_bytes)));
    }
}
