//! Commits of single puts, batches and range deletes, some of which ask for more durability, while
//! appends, commit records and syncs fail, and the process or the machine dies at any moment.
//! `db/commit.rs`, versions, pending operations, commit cells, checkpoints, the health of the store
//! and the plan of a recovery are the library's own. The journal (`journal`), the layout (`layout`)
//! and the disk (`disk`) keep the order of their steps.
//!
//! Properties:
//!
//! * A snapshot, and two gets one after the other, find a batch whole or not at all. The
//!   contents of a snapshot never change. It has every write that was seen before it was requested.
//! * A write that failed is seen by nobody, neither before nor after a crash.
//! * The store is read-only before the locks of a batch in doubt, or of one that cannot be revoked,
//!   go; and no later write or checkpoint makes half a batch of it.
//! * A crash leaves no batch in half. If it leaves a write, it leaves every write that others could
//!   see when that one began. The death of a process in a `Sync` store may cost writes that were
//!   seen but not acknowledged: it leaves every write that had been acknowledged when that one
//!   began. If it leaves a write, it leaves every write with a lower version that had been
//!   acknowledged.
//! * A crash leaves what was acknowledged: the death of the process all of it, a loss of power what
//!   asked to be durable, and everything once the store was closed.

pub mod disk;
pub mod substrate;

use crate::db::store::Store;
use crate::join;
use crate::layout::Entry;
use crate::mvcc::KeySpan;
use crate::sync::Arc;
use crate::sync::thread::{spawn, yield_now};
use crate::types::durability::Durability;
use disk::{Change, PLACES};
use shuttle::rand::{RngCore, thread_rng};
use std::collections::BTreeMap;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

/// An error of the code around the commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    None,
    /// A failed write stays in the logs.
    DoesNotRevoke,
    /// A write can be read when it is appended.
    ShowsAtAppend,
    /// A write can be read only when it is no longer announced.
    ShowsLate,
    /// Snapshots need not wait for a write.
    SpansTooLittle,
    /// A log is marked as dirty only when its write is no longer announced.
    MarksDirtyLate,
    /// The store accepts writes after a batch in doubt.
    ForgetsTheDoubt,
    /// A write does not ask if the store still accepts it.
    WritesAfterTheDoubt,
    /// A checkpoint settles a batch that is yet to be announced.
    SettlesTooMany,
    /// A write that waits for a sync of the journal is acknowledged at once.
    DoesNotWait,
    /// A checkpoint's record counts as durable before it is synced.
    DoesNotSyncTheRecord,
    /// A record goes to the journal before those that others enqueued.
    SwapsRecords,
}

/// Numbers of writes by what became of them, and of checkpoints, in all schedules.
#[derive(Debug, Default)]
pub struct Done {
    pub committed: AtomicUsize,
    pub journaled: AtomicUsize,
    pub spanning: AtomicUsize,
    pub failed: AtomicUsize,
    pub doubtful: AtomicUsize,
    pub checkpoints: AtomicUsize,
    pub closings: AtomicUsize,
}

pub fn count(what: &AtomicUsize, done: bool) {
    what.fetch_add(usize::from(done), Relaxed);
}

fn draw(below: usize) -> usize {
    (thread_rng().next_u64() % below as u64) as usize
}

pub fn one_in(several: usize) -> bool {
    draw(several) == 0
}

/// Single puts, a batch in one log, batches over logs and over keyspaces, range deletes in one log
/// and over two.
const CHANGES: [Change; 9] = [
    Change { places: 0b0001, deletes: false },
    Change { places: 0b0100, deletes: false },
    Change { places: 0b1000, deletes: false },
    Change { places: 0b0011, deletes: false },
    Change { places: 0b0101, deletes: false },
    Change { places: 0b1010, deletes: false },
    Change { places: 0b1101, deletes: false },
    Change { places: 0b0011, deletes: true },
    Change { places: 0b0111, deletes: true },
];

const WRITERS: usize = 3;
const WRITES: usize = 3;

/// The places at which a reader finds each write.
type Seen = BTreeMap<usize, u8>;

fn read(store: &Store, at: u64) -> Seen {
    let mut seen = Seen::new();
    for Entry { write, places, .. } in store.logs.iter().flat_map(|log| log.visible(at)) {
        *seen.entry(write).or_default() |= places;
    }
    seen
}

fn read_snapshot(store: &Store) {
    let asked = store.disk.now();
    let snapshot = store.substrate.mvcc.snapshot(KeySpan::ALL);
    let seen = read(store, snapshot.version());
    store.disk.check_seen(&seen, asked);
    yield_now();
    assert_eq!(read(store, snapshot.version()), seen, "broken: what a snapshot sees changed");
}

/// Gets two keys, one after the other.
fn get_two(store: &Store) {
    let [first, second] = [draw(PLACES.len()), draw(PLACES.len())];
    let found = |place: usize| {
        let mut entries = store.logs[PLACES[place].log].visible(u64::MAX);
        entries.retain(|entry| entry.places & (1 << place) != 0);
        entries
    };
    let Some(Entry { write, .. }) = found(first).pop() else { return };
    store.disk.note_seen(write);
    let is_of_both = store.disk.change(write).places & (1 << second) != 0;
    let is_found = found(second).iter().any(|entry| entry.write == write);
    assert!(!is_of_both || is_found, "broken: half a batch is seen");
}

/// Threads write, one takes snapshots and gets, and one makes checkpoints and may close the store.
pub fn everything(durability: Durability, fault: Fault, done: &std::sync::Arc<Done>) {
    let store = Arc::new(Store::new(durability, fault));
    let mut threads = Vec::new();
    for _ in 0..WRITERS {
        let (store, done) = (store.clone(), done.clone());
        threads.push(spawn(move || {
            for _ in 0..WRITES {
                let asks_for_more = one_in(3).then_some(Durability::Sync);
                store.write(CHANGES[draw(CHANGES.len())], asks_for_more, &done);
            }
        }));
    }
    {
        let (store, done) = (store.clone(), done.clone());
        threads.push(spawn(move || {
            for _ in 0..1 + draw(2) {
                count(&done.checkpoints, store.substrate.checkpoint().is_ok());
            }
            if one_in(4) {
                store.substrate.health.begin_close();
                if store.substrate.checkpoint().is_ok() {
                    count(&done.closings, true);
                    store.disk.close();
                }
            }
        }));
    }
    for _ in 0..2 {
        read_snapshot(&store);
        get_two(&store);
    }
    threads.into_iter().for_each(join);
    read_snapshot(&store);
    if store.substrate.checkpoint().is_ok() {
        store.disk.close();
    }
}
