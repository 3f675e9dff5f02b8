//! The open store, to which all handles refer.

use super::Stats;
use super::activity::Activity;
use super::keyspace::KeyspaceInner;
use super::left_behind::{LeftBehind, Uncounted};
use super::stalls::Stalls;
use crate::db::Options;
use crate::layout::stats::KeyspaceStats;
use crate::layout::{Moment, Upkeep};
use crate::maintenance::{Class, MaintenanceStats, Ticker, nanos_per_kib};
use crate::manifest::Edit;
use crate::substrate::{Substrate, VERSIONS_PER_CHECKPOINT};
use crate::sync::atomic::{
    AtomicBool, AtomicI64, AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};
use crate::sync::waits::{self, Cause};
use crate::sync::{Arc, Mutex, RwLock};
use crate::types::durability::Durability;
use crate::types::error::{Error, Result};
use crate::vfs::{Vfs, VfsLock};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Weak;
use std::time::Duration;

/// Length of the journal in bytes above which a checkpoint is made early, so that opening stays
/// fast.
const JOURNAL_BYTES_MAX: u64 = 16 << 20;
/// Number of unsynced bytes above which a checkpoint is made early. Bounds both the loss by a power
/// failure and the work of one checkpoint.
const DIRTY_BYTES_MAX: u64 = 1 << 30;

/// Bytes of the manifest after its last checkpoint above which an opening makes a checkpoint:
/// processes that are killed again and again make none. These bytes are read in well below a
/// millisecond. Some two hundred openings write as many.
const PROVISIONAL_BYTES_MAX: u64 = 16 << 10;
/// Number of journal files above which an opening makes a checkpoint. Each process that wrote a
/// spanning batch left one.
const JOURNALS_MAX: usize = 4;

/// Number of ticks, some five seconds, without use of the write buffer after which its space is
/// freed.
const WRITE_BUFFER_TICKS: u64 = 256;

/// The name of the keyspace that `Db`'s own operations work on.
pub(crate) const DEFAULT_KEYSPACE: &str = "default";

pub(crate) struct Store {
    /// The path that the caller gave, for messages: it may lead to another directory by now.
    pub(super) path: PathBuf,
    /// The file system as seen from the store's directory, without the changes that a store opened
    /// read-only keeps in memory.
    pub(super) disk: Arc<dyn Vfs>,
    pub(super) options: Options,
    pub(super) substrate: Arc<Substrate>,
    pub(super) default: Arc<KeyspaceInner>,
    pub(super) keyspaces: RwLock<BTreeMap<String, Arc<KeyspaceInner>>>,
    pub(super) activity: Arc<Activity>,
    /// Dropped keyspaces, each with the version at which it was dropped.
    pub(super) dropped: Mutex<Vec<(u64, Arc<KeyspaceInner>)>>,
    /// Damage that opening found and that did not prevent it.
    pub(super) opening_damage: Vec<Error>,
    /// Number and bytes of the records that this opening left behind, once they are counted.
    pub(super) left_behind: Mutex<Option<LeftBehind>>,
    /// The files with these records, until a background thread takes them to count the records.
    pub(super) uncounted: Mutex<Option<Uncounted>>,
    pub(super) open_time: Duration,
    pub(super) write_longest_nanos: AtomicU64,
    pub(super) stalls: Stalls,
    pub(super) transactions: TransactionCounters,
    pub(super) checkpointing: AtomicBool,
    pub(super) ticks: AtomicU64,
    /// True if a checkpoint must be made before the next write (`secure_opening`).
    pub(super) unsettled: AtomicBool,
    pub(super) this: Weak<Store>,
    /// Files from before a crash that nothing refers to, until they are removed.
    pub(super) orphans: Mutex<Vec<PathBuf>>,
    /// Held by the thread that closes the store.
    pub(super) closing: Mutex<()>,
    /// The lock of the directory, until the store is closed.
    pub(super) lock: Mutex<Option<Box<dyn VfsLock>>>,
    /// The process that opened the store.
    pub(super) process: u32,
    /// By which other programs look at the store.
    #[cfg(all(feature = "monitor", target_os = "linux"))]
    pub(super) monitor: Mutex<Option<super::monitor::Monitor>>,
}

