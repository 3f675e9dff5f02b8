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

/// Until the end, nothing here depends on more disk space. Returns the maintenance that was running
/// when the disk was full, and the maintenance that had ended by then.
pub fn a_disk_that_fills_up(db: &Db, seed: u64, more_space: impl FnOnce()) -> (Work, Work) {
    let mut rng = Rng::new(seed);
    let mut values = BTreeMap::new();
    let empty = Work::of(db);
    assert!(fill(db, &mut values, &mut rng), "the disk never got full");
    let loaded = Work::of(db).since(empty);
    let mut cut_short = under_way(db);
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
    eventually(db, "compaction", || db.compact_range(..));
    check(db, &values);
    eventually(db, "a put after space was freed", || db.put("healed", "1"));
    values.insert(b"healed".to_vec(), b"1".to_vec());
    assert!(fill(db, &mut values, &mut rng), "the disk never got full again");
    cut_short = cut_short.plus(under_way(db));
    check(db, &values);
    // All data are live, so a compaction can free nothing, but it can sort all of them.
    eventually(db, "compaction of a full disk", || db.compact_range(..));
    check(db, &values);
    more_space();
    eventually(db, "a put after the disk grew", || db.put("healed", "2"));
    eventually(db, "compaction after the disk grew", || db.compact_range(..));
    values.insert(b"healed".to_vec(), b"2".to_vec());
    db.sync().unwrap();
    assert!(db.stats().read_only.is_none());
    check(db, &values);
    (cut_short, loaded)
}
