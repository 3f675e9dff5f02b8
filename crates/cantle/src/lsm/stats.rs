//! The counters and sizes of a keyspace.

use super::keyspace::{Counters, Lsm};
use super::shape::{Group, Move, Outcome, Shape};
use super::state::GroupRecord;
use crate::layout::stats::{GetTimes, GetsServed, KeyspaceStats, LevelStats, RegionInfo, RunningMerge};
use crate::log::env::LogCounters;
use crate::run::dropped_ranges::DroppedRanges;
use crate::run::env::RunCounters;
use crate::run::run::{Run, Source};
use crate::run::stack::RunStack;
use crate::sync::Arc;
use crate::sync::atomic::Ordering::Relaxed;
use crate::sync::counter::Counter;
use std::collections::{HashMap, HashSet};

impl<S: Shape> Lsm<S> {
    /// The counters and sizes that all layouts have.
    pub(super) fn statistics(&self) -> KeyspaceStats {
        let (none, no_runs, no_logs) = <(Counters, RunCounters, LogCounters)>::default();
        let counters = self.counters.peek().unwrap_or(&none);
        let runs = self.env.counters.peek().unwrap_or(&no_runs);
        let logs = self.env.log.counters.peek().unwrap_or(&no_logs);
        let of = Counter::get;
        let view = self.rotation.view.load_full();
        let sizes = view.sizes();
        let unread_bytes: u64 =
            view.level0.iter().chain(view.tables()).filter_map(Run::log).map(|log| log.unread_bytes()).sum();
        KeyspaceStats {
            regions: view.shape.groups().count() as u64,
            table_bytes: sizes.table_bytes,
            log_bytes: sizes.log_bytes + unread_bytes,
            unclaimed_bytes: self.env.totals.unclaimed_bytes.load(Relaxed).max(0) as u64,
            held_bytes: self.env.totals.held_bytes.load(Relaxed),
            live_bytes: sizes.live_bytes() + unread_bytes,
            live_pairs: sizes.live_pairs(),
            user_bytes_written: of(&counters.user_bytes_written),
            log_bytes_written: of(&logs.log_bytes_written),
            table_bytes_written: of(&runs.table_bytes_written),
            writes: of(&counters.writes),
            gets: of(&counters.gets),
            scans: of(&counters.scans),
            gets_served: GetsServed {
                row: of(&counters.gets_row),
                log_memory: of(&runs.gets_log_memory.count),
                log_index: of(&runs.gets_log_index.count),
                table: of(&runs.gets_table.count),
                absent: of(&runs.gets_absent.count),
                ..GetsServed::default()
            },
            get_times: GetTimes {
                log_memory_total: runs.gets_log_memory.total(),
                log_index_total: runs.gets_log_index.total(),
                table_total: runs.gets_table.total(),
                absent_total: runs.gets_absent.total(),
            },
            scan_log_reads: of(&runs.scan_log_reads),
            get_runs: of(&runs.get_runs),
            parallel_gets: of(&runs.parallel_gets),
            parallel_get_runs: of(&runs.parallel_get_runs),
            parallel_get_runs_in_vain: of(&runs.parallel_get_runs_in_vain),
            filter_skips: of(&runs.filter_skips),
            parts_passed_over: of(&logs.parts_passed_over),
            filter_false_positives: of(&runs.filter_false_positives),
            edits_refused: of(&counters.edits_refused),
            log_batches: of(&logs.log_batches),
            log_batch_bytes: of(&logs.log_batch_bytes),
            ..KeyspaceStats::default()
        }
    }

    /// Level 0 as one region, and the groups of each level.
    pub(super) fn region_infos(&self) -> Vec<RegionInfo> {
        let view = self.rotation.view.load_full();
        let rules = self.limits().rules;
        let info = |level: u32, start: &[u8], runs: &[Run]| {
            let sizes = RunStack { files: runs.to_vec() }.sizes();
            let unread = runs.iter().filter_map(Run::log).map(|log| log.unread_bytes()).sum::<u64>();
            let dropped_ranges = runs.iter().filter_map(|run| run.dropped_ranges.as_ref());
            RegionInfo {
                start: start.to_vec(),
                dropped_ranges: dropped_ranges.map(|ranges| ranges.list().len() as u32).sum(),
                level,
                table_bytes: sizes.table_bytes,
                log_bytes: sizes.log_bytes - sizes.referred_bytes + unread,
                referred_bytes: sizes.referred_bytes,
                garbage_bytes: sizes.garbage_bytes + sizes.dropped_bytes,
                tables: sizes.tables,
                segments: runs.iter().filter(|run| matches!(run.source, Source::Log(_))).count() as u32,
                ..RegionInfo::default()
            }
        };
        let group = |(group, limit): (Group<'_>, usize)| {
            let info = info(group.level, group.span.start.as_deref().unwrap_or_default(), group.runs);
            RegionInfo {
                tree: group.tree,
                grows: group.grows,
                tables_max: limit as u32,
                read_debt: group.debt,
                ..info
            }
        };
        let groups = view.shape.groups().zip(view.shape.runs_max(&rules));
        std::iter::once(info(0, b"", &view.level0)).chain(groups.map(group)).collect()
    }

