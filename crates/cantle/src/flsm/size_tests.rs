//! Lengths of files and guards under several orders of keys, and files that guards share.

use super::tests::{Model, all, lsm_of, open_with, scattered, value};
use crate::layout::options::FlsmOptions;
use crate::run::run::Run;
use crate::sync::random::Rng;
use crate::vfs::MemVfs;
use crate::{Db, KeyspaceOptions};
use std::collections::BTreeMap;

const GUARD_BYTES: u64 = 64 << 10;
/// The least length of a fragment of one guard.
const FRAGMENT_BYTES: u64 = GUARD_BYTES / 16;

fn open(disk: &MemVfs) -> Db {
    let layout = FlsmOptions::new().generation_bytes(32 << 10).guard_bytes(GUARD_BYTES);
    open_with(disk, KeyspaceOptions::new().layout(layout))
}

/// One level, and logs so long that only the test merges them.
fn open_wide(disk: &MemVfs) -> Db {
    let layout = FlsmOptions::new().generation_bytes(4 << 20).guard_bytes(GUARD_BYTES);
    open_with(disk, KeyspaceOptions::new().layout(layout))
}

/// The keys of a load, by name of the distribution.
fn keys(kind: &str, count: u64) -> Vec<Vec<u8>> {
    let mut rng = Rng::new(7);
    let numbers = |next: Box<dyn FnMut(u64) -> u64>| (0..count).map(next);
    match kind {
        "uniform" => numbers(Box::new(move |_| rng.below(1 << 40))).map(of_number).collect(),
        // Few keys are most of the writes, and neighbours are alike popular.
        "zipf" => numbers(Box::new(move |_| (1 << 40) / (1 + rng.below(1 << 20)))).map(of_number).collect(),
        "sequential" => numbers(Box::new(|at| at)).map(of_number).collect(),
        // Times within a few popular and many rare applications.
        _ => {
            let composite = |at: u64| {
                let app = 400 / (1 + rng.below(400));
                format!("application {app:04}/{at:012}").into_bytes()
            };
            (0..count).map(composite).collect()
        }
    }
}

fn of_number(number: u64) -> Vec<u8> {
    format!("key {number:014}").into_bytes()
}

/// The lengths of the files of these runs, ascending.
fn lengths<'a>(runs: impl Iterator<Item = &'a Run>) -> Vec<u64> {
    let files: BTreeMap<u64, u64> = runs.map(|run| (run.file().id, run.file().bytes())).collect();
    let mut lengths: Vec<u64> = files.into_values().collect();
    lengths.sort_unstable();
    lengths
}

/// The lengths of the guards of the last level, ascending.
fn guards(db: &Db) -> Vec<u64> {
    let mut guards: Vec<u64> = lsm_of(db).view().shape.last().iter().map(|guard| guard.bytes()).collect();
    guards.sort_unstable();
    guards
}

/// PebblesDB §5.2, table 1, has a median of 5 MB and a 95th percentile of 68 MB.
#[test]
fn lengths_of_guards_stay_within_a_factor_of_four_whatever_the_order_of_keys() {
    for kind in ["uniform", "zipf", "sequential", "composite"] {
        let disk = MemVfs::without_history();
        let db = open(&disk);
        // Every run of the test does the same merges.
        lsm_of(&db).without_merges_for_test(|| {
            for (number, key) in keys(kind, 24_000).iter().enumerate() {
                db.put(key, value(number as u64, 100)).unwrap();
                if number % 700 == 699 {
                    lsm_of(&db).settle_for_test().unwrap();
                }
            }
            lsm_of(&db).settle_for_test().unwrap();
            let at = |sorted: &[u64], percent: usize| sorted[(sorted.len() - 1) * percent / 100];
            let told = |sorted: &[u64]| [0, 5, 50, 95, 100].map(|percent| at(sorted, percent));
            let files = lengths(lsm_of(&db).view().tables());
            println!("{kind}: {} guards {:?}", guards(&db).len(), told(&guards(&db)));
            println!("{kind}: {} files {:?}", files.len(), told(&files));
            let short = files.iter().filter(|bytes| **bytes < FRAGMENT_BYTES).count();
            assert!(short <= files.len() / 8, "{kind}: {short} short files of {}", files.len());
            for round in ["settled", "compacted"] {
                let guards = guards(&db);
                let [_, low, _, high, most] = told(&guards);
                assert!(guards.len() > 16, "{kind}, {round}: {} guards", guards.len());
                assert!(high <= 4 * low && most <= 4 * GUARD_BYTES, "{kind}, {round}: {:?}", told(&guards));
                db.compact_range(..).unwrap();
            }
        });
    }
}

