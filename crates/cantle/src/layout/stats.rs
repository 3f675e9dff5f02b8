//! Counters and sizes of a keyspace.

use super::kind::Layout;
use crate::types::error::Error;
use std::path::PathBuf;
use std::time::Duration;

/// Where gets were served from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct GetsServed {
    /// From the munk of a chunk that is in memory.
    pub munk: u64,
    /// From the row cache.
    pub row: u64,
    /// From the in-memory index of a log's newest part.
    pub log_memory: u64,
    /// From an older part of a log, by its index.
    pub log_index: u64,
    /// From a table.
    pub table: u64,
    /// Not found.
    pub absent: u64,
}

/// How long gets took that were served from files, altogether, by what served them (EvenDB, Figure 9b). Divided by the counts of
/// [`GetsServed`] they are means. The time in which a chunk and its row were looked for is not in them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct GetTimes {
    /// From the in-memory index of a log's newest part.
    pub log_memory_total: Duration,
    /// From an older part of a log, by its index.
    pub log_index_total: Duration,
    /// From a table.
    pub table_total: Duration,
    /// Not found.
    pub absent_total: Duration,
}

/// Counters and sizes of one keyspace.
#[derive(Debug, Clone, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct KeyspaceStats {
    /// The keyspace's name.
    pub name: String,
    /// How it is laid out.
    pub layout: Layout,
    /// Chunks in the index.
    pub chunks: u64,
    /// Bytes of sorted tables.
    pub table_bytes: u64,
    /// Bytes of log segments.
    pub log_bytes: u64,
    /// Bytes of shared files that are in no chunk's share any more: freed when the last that shares the file is sorted.
    pub unclaimed_bytes: u64,
    /// Bytes of files that a checkpoint or a reader still holds.
    pub held_bytes: u64,
    /// Estimated bytes of keys and values that a scan would return.
    pub live_bytes: u64,
    /// Estimated bytes of keys and values beside these that open snapshots see: deleted or overwritten since. The space bound is
    /// applied to both together, and no write is delayed for what is pinned.
    pub pinned_bytes: u64,
    /// Bytes of keys and values that users wrote since opening.
    pub user_bytes_written: u64,
    /// Bytes appended to logs since opening.
    pub log_bytes_written: u64,
    /// Bytes written to tables since opening.
    pub table_bytes_written: u64,
    /// Puts, deletes and range deletes since opening.
    pub writes: u64,
    /// Gets since opening.
    pub gets: u64,
    /// Ranges and cursors opened since opening.
    pub scans: u64,
    /// Where gets were served from.
    pub gets_served: GetsServed,
    /// How long those took that were served from files.
    pub get_times: GetTimes,
    /// Chunks that ranges and cursors read from munks since opening.
    pub scans_munk: u64,
    /// Chunks that they read from files, a log by a view in the place of its parts' indexes, since opening.
    pub scans_log_view: u64,
    /// Times that they read a log, since opening. Records that lie behind one another are read together, and what is in memory is not
    /// read.
    pub scan_log_reads: u64,
    /// Chunks in memory now.
    pub munks: u64,
    /// Memory of their munks, in bytes; what two of them share since a split counts in both.
    pub munk_bytes: u64,
    /// Keys inserted into munks since they were sorted that searches go by, to pass over others: towers of skip lists.
    pub munk_towers: u64,
    /// Munks loaded from files.
    pub munk_loads: u64,
    /// Munks evicted.
    pub munk_evictions: u64,
    /// Munks sorted anew, or copied without their garbage.
    pub munk_rebalances: u64,
    /// Munks split.
    pub munk_splits: u64,
    /// Flushes of munks to tables: rebalances that read no file.
    pub munk_flushes: u64,
    /// Log parts and tables that a Bloom filter excluded from a get.
    pub filter_skips: u64,
    /// How often gets and scans passed over a part of a log whose least and greatest key leave nothing for them.
    pub parts_passed_over: u64,
    /// Log parts and tables that a Bloom filter let pass although the key was not there.
    pub filter_false_positives: u64,
    /// Funk rebalances finished.
    pub rebalances: u64,
    /// Splits finished, and the chunks they made.
    pub splits: u64,
    /// Those of them that gave what is inserted next, in the order of its keys, a chunk of its own in memory.
    pub end_splits: u64,
    /// Merges of underflowing neighbours finished.
    pub merges: u64,
    /// Splits, merges and rebalances that were not carried out because the store could not have been opened again after them. The
    /// data is unharmed and stays where it was. Above zero there is a bug in Cantle, or the comparator is not a total order.
    pub edits_refused: u64,
    /// Times that a rebalance, split, merge or load read the records of a log that it wanted next in the order in which they lie
    /// there: of logs that it did not read whole.
    pub log_batches: u64,
    /// How many bytes it read so, with what lay between them.
    pub log_batch_bytes: u64,
    /// Chunks dropped whole by range deletes.
    pub chunks_dropped: u64,
}

/// One chunk, for `inspect`.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct ChunkInfo {
    /// Its smallest possible key.
    pub start: Vec<u8>,
    /// Bytes of its tables (its share, where they are shared).
    pub table_bytes: u64,
    /// Bytes of its log segments.
    pub log_bytes: u64,
    /// Estimated bytes of garbage in both.
    pub garbage_bytes: u64,
    /// Tables.
    pub tables: u32,
    /// Log segments.
    pub segments: u32,
    /// Memory of its munk; 0 if it is not in memory.
    pub munk_bytes: u64,
    /// Decayed count of recent accesses.
    pub heat: f64,
}

/// What `verify` found.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Report {
    /// Files read.
    pub files: u64,
    /// Bytes read.
    pub bytes: u64,
    /// Entries decoded.
    pub entries: u64,
    /// Each damage with its file and offset.
    pub damage: Vec<Error>,
    /// Files in the directory that the store does not know; harmless.
    pub unknown_files: Vec<PathBuf>,
}

impl Report {
    /// Whether nothing is damaged.
    pub fn is_ok(&self) -> bool {
        self.damage.is_empty()
    }
}