    /// Counts the bytes of the tables that a merge wrote into each level. `added` has the groups that
    /// the tables are in.
    pub(super) fn note_written(&self, written: &[Outcome], added: &[(GroupRecord, Vec<Run>)]) {
        let new = written.iter().flat_map(|outcome| &outcome.placed).filter(|placed| !placed.output.reused);
        let mut bytes: HashMap<u64, u64> =
            new.map(|placed| (placed.output.table.file.id, placed.output.table.file.bytes())).collect();
        for (group, _) in added {
            let counter = self.counters.level_bytes_written.get((group.level as usize).saturating_sub(1));
            let counts = group.files.iter().filter_map(|file| bytes.remove(&file.file)).sum();
            if let Some(counter) = counter {
                counter.add(counts);
            }
        }
    }

    /// Counts the dropped ranges that a merge noted.
    pub(super) fn note_dropped(&self, written: &[Outcome]) {
        let list = |ranges: &'_ Option<Arc<DroppedRanges>>| {
            ranges.as_ref().map_or_else(Vec::new, |ranges| ranges.list().to_vec())
        };
        for narrowed in written.iter().flat_map(|outcome| &outcome.narrowed) {
            let before = list(&narrowed.before);
            let new = list(&narrowed.after).into_iter().filter(|range| !before.contains(range));
            self.counters.ranges_dropped.add(new.count() as u64);
        }
    }

    /// Counts the changes of a job that move no data.
    pub(super) fn note_moves(&self, moves: &[Move]) {
        for change in moves {
            match change {
                Move::Sink { .. } | Move::Hand { .. } => self.counters.tables_moved.add(1),
                Move::Insert { .. } => self.counters.groups_inserted.add(1),
                Move::Delete { .. } => self.counters.groups_deleted.add(1),
                _ => {}
            }
        }
    }

    /// The number of dropped ranges of the present tables, and their estimated bytes.
    pub fn dropped_ranges(&self) -> (u64, u64) {
        let view = self.rotation.view.load_full();
        let ranges = view.tables().filter_map(|run| run.dropped_ranges.as_ref());
        ranges.fold((0, 0), |(count, bytes), ranges| {
            (count + ranges.list().len() as u64, bytes + ranges.bytes())
        })
    }

    /// The number of logs that tables refer to for values, and the bytes of these.
    pub fn referred_logs(&self) -> (u64, u64) {
        let view = self.rotation.view.load_full();
        let runs = || view.level0.iter().chain(view.tables());
        let logs: HashSet<u64> = runs().flat_map(Run::referred).map(|referred| referred.log.id).collect();
        (logs.len() as u64, runs().map(Run::referred_bytes).sum())
    }

    /// Maximum number of merges that ran at the same time.
    pub fn merges_at_once(&self) -> u64 {
        self.jobs.claims.peek().map_or(0, |claims| claims.merges_most() as u64)
    }

    /// The merges that run now.
    pub fn running_merges(&self) -> Vec<RunningMerge> {
        self.jobs.merging.peek().map_or_else(Vec::new, |merging| merging.running.list())
    }

    /// The sizes of each level below level 0, and the bytes written into it.
    pub fn level_stats(&self) -> Vec<LevelStats> {
        let view = self.rotation.view.load_full();
        let written = self.counters.peek().map(|counters| &counters.level_bytes_written);
        let mut levels: Vec<LevelStats> = Vec::new();
        for group in view.shape.groups() {
            if levels.last().is_none_or(|last| last.level != group.level) {
                let counter = written.and_then(|written| written.get((group.level as usize).wrapping_sub(1)));
                levels.push(LevelStats {
                    level: group.level,
                    table_bytes_written: counter.map_or(0, Counter::get),
                    ..LevelStats::default()
                });
            }
            if let Some(last) = levels.last_mut() {
                last.guards += 1;
                last.tables += group.runs.len() as u64;
                last.table_bytes += group.runs.iter().map(Run::bytes).sum::<u64>();
            }
        }
        levels
    }
}
