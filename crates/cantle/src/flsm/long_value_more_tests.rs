//! Long values in logs: orders with equal keys of other bytes, space, range deletes, repairs and damage.

use super::hashed_tests::CaseInsensitive;
use super::long_value_tests::{LONG, fill, flsm, logs, open};
use super::tests::{Model, all, key, lsm_of, open_with, scattered, stats, value};
use crate::lsm::shape::Shape;
use crate::run::run::Source;
use crate::sync::Arc;
use crate::sync::random::Rng;
use crate::vfs::{MemVfs, OpenMode, Vfs};
use crate::{Db, KeyspaceOptions, Options, Snapshot};
use std::path::{Path, PathBuf};
use std::time::Duration;

fn assert_is(db: &Db, model: &Model, what: &str) {
    assert!(all(db.range(..)) == *model, "{what}: a scan");
    let report = db.verify().unwrap();
    assert!(report.is_ok(), "{what}: {:?}", report.damage);
}

/// Each version of a key has bytes of its own, and a get may name the key by others.
#[test]
fn equal_keys_of_other_bytes_have_the_same_long_value() {
    let disk = MemVfs::without_history();
    let keyspace = KeyspaceOptions::new().layout(flsm()).comparator(Arc::new(CaseInsensitive));
    let options = Options::new().default_keyspace(keyspace).comparator(Arc::new(CaseInsensitive));
    let db = options.vfs(Arc::new(disk.clone())).open("store").unwrap();
    let mut held: Option<Snapshot> = None;
    let upper = |number: u64| key(number).to_ascii_uppercase();
    for round in 0..2 {
        for number in scattered(100) {
            let key = if round == 0 { key(number) } else { upper(number) };
            db.put(key, value(number + 1000 * round, LONG)).unwrap();
        }
        lsm_of(&db).settle_for_test().unwrap();
        held = held.or_else(|| Some(db.snapshot()));
    }
    db.compact_range(..).unwrap();
    assert!(stats(&db).referred_logs > 3, "{:?}", stats(&db));
    let held = held.unwrap();
    for number in 0..100 {
        for key in [key(number), upper(number)] {
            assert!(db.get(&key).unwrap().as_deref() == Some(&value(number + 1000, LONG)[..]), "{number}");
            assert!(held.get(&key).unwrap().as_deref() == Some(&value(number, LONG)[..]), "{number}");
        }
    }
    let keys = |pairs: Model| pairs.into_keys().collect::<Vec<_>>();
    let (lower, upper): (Vec<_>, Vec<_>) = (0..100).map(|number| (key(number), upper(number))).unzip();
    assert!(keys(all(db.range(..))) == upper && keys(all(db.range(..).rev())) == upper);
    assert!(keys(all(held.range(..))) == lower && keys(all(held.range(..).rev())) == lower);
}

/// The tables that say which files they replace stay as long as a log is there that other tables refer to.
#[test]
fn a_repair_without_a_manifest_brings_nothing_back_from_logs_that_tables_refer_to() {
    let disk = MemVfs::without_history();
    let (db, mut model) = (open(&disk), Model::new());
    // Merges at fixed places: which tables are empty depends on them.
    lsm_of(&db).without_merges_for_test(|| {
        // Long keys make many guards.
        for number in scattered(300) {
            let (key, value) = ([key(number), vec![b'x'; 300]].concat(), value(number, 3 * LONG));
            db.put(&key, &value).unwrap();
            model.insert(key, value);
        }
        lsm_of(&db).settle_for_test().unwrap();
        db.compact_range(..).unwrap();
        assert!(lsm_of(&db).view().shape.groups().count() > 4);
        db.delete_range(key(100)..key(200)).unwrap();
        model.retain(|at, _| *at < key(100) || *at >= key(200));
        db.compact_range(..).unwrap();
        assert!(stats(&db).referred_logs > 3, "{:?}", stats(&db));
        for number in 0..6 {
            db.put(key(1000 + number), "short").unwrap();
            model.insert(key(1000 + number), b"short".to_vec());
            db.sync().unwrap();
            lsm_of(&db).settle_for_test().unwrap();
            db.sync().unwrap();
            lsm_of(&db).settle_for_test().unwrap();
        }
    });
    let view = lsm_of(&db).view();
    let are_left = view.tables().any(|run| matches!(&run.source, Source::Table(table) if table.is_empty()));
    assert!(are_left, "no table says which files it replaces");
    drop(view);
    assert_is(&db, &model, "before");
    db.close().unwrap();
    for name in disk.list(Path::new("store")).unwrap() {
        if name.starts_with("MANIFEST") {
            disk.remove(&Path::new("store").join(name)).unwrap();
        }
    }
    let options =
        Options::new().default_keyspace(KeyspaceOptions::new().layout(flsm())).vfs(Arc::new(disk.clone()));
    Db::repair("store", "repaired", options.clone()).unwrap();
    let found = all(options.open("repaired").unwrap().range(..));
    let back = found.keys().filter(|key| !model.contains_key(*key)).count();
    assert!(found == model, "{back} deleted keys came back, {} of {} were found", found.len(), model.len());
}

