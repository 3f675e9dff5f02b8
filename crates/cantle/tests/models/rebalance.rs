//! The protocol of chunks, reduced to its order: the chunk's lock, the diverted log, the flip of
//! the funk, the split, on the library's own index and versions. Logs are vectors, tables are
//! sorted vectors.

use crate::clock::Mvcc;
use crate::models::join;
use crate::pending::KeySpan;
use crate::range_index::RangeIndex;
use crate::sync::atomic::{AtomicU64, Ordering::SeqCst};
use crate::sync::thread::{spawn, yield_now};
use crate::sync::{Arc, ArcSwap, Mutex};
use crate::types::order::KeyOrder;
use bytes::Bytes;
use std::collections::BTreeSet;

/// An error of a rebalance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    None,
    /// Merges a log that puts still append to, and replaces it.
    FlipsUnsealed,
    /// Asks which snapshots are open before it seals the log.
    AsksBeforeSealing,
    /// Loses entries that were diverted while it merged.
    ForgetsDiverted,
    /// Does not mark the chunk that it split.
    DoesNotRetire,
}

type Key = &'static [u8];

const KEYS: [Key; 2] = [b"a", b"z"];
const SPLIT_AT: Key = b"m";

#[derive(Clone, Copy)]
struct Entry {
    key: Key,
    version: u64,
    value: u64,
}

struct Log(Mutex<Vec<Entry>>);

/// Logs, newest first, over a table.
#[derive(Clone, Default)]
struct RunStack {
    logs: Vec<Arc<Log>>,
    table: Arc<Vec<Entry>>,
}

impl RunStack {
    /// All entries, from the most recent to the oldest.
    fn entries(&self) -> Vec<Entry> {
        let mut entries = Vec::new();
        for log in &self.logs {
            entries.extend(log.0.lock().iter().rev().copied());
        }
        entries.extend(self.table.iter().copied());
        entries
    }
}

#[derive(Default)]
struct Writer {
    retired: bool,
    active: Option<Arc<Log>>,
}

struct Chunk {
    writer: Mutex<Writer>,
    funk: ArcSwap<RunStack>,
}

impl Chunk {
    fn new(funk: RunStack) -> Arc<Self> {
        Arc::new(Self { writer: Mutex::new(Writer::default()), funk: ArcSwap::from_pointee(funk) })
    }
}

struct Store {
    mvcc: Arc<Mvcc>,
    index: RangeIndex<Chunk>,
    fault: Fault,
    /// The last put of each key that has returned.
    completed: [AtomicU64; 2],
}

impl Store {
    fn put(&self, key: usize, value: u64) {
        loop {
            let chunk = self.index.find(KEYS[key]);
            let mut writer = chunk.writer.lock();
            if writer.retired {
                drop(writer);
                yield_now();
                continue;
            }
            let log = match &writer.active {
                Some(log) => log.clone(),
                None => {
                    let log = Arc::new(Log(Mutex::new(Vec::new())));
                    let mut funk = RunStack::clone(&chunk.funk.load_full());
                    funk.logs.insert(0, log.clone());
                    chunk.funk.store(Arc::new(funk));
                    writer.active = Some(log.clone());
                    log
                }
            };
            let announced = self.mvcc.announce(KeySpan::ALL);
            let entry = Entry { key: KEYS[key], version: announced.version(), value };
            log.0.lock().push(entry);
            drop(announced);
            drop(writer);
            self.completed[key].store(value, SeqCst);
            return;
        }
    }

    /// The value at a version; 0 if there is none.
    fn get(&self, key: usize, at: u64) -> u64 {
        let funk = self.index.find(KEYS[key]).funk.load_full();
        let found = funk.entries().into_iter().find(|entry| entry.key == KEYS[key] && entry.version <= at);
        found.map_or(0, |entry| entry.value)
    }

    fn rebalance(&self, chunk: &Arc<Chunk>, split: bool) {
        let asked_early = self.mvcc.open_versions();
        let input = {
            let mut writer = chunk.writer.lock();
            if self.fault != Fault::FlipsUnsealed {
                writer.active = None;
            }
            chunk.funk.load_full()
        };
        let open = match self.fault {
            Fault::AsksBeforeSealing => asked_early,
            _ => self.mvcc.open_versions(),
        };
        let table = merge(&input, &open);
        let mut writer = chunk.writer.lock();
        let now = chunk.funk.load_full();
        let diverted = match self.fault {
            Fault::ForgetsDiverted => {
                writer.active = None;
                Vec::new()
            }
            _ => now.logs[..now.logs.len() - input.logs.len()].to_vec(),
        };
        if self.fault == Fault::FlipsUnsealed {
            writer.active = None;
        }
        if split {
            // The children share the diverted entries; keys of the other child are not searched.
            writer.active = None;
            let child = |left: bool| {
                let of_child = |entry: &&Entry| (entry.key < SPLIT_AT) == left;
                let table = table.iter().filter(of_child).copied().collect();
                Chunk::new(RunStack { logs: diverted.clone(), table: Arc::new(table) })
            };
            let children = vec![(Bytes::new(), child(true)), (Bytes::from_static(SPLIT_AT), child(false))];
            self.index.replace(b"", 1, children);
            writer.retired = self.fault != Fault::DoesNotRetire;
        } else {
            chunk.funk.store(Arc::new(RunStack { logs: diverted, table: Arc::new(table) }));
        }
    }
}

