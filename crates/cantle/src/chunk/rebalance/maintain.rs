//! Background work and its timing: estimates after writes, rebalances for logs, space and reads,
//! joins, memory.

use crate::chunk::Chunks;
use crate::chunk::chunk::Chunk;
use crate::chunk::policy::{self, ChunkSizes};
use crate::chunk::rebalance::rebalance::Trigger;
use crate::chunk::replaced::Written;
use crate::layout::{Op, Pressure};
use crate::log::index::memory_part::RecordPtr;
use crate::log::segment::Segment;
use crate::run::approximate;
use crate::run::run::Source;
use crate::sync::Arc;
use crate::sync::atomic::Ordering::{Acquire, Relaxed};
use crate::types::bounds::Bounds;
use crate::types::error::{Error, Result};
use bytes::Bytes;
use std::ops::Bound;

/// Number of ticks between two halvings of counts (EvenDB §4): about ten seconds.
const DECAY_TICKS: u64 = 512;
/// Maximum number of rebalances submitted at a time: enough to keep the threads busy, few enough
/// that each is still the best choice.
const JOBS_MAX: usize = 4;
/// Number of ticks between two choices of munks: some ten choices a second.
const MUNK_TICKS: u64 = 4;
/// Number of chunks checked in one tick when memory is short.
const HAND_CHUNKS: usize = 256;
/// Length in bytes below which the parts of logs stay in memory, while their chunks are in use and
/// memory is less than a quarter over its limit.
const SHORT_PART_BYTES: u64 = 16 << 10;

impl Chunks {
    pub(in crate::chunk) fn chunk_sizes(&self, chunk: &Chunk) -> ChunkSizes {
        let funk = chunk.funk.load();
        let sizes = funk.sizes();
        let loaded = funk.logs().filter_map(|segment| segment.loaded());
        let range_deletes = loaded.map(|parts| parts.range_deletes());
        ChunkSizes {
            table_bytes: sizes.table_bytes,
            log_bytes: sizes.log_bytes,
            garbage_bytes: (sizes.garbage_bytes + sizes.dropped_bytes)
                .saturating_sub(self.pinned_bytes(&funk)),
            unclaimed_bytes: sizes.unclaimed_bytes,
            overhead_bytes: sizes.overhead_bytes,
            files: funk.files.len(),
            entries: sizes.entries,
            read_debt: chunk.read_debt(),
            range_deletes: range_deletes.sum(),
            munk_live_bytes: chunk.munk.load().as_ref().map(|munk| munk.live_bytes()),
        }
    }

    /// Called after a write dropped a chunk and released its lock.
    pub(in crate::chunk) fn after_drop(&self, chunk: &Arc<Chunk>) {
        self.jobs.waiting.lock().insert(chunk.id, Arc::downgrade(chunk));
    }

