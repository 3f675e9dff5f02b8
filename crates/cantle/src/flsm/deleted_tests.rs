//! Range deletes in the tables of guards.

use super::levels::Levels;
use super::tests::{Model, all, assert_is, guards, key, lsm_of, open, stats, three_guards, value};
use crate::layout::options::FlsmOptions;
use crate::lsm::busy::Busy;
use crate::lsm::merge::{Planned, Trigger};
use crate::lsm::shape::Job;
use crate::lsm::view::View;
use crate::run::run::Run;
use crate::sync::Arc;
use crate::sync::random::Rng;
use crate::vfs::{CrashPlan, MemVfs};
use crate::{Db, KeyspaceOptions, Options, Snapshot, WriteBatch};

/// Two levels of 8000 keys, settled.
fn large(disk: &MemVfs) -> Db {
    let db = open(disk);
    (0..8000).for_each(|number| db.put(key(number * 37 % 8000), value(number, 200)).unwrap());
    lsm_of(&db).settle_for_test().unwrap();
    db.compact_range(..).unwrap();
    (0..8000).step_by(9).for_each(|number| db.put(key(number), value(number, 20)).unwrap());
    lsm_of(&db).settle_for_test().unwrap();
    assert!(stats(&db).levels >= 2, "{:?}", stats(&db));
    db
}

fn written(db: &Db) -> u64 {
    db.own().layout.stats().table_bytes_written
}

fn table_bytes(db: &Db) -> u64 {
    lsm_of(db).view().tables().map(Run::bytes).sum()
}

fn dropped(db: &Db) -> usize {
    lsm_of(db).view().tables().filter(|run| run.dropped.is_some()).count()
}

#[test]
fn a_small_range_delete_over_a_large_tree_rewrites_nothing() {
    let disk = MemVfs::new();
    let db = large(&disk);
    let (before, files) = (written(&db), guards(&db));
    db.delete_range(key(3000)..key(3005)).unwrap();
    lsm_of(&db).merge_logs_for_test().unwrap();
    let bytes = written(&db) - before;
    assert!(bytes < 1000, "{bytes} bytes for a range delete");
    let after = guards(&db);
    assert_eq!(files.len(), after.len());
    assert!(files.iter().zip(&after).all(|(before, after)| after.ends_with(before)));
    assert_eq!(after.iter().map(Vec::len).sum::<usize>(), files.iter().map(Vec::len).sum::<usize>() + 1);
    assert_eq!(db.range(..).count(), 7995);
    lsm_of(&db).settle_for_test().unwrap();
    assert_eq!(db.range(..).count(), 7995);
    db.compact_range(..).unwrap();
    assert_eq!((db.range(..).count(), db.verify().unwrap().entries), (7995, 7995));
}

#[test]
fn a_large_range_delete_frees_tables_without_rewriting_them() {
    let disk = MemVfs::new();
    let db = large(&disk);
    let (before, bytes) = (written(&db), table_bytes(&db));
    db.delete_range(key(1000)..key(7000)).unwrap();
    db.put(key(5000), "after").unwrap();
    lsm_of(&db).merge_logs_for_test().unwrap();
    lsm_of(&db).settle_for_test().unwrap();
    assert_eq!(db.range(..).count(), 2001);
    let (written, left) = (written(&db) - before, table_bytes(&db));
    assert!(left < bytes / 2, "{left} bytes of {bytes} are left");
    assert!(written < bytes / 8, "{written} bytes written to free {}", bytes - left);
    assert_eq!(dropped(&db), 0);
    let view = lsm_of(&db).view();
    assert!(!view.shape.last().iter().any(|guard| guard.is_bare()), "nothing is left to delete there");
    db.compact_range(..).unwrap();
    assert_eq!((db.range(..).count(), db.verify().unwrap().entries), (2001, 2001));
}

#[test]
fn neighbours_without_keys_share_a_table_of_range_deletes() {
    let disk = MemVfs::new();
    let db = three_guards(&disk);
    let _snapshot = db.snapshot();
    db.delete_range(..).unwrap();
    lsm_of(&db).merge_logs_for_test().unwrap();
    let found = guards(&db);
    let newest: Vec<u64> = found.iter().map(|files| files[0]).collect();
    assert!(newest.iter().all(|file| *file == newest[0]), "{found:?}");
    assert_eq!(db.range(..).count(), 0);
    drop(db);
    assert_eq!(open(&disk.kill()).range(..).count(), 0);
}

