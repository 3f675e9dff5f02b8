//! Iterators and snapshots that stay open while maintenance moves their data.

use super::support::{Course, StopOnDrop, assert_moved, dir, has_moved, options, shake};
use crate::rng::Rng;
use crate::visit::Visit;
use cantle::{Db, Durability};
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

fn write(db: &Db, model: &Mutex<Model>, mut rng: Rng, stop: &AtomicBool) {
    let key =
        |rng: &mut Rng| format!("{}{:03}", (b'a' + rng.below(6) as u8) as char, rng.below(60)).into_bytes();
    while !stop.load(SeqCst) {
        let at = key(&mut rng);
        // The writer's lock gives the model the store's order.
        let mut model = model.lock().unwrap();
        match rng.below(300) {
            0 => {
                let to = key(&mut rng);
                db.delete_range(&at[..]..&to[..]).unwrap();
                model.retain(|key, _| *key < at || *key >= to);
            }
            1 => {
                db.delete_range(..).unwrap();
                model.clear();
            }
            2..60 => {
                db.delete(&at).unwrap();
                model.remove(&at);
            }
            _ => {
                let value = vec![rng.below(256) as u8; rng.below(3000) as usize];
                db.put(&at, &value).unwrap();
                model.insert(at, value);
            }
        }
    }
}

fn check(db: &Db, model: &Mutex<Model>, rng: &mut Rng) {
    let (snapshot, expected) = {
        let model = model.lock().unwrap();
        (db.snapshot(), model.clone())
    };
    let expected: Vec<_> = expected.into_iter().collect();
    let mut range = snapshot.range(..);
    let (mut front, mut back) = (Vec::new(), Vec::new());
    let mut cursor = snapshot.cursor(..);
    loop {
        if rng.below(8) == 0 {
            std::thread::sleep(Duration::from_millis(rng.below(3)));
        }
        let forward = rng.below(2) == 0;
        let Some(pair) = (if forward { range.next() } else { range.next_back() }) else { break };
        let (key, value) = pair.unwrap();
        if rng.below(10) == 0 {
            assert_eq!(snapshot.get(&key).unwrap().as_deref(), Some(&value[..]), "by get");
            assert!(cursor.seek(&key).unwrap());
            assert_eq!(cursor.value(), Some(&value[..]), "by cursor");
            let before = expected.iter().rev().find(|(other, _)| other[..] < key[..]);
            assert_eq!(cursor.prev().unwrap(), before.is_some());
            assert_eq!(cursor.key(), before.map(|(key, _)| &key[..]));
        }
        if forward { &mut front } else { &mut back }.push((key.to_vec(), value.to_vec()));
    }
    front.extend(back.into_iter().rev());
    assert!(front == expected, "an iterator saw {} pairs, expected were {}", front.len(), expected.len());
}

pub fn what_is_held_does_not_change(visit: &Visit, seed: u64) {
    let mut rng = Rng::new(seed);
    for durability in [Durability::Process, Durability::Buffered] {
        let dir = dir();
        let db = options(visit, durability, &mut rng).open(dir.path().join("store")).unwrap();
        let (model, stop) = (Mutex::new(Model::new()), AtomicBool::new(false));
        let course = Course::new(visit, 2000);
        std::thread::scope(|scope| {
            let (writing, shaking) = (rng.fork(), rng.fork());
            scope.spawn(|| write(&db, &model, writing, &stop));
            scope.spawn(|| shake(&db, shaking, &stop));
            let readers: Vec<_> = (0..2)
                .map(|_| {
                    let mut rng = rng.fork();
                    let (db, model, course) = (&db, &model, &course);
                    scope.spawn(move || {
                        while course.goes_on(|| has_moved(db)) {
                            check(db, model, &mut rng);
                        }
                    })
                })
                .collect();
            let _stop = StopOnDrop(&stop);
            for reader in readers {
                reader.join().unwrap();
            }
        });
        assert_moved(visit, &db);
        assert!(db.verify().unwrap().is_ok());
    }
}
