//! Checkpoints (EvenDB §3.5): raise the version, wait for pending writers, sync every dirty file, record the
//! version and the lengths of the dirty logs.
//!
//! State after a power failure: before the record is durable, the previous checkpoint with all of
//! its files, as obsolete files are held until a record covers their removal; after it, this one. A
//! checkpoint in progress is an open snapshot, so no rebalance drops entries that only its version
//! needs.
//!
//! The invariants on which this rests, with the parts of other modules; `tests/shuttle_store.rs`
//! runs this file with them:
//!
//! * A log is marked as dirty before the announcement of the write ends: the log of a write that
//!   was waited for is synced.
//! * A batch takes its number after it is announced: those below the number read here were
//!   announced, and are waited for.
//! * The record is appended under the manifest's lock, right after the edits that made its held
//!   files obsolete.
//! * These files are released once the record is durable.

use super::Substrate;
use super::tickets::Tickets;
use crate::log::DirtyLog;
use crate::manifest::{CheckpointEdit, SegmentEdit};
use crate::mvcc::KeySpan;
use crate::sync::atomic::{
    AtomicBool, AtomicU64, AtomicUsize,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};
use crate::sync::time::{Instant, now};
use crate::sync::{Arc, Mutex, thread};
use crate::types::error::{Error, Result};
use std::time::Duration;

/// Number of times that a checkpoint syncs the names of new files while other threads may append
/// edits. After that it holds the manifest's lock during the sync, or a steady stream of new files
/// would delay its record without end.
const UNLOCKED_TRIES: usize = 16;

/// Logs written since the last checkpoint.
#[derive(Default)]
pub struct DirtySet {
    logs: Mutex<Vec<Arc<dyn DirtyLog>>>,
    bytes: AtomicU64,
}

impl DirtySet {
    pub fn add(&self, log: Arc<dyn DirtyLog>) {
        self.logs.lock().push(log);
    }

    pub fn add_bytes(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Relaxed);
    }

    pub fn bytes(&self) -> u64 {
        self.bytes.load(Relaxed)
    }

    pub fn is_empty(&self) -> bool {
        self.logs.lock().is_empty()
    }

    /// Forgets the logs that no checkpoint needs any more, and so their memory.
    pub fn forget_obsolete(&self) {
        self.logs.lock().retain(|log| !log.is_obsolete());
    }

    fn take(&self) -> Vec<Arc<dyn DirtyLog>> {
        self.bytes.store(0, Relaxed);
        std::mem::take(&mut *self.logs.lock())
    }
}

/// The state of checkpoints: the one that runs, its waiters, and the result of the last.
pub struct Checkpoints {
    tickets: Tickets,
    durable_version: AtomicU64,
    next_keyspace: AtomicU64,
    last: Mutex<Instant>,
    wanted: AtomicBool,
    pub longest_micros: AtomicU64,
}

impl Checkpoints {
    pub fn new(durable_version: u64, next_keyspace: u32) -> Self {
        Self {
            tickets: Tickets::new(),
            durable_version: AtomicU64::new(durable_version),
            next_keyspace: AtomicU64::new(u64::from(next_keyspace)),
            last: Mutex::new(now()),
            wanted: AtomicBool::new(false),
            longest_micros: AtomicU64::new(0),
        }
    }

    /// Number of finished checkpoints.
    pub fn count(&self) -> u64 {
        self.tickets.count()
    }

    /// The version that the store would return to after a power loss now.
    pub fn durable_version(&self) -> u64 {
        self.durable_version.load(Acquire)
    }

    pub fn since_last(&self) -> Duration {
        self.last.lock().elapsed()
    }

    /// Requests a checkpoint before its time, because it would free held files.
    pub fn want(&self) {
        self.wanted.store(true, Release);
    }

    /// True if one was requested since the last call.
    pub fn take_wanted(&self) -> bool {
        self.wanted.swap(false, AcqRel)
    }

    /// Takes a number for a new keyspace.
    pub fn take_keyspace_id(&self) -> u32 {
        self.next_keyspace.fetch_add(1, Relaxed) as u32
    }
}

