//! Counters and sizes of a keyspace.

use super::kind::LayoutKind;
use crate::types::error::Error;
use std::path::PathBuf;
use std::time::Duration;

/// Number of gets by the place that served them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct GetsServed {
    /// Served from a key range that the layout keeps in memory whole: a munk of `chunk`.
    pub resident: u64,
    /// Served from the row cache.
    pub row: u64,
    /// Served from the newest part of a log, through its in-memory index.
    pub log_memory: u64,
    /// Served from an older part of a log, through its index.
    pub log_index: u64,
    /// Served from a table.
    pub table: u64,
    /// The key was not found.
    pub absent: u64,
}

/// Total time of the gets that were served from files, by the place that served them (EvenDB,
/// Figure 9b). Divided by the counts of [`GetsServed`] they are means. The time to look up the
/// chunk and to search the row cache is not included.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct GetTimes {
    /// Gets served from the newest part of a log, through its in-memory index.
    pub log_memory_total: Duration,
    /// Gets served from an older part of a log, through its index.
    pub log_index_total: Duration,
    /// Gets served from a table.
    pub table_total: Duration,
    /// Gets whose key was not found.
    pub absent_total: Duration,
}

/// Counters and sizes of one keyspace.
#[derive(Debug, Clone, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct KeyspaceStats {
    /// The keyspace's name.
    pub name: String,
    /// The keyspace's layout.
    pub layout: LayoutKind,
    /// Number of key ranges that the layout manages: chunks of `chunk`, guards of all levels of `flsm`,
    /// sections of all trees of `forest`.
    pub regions: u64,
    /// Bytes of sorted tables.
    pub table_bytes: u64,
    /// Bytes of log segments.
    pub log_bytes: u64,
    /// Bytes of shared files that no chunk refers to any more. They are freed after the last chunk
    /// that shares the file was rebalanced.
    pub unclaimed_bytes: u64,
    /// Bytes of files that are kept only for a checkpoint or a reader.
    pub held_bytes: u64,
    /// Estimated bytes of keys and values that a scan would return.
    pub live_bytes: u64,
    /// Estimated number of pairs that a scan would return.
    pub live_pairs: u64,
    /// Estimated bytes of deleted or overwritten keys and values that open snapshots still see. The
    /// space bound applies to the sum of live and pinned bytes; no write is delayed because of
    /// pinned bytes.
    pub pinned_bytes: u64,
    /// Bytes of keys and values that users wrote since opening.
    pub user_bytes_written: u64,
    /// Bytes appended to logs since opening.
    pub log_bytes_written: u64,
    /// Bytes written to tables since opening.
    pub table_bytes_written: u64,
    /// Number of puts, deletes and range deletes since opening.
    pub writes: u64,
    /// Number of gets since opening.
    pub gets: u64,
    /// Number of ranges and cursors opened since opening.
    pub scans: u64,
    /// Gets since opening, by the place that served them.
    pub gets_served: GetsServed,
    /// Total time of the gets that were served from files.
    pub get_times: GetTimes,
    /// Number of reads of log files by ranges and cursors since opening. Adjacent records are read
    /// together; records in memory are not counted.
    pub scan_log_reads: u64,
    /// Number of logs and tables that gets asked for their key, including those that a Bloom filter
    /// then excluded. Gets served from a munk or the row cache ask none.
    pub get_runs: u64,
    /// Number of gets that waited for reads in several logs and tables at the same time (SifrDB §4.3).
    pub parallel_gets: u64,
    /// Number of logs and tables that those gets selected, from the first one that had to be read.
    pub parallel_get_runs: u64,
    /// Number of them whose results were of no use, as a newer one had the key.
    pub parallel_get_runs_in_vain: u64,
    /// Log parts and tables that a Bloom filter excluded from a get.
    pub filter_skips: u64,
    /// Number of times that gets and scans skipped a part of a log because its smallest and
    /// greatest keys exclude what they look for.
    pub parts_passed_over: u64,
    /// Log parts and tables that a Bloom filter let pass although the key was not there.
    pub filter_false_positives: u64,
    /// Number of file changes by maintenance that were refused because the store could not have
    /// been opened after them. The data is unharmed and stays where it was. A value above 0 means a
    /// bug in Cantle, or a comparator that is not a total order.
    pub edits_refused: u64,
    /// Number of batched reads of logs by rebalances, splits, merges and loads: they read the
    /// records that they need next in the order of the file. Logs that are read whole are not
    /// counted.
    pub log_batches: u64,
    /// Bytes read by those batches, including gaps between the records.
    pub log_batch_bytes: u64,
    /// Counters and sizes of the keyspace's layout.
    #[cfg_attr(feature = "serde", serde(flatten))]
    pub of_layout: LayoutStats,
}

