//! The base of every layout, for one store: files, manifest, journal, versions, cache and
//! maintenance.

mod checkpoint;
mod health;
mod logs;
pub mod page_cache;
pub mod parts;
mod put_pause;
mod reserve;
mod tickets;

pub use checkpoint::{Checkpoints, DirtySet, VERSIONS_PER_CHECKPOINT};
pub use health::Health;
pub use parts::CheckpointParts;
pub use put_pause::PutPause;
pub use reserve::{Grant, REBALANCE_RESERVE_FILE, RESERVE_FILE, Reserve};

use crate::budget::{Budget, DataShare};
use crate::cache::BlockCache;
use crate::files::Files;
use crate::journal::Journal;
use crate::log::env::LogShared;
use crate::log::tail::write_buffer::WriteBuffer;
use crate::maintenance::{Calls, Gate, Pass, Pool, Throttle};
use crate::manifest::Manifest;
use crate::mvcc::{Batches, Mvcc, Recovery, Unjournaled};
use crate::sync::Arc;
use crate::sync::atomic::AtomicI64;
use crate::sync::waits::{self, Cause};
use crate::table::Tables;
use crate::types::durability::Durability;
use crate::types::error::Result;

/// The shared parts of an open store.
pub struct Substrate {
    pub files: Arc<Files>,
    pub manifest: Manifest,
    pub journal: Journal,
    pub mvcc: Arc<Mvcc>,
    pub cache: BlockCache,
    pub tables: Arc<Tables>,
    pub recovery: Arc<Recovery>,
    pub health: Arc<Health>,
    pub dirty: DirtySet,
    pub parts: CheckpointParts,
    pub checkpoints: Checkpoints,
    pub vouch: page_cache::PageCacheWitness,
    pub reserve: Reserve,
    /// The buffer in which appends to logs wait; `None` if they are written at once.
    pub write_buffer: Option<Arc<WriteBuffer>>,
    pub logs: Arc<LogShared>,
    pub pool: Pool,
    /// Admits and counts the jobs that run in the pool for this store.
    pub gate: Gate,
    /// Admits and counts the calls that may write to the store's files.
    pub calls: Calls,
    pub throttle: Throttle,
    pub durability: Durability,
    pub read_only: bool,
    /// Shared by the stores of one budget, like the block cache, to which `cache` is a handle.
    pub budget: Arc<Budget>,
    /// Live bytes of all keyspaces, each as of its last tick: keyspaces share the memory that is
    /// free of other uses.
    pub live_bytes: AtomicI64,
    /// The part of them in layouts without regions in memory.
    pub unresident_bytes: AtomicI64,
    /// The same number as the store's part of the data by which the budget is divided.
    pub data: DataShare,
    pub batches: Batches,
    /// Used in stores that are not `Sync`.
    pub unjournaled: Unjournaled,
    /// The first version of the current epoch.
    pub first_version: u64,
}

impl Substrate {
    /// Begins background work; `None` once the store closes.
    pub fn begin_work(&self) -> Option<Work<'_>> {
        self.gate.enter().map(|pass| Work { health: &self.health, _pass: pass })
    }

    /// Runs an operation that deletes. On a full disk it may use the reserve, and a checkpoint that
    /// frees obsolete files. The caller must hold no lock.
    pub fn freeing<T>(&self, mut run: impl FnMut() -> Result<T>) -> Result<T> {
        match self.reserve.with(&mut run) {
            Err(error) if error.is_no_space() && self.files.held_bytes() > 0 => {
                waits::timed(Cause::Allocation, || self.checkpoint())?;
                run()
            }
            done => done,
        }
    }

    /// Closes unlinked tables, which frees their space, and drops their blocks from the cache.
    pub fn forget_gone(&self) {
        let gone = self.files.take_gone();
        gone.iter().for_each(|file| self.tables.forget(*file));
        self.cache.forget(&gone);
    }
}

/// Background work in progress, for which closing waits.
#[must_use]
pub struct Work<'a> {
    health: &'a Health,
    _pass: Pass<'a>,
}

impl Drop for Work<'_> {
    fn drop(&mut self) {
        // State in which an invariant is broken must not reach the disk.
        if std::thread::panicking() {
            self.health.fail("background work panicked: report it, with the log, and reopen the store");
        }
    }
}
