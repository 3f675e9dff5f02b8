//! Statistics of the budget.

/// One account of the memory budget, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct MemoryAccount {
    /// The limit is never less than this.
    pub floor: u64,
    /// The most that may be taken now. Regions in memory may borrow what rows, blocks and logs do not use.
    pub limit: u64,
    /// Taken. For a moment it may be more than the limit, after a limit fell or while a region that is written to grows.
    pub used: u64,
}

/// The memory budget and its accounts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
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
    /// Views of several logs as one, and the keys that parts of logs begin and end with.
    pub log_views: MemoryAccount,
    /// Logs that are being merged, and what merges hold back until they know where one table ends and the next begins.
    pub merges: MemoryAccount,
    /// Write buffers: the pages of their files that were used.
    pub write_buffer: MemoryAccount,
    /// Keyspaces, whether or not they are used, and descriptions of open tables.
    pub keyspaces: MemoryAccount,
    /// Records that were appended to logs last.
    pub recent: MemoryAccount,
    /// Bytes that regions, rows and merges gave back and the next of them will have. Of the whole process, and not part of what is
    /// used: as much as the budget has room for, and a little beside it.
    pub freed: u64,
    /// Records of logs that were read from `recent` instead of a file.
    pub recent_reads: u64,
    /// Changes of the limits of regions, rows and blocks, as the data or the reads changed.
    pub divisions: u64,
    /// Rows found in the cache.
    pub row_hits: u64,
    /// Rows not found there.
    pub row_misses: u64,
}
