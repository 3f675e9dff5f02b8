//! The life of a chunk's munk and of its rows, reduced to its order: loading with catching up,
//! records of unsearched appends in the log, flush at a snapshot, eviction, stamps of rows; on the
//! library's own versions. Logs are vectors, and a munk is a vector in a lock: its inside has
//! models of its own (`munk.rs`). Rows stand for one stripe per key.

use crate::clock::Mvcc;
use crate::models::join;
use crate::pending::KeySpan;
use crate::sync::atomic::{AtomicU64, Ordering::SeqCst};
use crate::sync::thread::{spawn, yield_now};
use crate::sync::{Arc, ArcSwap, Mutex};

/// An error in the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    None,
    /// Does not read the entries that were logged while the files were merged.
    DoesNotCatchUp,
    /// Takes the load's snapshot before the lock, and the log's end under it.
    LoadsAtAnEarlierSnapshot,
    /// Evicts before the log's recorded appends are searchable for gets.
    EvictsUnsettled,
    /// Reads the munk without a snapshot that protects the records that puts overwrite.
    FlushesWithoutSnapshot,
    /// Accepts a row even if its key was put since.
    IgnoresStamps,
    /// Takes a row's stamp after its value was read.
    StampsLate,
}

const KEYS: usize = 2;
/// Added to the stripe by a writer while it writes.
const WRITER: u64 = 1 << 32;

#[derive(Clone, Copy, Debug)]
struct Entry {
    key: usize,
    version: u64,
    value: u64,
}

/// Entries that gets find, in the order of writing, and entries that they need not find while there
/// is a munk.
#[derive(Default)]
struct Log {
    found: Mutex<Vec<Entry>>,
    noted: Mutex<Vec<Entry>>,
}

impl Log {
    fn settle(&self) {
        let noted = std::mem::take(&mut *self.noted.lock());
        for entry in noted {
            self.found.lock().push(entry);
        }
    }
}

/// Logs, newest first, over a table.
#[derive(Clone, Default)]
struct RunStack {
    logs: Vec<Arc<Log>>,
    table: Arc<Vec<Entry>>,
}

impl RunStack {
    /// The entries that gets find, from the most recent to the oldest.
    fn entries(&self) -> Vec<Entry> {
        let mut entries = Vec::new();
        for log in &self.logs {
            entries.extend(log.found.lock().iter().rev().copied());
        }
        entries.extend(self.table.iter().copied());
        entries
    }
}

/// Newest first.
type Munk = Mutex<Vec<Entry>>;

struct Store {
    mvcc: Arc<Mvcc>,
    fault: Fault,
    /// The chunk's lock, with the log that puts go to.
    writer: Mutex<Option<Arc<Log>>>,
    funk: ArcSwap<RunStack>,
    munk: ArcSwap<Option<Arc<Munk>>>,
    rows: [Mutex<Option<(u64, u64)>>; KEYS],
    stripes: [AtomicU64; KEYS],
    /// The last put of each key that has returned.
    completed: [AtomicU64; KEYS],
}

fn newest(entries: &[Entry], key: usize, at: u64) -> u64 {
    entries.iter().find(|entry| entry.key == key && entry.version <= at).map_or(0, |entry| entry.value)
}

/// Those of the entries (newest first) up to `upto` that are needed: for each key the newest one
/// and those that an open version sees.
fn keep(entries: &[Entry], open: &[u64], upto: u64) -> Vec<Entry> {
    let mut kept = Vec::new();
    for key in 0..KEYS {
        let mut newer: Option<u64> = None;
        for entry in entries.iter().filter(|entry| entry.key == key && entry.version <= upto) {
            let seen = |newer: u64| open.iter().any(|&at| entry.version <= at && at < newer);
            if newer.is_none_or(seen) {
                kept.push(*entry);
            }
            newer = Some(entry.version);
        }
    }
    kept
}