impl KeyspaceStats {
    /// Statistics of the layout `chunk`, if it is the keyspace's layout.
    pub fn chunk(&self) -> Option<&ChunkStats> {
        match &self.of_layout {
            LayoutStats::Chunk(stats) => Some(stats),
            LayoutStats::Flsm(_) | LayoutStats::Forest(_) => None,
            #[cfg(feature = "labs")]
            LayoutStats::Tiny => None,
        }
    }

    /// Statistics of the layout `flsm`, if it is the keyspace's layout.
    pub fn flsm(&self) -> Option<&FlsmStats> {
        match &self.of_layout {
            LayoutStats::Flsm(stats) => Some(stats),
            LayoutStats::Chunk(_) | LayoutStats::Forest(_) => None,
            #[cfg(feature = "labs")]
            LayoutStats::Tiny => None,
        }
    }

    /// Statistics of the layout `forest`, if it is the keyspace's layout.
    pub fn forest(&self) -> Option<&ForestStats> {
        match &self.of_layout {
            LayoutStats::Forest(stats) => Some(stats),
            LayoutStats::Chunk(_) | LayoutStats::Flsm(_) => None,
            #[cfg(feature = "labs")]
            LayoutStats::Tiny => None,
        }
    }

    /// Statistics that layouts with merges have in common, if the keyspace is in one of them.
    pub fn lsm(&self) -> Option<LsmStats<'_>> {
        match &self.of_layout {
            LayoutStats::Flsm(stats) => Some(LsmStats {
                levels: stats.levels,
                level0_logs: stats.level0_logs,
                level0_tables: stats.level0_tables,
                generations_sealed: stats.generations_sealed,
                generations_flushed: stats.generations_flushed,
                merges: stats.merges,
                merged_bytes: stats.merged_bytes,
                seeks: stats.seeks,
                seek_runs: stats.seek_runs,
                running_merges: &stats.running_merges,
                by_level: &stats.by_level,
            }),
            LayoutStats::Forest(stats) => Some(LsmStats {
                levels: stats.stages,
                level0_logs: stats.level0_logs,
                level0_tables: stats.level0_tables,
                generations_sealed: stats.generations_sealed,
                generations_flushed: stats.generations_flushed,
                merges: stats.merges,
                merged_bytes: stats.merged_bytes,
                seeks: stats.seeks,
                seek_runs: stats.seek_runs,
                running_merges: &stats.running_merges,
                by_level: &stats.by_level,
            }),
            LayoutStats::Chunk(_) => None,
            #[cfg(feature = "labs")]
            LayoutStats::Tiny => None,
        }
    }

    /// Bytes of its files that are in use, without files kept only for a checkpoint or a reader.
    pub fn file_bytes(&self) -> u64 {
        self.log_bytes + self.table_bytes + self.unclaimed_bytes
    }
}

/// Statistics of one layout. In text (JSON), its fields stand beside those of [`KeyspaceStats`].
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(untagged))]
#[non_exhaustive]
pub enum LayoutStats {
    /// EvenDB/YoDB.
    Chunk(ChunkStats),
    /// PebblesDB.
    Flsm(FlsmStats),
    /// SifrDB.
    Forest(ForestStats),
    /// The labs' layout has no statistics of its own.
    #[cfg(feature = "labs")]
    #[doc(hidden)]
    #[cfg_attr(feature = "serde", serde(serialize_with = "nothing"))]
    Tiny,
}

