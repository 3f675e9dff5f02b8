//! Repair without a manifest, while files that merges have replaced are still there.

use super::levels::Levels;
use super::tests::{Model, all, guards, key, lsm_of, open, value};
use crate::layout::options::FlsmOptions;
use crate::lsm::busy::Busy;
use crate::lsm::merge::{Planned, Trigger};
use crate::lsm::shape::{Job, Move};
use crate::lsm::view::View;
use crate::repair::RepairReport;
use crate::sync::Arc;
use crate::sync::time::now;
use crate::vfs::{MemVfs, OpenMode, Vfs};
use crate::{Db, KeyspaceOptions, Options};
use std::ops::RangeBounds;
use std::path::{Path, PathBuf};
use std::time::Duration;

fn tables(disk: &MemVfs) -> Vec<PathBuf> {
    let names = disk.list(Path::new("store")).unwrap();
    let tables = names.iter().filter(|name| name.ends_with(".table"));
    tables.map(|name| Path::new("store").join(name)).collect()
}

fn read(disk: &MemVfs, path: &Path) -> Vec<u8> {
    let file = disk.open(path, OpenMode::Read).unwrap();
    let mut bytes = vec![0; file.len().unwrap() as usize];
    file.read_exact_at(&mut bytes, 0).unwrap();
    bytes
}

/// Some guards with 300 keys and values of 200 bytes.
fn filled(disk: &MemVfs) -> Db {
    let db = open(disk);
    (0..300).for_each(|number| db.put(key(number * 37 % 300), value(number, 200)).unwrap());
    db.compact_range(..).unwrap();
    db
}

/// The store as it is now, without its manifest. The removal of tables that it had before did not
/// last. Returns these.
fn with_older_tables(db: &Db, disk: &MemVfs, before: &MemVfs) -> (MemVfs, Vec<PathBuf>) {
    let disk = disk.kill();
    let (there, live) = (tables(&disk), guards(db).concat());
    let is_live = |path: &PathBuf| live.iter().any(|id| path.ends_with(format!("{id:012}.table")));
    let gone: Vec<PathBuf> = tables(before).into_iter().filter(|path| !is_live(path)).collect();
    for path in gone.iter().filter(|path| !there.contains(path)) {
        disk.open(path, OpenMode::CreateNew).unwrap().write_at(&read(before, path), 0).unwrap();
    }
    for name in disk.list(Path::new("store")).unwrap().iter().filter(|name| name.starts_with("MANIFEST")) {
        disk.remove(&Path::new("store").join(name)).unwrap();
    }
    (disk, gone)
}

fn repaired(disk: &MemVfs) -> (Model, RepairReport) {
    let layout = KeyspaceOptions::new().layout(FlsmOptions::new());
    let options = Options::new().default_keyspace(layout).vfs(Arc::new(disk.clone()));
    let report = Db::repair("store", "repaired", options.clone()).unwrap();
    (all(options.open("repaired").unwrap().range(..)), report)
}

#[test]
fn files_that_merges_have_replaced_bring_nothing_back() {
    let disk = MemVfs::without_history();
    let db = filled(&disk);
    let before = disk.kill();
    (40..260).for_each(|number| db.delete(key(number)).unwrap());
    db.compact_range(..).unwrap();
    db.sync().unwrap();
    let expected = all(db.range(..));
    let (damaged, gone) = with_older_tables(&db, &disk, &before);
    drop(db);
    assert!(!gone.is_empty());
    let (found, report) = repaired(&damaged);
    assert!(found == expected, "{} pairs instead of {}", found.len(), expected.len());
    assert_eq!(report.may_return, []);
    let is_left_out = |path: &PathBuf| report.left_out.iter().any(|left| left.path == *path && !left.loses);
    assert!(gone.iter().all(is_left_out), "{:?}", report.left_out);
}

#[test]
fn a_merge_of_which_nothing_is_left_still_says_what_it_replaced() {
    let disk = MemVfs::without_history();
    let db = filled(&disk);
    let before = disk.kill();
    (0..300).for_each(|number| db.delete(key(number)).unwrap());
    db.compact_range(..).unwrap();
    for has_checkpoint in [false, true] {
        let (damaged, gone) = with_older_tables(&db, &disk, &before);
        assert!(!guards(&db).concat().is_empty() && !gone.is_empty(), "{:?}", guards(&db));
        assert_eq!(repaired(&damaged).0.len(), 0, "after a checkpoint: {has_checkpoint}");
        // The replaced files are removed after this checkpoint, and the next one makes that durable.
        db.sync().unwrap();
    }
    let deadline = now() + Duration::from_secs(60);
    while !guards(&db).concat().is_empty() && now() < deadline {
        db.sync().unwrap();
        lsm_of(&db).settle_for_test().unwrap();
    }
    assert_eq!(guards(&db).concat(), [0; 0]);
}