/// Number of transactions since opening, by outcome.
#[derive(Default)]
pub(super) struct TransactionCounters {
    pub(super) committed: AtomicU64,
    pub(super) conflicts: AtomicU64,
}

impl Store {
    /// The keyspaces in the order of their names.
    pub(super) fn all_keyspaces(&self) -> Vec<Arc<KeyspaceInner>> {
        self.keyspaces.read().values().cloned().collect()
    }

    pub(super) fn stats(&self) -> Stats {
        let substrate = &self.substrate;
        let micros = |counter: &AtomicU64| Duration::from_micros(counter.load(Relaxed));
        let nanos = |counter: &AtomicU64| Duration::from_nanos(counter.load(Relaxed));
        let keyspaces: Vec<KeyspaceStats> =
            self.all_keyspaces().iter().map(|keyspace| keyspace.stats()).collect();
        let write_buffer = substrate.write_buffer.as_ref();
        let left_behind = *self.left_behind.lock();
        let jobs = MaintenanceStats::of(&substrate.pool);
        let drained = write_buffer.map(|write_buffer| write_buffer.drained()).unwrap_or_default();
        let files: u64 = keyspaces.iter().map(KeyspaceStats::file_bytes).sum();
        let (reads_by_io_uring, reads_by_hints) = substrate.logs.queue.counts();
        Stats {
            version: substrate.mvcc.current(),
            epoch: substrate.recovery.epoch,
            open_snapshots: substrate.mvcc.open_count() as u64,
            checkpoints: substrate.checkpoints.count(),
            checkpoint_longest: micros(&substrate.checkpoints.longest_micros),
            journal_syncs: substrate.journal.syncs.load(Relaxed),
            journal_writes: substrate.journal.writes.load(Relaxed),
            disk_bytes: files
                + substrate.files.held_bytes()
                + substrate.journal.bytes()
                + substrate.manifest.bytes()
                + write_buffer.map_or(0, |write_buffer| write_buffer.file_bytes()),
            memory_budget: substrate.budget.total_bytes,
            memory_used: substrate.budget.used_bytes(),
            memory: substrate.budget.stats(),
            cache_hits: substrate.cache.hits(),
            cache_misses: substrate.cache.misses(),
            reads_by_io_uring,
            reads_by_hints,
            seek_blocks_announced: substrate.tables.seek_reads.announced(),
            write_buffer_drains: drained.drains,
            write_buffer_records: drained.records,
            write_buffer_bytes: drained.bytes,
            write_delays: substrate.throttle.delays.load(Relaxed),
            write_delay_total: nanos(&substrate.throttle.delayed_nanos),
            write_delay_longest: nanos(&substrate.throttle.longest_nanos),
            write_stalls: self.stalls.stats(),
            write_longest: nanos(&self.write_longest_nanos),
            transactions_committed: self.transactions.committed.load(Relaxed),
            transaction_conflicts: self.transactions.conflicts.load(Relaxed),
            open_time: self.open_time,
            left_behind_records: left_behind.map_or(0, |counted| counted.records),
            left_behind_bytes: left_behind.map_or(0, |counted| counted.bytes),
            left_behind_pending: left_behind.is_none(),
            maintenance_queued: jobs.queued(),
            maintenance_running: jobs.running(),
            maintenance: jobs,
            read_only: substrate.health.reason(),
            keyspaces,
        }
    }