/// Adds no field beside the other ones.
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
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct ChunkStats {
    /// Number of chunks in memory now.
    pub munks: u64,
    /// Memory of the munks in bytes. Memory that two munks share since a split counts in both.
    pub munk_bytes: u64,
    /// Number of skip-list towers over munk entries that are not sorted yet.
    pub munk_towers: u64,
    /// Number of munks loaded from files.
    pub munk_loads: u64,
    /// Number of munks evicted.
    pub munk_evictions: u64,
    /// Number of munks sorted anew, or copied without their garbage.
    pub munk_rebalances: u64,
    /// Number of munks split.
    pub munk_splits: u64,
    /// Number of flushes of munks to tables: rebalances that read no file.
    pub munk_flushes: u64,
    /// Number of chunks that ranges and cursors read from munks, since opening.
    pub scans_munk: u64,
    /// Number of chunks that ranges and cursors read from files since opening, with one merged view
    /// in place of the indexes of a log's parts.
    pub scans_log_view: u64,
    /// Number of funk rebalances finished.
    pub rebalances: u64,
    /// Number of chunk splits finished.
    pub splits: u64,
    /// Number of tail splits. A tail split gives the keys that are inserted next, in key order, a
    /// chunk of their own in memory.
    pub end_splits: u64,
    /// Number of merges of underflowing neighbours finished.
    pub merges: u64,
    /// Number of chunks that range deletes dropped whole.
    pub chunks_dropped: u64,
}

/// Counters and sizes of a keyspace in the layout `flsm`. Counters begin at 0 when the store is opened.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct FlsmStats {
    /// Bytes of logs that are not indexed on disk yet.
    pub generation_bytes: u64,
    /// Number of generations whose index was written to disk, or that were flushed to a table, since opening.
    pub generations_sealed: u64,
    /// Number of those that were flushed to a table: their pairs are tiny, or the option `log_is_level_0` is
    /// off.
    pub generations_flushed: u64,
    /// Bytes of the tables that flushes wrote into level 0, since opening.
    pub flushed_bytes: u64,
    /// Number of logs in level 0. A get may have to search each of them.
    pub level0_logs: u64,
    /// Number of tables in level 0. A get may have to search each of them, too.
    pub level0_tables: u64,
    /// Number of levels below level 0. A get searches one guard of each.
    pub levels: u64,
    /// Number of guards without a table (PebblesDB §3.3).
    pub guards_empty: u64,
    /// Number of tables that a get searches at most in one guard.
    pub guard_tables_most: u64,
    /// Number of tables that a guard may have before some of them are merged: of the guard that may have
    /// fewest. The three limits are equal if `max_sstables_per_guard` is set.
    pub guard_limit_least: u64,
    /// The same of the guard in the middle.
    pub guard_limit_median: u64,
    /// The same of the guard that may have most.
    pub guard_limit_most: u64,
    /// Number of merges finished since opening.
    pub merges: u64,
    /// Bytes read by those merges.
    pub merged_bytes: u64,
    /// Number of those merges that were due to free space: garbage took more than it may, or the disk was full.
    pub merges_for_space: u64,
    /// Maximum number of merges of the keyspace that ran at the same time, since opening (PebblesDB §3.4).
    pub merges_at_once: u64,
    /// The merges of the keyspace that run now, the one that began first before the others.
    pub running_merges: Vec<RunningMerge>,
    /// Number of logs in key order that became runs of a guard as they are, since opening.
    pub logs_adopted: u64,
    /// Number of tables that moved to the next level as they are, since opening.
    pub tables_moved: u64,
    /// Number of guards that began by metadata since opening, in all levels: those that merges cut are not among
    /// them (PebblesDB §3.3).
    pub guards_inserted: u64,
    /// Number of guards that joined the one before them by metadata since opening, in all levels.
    pub guards_deleted: u64,
    /// Number of parts of tables that range deletes have dropped by metadata, since opening. Tables that they
    /// dropped as a whole do not count.
    pub ranges_dropped: u64,
    /// Number of such parts that the present tables have: scans do not read them.
    pub dropped_ranges: u64,
    /// Estimated bytes of these parts on disk. A merge of the table frees them.
    pub dropped_range_bytes: u64,
    /// Number of logs that tables refer to for long values.
    pub referred_logs: u64,
    /// Bytes of these values, with their keys, of `log_bytes`. The rest of these logs is in `unclaimed_bytes`.
    pub referred_bytes: u64,
    /// Number of long values that merges met and left in their logs, since opening.
    pub values_referred: u64,
    /// Number of long values that merges copied to a table because little of their log was left, since opening.
    pub values_copied: u64,
    /// Number of seeks by ranges and cursors since opening: one at the first pair, and one for each
    /// further stretch between two guards that they walk into.
    pub seeks: u64,
    /// Number of logs and tables that those seeks merged. Divided by `seeks` it is the cost of a seek
    /// (PebblesDB §3.7).
    pub seek_runs: u64,
    /// The levels below level 0, the first one first.
    pub by_level: Vec<LevelStats>,
}