impl Store {
    fn new(fault: Fault) -> Arc<Self> {
        Arc::new(Self {
            mvcc: Arc::new(Mvcc::with_slots(1, 4)),
            fault,
            writer: Mutex::new(None),
            funk: ArcSwap::from_pointee(RunStack::default()),
            munk: ArcSwap::from_pointee(None),
            rows: [Mutex::new(None), Mutex::new(None)],
            stripes: [AtomicU64::new(0), AtomicU64::new(0)],
            completed: [AtomicU64::new(0), AtomicU64::new(0)],
        })
    }

    fn insert(&self, munk: &Munk, entry: Entry) {
        let mut entries = munk.lock();
        // Pairs of neighbours are compared, even if the newer one is removed.
        let mut newer = entry.version;
        entries.retain(|old| {
            if old.key != entry.key {
                return true;
            }
            let needed = self.mvcc.is_open_between(old.version, newer);
            newer = old.version;
            needed
        });
        entries.insert(0, entry);
    }

    fn put(&self, key: usize, value: u64) {
        let mut writer = self.writer.lock();
        let log = match &*writer {
            Some(log) => log.clone(),
            None => {
                let log = Arc::new(Log::default());
                let mut funk = RunStack::clone(&self.funk.load_full());
                funk.logs.insert(0, log.clone());
                self.funk.store(Arc::new(funk));
                *writer = Some(log.clone());
                log
            }
        };
        let announced = self.mvcc.announce(KeySpan::ALL);
        let entry = Entry { key, version: announced.version(), value };
        self.stripes[key].fetch_add(WRITER, SeqCst);
        match &*self.munk.load_full() {
            Some(munk) => {
                log.noted.lock().push(entry);
                self.insert(munk, entry);
            }
            None => log.found.lock().push(entry),
        }
        drop(announced);
        // One more write, and one writer less.
        self.stripes[key].fetch_add(1, SeqCst);
        self.stripes[key].fetch_sub(WRITER, SeqCst);
        drop(writer);
        self.completed[key].store(value, SeqCst);
    }

    fn stamp(&self, key: usize) -> Option<u64> {
        let stamp = self.stripes[key].load(SeqCst);
        (stamp < WRITER).then_some(stamp)
    }

    fn get(&self, key: usize) -> u64 {
        if let Some(munk) = &*self.munk.load_full() {
            return newest(&munk.lock(), key, u64::MAX);
        }
        let row = *self.rows[key].lock();
        if let Some((stamp, value)) = row
            && (self.fault == Fault::IgnoresStamps || self.stamp(key) == Some(stamp))
        {
            return value;
        }
        let early = self.stamp(key);
        if let Some(munk) = &*self.munk.load_full() {
            return newest(&munk.lock(), key, u64::MAX);
        }
        let value = newest(&self.funk.load_full().entries(), key, u64::MAX);
        let stamp = if self.fault == Fault::StampsLate { self.stamp(key) } else { early };
        if let Some(stamp) = stamp {
            *self.rows[key].lock() = Some((stamp, value));
        }
        value
    }

    fn get_at(&self, key: usize, at: u64) -> u64 {
        match &*self.munk.load_full() {
            Some(munk) => newest(&munk.lock(), key, at),
            None => newest(&self.funk.load_full().entries(), key, at),
        }
    }

    fn load(&self) {
        let earlier = self.mvcc.own_snapshot(KeySpan::EMPTY);
        let writer = self.writer.lock();
        let funk = self.funk.load_full();
        let behind = writer.as_ref().map(|log| (log.clone(), log.found.lock().len()));
        let snapshot = match self.fault {
            Fault::LoadsAtAnEarlierSnapshot => earlier,
            _ => self.mvcc.own_snapshot(KeySpan::EMPTY),
        };
        drop(writer);
        let open = self.mvcc.open_versions();
        let munk = Mutex::new(keep(&funk.entries(), &open, snapshot.version()));
        let mut caught_up = behind;
        for is_last in [false, true] {
            let writer = self.writer.lock();
            // A log that was begun since is read from its start.
            let (log, from) = match (&caught_up, &*writer) {
                (Some(behind), _) => behind.clone(),
                (None, Some(log)) => (log.clone(), 0),
                (None, None) => {
                    if is_last {
                        self.munk.store(Arc::new(Some(Arc::new(munk))));
                        return;
                    }
                    continue;
                }
            };
            let end = log.found.lock().len();
            // The last part under the lock.
            let writer = is_last.then_some(writer);
            if self.fault != Fault::DoesNotCatchUp {
                let entries = log.found.lock()[from..end].to_vec();
                entries.into_iter().for_each(|entry| self.insert(&munk, entry));
            }
            if writer.is_some() {
                self.munk.store(Arc::new(Some(Arc::new(munk))));
                return;
            }
            caught_up = Some((log, end));
        }
    }

