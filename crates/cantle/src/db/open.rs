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

use super::activity::Activity;
use super::check_options::{check_keyspace_options, check_options};
use super::foreign::{Allowed, Found, LOCK_FILE, is_foreign, is_temporary, look_at};
use super::keyspace::KeyspaceInner;
use super::left_behind::{LeftBehind, Uncounted};
use super::runtime::Runtime;
use super::store::{DEFAULT_KEYSPACE, Store, TransactionCounters};
use super::verdict::{Verdict, judge};
use crate::budget::DataShare;
use crate::canary::Canary;
use crate::chunk::Chunks;
use crate::chunk::OpenState;
use crate::chunk::edit::ChunkMap;
use crate::db::{KeyspaceOptions, Options};
use crate::files::{Files, parse_file_name};
use crate::format::codec::{NUMBER_MAX, within};
use crate::format::header::{FileHeader, FileKind};
use crate::journal::{Journal, JournalRecord, OldJournal, read_journals};
use crate::layout::Layout as LayoutTrait;
use crate::layout::kind::Layout;
use crate::log::tail::write_buffer::{self, WriteBuffer};
use crate::maintenance::{Calls, Gate, Throttle, Ticker};
use crate::manifest::{
    CheckpointEdit, Edit, KeyspaceEdit, LayoutState, Manifest, Replayed, Resumed, StartEdit, State, replay,
};
use crate::mvcc::Recovery;
use crate::mvcc::{Batches, Mvcc, Unjournaled};
use crate::substrate::vouch::{Testimony, Vouch, may_deceive, outlived, testimony};
use crate::substrate::{
    Checkpoints, DirtySet, Health, REBALANCE_RESERVE_FILE, RESERVE_FILE, Reserve, Substrate,
    VERSIONS_PER_CHECKPOINT,
};
use crate::sync::atomic::{AtomicBool, AtomicI64, AtomicU64};
use crate::sync::time::now;
use crate::sync::{Arc, Mutex, RwLock, random};
use crate::table::Tables;
use crate::types::durability::Durability;
use crate::types::error::{Attempt, Error, Result};
use crate::types::order::{BYTEWISE, KeyOrder};
use crate::vfs::{LockError, LockMode, OpenMode, OverlayVfs, StdVfs, Vfs, VfsFile, VfsLock, rooted};
use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Weak;

const CHUNK_LAYOUT: u8 = 1;
/// How often a lock is taken anew because its file was removed meanwhile. Each time somebody has destroyed the store in the
/// microseconds between two calls: as often as this is no accident, and the store is in use.
const LOCK_ATTEMPTS_MAX: usize = 100;
pub(crate) const DEFAULT_ID: u32 = 1;

