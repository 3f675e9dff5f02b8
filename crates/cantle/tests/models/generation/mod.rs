//! Puts and batches while generations rotate, are indexed and are merged, beside gets and snapshots.
//!
//! Properties:
//!
//! * *Recency.* The versions of a key never ascend towards older runs of a view.
//! * A get finds every put that returned before the get began.
//! * A snapshot has every put that returned before it, and the whole of a batch or nothing of it.
//!   Its reads never change.
//! * Every entry that is published in a generation is in its index.
//! * Logs become active in the order in which the manifest has them.

pub mod log;

use super::generation::{Entered, Generation};
use super::rotation::Rotation;
use crate::join;
use crate::mvcc::key_locks::{HeldKeys, KeyLocks};
use crate::mvcc::{CommitCell, Keep, KeySpan, Mvcc};
use crate::sync::atomic::AtomicU64;
use crate::sync::atomic::Ordering::SeqCst;
use crate::sync::thread::{spawn, yield_now};
use crate::sync::{Arc, Mutex};
use crate::types::error::Result;
use crate::types::order::KeyOrder;
use log::{Entry, KEYS, Log, Run, View, check_recency, get};
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

/// An error of the code around the generations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    None,
    /// A write looks for the active generation, and then takes its locks.
    LooksBeforeTheLocks,
    /// A write locks nothing.
    LocksNothing,
    /// A generation turns writers away before the view has its successor.
    SealsFirst,
    /// Two threads may create logs at the same time.
    CreatesAtOnce,
    /// A merge asks which snapshots are open, and then its input is sealed.
    AsksBeforeSealing,
    /// A get takes the sealed logs of one view, and the active generation of a later one.
    ReadsTwoViews,
    /// A flush puts its table above all others, and not in the place of its log.
    FlushesOnTop,
    /// A flush begins without the lock that keeps two of them apart, and merges out.
    FlushesUnlocked,
}

/// Numbers of rotations, of merges of logs, of logs that were indexed or flushed, and of flushes.
#[derive(Debug, Default)]
pub struct Done {
    pub rotations: AtomicUsize,
    pub merges: AtomicUsize,
    pub indexed: AtomicUsize,
    pub flushed: AtomicUsize,
}

/// Number of entries of a full generation. One that has one more is overfull.
const FULL: u64 = 2;
/// Number of puts of each writer.
const PUTS: usize = 3;
const NAMES: [&[u8]; KEYS] = [b"a", b"z"];

struct Store {
    mvcc: Arc<Mvcc>,
    locks: KeyLocks,
    rotation: Rotation<Log, View>,
    /// The claim of a merge: held while it runs.
    merging: Mutex<()>,
    /// The lock of the claims: held while a merge is planned or installed, and while a flush is installed.
    claims: Mutex<()>,
    /// Held while a log is indexed or flushed.
    settling: Mutex<()>,
    /// Number of logs in the manifest.
    manifest: Mutex<u64>,
    fault: Fault,
    done: std::sync::Arc<Done>,
    /// The last value of each key, changed by writers that hold its lock.
    values: [AtomicU64; KEYS],
    /// The last value of each key whose put has returned.
    completed: [AtomicU64; KEYS],
    /// The versions that were open before the input of the next merge was sealed, if it uses them.
    asked: Mutex<Option<Vec<u64>>>,
    /// The values of batches that write to all keys.
    batches: Mutex<Vec<[u64; KEYS]>>,
}

impl Store {
    fn create_log(&self) -> Result<Log> {
        let mut logs = self.manifest.lock();
        *logs += 1;
        Ok(Log::new(*logs))
    }

    fn make_spare(&self) -> Result<()> {
        if self.fault != Fault::CreatesAtOnce {
            return self.rotation.make_spare(|| self.create_log());
        }
        if self.rotation.changes.lock().spare.is_none() {
            let spare = Arc::new(Generation::new(self.create_log()?));
            self.rotation.changes.lock().spare = Some(spare);
        }
        Ok(())
    }

