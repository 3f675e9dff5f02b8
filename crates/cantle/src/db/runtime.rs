//! Memory and threads, which stores of one process may share.

use crate::cache::budget::Budget;
use crate::error::{Error, Result};
use crate::maintenance::Pool;
use crate::options::Options;
use crate::sync::{Arc, thread};
use crate::vfs::memory_bytes;

/// The default budget is this fraction of memory, at most `BUDGET_BYTES_MAX`.
const BUDGET_FRACTION: u64 = 4;
const BUDGET_BYTES_MAX: u64 = 4 << 30;
/// Where the machine does not say how much memory it has.
const BUDGET_BYTES_UNKNOWN: u64 = 256 << 20;

/// What runs behind one store, or several.
#[derive(Clone)]
pub(crate) struct Runtime {
    pub(crate) budget: Arc<Budget>,
    pub(crate) pool: Pool,
}

impl Runtime {
    pub(crate) fn new(budget_bytes: u64, threads: usize) -> Result<Self> {
        let pool = Pool::new(threads).map_err(|e| Error::io("start threads for", "maintenance", e))?;
        Ok(Self { budget: Arc::new(Budget::new(budget_bytes)), pool })
    }

    /// What `options` ask for: shared, or of the store's own.
    pub(crate) fn of(options: &Options) -> Result<Self> {
        if let Some(resources) = &options.resources {
            return resources.runtime();
        }
        let budget_bytes = options.memory_budget.unwrap_or_else(default_budget_bytes);
        Self::new(budget_bytes, options.background_threads.unwrap_or_else(default_threads))
    }
}

pub(crate) fn default_budget_bytes() -> u64 {
    memory_bytes().map_or(BUDGET_BYTES_UNKNOWN, |bytes| (bytes / BUDGET_FRACTION).min(BUDGET_BYTES_MAX))
}

pub(crate) fn default_threads() -> usize {
    (thread::available_parallelism() / 2).clamp(1, 4)
}

impl std::fmt::Debug for Runtime {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Runtime").field("budget", &self.budget).finish_non_exhaustive()
    }
}