    fn evict(&self) {
        let _writer = self.writer.lock();
        if self.fault != Fault::EvictsUnsettled {
            self.funk.load_full().logs.iter().for_each(|log| log.settle());
        }
        self.munk.store(Arc::new(None));
    }

    /// Input from the munk, if there is one, else from a rebalance of the files.
    fn flush(&self) {
        let (input, munk, before, snapshot) = {
            let mut writer = self.writer.lock();
            *writer = None;
            let munk = self.munk.load_full();
            let before = Option::as_ref(&munk).map(|munk| munk.lock().clone());
            (self.funk.load_full(), munk, before, self.mvcc.own_snapshot(KeySpan::EMPTY))
        };
        let upto = snapshot.version();
        let snapshot = (self.fault != Fault::FlushesWithoutSnapshot).then_some(snapshot);
        let open = self.mvcc.open_versions();
        input.logs.iter().for_each(|log| log.settle());
        yield_now();
        let table = match &*munk {
            Some(munk) => keep(&munk.lock(), &open, upto),
            None => keep(&input.entries(), &open, u64::MAX),
        };
        for key in 0..KEYS {
            let sealed = before.as_ref().and_then(|before| before.iter().find(|entry| entry.key == key));
            if let Some(sealed) = sealed {
                let is_there = table.iter().any(|entry| (entry.key, entry.version) == (key, sealed.version));
                assert!(is_there, "a flush lacks what only the old files have");
            }
        }
        drop(snapshot);
        let _writer = self.writer.lock();
        let now = self.funk.load_full();
        let diverted = now.logs[..now.logs.len() - input.logs.len()].to_vec();
        self.funk.store(Arc::new(RunStack { logs: diverted, table: Arc::new(table) }));
    }
}

/// Two threads put, each to its key, one gets, one loads, flushes and evicts, and one takes
/// snapshots.
///
/// Holds: a thread finds its own puts; a get finds every put that returned before it began; a
/// snapshot has every put that had returned when it was requested, and its contents never change; a
/// flush has all entries of the sealed log.
pub fn puts_gets_and_munks(puts: u64, snapshots: usize, fault: Fault) {
    let store = Store::new(fault);
    let putting: Vec<_> = (0..KEYS)
        .map(|key| {
            let store = store.clone();
            spawn(move || {
                for value in 1..=puts {
                    store.put(key, value);
                    assert_eq!(store.get(key), value, "a put was lost");
                }
            })
        })
        .collect();
    let living = {
        let store = store.clone();
        spawn(move || {
            store.load();
            store.flush();
            store.evict();
            store.flush();
            store.load();
            store.evict();
        })
    };
    let getting = {
        let store = store.clone();
        spawn(move || {
            for round in 0..4 {
                let key = round % KEYS;
                let completed = store.completed[key].load(SeqCst);
                assert!(store.get(key) >= completed, "a put was lost on a get");
            }
        })
    };
    for _ in 0..snapshots {
        let completed = [0, 1].map(|key| store.completed[key].load(SeqCst));
        let snapshot = store.mvcc.snapshot(KeySpan::ALL);
        let read = || [0, 1].map(|key| store.get_at(key, snapshot.version()));
        let first = read();
        assert!((0..KEYS).all(|key| first[key] >= completed[key]), "a snapshot lacks a put");
        yield_now();
        assert_eq!(read(), first, "what a snapshot sees changed");
    }
    putting.into_iter().for_each(join);
    join(living);
    join(getting);
    assert_eq!([0, 1].map(|key| store.get(key)), [puts; KEYS], "a put was lost");
    assert_eq!([0, 1].map(|key| store.get_at(key, u64::MAX)), [puts; KEYS], "a put was lost");
}
