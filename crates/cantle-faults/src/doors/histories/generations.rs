//! Range deletes against gets, puts and scans: a batch deletes everything and writes the next
//! generation.

use super::support::{Course, StopOnDrop, assert_moved, dir, has_moved, number, options, shake};
use crate::rng::Rng;
use crate::visit::Visit;
use cantle::{Db, Durability, WriteBatch};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

const KEYS: u64 = 60;

fn key(number: u64) -> String {
    format!("{}{number:03}", (b'a' + (number % 6) as u8) as char)
}

fn generation(number: u64, value_bytes: usize) -> WriteBatch {
    let mut batch = WriteBatch::new();
    batch.delete_range(..);
    for index in 0..KEYS {
        let mut value = number.to_le_bytes().to_vec();
        value.resize(value_bytes, b'.');
        batch.put(key(index), value);
    }
    batch
}

/// A reader that must always find one complete generation, never an earlier one than before.
fn read(db: &Db, mut rng: Rng, stop: &AtomicBool) {
    let mut newest = 0;
    while !stop.load(SeqCst) {
        match rng.below(5) {
            0 => {
                let range = db.range(..);
                let numbers: Vec<u64> = range.map(|pair| number(&pair.unwrap().1)).collect();
                assert_eq!(numbers.len() as u64, KEYS, "a scan saw a part of a generation");
                assert!(numbers.iter().all(|&number| number == numbers[0]), "a scan saw two generations");
                assert!(numbers[0] >= newest, "a scan went back in time");
                newest = numbers[0];
            }
            _ => {
                let got = db.get(key(rng.below(KEYS))).unwrap();
                let got = number(&got.expect("a get saw a range delete without the put behind it"));
                assert!(got >= newest, "a get went back from {newest} to {got}");
                newest = got;
            }
        }
    }
}

pub fn a_generation_replaces_the_one_before_at_one_moment(visit: &Visit, seed: u64) {
    let mut rng = Rng::new(seed);
    for value_bytes in [20, 3000] {
        let dir = dir();
        let db = options(visit, Durability::Process, &mut rng).open(dir.path().join("store")).unwrap();
        db.write(generation(1, value_bytes)).unwrap();
        let (stop, course) = (AtomicBool::new(false), Course::new(visit, 1500));
        std::thread::scope(|scope| {
            for _ in 0..2 {
                let rng = rng.fork();
                scope.spawn(|| read(&db, rng, &stop));
            }
            let rng = rng.fork();
            scope.spawn(|| shake(&db, rng, &stop));
            let _stop = StopOnDrop(&stop);
            let mut number = 2;
            while course.goes_on(|| value_bytes < 1000 || has_moved(&db)) {
                db.write(generation(number, value_bytes)).unwrap();
                number += 1;
            }
        });
        if value_bytes >= 1000 {
            assert_moved(visit, &db);
        }
    }
}

/// Whole chunks are removed at one moment, for gets too: after a get that finds one key removed, no
/// get finds another key.
pub fn a_range_delete_of_many_chunks_has_one_moment(visit: &Visit, seed: u64) {
    let mut rng = Rng::new(seed);
    let dir = dir();
    let db = options(visit, Durability::Process, &mut rng).open(dir.path().join("store")).unwrap();
    let (stop, course) = (AtomicBool::new(false), Course::new(visit, 2500));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            let mut rng = rng.fork();
            let (db, stop) = (&db, &stop);
            scope.spawn(move || {
                while !stop.load(SeqCst) {
                    let (first, then) = (key(rng.below(KEYS)), key(rng.below(KEYS)));
                    let missing = db.get(&first).unwrap().is_none();
                    let between = db.snapshot();
                    // A later put may have written `then` again, which the snapshot in between does
                    // not contain.
                    if missing && between.get(&first).unwrap().is_none() {
                        let later = db.get(&then).unwrap().map(|value| number(&value));
                        let before = between.get(&then).unwrap().map(|value| number(&value));
                        assert!(before.is_none() || later.is_none() || later >= before, "{first} {then}");
                    }
                    // A round puts all keys, last to first, then deletes them all: so of two keys
                    // the greater never has the older value.
                    let count = |key: &str| db.get(key).unwrap().map_or(0, |value| number(&value));
                    if first < then {
                        let lower = count(&first);
                        let upper = count(&then);
                        assert!(lower <= upper || upper == 0, "{first} at {lower}, {then} at {upper}");
                    }
                }
            });
        }
        let _stop = StopOnDrop(&stop);
        let mut sorted: Vec<String> = (0..KEYS).map(key).collect();
        sorted.sort();
        let mut round = 1_u64;
        while course.goes_on(|| has_moved(&db) && has_dropped_chunks(&db)) {
            for key in sorted.iter().rev() {
                let mut value = round.to_le_bytes().to_vec();
                value.resize(4000, b'.');
                db.put(key, value).unwrap();
            }
            if round.is_multiple_of(2) {
                // While the keys exist: compaction spreads them over chunks.
                db.compact_range(..).unwrap();
            }
            let held = round.is_multiple_of(3).then(|| db.snapshot());
            db.delete_range(..).unwrap();
            assert_eq!(db.range(..).count(), 0);
            if let Some(held) = held {
                assert_eq!(held.range(..).count() as u64, KEYS, "an older snapshot lost what was dropped");
                db.compact_range(..).unwrap();
                assert_eq!(held.range(..).count() as u64, KEYS, "a purge took what a snapshot reads");
            }
            round += 1;
        }
    });
    assert_moved(visit, &db);
    assert!(has_dropped_chunks(&db), "no chunk went as a whole");
}

fn has_dropped_chunks(db: &Db) -> bool {
    db.stats().keyspaces[0].chunk().is_none_or(|chunk| chunk.chunks_dropped > 0)
}

/// A snapshot that stays open needs the versions that it reads, and none that came and went after
/// it.
pub fn what_was_put_and_dropped_under_a_snapshot_does_not_pile_up(visit: &Visit, seed: u64) {
    let mut rng = Rng::new(seed);
    let dir = dir();
    let db = options(visit, Durability::Process, &mut rng).open(dir.path().join("store")).unwrap();
    db.put("a000", vec![1; 1000]).unwrap();
    let held = db.snapshot();
    for _ in 0..100 {
        db.delete_range(..).unwrap();
        db.put("a000", vec![2; 1000]).unwrap();
    }
    db.compact_range(..).unwrap();
    let files: u32 = db.regions().unwrap().iter().map(|chunk| chunk.segments + chunk.tables).sum();
    assert!(files <= 4, "{files} files for two values");
    assert_eq!(held.get("a000").unwrap().as_deref(), Some(&[1; 1000][..]));
    assert_eq!(db.get("a000").unwrap().as_deref(), Some(&[2; 1000][..]));
}
