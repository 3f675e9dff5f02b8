//! Merge of underflowing neighbours, which the paper leaves out (§3.4: "can be merged via a similar protocol").
//!
//! A merge costs no I/O but an edit: the joined chunk refers to the files of both, each under the
//! key bounds of its former chunk. The next rebalance makes one table of them.
//!
//! Invariants, which `tests/shuttle_store.rs` checks:
//!
//! * Both locks are held, taken in key order as everywhere, from reading the lists of files until
//!   both chunks are marked as retired.
//! * Each file counts only for the keys of its former chunk, as a log that was shared since a split
//!   is older there than the other chunk's table.

use crate::chunk::Chunks;
use crate::chunk::chunk::Chunk;
use crate::chunk::edit::ChunkEdit;
use crate::chunk::munk::{Munk, room_for};
use crate::chunk::policy;
use crate::run::run::Run;
use crate::run::stack::RunStack;
use crate::sync::Arc;
use crate::types::error::Result;
use crate::types::span::Span;

impl Chunks {
    /// Joins `chunk` with one of its neighbours if both together are small.
    pub(in crate::chunk) fn join_if_small(&self, chunk: &Arc<Chunk>) -> Result<bool> {
        let view = self.index.view();
        let next = chunk.span.end.as_ref().map(|end| view.find(end).clone());
        let previous = chunk.span.start.as_ref().map(|start| view.find_last_before(Some(start)).clone());
        drop(view);
        for (left, right) in
            [next.map(|next| (chunk.clone(), next)), previous.map(|previous| (previous, chunk.clone()))]
                .into_iter()
                .flatten()
        {
            if left.id != right.id && self.is_small(&left, &right) && self.join(&left, &right)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn is_small(&self, left: &Chunk, right: &Chunk) -> bool {
        let live = |chunk: &Chunk| {
            let sizes = chunk.funk.load().sizes();
            sizes.user_bytes.saturating_sub(sizes.garbage_bytes)
        };
        policy::should_merge(live(left), live(right), &self.limits())
    }

    fn join(&self, left: &Arc<Chunk>, right: &Arc<Chunk>) -> Result<bool> {
        let (Some(_left_change), Some(_right_change)) = (left.begin_change(), right.begin_change()) else {
            return Ok(false);
        };
        let _span = tracing::debug_span!("merge", left = left.id, right = right.id).entered();
        let mut left_writer = left.writer.lock();
        let mut right_writer = right.writer.lock();
        if left_writer.retired || right_writer.retired || left.span.end != right.span.start {
            return Ok(false);
        }
        for writer in [&mut left_writer, &mut right_writer] {
            self.index_and_end_log(writer);
        }
        let munks = (left.munk.load_full(), right.munk.load_full());
        if let (Some(_), None) | (None, Some(_)) = munks {
            self.drop_munk(left, &mut left_writer);
            self.drop_munk(right, &mut right_writer);
        }
        let (left_funk, right_funk) = (left.funk.load_full(), right.funk.load_full());
        // Their spans are disjoint, so their order does not matter.
        let files: Vec<Run> = left_funk.files.iter().chain(&right_funk.files).cloned().collect();
        let span = Span { start: left.span.start.clone(), end: right.span.end.clone() };
        let joined = Arc::new(Chunk::new(self.next_id(), span, RunStack { files }));
        joined.note_version(left.newest_version().max(right.newest_version()));
        if let (Some(left), Some(right)) = munks {
            let room = room_for(left.len() + right.len());
            joined.munk.store(Some(Arc::new(Munk::join(&[&left, &right], room, self.is_needed()))));
        }
        let publish = |edit: &ChunkEdit| canary!(MERGE_UNTOLD else self.context.publish(edit));
        // The number of references to the files does not change.
        if !self.succeed(&[left, right], &[joined], publish, || {})? {
            return Ok(false);
        }
        left_writer.retired = true;
        right_writer.retired = true;
        self.context.counters.merges.add(1);
        tracing::debug!(left = left.id, right = right.id, "merged two chunks");
        Ok(true)
    }
}
