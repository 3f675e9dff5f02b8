//! The layout's entry in the list of layouts.

use super::levels::Levels;
use super::tally::RUNS_MOST;
use crate::layout::Layout;
use crate::layout::factory::{LayoutFactory, OpenKeyspace};
use crate::layout::kind::LayoutKind;
use crate::layout::options::{FlsmOptions, Settings};
use crate::layout::stats::{FlsmStats, KeyspaceStats, LayoutStats};
use crate::lsm::hashed::HashedGuards;
use crate::lsm::keyspace::{Counters, Limits, Lsm, generation_bytes};
use crate::lsm::layout::Named;
use crate::lsm::maintain::GENERATIONS;
use crate::lsm::shape::{Rules, Shape};
use crate::lsm::state::{Edit, GroupRecord, State};
use crate::manifest::LayoutState;
use crate::run::run::Run;
use crate::sync::Arc;
use crate::sync::counter::Counter;
use crate::types::error::Result;

pub struct Flsm;

/// Bytes on disk per live byte if no bound was set.
const USUAL_BOUND: f64 = 1.5;
/// Minimum length in bytes of a table that serves one guard only: many short files cost more handles,
/// filters and syncs than a shared one. It is a smaller part of guards that are short themselves.
const FRAGMENT_BYTES: u64 = 1 << 20;
const FRAGMENT_FRACTION: u64 = 16;
/// Minimum length in bytes of a part of a table that is dropped by metadata: with at most 16 for each table,
/// their records are short beside the data. It is a smaller part of guards that are short themselves.
const DROPPED_RANGE_BYTES: u64 = 1 << 20;
const DROPPED_RANGE_FRACTION: u64 = 16;

impl LayoutFactory for Flsm {
    fn kind(&self) -> LayoutKind {
        LayoutKind::Flsm
    }

    fn state(&self) -> Box<dyn LayoutState> {
        Box::<State>::default()
    }

    /// One level, with a guard for all keys.
    fn first_edits(&self) -> Vec<Vec<u8>> {
        let sentinel = GroupRecord { id: 1, level: 1, ..GroupRecord::default() };
        vec![Edit::Merge { logs: Vec::new(), removed: Vec::new(), added: vec![sentinel] }.encode()]
    }

    fn open(&self, keyspace: OpenKeyspace<'_>) -> Result<Arc<dyn Layout>> {
        if !keyspace.dropped {
            keyspace.settings.layout.check_order(&keyspace.order)?;
        }
        let limits = Levels::limits(&keyspace.settings, keyspace.substrate.budget.total_bytes);
        Ok(Lsm::<Levels>::open(keyspace, limits)?)
    }
}

impl Named for Levels {
    fn limits(settings: &Settings, budget_bytes: u64) -> Limits {
        let own: FlsmOptions = settings.layout.of_flsm().unwrap_or_default();
        let generation_bytes = own.generation_bytes.unwrap_or_else(|| generation_bytes(budget_bytes));
        let rules = Rules {
            table_bytes: own.guard_bytes,
            fragment_bytes: FRAGMENT_BYTES.min(own.guard_bytes / FRAGMENT_FRACTION),
            dropped_range_bytes: DROPPED_RANGE_BYTES.min(own.guard_bytes / DROPPED_RANGE_FRACTION),
            runs_max: own.max_sstables_per_guard.map_or(RUNS_MOST, |tables| tables as usize),
            log_is_level_0: own.log_is_level_0,
            is_tuned: own.max_sstables_per_guard.is_none(),
            level0_bytes: GENERATIONS * generation_bytes,
            cleaned: 0,
            size_tiered: false,
            space_amplification: settings.space_amplification.unwrap_or(USUAL_BOUND),
            seek_compaction: own.seek_compaction,
            level_percent: own.level_percent,
            hashed: own
                .top_level_bits
                .map(|top_level_bits| HashedGuards { top_level_bits, bit_decrement: own.bit_decrement }),
            oldest_snapshot: u64::MAX,
            settled: 0,
            disk_room: None,
            without_room: 0,
            sparse_least: 0.0,
        };
        Limits {
            generation_bytes,
            row_cache: settings.row_cache,
            parallel_search: own.parallel_search,
            filters: true,
            aligned_storing: false,
            direct_io: false,
            rules,
        }
    }

    fn describe(lsm: &Lsm<Self>, stats: &mut KeyspaceStats) {
        stats.layout = LayoutKind::Flsm;
        let view = lsm.view();
        let counters = lsm.counters.peek();
        let rules = lsm.limits.load().rules;
        let mut limits: Vec<u64> = view.shape.runs_max(&rules).map(|limit| limit as u64).collect();
        limits.sort_unstable();
        let (dropped_ranges, dropped_range_bytes) = lsm.dropped_ranges();
        let of = |counter: fn(&Counters) -> &Counter| counters.map_or(0, |counters| counter(counters).get());
        let (referred_logs, referred_bytes) = lsm.referred_logs();
        let runs = lsm.env.counters.peek();
        let [values_referred, values_copied] =
            runs.map_or([0; 2], |runs| [&runs.values_referred, &runs.values_copied].map(Counter::get));
        let level0_logs = view.level0.iter().filter_map(Run::log).count();
        stats.of_layout = LayoutStats::Flsm(FlsmStats {
            generation_bytes: lsm.generation_bytes(),
            generations_sealed: of(|counters| &counters.generations_sealed),
            generations_flushed: of(|counters| &counters.generations_flushed),
            flushed_bytes: of(|counters| &counters.flushed_bytes),
            level0_logs: level0_logs as u64,
            level0_tables: (view.level0.len() - level0_logs) as u64,
            levels: view.shape.levels.len() as u64,
            guards_empty: view.shape.guards().filter(|guard| guard.runs.is_empty()).count() as u64,
            guard_tables_most: lsm.runs_most(&view) as u64,
            guard_limit_least: limits.first().copied().unwrap_or(0),
            guard_limit_median: limits.get(limits.len() / 2).copied().unwrap_or(0),
            guard_limit_most: limits.last().copied().unwrap_or(0),
            merges: of(|counters| &counters.merges),
            merged_bytes: of(|counters| &counters.merged_bytes),
            merges_for_space: of(|counters| &counters.merges_for_space),
            merges_at_once: lsm.merges_at_once(),
            running_merges: lsm.running_merges(),
            logs_adopted: of(|counters| &counters.logs_adopted),
            tables_moved: of(|counters| &counters.tables_moved),
            guards_inserted: of(|counters| &counters.groups_inserted),
            guards_deleted: of(|counters| &counters.groups_deleted),
            ranges_dropped: of(|counters| &counters.ranges_dropped),
            dropped_ranges,
            dropped_range_bytes,
            referred_logs,
            referred_bytes,
            values_referred,
            values_copied,
            seeks: of(|counters| &counters.seeks),
            seek_runs: of(|counters| &counters.seek_runs),
            by_level: lsm.level_stats(),
        });
    }
}
