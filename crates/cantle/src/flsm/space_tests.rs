//! The bound on disk space: garbage slows writers down until merges and a checkpoint have freed it.

use super::tests::{all, key, lsm_of, open_with, scattered, stats, value};
use crate::layout::options::FlsmOptions;
use crate::lsm::shape::Shape;
use crate::lsm::space::HELD_BYTES_MIN;
use crate::vfs::MemVfs;
use crate::{Db, KeyspaceOptions};
use std::collections::HashSet;
use std::thread;
use std::time::Duration;

/// Some more than a sample of the keys that a merge hides needs.
const PAIRS: u64 = 8_000;

fn open(disk: &MemVfs) -> Db {
    let layout = FlsmOptions::new().generation_bytes(64 << 10).guard_bytes(1 << 20);
    open_with(disk, KeyspaceOptions::new().layout(layout))
}

/// Overwrites all pairs, and merges the logs into the guards, some of which get more runs than they may have.
fn overwrite(db: &Db, round: u64) {
    scattered(PAIRS).for_each(|number| db.put(key(number), value(round, 150)).unwrap());
    lsm_of(db).merge_logs_for_test().unwrap();
}

fn overload(db: &Db) -> f64 {
    let lsm = lsm_of(db);
    lsm.space_overload(&lsm.view())
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a checkpoint of another thread is waited for")]
fn garbage_slows_writers_down_until_it_is_freed() {
    let disk = MemVfs::without_history();
    let db = open(&disk);
    let lsm = lsm_of(&db);
    lsm.without_merges_for_test(|| {
        overwrite(&db, 0);
        assert_eq!(overload(&db), 0.0);
        (1..6).for_each(|round| overwrite(&db, round));
        assert!(overload(&db) > 1.0, "{:?}", lsm.view().shape.space(&lsm.rules()));
        assert!(lsm.measure_pressure().overload >= overload(&db));
        assert_eq!(stats(&db).merges_for_space, 0);
        lsm.settle_for_test().unwrap();
        assert!(stats(&db).merges_for_space > 0);
    });
    assert_eq!(overload(&db), 0.0);
    // The inputs of the merges go with a checkpoint. Its time has not come for an hour.
    let held_bytes = || db.stats().keyspaces[0].held_bytes;
    let is_freed = || held_bytes() < HELD_BYTES_MIN;
    for _ in 0..3000 {
        if is_freed() {
            break;
        }
        thread::sleep(Duration::from_millis(20));
    }
    assert!(is_freed(), "{}", held_bytes());
    assert_eq!(all(db.range(..)).len() as u64, PAIRS);
}

#[test]
fn nobody_waits_for_what_an_open_snapshot_sees() {
    let disk = MemVfs::without_history();
    let db = open(&disk);
    let lsm = lsm_of(&db);
    lsm.without_merges_for_test(|| {
        overwrite(&db, 0);
        let mut snapshots = Vec::new();
        for round in 1..5 {
            snapshots.push(db.snapshot());
            overwrite(&db, round);
        }
        assert_eq!(overload(&db), 0.0);
        snapshots.truncate(1);
        let with_one = overload(&db);
        drop(snapshots);
        assert!(with_one <= overload(&db) && overload(&db) > 0.0);
    });
}

/// The new values hide all of the old ones, and take a thousandth of their space.
fn shrink(db: &Db) {
    scattered(200).for_each(|number| db.put(key(number), value(number, 20)).unwrap());
}

/// The index of a log tells what it hides, and a kill left it without one. Flushed tables tell it, too.
#[test]
#[expect(clippy::disallowed_methods, reason = "maintenance of another thread is waited for")]
fn garbage_that_short_pairs_make_is_freed_after_a_kill_too() {
    for is_killed in [false, true] {
        let mut disk = MemVfs::without_history();
        let mut db = open(&disk);
        scattered(200).for_each(|number| db.put(key(number), value(number, 10_000)).unwrap());
        lsm_of(&db).settle_for_test().unwrap();
        let data_bytes = |db: &Db| {
            let stats = &db.stats().keyspaces[0];
            stats.log_bytes + stats.table_bytes + stats.unclaimed_bytes
        };
        assert!(data_bytes(&db) > 2_000_000);
        if is_killed {
            shrink(&db);
            disk = disk.kill();
            db = open(&disk);
        } else {
            lsm_of(&db).without_merges_for_test(|| {
                shrink(&db);
                lsm_of(&db).seal_for_test().unwrap();
            });
        }
        for _ in 0..3000 {
            if data_bytes(&db) < 500_000 {
                break;
            }
            thread::sleep(Duration::from_millis(20));
        }
        assert!(data_bytes(&db) < 500_000, "{is_killed}: {:?}", db.stats());
        assert_eq!(all(db.range(..)).len(), 200);
    }
}

/// Guards share what a table hides by the lengths of their parts, and deletes have short ones: so they get tables of
/// their own if they hide much.
#[test]
fn deletes_of_long_pairs_in_several_guards_are_in_several_tables() {
    let disk = MemVfs::without_history();
    let db = open(&disk);
    let lsm = lsm_of(&db);
    lsm.without_merges_for_test(|| {
        scattered(600).for_each(|number| db.put(key(number), value(number, 10_000)).unwrap());
        lsm.settle_for_test().unwrap();
        let before: HashSet<u64> = lsm.view().tables().map(|run| run.file().id).collect();
        let guards = lsm.view().shape.guards().count();
        assert!(guards > 2, "{guards}");
        scattered(600).for_each(|number| db.delete(key(number)).unwrap());
        lsm.merge_logs_for_test().unwrap();
        let view = lsm.view();
        let tables = view.tables().map(|run| run.file().id).filter(|id| !before.contains(id));
        let tables: HashSet<u64> = tables.collect();
        assert!(tables.len() >= guards, "{} tables for {guards} guards", tables.len());
        assert!(view.shape.guards().all(|guard| 2 * guard.stale_bytes(u64::MAX) > guard.bytes()));
    });
}
