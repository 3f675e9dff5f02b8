//! The chunk layout: EvenDB/YoDB.
//!
//! A keyspace is cut into *chunks*, each a key range with files of its own, its *funk*: log segments, to which
//! puts are appended, over sorted tables. While it is popular, a chunk has a *munk*, all of it in memory, and reads go
//! there. Else a get looks for a cached row, and then through the chunk's files from the newest to the oldest; a
//! scan merges them. When a log has grown too long, or too much of a chunk is garbage, a *rebalance* merges its
//! files into a new table, while puts go to a new log; a chunk that has become too large is *split* by the same
//! rebalance, and small neighbours are *merged* by referring to both their files.
//!
//! ```text
//!   index (sorted minimal keys)      a ──────── k ──────────────── t ───────
//!                                    │          │                  │
//!   chunks                        chunk 1    chunk 2            chunk 3
//!                                    │          │                  │
//!   funk: log segments            [ log ]    [ log ][ log ]        –
//!         tables                  [ table ]  [ table ]          [ table ]
//! ```
//!
//! A put's way: `write` (lock, append, publish) → `segment` → `memory_part`, and every half MiB `indexed_part`;
//! beside the log → `munk`. A get's: `index` → `munk`, or `cache::rows` → `funk`. A scan's: `walk` → `munk` or
//! `merged` → `log_view` → `log_piece`. Who has a munk: `popularity`; how it comes and goes: `load`; how it is rid
//! of garbage: `clean`. A rebalance's way: `policy` →
//! `rebalance` → `output`; what it means for the index: `split`, `join`. What the manifest keeps of it all: `edit`;
//! which changes of it are refused: `geometry`.
//! Whether a transaction may commit: `validate`.
//!
//! Locks, in this order: a chunk's right to change (`Chunk::begin_change`) → the locks of chunks in key order
//! (`Chunk::writer`) → the index's, the manifest's, the journal's, each only for a moment. Gets and scans take
//! none of them.

#[cfg(test)]
mod append_tests;
mod approximate;
#[cfg(test)]
mod backlog_tests;
#[expect(clippy::module_inception, reason = "the layout is named for what it is made of, and so is the file")]
pub mod chunk;
mod clean;
mod compress;
pub mod context;
#[cfg(test)]
mod documented;
#[cfg(test)]
mod documented_manifest;
pub mod edit;
#[cfg(test)]
mod ends_tests;
mod geometry;
#[cfg(test)]
mod geometry_tests;
mod histogram;
mod join;
#[cfg(test)]
mod life_tests;
mod load;
#[cfg(test)]
mod log_view_tests;
mod maintain;
mod munk;
mod open;
pub mod options;
#[cfg(test)]
mod order_tests;
mod pinned;
mod policy;
mod popularity;
#[cfg(test)]
mod pressure_tests;
mod rebalance;
mod replaced;
mod rules;
#[cfg(test)]
mod space_tests;
mod split;
mod split_end;
#[cfg(test)]
mod split_end_tests;
#[cfg(test)]
mod split_tests;
mod tier;
mod validate;
mod verify;
mod walk;
mod write;

use crate::budget::Cost;
use crate::cache::rows::LentRow;
use crate::filter::bloom;
use crate::layout::stats::{ChunkInfo, GetTimes, GetsServed, KeyspaceStats, Report};
use crate::layout::{Layout, Op, PairCursor, PreparedWrite, Pressure, ReadSet};
use crate::log::env::LogCounters;
use crate::memory::account::Account;
use crate::mvcc::SnapshotGuard;
use crate::run::env::RunCounters;
use crate::substrate::Jam;
use crate::sync::Arc;
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering::Relaxed};
use crate::sync::counter::Counter;
use crate::sync::on_use::OnUse;
use crate::types::bounds::Bounds;
use crate::types::error::Result;
use context::Counters;
pub use open::OpenState;
pub use tier::Share;

use crate::mvcc::range_index::RangeIndex;
use crate::run::get::{Answer, Served};
use crate::run::run::Source;
use crate::run::stack::StackSizes;
use bytes::Bytes;
use chunk::Chunk;
use context::Context;
use policy::{KeyspaceSizes, Limits};
use std::collections::HashMap;
use std::sync::Weak;

/// A keyspace in the chunk layout.
pub struct Chunks {
    /// For jobs that outlive the call that starts them.
    this: Weak<Self>,
    pub context: Arc<Context>,
    pub index: RangeIndex<Chunk>,
    next_chunk: AtomicU64,
    jobs: Jobs,
    pins: pinned::Pins,
    /// The keyspace was dropped: nothing is written any more.
    released: AtomicBool,
}

