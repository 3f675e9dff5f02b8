//! Checkpoints (EvenDB §3.5): raise the version, wait for pending writers, sync every dirty file, record the
//! version and the lengths of the dirty logs.
//!
//! What a power failure finds: before the record is durable, the previous checkpoint with all of its files, as
//! obsolete files are held until a record covers their removal; after it, this one. A checkpoint in progress is
//! an open snapshot, so that no rebalance drops what only its version needs.
//!
//! Invariants on which that rests, with the parts that others play; `tests/shuttle_store.rs` runs this file with them:
//!
//! * A log is marked as dirty before the announcement of the write ends: who was waited for is synced.
//! * A batch takes its number after it is announced: those below the number read here were announced, and are waited for.
//! * The record comes under the manifest's lock right behind the edits by which the files became obsolete that go with it.
//! * These go once the record is durable.

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

/// As often as that, a checkpoint syncs the names of files that appeared meanwhile while others may append edits; then it keeps them
/// off, or files that come without end would keep its record off.
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

    fn take(&self) -> Vec<Arc<dyn DirtyLog>> {
        self.bytes.store(0, Relaxed);
        std::mem::take(&mut *self.logs.lock())
    }
}

/// Who runs checkpoints, who waits for them, and what came of them.
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

    /// How many are done.
    pub fn count(&self) -> u64 {
        self.tickets.count()
    }

    /// The version that a power loss now would return to.
    pub fn durable_version(&self) -> u64 {
        self.durable_version.load(Acquire)
    }

    pub fn since_last(&self) -> Duration {
        self.last.lock().elapsed()
    }

    /// Asks for a checkpoint before its time: files are held that it would free.
    pub fn want(&self) {
        self.wanted.store(true, Release);
    }

    /// Whether one was asked for since the last.
    pub fn take_wanted(&self) -> bool {
        self.wanted.swap(false, AcqRel)
    }

    /// A number for a new keyspace.
    pub fn take_keyspace_id(&self) -> u32 {
        self.next_keyspace.fetch_add(1, Relaxed) as u32
    }
}

/// How far versions are promised to a checkpoint's epoch beyond the checkpoint's own: the next epoch starts
/// there. 2³² versions between two checkpoints are out of reach (at a million scans a second, 71 minutes), and
/// 2³² epochs of as many versions fit in 64 bits.
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
        // Not whether the store is open: closing it makes one, and so may a write that was accepted before.
        self.check_sound()?;
        let started = now();
        // Frees what is held, and so may use what is set aside for that.
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
            // What was held is free now.
            self.forget_gone();
            self.reserve.maintain();
        }
        done.map(|_| ())
    }

    /// Whether nothing has failed that speaks against a checkpoint. In a store that is opened for reading one takes place
    /// in memory, where no sync fails and no batch is written.
    fn check_sound(&self) -> Result<()> {
        if self.read_only { Ok(()) } else { self.health.check_sound() }
    }

    fn run_checkpoint(&self) -> Result<u64> {
        // Batches below this number have been announced before the version is raised, and are waited for: the
        // checkpoint settles them. Of others that it covers, the journal goes on telling that they committed.
        let next_batch = self.batches.next();
        // Registered as a snapshot, for the reason given above; waits for the pending writers.
        let snapshot = self.mvcc.own_snapshot(KeySpan::ALL);
        let version = snapshot.version();
        // A batch that was waited for may have failed, and be there in part: it must not be settled.
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
        // What became dirty meanwhile was written after the version was raised, but edits that reach the
        // manifest before the record may refer to new files: their names must be durable with it.
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
            // Writers that are announced append edits, and snapshots wait for them.
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
        for synced in sync_all(taken) {
            match synced {
                Ok(edit) => segments.push(edit),
                // A log of an earlier epoch that turns out damaged must not keep the rest from being safe.
                Err(error @ Error::Corruption { .. }) => {
                    tracing::error!(%error, "a log cannot be accounted for")
                }
                // All are looked at: behind a log that found no space there may be one whose sync failed, which the next
                // checkpoint must not take for synced.
                Err(error) => failed = failed.and(Err(self.checked(error))),
            }
        }
        failed
    }

    /// An error as it is, unless a sync failed: then see `sync_failed`.
    pub fn checked(&self, error: Error) -> Error {
        if error.is_sync() { self.sync_failed(error) } else { error }
    }

    /// A sync failed: nothing may be vouched for any more, and nothing written.
    pub fn sync_failed(&self, error: Error) -> Error {
        if matches!(error, Error::ReadOnly { .. } | Error::Closed) {
            return error;
        }
        if let Err(revoke) = canary!(NOT_REVOKED else self.vouch.revoke()) {
            tracing::error!(error = %revoke, "cannot revoke what was vouched for");
        }
        canary!(NOT_READ_ONLY => return error);
        self.health.fail(format!(
            "{error}; what was written since the last checkpoint may be lost: find out what the device says, then reopen the store"
        ));
        error
    }
}

/// Syncs logs from several threads at once: the file system's journal then serves many syncs with one commit,
/// which makes a checkpoint of a hundred logs several times as fast as one after the other.
fn sync_all(logs: &[Arc<dyn DirtyLog>]) -> Vec<Result<SegmentEdit>> {
    // What no chunk refers to any more goes with this very checkpoint.
    let logs: Vec<_> = logs.iter().filter(|log| !log.is_obsolete()).collect();
    const THREADS_MAX: usize = 8;
    const LOGS_PER_THREAD: usize = 4;
    let threads = logs.len().div_ceil(LOGS_PER_THREAD).clamp(1, THREADS_MAX);
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
