//! Replaces chunks by others (EvenDB §3.4): the common code of all splits, and the change of the
//! index that they share with merges.
//!
//! The chunk becomes immutable for a moment. Under its lock the log that it writes to is sealed,
//! and each new chunk shares the files, under key bounds, until its next rebalance. The index is
//! changed once. A reader that still holds the old chunk reads the same pairs from it; a writer
//! finds it retired. A [`Cut`] has the starts of the new chunks, and their shares of each file.
//!
//! Invariants, which `tests/shuttle_store.rs` and `tests/shuttle_split.rs` check:
//!
//! * When a new chunk can be found, it has its files, and the manifest has the chunk: the next
//!   write there appends the edit of a log to the manifest.
//! * The old chunk is retired after the index was changed, and before its lock is released.
//! * Its files are released after the edit was appended to the manifest.

use crate::chunk::Chunks;
use crate::chunk::chunk::Chunk;
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

/// Number of ticks, about a second, before a chunk is split again after a split was refused: it
/// would be refused again, and finding the place to cut takes milliseconds.
const SPLIT_PAUSE_TICKS: u64 = 48;

/// A way to cut a chunk into several.
pub(super) struct Cut<'a> {
    /// The start keys of the new chunks, except the first.
    pub starts: Vec<Bytes>,
    /// Approximate bytes of one of the parent's files that belong to each new chunk. A chunk with 0
    /// does not refer to the file.
    pub share_of: ShareOf<'a>,
    /// The result of a merge: one table for each new chunk replaces the merged files; files that
    /// were added meanwhile are shared.
    pub sorted: Option<(&'a Input, &'a [OutputTable])>,
    /// Number of chunks among which the parent's heat is divided.
    pub heirs: u64,
}

/// Called with a file and the spans of the new chunks.
pub(super) type ShareOf<'a> = Box<dyn FnMut(&Run, &[Span]) -> Result<Vec<u64>> + 'a>;

impl Chunks {
    /// Cuts a chunk as returned by `cut`, which is called under the chunk's lock with its files. If
    /// it returns `None`, nothing is changed. `None` also if the chunk was already replaced, or its
    /// replacement does not fit.
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
        let sorted = cut.sorted;
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
        // After the index was changed: a thread that finds the chunk retired finds its successors.
        writer.retired = true;
        drop(writer);
        self.context.counters.splits.add(1);
        if let Some((input, outputs)) = sorted {
            self.count_rebalance(input, outputs);
        }
        self.release(&before.files, &[]);
        tracing::debug!(count = children.len(), "split");
        Ok(Some(children))
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

    /// The children take over the parent's munk and files. Only after the manifest has the edit, as
    /// a munk that was split is not written any more. This is the first phase of the paper's munk
    /// split: the children share the parent's blocks.
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

    /// Replaces `parents` by `children`, all in key order: first in the manifest, then, after they
    /// took over from the parents, in the index. False, with nothing changed, if they do not fit;
    /// then the parents are not split for a while. The caller holds the locks of the parents, and
    /// retires them afterwards.
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
        // From here on other threads find them.
        self.purge_later(children);
        for child in children.iter().filter(|child| child.munk.load().is_some()) {
            self.add_resident(child);
        }
        Ok(true)
    }
}

/// The spans of new chunks; `starts` are the start keys of all but the first.
pub(super) fn spans(parent: &Span, starts: &[Bytes]) -> Vec<Span> {
    let starts = || starts.iter().cloned().map(Some);
    let ends = starts().chain([parent.end.clone()]);
    let starts = [parent.start.clone()].into_iter().chain(starts());
    starts.zip(ends).map(|(start, end)| Span { start, end }).collect()
}

/// Adds a file to the new chunks that have a share of it.
fn share(order: &KeyOrder, file: &Run, spans: &[Span], shares: Vec<u64>, files: &mut [Vec<Run>]) {
    for ((span, share_bytes), files) in spans.iter().zip(shares).zip(files) {
        let span = file.span.intersect(order, span).filter(|_| share_bytes > 0);
        files.extend(span.map(|span| file.part(span, share_bytes)));
    }
}
