//! Statistics of a store.

use super::stalls::WriteStalls;
use crate::budget::MemoryStats;
use crate::layout::stats::KeyspaceStats;
use crate::maintenance::MaintenanceStats;
use std::time::Duration;

/// Counters and sizes of a store.
#[derive(Debug, Clone, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Stats {
    /// Statistics of each keyspace.
    pub keyspaces: Vec<KeyspaceStats>,
    /// The global version: the number that orders writes and snapshots (EvenDB §3.2).
    pub version: u64,
    /// Number of times that the store was opened for writing.
    pub epoch: u64,
    /// Number of open snapshots, including those of ranges, cursors and transactions.
    pub open_snapshots: u64,
    /// Number of checkpoints since opening.
    pub checkpoints: u64,
    /// Duration of the longest checkpoint since opening.
    pub checkpoint_longest: Duration,
    /// Number of syncs of the journal since opening.
    pub journal_syncs: u64,
    /// Number of writes that syncs of the journal made durable since opening.
    pub journal_writes: u64,
    /// Bytes of the store's files: tables, logs, journal, manifest and write buffer, including
    /// files that are kept for the last checkpoint.
    pub disk_bytes: u64,
    /// The memory budget in bytes.
    pub memory_budget: u64,
    /// Bytes charged to the memory budget, by all stores that share it.
    pub memory_used: u64,
    /// The accounts of the memory budget, of all stores that share it.
    pub memory: MemoryStats,
    /// Number of reads that found their block in the block cache.
    pub cache_hits: u64,
    /// Number of reads that did not find their block in the block cache.
    pub cache_misses: u64,
    /// Number of indexes and blocks that the device began to read for a seek while the seek waited for those of another
    /// run (PebblesDB §4.2). 0 where reads are as fast as from the page cache.
    pub seek_blocks_announced: u64,
    /// Number of places that were read together with others through a ring of the kernel
    /// ([`Options::io_uring`](crate::Options::io_uring)), by all stores that share it.
    pub reads_by_io_uring: u64,
    /// Number of places that were read together with others after hints to the kernel, for want of a ring.
    pub reads_by_hints: u64,
    /// Number of times since opening that the write buffer was drained: the buffered records of one
    /// log were moved to the log by one system call.
    pub write_buffer_drains: u64,
    /// Number of records that drains of the write buffer moved to logs.
    pub write_buffer_records: u64,
    /// Number of bytes that drains of the write buffer moved to logs.
    pub write_buffer_bytes: u64,
    /// Number of times that the brake slowed a writer down because maintenance was behind. Other waits
    /// are in `write_stalls`.
    pub write_delays: u64,
    /// Total time by which the brake slowed writers down.
    pub write_delay_total: Duration,
    /// The longest time by which the brake slowed one writer down at once.
    pub write_delay_longest: Duration,
    /// Stalls of writes by their cause: waits of a millisecond or longer.
    pub write_stalls: WriteStalls,
    /// Duration of the longest write, whatever it waited for. Calls that write only if a value has not
    /// changed (`update`, `compare_and_swap`) are not measured.
    pub write_longest: Duration,
    /// Number of transactions committed since opening.
    pub transactions_committed: u64,
    /// Number of commits of transactions that failed with a conflict since opening.
    pub transaction_conflicts: u64,
    /// Duration of the opening.
    pub open_time: Duration,
    /// Number of intact operations that this opening left behind. A process that died wrote them
    /// after the last checkpoint, and they take no effect, because nothing proves that everything
    /// it wrote reached the disk. 0 if every write counts. An estimate if there are more than 64
    /// MiB of logs to count. A background thread counts the operations after the opening.
    pub left_behind_records: u64,
    /// Bytes of the operations that `left_behind_records` counts.
    pub left_behind_bytes: u64,
    /// True until a background thread has counted the operations that this opening left behind.
    /// Meanwhile `left_behind_records` and `left_behind_bytes` are 0; they stay 0 if the store is
    /// closed first.
    pub left_behind_pending: bool,
    /// Number of jobs that wait for a background thread.
    pub maintenance_queued: u64,
    /// Number of jobs that background threads execute. As with waiting jobs, those of all stores
    /// that share the threads.
    pub maintenance_running: u64,
    /// Waiting jobs and jobs in execution, by urgency.
    pub maintenance: MaintenanceStats,
    /// The reason why the store is read-only; `None` if it is not.
    pub read_only: Option<String>,
}
