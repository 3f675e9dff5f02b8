//! A full disk: puts fail, deletes do not, and what they free is used again, without being asked for.

use super::tests::{Model, all, key, lsm_of, scattered, value};
use crate::layout::options::FlsmOptions;
use crate::lsm::merge::Trigger;
use crate::sync::Arc;
use crate::vfs::MemVfs;
use crate::{Db, KeyspaceOptions, Options};
use std::time::Duration;

fn open(disk: &MemVfs) -> Db {
    let layout = FlsmOptions::new().generation_bytes(256 << 10).guard_bytes(1 << 20);
    let options = Options::new().default_keyspace(KeyspaceOptions::new().layout(layout));
    let options = options.vfs(Arc::new(disk.clone())).background_threads(1);
    options.checkpoint_interval(Duration::from_millis(50)).open("store").unwrap()
}

/// Puts new pairs until the disk is full; returns their number.
fn fill(db: &Db, model: &mut Model, from: u64) -> u64 {
    for (count, number) in scattered(50_000).enumerate() {
        let (key, value) = (key(from + number), value(number, 1000));
        if let Err(error) = db.put(&key, &value) {
            assert!(error.is_no_space(), "{error}");
            return count as u64;
        }
        model.insert(key, value);
    }
    panic!("the disk is not full");
}

#[expect(clippy::disallowed_methods, reason = "maintenance of another thread is waited for")]
fn until_a_put_succeeds(db: &Db, model: &mut Model) {
    for _ in 0..3000 {
        match db.put("healed", "1") {
            Ok(()) => return drop(model.insert(b"healed".to_vec(), b"1".to_vec())),
            Err(error) => assert!(error.is_no_space(), "{error}"),
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("no space: {:?}", db.stats());
}

/// Deletes most pairs, by one range or one by one, when the disk is full. At least an eighth of
/// the pairs that it had find room again.
fn what_is_deleted_makes_room(is_range: bool) {
    let (disk, mut model) = (MemVfs::without_history(), Model::new());
    disk.set_capacity_bytes(Some(32 << 20));
    let db = open(&disk);
    let first = fill(&db, &mut model, 0);
    let upto = model.keys().nth(model.len() * 3 / 4).unwrap().clone();
    let is_doomed =
        |key: &[u8]| key < &upto[..] && (is_range || key.last().is_some_and(|digit| digit % 2 == 0));
    if is_range {
        db.delete_range(..&upto).unwrap();
    } else {
        model.keys().filter(|key| is_doomed(key)).for_each(|key| db.delete(key).unwrap());
    }
    model.retain(|key, _| !is_doomed(key));
    let (mut more, mut round) = (0, 0);
    while more < first / 8 {
        round += 1;
        until_a_put_succeeds(&db, &mut model);
        more += fill(&db, &mut model, 100_000 * round);
    }
    assert!(all(db.range(..)) == model);
    let report = db.verify().unwrap();
    assert!(report.is_ok(), "{:?}", report.damage);
}

#[test]
fn what_a_range_delete_hides_makes_room_without_a_compaction() {
    what_is_deleted_makes_room(true);
}

#[test]
fn what_deletes_hide_makes_room_without_a_compaction() {
    what_is_deleted_makes_room(false);
}

/// A store with `count` pairs in tables, and their model.
fn sorted(disk: &MemVfs, count: u64) -> (Db, Model) {
    let db = open(disk);
    let pairs = scattered(count).map(|number| (key(number), value(number, 1000)));
    let model = Model::from_iter(pairs);
    model.iter().for_each(|(key, value)| db.put(key, value).unwrap());
    lsm_of(&db).settle_for_test().unwrap();
    (db, model)
}

#[test]
fn a_range_delete_drops_tables_before_any_merge() {
    let disk = MemVfs::without_history();
    let (db, mut model) = sorted(&disk, 5000);
    let lsm = lsm_of(&db);
    lsm.without_merges_for_test(|| {
        let snapshot = db.snapshot();
        let old = model.clone();
        let bytes = || lsm.view().tables().map(|run| run.bytes()).sum::<u64>();
        let before = bytes();
        db.delete_range(key(0)..key(4000)).unwrap();
        db.put(key(7), "newer").unwrap();
        model.retain(|number, _| *number >= key(4000));
        model.insert(key(7), b"newer".to_vec());
        assert!(!lsm.drop_early().unwrap(), "a log without an index has no range deletes that count");
        lsm.seal_for_test().unwrap();
        assert!(lsm.drop_early().unwrap());
        assert!(!lsm.drop_early().unwrap(), "all is known");
        while lsm.merge_tables(Trigger::Asked).unwrap() {}
        assert_eq!(bytes(), before, "the snapshot reads them");
        assert!(all(db.range(..)) == model && all(snapshot.range(..)) == old);
        drop(snapshot);
        while lsm.merge_tables(Trigger::Asked).unwrap() {}
        assert!(bytes() < before / 2, "{} of {before} bytes are left", bytes());
        assert_eq!(lsm.view().level0.len(), 1, "the range delete is where it was");
        assert!(all(db.range(..)) == model);
    });
    drop(db);
    let db = open(&disk.kill());
    assert!(all(db.range(..)) == model);
    assert!(db.verify().unwrap().is_ok());
}

/// The tables may have something by then that was written after the range delete.
#[test]
fn nothing_is_dropped_if_the_range_deletes_were_merged_meanwhile() {
    let disk = MemVfs::without_history();
    let (db, mut model) = sorted(&disk, 3000);
    let lsm = lsm_of(&db);
    lsm.without_merges_for_test(|| {
        db.delete_range(key(0)..key(2000)).unwrap();
        lsm.seal_for_test().unwrap();
        let view = lsm.view();
        let level0 = lsm.ripe_logs(&view);
        let covered = lsm.covered(&view, &level0).unwrap();
        for number in 0..1500 {
            db.put(key(number), "newer").unwrap();
            model.insert(key(number), b"newer".to_vec());
        }
        model.retain(|number, value| *number >= key(2000) || value == b"newer");
        lsm.settle_for_test().unwrap();
        assert!(!lsm.publish_covered(covered, &level0).unwrap());
        assert!(all(db.range(..)) == model);
    });
}
