//! Loads in key order: logs become runs of guards as they are.

use super::tests::{Model, all, assert_is, guards, key, lsm_of, open, open_with, stats, value};
use crate::layout::options::FlsmOptions;
use crate::run::run::Run;
use crate::sync::random::Rng;
use crate::types::compression::Compression;
use crate::vfs::{CrashPlan, MemVfs};
use crate::{Db, KeyspaceOptions};

fn load(db: &Db, keys: impl Iterator<Item = u64>) -> Model {
    let pairs: Model = keys.map(|number| (key(number), value(number, 150))).collect();
    for (key, value) in &pairs {
        db.put(key, value).unwrap();
    }
    lsm_of(db).settle_for_test().unwrap();
    pairs
}

fn table_bytes_written(db: &Db) -> u64 {
    db.own().layout.stats().table_bytes_written
}

/// PebblesDB §4.6: the published code writes six times what it loads in key order.
#[test]
fn a_load_in_key_order_is_written_once() {
    let disk = MemVfs::new();
    let db = open(&disk);
    let model = load(&db, 0..2000);
    assert!(stats(&db).logs_adopted > 10, "{:?}", stats(&db));
    assert!(table_bytes_written(&db) < 20_000, "the last log is short, and merged");
    let stored = db.own().layout.stats();
    assert!(stored.log_bytes_written < stored.user_bytes_written * 115 / 100);
    assert_is(&db, &model, "loaded");
    let view = lsm_of(&db).view();
    let most = view.shape.guards().map(|guard| guard.bytes()).max().unwrap();
    assert!(most < 3 * (16 << 10), "a guard of {most} bytes");
    assert!(view.tables().filter_map(Run::log).count() > 10);
    drop(view);
    // A compaction that is asked for makes tables of them.
    let killed = open(&disk.kill());
    killed.compact_range(..).unwrap();
    assert_is(&killed, &model, "compacted");
    assert_eq!(lsm_of(&killed).view().tables().filter_map(Run::log).count(), 0);
    drop(killed);
    // A later load before it, another behind it, and one between its keys that is merged.
    let mut model = model;
    model.extend(load(&db, 90_000..90_500));
    model.extend(load(&db, (2000..3000).step_by(2)));
    let written = table_bytes_written(&db);
    model.extend(load(&db, (2001..3000).step_by(2)));
    assert!(table_bytes_written(&db) > written);
    assert_is(&db, &model, "loaded in pieces");
    assert!(db.verify().unwrap().entries as usize >= model.len());
}

/// Writers that take the next key in turns are a little out of order, and reach into each other's
/// logs.
#[test]
fn a_load_by_several_writers_in_key_order_is_written_once() {
    let disk = MemVfs::without_history();
    // A log gets longer if its rotation is late. A guard of it must not count as long.
    let layout = FlsmOptions::new().generation_bytes(64 << 10).guard_bytes(256 << 10);
    let db = open_with(&disk, KeyspaceOptions::new().layout(layout));
    let mut model = Model::new();
    for first in (0..8000).step_by(4) {
        // Four writers, which finish in this order.
        for number in [first + 1, first + 3, first, first + 2] {
            // Many lengths, so that logs end anywhere among the four.
            let value = value(number, 100 + (number * 7919 % 101) as usize);
            db.put(key(number), &value).unwrap();
            model.insert(key(number), value);
        }
    }
    lsm_of(&db).settle_for_test().unwrap();
    assert!(stats(&db).logs_adopted > 5, "{:?}", stats(&db));
    assert!(table_bytes_written(&db) < 100_000, "{}", table_bytes_written(&db));
    // Before reads pay for the merge of those.
    let view = lsm_of(&db).view();
    assert!(view.shape.guards().any(|guard| guard.runs.len() > 1), "no log reaches into another");
    drop(view);
    assert_is(&db, &model, "loaded");
    for number in 0..8000 {
        db.put(key(number * 7919 % 8000), "new").unwrap();
        model.insert(key(number), b"new".to_vec());
    }
    db.compact_range(..).unwrap();
    assert_is(&db, &model, "updated");
}

