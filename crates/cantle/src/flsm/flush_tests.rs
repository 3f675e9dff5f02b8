//! Generations that are flushed to tables of level 0.

use super::tests::{Model, all, lsm_of, open_with, overwrite_in_threads, stats, write_and_compare};
use crate::format::header::FileKind;
use crate::layout::options::FlsmOptions;
use crate::run::run::Run;
use crate::sync::Arc;
use crate::sync::random::Rng;
use crate::vfs::{CrashPlan, MemVfs, Vfs};
use crate::{Db, KeyspaceOptions, Options, Snapshot, WriteBatch};
use std::path::Path;

fn small() -> FlsmOptions {
    FlsmOptions::new().generation_bytes(8 << 10).guard_bytes(16 << 10).max_sstables_per_guard(3)
}

/// Every generation is flushed.
fn flushing(disk: &MemVfs) -> Db {
    open_with(disk, KeyspaceOptions::new().layout(small().log_is_level_0(false)))
}

/// Only those of tiny pairs are.
fn usual(disk: &MemVfs) -> Db {
    open_with(disk, KeyspaceOptions::new().layout(small()))
}

/// Scattered keys of 8 bytes.
fn key(number: u64) -> [u8; 8] {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()
}

fn put(db: &Db, model: &mut Model, number: u64, value: &[u8]) {
    db.put(key(number), value).unwrap();
    model.insert(key(number).to_vec(), value.to_vec());
}

/// The kinds of the files of level 0, newest first.
fn level0(db: &Db) -> Vec<FileKind> {
    let kind = |run: &Run| if run.log().is_some() { FileKind::Log } else { FileKind::Table };
    lsm_of(db).view().level0.iter().map(kind).collect()
}

/// Seals and flushes the active generation. No merge takes it.
fn flush(db: &Db) {
    lsm_of(db).seal_for_test().unwrap();
}

fn files(disk: &MemVfs, ending: &str) -> usize {
    disk.list(Path::new("store")).unwrap().iter().filter(|name| name.ends_with(ending)).count()
}

#[test]
fn a_keyspace_whose_generations_are_flushed_is_what_was_written_to_it() {
    write_and_compare(&flushing, 20..24);
}

#[test]
fn tiny_pairs_are_flushed_and_longer_ones_are_not() {
    for (value_bytes, is_flushed) in [(8, true), (24, true), (60, false), (128, false)] {
        let disk = MemVfs::new();
        let db = usual(&disk);
        let mut model = Model::new();
        (0..3000).for_each(|number| put(&db, &mut model, number, &vec![number as u8; value_bytes]));
        lsm_of(&db).settle_for_test().unwrap();
        let stats = stats(&db);
        assert_eq!(stats.generations_flushed > 5, is_flushed, "{value_bytes}: {stats:?}");
        assert_eq!(stats.flushed_bytes > 0, is_flushed);
        assert!(all(db.range(..)) == model);
    }
}

/// A table is a file of its own, and closing a store would sync each.
#[test]
fn a_short_log_of_tiny_pairs_gets_an_index() {
    let disk = MemVfs::new();
    let db = usual(&disk);
    let mut model = Model::new();
    (0..30).for_each(|number| put(&db, &mut model, number, b"tiny"));
    flush(&db);
    let stats = stats(&db);
    assert_eq!((stats.generations_sealed, stats.generations_flushed), (1, 0));
    assert!(all(db.range(..)) == model);
}

/// Random writes of tiny pairs, kills and merges, beside a list of what was written.
#[test]
fn tiny_pairs_are_what_was_written_through_flushes_and_merges() {
    for seed in 0..4 {
        let mut rng = Rng::new(seed);
        let mut disk = MemVfs::new();
        let (mut db, mut model) = (usual(&disk), Model::new());
        let mut held: Vec<(Snapshot, Model)> = Vec::new();
        let mut flushed = 0;
        for step in 0..12_000u64 {
            let number = rng.below(2000);
            match rng.below(100) {
                0..80 => put(&db, &mut model, number, &step.to_le_bytes()[..rng.below(8) as usize]),
                80..92 => {
                    db.delete(key(number)).unwrap();
                    model.remove(&key(number)[..]);
                }
                92..94 => {
                    let mut batch = WriteBatch::new();
                    for number in number..number + 5 {
                        batch.put(key(number), "batch");
                        model.insert(key(number).to_vec(), b"batch".to_vec());
                    }
                    db.write(batch).unwrap();
                }
                94 => {
                    let start = key(number);
                    let end = u64::from_be_bytes(start).saturating_add(u64::MAX / 50).to_be_bytes();
                    db.delete_range(start..end).unwrap();
                    model.retain(|at, _| *at < start.to_vec() || *at >= end.to_vec());
                }
                95 if held.len() < 4 => held.push((db.snapshot(), model.clone())),
                96 if rng.below(4) == 0 => db.sync().unwrap(),
                97 if rng.below(8) == 0 => lsm_of(&db).settle_for_test().unwrap(),
                98 if rng.below(20) == 0 => {
                    flushed += stats(&db).generations_flushed;
                    held.clear();
                    let killed = disk.kill();
                    drop(db);
                    disk = killed;
                    db = usual(&disk);
                    assert!(all(db.range(..)) == model, "seed {seed}, step {step}: killed");
                }
                _ => {}
            }
            if step % 1000 == 0 {
                for (snapshot, model) in &held {
                    assert!(all(snapshot.range(..)) == *model, "seed {seed}, step {step}: a snapshot");
                }
            }
        }
        flushed += stats(&db).generations_flushed;
        assert!(flushed > 10, "seed {seed}: {flushed} generations flushed");
        assert!(all(db.range(..)) == model && all(db.range(..).rev()) == model);
        for number in 0..2000 {
            assert_eq!(
                db.get(key(number)).unwrap().as_deref(),
                model.get(&key(number)[..]).map(|value| &value[..])
            );
        }
        assert!(db.verify().unwrap().is_ok());
        held.clear();
        db.compact_range(..).unwrap();
        assert!(all(db.range(..)) == model, "compacted");
    }
}

