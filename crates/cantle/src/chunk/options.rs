//! Settings of a keyspace in this layout: plain data, of which [`KeyspaceOptions`](crate::KeyspaceOptions) is made.

use crate::chunk::rules::Rules;
use crate::log::env::LogOptions;
use crate::run::env::RunOptions;
use crate::types::compression::Compression;

/// A log of at most so many chunks is read into memory at once by who merges half of it at least.
const AT_ONCE_CHUNKS_MAX: u64 = 3;

/// The settings of a keyspace. Those that users choose are documented at [`KeyspaceOptions`](crate::KeyspaceOptions).
#[derive(Debug, Clone)]
pub struct ChunkOptions {
    pub compression: Compression,
    pub chunk_bytes: u64,
    /// `None`: 1.5, or more for a keyspace that is small beside the memory budget.
    pub space_amplification: Option<f64>,
    pub log_bytes: Option<u64>,
    pub munk_log_bytes: Option<u64>,
    pub filter_partitions: u32,
    pub recent_appends: bool,
    pub munks: bool,
    pub row_cache: bool,
    /// One of the sets that there are: a keyspace has no copy.
    pub rules: &'static Rules,
}

impl Default for ChunkOptions {
    fn default() -> Self {
        Self {
            compression: Compression::None,
            chunk_bytes: 8 << 20,
            space_amplification: None,
            log_bytes: None,
            munk_log_bytes: None,
            filter_partitions: 16,
            recent_appends: true,
            munks: true,
            row_cache: true,
            rules: &Rules::OWN,
        }
    }
}

impl ChunkOptions {
    /// The settings of the published EvenDB (§5.1), by which the lab reproduces what the paper measured: chunks of 10 MB,
    /// logs of 2 MB and, with a munk, 20 MB, filters in 16 parts, rows cached, and the paper's [rules](Rules::PUBLISHED).
    ///
    /// A fixed limit of logs also leaves out what sorts logs for other reasons: the bound of space, compression of idle logs,
    /// and sorting for the sake of deleted keys and shared logs.
    ///
    /// On stays what no setting can take away without another design: rows are in a cache that resists scans instead of a
    /// queue of tables, blocks of tables are cached (the paper leaves them to the page cache), single gets and scans load
    /// no chunk, and what several snapshots or a recovery need is kept by version.
    pub fn as_published() -> Self {
        Self {
            chunk_bytes: 10_000_000,
            log_bytes: Some(2_000_000),
            munk_log_bytes: Some(20_000_000),
            recent_appends: false,
            rules: &Rules::PUBLISHED,
            ..Self::default()
        }
    }

    /// The settings of its logs.
    pub fn of_logs(&self) -> LogOptions {
        LogOptions { recent_appends: self.recent_appends, search: self.rules.log_search }
    }

    /// The settings of its runs.
    pub fn of_runs(&self) -> RunOptions {
        RunOptions {
            compression: self.compression,
            at_once_bytes: AT_ONCE_CHUNKS_MAX.saturating_mul(self.chunk_bytes),
            cut_prefix_bytes: self.rules.cut_prefix_bytes,
        }
    }
}
