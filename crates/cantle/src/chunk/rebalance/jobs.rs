//! Rebalances and splits in the background: submitting them, and the work after one.

use crate::chunk::Chunks;
use crate::chunk::chunk::Chunk;
use crate::chunk::policy::{self, ChunkSizes, Reason};
use crate::chunk::rebalance::rebalance::Trigger;
use crate::maintenance::Class;
use crate::substrate::Work;
use crate::sync::Arc;
use crate::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use crate::types::error::{Error, Result};

/// Ticks between a rebalance that found no space and the next attempt: about a third of a second.
const PAUSE_TICKS: u64 = 16;

/// A rebalance under way in the background. Dropping this ends it, with any outcome.
struct Job<'a> {
    chunks: &'a Chunks,
    freeing_bytes: i64,
}

impl Drop for Job<'_> {
    fn drop(&mut self) {
        self.chunks.jobs.active.fetch_sub(1, Relaxed);
        self.chunks.jobs.freeing_bytes.fetch_sub(self.freeing_bytes, Relaxed);
        self.chunks.end_relief();
    }
}

/// Work that ends the keyspace's pause of puts, unless more of it is under way: a rebalance, a
/// split, or submitting them. Dropping this ends it, with any outcome.
pub(in crate::chunk) struct Relief<'a>(&'a Chunks);

impl Drop for Relief<'_> {
    fn drop(&mut self) {
        self.0.end_relief();
    }
}

