//! Opening: what is there, what of it counts, and a new epoch.
//!
//! ```text
//!   look at the directory → lock → manifest (→ its last checkpoint, if the page cache is not vouched for)
//!     → what was buffered goes to its logs, if the page cache is vouched for
//!     → journal: which spanning batches were committed, which writes must be applied again
//!     → new epoch in `PAGECACHE`, then in the manifest → keyspaces → journal replay → orphans removed
//! ```
//!
//! Logs of chunks are read in two cases, each bounded: the ends of those that were buffered; a share of the small ones that killed processes left (`chunk/tier.rs`). A power failure at any point finds the same last checkpoint and journal again.

mod assemble;
mod create;
pub(in crate::db) mod keyspaces;
mod manifest;
mod recover;
mod remains;
#[cfg(test)]
mod tests;

pub(crate) use keyspaces::{keyspace_edit, keyspace_order};
pub(crate) use manifest::read_manifest;

use crate::db::Options;
use crate::db::check_options::check_options;
use crate::db::foreign::{Allowed, Found, LOCK_FILE, look_at, remove_socket_left};
use crate::db::left_behind::Uncounted;
#[cfg(all(feature = "monitor", target_os = "linux"))]
use crate::db::monitor::Monitor;
use crate::db::store::Store;
use crate::files::Files;
use crate::journal::{JournalRecord, OldJournal};
use crate::manifest::{Manifest, State};
use crate::mvcc::Recovery;
use crate::substrate::page_cache::PageCacheWitness;
use crate::substrate::{REBALANCE_RESERVE_FILE, RESERVE_FILE};
use crate::sync::Arc;
use crate::sync::time::now;
use crate::types::error::{Attempt, Error, Result};
use crate::vfs::{LockError, LockMode, OverlayVfs, StdVfs, Vfs, VfsLock, rooted};
use assemble::assemble;
use create::create;
use recover::recover;
use std::path::Path;

/// How often a lock is taken anew because its file was removed meanwhile. Each time somebody has destroyed the store in the
/// microseconds between two calls: as often as this is no accident, and the store is in use.
const LOCK_ATTEMPTS_MAX: usize = 100;
pub(crate) const DEFAULT_ID: u32 = 1;

pub(super) fn open(path: &Path, options: Options) -> Result<Arc<Store>> {
    let started = now();
    check_options(&options)?;
    let vfs = options.vfs.clone().unwrap_or_else(|| Arc::new(StdVfs));
    let damage = look_first(&*vfs, path, &options)?;
    let or_damage = |error: Error| match &damage {
        Some(damage) if !matches!(error, Error::Locked { .. }) => damage.clone(),
        _ => error,
    };
    let vfs = bind(&vfs, path).map_err(or_damage)?;
    let lock = take_lock(&*vfs, path, &options).map_err(or_damage)?;
    // Another process may have created or destroyed the store before the lock was ours.
    canary!(ASKED_BEFORE_THE_LOCK else check_wanted(&look_at(&*vfs, path, Allowed::by(&options))?, path, &options))?;
    if !options.read_only {
        remove_socket_left(&*vfs, path);
    }
    // Nothing on disk changes in a store that is opened for reading: recovery happens in memory.
    let in_memory = |vfs: &Arc<dyn Vfs>| -> Arc<dyn Vfs> { Arc::new(OverlayVfs::new(vfs.clone())) };
    let store = if options.read_only {
        open_locked(path, &options, in_memory(&vfs), &vfs, started)
    } else {
        match open_locked(path, &options, vfs.clone(), &vfs, started) {
            Err(error) if error.is_no_space() && give_back_reserve(&*vfs, path) => {
                tracing::warn!(%error, "the disk is full: opening with the space set aside");
                open_locked(path, &options, vfs.clone(), &vfs, started)
            }
            done => done,
        }
        .or_else(|error| {
            if !error.is_no_space() || !matches!(look_at(&*vfs, path, Allowed::by(&options))?, Found::Store { .. }) {
                return Err(error);
            }
            // What failed left the last checkpoint and the journal as they were, as a power failure would have.
            let reading = Options { read_only: true, ..options.clone() };
            let store = open_locked(path, &reading, in_memory(&vfs), &vfs, started)?;
            store.substrate.health.fail(format!(
                "{error}; what the last process left could be recovered in memory only: free space, then reopen the store"
            ));
            Ok(store)
        })
    }?;
    *store.lock.lock() = lock;
    #[cfg(all(feature = "monitor", target_os = "linux"))]
    if options.monitor && !store.options.read_only {
        *store.monitor.lock() = Some(Monitor::start(&store, path)?);
    }
    Ok(store)
}

/// Looks at the directory before the lock is ours, and makes it if there is none. Returns the damage of a store that has a lock:
/// somebody may be in the midst of destroying that store, and whoever holds the lock knows.
fn look_first(vfs: &dyn Vfs, path: &Path, options: &Options) -> Result<Option<Error>> {
    let is_damaged = |found: &Result<Found>| found.as_ref().is_err_and(Error::is_corruption);
    let has_lock = || vfs.metadata(&path.join(LOCK_FILE)).is_ok_and(|lock| lock.is_some());
    let mut found = look_at(vfs, path, Allowed::by(options));
    if is_damaged(&found) && !has_lock() {
        // The lock goes last: nobody destroys the store any more.
        found = look_at(vfs, path, Allowed::by(options));
    }
    if is_damaged(&found) && has_lock() {
        return Ok(found.err());
    }
    let found = found?;
    check_wanted(&found, path, options)?;
    if matches!(found, Found::Nothing) {
        create_directories(vfs, path)?;
    }
    Ok(None)
}

