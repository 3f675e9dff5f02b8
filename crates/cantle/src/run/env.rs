//! The environment of the runs of one keyspace.

use crate::log::env::LogEnv;
use crate::sync::Arc;
use crate::sync::counter::{Counter, Timed};
use crate::sync::on_use::OnUse;
use crate::table::{TableOptions, Tables};
use crate::types::compression::Compression;
use crossbeam_utils::atomic::AtomicCell;
use std::ops::Deref;

/// Counters of the runs of one keyspace since opening.
#[derive(Debug, Default)]
pub struct RunCounters {
    pub table_bytes_written: Counter,
    /// Tables whose space was allocated before they were written, and bytes that went past the page cache.
    pub tables_allocated: Counter,
    pub direct_bytes_written: Counter,
    /// Tables whose file system has refused such writes: it is not asked again.
    pub direct_refused: Counter,
    pub scan_log_reads: Counter,
    pub gets_log_memory: Timed,
    pub gets_log_index: Timed,
    pub gets_table: Timed,
    pub gets_absent: Timed,
    /// Runs that gets asked for their key.
    pub get_runs: Counter,
    /// Gets that waited for reads in several runs at the same time, the runs that they selected, and those whose results
    /// were discarded.
    pub parallel_gets: Counter,
    pub parallel_get_runs: Counter,
    pub parallel_get_runs_in_vain: Counter,
    pub filter_skips: Counter,
    pub filter_false_positives: Counter,
    /// Long values that merges left in their logs, and those that they copied from sparse ones.
    pub values_referred: Counter,
    pub values_copied: Counter,
}

/// Settings of runs that may change while a keyspace is open.
#[derive(Debug, Clone, Copy)]
pub struct RunOptions {
    pub compression: Compression,
    /// Maximum length in bytes of a log that a merge reads at once.
    pub at_once_bytes: u64,
    /// Maximum number of shared leading bytes of neighbouring keys that count when tables are cut.
    pub cut_prefix_bytes: usize,
    /// Length in bytes of the longest record of a log whose value merges always copy.
    pub longest_inline: u32,
    /// False if new tables get no filters.
    pub filters: bool,
    /// True if the space of new tables is allocated before they are written.
    pub allocates: bool,
    /// True if new tables are written past the operating system's page cache.
    pub direct_io: bool,
}

/// The environment of logs, and everything else that runs need.
pub struct RunEnv {
    pub log: Arc<LogEnv>,
    pub tables: Arc<Tables>,
    pub options: AtomicCell<RunOptions>,
    /// Allocated at first access.
    pub counters: OnUse<RunCounters>,
}

impl RunEnv {
    pub fn options(&self) -> RunOptions {
        self.options.load()
    }

    /// The options of new tables.
    pub fn table_options(&self) -> TableOptions {
        let RunOptions { compression, filters, .. } = self.options();
        let usual = TableOptions::default();
        let filter_bits_per_key = if filters { usual.filter_bits_per_key } else { 0 };
        TableOptions { compression, order: self.order.clone(), filter_bits_per_key, ..usual }
    }
}

impl Deref for RunEnv {
    type Target = LogEnv;
    fn deref(&self) -> &LogEnv {
        &self.log
    }
}
