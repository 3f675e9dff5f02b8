//! Statistics of the budget.

/// One account of the memory budget, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct MemoryAccount {
    /// Minimum of the limit.
    pub floor: u64,
    /// Maximum of the bytes that may be taken now. Regions in memory may borrow the unused bytes of
    /// rows, blocks and logs.
    pub limit: u64,
    /// Bytes taken. May exceed the limit for a moment, after a limit was lowered or while a region
    /// that is written to grows.
    pub used: u64,
}

/// The memory budget and its accounts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct MemoryStats {
    /// Regions that are in memory as a whole: the munks of `chunk`.
    pub resident: MemoryAccount,
    /// Cached rows.
    pub rows: MemoryAccount,
    /// Cached blocks, filters and indexes of tables.
    pub blocks: MemoryAccount,
    /// Indexes of the ends of logs.
    pub log_indexes: MemoryAccount,
    /// Memtables: the last writes of keyspaces in layouts over levels, with values up to 4 KiB.
    pub memtables: MemoryAccount,
    /// Merged views of several logs, and the first and last keys of parts of logs.
    pub log_views: MemoryAccount,
    /// Logs that are being merged, and entries that a merge holds back until it has decided where
    /// to cut its tables.
    pub merges: MemoryAccount,
    /// Write buffers: the pages of their files that were used.
    pub write_buffer: MemoryAccount,
    /// Keyspaces, used or not, and descriptions of open tables.
    pub keyspaces: MemoryAccount,
    /// The records that were appended to logs last.
    pub recent: MemoryAccount,
    /// Bytes that regions, rows and merges have freed, kept for reuse. They belong to the whole
    /// process and are not part of the used bytes. At most the free part of the budget, and a
    /// little beside it.
    pub freed: u64,
    /// Records of logs that were read from `recent` instead of a file.
    pub recent_reads: u64,
    /// Number of changes of the limits of regions, rows and blocks, after the data or the reads
    /// changed.
    pub divisions: u64,
    /// Rows found in the cache.
    pub row_hits: u64,
    /// Rows not found there.
    pub row_misses: u64,
}