/// A log that is mostly older versions of its keys is not kept for the newest, even if a snapshot sees some.
#[test]
fn older_versions_of_keys_do_not_keep_their_log() {
    for is_level_0 in [true, false] {
        let disk = MemVfs::without_history();
        let layout = flsm().log_is_level_0(is_level_0);
        let (db, mut model) = (open_with(&disk, KeyspaceOptions::new().layout(layout)), Model::new());
        let lsm = lsm_of(&db);
        lsm.without_merges_for_test(|| {
            let mut held = Vec::new();
            for round in 0..60 {
                fill(&db, &mut model, 0..3, round);
                held.push(db.snapshot());
            }
            lsm.merge_logs_for_test().unwrap();
        });
        // The last log may be a short one.
        assert!(stats(&db).referred_logs <= 1, "{is_level_0}: {:?}", stats(&db));
        assert_is(&db, &model, "merged");
    }
}

#[test]
fn the_bytes_of_a_range_include_values_in_logs() {
    let disk = MemVfs::without_history();
    let (db, mut model) = (open(&disk), Model::new());
    fill(&db, &mut model, scattered(300), 0);
    db.compact_range(..).unwrap();
    assert!(stats(&db).referred_bytes > 290 * LONG as u64, "{:?}", stats(&db));
    let bytes = db.approximate_bytes(..).unwrap();
    assert!(bytes > 300 * LONG as u64 && bytes < 320 * LONG as u64, "{bytes}");
    let bytes = db.approximate_bytes(key(100)..key(200)).unwrap();
    assert!(bytes > 70 * LONG as u64 && bytes < 130 * LONG as u64, "{bytes}");
}

/// A range of few bytes in tables may have many in logs.
#[test]
fn a_range_delete_of_a_part_of_the_long_values_frees_their_space() {
    let disk = MemVfs::without_history();
    let layout = KeyspaceOptions::new().layout(flsm().guard_bytes(64 << 10)).space_amplification(1.2);
    let db = open_with(&disk, layout);
    let long = 4 * LONG + 1000;
    let mut model = Model::new();
    for number in scattered(400) {
        let value = value(number, long);
        db.put(key(number), &value).unwrap();
        model.insert(key(number), value);
    }
    db.compact_range(..).unwrap();
    assert!(stats(&db).referred_bytes > 390 * long as u64, "{:?}", stats(&db));
    db.delete_range(key(10)..key(310)).unwrap();
    model.retain(|at, _| *at < key(10) || *at >= key(310));
    for _ in 0..10 {
        lsm_of(&db).settle_for_test().unwrap();
        db.sync().unwrap();
    }
    let bytes: u64 = logs(&disk).iter().map(|path| disk.metadata(path).unwrap().unwrap().len).sum();
    assert!(bytes < 200 * long as u64, "{bytes} bytes of logs, {:?}", stats(&db));
    assert_is(&db, &model, "freed");
}