#[test]
fn where_the_output_of_a_merge_is_damaged_its_inputs_count_and_are_named() {
    let disk = MemVfs::without_history();
    let db = filled(&disk);
    let before = disk.kill();
    (0..300).step_by(2).for_each(|number| db.delete(key(number)).unwrap());
    db.compact_range(..).unwrap();
    db.sync().unwrap();
    let expected = all(db.range(..));
    let (damaged, gone) = with_older_tables(&db, &disk, &before);
    drop(db);
    let output = tables(&damaged).into_iter().find(|path| !gone.contains(path)).unwrap();
    // The log with the deletes may not be gone yet.
    for name in damaged.list(Path::new("store")).unwrap().iter().filter(|name| name.ends_with(".log")) {
        damaged.remove(&Path::new("store").join(name)).unwrap();
    }
    let bytes = read(&damaged, &output);
    damaged.open(&output, OpenMode::ReadWrite).unwrap().write_at(&[bytes[100] ^ 1], 100).unwrap();
    let (found, report) = repaired(&damaged);
    assert!(expected.iter().all(|(key, value)| found.get(key) == Some(value)), "a pair is lost");
    let back: Vec<&Vec<u8>> = found.keys().filter(|key| !expected.contains_key(*key)).collect();
    let is_named = |key: &&Vec<u8>| {
        let mut named = report.may_return.iter().filter(|named| gone.contains(&named.path));
        named.any(|named| named.keys.contains(*key))
    };
    assert!(back.iter().all(is_named), "{back:?} are back, and named are {:?}", report.may_return);
    assert!((1..60).contains(&back.len()), "{} pairs are back", back.len());
}

/// A log that was written in key order comes beside a table, at a place that divides the guard. The table has said
/// something of keys that are now in the other part, and goes with the next merge.
#[test]
fn what_a_table_replaced_is_known_where_its_guard_was_divided() {
    let disk = MemVfs::without_history();
    let db = open(&disk);
    (0..40).chain(90..100).for_each(|number| db.put(key(number), value(number, 50)).unwrap());
    db.compact_range(..).unwrap();
    let before = disk.kill();
    (0..40).for_each(|number| db.delete(key(number)).unwrap());
    db.compact_range(..).unwrap();
    // An iterator keeps older files from their removal.
    let mut held = db.range(..);
    held.next().unwrap().unwrap();
    (50..80).for_each(|number| db.put(key(number), value(number, 200)).unwrap());
    lsm_of(&db).settle_for_test().unwrap();
    let divided: Vec<usize> = guards(&db).iter().map(Vec::len).collect();
    assert_eq!(divided, [0, 2]);
    db.compact_range(..).unwrap();
    db.sync().unwrap();
    let expected = all(db.range(..));
    let (damaged, gone) = with_older_tables(&db, &disk, &before);
    assert!(!gone.is_empty());
    let (found, report) = repaired(&damaged);
    assert!(found == expected, "{} pairs instead of {}", found.len(), expected.len());
    assert_eq!(report.may_return, []);
    drop(held);
}

/// A range delete drops a table as a whole, and the table goes by metadata. It had said that the table before it counts
/// no more, which has other keys.
#[test]
fn what_a_dropped_table_replaced_is_known() {
    let disk = MemVfs::without_history();
    let db = open(&disk);
    (0..40).for_each(|number| db.put(key(number), value(number, 50)).unwrap());
    db.compact_range(..).unwrap();
    let before = disk.kill();
    (0..10).for_each(|number| db.delete(key(number)).unwrap());
    // The older files are there until the next checkpoint.
    db.compact_range(..).unwrap();
    assert_eq!(guards(&db).concat().len(), 1);
    let lsm = lsm_of(&db);
    lsm.without_merges_for_test(|| {
        let dropped = guards(&db).concat();
        db.delete_range(key(10)..key(40)).unwrap();
        lsm.seal_for_test().unwrap();
        assert!(lsm.drop_early().unwrap());
        let job = lsm.pick(&lsm.view(), &Busy::default()).unwrap().job;
        assert!(!job.pieces.is_empty() && job.takes_nothing(), "it reads tables, and moves no data");
        assert!(lsm.merge_tables(Trigger::Asked).unwrap());
        let left = guards(&db).concat();
        assert!(left.len() == 1 && left != dropped, "a table that says what the dropped one has replaced");
        db.sync().unwrap();
        let (damaged, gone) = with_older_tables(&db, &disk, &before);
        assert!(!gone.is_empty());
        let (found, report) = repaired(&damaged);
        assert!(found.is_empty(), "{} pairs returned", found.len());
        assert_eq!(report.may_return, []);
    });
    // Once the files have gone, there is nothing to say of them.
    let deadline = now() + Duration::from_secs(60);
    while !guards(&db).concat().is_empty() && now() < deadline {
        db.sync().unwrap();
        lsm.settle_for_test().unwrap();
    }
    assert_eq!(guards(&db).concat(), [0; 0]);
}

