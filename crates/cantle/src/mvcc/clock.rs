//! The global version (GV), and the snapshots that are open.
//!
//! Thread safety: everything may be called from any thread. The order of the steps here carries the
//! proof in [`mvcc`](super). Change nothing without running the models in `tests/loom_mvcc.rs`.

use super::pending::{Claim, KeySpan, Pending, SLOTS};
use crate::sync::atomic::Ordering::{AcqRel, Acquire, SeqCst};
use crate::sync::atomic::{AtomicU64, fence};
use crate::sync::{Arc, Mutex};
use crossbeam_utils::CachePadded;
use std::collections::BTreeMap;
use std::fmt;

/// The versions of one store: the current one, those of the announced writes, and those of the open
/// snapshots.
pub struct Mvcc {
    /// Read by every write, written when a snapshot raises the version.
    clock: CachePadded<Clock>,
    pending: Pending,
    /// Open snapshots: their versions, and the number of readers of each. Held while GV is raised.
    open: Mutex<BTreeMap<u64, Readers>>,
}

/// Number of readers of one version.
#[derive(Debug, Default)]
struct Readers {
    users: usize,
    /// The store's own readers: loads, flushes, checkpoints.
    own: usize,
}

#[derive(Clone, Copy)]
enum Reader {
    User,
    Own,
}

impl Readers {
    fn of(&mut self, reader: Reader) -> &mut usize {
        match reader {
            Reader::User => &mut self.users,
            Reader::Own => &mut self.own,
        }
    }
}

struct Clock {
    /// GV: the version that writes take now.
    current: AtomicU64,
    /// The greatest version that a write has taken. Never above `current`; equal to it once an
    /// entry of that version is visible.
    used: AtomicU64,
}

impl Mvcc {
    /// Starts at `first_version` (1 or more), which is greater than any version that an earlier
    /// epoch can have used.
    pub fn new(first_version: u64) -> Self {
        Self::with_slots(first_version, SLOTS)
    }

    /// As `new`, with `slots` slots for announced writes.
    pub fn with_slots(first_version: u64, slots: usize) -> Self {
        assert!(first_version > 0, "version 0 is before every write");
        // With the first version counted as used, the first snapshot includes the entries that
        // recovery wrote with it.
        let clock = Clock { current: AtomicU64::new(first_version), used: AtomicU64::new(first_version) };
        Self {
            clock: CachePadded::new(clock),
            pending: Pending::new(slots),
            open: Mutex::new(BTreeMap::new()),
        }
    }

    /// The global version. Not the version of a write: that one comes from [`announce`](Self::announce).
    pub fn current(&self) -> u64 {
        self.clock.current.load(Acquire)
    }

    /// The greatest version that a write has taken.
    pub fn greatest_used(&self) -> u64 {
        self.clock.used.load(Acquire)
    }

    /// Announces a write to keys in `span` and takes its version. The caller holds the result until
    /// everything written can be read, and waits for nothing meanwhile, not even for another
    /// announcement. An announcement that covers all keys of a batch has the
    /// [`hull`](KeySpan::hull) of their spans.
    pub fn announce(&self, span: KeySpan) -> Announced<'_> {
        let claim = self.pending.claim(span);
        let version = self.clock.current.load(Acquire);
        // Before any entry is visible: a snapshot taken by a thread that has seen the entry must
        // include it.
        if self.clock.used.load(Acquire) < version {
            self.clock.used.fetch_max(version, AcqRel);
        }
        claim.publish(version);
        Announced { _claim: claim, version }
    }

    /// Opens a snapshot of everything written so far, and waits for the announced writes to `span`
    /// that belong to it. Keys outside `span` may be read after [`SnapshotGuard::wait_for`].
    ///
    /// The calling thread must hold no announcement.
    pub fn snapshot(self: &Arc<Self>, span: KeySpan) -> SnapshotGuard {
        self.register(span, Reader::User)
    }

    /// The same for work of the store itself; [`open_count`](Self::open_count) does not count it.
    pub fn own_snapshot(self: &Arc<Self>, span: KeySpan) -> SnapshotGuard {
        self.register(span, Reader::Own)
    }

    fn register(self: &Arc<Self>, span: KeySpan, reader: Reader) -> SnapshotGuard {
        let version = {
            let mut open = self.open.lock();
            let current = self.clock.current.load(Acquire);
            let version = if self.clock.used.load(Acquire) < current {
                current - 1
            } else {
                self.clock.current.fetch_add(1, AcqRel)
            };
            *open.entry(version).or_default().of(reader) += 1;
            version
        };
        // Either this finds a writer's announcement, or that writer reads the raised version.
        fence(SeqCst);
        let guard =
            SnapshotGuard { registration: Arc::new(Registration { mvcc: self.clone(), version, reader }) };
        guard.wait_for(span);
        guard
    }

    /// The versions that open snapshots read, ascending. A rebalance asks after it has sealed its
    /// input: a snapshot opened later needs only the newest entry of each key in that input.
    pub fn open_versions(&self) -> Vec<u64> {
        self.open.lock().keys().copied().collect()
    }

    /// True if an open snapshot sees an entry written at `older` that an entry written at `newer`
    /// would replace. For a writer that is announced with version `newer`: snapshots opened later
    /// see its entry.
    pub fn is_open_between(&self, older: u64, newer: u64) -> bool {
        older < newer && self.open.lock().range(older..newer).next().is_some()
    }

    /// Number of open snapshots without the store's own. Clones of one count once.
    pub fn open_count(&self) -> usize {
        self.open.lock().values().map(|readers| readers.users).sum()
    }
}

impl fmt::Debug for Mvcc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mvcc").field("current", &self.current()).field("open", &*self.open.lock()).finish()
    }
}

/// A write in progress. Dropping it means that everything it wrote can be read, or that it wrote
/// nothing.
#[derive(Debug)]
#[must_use = "dropping it ends the announcement"]
pub struct Announced<'a> {
    /// Its drop ends the announcement.
    _claim: Claim<'a>,
    version: u64,
}

impl Announced<'_> {
    /// The version of the entries to write.
    pub fn version(&self) -> u64 {
        self.version
    }
}

/// An open snapshot: the entries that its version sees are kept until the last clone is dropped.
#[derive(Clone)]
pub struct SnapshotGuard {
    registration: Arc<Registration>,
}

impl SnapshotGuard {
    /// The version. The snapshot reads the newest entry of a key whose version is not greater.
    pub fn version(&self) -> u64 {
        self.registration.version
    }

    /// Waits until keys in `span` can be read as well. The cost soon falls to almost nothing,
    /// because only writes that were announced before the snapshot was opened are waited for. The
    /// calling thread must hold no announcement.
    pub fn wait_for(&self, span: KeySpan) {
        self.registration.mvcc.pending.wait(span, self.version());
    }
}

impl fmt::Debug for SnapshotGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SnapshotGuard").field(&self.version()).finish()
    }
}

struct Registration {
    mvcc: Arc<Mvcc>,
    version: u64,
    reader: Reader,
}

impl Drop for Registration {
    fn drop(&mut self) {
        let mut open = self.mvcc.open.lock();
        if let Some(readers) = open.get_mut(&self.version) {
            *readers.of(self.reader) -= 1;
            if readers.users + readers.own == 0 {
                open.remove(&self.version);
            }
        }
    }
}

const _: fn() = || {
    fn assert<T: Clone + Send + Sync + 'static>() {}
    assert::<SnapshotGuard>();
};
