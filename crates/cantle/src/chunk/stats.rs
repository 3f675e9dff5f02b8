//! The statistics of a keyspace.

use super::context::Counters;
use super::policy;
use crate::layout::kind::LayoutKind;
use crate::layout::stats::{ChunkStats, GetTimes, GetsServed, KeyspaceStats, LayoutStats};
use crate::log::env::LogCounters;
use crate::run::env::RunCounters;
use crate::sync::atomic::{AtomicI64, Ordering::Relaxed};
use crate::sync::counter::Counter;
use std::collections::HashSet;

use super::Chunks;

/// Bytes of logs of a process that was killed, which no total has yet.
#[derive(Default)]
struct Unread {
    log_bytes: u64,
    /// Estimated bytes of keys and values among them.
    user_bytes: u64,
    /// Estimated number of pairs among them.
    pairs: u64,
}

impl Chunks {
    /// Nothing is read: the lengths of the files tell. A log that several chunks share since a split counts once. The
    /// first checkpoint of a store counts all of them.
    fn unread(&self) -> Unread {
        if self.context.substrate.checkpoints.count() > 0 {
            return Unread::default();
        }
        let mut seen = HashSet::new();
        let mut unread = Unread::default();
        let (mut known_bytes, mut known_user_bytes, mut known_pairs) = (0, 0, 0);
        for (_, chunk) in self.index.view().iter() {
            for segment in chunk.funk.load().logs().filter(|segment| seen.insert(segment.file.id)) {
                unread.log_bytes += segment.unread_bytes();
                known_bytes += segment.len();
                known_user_bytes += segment.user_bytes.load(Relaxed);
                known_pairs += segment.puts.load(Relaxed);
            }
        }
        // Records of one keyspace are taken to be alike, if some are known.
        let (density, pair_bytes) = match (known_user_bytes, known_pairs) {
            (0, _) | (_, 0) => (1.0, policy::ENTRY_BYTES as f64),
            (bytes, pairs) => ((bytes as f64 / known_bytes as f64).min(1.0), bytes as f64 / pairs as f64),
        };
        unread.user_bytes = (unread.log_bytes as f64 * density) as u64;
        unread.pairs = (unread.user_bytes as f64 / pair_bytes.max(1.0)) as u64;
        unread
    }

    /// The keyspace's counters and sizes.
    pub(super) fn statistics(&self) -> KeyspaceStats {
        let (none, no_runs, no_logs) = <(Counters, RunCounters, LogCounters)>::default();
        let counters = self.context.counters.peek().unwrap_or(&none);
        let runs = self.context.run.counters.peek().unwrap_or(&no_runs);
        let logs = self.context.log.counters.peek().unwrap_or(&no_logs);
        let of = Counter::get;
        let total = |total: &AtomicI64| total.load(Relaxed).max(0) as u64;
        let munks: Vec<_> = self.residents().iter().filter_map(|chunk| chunk.munk.load_full()).collect();
        let unread = self.unread();
        let own = ChunkStats {
            munks: munks.len() as u64,
            munk_bytes: munks.iter().map(|munk| munk.bytes()).sum(),
            munk_towers: munks.iter().map(|munk| munk.towers()).sum(),
            munk_loads: of(&counters.munk_loads),
            munk_evictions: of(&counters.munk_evictions),
            munk_rebalances: of(&counters.munk_rebalances),
            munk_splits: of(&counters.munk_splits),
            munk_flushes: of(&counters.munk_flushes),
            scans_munk: of(&counters.scans_munk),
            scans_log_view: of(&logs.scans_log_view),
            rebalances: of(&counters.rebalances),
            splits: of(&counters.splits),
            end_splits: of(&counters.end_splits),
            merges: of(&counters.merges),
            chunks_dropped: of(&counters.chunks_dropped),
        };
        let sizes = self.sizes();
        KeyspaceStats {
            name: String::new(),
            layout: LayoutKind::Chunk,
            regions: self.index.load().len() as u64,
            table_bytes: total(&self.context.totals.table_bytes),
            log_bytes: total(&self.context.totals.log_bytes) + unread.log_bytes,
            unclaimed_bytes: total(&self.context.totals.unclaimed_bytes),
            held_bytes: self.context.totals.held_bytes.load(Relaxed),
            live_bytes: sizes.live_bytes + unread.user_bytes,
            live_pairs: sizes.pairs + unread.pairs,
            pinned_bytes: self.pins.bytes(),
            user_bytes_written: of(&counters.user_bytes_written),
            log_bytes_written: of(&logs.log_bytes_written),
            table_bytes_written: of(&runs.table_bytes_written),
            writes: of(&counters.writes),
            gets: of(&counters.gets),
            scans: of(&counters.scans),
            gets_served: GetsServed {
                resident: of(&counters.gets_munk),
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
            scan_log_reads: of(&runs.scan_log_reads),
            filter_skips: of(&runs.filter_skips),
            parts_passed_over: of(&logs.parts_passed_over),
            get_runs: of(&runs.get_runs),
            parallel_gets: 0,
            parallel_get_runs: 0,
            parallel_get_runs_in_vain: 0,
            filter_false_positives: of(&runs.filter_false_positives),
            edits_refused: of(&counters.edits_refused),
            log_batches: of(&logs.log_batches),
            log_batch_bytes: of(&logs.log_batch_bytes),
            of_layout: LayoutStats::Chunk(own),
        }
    }
}
