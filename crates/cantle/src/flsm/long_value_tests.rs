//! Long values, which merges leave in their logs.

use super::tests::{Model, all, key, lsm_of, open_with, scattered, stats, value};
use crate::format::header::FileKind;
use crate::layout::options::FlsmOptions;
use crate::lsm::shape::Shape;
use crate::repair::RepairReport;
use crate::run::referred::Copying;
use crate::sync::Arc;
use crate::sync::random::Rng;
use crate::vfs::{CrashPlan, MemVfs, OpenMode, Vfs};
use crate::{Compression, Db, KeyspaceOptions, Options, Snapshot, WriteBatch};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Records over 1 KiB are long ones.
pub const LONG: usize = 2000;

pub fn flsm() -> FlsmOptions {
    FlsmOptions::new().generation_bytes(32 << 10).guard_bytes(16 << 10).max_sstables_per_guard(3)
}

fn keyspace() -> KeyspaceOptions {
    KeyspaceOptions::new().layout(flsm())
}

pub fn open(disk: &MemVfs) -> Db {
    open_with(disk, keyspace())
}

pub fn fill(db: &Db, model: &mut Model, numbers: impl Iterator<Item = u64>, round: u64) {
    for number in numbers {
        let value = value(number + 1000 * round, LONG);
        db.put(key(number), &value).unwrap();
        model.insert(key(number), value);
    }
}

/// 300 long values that tables refer to.
fn filled(disk: &MemVfs) -> (Db, Model) {
    let (db, mut model) = (open(disk), Model::new());
    fill(&db, &mut model, scattered(300), 0);
    lsm_of(&db).settle_for_test().unwrap();
    assert!(stats(&db).referred_logs >= 5, "{:?}", stats(&db));
    (db, model)
}

fn assert_is(db: &Db, model: &Model, what: &str) {
    assert!(all(db.range(..)) == *model, "{what}: a scan");
    assert!(all(db.range(..).rev()) == *model, "{what}: a scan backward");
    for number in 0..320 {
        let expected = model.get(&key(number)).map(|value| &value[..]);
        assert!(db.get(key(number)).unwrap().as_deref() == expected, "{what}: get {number}");
    }
    let report = db.verify().unwrap();
    assert!(report.is_ok(), "{what}: {:?}", report.damage);
}

pub fn logs(disk: &MemVfs) -> Vec<PathBuf> {
    let names = disk.list(Path::new("store")).unwrap();
    let logs = names.iter().filter(|name| name.ends_with(".log"));
    logs.map(|name| Path::new("store").join(name)).collect()
}

#[test]
fn a_long_value_is_written_once() {
    let disk = MemVfs::without_history();
    let (db, model) = filled(&disk);
    db.compact_range(..).unwrap();
    let (own, of_keyspace) = (stats(&db), db.stats().keyspaces.remove(0));
    assert!(own.merges > 0 && own.values_referred >= 300 && own.values_copied == 0, "{own:?}");
    assert!(of_keyspace.table_bytes_written < of_keyspace.user_bytes_written / 10, "{of_keyspace:?}");
    assert!(
        own.referred_bytes > 300 * LONG as u64 && own.referred_bytes < 301 * (LONG as u64 + 60),
        "{own:?}"
    );
    let disk_bytes = of_keyspace.log_bytes + of_keyspace.table_bytes + of_keyspace.unclaimed_bytes;
    println!(
        "{} bytes from users, {} in logs, {} in tables written, {disk_bytes} on disk",
        of_keyspace.user_bytes_written, of_keyspace.log_bytes_written, of_keyspace.table_bytes_written
    );
    assert!(disk_bytes < 5 * 300 * LONG as u64 / 4, "{of_keyspace:?}");
    assert!(of_keyspace.live_bytes >= 300 * LONG as u64, "{of_keyspace:?}");
    assert_is(&db, &model, "compacted");
    db.close().unwrap();
    let db = open(&disk);
    assert_eq!(
        (stats(&db).referred_logs, stats(&db).referred_bytes),
        (own.referred_logs, own.referred_bytes)
    );
    assert_is(&db, &model, "opened again");
}

/// Values of 2,000 bytes among 32 pairs of 60 bytes each: the rest of a log would be garbage.
#[test]
fn values_of_logs_that_have_much_else_are_copied() {
    let disk = MemVfs::without_history();
    let (db, mut model) = (open(&disk), Model::new());
    for number in scattered(60) {
        fill(&db, &mut model, std::iter::once(number), 0);
        for part in 0..32 {
            let (key, value) = (format!("{}/{part}", number).into_bytes(), value(number, 40));
            db.put(&key, &value).unwrap();
            model.insert(key, value);
        }
    }
    db.compact_range(..).unwrap();
    assert_eq!((stats(&db).values_referred, stats(&db).referred_logs), (0, 0));
    assert_is(&db, &model, "compacted");
}