    fn lock(&self, keys: &[usize]) -> Option<HeldKeys<'_>> {
        let keys = keys.iter().map(|&key| NAMES[key]);
        (self.fault != Fault::LocksNothing).then(|| self.locks.lock(&KeyOrder::Bytewise, keys))
    }

    fn enter(&self, keys: &[usize]) -> Result<(Option<HeldKeys<'_>>, Entered<Log>)> {
        if self.fault == Fault::LooksBeforeTheLocks {
            let active = self.rotation.view.load().active.clone();
            let held = self.lock(keys);
            if let Some(entered) = active.as_ref().and_then(Generation::enter) {
                return Ok((held, entered));
            }
        }
        self.rotation.enter(|| self.create_log(), || self.lock(keys))
    }

    /// `lsm/write.rs`, `db/commit.rs`.
    fn put(&self, keys: &[usize]) -> Result<()> {
        let (held, entered) = self.enter(keys)?;
        let log = &entered.generation().log;
        let values: Vec<_> = keys.iter().map(|&key| self.values[key].load(SeqCst) + 1).collect();
        let span = keys.iter().map(|&key| KeySpan::key(key as u64)).fold(KeySpan::EMPTY, KeySpan::hull);
        let announced = self.mvcc.announce(span);
        let version = announced.version();
        let first = log.append(keys.len() as u64);
        let cell = (keys.len() > 1).then(CommitCell::new);
        if let Ok(batch) = <[u64; KEYS]>::try_from(&values[..]) {
            self.batches.lock().push(batch);
        }
        for ((&key, &value), offset) in keys.iter().zip(&values).zip(first..) {
            log.publish(Entry { key, version, offset, value, cell: cell.clone() });
        }
        if let Some(cell) = &cell {
            cell.commit();
        }
        drop(announced);
        keys.iter().zip(&values).for_each(|(&key, &value)| self.values[key].store(value, SeqCst));
        drop(entered);
        drop(held);
        self.rotate_if_full()?;
        for (&key, &value) in keys.iter().zip(&values) {
            self.completed[key].fetch_max(value, SeqCst);
            assert!(self.get(key, u64::MAX) >= value, "broken: a put was lost");
        }
        Ok(())
    }

    /// `lsm/rotate.rs`.
    fn rotate_if_full(&self) -> Result<()> {
        let Some(active) = self.rotation.view.load().active.clone() else { return Ok(()) };
        let len = active.log.len();
        if len > FULL {
            self.make_spare()?;
        }
        let is_rotated = len >= FULL && {
            if self.fault == Fault::SealsFirst && self.rotation.changes.lock().spare.is_some() {
                active.seal();
            }
            self.rotation.rotate(&active)
        };
        self.done.rotations.fetch_add(usize::from(is_rotated), Relaxed);
        Ok(())
    }

    /// `lsm/rotate.rs`, `lsm/flush.rs`: every second log is flushed, the others are indexed.
    fn settle(&self, log: &Log) {
        let _settling = (self.fault != Fault::FlushesUnlocked).then(|| self.settling.lock());
        if log.place().is_multiple_of(2) {
            self.flush(log);
        } else {
            log.index();
        }
    }

    /// The table takes the place of the log. A reader that has the view before it reads the log.
    fn flush(&self, log: &Log) {
        let view = self.rotation.view.load_full();
        if !view.level0.iter().any(|run| run.is_of(log)) {
            // Another thread was faster.
            return;
        }
        let keep = Keep::new(self.mvcc.open_versions());
        let mut entries = log.published();
        entries.retain(|entry| entry.cell.as_ref().is_none_or(CommitCell::is_committed));
        entries.sort_by_key(|entry| (entry.key, std::cmp::Reverse((entry.version, entry.offset))));
        let (mut kept, mut newer) = (Vec::new(), None);
        for entry in entries {
            let of_key = newer.filter(|&(key, _)| key == entry.key).map(|(_, version)| version);
            if keep.needed(of_key, entry.version) {
                kept.push(Entry { cell: None, ..entry.clone() });
            }
            newer = Some((entry.key, entry.version));
        }
        let table = Run::Table(Arc::new(kept));
        yield_now();
        let _claims = self.claims.lock();
        self.rotation.change(|now| {
            let mut after = now.clone();
            let place = after.level0.iter().position(|run| run.is_of(log));
            let place = place.unwrap_or_else(|| panic!("broken: a log that is flushed is gone"));
            after.level0.remove(place);
            let place = if self.fault == Fault::FlushesOnTop { 0 } else { place };
            after.level0.insert(place, table);
            after
        });
        self.done.flushed.fetch_add(1, Relaxed);
    }

    fn index_sealed(&self) -> Result<()> {
        let indexed = self.rotation.index_sealed(|log| {
            self.settle(log);
            Ok(())
        })?;
        self.done.indexed.fetch_add(indexed as usize, Relaxed);
        Ok(())
    }

    fn index_all_sealed(&self) -> Result<()> {
        let index = |log: &Log| {
            self.settle(log);
            Ok(())
        };
        let indexed = self.rotation.index_all_sealed(index, yield_now)?;
        self.done.indexed.fetch_add(indexed as usize, Relaxed);
        Ok(())
    }

    /// `lsm/merge.rs`: merges the logs that are ripe into a table above the others, or merges all
    /// tables.
    fn merge(&self, merges_tables: bool) {
        let _merging = self.merging.lock();
        let claims = self.claims.lock();
        let view = self.rotation.view.load_full();
        let inputs = match merges_tables {
            true => view.tables.clone(),
            false => self.rotation.ripe(&view, &view.level0, Run::is_of).to_vec(),
        };
        drop(claims);
        if inputs.is_empty() {
            return;
        }
        let asked = if merges_tables { None } else { self.asked.lock().take() };
        let keep = Keep::new(asked.unwrap_or_else(|| self.mvcc.open_versions()));
        let mut merged = Vec::new();
        for key in 0..KEYS {
            let mut newer = None;
            for entry in inputs.iter().flat_map(|run| run.entries(key)) {
                if keep.needed(newer, entry.version) {
                    merged.push(Entry { cell: None, ..entry.clone() });
                }
                newer = Some(entry.version);
            }
        }
        let table = Run::Table(Arc::new(merged));
        let _claims = self.claims.lock();
        let is_left = |run: &&Run| !inputs.iter().any(|input| input.is_same(run));
        self.rotation.change(|now| {
            let mut after = now.clone();
            after.level0.retain(|run| is_left(&run));
            after.tables.retain(|run| is_left(&run));
            after.tables.insert(0, table);
            after
        });
        self.done.merges.fetch_add(1, Relaxed);
    }

    fn get(&self, key: usize, at: u64) -> u64 {
        let view = self.rotation.view.load_full();
        if self.fault == Fault::ReadsTwoViews {
            let is_sealed = |run: &&Run| !view.active.iter().any(|active| run.is_of(&active.log));
            let sealed: Vec<_> = view.level0.iter().filter(is_sealed).cloned().collect();
            let active = self.rotation.view.load().active.clone().map(Run::Log);
            return get(active.iter().chain(&sealed).chain(&view.tables), key, at);
        }
        get(view.level0.iter().chain(&view.tables), key, at)
    }

    fn read(&self) {
        let completed = || [0, 1].map(|key: usize| self.completed[key].load(SeqCst));
        for (key, before) in completed().into_iter().enumerate() {
            assert!(self.get(key, u64::MAX) >= before, "broken: a get lacks a put that had returned");
        }
        let before = completed();
        let snapshot = self.mvcc.snapshot(KeySpan::ALL);
        let read = || [0, 1].map(|key| self.get(key, snapshot.version()));
        let first = read();
        for key in 0..KEYS {
            assert!(first[key] >= before[key], "broken: a snapshot lacks a put that had returned");
        }
        for batch in self.batches.lock().iter() {
            let seen = [0, 1].map(|key| first[key] >= batch[key]);
            assert_eq!(seen[0], seen[1], "broken: a snapshot has half a batch");
        }
        for _ in 0..2 {
            yield_now();
            check_recency(&self.rotation.view.load_full());
            assert_eq!(read(), first, "broken: what a snapshot reads changed");
        }
    }
}

