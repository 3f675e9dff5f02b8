//! What a store says of itself.

use crate::budget::MemoryStats;
use crate::layout::stats::KeyspaceStats;
use crate::maintenance::MaintenanceStats;
use std::time::Duration;

/// Counters and sizes of a store.
#[derive(Debug, Clone, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Stats {
    /// Each keyspace.
    pub keyspaces: Vec<KeyspaceStats>,
    /// The global version.
    pub version: u64,
    /// Times the store was opened for writing.
    pub epoch: u64,
    /// Snapshots, ranges and cursors that are open.
    pub open_snapshots: u64,
    /// Checkpoints since opening.
    pub checkpoints: u64,
    /// The longest checkpoint.
    pub checkpoint_longest: Duration,
    /// Syncs of the journal, and the writes that they made durable.
    pub journal_syncs: u64,
    /// Writes made durable by the journal.
    pub journal_writes: u64,
    /// Bytes in the store's directory.
    pub disk_bytes: u64,
    /// The memory budget.
    pub memory_budget: u64,
    /// Memory accounted to the budget.
    pub memory_used: u64,
    /// Its accounts. Of all stores that share the budget.
    pub memory: MemoryStats,
    /// Block cache hits.
    pub cache_hits: u64,
    /// Block cache misses.
    pub cache_misses: u64,
    /// Times that the records of a log went from the write buffer to the log, by one call, since opening.
    pub write_buffer_drains: u64,
    /// How many records that were.
    pub write_buffer_records: u64,
    /// How many bytes.
    pub write_buffer_bytes: u64,
    /// Times a writer was slowed down, and for how long altogether.
    pub write_delays: u64,
    /// Time writers were slowed down, altogether.
    pub write_delay_total: Duration,
    /// The longest a single write took.
    pub write_longest: Duration,
    /// Transactions committed since opening.
    pub transactions_committed: u64,
    /// Commits of transactions that failed with a conflict since opening.
    pub transaction_conflicts: u64,
    /// How long opening took.
    pub open_time: Duration,
    /// Intact operations that this opening left behind: written since the last checkpoint by a process that died, and not
    /// counted, as nothing proves that everything it wrote is on the disk. 0 where everything counts. Beyond 64 MiB of logs
    /// an estimate. A background thread counts them after the opening.
    pub left_behind_records: u64,
    /// The bytes that these operations take.
    pub left_behind_bytes: u64,
    /// True while these operations are still to be counted: until then both numbers are 0. They stay so if the store is closed first.
    pub left_behind_pending: bool,
    /// Jobs that wait for a background thread.
    pub maintenance_queued: u64,
    /// Jobs that background threads are at. Of all stores that share them, as those that wait.
    pub maintenance_running: u64,
    /// The same jobs by their urgency.
    pub maintenance: MaintenanceStats,
    /// Why the store is read-only, if it is.
    pub read_only: Option<String>,
}
