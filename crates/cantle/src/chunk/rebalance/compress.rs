//! Compression of logs: a keyspace that compresses has its logs sorted into tables, which are compressed, as soon as that is no hindrance.
//!
//! An append is not compressed, as a record by itself rarely compresses well and a get would pay for it. Maintenance sorts a chunk that
//! nobody has accessed for half a second, if compression of its logs may save enough (`policy::is_worth_compressing`). Closing
//! does a share of it (`Share`), for processes that end before they are idle.
//!
//! Invariants: a sorted chunk has no log, so it is sorted again only for what is written after that; how well its table
//! compressed decides how much that must be. A chunk that cannot be sorted is tried again after ten seconds.

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

/// Ticks after which a chunk is tried again that could not be sorted: about ten seconds.
const RETRY_TICKS: u64 = 512;
/// Zstandard at higher levels takes seconds for what closing may compress, and is left to maintenance.
const CLOSING_LEVEL_MAX: i32 = 6;

impl Chunks {
    /// True if idle logs become tables so that they are compressed. Not where somebody chose how long logs are.
    fn compresses(&self) -> bool {
        canary!(LOGS_NOT_COMPRESSED => return false);
        let options = self.context.options();
        options.compression != Compression::None && options.log_bytes.is_none()
    }

    fn compressible(funk: &RunStack) -> Compressible {
        let mut found = Compressible { log_bytes: funk.sizes().unclaimed_bytes, ..Compressible::default() };
        // Files that were dropped go when no snapshot reads them, and no sooner.
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

    /// Has a chunk sorted in the background if it is idle and its logs are worth compressing.
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

    /// Sorts chunks whose logs are worth compressing, until so many bytes of logs were read; true if there were any.
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
                // The files are as they were. Who reads a damaged one is told.
                Err(error) => tracing::warn!(%error, chunk = chunk.id, "cannot compress a log"),
            }
        }
        done
    }
}