fn store(fault: Fault, done: &std::sync::Arc<Done>) -> Arc<Store> {
    Arc::new(Store {
        mvcc: Arc::new(Mvcc::with_slots(1, 4)),
        locks: KeyLocks::with_stripes(8),
        rotation: Rotation::new(View::default()),
        merging: Mutex::new(()),
        claims: Mutex::new(()),
        settling: Mutex::new(()),
        manifest: Mutex::new(0),
        fault,
        done: done.clone(),
        values: [0, 0].map(AtomicU64::new),
        completed: [0, 0].map(AtomicU64::new),
        asked: Mutex::new(None),
        batches: Mutex::new(Vec::new()),
    })
}

/// Runs the threads, and reads meanwhile and afterwards.
fn run(store: &Arc<Store>, threads: &[fn(&Store) -> Result<()>], reads: usize) {
    let spawn = |run: fn(&Store) -> Result<()>| {
        let store = store.clone();
        spawn(move || run(&store).unwrap_or_else(|error| panic!("{error}")))
    };
    let threads: Vec<_> = threads.iter().map(|run| spawn(*run)).collect();
    (0..reads).for_each(|_| store.read());
    threads.into_iter().for_each(join);
    store.read();
    store.rotation.seal_active();
    store.index_sealed().unwrap_or_else(|error| panic!("{error}"));
    store.merge(false);
    store.read();
    let values = [0, 1].map(|key| store.get(key, u64::MAX));
    let written = [0, 1].map(|key: usize| store.values[key].load(SeqCst));
    assert_eq!(values, written, "broken: a put was lost");
}