/// A few short pairs for each of many guards, in one merge.
fn sprinkle(db: &Db, model: &mut Model) {
    for number in (0..24_000).step_by(300) {
        db.put(of_number(number), "new").unwrap();
        model.insert(of_number(number), "new".into());
    }
    lsm_of(db).merge_logs_for_test().unwrap();
}

/// Guards with one table each, of 24,000 keys.
fn filled(disk: &MemVfs) -> (Db, Model) {
    let db = open_wide(disk);
    let mut model = Model::new();
    for number in scattered(24_000) {
        db.put(of_number(number), value(number, 100)).unwrap();
        model.insert(of_number(number), value(number, 100));
    }
    db.compact_range(..).unwrap();
    (db, model)
}

/// The files that several guards have, and the number of these guards.
fn shared(db: &Db) -> BTreeMap<u64, usize> {
    let view = lsm_of(db).view();
    let mut users = BTreeMap::new();
    view.tables().for_each(|run| *users.entry(run.file().id).or_insert(0) += 1);
    users.retain(|_, users| *users > 1);
    users
}

#[test]
fn a_merge_with_few_entries_for_each_of_many_guards_writes_one_file() {
    let disk = MemVfs::new();
    let (db, mut model) = filled(&disk);
    let top = lsm_of(&db).view().shape.levels[0].len();
    assert!(top > 16 && shared(&db).is_empty(), "{top} guards, {:?}", shared(&db));
    sprinkle(&db, &mut model);
    let users = shared(&db);
    assert_eq!(users.values().copied().collect::<Vec<_>>(), [top], "one file, and all guards have a part");
    let of_shared = |db: &Db| -> u64 {
        let view = lsm_of(db).view();
        let runs: Vec<u64> = view.tables().filter_map(|run| run.share_bytes).collect();
        assert!(runs.iter().all(|&bytes| bytes > 0), "{runs:?}");
        runs.iter().sum()
    };
    let file_bytes = lengths(lsm_of(&db).view().tables())[0];
    assert!(of_shared(&db).abs_diff(file_bytes) < 200, "{} of {file_bytes} bytes", of_shared(&db));
    assert!(all(db.range(..)) == model && all(db.range(..).rev()) == model);
    let killed = disk.kill();
    drop(db);
    let db = open_wide(&killed);
    assert_eq!((shared(&db), all(db.range(..)) == model), (users, true));
    let unclaimed = |db: &Db| lsm_of(db).view().tables().map(Run::unclaimed_bytes).sum::<u64>();
    assert!(unclaimed(&db) < 200, "{}", unclaimed(&db));
    db.compact_range(..of_number(12_000)).unwrap();
    assert!(unclaimed(&db) > file_bytes / 4, "the parts that were merged: {} bytes", unclaimed(&db));
    assert!(all(db.range(..)) == model);
    db.compact_range(..).unwrap();
    assert!(shared(&db).is_empty() && unclaimed(&db) == 0);
    assert!(all(db.range(..)) == model && db.verify().unwrap().is_ok());
}

/// A table that serves several guards has the range deletes of all of them, and of those between.
#[test]
fn range_deletes_reach_the_guards_that_share_a_file() {
    let disk = MemVfs::without_history();
    let (db, mut model) = filled(&disk);
    let snapshot = db.snapshot();
    let before = model.clone();
    for from in [100u64, 4_000, 9_000, 20_000] {
        // Some of these reach over several guards.
        let (start, end) = (of_number(from), of_number(from + from / 4));
        db.delete_range(start.clone()..end.clone()).unwrap();
        model.retain(|key, _| *key < start || *key >= end);
    }
    for number in [50, 3_000, 10_000, 23_999] {
        db.put(of_number(number), "new").unwrap();
        model.insert(of_number(number), "new".into());
    }
    lsm_of(&db).merge_logs_for_test().unwrap();
    assert_eq!(shared(&db).len(), 1, "{:?}", shared(&db));
    assert!(all(db.range(..)) == model && all(db.range(..).rev()) == model);
    assert!(all(snapshot.range(..)) == before);
    for number in (0..24_000).step_by(97) {
        let key = of_number(number);
        assert!(db.get(&key).unwrap().as_deref() == model.get(&key).map(|value| &value[..]), "{number}");
    }
    drop(snapshot);
    db.compact_range(..).unwrap();
    assert!(all(db.range(..)) == model && shared(&db).is_empty());
}
