//! The keyspace: its parts, the work under way in it, and gets.

use crate::cache::rows::Row;
use crate::fetch::{Directly, Fetch, Together, Unfetched};
use crate::filter::bloom;
use crate::memory::account::Account;
use crate::substrate::PutPause;
use crate::sync::Arc;
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering::Relaxed};
use crate::sync::on_use::OnUse;
use crate::types::bounds::Bounds;
use crate::types::error::Result;

use super::chunk::Chunk;
use super::context::Context;
use super::policy::{self, KeyspaceSizes, Limits};
use crate::mvcc::range_index::RangeIndex;
use crate::run::get::{Answer, Served};
use crate::run::stack::StackSizes;
use bytes::Bytes;
use std::collections::HashMap;
use std::sync::Weak;

/// A keyspace in the chunk layout.
pub struct Chunks {
    /// For jobs that outlive the call that starts them.
    pub(super) this: Weak<Self>,
    pub context: Arc<Context>,
    pub index: RangeIndex<Chunk>,
    pub(super) next_chunk: AtomicU64,
    pub(super) jobs: Jobs,
    pub(super) pins: super::pinned::Pins,
    /// True once the keyspace was dropped: nothing is written any more.
    pub(super) released: AtomicBool,
}

/// Background work under way and due.
#[derive(Default)]
pub(super) struct Jobs {
    /// Number of jobs submitted and not finished.
    pub(super) active: AtomicUsize,
    /// Rebalances and splits that puts may wait for, and the pause that ends with the last of them.
    pub(super) relief: Mutex<Relieving>,
    /// The live bytes last reported to the store.
    pub(super) told_live_bytes: AtomicI64,
    /// Corrections of estimates of garbage.
    pub(super) guesses: super::replaced::Guesses,
    /// True while a thread counts the entries that a log's tail replaced.
    pub(super) counting: AtomicBool,
    /// Garbage that rebalances under way are expected to free.
    pub(super) freeing_bytes: AtomicI64,
    /// Chunks by the gain of a rebalance, the best last; consumed by the space bound.
    pub(super) candidates: Mutex<Vec<Weak<Chunk>>>,
    /// Chunks with dropped files that a snapshot still needed, by number.
    pub(super) waiting: Mutex<HashMap<u64, Weak<Chunk>>>,
    pub(super) ticks: AtomicU64,
    /// Number of operations written up to the last tick, and the last tick at which this number had
    /// changed.
    pub(super) writes: AtomicU64,
    pub(super) written_ticks: AtomicU64,
    /// After a rebalance that found no space, none is tried to free space before this tick.
    pub(super) pause: AtomicU64,
    /// Start key of the next round of indexing logs on disk when memory is short; `None` for the
    /// first chunk.
    pub(super) hand: Mutex<Option<Bytes>>,
    /// Start key of the next round of checking chunks; `None` for the first chunk.
    pub(super) look: Mutex<Option<Bytes>>,
    /// As `look`, for the search for chunks that should be in memory.
    pub(super) munk_look: Mutex<Option<Bytes>>,
    /// Chunks in memory, and some that no longer are.
    pub(super) residents: Mutex<Vec<Weak<Chunk>>>,
    /// Memory of the chunks that are being loaded.
    pub(super) loading: OnUse<Account>,
}

impl Jobs {
    /// Number of ticks, about a second, after which a keyspace without writes releases the memory
    /// that it needs only for writes.
    const WRITTEN_TICKS: u64 = 50;

    /// Records the number of writes in each tick.
    pub(super) fn note_writes(&self, ticks: u64, writes: u64) {
        if self.writes.swap(writes, Relaxed) != writes {
            self.written_ticks.store(ticks, Relaxed);
        }
    }

    /// True if something was written within about a second.
    pub(super) fn is_written(&self) -> bool {
        let quiet = self.ticks.load(Relaxed).saturating_sub(self.written_ticks.load(Relaxed));
        quiet <= Self::WRITTEN_TICKS && self.writes.load(Relaxed) > 0
    }
}