/// Invariant *recency*: the table takes the place of its log, and not the top.
#[test]
fn a_generation_that_is_flushed_late_stays_below_newer_ones() {
    let disk = MemVfs::new();
    let db = flushing(&disk);
    let lsm = lsm_of(&db);
    lsm.without_merges_for_test(|| {
        db.put("a", "old").unwrap();
        db.put("b", "old").unwrap();
        flush(&db);
        db.put("b", "older").unwrap();
        lsm.rotation_for_test();
        db.put("b", "new").unwrap();
        flush_but_the_active(&db);
        assert_eq!(level0(&db), [FileKind::Log, FileKind::Table, FileKind::Table]);
        let is_right = |db: &Db| {
            let value = |key: &str| db.get(key).unwrap().map(|value| value.to_vec());
            assert_eq!((value("a"), value("b")), (Some(b"old".to_vec()), Some(b"new".to_vec())));
            assert_eq!(all(db.range(..)).len(), 2);
        };
        is_right(&db);
        // The manifest as it is, and as a checkpoint writes it anew.
        let reopened = flushing(&disk.kill());
        assert_eq!(level0(&reopened)[1..], [FileKind::Table, FileKind::Table]);
        is_right(&reopened);
        db.sync().unwrap();
        let lost = flushing(&disk.crash(&CrashPlan::LOSE_UNSYNCED));
        is_right(&lost);
        lsm_of(&lost).settle_for_test().unwrap();
        assert!(level0(&lost).is_empty());
        is_right(&lost);
    });
}

fn flush_but_the_active(db: &Db) {
    lsm_of(db).index_sealed_for_test().unwrap();
}

#[test]
fn a_loss_of_power_after_a_flush_returns_to_the_log_of_the_checkpoint() {
    let disk = MemVfs::new();
    let db = flushing(&disk);
    lsm_of(&db).without_merges_for_test(|| {
        let mut model = Model::new();
        (0..50).for_each(|number| put(&db, &mut model, number, b"first"));
        db.sync().unwrap();
        let before = model.clone();
        (25..75).for_each(|number| put(&db, &mut model, number, b"second"));
        flush(&db);
        assert_eq!(level0(&db), [FileKind::Table]);
        let (lost, killed) = (disk.crash(&CrashPlan::LOSE_UNSYNCED), disk.kill());
        assert_eq!(files(&lost, ".log"), 1, "the log is held until the next checkpoint");
        assert!(all(flushing(&lost).range(..)) == before);
        let reopened = flushing(&killed);
        assert_eq!(level0(&reopened), [FileKind::Table]);
        assert!(all(reopened.range(..)) == model);
        // The checkpoint frees the log; its removal lasts after the one after that.
        (0..3).for_each(|_| db.sync().unwrap());
        let lost = disk.crash(&CrashPlan::LOSE_UNSYNCED);
        assert_eq!((files(&lost, ".log"), files(&lost, ".table")), (0, 1));
        assert!(all(flushing(&lost).range(..)) == model);
    });
}

