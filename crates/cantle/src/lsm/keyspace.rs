//! The keyspace and its parts, and gets.

use super::busy::Claims;
use super::look::Look;
use super::progress::Running;
use super::rotation::Rotation;
use super::shape::{Rules, Shape};
use super::state::LEVELS_MAX;
use super::straight_seeks::StraightSeeks;
use super::view::View;
use crate::cache::rows::{Row, Rows};
use crate::fetch::{Together, Unfetched};
use crate::filter::bloom;
use crate::log::shared::SharedLog;
use crate::memory::account::Charge;
use crate::mvcc::key_locks::KeyLocks;
use crate::run::env::RunEnv;
use crate::run::get::get;
use crate::run::run::{Run, Source};
use crate::run::search::search;
use crate::substrate::Substrate;
use crate::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed};
use crate::sync::counter::{Counter, sampled};
use crate::sync::on_use::OnUse;
use crate::sync::{Arc, Mutex};
use crate::types::error::Result;
use bytes::Bytes;
use crossbeam_utils::atomic::AtomicCell;
use std::sync::Weak;

/// Number of gets of which one is counted for all, in the division of memory.
const SAMPLED_GETS: u64 = 64;

/// Part of the memory budget for the logs that are not indexed on disk, as a divisor; and number of
/// generations that share it.
const WRITE_FRACTION: u64 = 4;
const WRITE_GENERATIONS: u64 = 6;
const GENERATION_BYTES_MIN: u64 = 1 << 20;
/// Two generations are the most that an opening after a kill may have to load: 32 MiB.
const GENERATION_BYTES_MAX: u64 = 16 << 20;

/// Length in bytes of a generation, from the memory budget.
pub fn generation_bytes(budget_bytes: u64) -> u64 {
    (budget_bytes / WRITE_FRACTION / WRITE_GENERATIONS).clamp(GENERATION_BYTES_MIN, GENERATION_BYTES_MAX)
}

/// Counters of one keyspace since opening.
#[derive(Default)]
pub struct Counters {
    pub user_bytes_written: Counter,
    pub writes: Counter,
    pub gets: Counter,
    pub gets_row: Counter,
    pub scans: Counter,
    pub generations_sealed: Counter,
    pub generations_flushed: Counter,
    pub flushed_bytes: Counter,
    pub merges: Counter,
    pub merged_bytes: Counter,
    pub merges_for_space: Counter,
    pub logs_adopted: Counter,
    pub tables_moved: Counter,
    /// Guards that began, and that joined the one before them, without rewriting a table.
    pub groups_inserted: Counter,
    pub groups_deleted: Counter,
    pub ranges_dropped: Counter,
    pub seeks: Counter,
    pub seek_runs: Counter,
    /// Bytes of tables that merges wrote into each level, from level 1 on.
    pub level_bytes_written: [Counter; LEVELS_MAX as usize],
    pub edits_refused: Counter,
}

/// Sizes of a keyspace, from its options and the memory budget.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limits {
    /// Length in bytes of a log at which its generation is full.
    pub generation_bytes: u64,
    pub row_cache: bool,
    /// Number of runs that a get searches at the same time at most.
    pub parallel_search: u32,
    /// False if new logs and tables get no filters.
    pub filters: bool,
    /// True if the space of new tables is allocated before they are written.
    pub aligned_storing: bool,
    /// True if new tables are written past the operating system's page cache.
    pub direct_io: bool,
    pub rules: Rules,
}

/// A keyspace over the engine, with the tables placed by `S`.
pub struct Lsm<S> {
    /// For jobs that outlive the call that starts them.
    pub(super) this: Weak<Self>,
    pub env: Arc<RunEnv>,
    pub substrate: Arc<Substrate>,
    /// Allocated at the first write.
    pub(super) locks: OnUse<KeyLocks>,
    pub(super) rotation: Rotation<SharedLog, View<S>>,
    pub limits: AtomicCell<Limits>,
    pub counters: OnUse<Counters>,
    /// Made at the first get or write.
    pub(super) rows: OnUse<Rows>,
    pub(super) straight_seeks: StraightSeeks,
    pub(super) jobs: Jobs,
    /// The keyspace's own memory, charged to the budget.
    pub(super) _charge: Option<Charge>,
}

/// Background work under way and due.
#[derive(Default)]
pub(super) struct Jobs {
    /// True while a spare generation is being created.
    pub making_spare: AtomicBool,
    /// True while a job seals generations.
    pub sealing: AtomicBool,
    /// Held while a sealed generation is indexed or flushed.
    pub settling: Mutex<()>,
    /// True once the keyspace is being retired: merges end.
    pub is_retiring: AtomicBool,
    /// The groups that running merges change. Allocated at the first tick or merge.
    pub claims: OnUse<Claims>,
    /// Allocated at the first merge.
    pub merging: OnUse<Merging>,
    /// Number of workers that merge, or are asked to.
    pub mergers: AtomicUsize,
    /// Entries that scans passed over in logs since level 0 was last merged.
    pub level0_debt: AtomicU64,
    pub ticks: AtomicU64,
    /// The last look at all groups, if it took long.
    pub look: OnUse<Mutex<Option<Look>>>,
    /// Number of writes at the last tick, and the number of ticks since it changed.
    pub writes: AtomicU64,
    pub idle_ticks: AtomicU64,
    /// After a merge that failed, none is tried before this tick.
    pub pause: AtomicU64,
    /// The same for the creation of a log, and for indexing one.
    pub create_pause: AtomicU64,
    pub seal_pause: AtomicU64,
    /// Numbers of logs in the manifest that a loss of power has voided. The next merge removes them.
    pub void_logs: OnUse<Mutex<Vec<u64>>>,
    /// The live bytes last reported to the store.
    pub told_live_bytes: AtomicI64,
}