    /// Makes writes that opening accepted from a dead process, or replayed, as durable as later
    /// writes will be. In a `Buffered` store the next death of a process would lose them, so a
    /// checkpoint is made now. In a `Sync` store the new journal does not have them, so a
    /// checkpoint is made before the first write.
    pub(super) fn secure_opening(&self, outlived: bool, replayed: bool) -> Result<()> {
        match self.substrate.durability {
            Durability::Buffered => {
                if outlived {
                    self.substrate.checkpoint()?;
                    self.substrate.vouch.set(false)?;
                }
            }
            durability => {
                // If a replayed write failed and could not be revoked, the page cache is not
                // vouched for, and the next process replays again.
                if replayed && self.substrate.health.check_sound().is_ok() {
                    self.substrate.vouch.set(true)?;
                }
                // The checkpoint is made before the first write and not here: opening stays fast.
                let unsettled = durability == Durability::Sync && (outlived || replayed);
                self.unsettled.store(unsettled, Release);
            }
        }
        Ok(())
    }

    /// Bounds the remains of openings and closings, even if no process lives long enough for
    /// maintenance: each opening cleans up a share of what killed processes left.
    /// `provisional_bytes` is the length of the manifest after its last checkpoint.
    pub(super) fn bound_opening(&self, provisional_bytes: u64, journals: usize) {
        let merged = self.tidy(Moment::Opening);
        let is_long = provisional_bytes > PROVISIONAL_BYTES_MAX || journals > JOURNALS_MAX;
        // Files that were merged are kept until a checkpoint that does not need them.
        let due = merged || is_long;
        canary!(FILES_LEFT_BEHIND => let due = false);
        if !due || self.substrate.health.check_writable().is_err() {
            return;
        }
        match self.substrate.checkpoint() {
            Ok(()) => self.unsettled.store(false, Release),
            // The caller did not ask for this checkpoint, and another one follows in time. A failed
            // sync has turned the store read-only.
            Err(error) => tracing::warn!(%error, "the checkpoint at the end of the opening failed"),
        }
    }

    /// Merges files that short-lived processes left; returns true if any were merged. An error is
    /// not the caller's concern: the files are unchanged, and a failed sync has turned the store
    /// read-only.
    fn tidy(&self, moment: Moment) -> bool {
        let mut upkeep = Upkeep::of(moment);
        let mut merged = false;
        for keyspace in self.all_keyspaces() {
            merged |= keyspace.layout.tidy(&mut upkeep);
        }
        merged
    }

    /// Makes the checkpoint that `secure_opening` asked for. Called before a write is journaled.
    pub(super) fn secure_before_write(&self) -> Result<()> {
        if self.unsettled.load(Acquire) {
            waits::timed(Cause::Device, || self.substrate.checkpoint())?;
            self.unsettled.store(false, Release);
        }
        Ok(())
    }

    /// Closes the store. Acknowledged writes are durable when this returns, and the store may be
    /// opened again.
    pub(super) fn close(&self) -> Result<()> {
        if self.process != std::process::id() {
            // The store belongs to the parent process. Threads that do not exist here may hold any
            // lock.
            self.substrate.health.close();
            return Ok(());
        }
        let _closing = self.closing.lock();
        if self.substrate.health.is_closed() {
            return Ok(());
        }
        #[cfg(all(feature = "monitor", target_os = "linux"))]
        drop(self.monitor.lock().take());
        // Writes that are announced after this are refused; earlier ones are waited for.
        self.substrate.health.begin_close();
        self.substrate.calls.close();
        self.substrate.gate.close();
        // The records are not counted any more, and the files kept for that may be removed.
        self.uncounted.lock().take();
        let done = if self.options.read_only {
            Ok(())
        } else if let Some(reason) = self.substrate.health.reason() {
            // The store may have turned read-only in the background, without the caller's
            // knowledge.
            if self.is_dirty() { Err(Error::ReadOnly { reason }) } else { Ok(()) }
        } else {
            self.tidy(Moment::Closing);
            // Otherwise many short openings would each leave this to the next one.
            self.forget_dropped();
            let settled = self.all_keyspaces().iter().try_for_each(|keyspace| keyspace.layout.before_close());
            let done =
                settled.and_then(|()| if self.is_dirty() { self.substrate.checkpoint() } else { Ok(()) });
            if let (Ok(()), Some(write_buffer)) = (&done, &self.substrate.write_buffer) {
                write_buffer.close();
            }
            done.inspect(|()| {
                self.remove_orphans_left();
                self.note_close();
            })
        };
        // Work for a layout that still runs in a thread of the caller must not append edits any
        // more.
        self.substrate.manifest.end();
        self.substrate.health.close();
        self.substrate.data.set(0, 0);
        self.unlock();
        done
    }