#[test]
fn snapshots_and_transactions_see_the_same_after_a_flush() {
    let disk = MemVfs::new();
    let db = flushing(&disk);
    let mut model = Model::new();
    (0..40).for_each(|number| put(&db, &mut model, number, b"first"));
    let (before, seen) = (db.snapshot(), model.clone());
    let unchanged = db.transaction();
    let changed = db.transaction();
    let ranged = db.transaction();
    assert_eq!(unchanged.get(key(1)).unwrap().as_deref(), Some(&b"first"[..]));
    assert_eq!(changed.get(key(20)).unwrap().as_deref(), Some(&b"first"[..]));
    assert!(ranged.range(key(30)..=key(30)).count() == 1);
    (20..40).for_each(|number| put(&db, &mut model, number, b"second"));
    db.delete_range(key(30)..=key(30)).unwrap();
    model.remove(&key(30)[..]);
    flush(&db);
    assert_eq!(stats(&db).level0_tables, 1);
    assert!(all(before.range(..)) == seen && all(db.range(..)) == model);
    for (transaction, is_to_conflict) in [(unchanged, false), (changed, true), (ranged, true)] {
        transaction.put("own", "value").unwrap();
        assert_eq!(transaction.commit().is_err(), is_to_conflict);
    }
}

#[test]
fn a_range_delete_is_flushed_with_its_generation() {
    let disk = MemVfs::new();
    let db = flushing(&disk);
    let mut model = Model::new();
    (0..200).for_each(|number| put(&db, &mut model, number, b"value"));
    db.compact_range(..).unwrap();
    lsm_of(&db).without_merges_for_test(|| {
        db.delete_range(key(3)..).unwrap();
        model.retain(|at, _| *at < key(3).to_vec());
        flush(&db);
        // Nothing but the range delete.
        assert_eq!(level0(&db), [FileKind::Table]);
        put(&db, &mut model, 3, b"after");
        flush(&db);
        assert!(all(db.range(..)) == model);
        assert!(all(flushing(&disk.kill()).range(..)) == model);
    });
    lsm_of(&db).settle_for_test().unwrap();
    assert!(level0(&db).is_empty() && all(db.range(..)) == model);
}

/// PebblesDB §4.6: the published code writes six times what it loads in key order.
#[test]
fn a_load_of_tiny_pairs_in_key_order_is_written_once() {
    let disk = MemVfs::without_history();
    let db = usual(&disk);
    for number in 0..20_000u64 {
        db.put(number.to_be_bytes(), number.to_le_bytes()).unwrap();
    }
    lsm_of(&db).settle_for_test().unwrap();
    let written = db.own().layout.stats();
    assert_eq!(stats(&db).generations_flushed, 0);
    assert!(stats(&db).logs_adopted > 10, "{:?}", stats(&db));
    assert!(written.table_bytes_written < 20_000, "the last log is short, and merged");
    // A pair of 16 bytes is a record of 30.
    assert!(written.log_bytes_written < written.user_bytes_written * 220 / 100, "{written:?}");
}

#[test]
fn a_flushed_generation_takes_fewer_bytes_than_its_log_and_index() {
    let written = |layout: FlsmOptions| {
        let db = open_with(
            &MemVfs::without_history(),
            KeyspaceOptions::new().layout(layout.generation_bytes(64 << 10)),
        );
        lsm_of(&db).without_merges_for_test(|| {
            (0..8000).for_each(|number| db.put(key(number), number.to_le_bytes()).unwrap());
            lsm_of(&db).seal_for_test().unwrap();
        });
        let stats = db.own().layout.stats();
        (
            stats.log_bytes_written,
            stats.table_bytes_written,
            lsm_of(&db).merged_bytes(&lsm_of(&db).view().level0),
        )
    };
    let (logs, tables, kept) = written(small());
    assert!(logs < 8000 * 32 && tables > 8000 * 20, "{logs} {tables}");
    assert!(kept < logs, "{kept}: tables are shorter than the logs were");
}

#[test]
fn the_memory_of_a_generation_is_free_after_its_flush() {
    let disk = MemVfs::new();
    let db = flushing(&disk);
    let memtables = lsm_of(&db).substrate.budget.logs.memtables.clone();
    lsm_of(&db).without_merges_for_test(|| {
        (0..100).for_each(|number| db.put(key(number), "value").unwrap());
        let used = memtables.used_bytes();
        assert!(used > 0);
        flush(&db);
        assert!(memtables.used_bytes() < used / 10, "{} of {used} bytes", memtables.used_bytes());
    });
}

#[test]
fn on_a_full_disk_a_generation_gets_an_index_and_stays_readable() {
    let disk = Arc::new(MemVfs::new());
    // There is room for an index, and not for a table, though a checkpoint may free the first log.
    let layout = small().log_is_level_0(false).generation_bytes(256 << 10);
    let options = Options::new().default_keyspace(KeyspaceOptions::new().layout(layout));
    let db = options.vfs(disk.clone()).background_threads(1).open("store").unwrap();
    let mut model = Model::new();
    lsm_of(&db).without_merges_for_test(|| {
        (0..20).for_each(|number| put(&db, &mut model, number, &[7; 1000]));
        db.sync().unwrap();
        (0..200).for_each(|number| put(&db, &mut model, number, &[8; 1000]));
        let flushed = stats(&db).generations_flushed;
        disk.set_capacity_bytes(Some(disk.allocated_bytes() + (64 << 10)));
        flush(&db);
        assert_eq!(stats(&db).generations_flushed, flushed);
        assert_eq!(level0(&db)[0], FileKind::Log, "with an index");
        assert!(all(db.range(..)) == model);
        disk.set_capacity_bytes(None);
        put(&db, &mut model, 1, b"again");
        flush(&db);
        assert_eq!(level0(&db)[0], FileKind::Table);
        assert!(all(db.range(..)) == model);
    });
}

