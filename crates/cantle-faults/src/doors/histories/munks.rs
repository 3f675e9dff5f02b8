//! Gets concurrent with puts, while chunks are loaded into memory and evicted: no row and no munk
//! is ever stale.

use super::support::{Course, StopOnDrop, dir, keyspace, layout, number};
use crate::layouts::{OfChunk, Tuned};
use crate::rng::Rng;
use crate::visit::Visit;
use cantle::{Db, Durability, Options, WriteBatch};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

const KEYS: u64 = 16;
/// Number of chunks between them that are read as well, so that the popular chunks do not all fit
/// into memory.
const FILLERS: u64 = 40;

fn key(index: u64) -> String {
    format!("{:02}/key", index * FILLERS / KEYS)
}

/// Bounds of a key's value; each value is greater than the one before.
#[derive(Default)]
struct Bounds {
    begun: AtomicU64,
    done: AtomicU64,
}

pub fn no_get_is_stale_while_munks_and_rows_come_and_go(visit: &Visit, seed: u64) {
    let mut rng = Rng::new(seed);
    let dir = dir();
    let keyspace = keyspace(layout(visit).with("log_bytes", 64 << 10));
    let options = Options::new().durability(Durability::Process).memory_budget(1 << 20);
    let db = options.default_keyspace(keyspace).open(dir.path().join("store")).unwrap();
    for filler in 0..FILLERS {
        (0..40).for_each(|index| db.put(format!("{filler:02}/{index:02}"), vec![7; 1000]).unwrap());
    }
    db.compact_range(..).unwrap();
    let bounds: Vec<Bounds> = (0..KEYS).map(|_| Bounds::default()).collect();
    let (stop, course) = (AtomicBool::new(false), Course::new(visit, 4000));
    let value = |number: u64| {
        let mut value = number.to_le_bytes().to_vec();
        value.resize(200, b'.');
        value
    };
    (0..KEYS).for_each(|index| db.put(key(index), value(0)).unwrap());
    std::thread::scope(|scope| {
        let (db, bounds, stop) = (&db, &bounds, &stop);
        let _stop = StopOnDrop(stop);
        // Each key has one writer, which may delete and put again in one batch.
        for writer in 0..2 {
            let mut rng = rng.fork();
            scope.spawn(move || {
                while !stop.load(SeqCst) {
                    let index = rng.below(KEYS / 2) * 2 + writer;
                    let next = bounds[index as usize].begun.fetch_add(1, SeqCst) + 1;
                    if rng.below(4) == 0 {
                        let mut batch = WriteBatch::new();
                        batch.delete_range(key(index)..format!("{}0", key(index)));
                        batch.put(key(index), value(next));
                        db.write(batch).unwrap();
                    } else {
                        db.put(key(index), value(next)).unwrap();
                    }
                    bounds[index as usize].done.store(next, SeqCst);
                    if rng.below(8) == 0 {
                        std::thread::sleep(std::time::Duration::from_micros(rng.below(2000)));
                    }
                }
            });
        }
        for reader in 0..3 {
            let mut rng = rng.fork();
            scope.spawn(move || {
                while !stop.load(SeqCst) {
                    // The popular range moves.
                    let around = rng.below(KEYS);
                    for _ in 0..300 {
                        let index = (around + rng.below(3)) % KEYS;
                        let bound = &bounds[index as usize];
                        let least = bound.done.load(SeqCst);
                        let found = match reader {
                            0 if rng.below(2) == 0 => {
                                let far = (index + KEYS / 2) % KEYS;
                                db.get_many([key(far), key(index), key(around)]).swap_remove(1).unwrap()
                            }
                            0 => db.snapshot().get(key(index)).unwrap(),
                            1 if rng.below(4) == 0 => {
                                let mut range = db.range(key(index)..);
                                range.next().map(|pair| pair.unwrap().1)
                            }
                            _ => db.get(key(index)).unwrap(),
                        };
                        let found = number(&found.expect("a put that was there is gone"));
                        let most = bound.begun.load(SeqCst);
                        assert!((least..=most).contains(&found), "{found} is not in {least}..={most}");
                    }
                }
            });
        }
        while course.goes_on(|| did_munks_come_and_go(db) && were_rows_used(db)) {
            std::thread::sleep(std::time::Duration::from_millis(100));
            match rng.below(4) {
                0 => db.compact_range(..).unwrap(),
                1 => db.sync().unwrap(),
                _ => {}
            }
        }
    });
    let stats = db.stats().keyspaces.remove(0);
    visit.count("munk loads", stats.of_chunk().munk_loads);
    assert!(did_munks_come_and_go(&db), "munks did not come and go");
    assert!(were_rows_used(&db), "{:?}", stats.gets_served);
}

fn did_munks_come_and_go(db: &Db) -> bool {
    let keyspace = &db.stats().keyspaces[0];
    keyspace.of_chunk().munk_loads > 0 && keyspace.of_chunk().munk_evictions > 0
}

/// True if munks were used as well.
fn were_rows_used(db: &Db) -> bool {
    let gets = db.stats().keyspaces[0].gets_served;
    gets.row > 0 && gets.resident > 0
}