#[test]
fn a_keyspace_that_compresses_copies_its_values() {
    let disk = MemVfs::without_history();
    let (db, mut model) = filled(&disk);
    db.close().unwrap();
    let db = open_with(&disk, keyspace().compression(Compression::Lz4));
    fill(&db, &mut model, scattered(100), 1);
    db.compact_range(..).unwrap();
    let own = stats(&db);
    assert_eq!((own.values_referred, own.referred_logs, own.referred_bytes), (0, 0, 0), "{own:?}");
    assert!(own.values_copied >= 200, "{own:?}");
    assert_is(&db, &model, "compacted");
}

/// Random writes of long and short values, with snapshots, kills, losses of power and merges.
#[test]
fn long_values_are_what_was_written() {
    let (mut referred, mut copied) = (0, 0);
    for seed in 0..6 {
        let mut rng = Rng::new(seed);
        let mut below = move |bound: u64| rng.below(bound);
        let mut disk = MemVfs::new();
        let (mut db, mut model) = (open(&disk), Model::new());
        let mut durable = Model::new();
        let mut held: Vec<(Snapshot, Model)> = Vec::new();
        for step in 0..3000 {
            let number = below(300);
            match below(100) {
                0..84 => {
                    let value = value(step, if below(8) == 0 { 40 } else { 1200 + below(3000) as usize });
                    db.put(key(number), &value).unwrap();
                    model.insert(key(number), value);
                }
                84..92 => {
                    db.delete(key(number)).unwrap();
                    model.remove(&key(number));
                }
                92 => {
                    let end = number + below(40);
                    db.delete_range(key(number)..key(end)).unwrap();
                    model.retain(|at, _| *at < key(number) || *at >= key(end));
                }
                93 if held.len() < 3 => held.push((db.snapshot(), model.clone())),
                94..97 if below(4) == 0 => lsm_of(&db).settle_for_test().unwrap(),
                97 if below(3) == 0 => {
                    db.sync().unwrap();
                    durable = model.clone();
                    if below(2) == 0 {
                        lsm_of(&db).settle_for_test().unwrap();
                        db.sync().unwrap();
                    }
                }
                98 if below(8) == 0 => {
                    (referred, copied) =
                        (referred + stats(&db).values_referred, copied + stats(&db).values_copied);
                    held.clear();
                    if below(2) == 0 {
                        db.close().unwrap();
                        db = open(&disk);
                        durable = model.clone();
                    } else {
                        let killed = disk.kill();
                        drop(db);
                        disk = killed;
                        db = open(&disk);
                    }
                }
                99 if below(16) == 0 && durable == model => {
                    held.clear();
                    let crashed = disk.crash(&CrashPlan::LOSE_UNSYNCED);
                    drop(db);
                    disk = crashed;
                    db = open(&disk);
                    assert_is(&db, &model, "after a loss of power");
                }
                _ => {}
            }
            if step % 300 == 0 {
                for (snapshot, model) in &held {
                    assert!(all(snapshot.range(..)) == *model, "seed {seed}, step {step}: a snapshot");
                }
            }
        }
        assert_is(&db, &model, "as written");
        held.clear();
        lsm_of(&db).settle_for_test().unwrap();
        assert_is(&db, &model, "settled");
        db.compact_range(..).unwrap();
        assert_is(&db, &model, "compacted");
        (referred, copied) = (referred + stats(&db).values_referred, copied + stats(&db).values_copied);
    }
    assert!(referred > 1000 && copied > 50, "{referred} referred, {copied} copied");
}

/// A log of which little is left goes: the values that are left in it are copied.
#[test]
fn sparse_logs_are_given_up() {
    let disk = MemVfs::without_history();
    let (db, mut model) = filled(&disk);
    for round in 1..4 {
        fill(&db, &mut model, scattered(300).filter(|number| number % 10 != 0), round);
        lsm_of(&db).settle_for_test().unwrap();
    }
    let own = stats(&db);
    assert!(own.values_copied >= 20 && own.values_copied < 1000, "{own:?}");
    let lsm = lsm_of(&db);
    let space = lsm.view().shape.space(&lsm.rules());
    assert!(!space.exceeds(1.5), "{space:?}");
    db.sync().unwrap();
    let stats = db.stats().keyspaces.remove(0);
    let bytes: u64 = logs(&disk).iter().map(|path| disk.metadata(path).unwrap().unwrap().len).sum();
    assert!(bytes < 2 * 300 * LONG as u64, "{bytes} bytes of logs, {stats:?}");
    assert_is(&db, &model, "overwritten");
}

