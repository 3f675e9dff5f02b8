//! `update` loses no increment.

use super::support::{amid_maintenance, assert_moved, dir, number, options};
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