/// Counters and sizes of a keyspace in the layout `forest`. Counters begin at 0 when the store is opened.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct ForestStats {
    /// Bytes of logs that are not indexed on disk yet.
    pub generation_bytes: u64,
    /// Number of generations whose index was written to disk, or that were flushed to a table, since opening.
    pub generations_sealed: u64,
    /// Number of those that were flushed to a table: their pairs are tiny, or the option `log_is_level_0` is
    /// off.
    pub generations_flushed: u64,
    /// Bytes of the tables that flushes wrote into level 0, since opening.
    pub flushed_bytes: u64,
    /// Number of logs in level 0. A get may have to search each of them.
    pub level0_logs: u64,
    /// Number of tables in level 0. A get may have to search each of them, too.
    pub level0_tables: u64,
    /// Number of the last stage that has a tree (SifrDB §2).
    pub stages: u64,
    /// Number of trees. A get searches one sub-tree of each at most (SifrDB §4.1).
    pub trees: u64,
    /// Number of trees of the stage that has most.
    pub trees_most: u64,
    /// Number of trees that merges are writing: the trees that they take up have only the keys behind theirs (SifrDB
    /// §4.2).
    pub trees_growing: u64,
    /// Number of sub-trees.
    pub sub_trees: u64,
    /// The usual length of a new sub-tree in bytes; 0 if each tree is one.
    pub sub_tree_bytes: u64,
    /// Number of merges finished since opening; of a merge of trees, each step.
    pub merges: u64,
    /// Bytes read by those merges.
    pub merged_bytes: u64,
    /// Number of those merges that were due to free space: garbage took more than it may, or the disk was full.
    pub merges_for_space: u64,
    /// Maximum number of merges of the keyspace that ran at the same time, since opening.
    pub merges_at_once: u64,
    /// The merges of the keyspace that run now, the one that began first before the others.
    pub running_merges: Vec<RunningMerge>,
    /// Number of logs in key order that became sub-trees as they are, since opening.
    pub logs_adopted: u64,
    /// Number of sub-trees that merges of trees handed over as they are, since opening: no other tree had any of
    /// their keys (SifrDB §4.1).
    pub sub_trees_handed: u64,
    /// Number of sub-trees whose space was allocated before they were written, since opening
    /// ([`aligned_storing`](crate::ForestOptions::aligned_storing)).
    pub sub_trees_allocated: u64,
    /// Bytes of sub-trees that were written past the operating system's page cache, since opening
    /// ([`direct_io`](crate::ForestOptions::direct_io)). The last 256 KiB of each go through it.
    pub direct_bytes: u64,
    /// Number of parts of tables that range deletes have dropped by metadata, since opening. Tables that they
    /// dropped as a whole do not count.
    pub ranges_dropped: u64,
    /// Number of such parts that the present tables have: scans do not read them.
    pub dropped_ranges: u64,
    /// Estimated bytes of these parts on disk. A merge of the table frees them.
    pub dropped_range_bytes: u64,
    /// Number of logs that tables refer to for long values.
    pub referred_logs: u64,
    /// Bytes of these values, with their keys, of `log_bytes`. The rest of these logs is in `unclaimed_bytes`.
    pub referred_bytes: u64,
    /// Number of seeks by ranges and cursors since opening: one at the first pair, and one for each
    /// further stretch between two ends of sub-trees that they walk into.
    pub seeks: u64,
    /// Number of logs and tables that those seeks merged. Divided by `seeks` it is the cost of a seek.
    pub seek_runs: u64,
    /// The stages, the first one first.
    pub by_level: Vec<LevelStats>,
}

/// Counters and sizes that the layouts `flsm` and `forest` have in common ([`FlsmStats`], [`ForestStats`]).
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct LsmStats<'a> {
    /// Number of levels below level 0, or of the last stage that has a tree.
    pub levels: u64,
    /// Number of logs in level 0.
    pub level0_logs: u64,
    /// Number of tables in level 0.
    pub level0_tables: u64,
    /// Number of generations whose index was written to disk, or that were flushed to a table, since opening.
    pub generations_sealed: u64,
    /// Number of those that were flushed to a table.
    pub generations_flushed: u64,
    /// Number of merges finished since opening.
    pub merges: u64,
    /// Bytes read by those merges.
    pub merged_bytes: u64,
    /// Number of seeks by ranges and cursors since opening.
    pub seeks: u64,
    /// Number of logs and tables that those seeks merged.
    pub seek_runs: u64,
    /// The merges of the keyspace that run now.
    pub running_merges: &'a [RunningMerge],
    /// The levels below level 0, or the stages, the first one first.
    pub by_level: &'a [LevelStats],
}