/// Two threads put and write batches, one makes logs and indexes and merges those that are sealed,
/// one seals the active generation at any moment, and one gets and takes snapshots.
pub fn everything(fault: Fault, done: &std::sync::Arc<Done>) {
    let threads: [fn(&Store) -> Result<()>; 4] = [
        |store| (0..PUTS).try_for_each(|_| store.put(&[0])),
        |store| [&[0][..], &[0, 1], &[1]].into_iter().try_for_each(|keys| store.put(keys)),
        |store| {
            for merges_tables in [false, false, true] {
                store.make_spare()?;
                store.index_sealed()?;
                store.merge(merges_tables);
            }
            Ok(())
        },
        |store| {
            store.rotation.seal_active();
            store.make_spare()?;
            store.index_sealed()
        },
    ];
    run(&store(fault, done), &threads, 2);
}

/// Two threads put the same key while the generation rotates.
pub fn puts_of_one_key_and_a_rotation(fault: Fault) {
    let store = store(fault, &std::sync::Arc::default());
    store.put(&[0]).and_then(|()| store.make_spare()).unwrap_or_else(|error| panic!("{error}"));
    let rotate = |store: &Store| {
        if let Some(active) = store.rotation.view.load().active.clone() {
            store.rotation.rotate(&active);
        }
        Ok(())
    };
    run(&store, &[|store| store.put(&[0]), |store| store.put(&[0]), rotate], 0);
}

/// One thread overwrites a key, one seals and merges, and one takes a snapshot.
pub fn a_put_and_a_merge(fault: Fault) {
    let store = store(fault, &std::sync::Arc::default());
    store.put(&[0]).unwrap_or_else(|error| panic!("{error}"));
    let merge = |store: &Store| {
        if store.fault == Fault::AsksBeforeSealing {
            *store.asked.lock() = Some(store.mvcc.open_versions());
        }
        store.rotation.seal_active();
        store.index_sealed()?;
        store.merge(false);
        Ok(())
    };
    run(&store, &[|store| store.put(&[0]), merge], 1);
}

/// One thread puts while another drops the keyspace.
pub fn a_put_and_a_drop() {
    let store = store(Fault::None, &std::sync::Arc::default());
    store.make_spare().unwrap_or_else(|error| panic!("{error}"));
    let put = {
        let store = store.clone();
        spawn(move || store.put(&[0]))
    };
    store.rotation.retire(|| store.locks.lock_all());
    let before = store.values[0].load(SeqCst);
    assert!(store.rotation.view.load().active.is_none(), "broken: a dropped keyspace has a log for writes");
    let _ = join(put);
    assert_eq!(before, store.values[0].load(SeqCst), "broken: a put into a dropped keyspace");
}

/// One thread puts while another seals the active generation, waits for its writers and indexes it
/// (`lsm/rotate.rs`).
pub fn a_put_and_a_seal() {
    let store = store(Fault::None, &std::sync::Arc::default());
    store.put(&[1]).unwrap_or_else(|error| panic!("{error}"));
    let put = {
        let store = store.clone();
        spawn(move || store.put(&[0]))
    };
    store.rotation.seal_active();
    let sealed = store.rotation.changes.lock().sealing.clone();
    store.index_all_sealed().unwrap_or_else(|error| panic!("{error}"));
    let left = store.rotation.changes.lock().sealing.clone();
    let is_left = |generation: &Arc<Generation<Log>>| left.iter().any(|left| Arc::ptr_eq(left, generation));
    assert!(!sealed.iter().any(is_left), "broken: a generation was waited for and is not indexed");
    join(put).unwrap_or_else(|error| panic!("{error}"));
}