/// Writers that take some keys at a time, one of which is late: no operation stands beside its neighbours.
#[test]
fn a_load_by_writers_of_many_keys_at_a_time_is_written_once() {
    let disk = MemVfs::without_history();
    // As above.
    let layout = FlsmOptions::new().generation_bytes(256 << 10).guard_bytes(1 << 20);
    let db = open_with(&disk, KeyspaceOptions::new().layout(layout));
    let mut numbers: Vec<u64> = (0..24_000).collect();
    for turns in numbers.chunks_exact_mut(80) {
        let first = turns[0];
        (0..80).for_each(|at| turns[at as usize] = first + at % 2 * 40 + at / 2);
    }
    let late: Vec<u64> = numbers.drain(2000..2040).collect();
    numbers.splice(2400..2400, late);
    let mut model = Model::new();
    for number in numbers {
        db.put(key(number), value(number, 150)).unwrap();
        model.insert(key(number), value(number, 150));
    }
    lsm_of(&db).settle_for_test().unwrap();
    assert!(stats(&db).logs_adopted > 10, "{:?}", stats(&db));
    assert!(table_bytes_written(&db) < 400_000, "the last log is merged: {}", table_bytes_written(&db));
    assert_is(&db, &model, "loaded");
    let killed = open(&disk.kill());
    assert_is(&killed, &model, "killed");
}

#[test]
fn adopted_logs_are_there_after_a_kill_a_close_and_a_loss_of_power() {
    let disk = MemVfs::new();
    let db = open(&disk);
    let mut model = load(&db, 0..500);
    db.sync().unwrap();
    let synced = model.clone();
    model.extend(load(&db, 500..1000));
    assert!(stats(&db).logs_adopted > 5);
    let (lost, killed) = (disk.crash(&CrashPlan::LOSE_UNSYNCED), disk.kill());
    db.close().unwrap();
    drop(db);
    assert!(all(open(&lost).range(..)) == synced);
    for disk in [killed, disk] {
        let db = open(&disk);
        let adopted = |db: &Db| lsm_of(db).view().tables().filter_map(Run::log).count();
        assert!(adopted(&db) > 5);
        assert_is(&db, &model, "reopened");
        // Updates of every key rewrite them.
        let mut model = model.clone();
        for number in (0..1000).map(|step| step * 7919 % 1000) {
            db.put(key(number), value(number + 1, 150)).unwrap();
            model.insert(key(number), value(number + 1, 150));
        }
        lsm_of(&db).settle_for_test().unwrap();
        db.compact_range(..).unwrap();
        assert_is(&db, &model, "updated");
        assert_eq!(adopted(&db), 0);
        db.close().unwrap();
        drop(db);
        assert_is(&open(&disk), &model, "updated and reopened");
    }
}

/// Logs are not compressed.
#[test]
fn a_keyspace_that_compresses_rewrites_logs_in_key_order() {
    let disk = MemVfs::new();
    let layout = FlsmOptions::new().generation_bytes(8 << 10);
    let db = open_with(&disk, KeyspaceOptions::new().layout(layout).compression(Compression::Lz4));
    let model = load(&db, 0..500);
    assert_eq!(stats(&db).logs_adopted, 0);
    assert!(table_bytes_written(&db) > 0);
    assert_is(&db, &model, "loaded");
    // The last log is compressed once nobody writes.
    db.put("a", vec![7; 2000]).unwrap();
    let deadline = crate::sync::time::now() + std::time::Duration::from_secs(60);
    while !lsm_of(&db).view().level0.is_empty() && crate::sync::time::now() < deadline {
        db.tick_for_test();
    }
    assert!(lsm_of(&db).view().level0.is_empty());
}

/// Tables in a level above cover less than the guards: those that lie within one guard below move.
#[test]
fn tables_that_lie_within_one_guard_below_move_there() {
    let disk = MemVfs::new();
    let db = open(&disk);
    let mut model = load(&db, (0..6000).map(|number| 3 * number));
    let mut random = Rng::new(3);
    while lsm_of(&db).view().shape.levels.len() < 2 || stats(&db).tables_moved == 0 {
        // Updates of few neighbouring keys at a time.
        let from = random.below(5000);
        for number in (from..from + 100).rev() {
            db.put(key(number), value(number, 150)).unwrap();
            model.insert(key(number), value(number, 150));
        }
        lsm_of(&db).settle_for_test().unwrap();
        assert!(model.len() < 20_000, "{:?}", guards(&db));
    }
    assert_is(&db, &model, "moved");
}