/// The manifest may say that a log is longer than it is.
#[test]
fn a_log_that_is_too_short_is_damage() {
    let disk = MemVfs::without_history();
    let (db, mut model) = (open(&disk), Model::new());
    fill(&db, &mut model, scattered(300), 0);
    db.compact_range(..).unwrap();
    let view = lsm_of(&db).view();
    let mut cut: Vec<PathBuf> =
        view.tables().flat_map(|run| run.referred()).map(|referred| referred.log.path.clone()).collect();
    drop(view);
    cut.sort();
    cut.dedup();
    db.close().unwrap();
    for path in &cut {
        let file = disk.open(path, OpenMode::ReadWrite).unwrap();
        file.set_len(file.len().unwrap() / 2).unwrap();
    }
    let db = open(&disk);
    let (mut found, mut behind) = (0, 0);
    for (key, value) in &model {
        match db.get(key) {
            Ok(read) => found += u64::from(read.as_deref() == Some(&value[..])),
            Err(error) => {
                assert!(error.is_corruption(), "{error}");
                behind += u64::from(error.to_string().contains("behind the end of the log"));
            }
        }
    }
    assert!(found > 100 && behind > 100 && found + behind == 300, "{found} found, {behind} behind the end");
    assert!(!db.verify().unwrap().is_ok());
}

/// A guard has few bytes for many long values. If these are copied, they become many tables.
#[test]
fn values_that_are_copied_are_divided_among_tables() {
    let disk = MemVfs::without_history();
    let (db, mut model) = (open(&disk), Model::new());
    fill(&db, &mut model, scattered(300), 0);
    db.compact_range(..).unwrap();
    // A log in key order may be one beside the table.
    assert!(lsm_of(&db).view().tables().count() < 10);
    db.close().unwrap();
    let compressed = KeyspaceOptions::new().layout(flsm()).compression(crate::Compression::Lz4);
    let db = open_with(&disk, compressed);
    // Each guard has one of them: a guard that is sorted already stays as it is.
    for number in scattered(300).filter(|number| number % 10 == 0) {
        db.put(key(number), "short").unwrap();
        model.insert(key(number), b"short".to_vec());
    }
    db.compact_range(..).unwrap();
    assert_eq!(stats(&db).referred_logs, 0);
    let tables = lsm_of(&db).view().tables().count();
    assert!((20..80).contains(&tables), "{tables}");
    assert_is(&db, &model, "copied");
}

/// Values are overwritten at random under each bound, with snapshots that are open for a while. By the estimate, that
/// is: the door `space` of the fault lab measures files.
#[test]
#[expect(clippy::disallowed_methods, reason = "maintenance of another thread is waited for")]
fn the_bound_on_space_is_kept_and_reached() {
    for (seed, amplification) in [1.1, 1.5, 3.0].into_iter().enumerate() {
        let mut rng = Rng::new(seed as u64);
        let mut below = move |bound: u64| rng.below(bound);
        let disk = MemVfs::without_history();
        let keyspace = || KeyspaceOptions::new().layout(flsm()).space_amplification(amplification);
        let (mut db, mut model) = (open_with(&disk, keyspace()), Model::new());
        let mut held: Vec<(Snapshot, Model)> = Vec::new();
        for step in 0..4000 {
            let number = below(400);
            match below(200) {
                0..190 => {
                    let bytes = if below(10) == 0 { 40 } else { 1500 + below(4000) as usize };
                    let value = value(step, bytes);
                    db.put(key(number), &value).unwrap();
                    model.insert(key(number), value);
                }
                190..194 => {
                    let end = number + below(60);
                    db.delete_range(key(number)..key(end)).unwrap();
                    model.retain(|at, _| *at < key(number) || *at >= key(end));
                }
                194 if held.len() < 3 => held.push((db.snapshot(), model.clone())),
                195 if !held.is_empty() => {
                    let (snapshot, model) = held.swap_remove(below(held.len() as u64) as usize);
                    assert!(all(snapshot.range(..)) == model, "{amplification}, step {step}: a snapshot");
                }
                196 if below(4) == 0 => {
                    held.clear();
                    db.close().unwrap();
                    db = open_with(&disk, keyspace());
                }
                197 => db.sync().unwrap(),
                _ => {}
            }
        }
        held.clear();
        let lsm = lsm_of(&db);
        lsm.merge_logs_for_test().unwrap();
        let mut merges = 0;
        while lsm.merge_tables(crate::lsm::merge::Trigger::Asked).unwrap() {
            merges += 1;
            assert!(merges < 3000, "{amplification}: merges have no end: {:?}", stats(&db));
        }
        assert_is(&db, &model, "settled");
        let space = lsm.view().shape.space(&lsm.rules());
        assert!(!space.exceeds(amplification + 0.1), "{amplification}: {space:?}, {:?}", stats(&db));
        drop(lsm);
        db.delete_range(..).unwrap();
        db.compact_range(..).unwrap();
        db.sync().unwrap();
        let keyspace = db.stats().keyspaces.remove(0);
        assert_eq!((keyspace.unclaimed_bytes, stats(&db).referred_logs), (0, 0), "{amplification}");
        let are_gone = (0..1200).any(|_| {
            db.sync().unwrap();
            std::thread::sleep(Duration::from_millis(50));
            logs(&disk).len() < 4
        });
        assert!(are_gone, "{:?}", logs(&disk));
    }
}