    /// Records the number and the length of the manifest, so that the next opening recognises a
    /// manifest that was cut.
    fn note_close(&self) {
        let substrate = &self.substrate;
        let (manifest, bytes) = substrate.manifest.durable();
        let closed = crate::substrate::page_cache::Closed { store: substrate.files.store, manifest, bytes };
        if let Err(error) = substrate.vouch.close(closed) {
            tracing::debug!(%error, "cannot record the length of the manifest in `PAGECACHE`");
        }
    }

    /// Releases the lock, so that the store may be opened again. Nothing writes to its files any
    /// more. Reads that are under way may continue on open files.
    fn unlock(&self) {
        self.substrate.files.end();
        self.substrate.tables.clear();
        self.substrate.files.close_handles();
        self.lock.lock().take();
    }

    /// True if a checkpoint has something to do. The last one may have synced logs with writes of
    /// later versions than its own. The logs' marks do not show these writes, so versions are
    /// compared too.
    fn is_dirty(&self) -> bool {
        let substrate = &self.substrate;
        substrate.mvcc.greatest_used() > substrate.checkpoints.durable_version()
            || !substrate.dirty.is_empty()
            || self.substrate.manifest.is_dirty()
            || self.substrate.files.held_bytes() > 0
    }

    /// Starts a checkpoint in the background, one at a time; returns false if one is under way.
    fn start_checkpoint(&self) -> bool {
        if self.checkpointing.swap(true, AcqRel) {
            return false;
        }
        let this = self.this.clone();
        self.substrate.pool.submit(Class::Checkpoint, move || {
            let Some(store) = this.upgrade() else { return };
            let _done = Done(&store);
            let Some(_work) = store.substrate.begin_work() else { return };
            if let Err(error) = store.substrate.checkpoint()
                && !matches!(error, Error::Closed | Error::ReadOnly { .. })
            {
                tracing::warn!(%error, "checkpoint failed");
            }
        });
        true
    }

    /// Slows writers according to the keyspace that is most behind, because its rebalances take
    /// threads and disk from all others. Updates the budget's size of the data and its idle memory.
    fn heed_pressure(&self, keyspaces: &[Arc<KeyspaceInner>]) {
        let mut brake = 0;
        for keyspace in keyspaces {
            let pressure = keyspace.layout.pressure();
            let nanos = nanos_per_kib(pressure.overload, pressure.freed_bytes_per_second);
            brake = nanos.max(brake);
            canary!(BRAKE_OF_THE_LAST => brake = nanos);
        }
        self.substrate.throttle.set(brake);
        let now = |bytes: &AtomicI64| bytes.load(Relaxed).max(0) as u64;
        self.substrate.data.set(now(&self.substrate.live_bytes), now(&self.substrate.unresident_bytes));
        self.substrate.budget.note_idle();
    }

    /// Removes dropped keyspaces that no snapshot can see any more: later checkpoints have later
    /// versions.
    fn forget_dropped(&self) {
        let mut dropped = self.dropped.lock();
        if dropped.is_empty() {
            return;
        }
        let oldest = self.substrate.mvcc.open_versions().first().copied();
        dropped.retain(|(version, keyspace)| {
            if oldest.is_some_and(|oldest| oldest < *version) {
                return true;
            }
            // No edit that names the keyspace may follow the one that forgets it.
            keyspace.layout.retire();
            match self.substrate.manifest.append(&[Edit::ForgetKeyspace { keyspace: keyspace.id }]) {
                Ok(()) => {
                    keyspace.layout.release();
                    false
                }
                Err(error) => {
                    tracing::warn!(%error, keyspace = keyspace.name, "cannot forget a dropped keyspace");
                    true
                }
            }
        });
    }
}