#[test]
fn a_snapshot_sees_what_was_dropped_after_it_whatever_is_merged() {
    let disk = MemVfs::new();
    let db = large(&disk);
    let snapshot = db.snapshot();
    let before = all(snapshot.range(..));
    db.delete_range(key(1000)..key(7000)).unwrap();
    lsm_of(&db).merge_logs_for_test().unwrap();
    assert!(dropped(&db) > 0, "whole tables are marked");
    let later = db.snapshot();
    let assert_views = |what: &str| {
        assert!(all(snapshot.range(..)) == before, "{what}");
        assert_eq!((later.range(..).count(), db.range(..).count()), (2000, 2000), "{what}");
        for number in (0..8000).step_by(97) {
            let found = snapshot.get(key(number)).unwrap().map(|value| value.to_vec());
            assert!(found.as_ref() == before.get(&key(number)), "{what}: {number}");
            assert_eq!(db.get(key(number)).unwrap().is_some(), !(1000..7000).contains(&number), "{what}");
        }
    };
    assert_views("merged");
    (0..8000).step_by(5).for_each(|number| db.put(key(number), "x").unwrap());
    (0..8000).step_by(5).for_each(|number| db.delete(key(number)).unwrap());
    lsm_of(&db).settle_for_test().unwrap();
    assert!(all(snapshot.range(..)) == before, "settled");
    db.compact_range(..).unwrap();
    assert!(all(snapshot.range(..)) == before, "compacted");
    drop((snapshot, later));
    db.compact_range(..).unwrap();
    assert_eq!((db.range(..).count(), db.verify().unwrap().entries), (1600, 1600));
}

#[test]
fn in_a_batch_what_comes_after_the_range_delete_stays() {
    let disk = MemVfs::new();
    let db = three_guards(&disk);
    let snapshot = db.snapshot();
    let mut batch = WriteBatch::new();
    batch.put(key(60), "before").put(key(301), "before");
    batch.delete_range(key(50)..key(302)).put(key(70), "after");
    db.write(batch).unwrap();
    let expected = |db: &Db| {
        let of = |number| db.get(key(number)).unwrap().map(|value| value.to_vec());
        assert_eq!((of(60), of(301), of(200)), (None, None, None));
        assert_eq!(of(70).as_deref(), Some(&b"after"[..]));
        assert_eq!(db.range(..).count(), 51);
        assert!(db.verify().unwrap().is_ok());
    };
    expected(&db);
    lsm_of(&db).merge_logs_for_test().unwrap();
    expected(&db);
    assert_eq!(snapshot.range(..).count(), 300);
    drop(snapshot);
    let dir = std::path::Path::new("copy");
    db.backup(dir).unwrap();
    let options = Options::new().vfs(Arc::new(disk.clone())).create_if_missing(false);
    let copy = options.open("copy").unwrap();
    expected(&copy);
    db.close().unwrap();
    let db = open(&disk);
    expected(&db);
    lsm_of(&db).settle_for_test().unwrap();
    expected(&db);
    db.compact_range(..).unwrap();
    expected(&db);
}

#[test]
fn a_range_delete_in_a_table_is_a_conflict() {
    let disk = MemVfs::new();
    let db = three_guards(&disk);
    for is_range in [false, true] {
        let (one, other) = (db.transaction(), db.transaction());
        let read = |tx: &crate::Transaction, from: u64| match is_range {
            false => drop(tx.get(key(from)).unwrap()),
            true => assert!(tx.range(key(from)..key(from + 5)).count() <= 5),
        };
        read(&one, 120);
        read(&other, 10);
        db.delete_range(key(100)..key(150)).unwrap();
        lsm_of(&db).merge_logs_for_test().unwrap();
        one.put("x", "1").unwrap();
        other.put("y", "1").unwrap();
        assert!(one.commit().unwrap_err().is_conflict(), "range: {is_range}");
        other.commit().unwrap();
        (100..150).for_each(|number| db.put(key(number), "again").unwrap());
    }
}

#[test]
fn a_loss_of_power_brings_back_what_was_deleted_after_the_checkpoint() {
    let disk = MemVfs::new();
    let db = large(&disk);
    db.sync().unwrap();
    let before = all(db.range(..));
    db.delete_range(key(1000)..key(7000)).unwrap();
    lsm_of(&db).settle_for_test().unwrap();
    let (lost, killed) = (disk.crash(&CrashPlan::LOSE_UNSYNCED), disk.kill());
    let now = all(db.range(..));
    drop(db);
    for (disk, expected) in [(lost, before), (killed, now)] {
        let db = open(&disk);
        assert!(all(db.range(..)) == expected);
        lsm_of(&db).settle_for_test().unwrap();
        assert!(all(db.range(..)) == expected && db.verify().unwrap().is_ok());
    }
}

#[test]
fn a_repair_heeds_the_range_deletes_of_tables() {
    for has_manifest in [true, false] {
        let disk = MemVfs::without_history();
        let db = three_guards(&disk);
        let snapshot = db.snapshot();
        db.delete_range(key(20)..key(230)).unwrap();
        db.put(key(100), "after").unwrap();
        lsm_of(&db).merge_logs_for_test().unwrap();
        drop(snapshot);
        let before = all(db.range(..));
        let disk = disk.kill();
        drop(db);
        let dir = std::path::Path::new("store");
        let vfs: &dyn crate::vfs::Vfs = &disk;
        for name in vfs.list(dir).unwrap().iter().filter(|name| name.starts_with("MANIFEST")) {
            if !has_manifest {
                vfs.remove(&dir.join(name)).unwrap();
            }
        }
        let layout = KeyspaceOptions::new().layout(FlsmOptions::new());
        let options = Options::new().default_keyspace(layout).vfs(Arc::new(disk.clone()));
        Db::repair("store", "repaired", options.clone()).unwrap();
        let db = options.open("repaired").unwrap();
        assert!(all(db.range(..)) == before, "with a manifest: {has_manifest}");
    }
}