/// A store with a table that joined two range deletes, beside the older of the logs that were merged, or both. The older
/// one has a pair that only the second range delete covers, of a version between. The other one has a pair that is newer.
fn joined_beside_logs(both: bool) -> (MemVfs, Model) {
    let disk = MemVfs::without_history();
    let db = filled(&disk);
    let lsm = lsm_of(&db);
    let logs = lsm.without_merges_for_test(|| {
        db.delete_range(key(10)..key(20)).unwrap();
        drop(db.snapshot());
        db.put(key(25), "between").unwrap();
        lsm.seal_for_test().unwrap();
        db.sync().unwrap();
        let older = disk.kill();
        db.delete_range(key(20)..key(30)).unwrap();
        db.put(key(28), "after").unwrap();
        lsm.seal_for_test().unwrap();
        db.sync().unwrap();
        let logs = if both { disk.kill() } else { older };
        lsm.merge_logs_for_test().unwrap();
        logs
    });
    db.sync().unwrap();
    let (damaged, _) = with_older_tables(&db, &disk, &disk);
    let names = |disk: &MemVfs| {
        let names = disk.list(Path::new("store")).unwrap().into_iter();
        names.filter(|name| name.ends_with(".log")).map(|name| Path::new("store").join(name))
    };
    names(&damaged).for_each(|path| damaged.remove(&path).unwrap());
    for path in names(&logs) {
        damaged.open(&path, OpenMode::CreateNew).unwrap().write_at(&read(&logs, &path), 0).unwrap();
    }
    (damaged, all(db.range(..)))
}

#[test]
fn an_older_log_brings_nothing_back_that_a_joined_range_delete_covers() {
    let (damaged, expected) = joined_beside_logs(false);
    let (found, report) = repaired(&damaged);
    assert_eq!(found.get(&key(25)), None);
    assert!(found == expected, "{} pairs instead of {}", found.len(), expected.len());
    assert_eq!(report.may_return, []);
}

#[test]
fn a_damaged_table_covers_no_pair_of_a_log_that_is_newer_than_its_range_delete() {
    let (damaged, expected) = joined_beside_logs(true);
    let newest = tables(&damaged).pop().unwrap();
    let bytes = read(&damaged, &newest);
    damaged.open(&newest, OpenMode::ReadWrite).unwrap().write_at(&[bytes[80] ^ 1], 80).unwrap();
    let (found, _) = repaired(&damaged);
    assert!(expected.iter().all(|(key, value)| found.get(key) == Some(value)), "a pair is lost");
}

/// The table is shared, and what it replaced has not gone: the merge asks for the keys beside its own.
#[test]
fn damage_of_the_keys_of_another_guard_does_not_stop_a_merge() {
    let disk = MemVfs::without_history();
    let db = open(&disk);
    (0..60).for_each(|number| db.put(key(number * 37 % 60), value(number, 200)).unwrap());
    db.compact_range(..).unwrap();
    let insert = |_: &View<Levels>, _: &Busy| {
        let job = Job::of_moves(vec![Move::Insert { level: 1, start: key(30).into(), share: 0.5 }]);
        Some(Planned { logs: Vec::new(), job })
    };
    assert!(lsm_of(&db).run_next(insert, Trigger::Asked).unwrap());
    let [first, second] = &guards(&db)[..] else { panic!("{:?}", guards(&db)) };
    assert_eq!(first, second, "they share a table");
    db.close().unwrap();
    let table = Path::new("store").join(format!("{:012}.table", first[0]));
    let bytes = read(&disk, &table);
    disk.open(&table, OpenMode::ReadWrite).unwrap().write_at(&[bytes[100] ^ 1], 100).unwrap();
    let db = open(&disk);
    db.get(key(0)).unwrap_err();
    db.put(key(40), "newer").unwrap();
    db.compact_range(key(30)..).unwrap();
    assert_eq!(db.get(key(40)).unwrap().as_deref(), Some(&b"newer"[..]));
    assert_eq!(db.range(key(30)..).count(), 30);
}