impl Chunks {
    pub(in crate::chunk) fn begin_relief(&self) -> Relief<'_> {
        self.count_relief();
        Relief(self)
    }

    fn count_relief(&self) {
        self.jobs.relief.lock().running += 1;
    }

    fn end_relief(&self) {
        let mut relief = self.jobs.relief.lock();
        relief.running -= 1;
        if relief.running == 0 {
            relief.pause = None;
        }
    }

    /// Submits a chunk for a rebalance, or for a split if only its munk is large.
    pub(in crate::chunk) fn submit(&self, chunk: &Arc<Chunk>) {
        if self.context.substrate.read_only || self.released.load(Acquire) || chunk.queued.swap(true, AcqRel)
        {
            return;
        }
        let sizes = self.chunk_sizes(chunk);
        let may_be_split = chunk.may_be_split(self.jobs.ticks.load(Relaxed));
        let gains = policy::gain(&sizes) >= policy::GAIN_MIN;
        match policy::due(&sizes, &self.limits(), &self.sizes()) {
            // A munk of few, large pairs cannot be split, even if it is large; the chunk may still
            // be rebalanced for space.
            Some(Reason::MunkLarge) if may_be_split => {
                self.submit_split(chunk, Self::split_in_memory, sizes, gains)
            }
            // Nothing to do until its split is tried again.
            Some(Reason::MunkLarge) if !gains => chunk.queued.store(false, Relaxed),
            Some(Reason::LogFull) if self.is_inserted_in_order(chunk) => {
                self.submit_split(chunk, Self::split_tail, sizes, true);
            }
            _ => self.submit_rebalance(chunk, sizes),
        }
    }

    /// Submits the split of a chunk that is marked as queued; if the split is not possible, perhaps
    /// a rebalance. A split takes milliseconds. After rebalances in the queue it would wait while
    /// the log or the munk grows, and the whole munk might then be evicted, with its hot part, to
    /// make room for itself.
    fn submit_split(
        &self,
        chunk: &Arc<Chunk>,
        split: fn(&Self, &Arc<Chunk>) -> Result<bool>,
        sizes: ChunkSizes,
        else_rebalance: bool,
    ) {
        let (this, chunk) = (self.this.clone(), chunk.clone());
        self.count_relief();
        self.context.substrate.pool.submit(Class::Seal, move || {
            let Some(chunks) = this.upgrade() else { return };
            let _relief = Relief(&chunks);
            let Some(_work) = chunks.begin_job(&chunk) else { return };
            let is_split = split(&chunks, &chunk).unwrap_or_else(|error| {
                tracing::warn!(%error, chunk = chunk.id, "cannot split a chunk");
                false
            });
            if !is_split && else_rebalance && !chunk.queued.swap(true, AcqRel) {
                chunks.submit_rebalance(&chunk, sizes);
            }
        });
    }

    /// Submits a tail split of a chunk that is inserted into in order, whatever else it is due for.
    pub(in crate::chunk) fn submit_tail_split(&self, chunk: &Arc<Chunk>) {
        if !self.context.substrate.read_only
            && !self.released.load(Acquire)
            && !chunk.queued.swap(true, AcqRel)
        {
            self.submit_split(chunk, Self::split_tail, self.chunk_sizes(chunk), false);
        }
    }

    /// Submits a rebalance of a chunk, whatever else it is due for: a munk that is too large, and
    /// cannot be split, must not prevent it.
    pub(in crate::chunk) fn submit_sort(&self, chunk: &Arc<Chunk>) {
        if !self.context.substrate.read_only
            && !self.released.load(Acquire)
            && !chunk.queued.swap(true, AcqRel)
        {
            self.submit_rebalance(chunk, self.chunk_sizes(chunk));
        }
    }

    /// Submits the rebalance of a chunk that is marked as queued.
    fn submit_rebalance(&self, chunk: &Arc<Chunk>, sizes: ChunkSizes) {
        self.count_relief();
        self.jobs.active.fetch_add(1, Relaxed);
        self.jobs.freeing_bytes.fetch_add(sizes.garbage_bytes as i64, Relaxed);
        let (this, chunk) = (self.this.clone(), chunk.clone());
        self.context.substrate.pool.submit(Class::Deep, move || {
            let Some(chunks) = this.upgrade() else { return };
            let job = Job { chunks: &chunks, freeing_bytes: sizes.garbage_bytes as i64 };
            let Some(_work) = chunks.begin_job(&chunk) else { return };
            match chunks.rebalance_or_merge(&chunk) {
                Ok(_) => {
                    chunks.after_rebalance(&chunk, &sizes);
                    drop(job);
                    chunks.rebalance_for_space();
                }
                Err(Error::Closed) => {}
                Err(error) if error.is_no_space() => {
                    tracing::debug!(%error, chunk = chunk.id, "no room for a rebalance");
                    let now = chunks.jobs.ticks.load(Relaxed);
                    chunks.jobs.pause.store(now + PAUSE_TICKS, Relaxed);
                }
                // The chunk is unchanged; the next tick tries again.
                Err(error) => tracing::warn!(%error, chunk = chunk.id, "rebalance failed"),
            }
        });
    }

    /// Rebalances a chunk. If it is due only because of the number of its files, merges just the
    /// newest of them, if possible.
    fn rebalance_or_merge(&self, chunk: &Arc<Chunk>) -> Result<bool> {
        let (sizes, limits) = (self.chunk_sizes(chunk), self.limits());
        let is_fragmented = policy::due(&sizes, &limits, &self.sizes()) == Some(Reason::Fragments);
        if is_fragmented
            && !policy::is_oversized(&sizes, &limits)
            && self.merge_newest(chunk, Trigger::Background)?
        {
            return Ok(true);
        }
        self.rebalance(chunk, Trigger::Background)
    }

    /// Allows the chunk to be submitted again. `None` if the store does no background work any
    /// more.
    fn begin_job(&self, chunk: &Chunk) -> Option<Work<'_>> {
        chunk.queued.store(false, Relaxed);
        let work = self.context.substrate.begin_work()?;
        let is_over = self.context.substrate.health.check_writable().is_err() || self.released.load(Acquire);
        (!is_over).then_some(work)
    }

    fn after_rebalance(&self, chunk: &Arc<Chunk>, before: &ChunkSizes) {
        let left = self.chunk_sizes(chunk).garbage_bytes;
        if left > before.garbage_bytes / 2 {
            // An open snapshot keeps the garbage: another rebalance under the same snapshot would
            // free as little.
            chunk.set_futile(self.context.substrate.mvcc.open_versions().first().copied());
        }
        let sizes = self.sizes();
        if sizes.held_bytes > policy::held_limit_bytes(&self.limits(), &sizes)
            || self.context.files.held_bytes() > policy::HELD_BYTES_MAX
        {
            self.context.substrate.checkpoints.want();
            self.context.substrate.pool.wake();
        }
        if let Err(error) = self.join_if_small(chunk) {
            tracing::warn!(%error, chunk = chunk.id, "merge of neighbours failed");
        }
    }
}
