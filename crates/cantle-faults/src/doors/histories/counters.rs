//! Neither `update` nor `compare_and_swap` loses an increment.

use super::support::{amid_maintenance, assert_moved, dir, number, options, value};
use crate::rng::Rng;
use crate::visit::Visit;
use cantle::Durability;

pub fn no_increment_is_lost(visit: &Visit, seed: u64) {
    const KEYS: [&str; 3] = ["a050", "c010", "f000"];
    const THREADS: u64 = 4;
    let mut rng = Rng::new(seed);
    let dir = dir();
    let db = options(visit, Durability::Process, &mut rng).open(dir.path().join("store")).unwrap();
    let increments = 2500;
    let padding = vec![b'.'; 500];
    amid_maintenance(&db, &mut rng.fork(), || {
        std::thread::scope(|scope| {
            for _ in 0..THREADS {
                let mut rng = rng.fork();
                let (db, padding) = (&db, &padding);
                scope.spawn(move || {
                    for count in 0..increments {
                        let key = KEYS[(count % 3) as usize];
                        let add = |old: Option<&[u8]>| {
                            let sum = old.map_or(0, number) + 1;
                            Some([&sum.to_le_bytes()[..], padding].concat())
                        };
                        let new = db.update(key, add).unwrap().unwrap();
                        assert!(number(&db.get(key).unwrap().unwrap()) >= number(&new), "a count went back");
                        if rng.below(50) == 0 {
                            drop(db.snapshot());
                        }
                    }
                });
            }
        });
    });
    let sum: u64 = KEYS.iter().map(|key| number(&db.get(key).unwrap().unwrap())).sum();
    assert_eq!(sum, THREADS * increments);
    assert_moved(visit, &db);
}

pub fn no_swap_is_lost(visit: &Visit, seed: u64) {
    const THREADS: u64 = 4;
    const SWAPS: u64 = 2500;
    let mut rng = Rng::new(seed);
    let dir = dir();
    let db = options(visit, Durability::Process, &mut rng).open(dir.path().join("store")).unwrap();
    let first = amid_maintenance(&db, &mut rng.fork(), || {
        std::thread::scope(|scope| {
            let threads = [(); THREADS as usize].map(|()| {
                let (db, mut rng) = (&db, rng.fork());
                scope.spawn(move || {
                    let mut was_first = 0;
                    let mut swaps = 0;
                    while swaps < SWAPS {
                        let Some(old) = db.get("c010").unwrap() else {
                            was_first += u64::from(db.insert_if_absent("c010", value(0, &mut rng)).unwrap());
                            continue;
                        };
                        let new = value(number(&old) + 1, &mut rng);
                        swaps += u64::from(db.compare_and_swap("c010", Some(&old), Some(new)).unwrap());
                    }
                    was_first
                })
            });
            threads.map(|thread| thread.join().unwrap()).iter().sum::<u64>()
        })
    });
    assert_eq!(first, 1, "the key was absent once");
    assert_eq!(number(&db.get("c010").unwrap().unwrap()), THREADS * SWAPS);
    visit.count("swaps", THREADS * SWAPS);
}