/// A merge only refers to them, so it asks a full disk for no room for them, before and after an opening. By their
/// length they make one due: what is garbage in a log may not be known.
#[test]
fn long_values_take_no_room() {
    let disk = MemVfs::without_history();
    for opening in 0..2 {
        let db = open(&disk);
        let lsm = lsm_of(&db);
        lsm.without_merges_for_test(|| {
            for number in 3 * opening..3 * (opening + 1) {
                db.put(key(number), value(number, 1 << 20)).unwrap();
                db.put(key(100 + number), value(number, 20)).unwrap();
            }
            lsm.seal_for_test().unwrap();
            let view = lsm.view();
            let ripe = lsm.ripe_logs(&view);
            let (all, merged) = (view.level0_bytes(), lsm.merged_bytes(&ripe));
            assert!(all > (opening + 1) * (3 << 20) && merged < 8 << 10, "{merged} of {all} bytes");
            assert!(lsm.are_logs_due(&view, &ripe));
        });
        db.close().unwrap();
    }
}

/// Its log gets nothing more: whatever is written before and after it, it makes up more of its log than five sixths.
#[test]
fn a_value_longer_than_five_generations_is_never_copied() {
    never_copied(false);
}

/// The halves of a log that was adopted, and then divided among guards, would count as equally long.
#[test]
fn a_log_in_key_order_with_a_long_value_is_merged() {
    never_copied(true);
}

fn never_copied(in_order: bool) {
    const LONGEST: usize = 10 * (32 << 10);
    let disk = MemVfs::without_history();
    let (db, mut model) = (open(&disk), Model::new());
    for round in 0..8 {
        for number in 0..200 {
            // After less than half a generation of short pairs.
            if (round, number) == (0, 100) {
                model.insert(key(1000), value(1000, LONGEST));
                db.put(key(1000), &model[&key(1000)]).unwrap();
                if in_order {
                    lsm_of(&db).settle_for_test().unwrap();
                    let own = stats(&db);
                    assert_eq!((own.logs_adopted, own.values_referred), (0, 1), "{own:?}");
                }
            }
            model.insert(key(number), value(number + 1000 * round, 100));
            db.put(key(number), &model[&key(number)]).unwrap();
        }
        lsm_of(&db).settle_for_test().unwrap();
    }
    db.compact_range(..).unwrap();
    let own = stats(&db);
    assert_eq!((own.values_copied, own.referred_logs), (0, 1), "{own:?}");
    assert!(own.values_referred > 0 && own.referred_bytes < LONGEST as u64 * 6 / 5, "{own:?}");
    assert_is(&db, &model, "rewritten around the value");
}