pub(crate) fn new_layout(layout: u8) -> Option<Box<dyn LayoutState>> {
    (layout == CHUNK_LAYOUT).then(|| Box::<ChunkMap>::default() as Box<dyn LayoutState>)
}

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
    if !Canary::ASKED_BEFORE_THE_LOCK.is_planted() {
        check_wanted(&look_at(&*vfs, path, Allowed::by(&options))?, path, &options)?;
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

/// Whether the options allow an opening, given what is there.
fn check_wanted(found: &Found, path: &Path, options: &Options) -> Result<()> {
    match found {
        Found::Nothing if !options.create_if_missing || options.read_only => {
            Err(Error::NotFound { path: path.to_path_buf() })
        }
        Found::Store { .. } if options.error_if_exists => {
            Err(Error::AlreadyExists { path: path.to_path_buf() })
        }
        _ => Ok(()),
    }
}

/// The file system as seen from the directory that is at `path` now: what the path means later is of no concern to
/// who uses the view.
pub(crate) fn bind(vfs: &Arc<dyn Vfs>, path: &Path) -> Result<Arc<dyn Vfs>> {
    if Canary::PATH_RESOLVED_ANEW.is_planted() {
        return Ok(vfs.clone());
    }
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
        match Canary::UNNAMED_STORE.leaves_out(|| vfs.sync_dir(parent)) {
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
        if current || Canary::LOCK_INODE_IGNORED.is_planted() {
            return Ok(Some(lock));
        }
    }
    Err(Error::Locked { path: path.to_path_buf(), pid: None })
}

/// What creation and recovery both lead to.
struct Opened {
    files: Arc<Files>,
    manifest: Manifest,
    state: State,
    recovery: Recovery,
    vouch: Vouch,
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

fn create(vfs: Arc<dyn Vfs>, path: &Path, options: &Options) -> Result<Opened> {
    let start = StartEdit { epoch: 1, first_version: 1, ..StartEdit::default() };
    let files = Arc::new(Files::new(vfs.clone(), path.to_path_buf(), random::u128(), start.epoch, 1));
    let vouch = Vouch::begin(&vfs, path, start.epoch, options.durability != Durability::Buffered, false)?;
    let checkpoint = CheckpointEdit {
        ceiling: VERSIONS_PER_CHECKPOINT,
        next_file: 2,
        next_keyspace: DEFAULT_ID + 1,
        next_batch: 1,
        ..CheckpointEdit::default()
    };
    let order = options.default_keyspace.order.clone().unwrap_or_default();
    let edits = [
        Edit::Start(start),
        Edit::Keyspace(keyspace_edit(DEFAULT_ID, DEFAULT_KEYSPACE, &order)),
        Edit::Layout { keyspace: DEFAULT_ID, payload: Chunks::first_edit().encode() },
        Edit::Checkpoint(checkpoint),
    ];
    let mut state = State::new(new_layout);
    for edit in edits.clone() {
        state.apply(edit).map_err(|what| Error::corruption(path, 0, what.0))?;
    }
    let manifest = Manifest::create(files.clone(), new_layout, &edits)?;
    let recovery = Recovery { epoch: 1, first_version: 1, ..Recovery::default() };
    tracing::info!(path = %path.display(), "created a store");
    Ok(Opened {
        files,
        manifest,
        state,
        recovery,
        vouch,
        journals: Vec::new(),
        replay: Vec::new(),
        outlived: false,
        provisional_bytes: 0,
        next_batch: 1,
        orphans: Vec::new(),
        damage: Vec::new(),
        uncounted: None,
    })
}

pub(crate) fn keyspace_edit(keyspace: u32, name: &str, order: &KeyOrder) -> KeyspaceEdit {
    KeyspaceEdit {
        keyspace,
        name: name.to_owned(),
        layout: CHUNK_LAYOUT,
        comparator: order.name().to_owned(),
        metadata: Vec::new(),
    }
}

fn recover(vfs: Arc<dyn Vfs>, path: &Path, manifest_id: u64, options: &Options) -> Result<Opened> {
    let manifest_path = path.join(crate::files::file_name(FileKind::Manifest, manifest_id));
    let (replayed, outlived) = read_manifest(&*vfs, path, &manifest_path)?;
    let Replayed { header, mut state, end, checkpoint_files, provisional_bytes, .. } = replayed;
    let provisional_bytes = if outlived { provisional_bytes } else { 0 };
    let mut damage = Vec::new();
    let recovers_write_buffer = (outlived || Canary::WRITE_BUFFER_ALWAYS_RECOVERED.is_planted())
        && !Canary::WRITE_BUFFER_NOT_RECOVERED.is_planted();
    if recovers_write_buffer {
        let mut damaged = |error| {
            tracing::warn!(%error, "what was buffered is not all recovered");
            damage.push(error);
        };
        let header_of = |file: &dyn VfsFile, path: &Path| FileHeader::read(file, path, FileKind::Log);
        write_buffer::recover(&*vfs, path, (header.store, state.start.epoch), &header_of, &mut damaged)?;
    }
    let names = vfs.list(path).map_err(|e| Error::io(Attempt::List, path, e))?;
    let listed: Vec<(FileKind, u64)> = names.iter().filter_map(|name| parse_file_name(name)).collect();
    // Unfinished files count, too: they are removed later, and must not be taken for new ones then.
    let numbers = names.iter().filter_map(|name| parse_file_name(name.strip_suffix(".tmp").unwrap_or(name)));
    let next_file = numbers.map(|(_, id)| id + 1).max().unwrap_or(1).max(state.checkpoint.next_file);

    within(next_file, NUMBER_MAX - (1 << 40)).map_err(|what| {
        Error::corruption(&manifest_path, 0, format!("the number of the next file {}", what.0))
    })?;
    let reading = Files::new(vfs.clone(), path.to_path_buf(), header.store, 0, next_file);
    let strays = check_strays(&reading, &listed, &state, &checkpoint_files)?;
    let first_journal = state.checkpoint.first_journal;
    let journal_ids = listed
        .iter()
        .filter(|&&(kind, id)| kind == FileKind::Journal && id >= first_journal)
        .map(|&(_, id)| id)
        .collect();
    let (journals, records) = read_journals(&reading, journal_ids, outlived.then_some(state.start.epoch))?;
    let malformed = |what: crate::format::codec::Malformed| {
        Error::corruption(&manifest_path, 0, format!("the recovery table {}", what.0))
    };
    let Verdict { start, next_batch, replay } = judge(&state, outlived, records).map_err(malformed)?;
    let StartEdit { epoch, first_version, .. } = start;
    let checkpointed = state.checkpoint.version;
    tracing::info!(path = %path.display(), epoch, outlived, checkpointed, replayed = replay.len(), "recovered a store");
    let files = Arc::new(Files::new(vfs.clone(), path.to_path_buf(), header.store, epoch, next_file));
    // Where the store was closed, or the journal has all writes, none is left behind. Where nothing can have been lost, the writer
    // was a buffered store, which kept what it had in memory.
    let Testimony { epoch: writer, closed, is_intact } = testimony(&*vfs, path)?;
    let is_closed = closed.store == header.store;
    let has_writes = replay.iter().any(|record| matches!(record, JournalRecord::Write { .. }));
    let may_leave = !outlived && !is_closed && !is_intact && !has_writes;
    let uncounted = may_leave.then(|| Uncounted::new(&files, &state, writer, &listed, &strays));
    // What does not count is gone before the page cache is vouched for in this epoch's name: an earlier epoch of
    // the same number may have written it. And this epoch's block stands before its edit.
    let manifest = if !outlived && may_deceive(&*vfs, path)? {
        Manifest::resume_as_copy(files.clone(), new_layout, manifest_path.clone(), &state)?
    } else {
        let resumed =
            Resumed { path: manifest_path.clone(), header, end, state_bytes: state.encoded_bytes() };
        Manifest::resume(files.clone(), new_layout, resumed, !outlived)?
    };
    if !outlived {
        // Whatever the power left of it does not count. It must be gone before anything is vouched for.
        write_buffer::remove(&files)?;
    }
    // Until the journal was replayed, this epoch is no whole. In a buffered store a checkpoint takes over first.
    let vouched = outlived || (options.durability != Durability::Buffered && replay.is_empty());
    let vouch = Vouch::begin(&vfs, path, epoch, vouched, outlived)?;

    state.apply(Edit::Start(start.clone())).map_err(malformed)?;
    let mut referenced: HashSet<u64> = checkpoint_files.iter().map(|&(_, id)| id).collect();
    for keyspace in state.keyspaces.values() {
        keyspace.layout.files(&mut |_, id, _| {
            referenced.insert(id);
        });
    }
    referenced.extend(journals.iter().map(|journal| journal.id));
    referenced.extend(
        parse_file_name(&manifest.path().file_name().unwrap_or_default().to_string_lossy()).map(|(_, id)| id),
    );
    let waits = |id| uncounted.as_ref().is_some_and(|uncounted| uncounted.has_orphan(id));
    let orphans = names
        .iter()
        .filter(|name| match parse_file_name(name) {
            Some((_, id)) => !referenced.contains(&id) && !waits(id),
            None => is_temporary(name),
        })
        .map(|name| path.join(name))
        .collect();

    manifest.append(&[Edit::Start(start.clone())])?;
    // The recovery image of the last checkpoint stays until the next one.
    let current: HashSet<u64> = {
        let mut current = HashSet::new();
        for keyspace in state.keyspaces.values() {
            keyspace.layout.files(&mut |_, id, _| {
                current.insert(id);
            });
        }
        current
    };
    let held = checkpoint_files.iter().filter(|(_, id)| !current.contains(id));
    let adopt = |&(kind, id): &(FileKind, u64)| {
        // A statistic: where it cannot be found out, nothing is counted.
        let bytes = vfs.metadata(&files.path(kind, id)).ok().flatten().map_or(0, |metadata| metadata.len);
        files.adopt(kind, id, 0, 0, bytes)
    };
    files.hold(held.map(adopt).collect());
    let recovery =
        Recovery { epoch, first_version, table: start.recovery_table, dead_batches: start.dead_batches };
    Ok(Opened {
        files,
        manifest,
        state,
        recovery,
        vouch,
        journals,
        replay,
        outlived,
        provisional_bytes,
        next_batch,
        orphans,
        damage,
        uncounted,
    })
}

/// Reads the manifest, with the edits behind its last checkpoint if the page cache outlived their writer.
pub(crate) fn read_manifest(vfs: &dyn Vfs, path: &Path, manifest_path: &Path) -> Result<(Replayed, bool)> {
    let testimony = &testimony(vfs, path)?;
    let intact = testimony.is_intact;
    match replay(vfs, manifest_path, new_layout, true) {
        Ok(mut all) => {
            if intact && let Some(damage) = all.gap.take() {
                return Err(damage);
            }
            check_whole(manifest_path, &all, testimony)?;
            if outlived(vfs, path, all.state.start.epoch)? {
                return Ok((all, true));
            }
            if all.provisional_bytes == 0 {
                return Ok((all, false));
            }
        }
        // A loss of power may leave anything behind the checkpoint. Without one it is damage, and what was acknowledged
        // since must not vanish unnoticed.
        Err(error) if intact || !error.is_corruption() => return Err(error),
        Err(_) => {}
    }
    let durable = replay(vfs, manifest_path, new_layout, false)?;
    check_whole(manifest_path, &durable, testimony)?;
    Ok((durable, false))
}

/// Fails if there was more of the manifest than there is. A cut, or the manifest of another day, is like what a power
/// failure leaves; but not if the store was closed since, or nothing can have been lost.
fn check_whole(path: &Path, replayed: &Replayed, testimony: &Testimony) -> Result<()> {
    let Replayed { header, end, state, .. } = replayed;
    let Testimony { epoch, is_intact, closed } = testimony;
    let behind =
        |what: String| Err(Error::corruption(path, *end, format!("the manifest ends too early: {what}")));
    if closed.store == header.store && closed.manifest > header.file {
        return behind(format!("there was a later one, number {}", closed.manifest));
    }
    if closed.store == header.store && closed.manifest == header.file && closed.bytes > *end {
        return behind(format!("it had {} bytes when the store was closed", closed.bytes));
    }
    // An epoch begins in `PAGECACHE` first.
    if *is_intact && *epoch > state.start.epoch.saturating_add(1) {
        return behind(format!("epoch {epoch} has begun since epoch {}", state.start.epoch));
    }
    Ok(())
}

/// Fails if a file that the manifest does not name is another store's: else it would be removed as what a crash left behind, and
/// if it is the manifest that was put here by mistake, everything. Returns the numbers and epochs of logs that it does not name.
fn check_strays(
    reading: &Files,
    listed: &[(FileKind, u64)],
    state: &State,
    checkpoint_files: &[(FileKind, u64)],
) -> Result<Vec<(u64, u64)>> {
    let mut logs = Vec::new();
    let mut referenced: HashSet<u64> = checkpoint_files.iter().map(|&(_, id)| id).collect();
    for keyspace in state.keyspaces.values() {
        keyspace.layout.files(&mut |_, id, _| {
            referenced.insert(id);
        });
    }
    let strays = listed
        .iter()
        .filter(|(kind, id)| matches!(kind, FileKind::Log | FileKind::Table) && !referenced.contains(id));
    for &(kind, id) in strays {
        let path = reading.path(kind, id);
        let file = reading.vfs.open(&path, OpenMode::Read).map_err(|e| Error::io(Attempt::Open, &path, e))?;
        // A crash may leave it without a header.
        let Ok(header) = FileHeader::read(&*file, &path, kind) else { continue };
        if kind == FileKind::Log {
            logs.push((id, header.epoch));
        }
        if header.store != reading.store {
            let what = format!(
                "the file belongs to store {:032x}, and the manifest to {:032x}: one of them was put here by mistake",
                header.store, reading.store
            );
            return Err(Error::corruption(&path, 16, what));
        }
    }
    Ok(logs)
}

fn assemble(
    path: &Path,
    options: Options,
    opened: Opened,
    disk: Arc<dyn Vfs>,
    started: crate::sync::time::Instant,
) -> Result<Arc<Store>> {
    let runtime = Runtime::of(&options)?;
    let Opened {
        files,
        manifest,
        state,
        recovery,
        vouch,
        journals,
        replay,
        outlived,
        provisional_bytes,
        next_batch,
        orphans,
        damage,
        uncounted,
    } = opened;
    let journal_count = journals.len();
    let State { keyspaces: states, segments, checkpoint, .. } = state;
    let first_version = recovery.first_version;
    // A keyspace that was created behind the last checkpoint has a number of its own, too.
    let newest_keyspace = states.keys().next_back().copied().unwrap_or(0);
    let health = Arc::new(Health::default());
    let failed = health.clone();
    manifest.on_doubt(move |reason| failed.fail(reason));
    let write_buffer = new_write_buffer(&options, &vouch, &files, &runtime);
    let substrate = Arc::new(Substrate {
        write_buffer,
        journal: Journal::new(files.clone(), journals),
        mvcc: Arc::new(Mvcc::new(first_version)),
        cache: runtime.budget.blocks.for_owner(runtime.budget.blocks.next_owner()),
        tables: Arc::new(Tables::new(&files)),
        health: health.clone(),
        dirty: DirtySet::default(),
        checkpoints: Checkpoints::new(checkpoint.version, checkpoint.next_keyspace.max(newest_keyspace + 1)),
        reserve: if options.read_only { Reserve::none() } else { Reserve::new(files.clone()) },
        pool: runtime.pool.for_owner(),
        gate: Gate::default(),
        calls: Calls::default(),
        throttle: Throttle::default(),
        durability: options.durability,
        read_only: options.read_only,
        budget: runtime.budget.clone(),
        batches: Batches::new(next_batch),
        live_bytes: AtomicI64::new(0),
        data: DataShare::new(runtime.budget.clone()),
        // What was accepted from a dead process is not durable, and in no journal of this epoch.
        unjournaled: Unjournaled::new(if outlived || !replay.is_empty() { first_version } else { 0 }),
        files,
        manifest,
        recovery: Arc::new(recovery),
        vouch,
        first_version,
    });
    let mut keyspaces = BTreeMap::new();
    let mut dropped = Vec::new();
    let activity = Arc::new(Activity::default());
    for (id, state) in states {
        let given = given_options(&state.edit, &options);
        // What was dropped may be of an order that nobody knows any more.
        let order = match state.dropped {
            Some(_) => KeyOrder::Bytewise,
            None => watched(keyspace_order(&state.edit, &options)?, &substrate),
        };
        let Ok(map) = state.layout.into_any().downcast::<ChunkMap>() else {
            return Err(Error::corruption(
                path,
                0,
                format!("keyspace {:?} has an unknown layout", state.edit.name),
            ));
        };
        let map = if state.dropped.is_some() { map.only_files() } else { *map };
        let open = OpenState { map, segments: &segments, outlived };
        let chunks = Chunks::open(substrate.clone(), id, order.clone(), given.chunk, open)?;
        let inner = keyspace_inner(&state.edit, order, chunks, true, &activity);
        match state.dropped {
            Some(version) => {
                inner.mark_dropped(version);
                dropped.push((version, inner));
            }
            None => {
                keyspaces.insert(inner.name.clone(), inner);
            }
        }
    }
    let default = keyspaces.get(DEFAULT_KEYSPACE).cloned();
    let default = default.ok_or_else(|| Error::corruption(path, 0, "the default keyspace is missing"))?;
    let store = Arc::new_cyclic(|this: &Weak<Store>| Store {
        path: path.to_path_buf(),
        disk,
        default,
        keyspaces: RwLock::new(keyspaces),
        activity,
        dropped: Mutex::new(dropped),
        opening_damage: damage,
        left_behind: Mutex::new(uncounted.is_none().then(LeftBehind::default)),
        uncounted: Mutex::new(uncounted),
        open_time: started.elapsed(),
        write_longest_nanos: AtomicU64::new(0),
        transactions: TransactionCounters::default(),
        checkpointing: AtomicBool::new(false),
        ticks: AtomicU64::new(0),
        unsettled: AtomicBool::new(false),
        this: this.clone(),
        options,
        substrate,
        closing: Mutex::new(()),
        orphans: Mutex::default(),
        lock: Mutex::default(),
        process: std::process::id(),
    });
    let replayed = !replay.is_empty();
    let mut orphans = orphans;
    let sound = || store.all_keyspaces().iter().try_for_each(|keyspace| keyspace.order.check());
    let recovered = store.replay(replay, &mut orphans).and_then(|()| sound()).and_then(|()| {
        if store.options.read_only { Ok(()) } else { store.settle_opening(outlived, replayed) }
    });
    if let Err(error) = recovered {
        // Nothing may touch the files any more: they are to be opened again.
        store.substrate.health.begin_close();
        store.substrate.gate.close();
        store.substrate.files.end();
        return Err(error);
    }
    if !store.options.read_only {
        // Not before: the replay may need the space.
        store.substrate.reserve.maintain();
        store.bound_opening(provisional_bytes, journal_count);
    }
    let orphans = if store.options.read_only { Vec::new() } else { orphans };
    settle_remains(&store, orphans);
    let ticker: Weak<dyn Ticker> = store.this.clone();
    runtime.pool.register(ticker);
    Ok(store)
}

/// Where appends wait, unless they wait in the memory of a `Buffered` store. What cannot be had is done without.
fn new_write_buffer(
    options: &Options,
    vouch: &Vouch,
    files: &Arc<Files>,
    runtime: &Runtime,
) -> Option<Arc<WriteBuffer>> {
    if options.read_only {
        return None;
    }
    let made = if options.write_buffer && options.durability != Durability::Buffered && vouch.is_possible() {
        WriteBuffer::create(files.clone(), runtime.budget.logs.clone())
    } else {
        write_buffer::remove(files).map(|()| None)
    };
    made.map_err(|error| tracing::debug!(%error, "goes without a write buffer")).ok().flatten().map(Arc::new)
}

/// Files of before a crash that nothing refers to go in the background, and what is left of them when the store is closed; many at
/// once, as processes that were killed too soon for that left them. Logs of what the last process left behind go once that is
/// counted.
fn settle_remains(store: &Arc<Store>, mut orphans: Vec<PathBuf>) {
    /// A few are not worth two syncs, and after a loss of power some are usual.
    const LEFT_MAX: usize = 2;
    if orphans.len() > LEFT_MAX && store.settle_orphans().is_ok() {
        orphans.drain(..).for_each(|orphan| store.remove_orphan(&orphan));
    }
    let counts = match &*store.uncounted.lock() {
        Some(uncounted) => {
            orphans.extend(uncounted.orphans().filter(|_| !store.options.read_only));
            true
        }
        None => false,
    };
    if orphans.is_empty() && !counts {
        return;
    }
    *store.orphans.lock() = orphans;
    let this = store.this.clone();
    store.substrate.pool.submit(move || {
        {
            let Some(store) = this.upgrade() else { return };
            let Some(_work) = store.substrate.begin_work() else { return };
            store.count_left_behind();
            if store.orphans.lock().is_empty() || store.settle_orphans().is_err() {
                return;
            }
        }
        loop {
            let Some(store) = this.upgrade() else { return };
            let Some(_work) = store.substrate.begin_work() else { return };
            let Some(orphan) = store.orphans.lock().pop() else { return };
            store.remove_orphan(&orphan);
        }
    });
}

impl Store {
    /// The last checkpoint, which does without these files, may be one that nobody has synced yet.
    fn settle_orphans(&self) -> Result<()> {
        let settled = Canary::UNSETTLED_ORPHANS.leaves_out(|| self.substrate.manifest.sync());
        settled.map_err(|error| self.substrate.sync_failed(error))
    }

    fn remove_orphan(&self, orphan: &Path) {
        if is_foreign(&*self.substrate.files.vfs, orphan) {
            tracing::warn!(path = %orphan.display(), "a file of somebody else, under a name that a store may give, stays");
            return;
        }
        if let Err(error) = self.substrate.files.vfs.remove(orphan) {
            tracing::warn!(path = %orphan.display(), %error, "cannot remove what a crash left behind");
        }
    }

    /// Removes what a crash left behind and the background has not come to. A checkpoint was made since.
    pub(super) fn remove_orphans_left(&self) {
        let left = std::mem::take(&mut *self.orphans.lock());
        left.iter().for_each(|orphan| self.remove_orphan(orphan));
    }

    /// Removes what a crash left behind now, as its space is needed.
    pub(super) fn remove_orphans_now(&self, orphans: &mut Vec<std::path::PathBuf>) -> Result<()> {
        self.settle_orphans()?;
        orphans.drain(..).for_each(|orphan| self.remove_orphan(&orphan));
        Ok(())
    }
}

/// What the store's options say of a keyspace.
fn given_options(edit: &KeyspaceEdit, options: &Options) -> KeyspaceOptions {
    if edit.name == DEFAULT_KEYSPACE { options.default_keyspace.clone() } else { KeyspaceOptions::default() }
}

/// The order that a keyspace was created with, if we have it.
pub(crate) fn keyspace_order(edit: &KeyspaceEdit, options: &Options) -> Result<KeyOrder> {
    let given = given_options(edit, options);
    check_order(edit, &given)?;
    if let Some(order) = &given.order {
        return Ok(order.watched(|_| {}));
    }
    if edit.comparator == BYTEWISE {
        return Ok(KeyOrder::Bytewise);
    }
    let registered = options.comparators.iter().find(|comparator| comparator.name() == edit.comparator);
    registered.map(|comparator| KeyOrder::custom(comparator.clone())).ok_or_else(|| Error::OptionMismatch {
        keyspace: edit.name.clone(),
        option: "comparator",
        stored: edit.comparator.clone(),
        given: format!("{BYTEWISE} (register the comparator with Options::comparator)"),
    })
}

/// An order whose failure turns the store read-only.
fn watched(order: KeyOrder, substrate: &Substrate) -> KeyOrder {
    let health = substrate.health.clone();
    order.watched(move |reason| health.fail(reason))
}

/// An existing keyspace keeps its comparator and layout.
fn check_order(edit: &KeyspaceEdit, given: &KeyspaceOptions) -> Result<()> {
    let mismatch = |option, stored: &str, given: &str| {
        Err(Error::OptionMismatch {
            keyspace: edit.name.clone(),
            option,
            stored: stored.to_owned(),
            given: given.to_owned(),
        })
    };
    match &given.order {
        Some(order) if order.name() != edit.comparator => {
            mismatch("comparator", &edit.comparator, order.name())
        }
        _ => Ok(()),
    }
}

fn keyspace_inner(
    edit: &KeyspaceEdit,
    order: KeyOrder,
    chunks: Arc<Chunks>,
    settled: bool,
    activity: &Arc<Activity>,
) -> Arc<KeyspaceInner> {
    Arc::new_cyclic(|this| KeyspaceInner {
        id: edit.keyspace,
        name: edit.name.clone(),
        order,
        layout: chunks.clone() as Arc<dyn LayoutTrait>,
        chunks,
        layout_code: edit.layout,
        metadata: Mutex::new(edit.metadata.clone()),
        dropped_at: AtomicU64::new(0),
        settled: AtomicBool::new(settled),
        active: AtomicBool::new(false),
        activity: activity.clone(),
        this: this.clone(),
    })
}

impl Store {
    pub(super) fn keyspace(&self, name: &str, options: KeyspaceOptions) -> Result<Arc<KeyspaceInner>> {
        let _call = self.begin_call()?;
        check_keyspace_options(&options)?;
        let Layout::Chunk = options.layout.unwrap_or_default();
        if name.is_empty() || name.len() > 255 {
            return Err(Error::InvalidArgument(format!(
                "a keyspace's name has 1 to 255 bytes, not {}",
                name.len()
            )));
        }
        // Held throughout, so that two callers do not create it twice.
        let mut keyspaces = self.keyspaces.write();
        if let Some(existing) = keyspaces.get(name) {
            check_order(&existing.edit(Vec::new()), &options)?;
            if name != DEFAULT_KEYSPACE {
                existing.chunks.context.set_options(options.chunk.clone());
            }
            let existing = existing.clone();
            drop(keyspaces);
            existing.settle(&self.substrate)?;
            return Ok(existing);
        }
        if self.options.read_only {
            return Err(Error::NoKeyspace(name.to_owned()));
        }
        self.check_writable()?;
        let order = watched(options.order.clone().unwrap_or_default(), &self.substrate);
        let id = self.substrate.checkpoints.take_keyspace_id();
        let edit = keyspace_edit(id, name, &order);
        let first = Chunks::first_edit();
        let mut map = ChunkMap::default();
        map.apply(&first.encode()).map_err(|what| Error::corruption(&self.path, 0, what.0))?;
        self.substrate.manifest.append(&[
            Edit::Keyspace(edit.clone()),
            Edit::Layout { keyspace: id, payload: first.encode() },
        ])?;
        let open = OpenState { map, segments: &Default::default(), outlived: false };
        let chunks = Chunks::open(self.substrate.clone(), id, order.clone(), options.chunk, open)?;
        let inner = keyspace_inner(&edit, order, chunks, false, &self.activity);
        keyspaces.insert(name.to_owned(), inner.clone());
        drop(keyspaces);
        inner.settle(&self.substrate)?;
        Ok(inner)
    }

    pub(super) fn drop_keyspace(&self, name: &str) -> Result<()> {
        let _call = self.begin_call()?;
        self.check_writable()?;
        if name == DEFAULT_KEYSPACE {
            return Err(Error::InvalidArgument(
                "the default keyspace cannot be dropped; delete_range(..) empties it".into(),
            ));
        }
        let mut keyspaces = self.keyspaces.write();
        let keyspace = keyspaces.get(name).cloned().ok_or_else(|| Error::NoKeyspace(name.to_owned()))?;
        // A write like any other: a recovery to an earlier version undoes it.
        let substrate = &self.substrate;
        let announced = substrate.unjournaled.announce(&substrate.mvcc, crate::mvcc::KeySpan::ALL);
        self.check_writable()?;
        let version = announced.version();
        self.substrate.manifest.append(&[Edit::DropKeyspace { keyspace: keyspace.id, version }])?;
        keyspace.mark_dropped(version);
        keyspaces.remove(name);
        self.dropped.lock().push((version, keyspace));
        drop(announced);
        drop(keyspaces);
        self.substrate.pool.wake();
        // The journal does not tell of it.
        if self.substrate.durability == Durability::Sync { self.substrate.checkpoint() } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use crate::db::Options;
    use crate::sync::Arc;
    use crate::vfs::{CrashPlan, MemVfs};
    use std::time::Duration;

    /// Rows of the recovery table of a store opened on `vfs`, after some work in it.
    fn rows_after(vfs: &MemVfs, compact: bool) -> u64 {
        let options =
            Options::new().vfs(Arc::new(vfs.clone())).checkpoint_interval(Duration::from_secs(3600));
        let db = options.open("store").unwrap();
        let mut encoded = Vec::new();
        db.handle.store.substrate.recovery.table.encode(&mut encoded);
        db.put("durable", "value").unwrap();
        db.sync().unwrap();
        db.put("lost", "value").unwrap();
        if compact {
            db.compact_range(..).unwrap();
        }
        assert_eq!(db.get("durable").unwrap().as_deref(), Some(&b"value"[..]));
        crate::format::codec::Decoder::new(&encoded).varint().unwrap()
    }

    #[test]
    fn what_died_with_an_epoch_is_forgotten_with_its_last_file() {
        let mut vfs = MemVfs::new();
        for deaths in 0..6 {
            assert_eq!(rows_after(&vfs, false), deaths, "every epoch left a log behind");
            vfs = vfs.crash(&CrashPlan::LOSE_UNSYNCED);
        }
        rows_after(&vfs, true);
        vfs = vfs.crash(&CrashPlan::LOSE_UNSYNCED);
        assert_eq!(rows_after(&vfs, false), 1, "one table is left, of the epoch that died last");
    }
}