/// For each key the newest entry, and those that an open snapshot sees.
fn merge(input: &RunStack, open: &[u64]) -> Vec<Entry> {
    let entries = input.entries();
    let keys: BTreeSet<Key> = entries.iter().map(|entry| entry.key).collect();
    let mut merged = Vec::new();
    for key in keys {
        let mut newer: Option<u64> = None;
        for entry in entries.iter().filter(|entry| entry.key == key) {
            let seen = |newer: u64| open.iter().any(|&at| entry.version <= at && at < newer);
            if newer.is_none_or(seen) {
                merged.push(*entry);
            }
            newer = Some(entry.version);
        }
    }
    merged
}

fn store(fault: Fault) -> Arc<Store> {
    Arc::new(Store {
        mvcc: Arc::new(Mvcc::with_slots(1, 4)),
        index: RangeIndex::new(KeyOrder::Bytewise, vec![(Bytes::new(), Chunk::new(RunStack::default()))]),
        fault,
        completed: [AtomicU64::new(0), AtomicU64::new(0)],
    })
}

/// One thread puts twice and gets, while another rebalances the chunk once, or splits it.
///
/// Holds: a thread finds its own puts, before and after the flip.
pub fn puts_and_a_rebalance(split: bool, fault: Fault) {
    let store = store(fault);
    store.put(0, 1);
    let rebalancing = {
        let store = store.clone();
        spawn(move || store.rebalance(&store.index.find(b"a"), split))
    };
    assert_eq!(store.get(0, u64::MAX), 1, "a put was lost");
    store.put(0, 2);
    assert_eq!(store.get(0, u64::MAX), 2, "a put was lost");
    join(rebalancing);
    assert_eq!(store.get(0, u64::MAX), 2, "a put was lost");
}

/// One thread rebalances the chunk, while another puts and reads an older snapshot twice.
///
/// Holds: the snapshot sees the same.
pub fn a_snapshot_and_a_rebalance(split: bool, fault: Fault) {
    let store = store(fault);
    store.put(0, 1);
    let rebalancing = {
        let store = store.clone();
        spawn(move || store.rebalance(&store.index.find(b"a"), split))
    };
    let snapshot = store.mvcc.snapshot(KeySpan::ALL);
    store.put(0, 2);
    assert_eq!(store.get(0, snapshot.version()), 1, "a snapshot lacks a put that had returned");
    join(rebalancing);
    assert_eq!(store.get(0, snapshot.version()), 1, "a snapshot lacks a put that had returned");
}

/// Two threads put, each to its key, one takes snapshots, and one rebalances the chunk, splits it,
/// and rebalances a half.
///
/// Holds: a thread finds its own puts; a snapshot has every put that had returned when it was
/// requested, a later one no less, and its contents never change.
pub fn puts_snapshots_and_rebalances(puts: u64, snapshots: usize, fault: Fault) {
    let store = store(fault);
    let putting: Vec<_> = (0..KEYS.len())
        .map(|key| {
            let store = store.clone();
            spawn(move || {
                for value in 1..=puts {
                    store.put(key, value);
                    assert_eq!(store.get(key, u64::MAX), value, "a put was lost");
                }
            })
        })
        .collect();
    let rebalancing = {
        let store = store.clone();
        spawn(move || {
            let whole = store.index.find(b"a");
            store.rebalance(&whole, false);
            store.rebalance(&whole, true);
            store.rebalance(&store.index.find(b"z"), false);
        })
    };
    let mut before = [0; 2];
    for _ in 0..snapshots {
        let completed = [0, 1].map(|key| store.completed[key].load(SeqCst));
        let snapshot = store.mvcc.snapshot(KeySpan::ALL);
        let read = || [0, 1].map(|key| store.get(key, snapshot.version()));
        let first = read();
        for key in 0..KEYS.len() {
            assert!(first[key] >= completed[key], "a snapshot lacks a put that had returned");
            assert!(first[key] >= before[key], "a later snapshot sees less");
        }
        before = first;
        yield_now();
        assert_eq!(read(), first, "what a snapshot sees changed");
    }
    putting.into_iter().for_each(join);
    join(rebalancing);
    assert_eq!([0, 1].map(|key| store.get(key, u64::MAX)), [puts; 2], "a put was lost");
}
