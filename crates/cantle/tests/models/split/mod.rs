//! Inserts at the end of a chunk, and overwrites within it, while its end is split off. The chunk
//! has a log that was inserted into in order, in two parts, and a table with keys before and after
//! these.
//!
//! Properties:
//!
//! * A thread finds its own puts: none goes to a chunk that was replaced.
//! * A scan finds each key once, in order; it has every put that had returned before it began, and
//!   what it finds never changes.
//! * The death of the process at any moment leaves every put that had returned. A loss of power
//!   leaves exactly the puts up to the last checkpoint.
//! * Chunks cover each key once, and a file stays as long as a chunk refers to it.

pub mod disk;

use crate::chunk::Chunks;
use crate::join;
use crate::log::Entry;
use crate::mvcc::KeySpan;
use crate::sync::Arc;
use crate::sync::thread::{spawn, yield_now};
use bytes::Bytes;
use disk::Checkpoint;
use shuttle::rand::{RngCore, thread_rng};
use std::collections::BTreeMap;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

/// An error of the code around the split.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    None,
    /// A put does not check if its chunk was replaced.
    PutsIntoRetired,
    /// The manifest has the edit only when the chunks can be found.
    TellsTheManifestLate,
    /// The last part of a log is left out when its bytes are divided.
    ForgetsTheNewestPart,
    /// A scan does not wait for pending operations.
    SkipsPendingWait,
    /// A checkpoint takes its version and does not wait for the writes of that version.
    RecordsBeforeWaiting,
    /// A chunk that is replaced releases its files before its successors have them.
    RemovesEarly,
}

/// Numbers of splits, of attempts that found nothing to split, and of checkpoints.
#[derive(Debug, Default)]
pub struct Done {
    pub splits: AtomicUsize,
    pub refused: AtomicUsize,
    pub checkpoints: AtomicUsize,
}

pub fn one_in(several: u64) -> bool {
    thread_rng().next_u64().is_multiple_of(several)
}

fn key(number: u64) -> Bytes {
    format!("{number:04}").into()
}

/// The number of keys that show if inserts are in order, and one more.
const IN_ORDER: u64 = 17;
const PUTS: u64 = 3;
/// Greater than the values that are there at first.
const LATER: u64 = 10_000;

fn entries(numbers: impl IntoIterator<Item = u64>) -> Vec<Entry> {
    // Values of later puts are greater.
    let entry = |number| Entry { key: key(number), version: 1, value: number + 1 };
    numbers.into_iter().map(entry).collect()
}

fn checkpoint(store: &Chunks, done: &Done) {
    let completed = store.context.disk.completed();
    let is_early = store.fault == Fault::RecordsBeforeWaiting;
    let span = if is_early { KeySpan::EMPTY } else { KeySpan::ALL };
    let snapshot = store.context.mvcc.own_snapshot(span);
    let version = snapshot.version();
    let lens = store.context.disk.sync_logs();
    store.context.disk.checkpoint(Checkpoint { version, lens }, completed);
    done.checkpoints.fetch_add(1, Relaxed);
}

fn scan(store: &Chunks) {
    let completed = store.context.disk.completed();
    let span = if store.fault == Fault::SkipsPendingWait { KeySpan::EMPTY } else { KeySpan::ALL };
    let snapshot = store.context.mvcc.snapshot(span);
    let pairs = store.walk(snapshot.version());
    assert!(pairs.is_sorted_by(|a, b| a.0 < b.0), "broken: a scan finds a key twice, or out of order");
    let found: BTreeMap<_, _> = pairs.iter().cloned().collect();
    for (key, value) in &completed {
        assert!(found.get(key) >= Some(value), "broken: a scan lacks a put that had returned");
    }
    yield_now();
    assert_eq!(store.walk(snapshot.version()), pairs, "broken: what a scan sees changed");
    let written = store.context.disk.values_at(snapshot.version());
    assert_eq!(found, written, "broken: a scan is of no moment");
}

fn put(store: &Chunks, number: u64, value: u64) {
    store.put(&key(number), value);
    assert_eq!(store.get(&key(number)), value, "broken: a put was lost");
}

/// One thread inserts at the end, one overwrites a key before and one after it, one splits the end
/// off, one makes checkpoints, and one scans.
pub fn everything(fault: Fault, done: &std::sync::Arc<Done>) {
    let log = entries((10..14).chain(100..100 + IN_ORDER));
    let store = Arc::new(Chunks::new(log, 4, entries([1, 5, 9000]), fault));
    let spawn = |run: fn(&Chunks, &Done)| {
        let (store, done) = (store.clone(), done.clone());
        spawn(move || run(&store, &done))
    };
    let threads = [
        spawn(|store, _| {
            (0..PUTS).for_each(|number| put(store, 100 + IN_ORDER + number, LATER + number));
        }),
        spawn(|store, _| {
            put(store, 12, LATER);
            put(store, 9000, LATER);
        }),
        spawn(|store, done| {
            for _ in 0..2 {
                // The rest, too, whose log is shared by then.
                let last = store.index.view().find_last_before(None).clone();
                for chunk in [last, store.index.find(b"")] {
                    let split = store.try_split(&chunk).unwrap_or_else(|error| panic!("{error}"));
                    let counter = if split == Some(true) { &done.splits } else { &done.refused };
                    counter.fetch_add(1, Relaxed);
                }
            }
        }),
        spawn(|store, done| (0..2).for_each(|_| checkpoint(store, done))),
    ];
    (0..2).for_each(|_| scan(&store));
    threads.into_iter().for_each(join);
    scan(&store);
    checkpoint(&store, done);
    scan(&store);
}
