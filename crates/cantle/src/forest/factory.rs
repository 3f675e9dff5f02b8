//! The layout's entry in the list of layouts.

use super::pick::cleaned;
use super::shape::UNIT_BYTES;
use super::trees::Trees;
use crate::layout::Layout;
use crate::layout::factory::{LayoutFactory, OpenKeyspace};
use crate::layout::kind::LayoutKind;
use crate::layout::options::{ForestOptions, Settings};
use crate::layout::stats::{ForestStats, KeyspaceStats, LayoutStats};
use crate::lsm::keyspace::{Counters, Limits, Lsm, generation_bytes};
use crate::lsm::layout::Named;
use crate::lsm::maintain::GENERATIONS;
use crate::lsm::shape::{Rules, Shape};
use crate::lsm::state::State;
use crate::manifest::LayoutState;
use crate::run::env::RunCounters;
use crate::run::run::Run;
use crate::sync::Arc;
use crate::sync::counter::Counter;
use crate::types::error::Result;

pub struct Forest;

/// Bytes on disk per live byte if no bound was set.
const USUAL_BOUND: f64 = 1.5;
/// Minimum length in bytes of a part of a table that is dropped by metadata, and the same as a part of a sub-tree.
const DROPPED_RANGE_BYTES: u64 = 1 << 20;
const DROPPED_RANGE_FRACTION: u64 = 16;

impl LayoutFactory for Forest {
    fn kind(&self) -> LayoutKind {
        LayoutKind::Forest
    }

    fn state(&self) -> Box<dyn LayoutState> {
        Box::<State>::default()
    }

    /// No tree.
    fn first_edits(&self) -> Vec<Vec<u8>> {
        Vec::new()
    }

    fn open(&self, keyspace: OpenKeyspace<'_>) -> Result<Arc<dyn Layout>> {
        let limits = Trees::limits(&keyspace.settings, keyspace.substrate.budget.total_bytes);
        Ok(Lsm::<Trees>::open(keyspace, limits)?)
    }
}

impl Named for Trees {
    fn limits(settings: &Settings, budget_bytes: u64) -> Limits {
        let own: ForestOptions = settings.layout.of_forest().unwrap_or_default();
        let generation_bytes = own.generation_bytes.unwrap_or_else(|| generation_bytes(budget_bytes));
        let table_bytes = own.sub_tree_bytes.unwrap_or(*UNIT_BYTES.start());
        let rules = Rules {
            table_bytes,
            fragment_bytes: 0,
            dropped_range_bytes: DROPPED_RANGE_BYTES.min(table_bytes / DROPPED_RANGE_FRACTION),
            runs_max: own.growth_factor as usize,
            log_is_level_0: own.log_is_level_0,
            is_tuned: own.sub_tree_bytes.is_none(),
            level0_bytes: GENERATIONS * generation_bytes,
            cleaned: cleaned(own.cleaning_threshold),
            size_tiered: own.size_tiered,
            space_amplification: settings.space_amplification.unwrap_or(USUAL_BOUND),
            seek_compaction: own.seek_compaction,
            level_percent: None,
            hashed: None,
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
            filters: own.filters,
            aligned_storing: own.aligned_storing,
            direct_io: own.direct_io,
            rules,
        }
    }

    fn describe(lsm: &Lsm<Self>, stats: &mut KeyspaceStats) {
        stats.layout = LayoutKind::Forest;
        let view = lsm.view();
        let counters = lsm.counters.peek();
        let rules = lsm.limits.load().rules;
        let of = |counter: fn(&Counters) -> &Counter| counters.map_or(0, |counters| counter(counters).get());
        let runs = lsm.env.counters.peek();
        let of_runs = |counter: fn(&RunCounters) -> &Counter| runs.map_or(0, |runs| counter(runs).get());
        let (dropped_ranges, dropped_range_bytes) = lsm.dropped_ranges();
        let (referred_logs, referred_bytes) = lsm.referred_logs();
        let level0_logs = view.level0.iter().filter_map(Run::log).count();
        let trees = &view.shape.trees;
        stats.of_layout = LayoutStats::Forest(ForestStats {
            generation_bytes: lsm.generation_bytes(),
            generations_sealed: of(|counters| &counters.generations_sealed),
            generations_flushed: of(|counters| &counters.generations_flushed),
            flushed_bytes: of(|counters| &counters.flushed_bytes),
            level0_logs: level0_logs as u64,
            level0_tables: (view.level0.len() - level0_logs) as u64,
            stages: view.shape.stages().into(),
            trees: trees.len() as u64,
            trees_most: view.shape.runs_most(&lsm.env.order) as u64,
            trees_growing: trees.iter().filter(|tree| tree.takes.is_some()).count() as u64,
            sub_trees: trees.iter().map(|tree| tree.runs().count() as u64).sum(),
            sub_tree_bytes: if rules.size_tiered { 0 } else { view.shape.unit(&rules) },
            merges: of(|counters| &counters.merges),
            merged_bytes: of(|counters| &counters.merged_bytes),
            merges_for_space: of(|counters| &counters.merges_for_space),
            merges_at_once: lsm.merges_at_once(),
            running_merges: lsm.running_merges(),
            logs_adopted: of(|counters| &counters.logs_adopted),
            sub_trees_allocated: of_runs(|counters| &counters.tables_allocated),
            direct_bytes: of_runs(|counters| &counters.direct_bytes_written),
            sub_trees_handed: of(|counters| &counters.tables_moved),
            ranges_dropped: of(|counters| &counters.ranges_dropped),
            dropped_ranges,
            dropped_range_bytes,
            referred_logs,
            referred_bytes,
            seeks: of(|counters| &counters.seeks),
            seek_runs: of(|counters| &counters.seek_runs),
            by_level: lsm.level_stats(),
        });
    }
}
