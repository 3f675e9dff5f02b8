//! Disks that fill up. Writes fail and report why. Reads, deletes and operations that free space
//! continue. Once there is space, everything works again.

use crate::layouts::OfChunk;
use crate::rng::Rng;
use crate::setup::Setup;
use crate::workload::key;
use cantle::stats::KeyspaceStats;
use cantle::{Db, Durability, LayoutKind};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

pub fn setup(layout: LayoutKind, seed: u64, durability: Durability) -> Setup {
    let mut setup = Setup { layout, ..Setup::random(&mut Rng::new(seed), durability) };
    (setup.checkpoint_interval, setup.log_bytes) = (Duration::from_millis(50), 16 << 10);
    setup
}

/// Number of maintenance operations that have ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Work {
    pub rebalances: u64,
    pub splits: u64,
}

impl Work {
    fn of(db: &Db) -> Self {
        let stats = db.stats();
        let sum = |of: fn(&KeyspaceStats) -> u64| stats.keyspaces.iter().map(of).sum();
        Self {
            rebalances: sum(|space| space.of_chunk().rebalances),
            splits: sum(|space| space.of_chunk().splits),
        }
    }

    fn since(self, before: Self) -> Self {
        Self { rebalances: self.rebalances - before.rebalances, splits: self.splits - before.splits }
    }

    pub fn plus(self, other: Self) -> Self {
        Self { rebalances: self.rebalances + other.rebalances, splits: self.splits + other.splits }
    }
}

/// Maintenance that ends without writes after the disk is full: it was running or queued, and uses
/// the reserved space.
pub fn under_way(db: &Db) -> Work {
    let (before, started) = (Work::of(db), Instant::now());
    let mut ended = Work::default();
    while ended == Work::default() && started.elapsed() < Duration::from_millis(200) {
        std::thread::sleep(Duration::from_millis(5));
        ended = Work::of(db).since(before);
    }
    ended
}

/// Puts until the disk is full; true if it became full.
pub fn fill(db: &Db, values: &mut BTreeMap<Vec<u8>, Vec<u8>>, rng: &mut Rng) -> bool {
    for n in 0..100_000 {
        let value = vec![n as u8; 1 + rng.below(4000) as usize];
        let key = key(rng.below(20_000));
        match db.put(&key, &value) {
            Ok(()) => drop(values.insert(key, value)),
            Err(error) => {
                assert!(error.is_no_space(), "{error}");
                return true;
            }
        }
    }
    false
}

pub fn check(db: &Db, values: &BTreeMap<Vec<u8>, Vec<u8>>) {
    let found: Vec<_> = db.range(..).map(|pair| pair.unwrap()).collect();
    assert_eq!(found.len(), values.len());
    for ((key, value), (expected_key, expected)) in found.iter().zip(values) {
        assert!(*key == expected_key[..] && *value == expected[..], "{key:?}");
    }
}

/// Retries for some seconds, as space is freed in the background.
pub fn eventually(db: &Db, what: &str, mut run: impl FnMut() -> cantle::Result<()>) {
    let started = Instant::now();
    while let Err(error) = run() {
        assert!(error.is_no_space(), "{what}: {error}");
        assert!(
            started.elapsed() < Duration::from_secs(10),
            "{what} finds no space: {error}; {:?}",
            db.stats()
        );
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// True if everything can be sorted on a full disk: no rebalance is longer than the reserve. The merges of `flsm` may
/// be, so its disk may stay full.
fn sorts_when_full(db: &Db) -> bool {
    db.stats().keyspaces.iter().all(|space| space.layout == LayoutKind::Chunk)
}

/// Runs what needs space, or fails for want of it and loses nothing; true if there was enough.
fn if_possible(db: &Db, what: &str, mut run: impl FnMut() -> cantle::Result<()>) -> bool {
    if sorts_when_full(db) {
        eventually(db, what, run);
        return true;
    }
    let started = Instant::now();
    while let Err(error) = run() {
        assert!(error.is_no_space(), "{what}: {error}");
        if started.elapsed() > Duration::from_secs(1) {
            return false;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    true
}

/// The events on a full disk.
#[derive(Debug, Clone, Copy, Default)]
pub struct Filled {
    /// The maintenance that was running when it was full.
    pub cut_short: Work,
    /// The maintenance that had ended by then.
    pub loaded: Work,
    /// Number of compactions that found room, of two.
    pub compacted: u64,
    /// True if puts succeeded after deletes, before the disk grew.
    pub took_puts: bool,
}

/// Until the end, nothing here depends on more disk space.
pub fn a_disk_that_fills_up(db: &Db, seed: u64, more_space: impl FnOnce()) -> Filled {
    let mut rng = Rng::new(seed);
    let mut values = BTreeMap::new();
    let empty = Work::of(db);
    assert!(fill(db, &mut values, &mut rng), "the disk never got full");
    let mut filled =
        Filled { loaded: Work::of(db).since(empty), cut_short: under_way(db), ..Filled::default() };
    check(db, &values);
    for _ in 0..20 {
        let nth = rng.below(values.len() as u64) as usize;
        let doomed = values.keys().nth(nth).unwrap().clone();
        db.delete(&doomed).unwrap();
        values.remove(&doomed);
    }
    check(db, &values);
    let from =
        values.keys().nth(values.len() / 4 + rng.below(values.len() as u64 / 2) as usize).unwrap().clone();
    db.delete_range(&from..).unwrap();
    values.retain(|key, _| *key < from);
    check(db, &values);
    filled.compacted += u64::from(if_possible(db, "compaction", || db.compact_range(..)));
    check(db, &values);
    filled.took_puts = if_possible(db, "a put after space was freed", || db.put("healed", "1"));
    if filled.took_puts {
        values.insert(b"healed".to_vec(), b"1".to_vec());
        assert!(fill(db, &mut values, &mut rng), "the disk never got full again");
    }
    filled.cut_short = filled.cut_short.plus(under_way(db));
    check(db, &values);
    // All data are live, so a compaction can free nothing; it can sort them if it has room.
    let sorted = if_possible(db, "compaction of a full disk", || db.compact_range(..));
    filled.compacted += u64::from(sorted);
    check(db, &values);
    more_space();
    eventually(db, "a put after the disk grew", || db.put("healed", "2"));
    eventually(db, "compaction after the disk grew", || db.compact_range(..));
    values.insert(b"healed".to_vec(), b"2".to_vec());
    db.sync().unwrap();
    assert!(db.stats().read_only.is_none());
    check(db, &values);
    filled
}