#[test]
fn a_repair_without_a_manifest_knows_a_flushed_generation() {
    let disk = MemVfs::new();
    let db = flushing(&disk);
    let mut model = Model::new();
    (0..200).for_each(|number| put(&db, &mut model, number, b"value"));
    db.compact_range(..).unwrap();
    lsm_of(&db).without_merges_for_test(|| {
        (50..60).for_each(|number| put(&db, &mut model, number, b"new"));
        for number in 60..80 {
            db.delete(key(number)).unwrap();
            model.remove(&key(number)[..]);
        }
        db.delete_range(key(100)..=key(100)).unwrap();
        model.remove(&key(100)[..]);
        flush(&db);
        put(&db, &mut model, 60, b"again");
        flush(&db);
        // Beside the log, and without it.
        for checkpoints in 0..2 {
            let damaged = disk.kill();
            for name in damaged.list(Path::new("store")).unwrap() {
                if name.starts_with("MANIFEST") {
                    damaged.remove(&Path::new("store").join(name)).unwrap();
                }
            }
            let layout = KeyspaceOptions::new().layout(FlsmOptions::new());
            let options = Options::new().default_keyspace(layout).vfs(Arc::new(damaged.clone()));
            let report = Db::repair("store", "repaired", options.clone()).unwrap();
            assert_eq!(report.may_return, []);
            let found = all(options.open("repaired").unwrap().range(..));
            assert!(found == model, "{} pairs of {} after {checkpoints}", found.len(), model.len());
            (0..3).for_each(|_| db.sync().unwrap());
        }
    });
}

#[test]
fn backups_and_checkpoints_have_flushed_generations() {
    let disk = MemVfs::new();
    let db = flushing(&disk);
    lsm_of(&db).without_merges_for_test(|| {
        let mut model = Model::new();
        (0..50).for_each(|number| put(&db, &mut model, number, b"value"));
        flush(&db);
        (40..60).for_each(|number| put(&db, &mut model, number, b"new"));
        db.backup("backup").unwrap();
        let copy = Options::new().vfs(Arc::new(disk.clone())).open("backup").unwrap();
        assert!(all(copy.range(..)) == model);
        assert!(level0(&copy).contains(&FileKind::Table));
        assert!(copy.verify().unwrap().is_ok());
        let level0 = &db.regions().unwrap()[0];
        assert_eq!((level0.level, level0.tables, level0.segments), (0, 1, 1));
        assert!(level0.table_bytes > 0 && level0.table_bytes <= db.approximate_bytes(..).unwrap());
        // A repair by the manifest.
        let options = Options::new().vfs(Arc::new(disk.kill()));
        assert_eq!(Db::repair("store", "repaired", options.clone()).unwrap().may_return, []);
        assert!(all(options.open("repaired").unwrap().range(..)) == model);
    });
}

#[test]
fn threads_that_write_while_generations_are_flushed_lose_nothing() {
    let disk = MemVfs::new();
    let db = flushing(&disk);
    overwrite_in_threads(&db, key, || (0..50).for_each(|_| lsm_of(&db).seal_for_test().unwrap()));
    lsm_of(&db).settle_for_test().unwrap();
    assert!(stats(&db).generations_flushed > 10, "{:?}", stats(&db));
    assert_eq!(db.range(..).count(), 1000);
}

/// A flush that runs while the keyspace is dropped leaves nothing.
#[test]
fn a_keyspace_that_is_dropped_while_it_is_flushed_is_gone() {
    let disk = MemVfs::new();
    let db = flushing(&disk);
    for round in 0..20 {
        let options = KeyspaceOptions::new().layout(small().log_is_level_0(false));
        let keyspace = db.keyspace_with("other", options).unwrap();
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| (0..2000).try_for_each(|number| keyspace.put(key(number), "value")));
            crate::sync::thread::sleep(std::time::Duration::from_millis(round));
            db.drop_keyspace("other").unwrap();
            let _ = writer.join().unwrap();
        });
    }
    (0..3).for_each(|_| db.sync().unwrap());
    assert!(db.verify().unwrap().is_ok());
    db.close().unwrap();
    drop(db);
    assert_eq!(files(&disk, ".table"), 0);
}