/// Rebalances that puts wait for on a disk that is nearly full.
#[derive(Default)]
pub(super) struct Relieving {
    /// Rebalances and splits under way, and writers that are about to submit some.
    pub(super) running: usize,
    /// The pause of puts; ends when no rebalance is under way.
    pub(super) pause: Option<PutPause>,
}

/// A value at the place where it was found.
pub(super) enum Lent<'a> {
    Munk(&'a [u8]),
    Row(Row),
}

impl std::ops::Deref for Lent<'_> {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        match self {
            Self::Munk(value) => value,
            Self::Row(value) => value,
        }
    }
}

impl Chunks {
    pub(super) fn limits(&self) -> Limits {
        let options = self.context.options();
        Limits {
            chunk_bytes: options.chunk_bytes,
            space_amplification: options.space_amplification,
            spare_bytes: self.spare_bytes(),
            log_bytes: options.log_bytes,
            munk_log_bytes: options.munk_log_bytes,
            rules: *options.rules,
            // The table that the log is merged into takes the other half.
            log_bytes_max: self.context.substrate.reserve.rebalance_bytes_max() / 2,
        }
    }

    /// This keyspace's part of the disk space that the memory budget allows the store beside its
    /// live bytes.
    pub(super) fn spare_bytes(&self) -> u64 {
        let spare = policy::spare_bytes(
            self.context.substrate.budget.total_bytes,
            self.context.options().chunk_bytes,
        );
        let own = self.jobs.told_live_bytes.load(Relaxed).max(0) as f64;
        let all = self.context.substrate.live_bytes.load(Relaxed).max(0) as f64;
        if own >= all { spare } else { (spare as f64 * (own / all)) as u64 }
    }

    /// Reports the live bytes to the store.
    pub(super) fn tell_live_bytes(&self, live_bytes: u64) {
        let before = self.jobs.told_live_bytes.swap(live_bytes as i64, Relaxed);
        self.context.substrate.live_bytes.fetch_add(live_bytes as i64 - before, Relaxed);
    }

    pub(super) fn sizes(&self) -> KeyspaceSizes {
        let of = |total: &AtomicI64| total.load(Relaxed).max(0) as u64;
        let totals = &self.context.totals;
        let user_bytes = of(&totals.user_bytes);
        let live_bytes = user_bytes.saturating_sub(of(&totals.garbage_bytes));
        KeyspaceSizes {
            file_bytes: of(&totals.log_bytes) + of(&totals.table_bytes) + of(&totals.unclaimed_bytes),
            held_bytes: totals.held_bytes.load(Relaxed),
            growing_bytes: of(&totals.growing_bytes),
            freeing_bytes: of(&self.jobs.freeing_bytes),
            live_bytes,
            pinned_bytes: self.pins.bytes(),
            is_written: self.jobs.is_written(),
            pairs: (of(&totals.puts) as f64 * (live_bytes as f64 / user_bytes.max(1) as f64)) as u64,
        }
    }

    /// Updates the totals after a chunk's files were exchanged.
    pub(super) fn account(&self, before: &StackSizes, after: &StackSizes) {
        let change = |total: &AtomicI64, before: u64, after: u64| {
            total.fetch_add((after as i64).wrapping_sub(before as i64), Relaxed);
        };
        change(&self.context.totals.log_bytes, before.log_bytes, after.log_bytes);
        change(&self.context.totals.table_bytes, before.table_bytes, after.table_bytes);
        change(&self.context.totals.user_bytes, before.user_bytes, after.user_bytes);
        change(&self.context.totals.garbage_bytes, before.garbage_bytes, after.garbage_bytes);
        change(&self.context.totals.puts, before.entries, after.entries);
    }

    pub(super) fn first(&self) -> Arc<Chunk> {
        self.index.view().first().clone()
    }