/// Fails if the options do not allow an opening, given what is there.
fn check_wanted(found: &Found, path: &Path, options: &Options) -> Result<()> {
    match found {
        Found::Nothing if !options.create_if_missing || options.read_only => {
            Err(Error::NotFound { path: path.to_path_buf() })
        }
        Found::Store { .. } if options.error_if_exists => {
            Err(Error::AlreadyExists { path: path.to_path_buf(), keyspace: None })
        }
        _ => Ok(()),
    }
}

/// The file system as seen from the directory that is at `path` now: what the path means later is of no concern to
/// who uses the view.
pub(crate) fn bind(vfs: &Arc<dyn Vfs>, path: &Path) -> Result<Arc<dyn Vfs>> {
    canary!(PATH_RESOLVED_ANEW => return Ok(vfs.clone()));
    rooted(vfs, path).map_err(|e| Error::io(Attempt::OpenDirectory, path, e))
}

/// Opens or creates the store at `path`, which nobody else uses. `disk` is the file system without the changes that
/// `vfs` may keep in memory.
fn open_locked(
    path: &Path,
    options: &Options,
    vfs: Arc<dyn Vfs>,
    disk: &Arc<dyn Vfs>,
    started: crate::sync::time::Instant,
) -> Result<Arc<Store>> {
    let opened = match look_at(&*vfs, path, Allowed::by(options))? {
        Found::Nothing => create(vfs, path, options)?,
        Found::Store { manifest } => recover(vfs, path, manifest, options)?,
    };
    assemble(path, options.clone(), opened, disk.clone(), started)
}

/// Gives the file system what an earlier opening kept aside; false if there was nothing.
fn give_back_reserve(vfs: &dyn Vfs, path: &Path) -> bool {
    let removed = [REBALANCE_RESERVE_FILE, RESERVE_FILE].map(|name| vfs.remove(&path.join(name)).is_ok());
    removed.contains(&true)
}

/// Creates a directory and the missing ones above it, all durable when this returns, even if somebody made them
/// just before and did not see to that.
pub(crate) fn create_directories(vfs: &dyn Vfs, path: &Path) -> Result<()> {
    vfs.create_dir_all(path).map_err(|e| Error::io(Attempt::CreateDirectory, path, e))?;
    for parent in path.ancestors().skip(1) {
        match canary!(UNNAMED_STORE else vfs.sync_dir(parent)) {
            // Not ours, and so not made by us.
            Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => break,
            synced => synced.map_err(|e| Error::io(Attempt::SyncDirectory, parent, e))?,
        }
    }
    Ok(())
}

/// Takes the lock of the store in `path`: for one user, or for many that only read.
pub(super) fn take_lock(vfs: &dyn Vfs, path: &Path, options: &Options) -> Result<Option<Box<dyn VfsLock>>> {
    let mode = if options.read_only { LockMode::Shared } else { LockMode::Exclusive };
    lock_store(vfs, path, mode)
}

/// The same; `None` where the lock file is missing and cannot be made, as nobody can write to the file system.
pub(crate) fn lock_store(vfs: &dyn Vfs, path: &Path, mode: LockMode) -> Result<Option<Box<dyn VfsLock>>> {
    let file = path.join(LOCK_FILE);
    for _ in 0..LOCK_ATTEMPTS_MAX {
        let lock = match vfs.lock(&file, mode) {
            Ok(lock) => lock,
            Err(LockError::Held(pid)) => return Err(Error::Locked { path: path.to_path_buf(), pid }),
            Err(LockError::Io(error))
                if mode == LockMode::Shared && error.kind() == std::io::ErrorKind::ReadOnlyFilesystem =>
            {
                return Ok(None);
            }
            Err(LockError::Io(error)) => return Err(Error::io(Attempt::Lock, file, error)),
        };
        // Who destroys a store removes the lock file before he releases it. By then others may have opened it, and
        // wait for nothing: they would hold what nobody else finds.
        let current = lock.is_current().map_err(|e| Error::io(Attempt::Lock, &file, e))?;
        canary!(LOCK_INODE_IGNORED => let current = true);
        if current {
            return Ok(Some(lock));
        }
    }
    Err(Error::Locked { path: path.to_path_buf(), pid: None })
}

/// The result of creation and of recovery.
struct Opened {
    files: Arc<Files>,
    manifest: Manifest,
    state: State,
    recovery: Recovery,
    vouch: PageCacheWitness,
    /// Journal files of earlier epochs, and what of them must be applied again.
    journals: Vec<OldJournal>,
    replay: Vec<JournalRecord>,
    outlived: bool,
    /// Bytes of the manifest behind its last checkpoint, which count.
    provisional_bytes: u64,
    next_batch: u64,
    orphans: Vec<std::path::PathBuf>,
    /// What was buffered and could not be recovered.
    damage: Vec<Error>,
    /// What does not count, as nothing vouches for it, if there may be such.
    uncounted: Option<Uncounted>,
}