    /// Called after operations were published in this log, and the locks of their write released.
    pub(in crate::chunk) fn after_write<'a>(
        &self,
        chunk: &Arc<Chunk>,
        (segment, version): (&Arc<Segment>, u64),
        ops: impl Iterator<Item = (&'a Op<'a>, RecordPtr)>,
    ) {
        let has_munk = chunk.munk.load().is_some();
        for (op, place) in ops {
            if let Some(bounds) = &op.bounds {
                chunk.owe_reads(64);
                if !has_munk {
                    self.estimate_deleted(chunk, bounds);
                }
            } else if !has_munk {
                let written = Written { segment, place, version, key: op.key };
                self.count_replaced(chunk, &written, op);
            }
        }
        let funk = chunk.funk.load();
        let log_bytes = funk.files.first().map_or(0, |file| file.bytes());
        let munk_live_bytes = chunk.munk.load().as_ref().map(|munk| munk.live_bytes());
        if munk_live_bytes.is_some() {
            self.context.substrate.budget.evict_residents_if_crowded();
        }
        let limits = self.limits();
        let limit_bytes = policy::log_limit_bytes(&limits, &self.sizes(), munk_live_bytes.is_some());
        // The first file is the log that grew. The others are only checked when it is long enough
        // to matter. Logs of earlier openings are an exception: a process that is killed again and
        // again would write this much each time before any of it is sorted.
        let log_bytes = log_bytes + self.inherited_log_bytes(&funk);
        if log_bytes >= limit_bytes
            || munk_live_bytes.is_some_and(|bytes| policy::is_munk_large(bytes, &limits))
        {
            // A length that the user set says nothing about the cost of sorting.
            if limits.log_bytes.is_none() {
                self.context.substrate.throttle.owe(policy::long_log_delay_nanos(log_bytes, limit_bytes));
            }
            // Until the chunk is submitted: if it is not, nothing else would end the pause.
            let _relief = self.begin_relief();
            let pause = self
                .context
                .substrate
                .reserve
                .pause_puts_if_tight(policy::output_bytes(&self.chunk_sizes(chunk)));
            self.jobs.relief.lock().pause = pause;
            self.submit(chunk);
        }
    }

    /// Bytes of logs of earlier openings.
    fn inherited_log_bytes(&self, funk: &crate::run::stack::RunStack) -> u64 {
        let inherited = |file: &&crate::run::run::Run| {
            matches!(file.source, Source::Log(_)) && file.file().epoch < self.context.epoch()
        };
        funk.files.iter().skip(1).filter(inherited).map(|file| file.bytes()).sum()
    }

    /// Estimates the garbage of a range delete that covers a part of a chunk.
    fn estimate_deleted(&self, chunk: &Chunk, bounds: &Bounds) {
        let funk = chunk.funk.load();
        let Some(Source::Log(segment)) = funk.files.first().map(|file| &file.source) else { return };
        match approximate::within(&self.context, &funk.files, bounds) {
            Ok(bytes) => {
                let key = chunk.span.start.clone().unwrap_or_default();
                self.add_replaced(&key, segment, bytes, None);
            }
            Err(error) => tracing::debug!(%error, "cannot estimate garbage"),
        }
    }

    /// Adds to the garbage of a log. The caller holds the lock of a chunk that the segment belongs
    /// to.
    pub(in crate::chunk) fn add_garbage(&self, segment: &Segment, bytes: u64) {
        segment.garbage_bytes.fetch_add(bytes, Relaxed);
        self.context.totals.garbage_bytes.fetch_add(bytes as i64, Relaxed);
    }

    /// Submits the rebalances with the greatest gain while the keyspace exceeds its space bound.
    pub(super) fn rebalance_for_space(&self) {
        let limits = self.limits();
        loop {
            if self.released.load(Acquire) || self.context.substrate.health.check_writable().is_err() {
                return;
            }
            if self.jobs.active.load(Relaxed) >= JOBS_MAX {
                return;
            }
            let sizes = self.sizes();
            if policy::over_bytes(&limits, &sizes) == 0 {
                return;
            }
            if policy::must_wait_for_checkpoint(&limits, &sizes) {
                self.context.substrate.checkpoints.want();
                self.context.substrate.pool.wake();
                return;
            }
            let Some(chunk) = self.best_candidate() else { return };
            self.submit(&chunk);
        }
    }

    /// On a full disk: requests a checkpoint if files only wait for that, and otherwise submits the
    /// rebalance with the greatest gain.
    fn free_space(&self, ticks: u64) {
        if self.context.files.held_bytes() > 0 {
            self.context.substrate.checkpoints.want();
        }
        if self.jobs.active.load(Relaxed) == 0
            && ticks >= self.jobs.pause.load(Relaxed)
            && let Some(chunk) = self.best_candidate()
        {
            self.submit(&chunk);
        }
    }

    /// The chunk whose rebalance frees the most per byte that it writes. Chunks that cannot be
    /// chosen are no candidates at all: otherwise a few of them, whose garbage an open snapshot
    /// keeps, would hide all others as long as it is open.
    pub(in crate::chunk) fn best_candidate(&self) -> Option<Arc<Chunk>> {
        let oldest = self.context.substrate.mvcc.open_versions().first().copied();
        let gain_of = |chunk: &Chunk| {
            let may_gain = !chunk.queued.load(Relaxed) && !chunk.is_changing() && !chunk.was_futile(oldest);
            let gain = if may_gain { policy::gain(&self.chunk_sizes(chunk)) } else { 0.0 };
            (gain >= policy::GAIN_MIN).then_some(gain)
        };
        let mut candidates = self.jobs.candidates.lock();
        for _ in 0..2 {
            while let Some(chunk) = candidates.pop() {
                if let Some(chunk) = chunk.upgrade().filter(|chunk| gain_of(chunk).is_some()) {
                    return Some(chunk);
                }
            }
            let view = self.index.view();
            let mut by_gain: Vec<_> =
                view.iter().filter_map(|(_, chunk)| Some((gain_of(chunk)?, Arc::downgrade(chunk)))).collect();
            by_gain.sort_by(|(a, _), (b, _)| a.total_cmp(b));
            // A few at a time: gains change while the first are rebalanced.
            let keep = by_gain.len() - (by_gain.len() / 16).clamp(1, 64).min(by_gain.len());
            candidates.extend(by_gain.drain(keep..).map(|(_, chunk)| chunk));
        }
        None
    }

    /// Number of reads and writes since opening.
    pub(in crate::chunk) fn count_accesses(&self) -> u64 {
        let counters = self.context.counters.peek();
        counters.map_or(0, |counters| counters.gets.get() + counters.scans.get() + counters.writes.get())
    }

    /// True if work is under way, or due as soon as possible.
    pub(in crate::chunk) fn has_work(&self) -> bool {
        self.jobs.active.load(Relaxed) > 0
            || self.jobs.loading.used_bytes() > 0
            || !self.jobs.waiting.lock().is_empty()
            || policy::over_bytes(&self.limits(), &self.sizes()) > 0
    }

    /// Called every few milliseconds.
    pub(in crate::chunk) fn maintain(&self) {
        if self.released.load(Acquire) {
            return;
        }
        let ticks = self.jobs.ticks.fetch_add(1, Relaxed);
        self.jobs.note_writes(ticks, self.context.counters.writes.get());
        self.look_for_pins(ticks);
        self.tell_live_bytes(self.sizes().live_bytes);
        if self.context.options().munks {
            self.keep_munks_within_budget();
            if ticks.is_multiple_of(MUNK_TICKS) {
                self.choose_munks();
            }
        }
        if self.context.substrate.read_only {
            return;
        }
        self.rebalance_for_space();
        self.purge_waiting();
        if self.context.substrate.reserve.is_full() {
            self.free_space(ticks);
        }
        let budget = &self.context.substrate.budget;
        if budget.logs.indexes.used_bytes() > budget.logs.indexes.limit_bytes() {
            self.flush_log_indexes();
        }
        if ticks.is_multiple_of(16) {
            self.submit_due_chunks(ticks.is_multiple_of(DECAY_TICKS));
        }
    }

    /// Submits chunks that are due independent of the space bound, and halves counts if `decay` is
    /// true.
    fn submit_due_chunks(&self, decay: bool) {
        let (limits, sizes) = (self.limits(), self.sizes());
        let view = self.index.view();
        // A large keyspace is checked in rounds, so that this takes only microseconds.
        const CHUNKS_PER_LOOK: usize = 1024;
        let from = self.jobs.look.lock().take();
        let mut chunks = view.iter_from_or_first(from.as_deref());
        for (_, chunk) in chunks.by_ref().take(CHUNKS_PER_LOOK) {
            if policy::due(&self.chunk_sizes(chunk), &limits, &sizes).is_some() && !chunk.is_changing() {
                self.submit(chunk);
            }
            self.bury_dead(chunk, self.jobs.ticks.load(Relaxed));
            let funk = chunk.funk.load();
            self.compress_idle(chunk, &funk, self.jobs.ticks.load(Relaxed));
            if let Some(segment) = funk.logs().find(|segment| segment.uncounted_from() > 0) {
                self.submit_count(segment);
            }
        }
        *self.jobs.look.lock() = chunks.next().map(|(key, _)| key.clone());
        if decay {
            view.iter().for_each(|(_, chunk)| chunk.decay());
        }
    }

    /// Pressure in proportion to the excess over the space bound.
    pub(in crate::chunk) fn measure_pressure(&self) -> Pressure {
        /// Exceeding the bound by this fraction makes writers as slow as maintenance.
        const FULL: f64 = 0.05;
        let (limits, sizes) = (self.limits(), self.sizes());
        let freed_part = policy::slack_bytes(&limits, &sizes) as f64 / (sizes.live_bytes as f64).max(1.0);
        let frees_space = !self.context.substrate.read_only && !self.released.load(Acquire);
        Pressure {
            overload: if frees_space { policy::excess(&limits, &sizes) / FULL } else { 0.0 },
            // A rebalance processes some 100 MB a second; a part of that is garbage that it frees.
            freed_bytes_per_second: 100e6 * freed_part.clamp(0.1, 1.0),
        }
    }

    /// Marks the new chunks that took over dropped files for purging.
    pub(in crate::chunk) fn purge_later(&self, chunks: &[Arc<Chunk>]) {
        let dropped = |chunk: &&Arc<Chunk>| chunk.funk.load().files.iter().any(|file| file.dropped.is_some());
        let waiting = chunks.iter().filter(dropped).map(|chunk| (chunk.id, Arc::downgrade(chunk)));
        self.jobs.waiting.lock().extend(waiting);
    }

    /// Tries again to purge chunks whose dropped files a snapshot still needed.
    fn purge_waiting(&self) {
        let waiting = std::mem::take(&mut *self.jobs.waiting.lock());
        if waiting.is_empty() {
            return;
        }
        let open = self.context.substrate.mvcc.open_versions();
        for (id, chunk) in waiting {
            let Some(strong) = chunk.upgrade() else { continue };
            let funk = strong.funk.load();
            if funk.files.iter().any(|file| !file.is_needed(&open)) {
                self.submit(&strong);
            }
            // Until a rebalance has removed all of them.
            if funk.files.iter().any(|file| file.dropped.is_some()) {
                self.jobs.waiting.lock().insert(id, chunk);
            }
        }
    }

    /// Indexes parts of logs on disk until memory suffices, the coldest first, in the order of a
    /// clock hand. Short parts of chunks that are in use stay: each would add an index to reads,
    /// and soon be followed by another.
    pub(in crate::chunk) fn flush_log_indexes(&self) {
        let view = self.index.view();
        let from = self.jobs.hand.lock().take();
        let round = || view.iter_from_or_first(from.as_deref());
        let (mut heat, mut looked_at) = (0, 0);
        for (_, chunk) in round().take(HAND_CHUNKS) {
            heat += chunk.heat();
            looked_at += 1;
        }
        let mean_heat = 1 + heat / looked_at.max(1);
        let budget = &self.context.substrate.budget;
        let limit_bytes = budget.logs.indexes.limit_bytes();
        // If all parts are short, they are indexed as well.
        let is_tight = budget.logs.indexes.used_bytes() > limit_bytes + limit_bytes / 4;
        let short_bytes = if is_tight { 0 } else { SHORT_PART_BYTES };
        let mut chunks = round();
        for (_, chunk) in chunks.by_ref().take(HAND_CHUNKS) {
            if chunk.heat() > 2 * mean_heat {
                continue;
            }
            if let Some(mut writer) = chunk.writer.try_lock()
                && (chunk.heat() == 0 || writer.part_bytes() >= short_bytes)
                && let Err(error) = self.index_part(&mut writer)
            {
                tracing::warn!(%error, "cannot index a part of a log");
            }
            for segment in chunk.funk.load().logs() {
                segment.unload(&self.context);
            }
        }
        *self.jobs.hand.lock() = chunks.next().map(|(key, _)| key.clone());
    }

    /// Before closing: indexes all parts on disk, as the next opening would have to scan those
    /// indexed in memory only.
    pub(in crate::chunk) fn index_all_parts(&self) -> Result<()> {
        for (_, chunk) in self.index.view().iter() {
            self.index_part(&mut chunk.writer.lock())?;
        }
        Ok(())
    }

    /// Rebalances every chunk that overlaps the bounds, now and in this thread, and joins small
    /// neighbours.
    pub(in crate::chunk) fn compact_chunks(&self, bounds: &Bounds) -> Result<()> {
        let mut at = match &bounds.start {
            Bound::Unbounded => None,
            Bound::Included(key) | Bound::Excluded(key) => Some(Bytes::copy_from_slice(key)),
        };
        loop {
            // Registered for each chunk, so that closing the store waits for one chunk only.
            let Some(_work) = self.context.substrate.begin_work() else { return Err(Error::Closed) };
            let chunk = self.chunk_at(at.as_deref());
            self.context.order.check()?;
            if !chunk.span.overlaps(&self.context.order, bounds) {
                return Ok(());
            }
            let sorted = {
                let funk = chunk.funk.load();
                funk.files.len() <= 1
                    && funk.logs().next().is_none()
                    && funk.files.iter().all(|file| file.dropped.is_none())
            };
            if !sorted && !self.rebalance_freeing(&chunk)? && chunk.writer.lock().retired {
                // The keyspace was dropped, and no chunk takes the place of this one.
                if self.released.load(Acquire) {
                    return Err(Error::NoKeyspace("(dropped)".into()));
                }
                // Another thread has split or merged it: the chunks that replaced it are next.
                continue;
            }
            let Some(end) = chunk.span.end.clone() else { break };
            at = Some(end);
        }
        for chunk in self.overlapping(bounds) {
            let Some(_work) = self.context.substrate.begin_work() else { return Err(Error::Closed) };
            while self.join_if_small(&self.successor(&chunk))? {}
        }
        Ok(())
    }

    /// Rebalances a chunk. If there is no space, frees files by a checkpoint and tries again. False
    /// if there was nothing to do.
    fn rebalance_freeing(&self, chunk: &Arc<Chunk>) -> Result<bool> {
        /// Number of attempts 1 ms apart: about the time that other rebalances need to finish
        /// writing.
        const TRIES: usize = 500;
        let mut tries = 0;
        loop {
            match self.rebalance(chunk, Trigger::Asked) {
                // Another thread may be changing the chunk: wait for it and check again.
                Ok(false) if chunk.is_changing() => {}
                Ok(done) => return Ok(done),
                Err(error) if error.is_no_space() && tries < TRIES => {
                    tries += 1;
                    if self.context.files.held_bytes() > 0 {
                        self.context.substrate.checkpoint()?;
                        continue;
                    }
                    // Other rebalances hold space, or readers hold files that a checkpoint has
                    // released.
                    if self.jobs.active.load(Relaxed) == 0 && tries > TRIES / 10 {
                        return Err(error);
                    }
                    self.context.substrate.forget_gone();
                }
                Err(error) => return Err(error),
            }
            crate::sync::thread::sleep(std::time::Duration::from_millis(1));
        }
    }
}