/// Few short entries of level 0 hide nearly everything: it is freed without further writes.
#[test]
#[expect(clippy::disallowed_methods, reason = "maintenance of another thread is waited for")]
fn short_values_in_the_place_of_long_ones_free_their_space() {
    for is_deleted in [false, true] {
        let disk = MemVfs::without_history();
        let (db, mut model) = filled(&disk);
        // At once: what few entries at the end of a generation hide may stay.
        let mut batch = WriteBatch::new();
        for number in 0..300 {
            if is_deleted {
                batch.delete(key(number));
                model.remove(&key(number));
            } else {
                batch.put(key(number), "short");
                model.insert(key(number), b"short".to_vec());
            }
        }
        db.write(batch).unwrap();
        let is_freed = || stats(&db).referred_bytes < 80 * LONG as u64;
        for _ in 0..3000 {
            if is_freed() {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        assert!(is_freed(), "{:?}", stats(&db));
        assert_is(&db, &model, "what is left");
    }
}

#[test]
fn garbage_of_logs_counts_until_they_go() {
    let disk = MemVfs::without_history();
    let (db, mut model) = filled(&disk);
    let unclaimed = |db: &Db| db.stats().keyspaces[0].unclaimed_bytes;
    let (before, referred) = (unclaimed(&db), stats(&db).referred_bytes);
    db.delete_range(key(100)..key(200)).unwrap();
    model.retain(|at, _| *at < key(100) || *at >= key(200));
    lsm_of(&db).without_merges_for_test(|| db.compact_range(..).unwrap());
    let gone = referred - stats(&db).referred_bytes;
    assert!(gone >= 100 * LONG as u64, "{gone}");
    // Logs of which nothing is left have gone; those of the first and the last keys have not.
    assert!(unclaimed(&db) - before > 0, "{before}, then {}", unclaimed(&db));
    db.close().unwrap();
    let db = open(&disk);
    assert_is(&db, &model, "opened again");
    db.delete_range(..).unwrap();
    db.compact_range(..).unwrap();
    db.sync().unwrap();
    assert_eq!((unclaimed(&db), stats(&db).referred_logs), (0, 0));
    assert!(logs(&disk).len() < 4, "{:?}", logs(&disk));
}

/// The log that a merge refers to is durable before the table is named, whatever the durability of writes.
#[test]
fn a_checkpoint_after_a_merge_keeps_long_values() {
    let disk = MemVfs::new();
    let (db, model) = filled(&disk);
    db.sync().unwrap();
    let disk = disk.crash(&CrashPlan::LOSE_UNSYNCED);
    drop(db);
    assert_is(&open(&disk), &model, "after a loss of power");
}

/// A merge that was not followed by a checkpoint does not count after a loss of power: its logs are level 0
/// again.
#[test]
fn a_loss_of_power_before_the_checkpoint_uses_the_logs() {
    let disk = MemVfs::new();
    let (db, mut model) = (open(&disk), Model::new());
    let lsm = lsm_of(&db);
    lsm.without_merges_for_test(|| {
        fill(&db, &mut model, scattered(100), 0);
        db.sync().unwrap();
        assert_eq!(stats(&db).referred_logs, 0);
        lsm.settle_for_test().unwrap();
    });
    assert!(stats(&db).referred_logs > 0);
    drop(lsm);
    let disk = disk.crash(&CrashPlan::LOSE_UNSYNCED);
    drop(db);
    let db = open(&disk);
    assert_eq!(stats(&db).referred_logs, 0);
    assert_is(&db, &model, "after a loss of power");
}

#[test]
fn a_backup_has_the_logs_that_tables_refer_to() {
    let disk = MemVfs::new();
    let (db, model) = filled(&disk);
    db.backup("backup").unwrap();
    db.close().unwrap();
    let options = Options::new().default_keyspace(keyspace()).vfs(Arc::new(disk.clone()));
    assert_is(&options.open("backup").unwrap(), &model, "the backup");
}

#[test]
fn a_keyspace_that_is_dropped_leaves_no_log() {
    let disk = MemVfs::without_history();
    let db = open(&disk);
    let other = db.create_keyspace("other", keyspace()).unwrap();
    for number in scattered(100) {
        other.put(key(number), value(number, LONG)).unwrap();
    }
    other.compact_range(..).unwrap();
    drop(other);
    db.sync().unwrap();
    let before = logs(&disk).len();
    db.drop_keyspace("other").unwrap();
    db.sync().unwrap();
    db.close().unwrap();
    drop(open(&disk));
    assert!(before > 2 && logs(&disk).len() < 3, "{before} logs, then {:?}", logs(&disk));
}

/// Overwrites a byte in the middle of a value of each of these numbers, and returns the keys that are lost.
fn damage(disk: &MemVfs, numbers: &[u64]) -> BTreeSet<Vec<u8>> {
    let mut lost = BTreeSet::new();
    for path in logs(disk) {
        let file = disk.open(&path, OpenMode::ReadWrite).unwrap();
        let mut bytes = vec![0; file.len().unwrap() as usize];
        file.read_exact_at(&mut bytes, 0).unwrap();
        for &number in numbers {
            let value = value(number, LONG);
            if let Some(at) = bytes.windows(LONG).position(|window| window == value) {
                file.write_at(b"!", at as u64 + 1000).unwrap();
                lost.insert(key(number));
            }
        }
    }
    lost
}

#[test]
fn damage_of_a_long_value_is_found_and_harms_that_value_alone() {
    let disk = MemVfs::without_history();
    let (db, model) = filled(&disk);
    db.close().unwrap();
    let lost = damage(&disk, &[17, 250]);
    assert_eq!(lost.len(), 2);
    let db = open(&disk);
    for (at, value) in &model {
        match db.get(at) {
            Ok(found) => assert!(!lost.contains(at) && found.as_deref() == Some(&value[..])),
            Err(error) => assert!(lost.contains(at) && error.is_corruption(), "{error}"),
        }
    }
    assert_eq!(db.verify().unwrap().damage.len(), 2, "{:#?}", db.verify().unwrap().damage);
    // A merge does not read them.
    db.compact_range(..).unwrap();
    assert_eq!(db.verify().unwrap().damage.len(), 2);
}

fn repaired(disk: &MemVfs) -> (Model, RepairReport) {
    let options = Options::new().default_keyspace(keyspace()).vfs(Arc::new(disk.clone()));
    let report = Db::repair("store", "repaired", options.clone()).unwrap();
    (all(options.open("repaired").unwrap().range(..)), report)
}

#[test]
fn a_repair_finds_long_values_with_a_manifest_and_without() {
    for has_manifest in [true, false] {
        let disk = MemVfs::without_history();
        let (db, mut model) = filled(&disk);
        (100..110).for_each(|number| db.delete(key(number)).unwrap());
        model.retain(|at, _| *at < key(100) || *at >= key(110));
        db.compact_range(..).unwrap();
        db.close().unwrap();
        let lost = damage(&disk, &[17, 250]);
        if !has_manifest {
            for name in disk.list(Path::new("store")).unwrap() {
                if name.starts_with("MANIFEST") {
                    disk.remove(&Path::new("store").join(name)).unwrap();
                }
            }
        }
        let (found, report) = repaired(&disk);
        model.retain(|at, _| !lost.contains(at));
        assert!(found == model, "manifest: {has_manifest}");
        assert!(!report.uncertain.is_empty(), "{report:?}");
    }
}

/// The store without the log that a table refers to.
#[test]
fn a_missing_log_is_damage() {
    let disk = MemVfs::without_history();
    let (db, model) = filled(&disk);
    let view = lsm_of(&db).view();
    let gone =
        view.tables().flat_map(|run| run.referred()).map(|referred| referred.log.clone()).next().unwrap();
    assert_eq!(gone.kind, FileKind::Log);
    drop(view);
    db.close().unwrap();
    disk.remove(&gone.path).unwrap();
    let options = Options::new().default_keyspace(keyspace()).vfs(Arc::new(disk.clone()));
    if let Ok(db) = options.open("store") {
        let failed = model.keys().filter(|key| db.get(key).is_err()).count();
        assert!(failed > 0 && failed < 40, "{failed}");
        assert!(!db.verify().is_ok_and(|report| report.is_ok()));
    }
    let (found, _) = repaired(&disk);
    assert!(found.len() > 250 && found.len() < 300, "{}", found.len());
}

#[test]
fn a_merge_reads_no_value_that_it_refers_to() {
    let disk = MemVfs::without_history();
    let db = open(&disk);
    let lsm = lsm_of(&db);
    lsm.without_merges_for_test(|| {
        fill(&db, &mut Model::new(), scattered(300), 0);
        let Copying { rest, sparse } = lsm.copying(&lsm.view());
        assert!((rest * 6.0 - 1.0).abs() < 1e-9 && sparse == 0.5, "{rest}, {sparse}");
        lsm.merge_logs_for_test().unwrap();
        let own = db.stats().keyspaces.remove(0);
        assert_eq!(own.log_batches, 0, "{own:?}");
        assert!(stats(&db).values_referred > 150, "{:?}", stats(&db));
    });
}