/// Marks the checkpoint in the background as over when dropped, however the checkpoint ended.
struct Done<'a>(&'a Store);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.checkpointing.store(false, Release);
    }
}

impl Ticker for Store {
    fn tick(&self) {
        let Some(_work) = self.substrate.begin_work() else { return };
        let may_write = !self.options.read_only;
        if may_write && self.substrate.health.check_writable().is_err() {
            return;
        }
        let due = self.activity.due(&self.keyspaces.read());
        due.iter().for_each(|keyspace| keyspace.layout.tick());
        self.heed_pressure(&due);
        if !may_write {
            return;
        }
        self.forget_dropped();
        let substrate = &self.substrate;
        substrate.forget_gone();
        let ticks = self.ticks.fetch_add(1, Relaxed);
        if ticks.is_multiple_of(WRITE_BUFFER_TICKS)
            && let Some(write_buffer) = &substrate.write_buffer
        {
            write_buffer.give_back();
        }
        // If space is short, the amount of free space changes from one tick to the next.
        if ticks.is_multiple_of(16) || substrate.reserve.is_full() {
            substrate.reserve.maintain();
            substrate.budget.tick();
        }
        let checkpoints = &substrate.checkpoints;
        // `covered` is read before the current version, so that it is not above it if a checkpoint
        // ends meanwhile.
        let covered = checkpoints.durable_version().max(substrate.first_version);
        let used_versions = substrate.mvcc.current().saturating_sub(covered);
        let wanted = checkpoints.take_wanted();
        let due = wanted
            || (checkpoints.since_last() >= self.options.checkpoint_interval && self.is_dirty())
            || substrate.journal.bytes() > JOURNAL_BYTES_MAX
            || substrate.dirty.bytes() > DIRTY_BYTES_MAX
            || used_versions > VERSIONS_PER_CHECKPOINT / 2;
        if due && !self.start_checkpoint() && wanted {
            // The checkpoint under way may have begun before the request.
            checkpoints.want();
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::db::Db;
    use crate::db::Options;
    use crate::log::DirtyLog;
    use crate::manifest::SegmentEdit;
    use crate::sync::{Arc, time::now};
    use crate::types::error::Result;
    use crate::vfs::MemVfs;
    use std::time::Duration;

    /// Writes to the store while a checkpoint syncs its logs.
    struct Meddler(Db);

    impl DirtyLog for Meddler {
        fn sync(&self) -> Result<SegmentEdit> {
            self.0.put("key", "during").map(|()| SegmentEdit::default())
        }
        fn is_obsolete(&self) -> bool {
            false
        }
    }

    /// The checkpoint syncs the log with what was written meanwhile, but covers only what is of its version.
    #[test]
    fn what_is_written_while_a_checkpoint_runs_asks_for_another() {
        let options =
            Options::new().vfs(Arc::new(MemVfs::new())).checkpoint_interval(Duration::from_secs(3600));
        let db = options.open("store").unwrap();
        let store = &db.handle.store;
        db.sync().unwrap();
        let begun = now();
        while store.is_dirty() && begun.elapsed() < Duration::from_secs(10) {}
        assert!(!store.is_dirty(), "nothing was written since");
        store.substrate.dirty.add(Arc::new(Meddler(db.clone())));
        db.put("key", "before").unwrap();
        store.substrate.checkpoint().unwrap();
        assert!(store.is_dirty());
        db.sync().unwrap();
        assert!(!store.is_dirty());
    }
}