/// Rebalances under way and to come.
#[derive(Default)]
struct Jobs {
    /// Submitted and not finished.
    active: AtomicUsize,
    /// The same and splits, and what ends with the last of them.
    relief: Mutex<Relieving>,
    /// The live bytes that the store has been told of.
    told_live_bytes: AtomicI64,
    /// How far guesses of garbage were off.
    guesses: replaced::Guesses,
    /// Somebody counts what a log's tail replaced.
    counting: AtomicBool,
    /// Garbage that rebalances under way are expected to free.
    freeing_bytes: AtomicI64,
    /// Chunks by how much a rebalance gains, the best last; consumed by the space bound.
    candidates: Mutex<Vec<Weak<Chunk>>>,
    /// Chunks with dropped files that a snapshot still needed.
    waiting: Mutex<HashMap<u64, Weak<Chunk>>>,
    ticks: AtomicU64,
    /// The operations written until the last tick, and the last tick before which there were some.
    writes: AtomicU64,
    written_ticks: AtomicU64,
    /// After a rebalance that found no room, none is tried to free space before this tick.
    pause: AtomicU64,
    /// When memory is short, logs are indexed on disk from here on; `None` for the first chunk.
    hand: Mutex<Option<Bytes>>,
    /// Chunks are looked over from here on; `None` for the first chunk.
    look: Mutex<Option<Bytes>>,
    /// The same for those that should be in memory.
    munk_look: Mutex<Option<Bytes>>,
    /// Chunks in memory, and some that were.
    residents: Mutex<Vec<Weak<Chunk>>>,
    /// Chunks that are being loaded.
    loading: OnUse<Account>,
}

impl Jobs {
    /// A keyspace that nobody has written to for so many ticks, about a second, gives back what it took only while it was written to.
    const WRITTEN_TICKS: u64 = 50;

    /// In each tick.
    fn note_writes(&self, ticks: u64, writes: u64) {
        if self.writes.swap(writes, Relaxed) != writes {
            self.written_ticks.store(ticks, Relaxed);
        }
    }

    /// True if somebody wrote within about a second.
    fn is_written(&self) -> bool {
        let quiet = self.ticks.load(Relaxed).saturating_sub(self.written_ticks.load(Relaxed));
        quiet <= Self::WRITTEN_TICKS && self.writes.load(Relaxed) > 0
    }
}

/// What puts wait for on a disk that is nearly full.
#[derive(Default)]
struct Relieving {
    /// Rebalances and splits under way, and writers that are about to submit some.
    running: usize,
    /// Over when none is under way.
    jam: Option<Jam>,
}

/// A value where it was found.
enum Lent<'a> {
    Munk(&'a [u8]),
    Row(LentRow),
    Bytes(Bytes),
}

impl std::ops::Deref for Lent<'_> {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        match self {
            Self::Munk(value) => value,
            Self::Row(value) => value,
            Self::Bytes(value) => value,
        }
    }
}

