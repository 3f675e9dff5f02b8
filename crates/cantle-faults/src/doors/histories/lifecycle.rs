//! Opening, closing, creating and dropping keyspaces, backups and statistics, all under load.

use super::support::{Course, StopOnDrop, churn, dir, keyspace, layout, options, shake};
use crate::layouts::Tuned;
use crate::rng::Rng;
use crate::visit::Visit;
use cantle::{Db, Durability, Error, WriteBatch};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::Duration;

/// Puts numbered keys until the store is closed. Returns the number of acknowledged puts.
fn put_until_closed(db: &Db, thread: usize, first: u64, bytes: usize) -> u64 {
    let mut next = first;
    loop {
        let mut batch = WriteBatch::new();
        batch
            .put(format!("{thread}/{next:08}"), vec![1; bytes])
            .put(format!("count/{thread}"), next.to_le_bytes());
        match db.write(batch) {
            Ok(()) => next += 1,
            Err(Error::Closed) => return next,
            Err(error) => panic!("{error}"),
        }
    }
}

/// A store is closed while others write, and opened again at once: no acknowledged write is
/// missing, and no background thread keeps the lock or continues to write.
pub fn closing_amid_writes_loses_nothing_and_frees_the_lock(visit: &Visit, seed: u64) {
    let mut rng = Rng::new(seed);
    for durability in [Durability::Process, Durability::Buffered, Durability::Sync] {
        let dir = dir();
        let path = dir.path().join("store");
        let mut counts = [0_u64; 3];
        let (mut openings, course) = (0, Course::new(visit, 1500));
        while course.goes_on(|| true) {
            let db = options(visit, durability, &mut rng).open(&path).unwrap();
            openings += 1;
            for (thread, &count) in counts.iter().enumerate() {
                let stored = db.get(format!("count/{thread}")).unwrap();
                let stored = stored.map_or(0, |value| u64::from_le_bytes(value[..].try_into().unwrap()) + 1);
                // A write may have taken effect without an acknowledgement.
                assert!(
                    stored == count || stored == count + 1,
                    "of {count} there are {stored}; {durability:?}"
                );
                let prefix = format!("{thread}/");
                if rng.below(8) == 0 {
                    assert_eq!(db.prefix(&prefix).count() as u64, stored, "{durability:?}");
                }
            }
            let pause = Duration::from_micros(rng.below(30_000));
            let bytes = 1 + rng.below(4000) as usize;
            let by_drop = rng.below(2) == 0;
            counts = std::thread::scope(|scope| {
                let db = &db;
                let threads: Vec<_> = counts
                    .iter()
                    .enumerate()
                    .map(|(thread, &count)| scope.spawn(move || put_until_closed(db, thread, count, bytes)))
                    .collect();
                std::thread::sleep(pause);
                db.close().unwrap();
                let counts: Vec<u64> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
                counts.try_into().unwrap()
            });
            if by_drop {
                // Opened and dropped, not closed, with rebalances just begun.
                drop(db);
                let db = options(visit, durability, &mut rng).open(&path).unwrap();
                for number in 0..40 {
                    db.put(format!("filler{number:02}"), vec![3; 3000]).unwrap();
                }
            }
        }
        visit.count("openings", openings);
        let db = options(visit, durability, &mut rng).open(&path).unwrap();
        assert!(db.verify().unwrap().is_ok());
    }
}

pub fn keyspaces_come_and_go_under_load(visit: &Visit, seed: u64) {
    let mut rng = Rng::new(seed);
    let dir = dir();
    let path = dir.path().join("store");
    for _ in 0..3 {
        let db = options(visit, Durability::Process, &mut rng).open(&path).unwrap();
        let (stop, course) = (AtomicBool::new(false), Course::new(visit, 700));
        let keyspace_options = || keyspace(layout(visit).with("log_bytes", 8 << 10));
        std::thread::scope(|scope| {
            for name in ["one", "two"] {
                for _ in 0..2 {
                    let mut rng = rng.fork();
                    let (db, stop) = (&db, &stop);
                    scope.spawn(move || {
                        while !stop.load(SeqCst) {
                            let keyspace = db.keyspace_with(name, keyspace_options()).unwrap();
                            let held = db.snapshot();
                            let was_there = held.keyspace(&keyspace).get("").is_ok();
                            for number in 0..200 {
                                let key = format!("{:03}", rng.below(150));
                                let mut batch = WriteBatch::new();
                                batch.keyspace(&keyspace).put(&key, vec![5; 1500]).put(&key, "both");
                                let done = match number % 5 {
                                    0 => db.write(batch),
                                    1 => keyspace.delete_range(key.as_bytes()..),
                                    2 => keyspace.set_metadata(b"columns"),
                                    3 => keyspace.get(&key).map(|_| ()),
                                    _ => keyspace.put(&key, vec![6; 2000]),
                                };
                                match done {
                                    Ok(()) => {}
                                    Err(Error::NoKeyspace(_)) => break,
                                    Err(error) => panic!("{error}"),
                                }
                            }
                            // Even if the keyspace was dropped since, an older snapshot continues
                            // to read it.
                            if was_there {
                                for pair in held.keyspace(&keyspace).range(..) {
                                    pair.unwrap();
                                }
                            }
                        }
                    });
                }
            }
            let _stop = StopOnDrop(&stop);
            while course.goes_on(|| true) {
                let name = ["one", "two"][rng.below(2) as usize];
                match db.drop_keyspace(name) {
                    Ok(()) | Err(Error::NoKeyspace(_)) => {}
                    Err(error) => panic!("{error}"),
                }
                std::thread::sleep(Duration::from_millis(rng.below(60)));
            }
        });
        drop(db);
    }
    let db = Db::open(&path).unwrap();
    assert!(db.verify().unwrap().is_ok());
}

