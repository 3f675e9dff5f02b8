//! The whole store, reduced to its order: puts, batches, scans, rebalances, splits, merges and
//! checkpoints together, with power losses and killed processes at any moment. Versions, pending
//! operations, commit cells, the choice of entries that a merge keeps, the chunk index, key spans,
//! the life of files, checkpoints and the recovery table are the library's own. Logs and tables are
//! vectors (`disk`), and the steps of chunks (`chunks`) are those of the library, in its order.
//!
//! Properties:
//!
//! * A scan finds each key once, in order, with any concurrent splits and merges. It has every put
//!   that had returned before it began, nothing less than a scan before it, no later put without an
//!   earlier one, and complete batches. It finds the same again in the other direction.
//! * A thread finds its own puts.
//! * At any moment, the state that a loss of power leaves has exactly all of the writes up to one
//!   version: in chunks that tile the keys, in files that exist with their recorded lengths. It has
//!   all writes that had returned before a completed checkpoint. The state that a killed process
//!   leaves has every put that has returned.
//! * A file exists for as long as a structure refers to it or a reader reads it, and no longer than
//!   until the next checkpoint.

mod chunks;
mod disk;
mod substrate;

use crate::join;
use crate::mvcc::KeySpan;
use crate::sync::Arc;
use crate::sync::thread::spawn;
use chunks::Chunks;
use std::collections::BTreeSet;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
pub use substrate::Substrate;

/// The chunks are cut at "k" at first, later at "e".
pub const KEYS: [&[u8]; 4] = [b"a", b"h", b"p", b"z"];
/// Written one after the other, by one thread.
const SINGLE: [usize; 2] = [0, 2];
/// Written as one, by another.
const BATCH: [usize; 2] = [1, 3];

/// An error in the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    None,
    /// A scan does not wait for pending operations.
    SkipsPendingWait,
    /// A rebalance does not ask for the open versions.
    AsksNobody,
    /// A rebalance asks for them before it seals the log.
    AsksBeforeSealing,
    /// A put does not check if its chunk was replaced.
    PutsIntoRetired,
    /// A split does not mark the old chunk as replaced.
    DoesNotRetire,
    /// A split publishes the new chunks before they have their files.
    FlipsIndexBeforeFiles,
    /// A split publishes the new chunks before they are in the manifest.
    TellsTheManifestLast,
    /// A rebalance releases the old files before the new ones are in the manifest.
    ReleasesBeforeTelling,
    /// A merge takes the locks of neighbours in the opposite order of all other threads.
    LocksTheRightOneFirst,
    /// A merge takes the lock of the left neighbour only.
    DoesNotLockTheRightOne,
    /// A merge applies the files of each neighbour to the keys of the other.
    JoinsUnderOneSpan,
    /// A checkpoint takes its version and does not wait for the writes of that version.
    RecordsBeforeWaiting,
    /// A checkpoint does not count as an open snapshot.
    CheckpointIsNoSnapshot,
    /// A checkpoint's record counts as durable before it is synced.
    DoesNotSyncTheRecord,
    /// A put marks its log as dirty only when the put is no longer announced.
    MarksDirtyLate,
    /// A batch takes its number before it is announced.
    NumbersBatchesEarly,
}

/// Number of rebalances, splits and merges, in all schedules.
#[derive(Debug, Default)]
pub struct Done {
    pub rebalances: AtomicUsize,
    pub splits: AtomicUsize,
    pub merges: AtomicUsize,
    pub checkpoints: AtomicUsize,
}

fn count(what: &AtomicUsize, done: bool) {
    what.fetch_add(usize::from(done), Relaxed);
}