impl Chunks {
    fn limits(&self) -> Limits {
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

    /// This keyspace's part of what the memory budget lets the store take beside its live bytes.
    fn spare_bytes(&self) -> u64 {
        let spare = policy::spare_bytes(
            self.context.substrate.budget.total_bytes,
            self.context.options().chunk_bytes,
        );
        let own = self.jobs.told_live_bytes.load(Relaxed).max(0) as f64;
        let all = self.context.substrate.live_bytes.load(Relaxed).max(0) as f64;
        if own >= all { spare } else { (spare as f64 * (own / all)) as u64 }
    }

    /// Tells the store how much is live here.
    fn tell_live_bytes(&self, live_bytes: u64) {
        let before = self.jobs.told_live_bytes.swap(live_bytes as i64, Relaxed);
        self.context.substrate.live_bytes.fetch_add(live_bytes as i64 - before, Relaxed);
    }

    fn sizes(&self) -> KeyspaceSizes {
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

    /// A chunk's files were exchanged.
    fn account(&self, before: &StackSizes, after: &StackSizes) {
        let change = |total: &AtomicI64, before: u64, after: u64| {
            total.fetch_add((after as i64).wrapping_sub(before as i64), Relaxed);
        };
        change(&self.context.totals.log_bytes, before.log_bytes, after.log_bytes);
        change(&self.context.totals.table_bytes, before.table_bytes, after.table_bytes);
        change(&self.context.totals.user_bytes, before.user_bytes, after.user_bytes);
        change(&self.context.totals.garbage_bytes, before.garbage_bytes, after.garbage_bytes);
        change(&self.context.totals.puts, before.entries, after.entries);
    }

    fn first(&self) -> Arc<Chunk> {
        self.index.view().first().clone()
    }

    /// The chunk that takes the place of another, or that itself: where its least keys lie now.
    fn successor(&self, chunk: &Chunk) -> Arc<Chunk> {
        self.chunk_at(chunk.span.start.as_deref())
    }

    /// The chunk that has a key, or the first one.
    fn chunk_at(&self, key: Option<&[u8]>) -> Arc<Chunk> {
        key.map_or_else(|| self.first(), |key| self.index.find(key))
    }

    /// The newest value of `key` at or below version `at`, lent: from the munk of its chunk, if it has one.
    fn look_up<T>(&self, key: &[u8], at: u64, read: impl FnOnce(Option<Lent<'_>>) -> T) -> Result<T> {
        let context = &self.context;
        context.counters.gets.add(1);
        {
            let view = self.index.load();
            let chunk = view.find(key);
            if let Some(reads) = chunk.touch_read(&self.jobs.ticks) {
                context.substrate.budget.count_reads(reads);
            }
            if let Some(munk) = &*chunk.munk.load() {
                context.counters.gets_munk.add(1);
                return Ok(read(munk.get(key, at).map(Lent::Munk)));
            }
        }
        Ok(read(self.look_up_cold(key, at)?))
    }

    /// The same for a chunk that is not in memory: from its row, or its files.
    #[cold]
    fn look_up_cold(&self, key: &[u8], at: u64) -> Result<Option<Lent<'static>>> {
        let context = &self.context;
        let hash = bloom::hash(key);
        let rows = context.rows.as_ref().filter(|_| at == u64::MAX && context.options().row_cache);
        if let Some(value) = rows.and_then(|rows| rows.get(key, hash)) {
            context.counters.gets_row.add(1);
            return Ok(Some(Lent::Row(value)));
        }
        // Before the chunk is looked for: who writes from here on, to whichever chunk succeeds it, or to the munk that
        // it may have by now, outdates the row.
        let stamp = rows.and_then(|rows| rows.stamp(hash));
        let chunk = self.index.find(key);
        if let Some(munk) = &*chunk.munk.load() {
            return Ok(munk.get(key, at).map(|value| Lent::Bytes(Bytes::copy_from_slice(value))));
        }
        let Answer { value, served } = chunk.funk.load().get(context, key, hash, at)?;
        if let Some(served) = served {
            context.substrate.budget.charge(if served == Served::Table { Cost::Blocks } else { Cost::File });
            if served == Served::LogIndex {
                // It takes longer than in a table.
                chunk.owe_log_get();
            }
        }
        if let (Some(rows), Some(stamp), Some(value)) = (rows, stamp, &value) {
            rows.insert(key, hash, stamp, value);
        }
        Ok(value.map(Lent::Bytes))
    }

    fn next_id(&self) -> u64 {
        self.next_chunk.fetch_add(1, Relaxed)
    }

    /// The chunks that overlap the bounds, in order.
    fn overlapping(&self, bounds: &Bounds) -> Vec<Arc<Chunk>> {
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

impl Layout for Chunks {
    fn get(&self, key: &[u8], at: u64) -> Result<Option<Bytes>> {
        self.look_up(key, at, |value| {
            value.map(|value| match value {
                Lent::Bytes(value) => value,
                value => Bytes::copy_from_slice(&value),
            })
        })
    }

    fn get_with(&self, key: &[u8], at: u64, read: &mut dyn FnMut(&[u8])) -> Result<bool> {
        self.look_up(key, at, |value| value.as_deref().map(read).is_some())
    }

    fn cursor(self: Arc<Self>, bounds: Bounds, snapshot: SnapshotGuard) -> Box<dyn PairCursor> {
        self.context.counters.scans.add(1);
        Box::new(walk::Walk::new(self, bounds, snapshot))
    }

    fn prepare<'a>(&'a self, ops: &'a [Op], reads: &'a ReadSet) -> Result<Box<dyn PreparedWrite + 'a>> {
        Ok(Box::new(write::Write::prepare(self, ops, reads)?))
    }

    fn approximate_bytes(&self, bounds: &Bounds) -> Result<u64> {
        let mut bytes = 0;
        for chunk in self.overlapping(bounds) {
            let funk = chunk.funk.load_full();
            bytes += match chunk.span.is_within(&self.context.order, bounds) {
                true => approximate::whole(&funk)?,
                false => self.approximate_part(&funk, bounds)?,
            };
        }
        Ok(bytes)
    }

    fn compact(&self, bounds: &Bounds) -> Result<()> {
        self.compact_chunks(bounds)
    }

    fn stats(&self) -> KeyspaceStats {
        let (none, no_runs, no_logs) = <(Counters, RunCounters, LogCounters)>::default();
        let counters = self.context.counters.peek().unwrap_or(&none);
        let runs = self.context.run.counters.peek().unwrap_or(&no_runs);
        let logs = self.context.log.counters.peek().unwrap_or(&no_logs);
        let of = Counter::get;
        let total = |total: &AtomicI64| total.load(Relaxed).max(0) as u64;
        let munks: Vec<_> = self.residents().iter().filter_map(|chunk| chunk.munk.load_full()).collect();
        KeyspaceStats {
            name: String::new(),
            layout: crate::layout::kind::Layout::Chunk,
            chunks: self.index.load().len() as u64,
            table_bytes: total(&self.context.totals.table_bytes),
            log_bytes: total(&self.context.totals.log_bytes),
            unclaimed_bytes: total(&self.context.totals.unclaimed_bytes),
            held_bytes: self.context.totals.held_bytes.load(Relaxed),
            live_bytes: self.sizes().live_bytes,
            pinned_bytes: self.pins.bytes(),
            user_bytes_written: of(&counters.user_bytes_written),
            log_bytes_written: of(&logs.log_bytes_written),
            table_bytes_written: of(&runs.table_bytes_written),
            writes: of(&counters.writes),
            gets: of(&counters.gets),
            scans: of(&counters.scans),
            gets_served: GetsServed {
                munk: of(&counters.gets_munk),
                row: of(&counters.gets_row),
                log_memory: of(&runs.gets_log_memory.count),
                log_index: of(&runs.gets_log_index.count),
                table: of(&runs.gets_table.count),
                absent: of(&runs.gets_absent.count),
            },
            get_times: GetTimes {
                log_memory_total: runs.gets_log_memory.total(),
                log_index_total: runs.gets_log_index.total(),
                table_total: runs.gets_table.total(),
                absent_total: runs.gets_absent.total(),
            },
            scans_munk: of(&counters.scans_munk),
            scans_log_view: of(&logs.scans_log_view),
            scan_log_reads: of(&runs.scan_log_reads),
            munks: munks.len() as u64,
            munk_bytes: munks.iter().map(|munk| munk.bytes()).sum(),
            munk_towers: munks.iter().map(|munk| munk.towers()).sum(),
            munk_loads: of(&counters.munk_loads),
            munk_evictions: of(&counters.munk_evictions),
            munk_rebalances: of(&counters.munk_rebalances),
            munk_splits: of(&counters.munk_splits),
            munk_flushes: of(&counters.munk_flushes),
            filter_skips: of(&runs.filter_skips),
            parts_passed_over: of(&logs.parts_passed_over),
            filter_false_positives: of(&runs.filter_false_positives),
            rebalances: of(&counters.rebalances),
            splits: of(&counters.splits),
            end_splits: of(&counters.end_splits),
            merges: of(&counters.merges),
            edits_refused: of(&counters.edits_refused),
            log_batches: of(&logs.log_batches),
            log_batch_bytes: of(&logs.log_batch_bytes),
            chunks_dropped: of(&counters.chunks_dropped),
        }
    }

    fn map(&self) -> Vec<ChunkInfo> {
        let view = self.index.view();
        let info = |chunk: &Arc<Chunk>| {
            let funk = chunk.funk.load();
            let sizes = funk.sizes();
            ChunkInfo {
                start: chunk.span.start.as_ref().map(|key| key.to_vec()).unwrap_or_default(),
                table_bytes: sizes.table_bytes,
                log_bytes: sizes.log_bytes,
                garbage_bytes: sizes.garbage_bytes + sizes.dropped_bytes,
                tables: sizes.tables,
                segments: funk.files.iter().filter(|file| matches!(file.source, Source::Log(_))).count()
                    as u32,
                munk_bytes: chunk.munk.load().as_ref().map_or(0, |munk| munk.bytes()),
                heat: chunk.heat() as f64,
            }
        };
        view.iter().map(|(_, chunk)| info(chunk)).collect()
    }

    fn verify(&self, report: &mut Report) {
        self.verify_files(report);
    }

    fn tick(&self) {
        self.maintain();
    }

    fn pressure(&self) -> Pressure {
        self.measure_pressure()
    }

    fn settle(&self) -> Result<()> {
        self.index_all_parts()
    }

    fn retire(&self) {
        self.retire_chunks();
    }

    fn release(&self) {
        self.release_files();
    }
}
