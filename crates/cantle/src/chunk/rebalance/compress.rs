//! Compression of logs: if a keyspace has compression, its logs are sorted into tables, which are
//! compressed, when this does not disturb other work.
//!
//! An append is not compressed: a single record rarely compresses well, and gets would pay for it.
//! Maintenance sorts a chunk that was not accessed for half a second, if compression of its logs
//! may save enough (`policy::is_worth_compressing`). Closing does a share of it (`compress_share`),
//! for processes that end before they are idle.
//!
//! Invariants: a sorted chunk has no log, so it is sorted again only for later writes; the
//! compression ratio of its table decides how many these must be. A chunk that cannot be sorted is
//! tried again after ten seconds.

use crate::chunk::Chunks;
use crate::chunk::chunk::Chunk;
use crate::chunk::policy::{self, Compressible};
use crate::chunk::rebalance::rebalance::Trigger;
use crate::chunk::residency::load::IDLE_TICKS;
use crate::run::run::Source;
use crate::run::stack::RunStack;
use crate::sync::Arc;
use crate::types::compression::Compression;
use crate::types::error::Error;

/// Ticks after which sorting a chunk is tried again after a failure: about ten seconds.
const RETRY_TICKS: u64 = 512;
/// Maximum level of Zstandard for which a closing compresses: at higher levels its share would take
/// seconds. They are left to maintenance.
const CLOSING_LEVEL_MAX: i32 = 6;

impl Chunks {
    /// True if idle logs are sorted for compression. Not if the user set the length of logs.
    fn compresses(&self) -> bool {
        canary!(LOGS_NOT_COMPRESSED => return false);
        let options = self.context.options();
        options.compression != Compression::None && options.log_bytes.is_none()
    }

    fn compressible(funk: &RunStack) -> Compressible {
        let mut found = Compressible { log_bytes: funk.sizes().unclaimed_bytes, ..Compressible::default() };
        // Dropped files are removed when no snapshot reads them, and not before.
        for file in funk.files.iter().filter(|file| file.dropped.is_none()) {
            let bytes = file.bytes();
            match &file.source {
                Source::Log(_) => found.log_bytes = found.log_bytes.saturating_add(bytes),
                Source::Table(table) => {
                    let share = bytes as f64 / table.file.bytes().max(1) as f64;
                    let user_bytes = (table.user_bytes as f64 * share) as u64;
                    found.table_bytes = found.table_bytes.saturating_add(bytes);
                    found.table_user_bytes = found.table_user_bytes.saturating_add(user_bytes);
                }
            }
        }
        found
    }

    fn is_worth_compressing(&self, funk: &RunStack) -> bool {
        funk.logs().next().is_some() && policy::is_worth_compressing(&Self::compressible(funk))
    }

    /// Submits a chunk for sorting if it is idle and its logs are worth compressing.
    pub(in crate::chunk) fn compress_idle(&self, chunk: &Arc<Chunk>, funk: &RunStack, ticks: u64) {
        if self.compresses()
            && chunk.last_access() + IDLE_TICKS <= ticks
            && chunk.may_be_compressed(ticks)
            && !chunk.is_changing()
            && self.is_worth_compressing(funk)
        {
            chunk.put_off_compression(ticks + RETRY_TICKS);
            self.submit_sort(chunk);
        }
    }

    /// Sorts chunks whose logs are worth compressing, until `left_bytes` of logs were read; true if
    /// there were any.
    pub(in crate::chunk) fn compress_share(&self, left_bytes: &mut u64) -> bool {
        let is_slow = matches!(self.context.options().compression,
            Compression::Zstd(level) if level > CLOSING_LEVEL_MAX);
        if *left_bytes == 0 || is_slow || !self.compresses() {
            return false;
        }
        let chunks: Vec<Arc<Chunk>> = self.index.view().iter().map(|(_, chunk)| chunk.clone()).collect();
        let mut done = false;
        for chunk in chunks {
            let funk = chunk.funk.load_full();
            let bytes = funk.sizes().log_bytes;
            if bytes > *left_bytes || !self.is_worth_compressing(&funk) {
                continue;
            }
            *left_bytes -= bytes;
            match self.rebalance(&chunk, Trigger::Closing) {
                Ok(sorted) => done |= sorted,
                Err(Error::Closed) => {}
                // The files are as they were. Reads of a damaged one fail.
                Err(error) => tracing::warn!(%error, chunk = chunk.id, "cannot compress a log"),
            }
        }
        done
    }
}