/// A store with guards of some fifty keys.
fn small(disk: &MemVfs) -> Db {
    let layout = FlsmOptions::new().generation_bytes(8 << 10).guard_bytes(4 << 10).max_sstables_per_guard(3);
    let options = Options::new().default_keyspace(KeyspaceOptions::new().layout(layout));
    options.vfs(Arc::new(disk.clone())).background_threads(1).open("store").unwrap()
}

/// Range deletes of every length, in every order with merges, snapshots and ends of the process.
#[test]
fn deleted_keys_stay_deleted_through_merges_and_snapshots_see_them() {
    let mut marked = 0;
    for seed in 0..6 {
        let mut rng = Rng::new(seed);
        let mut below = move |bound: u64| rng.below(bound);
        let mut disk = MemVfs::new();
        let (mut db, mut model) = (small(&disk), Model::new());
        let mut held: Vec<(Snapshot, Model)> = Vec::new();
        for step in 0..3000 {
            let number = below(2000);
            match below(100) {
                0..70 => {
                    let value = value(step, 10 + below(90) as usize);
                    db.put(key(number), &value).unwrap();
                    model.insert(key(number), value);
                }
                70..86 => {
                    let most = [2000, 200, 200, 20, 20, 20, 20, 20][below(40).min(7) as usize];
                    let end = number + 1 + below(most);
                    let mut batch = WriteBatch::new();
                    batch.put(key(number + 1), "before").delete_range(key(number)..key(end));
                    batch.put(key(number), "after");
                    db.write(batch).unwrap();
                    model.insert(key(number + 1), b"before".to_vec());
                    model.retain(|at, _| *at < key(number) || *at >= key(end));
                    model.insert(key(number), b"after".to_vec());
                }
                86..90 if held.len() < 4 => held.push((db.snapshot(), model.clone())),
                90..92 if !held.is_empty() => drop(held.swap_remove(below(held.len() as u64) as usize)),
                92 => lsm_of(&db).merge_logs_for_test().unwrap(),
                93 if below(2) == 0 => lsm_of(&db).settle_for_test().unwrap(),
                94 if below(4) == 0 => db.compact_range(key(number)..key(number + 300)).unwrap(),
                95 if below(4) == 0 => {
                    held.clear();
                    let killed = disk.kill();
                    drop(db);
                    disk = killed;
                    db = small(&disk);
                }
                _ => {}
            }
            marked += dropped(&db);
            if step % 100 == 0 {
                for (snapshot, model) in &held {
                    assert!(all(snapshot.range(..)) == *model, "seed {seed}, step {step}: a snapshot");
                    assert!(all(snapshot.range(..).rev()) == *model, "seed {seed}, step {step}: backward");
                    for number in (0..2000).step_by(31) {
                        let found = snapshot.get(key(number)).unwrap().map(|value| value.to_vec());
                        assert!(
                            found.as_ref() == model.get(&key(number)),
                            "seed {seed}, step {step}: {number}"
                        );
                    }
                }
                assert!(all(db.range(..)) == model, "seed {seed}, step {step}");
            }
        }
        assert_is(&db, &model, "as written");
        held.clear();
        lsm_of(&db).settle_for_test().unwrap();
        assert_is(&db, &model, "settled");
        db.compact_range(..).unwrap();
        assert_is(&db, &model, "compacted");
    }
    assert!(marked > 0, "whole tables were marked");
}

/// A mark of a later range delete stands below an earlier one. A snapshot that sees only the earlier one sees
/// nothing that both hide.
#[test]
fn a_later_range_delete_brings_back_nothing_of_an_earlier_one() {
    let disk = MemVfs::new();
    let db = open(&disk);
    let lsm = lsm_of(&db);
    lsm.without_merges_for_test(|| {
        let write = |act: &dyn Fn()| {
            act();
            lsm.merge_logs_for_test().unwrap();
        };
        write(&|| (0..9).for_each(|number| db.put(key(number), value(number, 200)).unwrap()));
        write(&|| (0..9).step_by(4).for_each(|number| db.put(key(number), "deleted").unwrap()));
        write(&|| db.delete_range(key(4)..key(5)).unwrap());
        let snapshot = db.snapshot();
        let before = all(snapshot.range(..));
        write(&|| db.delete_range(..).unwrap());
        assert_eq!(dropped(&db), 3, "all but the newest");
        let newest_three = |view: &View<Levels>, _: &Busy| {
            let [guard] = &view.shape.last()[..] else { panic!("one guard") };
            assert_eq!(guard.runs.len(), 4);
            Some(Planned { logs: Vec::new(), job: Job::of_pieces(vec![guard.merge(3, &lsm.rules())]) })
        };
        assert!(lsm.run_next(newest_three, Trigger::Asked).unwrap());
        assert!(all(snapshot.range(..)) == before && !before.contains_key(&key(4)));
        assert_eq!(snapshot.get(key(4)).unwrap(), None);
        assert_eq!(db.range(..).count(), 0);
    });
}
