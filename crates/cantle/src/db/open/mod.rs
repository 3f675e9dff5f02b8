//! Opens a store: finds what is there, decides what of it counts, and begins a new epoch.
//!
//! ```text
//!   look at the directory → lock → manifest (→ its last checkpoint, if the page cache is not vouched for)
//!     → buffered records are moved to their logs, if the page cache is vouched for
//!     → journal: which spanning batches were committed, which writes must be applied again
//!     → new epoch in `PAGECACHE`, then in the manifest → keyspaces → journal replay → orphans removed
//! ```
//!
//! Logs of chunks are read in two cases, each bounded: the ends of logs that had buffered records,
//! and a share of the small logs that killed processes left (`chunk/tier.rs`). After a power
//! failure at any point, the next opening finds the same last checkpoint and journal.

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

/// Maximum number of attempts to take a lock whose file was removed meanwhile. Each failed attempt
/// means that a process destroyed the store in the microseconds between two calls. As many as this
/// are no accident: the store is in use.
const LOCK_ATTEMPTS_MAX: usize = 100;
/// Number of the keyspace `default`.
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
    // Another process may have created or destroyed the store before this one took the lock.
    canary!(ASKED_BEFORE_THE_LOCK else check_wanted(&look_at(&*vfs, path, Allowed::by(&options))?, path, &options))?;
    if !options.read_only {
        remove_socket_left(&*vfs, path);
    }
    // Nothing on disk changes in a store that is opened read-only: recovery happens in memory.
    let in_memory = |vfs: &Arc<dyn Vfs>| -> Arc<dyn Vfs> { Arc::new(OverlayVfs::new(vfs.clone())) };
    let store = if options.read_only {
        open_locked(path, &options, in_memory(&vfs), &vfs, started)
    } else {
        match open_locked(path, &options, vfs.clone(), &vfs, started) {
            Err(error) if error.is_no_space() && give_back_reserve(&*vfs, path) => {
                tracing::warn!(%error, "the disk is full: opening with the disk space that was set aside");
                open_locked(path, &options, vfs.clone(), &vfs, started)
            }
            done => done,
        }
        .or_else(|error| {
            if !error.is_no_space() || !matches!(look_at(&*vfs, path, Allowed::by(&options))?, Found::Store { .. }) {
                return Err(error);
            }
            // The failed opening left the last checkpoint and the journal unchanged, as a power
            // failure would.
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
        match Monitor::start(&store, path) {
            Ok(monitor) => *store.monitor.lock() = Some(monitor),
            // The store is what the caller needs; others can look at it another time.
            Err(error) => tracing::warn!(%error, "opens without a socket for other programs"),
        }
    }
    Ok(store)
}

/// Looks at the directory before the lock is taken, and creates it if there is none. Returns the
/// damage of a store that has a lock file: another process may be destroying that store, and taking
/// the lock shows if it is.
fn look_first(vfs: &dyn Vfs, path: &Path, options: &Options) -> Result<Option<Error>> {
    let is_damaged = |found: &Result<Found>| found.as_ref().is_err_and(Error::is_corruption);
    let has_lock = || vfs.metadata(&path.join(LOCK_FILE)).is_ok_and(|lock| lock.is_some());
    let mut found = look_at(vfs, path, Allowed::by(options));
    if is_damaged(&found) && !has_lock() {
        // The lock file is removed last: no process destroys the store any more.
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

/// Fails if the options do not allow the directory to be opened in the state that was found.
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

/// The file system as seen from the directory that is at `path` now. If the path leads to another
/// directory later, the view does not change.
pub(crate) fn bind(vfs: &Arc<dyn Vfs>, path: &Path) -> Result<Arc<dyn Vfs>> {
    canary!(PATH_RESOLVED_ANEW => return Ok(vfs.clone()));
    rooted(vfs, path).map_err(|e| Error::io(Attempt::OpenDirectory, path, e))
}

/// Opens or creates the store at `path`, which this process has locked. `disk` is the file system
/// without the changes that `vfs` may keep in memory.
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
    let files = opened.files.clone();
    // Files that a failed opening holds would keep the directory open.
    assemble(path, options.clone(), opened, disk.clone(), started).inspect_err(|_| files.end())
}

/// Frees the disk space that an earlier opening set aside; returns false if there was none.
fn give_back_reserve(vfs: &dyn Vfs, path: &Path) -> bool {
    let removed = [REBALANCE_RESERVE_FILE, RESERVE_FILE].map(|name| vfs.remove(&path.join(name)).is_ok());
    removed.contains(&true)
}

/// Creates a directory and its missing parents. All are durable when this returns, even if another
/// process has just created them and not synced them.
pub(crate) fn create_directories(vfs: &dyn Vfs, path: &Path) -> Result<()> {
    vfs.create_dir_all(path).map_err(|e| Error::io(Attempt::CreateDirectory, path, e))?;
    for parent in path.ancestors().skip(1) {
        match canary!(UNNAMED_STORE else vfs.sync_dir(parent)) {
            // The parent belongs to another user: this process did not create it.
            Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => break,
            synced => synced.map_err(|e| Error::io(Attempt::SyncDirectory, parent, e))?,
        }
    }
    Ok(())
}

/// Takes the lock of the store in `path`: a shared one if the store is opened read-only, otherwise
/// an exclusive one.
pub(super) fn take_lock(vfs: &dyn Vfs, path: &Path, options: &Options) -> Result<Option<Box<dyn VfsLock>>> {
    let mode = if options.read_only { LockMode::Shared } else { LockMode::Exclusive };
    lock_store(vfs, path, mode)
}

/// Takes the lock of the store in `path`. Returns `None` if the lock file is missing and cannot be
/// created on a read-only file system: nobody can write to it.
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
        // A process that destroys a store removes the lock file before it releases the lock.
        // Another process may have opened the file by then. It would hold a lock on a file that
        // nobody else finds.
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
    /// Journal files of earlier epochs, and the records in them that must be applied again.
    journals: Vec<OldJournal>,
    replay: Vec<JournalRecord>,
    outlived: bool,
    /// Bytes of the manifest after its last checkpoint that count.
    provisional_bytes: u64,
    next_batch: u64,
    orphans: Vec<std::path::PathBuf>,
    /// Damage in the write buffer, with records that could not be recovered.
    damage: Vec<Error>,
    /// The files with writes that do not count, if there may be any.
    uncounted: Option<Uncounted>,
}