/// State of merges.
#[derive(Default)]
pub(super) struct Merging {
    /// Those that run, for statistics.
    pub running: Running,
    /// The groups of merges on a full disk that have not succeeded ([`Rules::without_room`]).
    pub without_room: AtomicU64,
    /// On a full disk, the part of a log, in thousandths, from which on merges copy its values
    /// ([`Rules::sparse_least`]).
    pub sparse_least: AtomicU32,
    /// Bytes and keys of outputs since the last key whose older entries were looked for: outputs may be short.
    pub unsampled: [AtomicU64; 2],
    /// Bytes per second that they have read, averaged; 0 before the first one.
    pub speed: AtomicU64,
}

impl<S: Shape> Lsm<S> {
    /// The files as of now.
    pub fn view(&self) -> Arc<View<S>> {
        self.rotation.view.load_full()
    }

    pub(super) fn limits(&self) -> Limits {
        self.limits.load()
    }

    /// The sizes and the state by which the layout chooses a job now.
    pub fn rules(&self) -> Rules {
        let oldest_snapshot = self.substrate.mvcc.open_versions().first().copied().unwrap_or(u64::MAX);
        let merging = self.jobs.merging.peek();
        let sparse_least = merging.map_or(0, |merging| merging.sparse_least.load(Relaxed));
        Rules {
            oldest_snapshot,
            settled: self.substrate.files.settled_below(),
            disk_room: self.disk_room(),
            without_room: merging.map_or(0, |merging| merging.without_room.load(Relaxed)),
            sparse_least: f64::from(sparse_least) / 1000.0,
            ..self.limits().rules
        }
    }

    /// Number of gets, scans and writes since opening.
    pub(super) fn uses(&self) -> u64 {
        let Some(counters) = self.counters.peek() else { return 0 };
        [&counters.gets, &counters.scans, &counters.writes].map(|counter| counter.get()).iter().sum()
    }

    /// The keyspace's cached rows. `None` under a comparator whose equal keys may differ in bytes: rows are found by
    /// their bytes.
    pub(super) fn rows(&self) -> Option<&Rows> {
        let make = || Rows::new(self.substrate.budget.rows.clone()).used(self.limits().row_cache);
        self.env.order.hashable().then(|| self.rows.or_make(make))
    }

    /// The newest value of `key` at or below version `at`.
    pub(super) fn look_up(&self, key: &[u8], at: u64) -> Result<Option<Row>> {
        self.count_get();
        let hash = bloom::hash(key);
        let read = || self.search(key, hash, at);
        let row = match self.rows().filter(|_| at == u64::MAX) {
            Some(rows) => rows.get_or_read(key, hash, read)?,
            None => read()?.map(Row::Read),
        };
        if let Some(Row::Cached(_)) = &row {
            self.counters.gets_row.add(1);
        }
        Ok(row)
    }

    /// The same without the row cache, for one of many gets.
    pub(super) fn look_up_together(
        &self,
        key: &[u8],
        at: u64,
        fetch: &Together,
    ) -> Result<Option<Bytes>, Unfetched> {
        let view = self.rotation.view.load();
        let runs = view.runs_at(&self.env.order, key);
        let value = get(&self.env, runs, key, bloom::hash(key), at, fetch)?.value;
        self.count_get();
        Ok(value)
    }

    fn search(&self, key: &[u8], hash: u64, at: u64) -> Result<Option<Bytes>> {
        let view = self.rotation.view.load();
        let runs = view.runs_at(&self.env.order, key);
        Ok(search(&self.env, runs, (key, hash), at, || self.limits().parallel_search)?.value)
    }

    fn count_get(&self) {
        self.counters.gets.add(1);
        if sampled(SAMPLED_GETS) {
            self.substrate.budget.count_gets(SAMPLED_GETS);
        }
    }

    /// Reports the live bytes to the store.
    pub(super) fn tell_live_bytes(&self, live_bytes: u64) {
        let before = self.jobs.told_live_bytes.swap(live_bytes as i64, Relaxed);
        let more = live_bytes as i64 - before;
        self.substrate.live_bytes.fetch_add(more, Relaxed);
        self.substrate.unresident_bytes.fetch_add(more, Relaxed);
    }

    /// Removes the references of the view to runs.
    pub(super) fn release_runs<'a>(&self, runs: impl Iterator<Item = &'a Run>) {
        for run in runs {
            if run.release(&self.env.totals)
                && let Source::Table(table) = &run.source
            {
                // An open table would keep the file's blocks allocated after it is unlinked.
                self.env.tables.forget(table.file.id);
            }
        }
    }
}