    /// The chunk that now has the smallest keys of `chunk`: itself, or the one that replaced it.
    pub(super) fn successor(&self, chunk: &Chunk) -> Arc<Chunk> {
        self.chunk_at(chunk.span.start.as_deref())
    }

    /// The chunk that has a key, or the first one.
    pub(super) fn chunk_at(&self, key: Option<&[u8]>) -> Arc<Chunk> {
        key.map_or_else(|| self.first(), |key| self.index.find(key))
    }

    /// Looks up the newest value of `key` at or below version `at`, and passes it to `read`.
    /// Without a copy, if the chunk has a munk.
    pub(super) fn look_up<T>(
        &self,
        key: &[u8],
        at: u64,
        read: impl FnOnce(Option<Lent<'_>>) -> T,
    ) -> Result<T> {
        {
            let view = self.index.load();
            let chunk = view.find(key);
            self.count_get(chunk);
            if let Some(munk) = &*chunk.munk.load() {
                self.context.counters.gets_munk.add(1);
                return Ok(read(munk.get(key, at).map(Lent::Munk)));
            }
        }
        Ok(read(self.look_up_cold(key, at)?))
    }

    /// The same without the row cache, for one of many gets.
    pub(super) fn look_up_together(
        &self,
        key: &[u8],
        at: u64,
        fetch: &Together,
    ) -> Result<Option<Bytes>, Unfetched> {
        let value = self.read(key, bloom::hash(key), at, fetch)?;
        self.count_get(self.index.load().find(key));
        Ok(value)
    }

    fn count_get(&self, chunk: &Chunk) {
        self.context.counters.gets.add(1);
        if let Some(reads) = chunk.touch_read(&self.jobs.ticks) {
            self.context.substrate.budget.count_gets(reads);
        }
    }

    /// The newest value of `key`, which has this hash, at or below version `at`. Another chunk has it,
    /// perhaps, than the one that had no munk; or that one has a munk by now.
    fn read<F: Fetch>(&self, key: &[u8], hash: u64, at: u64, fetch: &F) -> Result<Option<Bytes>, F::Stop> {
        let chunk = self.index.find(key);
        if let Some(munk) = &*chunk.munk.load() {
            self.context.counters.gets_munk.add(1);
            return Ok(munk.get(key, at).map(Bytes::copy_from_slice));
        }
        let Answer { value, served } = chunk.funk.load().get(&self.context, key, hash, at, fetch)?;
        if served == Some(Served::LogIndex) {
            // This takes longer than in a table.
            chunk.owe_log_get();
        }
        Ok(value)
    }

    /// The same for a chunk without a munk: from the row cache, or from files.
    #[cold]
    pub(super) fn look_up_cold(&self, key: &[u8], at: u64) -> Result<Option<Lent<'static>>> {
        let context = &self.context;
        let hash = bloom::hash(key);
        let read = || self.read(key, hash, at, &Directly);
        let row = match context.rows.as_ref().filter(|_| at == u64::MAX) {
            Some(rows) => rows.get_or_read(key, hash, read)?,
            None => read()?.map(Row::Read),
        };
        if let Some(Row::Cached(_)) = &row {
            context.counters.gets_row.add(1);
        }
        Ok(row.map(Lent::Row))
    }

    pub(super) fn next_id(&self) -> u64 {
        self.next_chunk.fetch_add(1, Relaxed)
    }

    /// The chunks that overlap the bounds, in order.
    pub(super) fn overlapping(&self, bounds: &Bounds) -> Vec<Arc<Chunk>> {
        let order = &self.context.order;
        if crate::types::span::is_empty_range(order, bounds) {
            return Vec::new();
        }
        let view = self.index.view();
        let from = match &bounds.start {
            std::ops::Bound::Included(key) | std::ops::Bound::Excluded(key) => view.iter_from(key),
            std::ops::Bound::Unbounded => view.iter(),
        };
        from.map(|(_, chunk)| chunk).take_while(|chunk| chunk.span.overlaps(order, bounds)).cloned().collect()
    }
}