/// The progress of one merge of the layout `flsm` or `forest`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct RunningMerge {
    /// True if a call needs the merge, such as `compact_range`; false if maintenance found it due.
    pub is_asked: bool,
    /// The uppermost level that the merge reads from. 0 stands for logs.
    pub from_level: u32,
    /// The level that it writes into. If both are equal, it rewrites tables within their guards.
    pub to_level: u32,
    /// Bytes that were read of `bytes`.
    pub bytes_read: u64,
    /// Bytes of the logs and tables that it merges.
    pub bytes: u64,
}

/// Counters and sizes of one level of the layout `flsm`, or of one stage of `forest`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct LevelStats {
    /// Number of the level, from 1. The one with the highest number is the last.
    pub level: u32,
    /// Number of guards (PebblesDB §3.1); of sections of trees in `forest`.
    pub guards: u64,
    /// Number of tables. A table that several guards share counts in each.
    pub tables: u64,
    /// Bytes of tables. A shared table counts with the share of each guard.
    pub table_bytes: u64,
    /// Bytes of tables that merges wrote into this level since opening. Divided by
    /// [`user_bytes_written`](KeyspaceStats::user_bytes_written) this is the level's part of the write
    /// amplification. A level that is added or removed leaves the counts with the numbers.
    pub table_bytes_written: u64,
}

/// One key range of a keyspace that its layout manages: a chunk of `chunk`, a guard of `flsm`, a section of a tree of
/// `forest`, or the whole level 0 of the last two.
#[derive(Debug, Clone, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct RegionInfo {
    /// The region's smallest possible key. The region ends where the next one of its level begins.
    pub start: Vec<u8>,
    /// The level or stage of the region; 0 in layouts that have neither.
    pub level: u32,
    /// The number of the region's tree in `forest`, whose stages have several; a newer tree of a stage has a higher
    /// number. 0 in other layouts.
    pub tree: u64,
    /// True if a merge is writing the region's tree (SifrDB §4.2). Always false in other layouts.
    pub grows: bool,
    /// Bytes of the region's tables. A shared table counts with the region's share.
    pub table_bytes: u64,
    /// Bytes of the region's log segments.
    pub log_bytes: u64,
    /// Bytes of long values in logs that the region's tables refer to. These logs are no segments of the region.
    /// Always 0 in `chunk`.
    pub referred_bytes: u64,
    /// Estimated bytes of garbage in tables and log segments.
    pub garbage_bytes: u64,
    /// Number of tables.
    pub tables: u32,
    /// Number of tables that the region may have before maintenance merges some of them: the present
    /// limit of a guard (`max_sstables_per_guard`, or 1 to 12 by its own reads and writes). 0 in
    /// regions without such a limit: chunks and level 0.
    pub tables_max: u32,
    /// Number of parts of its tables that range deletes have dropped by metadata. Their bytes are garbage. Always 0
    /// in `chunk`.
    pub dropped_ranges: u32,
    /// Number of log segments.
    pub segments: u32,
    /// Memory of the region's munk in bytes; 0 if the region is not in memory.
    pub resident_bytes: u64,
    /// Decayed count of recent accesses.
    pub heat: f64,
    /// Cost of reads since the region was last merged or rebalanced, in entries that they passed over.
    /// Merging the region would have saved it. Maintenance merges a region whose debt exceeds the
    /// cost of a merge.
    pub read_debt: u64,
}

/// Findings of `verify`.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Report {
    /// Number of files read.
    pub files: u64,
    /// Number of bytes read.
    pub bytes: u64,
    /// Number of entries decoded.
    pub entries: u64,
    /// One error for each damage, with its file and offset.
    pub damage: Vec<Error>,
    /// Files in the directory that do not belong to the store. They do no harm.
    pub unknown_files: Vec<PathBuf>,
}

impl Report {
    /// True if nothing is damaged.
    pub fn is_ok(&self) -> bool {
        self.damage.is_empty()
    }
}
