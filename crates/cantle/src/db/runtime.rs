//! Memory and threads, which stores of one process may share.

use crate::budget::Budget;
use crate::db::Options;
use crate::maintenance::{Pool, WeakPool};
use crate::sync::process_wide::ProcessWide;
use crate::sync::{Arc, thread};
use crate::types::error::{Attempt, Error, Result};
use crate::vfs::memory_bytes;
use std::convert::Infallible;
use std::sync::Weak;

/// Divisor of the memory's size that gives the default budget, up to `BUDGET_BYTES_MAX`.
const BUDGET_FRACTION: u64 = 4;
/// Maximum of the default budget in bytes: 4 GiB.
const BUDGET_BYTES_MAX: u64 = 4 << 30;
/// The default budget in bytes if the size of the memory is unknown: 256 MiB.
const BUDGET_BYTES_UNKNOWN: u64 = 256 << 20;

/// The budget and the background threads of one store, or of several.
#[derive(Clone)]
pub(crate) struct Runtime {
    pub(crate) budget: Arc<Budget>,
    pub(crate) pool: Pool,
}

impl Runtime {
    pub(crate) fn new(budget_bytes: u64, threads: usize) -> Result<Self> {
        Ok(Self { budget: Arc::new(Budget::new(budget_bytes)), pool: start_pool(threads)? })
    }

    /// The runtime that `options` ask for: shared with the stores that are opened with the same
    /// `Resources`, or the store's own. If the options leave the budget or the threads open, all
    /// stores of the process that do so share these.
    pub(crate) fn of(options: &Options) -> Result<Self> {
        if let Some(resources) = &options.resources {
            return resources.runtime();
        }
        let threads = options.background_threads;
        if options.vfs.is_some() {
            // The caller's file system may stall, and stores on other file systems must not stall
            // with it.
            let budget_bytes = options.memory_budget.unwrap_or_else(default_budget_bytes);
            return Self::new(budget_bytes, threads.unwrap_or_else(default_threads));
        }
        match (options.memory_budget, threads) {
            (Some(bytes), Some(threads)) => Self::new(bytes, threads),
            (None, None) => Ok(Self { budget: shared_budget(), pool: shared_pool()? }),
            (Some(bytes), None) => Ok(Self { budget: Arc::new(Budget::new(bytes)), pool: shared_pool()? }),
            (None, Some(threads)) => Ok(Self { budget: shared_budget(), pool: start_pool(threads)? }),
        }
    }
}

/// The budget of all stores that ask for no budget of their own.
fn shared_budget() -> Arc<Budget> {
    static SHARED: ProcessWide<Weak<Budget>> = ProcessWide::new();
    let make = || Ok::<_, Infallible>(Arc::new(Budget::new(default_budget_bytes())));
    match SHARED.get(Weak::upgrade, Arc::downgrade, make) {
        Ok(budget) => budget,
        Err(never) => match never {},
    }
}

/// The threads of all stores that ask for no threads of their own.
fn shared_pool() -> Result<Pool> {
    static SHARED: ProcessWide<WeakPool> = ProcessWide::new();
    SHARED.get(WeakPool::upgrade, Pool::downgrade, || start_pool(default_threads()))
}

fn start_pool(threads: usize) -> Result<Pool> {
    Pool::new(threads).map_err(|e| Error::io(Attempt::StartThreads, "maintenance", e))
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
