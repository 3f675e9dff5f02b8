//! The counters and sizes of a keyspace.

use super::keyspace::{Counters, Lsm};
use super::shape::{Group, Shape};
use crate::layout::stats::{GetTimes, GetsServed, KeyspaceStats, RegionInfo};
use crate::log::env::LogCounters;
use crate::run::env::RunCounters;
use crate::run::run::{Run, Source};
use crate::run::stack::RunStack;
use crate::sync::atomic::Ordering::Relaxed;
use crate::sync::counter::Counter;

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
        let unread_bytes: u64 = view.logs.iter().filter_map(Run::log).map(|log| log.unread_bytes()).sum();
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
        let info = |level: u32, start: &[u8], runs: &[Run]| {
            let sizes = RunStack { files: runs.to_vec() }.sizes();
            let unread = runs.iter().filter_map(Run::log).map(|log| log.unread_bytes()).sum::<u64>();
            RegionInfo {
                start: start.to_vec(),
                level,
                table_bytes: sizes.table_bytes,
                log_bytes: sizes.log_bytes + unread,
                garbage_bytes: sizes.garbage_bytes + sizes.dropped_bytes,
                tables: sizes.tables,
                segments: runs.iter().filter(|run| matches!(run.source, Source::Log(_))).count() as u32,
                ..RegionInfo::default()
            }
        };
        let group =
            |group: Group<'_>| info(group.level, group.span.start.as_deref().unwrap_or_default(), group.runs);
        std::iter::once(info(0, b"", &view.logs)).chain(view.shape.groups().map(group)).collect()
    }
}
