//! Counters and sizes of a keyspace.

use super::kind::LayoutKind;
use crate::types::error::Error;
use std::path::PathBuf;
use std::time::Duration;

/// Where gets were served from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct GetsServed {
    /// From what the layout keeps in memory whole: munks of `chunk`.
    pub resident: u64,
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
    pub layout: LayoutKind,
    /// Key ranges that the layout manages: chunks of `chunk`.
    pub regions: u64,
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
    /// Estimated number of pairs that a scan would return.
    pub live_pairs: u64,
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
    /// Times that they read a log, since opening. Records that lie behind one another are read together, and what is in memory is not
    /// read.
    pub scan_log_reads: u64,
    /// Log parts and tables that a Bloom filter excluded from a get.
    pub filter_skips: u64,
    /// How often gets and scans passed over a part of a log whose least and greatest key leave nothing for them.
    pub parts_passed_over: u64,
    /// Log parts and tables that a Bloom filter let pass although the key was not there.
    pub filter_false_positives: u64,
    /// Changes of files by maintenance that were not carried out because the store could not have been opened again after them. The
    /// data is unharmed and stays where it was. Above zero there is a bug in Cantle, or the comparator is not a total order.
    pub edits_refused: u64,
    /// Times that a rebalance, split, merge or load read the records of a log that it wanted next in the order in which they lie
    /// there: of logs that it did not read whole.
    pub log_batches: u64,
    /// How many bytes it read so, with what lay between them.
    pub log_batch_bytes: u64,
    /// Counters and sizes that only this layout has.
    #[cfg_attr(feature = "serde", serde(flatten))]
    pub of_layout: LayoutStats,
}

impl KeyspaceStats {
    /// The statistics of the layout `chunk`, if the keyspace is in it.
    pub fn chunk(&self) -> Option<&ChunkStats> {
        match &self.of_layout {
            LayoutStats::Chunk(stats) => Some(stats),
            #[cfg(feature = "labs")]
            LayoutStats::Tiny => None,
        }
    }

    /// Bytes of its files that something may still read, without those that only a checkpoint or a reader holds.
    pub fn file_bytes(&self) -> u64 {
        self.log_bytes + self.table_bytes + self.unclaimed_bytes
    }
}

/// Statistics of one layout. In text (JSON), its fields stand beside those of [`KeyspaceStats`].
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(untagged))]
#[non_exhaustive]
pub enum LayoutStats {
    /// EvenDB/YoDB.
    Chunk(ChunkStats),
    /// The labs' own has none.
    #[cfg(feature = "labs")]
    #[doc(hidden)]
    #[cfg_attr(feature = "serde", serde(serialize_with = "nothing"))]
    Tiny,
}

/// Nothing stands beside the other fields.
#[cfg(all(feature = "labs", feature = "serde"))]
fn nothing<S: serde::Serializer>(serializer: S) -> Result<S::Ok, S::Error> {
    serde::ser::SerializeMap::end(serializer.serialize_map(Some(0))?)
}

impl Default for LayoutStats {
    fn default() -> Self {
        Self::Chunk(ChunkStats::default())
    }
}

/// Counters and sizes of a keyspace in the layout `chunk`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct ChunkStats {
    /// Chunks in memory now.
    pub munks: u64,
    /// Memory of their munks, in bytes; what two of them share since a split counts in both.
    pub munk_bytes: u64,
    /// Skip-list towers over unsorted munk entries.
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
    /// Chunks that ranges and cursors read from munks since opening.
    pub scans_munk: u64,
    /// Chunks that they read from files, a log by a view in the place of its parts' indexes, since opening.
    pub scans_log_view: u64,
    /// Funk rebalances finished.
    pub rebalances: u64,
    /// Splits finished, and the chunks they made.
    pub splits: u64,
    /// Tail splits: splits that give what is inserted next, in the order of its keys, a chunk of its own in memory.
    pub end_splits: u64,
    /// Merges of underflowing neighbours finished.
    pub merges: u64,
    /// Chunks dropped whole by range deletes.
    pub chunks_dropped: u64,
}

/// One key range of a keyspace, as its layout manages it: a chunk of `chunk`.
#[derive(Debug, Clone, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct RegionInfo {
    /// Its smallest possible key. The region ends where the next one of its level begins.
    pub start: Vec<u8>,
    /// The level or stage that it belongs to; 0 in layouts without any.
    pub level: u32,
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
    /// Memory of what is kept of it whole (its munk), in bytes; 0 if it is not in memory.
    pub resident_bytes: u64,
    /// Decayed count of recent accesses.
    pub heat: f64,
}

/// Findings of `verify`.
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