/// Number of versions that an epoch may use after each checkpoint; the next epoch starts above
/// them. An epoch cannot use up 2³² versions between two checkpoints (at a million scans a second,
/// they last 71 minutes), and 2³² epochs of as many versions fit in 64 bits.
pub const VERSIONS_PER_CHECKPOINT: u64 = 1 << 32;

impl Substrate {
    /// Makes everything that was acknowledged before the call durable. Callers that arrive while a checkpoint
    /// runs share the next one.
    pub fn checkpoint(&self) -> Result<()> {
        self.checkpoints.tickets.share(|| self.make_checkpoint()).map(|_| ())
    }

    fn make_checkpoint(&self) -> Result<()> {
        let checkpoints = &self.checkpoints;
        let _span = tracing::debug_span!("checkpoint").entered();
        // No check for a closed store: closing makes a checkpoint, and so may a write that was
        // accepted before.
        self.check_sound()?;
        let started = now();
        // A checkpoint frees held files, so it may use the space of the reserve.
        let done = self.reserve.with(|| self.run_checkpoint());
        match &done {
            Ok(version) => {
                let elapsed = started.elapsed();
                checkpoints.durable_version.store(*version, Release);
                checkpoints.longest_micros.fetch_max(elapsed.as_micros() as u64, Relaxed);
                tracing::debug!(version, ?elapsed, "checkpoint");
            }
            Err(error) => tracing::warn!(%error, "checkpoint failed"),
        }
        *checkpoints.last.lock() = now();
        if done.is_ok() && self.reserve.is_full() {
            // The held files are free now.
            self.forget_gone();
            self.reserve.maintain();
        }
        done.map(|_| ())
    }

    /// Fails if an earlier failure forbids a checkpoint. In a store that is opened for reading, a
    /// checkpoint takes place in memory, where no sync fails and no batch is written.
    fn check_sound(&self) -> Result<()> {
        if self.read_only { Ok(()) } else { self.health.check_sound() }
    }

    fn run_checkpoint(&self) -> Result<u64> {
        // Batches below this number have been announced before the version is raised, and are
        // waited for: the checkpoint settles them. The commits of other batches that it covers stay
        // in the journal.
        let next_batch = self.batches.next();
        // Registered as a snapshot for the reason given above. This waits for the pending writers.
        let snapshot = self.mvcc.own_snapshot(KeySpan::ALL);
        let version = snapshot.version();
        // A batch that was waited for may have failed and be written in part: it must not be
        // settled.
        self.check_sound()?;
        self.journal.rotate(next_batch).map_err(|error| self.sync_failed(error))?;
        let mut taken = Vec::new();
        let mut segments = Vec::new();
        let parts = self.parts.edits(version).map_err(|error| self.checked(error))?;
        let written = self.sync_and_record(version, next_batch, parts, (&mut taken, &mut segments));
        if let Err(error) = written {
            for log in taken {
                self.dirty.add(log);
            }
            return Err(error);
        }
        drop(snapshot);
        self.parts.durable(version);
        self.journal.retire(version, next_batch);
        Ok(version)
    }

    fn sync_and_record(
        &self,
        version: u64,
        next_batch: u64,
        parts: Vec<(u32, Vec<u8>)>,
        (taken, segments): (&mut Vec<Arc<dyn DirtyLog>>, &mut Vec<SegmentEdit>),
    ) -> Result<()> {
        self.sync_dirty(taken, segments)?;
        // Logs that became dirty meanwhile were written after the version was raised. But edits
        // that reach the manifest before the record may refer to new files, and the names of these
        // files must be durable with it.
        self.files.sync_dir().map_err(|error| self.checked(error))?;
        let is_late = || {
            canary!(UNNAMED_LATE_FILES => return false);
            self.files.is_dir_dirty()
        };
        let mut manifest = self.manifest.lock();
        for _ in 0..UNLOCKED_TRIES {
            if !is_late() {
                break;
            }
            // Announced writers append edits, and snapshots wait for these writers.
            drop(manifest);
            self.files.sync_dir().map_err(|error| self.checked(error))?;
            manifest = self.manifest.lock();
        }
        if is_late() {
            self.files.sync_dir().map_err(|error| self.checked(error))?;
        }
        let held = self.files.take_held();
        let segments = std::mem::take(segments);
        canary!(LENGTHS_NOT_RECORDED => let segments = Vec::new());
        let edit = CheckpointEdit {
            version,
            ceiling: version.saturating_add(VERSIONS_PER_CHECKPOINT),
            next_file: self.files.peek_id(),
            next_keyspace: self.checkpoints.next_keyspace.load(Relaxed) as u32,
            next_batch,
            first_journal: self.journal.first_needed(version, next_batch),
            durable_bytes: 0,
            parts,
            segments,
        };
        match manifest.checkpoint(edit) {
            Ok(()) => {
                self.files.mark_deletable(held);
                Ok(())
            }
            Err(error) => {
                self.files.hold_again(held);
                Err(self.checked(error))
            }
        }
    }