/// For every write in it, a backup has all writes that had completed before that write began.
pub fn a_backup_under_load_is_a_prefix(visit: &Visit, seed: u64) {
    let mut rng = Rng::new(seed);
    for durability in [Durability::Process, Durability::Buffered, Durability::Sync] {
        let dir = dir();
        let db = options(visit, durability, &mut rng).open(dir.path().join("store")).unwrap();
        let stop = AtomicBool::new(false);
        // Number of writes that each thread has completed.
        let completed = [const { AtomicU64::new(0) }; 3];
        std::thread::scope(|scope| {
            for thread in 0..completed.len() {
                let mut rng = rng.fork();
                let (db, stop, completed) = (&db, &stop, &completed);
                scope.spawn(move || {
                    let mut number = 0_u64;
                    while !stop.load(SeqCst) {
                        number += 1;
                        // Its predecessors: the numbers of writes that each thread had completed
                        // when it began.
                        let mut value: Vec<u8> =
                            completed.iter().flat_map(|count| count.load(SeqCst).to_le_bytes()).collect();
                        value.resize(24 + rng.below(1000) as usize, b'.');
                        let key = format!("{}/{number:08}", ["b", "d", "f"][thread]);
                        if number.is_multiple_of(3) {
                            let mut batch = WriteBatch::new();
                            batch.put(key, value).put(format!("c/{thread}"), number.to_le_bytes());
                            db.write(batch).unwrap();
                        } else {
                            db.put(key, value).unwrap();
                        }
                        completed[thread].store(number, SeqCst);
                    }
                });
            }
            let (churning, shaking) = (rng.fork(), rng.fork());
            scope.spawn(|| churn(&db, churning, &stop));
            scope.spawn(|| shake(&db, shaking, &stop));
            let _stop = StopOnDrop(&stop);
            let (mut backups, course) = (0, Course::new(visit, 1200));
            while course.goes_on(|| true) {
                let copy = dir.path().join(format!("copy{backups}"));
                let before: Vec<u64> = completed.iter().map(|count| count.load(SeqCst)).collect();
                db.backup(&copy).unwrap();
                check_prefix(&Db::open(&copy).unwrap(), &before);
                assert!(db.verify().unwrap().is_ok());
                backups += 1;
            }
            visit.count("backups", backups);
        });
    }
}

fn check_prefix(copy: &Db, before: &[u64]) {
    let mut present = Vec::new();
    let mut needed = vec![0; before.len()];
    for (thread, name) in ["b/", "d/", "f/"].into_iter().enumerate() {
        let mut count = 0_u64;
        for pair in copy.prefix(name) {
            let (key, value) = pair.unwrap();
            count += 1;
            assert_eq!(&key[..], format!("{name}{count:08}").as_bytes(), "a write is missing");
            for (needed, bytes) in needed.iter_mut().zip(value[..24].chunks(8)) {
                *needed = u64::from_le_bytes(bytes.try_into().unwrap()).max(*needed);
            }
        }
        assert!(count >= before[thread], "an acknowledged write is missing");
        let marked = copy.get(format!("c/{thread}")).unwrap();
        let marked = marked.map_or(0, |value| u64::from_le_bytes(value[..].try_into().unwrap()));
        assert_eq!(marked, count / 3 * 3, "a batch is there in part");
        present.push(count);
    }
    assert!(present.iter().zip(&needed).all(|(present, needed)| present >= needed), "{present:?} {needed:?}");
    assert!(copy.verify().unwrap().is_ok());
}
