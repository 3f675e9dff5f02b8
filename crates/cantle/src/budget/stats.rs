//! Statistics of the budget.

/// The memory budget and its parts, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct MemoryStats {
    /// What munks may take, and take.
    pub munk_limit: u64,
    /// Memory of munks.
    pub munks: u64,
    /// What rows may take.
    pub row_limit: u64,
    /// Memory of cached rows.
    pub rows: u64,
    /// What blocks may take.
    pub block_limit: u64,
    /// Memory of cached blocks, filters and table indexes.
    pub blocks: u64,
    /// Memory of logs' indexes, of views of several as one, and of the keys that parts of logs begin and end with.
    pub log_indexes: u64,
    /// Memory of logs that are being merged, and of what merges hold back until they know where to cut.
    pub merges: u64,
    /// Memory of write buffers: the pages of their files that were used.
    pub write_buffer: u64,
    /// Memory that keyspaces take, whether or not they are used.
    pub keyspaces: u64,
    /// Memory that munks, rows and merges gave back and the next of them will have. Of the whole process, and not part of what is used:
    /// as much as the budget has room for, and a little beside it.
    pub freed: u64,
    /// Memory of what was appended to logs last.
    pub recent: u64,
    /// Records of logs that were read there instead of a file.
    pub recent_reads: u64,
    /// Moves from one part to another that made reads cheaper.
    pub moves: u64,
    /// Rows found in the cache.
    pub row_hits: u64,
    /// Rows not found there.
    pub row_misses: u64,
}
