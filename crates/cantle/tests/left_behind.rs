//! An opening that returns to the last checkpoint says how much it left behind.
#![expect(clippy::unwrap_used, reason = "helpers of tests are tests")]

use cantle::vfs::{CrashPlan, MemVfs};
use cantle::{Db, Durability, KeyspaceOptions, Options};
use std::sync::Arc;
use std::time::Duration;

fn options(disk: &MemVfs, durability: Durability) -> Options {
    let options = Options::new().vfs(Arc::new(disk.clone())).durability(durability);
    options.checkpoint_interval(Duration::from_secs(3600))
}

/// A store with so many pairs that a checkpoint covers, and as many others that none does.
fn filled(disk: &MemVfs, durability: Durability, pairs: u64, staged: bool) -> Db {
    let keyspace = KeyspaceOptions::new().stage(staged);
    let db = options(disk, durability).default_keyspace(keyspace).open("store").unwrap();
    let names = db.keyspace("names", KeyspaceOptions::new()).unwrap();
    (0..pairs).for_each(|number| db.put(number.to_be_bytes(), [1; 100]).unwrap());
    db.sync().unwrap();
    (0..pairs).for_each(|number| match number % 4 {
        0 => names.put(number.to_be_bytes(), [2; 100]).unwrap(),
        1 => db.delete(number.to_be_bytes()).unwrap(),
        _ => db.put(number.to_be_bytes(), [2; 100]).unwrap(),
    });
    db
}

#[test]
fn what_is_there_and_does_not_count_is_counted() {
    for (pairs, staged) in [(100, true), (100, false), (20_000, true)] {
        let disk = MemVfs::new();
        let db = filled(&disk, Durability::Process, pairs, staged);
        // The machine came down, and yet all is there: as after a volume was unmounted and mounted again.
        let found = disk.crash(&CrashPlan::KEEP_ALL);
        for read_only in [true, false] {
            let db = options(&found, Durability::Process).read_only(read_only).open("store").unwrap();
            assert_eq!(db.get(0_u64.to_be_bytes()).unwrap().as_deref(), Some(&[1; 100][..]));
            let stats = db.stats();
            assert_eq!(stats.left_behind_records, pairs, "staged: {staged}");
            let least = pairs * 3 / 4 * 100;
            assert!((least..least * 2).contains(&stats.left_behind_bytes), "{}", stats.left_behind_bytes);
        }
        // It is left behind for good, and told of once.
        let db_again = options(&found, Durability::Process).open("store").unwrap();
        assert_eq!(db_again.stats().left_behind_records, 0);
        drop(db);
    }
}

#[test]
fn where_everything_counts_nothing_is_left_behind() {
    let disk = MemVfs::new();
    let db = filled(&disk, Durability::Process, 100, true);
    let killed = options(&disk.kill(), Durability::Process).open("store").unwrap();
    assert_eq!(killed.get(3_u64.to_be_bytes()).unwrap().as_deref(), Some(&[2; 100][..]));
    assert_eq!(killed.stats().left_behind_records, 0);
    // What the power took is not there to be counted.
    let lost = options(&disk.crash(&CrashPlan::LOSE_UNSYNCED), Durability::Process).open("store").unwrap();
    assert_eq!((lost.stats().left_behind_records, lost.stats().left_behind_bytes), (0, 0));
    db.close().unwrap();
    drop(db);
    assert_eq!(options(&disk, Durability::Process).open("store").unwrap().stats().left_behind_records, 0);
}

#[test]
fn what_the_journal_has_is_not_left_behind() {
    let disk = MemVfs::new();
    let _db = filled(&disk, Durability::Sync, 100, true);
    let found = options(&disk.crash(&CrashPlan::KEEP_ALL), Durability::Sync).open("store").unwrap();
    assert_eq!(found.get(3_u64.to_be_bytes()).unwrap().as_deref(), Some(&[2; 100][..]));
    assert_eq!(found.stats().left_behind_records, 0);
}