    fn sync_dirty(&self, taken: &mut Vec<Arc<dyn DirtyLog>>, segments: &mut Vec<SegmentEdit>) -> Result<()> {
        taken.extend(self.dirty.take());
        let mut failed = Ok(());
        for synced in sync_all(taken, self.files.in_use_max()) {
            match synced {
                Ok(edit) => segments.push(edit),
                // A damaged log of an earlier epoch must not keep the others from becoming durable.
                Err(error @ Error::Corruption { .. }) => {
                    tracing::error!(%error, "a damaged log is left out of a checkpoint")
                }
                // All results are checked. After a log that found no space there may be one whose
                // sync failed, which the next checkpoint must not consider synced.
                Err(error) => failed = failed.and(Err(self.checked(error))),
            }
        }
        failed
    }

    /// Returns the error. If a sync failed, also does as `sync_failed`.
    pub fn checked(&self, error: Error) -> Error {
        if error.is_sync() { self.sync_failed(error) } else { error }
    }

    /// For work that nobody waits for and that is tried again later. If a sync failed, also does as
    /// `sync_failed`.
    pub fn try_later(&self, done: Result<()>, what: &str) {
        if let Err(error) = done {
            let error = self.checked(error);
            tracing::warn!(%error, "cannot {what}");
        }
    }

    /// Handles a failed sync: revokes the voucher for the page cache and turns the store read-only.
    pub fn sync_failed(&self, error: Error) -> Error {
        if matches!(error, Error::ReadOnly { .. } | Error::Closed) {
            return error;
        }
        if let Err(revoke) = canary!(NOT_REVOKED else self.vouch.revoke()) {
            tracing::error!(error = %revoke, "cannot revoke the witness of the page cache");
        }
        canary!(NOT_READ_ONLY => return error);
        self.health.fail(format!(
            "{error}; what was written since the last checkpoint may be lost: find out what the device says, then reopen the store"
        ));
        error
    }
}

/// Syncs logs from several threads at once. The file system's journal then serves many syncs with
/// one commit, which makes a checkpoint of a hundred logs several times as fast as syncing one
/// after the other. Each has its file open meanwhile, `files_max` at most.
fn sync_all(logs: &[Arc<dyn DirtyLog>], files_max: usize) -> Vec<Result<SegmentEdit>> {
    // A log that no chunk refers to any more is freed by this very checkpoint.
    let logs: Vec<_> = logs.iter().filter(|log| !log.is_obsolete()).collect();
    const THREADS_MAX: usize = 8;
    const LOGS_PER_THREAD: usize = 4;
    let threads = logs.len().div_ceil(LOGS_PER_THREAD).clamp(1, THREADS_MAX.min(files_max));
    if threads == 1 {
        return logs.iter().map(|log| log.sync()).collect();
    }
    let next = AtomicUsize::new(0);
    let work = || {
        let mut synced = Vec::new();
        while let Some(log) = logs.get(next.fetch_add(1, Relaxed)) {
            synced.push(log.sync());
        }
        synced
    };
    thread::scope(|scope| {
        let helpers: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
        let mut synced = work();
        for helper in helpers {
            match helper.join() {
                Ok(more) => synced.extend(more),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        synced
    })
}