fn scan(store: &Chunks, done: &Done, before: &mut [u64; KEYS.len()]) {
    let completed = store.disk().completed();
    let span = if store.fault == Fault::SkipsPendingWait { KeySpan::EMPTY } else { KeySpan::ALL };
    let snapshot = store.mvcc.snapshot(span);
    let pairs = store.walk(snapshot.version());
    assert!(pairs.is_sorted_by(|a, b| a.0 < b.0), "broken: a scan finds a key twice, or out of order");
    let mut values = [0; KEYS.len()];
    pairs.iter().for_each(|&(key, value)| values[key] = value);
    for key in 0..KEYS.len() {
        assert!(values[key] >= completed[key], "broken: a scan lacks a put that had returned");
        assert!(values[key] >= before[key], "broken: a later scan sees less");
    }
    assert!(values[SINGLE[0]] >= values[SINGLE[1]], "broken: a scan has a put and not the one before it");
    assert!(BATCH.iter().all(|&key| values[key] == values[BATCH[0]]), "broken: a scan has half a batch");
    // Between the two scans, concurrent writes are merged with the entries that the scan has seen.
    count(
        &done.rebalances,
        store.rebalance(&store.index.find(KEYS[completed[0] as usize % KEYS.len()]), None),
    );
    let mut again = store.walk_back(snapshot.version());
    again.reverse();
    assert_eq!(again, pairs, "broken: what a scan sees changed");
    assert_eq!(values, store.disk().values_at(snapshot.version()), "broken: a scan is of no moment");
    *before = values;
}

/// One thread puts two keys in turn, one writes batches of two others, `puts` times each; one
/// rebalances, splits and merges, another merges, one makes checkpoints, and one scans.
pub fn everything(puts: u64, scans: usize, checkpoints: usize, fault: Fault, done: &std::sync::Arc<Done>) {
    let store = Arc::new(Chunks::new(&[b"k"], fault));
    let spawn = |run: fn(&Chunks, &Done, u64), times: u64| {
        let (store, done) = (store.clone(), done.clone());
        spawn(move || run(&store, &done, times))
    };
    let threads = [
        spawn(
            |store, _, puts| {
                for value in 1..=puts {
                    SINGLE.iter().for_each(|&key| store.write(&[key], value));
                }
                SINGLE.iter().for_each(|&key| assert_eq!(store.get(key), puts, "broken: a put was lost"));
            },
            puts,
        ),
        spawn(
            |store, _, puts| {
                for value in 1..=puts {
                    store.write(&BATCH, value);
                    BATCH.iter().for_each(|&key| assert!(store.get(key) >= value, "broken: a put was lost"));
                }
            },
            puts,
        ),
        spawn(
            |store, done, _| {
                let find = |key: &[u8]| store.index.find(key);
                count(&done.splits, store.rebalance(&find(b"a"), Some(b"e")));
                count(&done.rebalances, store.rebalance(&find(b"h"), None));
                count(&done.merges, store.join(&find(b"a"), &find(b"e")));
                count(&done.rebalances, store.rebalance(&find(b"a"), None));
            },
            0,
        ),
        spawn(
            |store, done, _| {
                count(&done.rebalances, store.rebalance(&store.index.find(b"p"), None));
                count(&done.merges, store.join(&store.index.find(b"h"), &store.index.find(b"p")));
            },
            0,
        ),
        spawn(
            |store, done, checkpoints| {
                for _ in 0..checkpoints {
                    let completed = store.disk().completed();
                    let checkpoint = store.substrate.checkpoint();
                    assert!(checkpoint.is_ok(), "nothing fails");
                    count(&done.checkpoints, true);
                    store.disk().check(completed);
                }
            },
            checkpoints as u64,
        ),
    ];
    let mut before = [0; KEYS.len()];
    for _ in 0..scans {
        scan(&store, done, &mut before);
    }
    threads.into_iter().for_each(join);
    scan(&store, done, &mut before);
    assert_eq!(before, [puts; KEYS.len()], "broken: a put was lost");
    (0..KEYS.len()).for_each(|key| assert_eq!(store.get(key), puts, "broken: a put was lost"));
    assert!(store.substrate.checkpoint().is_ok(), "nothing fails");
    store.disk().check(before);
    let files: BTreeSet<u64> = store.current_files().into_iter().collect();
    assert_eq!(store.disk().files(), files, "broken: a file that nobody needs was left behind");
}
