//! Every operation concurrent with the drop of its keyspace: it succeeds or reports that the
//! keyspace is gone, and it ends.

use super::support::{Course, StopOnDrop, dir, keyspace, layout, options};
use crate::rng::Rng;
use crate::visit::Visit;
use crate::watchdog::Watchdog;
use cantle::{Db, Durability, Error, Keyspace, Result, WriteBatch};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::Duration;

const KEYS: u64 = 150;
const SPACE: &str = "dropped";

fn key(rng: &mut Rng) -> String {
    format!("{:03}", rng.below(KEYS))
}

fn value(rng: &mut Rng) -> Vec<u8> {
    vec![7; 1 + rng.below(3000) as usize]
}

type Operation = (&'static str, fn(&Db, &Keyspace, &mut Rng) -> Result<()>);

/// The operations by name, so that a finding names the one that did not end.
const OPERATIONS: &[Operation] = &[
    ("put", |_, space, rng| space.put(key(rng), value(rng))),
    ("delete", |_, space, rng| space.delete(key(rng))),
    ("delete_range", |_, space, rng| {
        let from = rng.below(KEYS);
        space.delete_range(format!("{from:03}")..format!("{:03}", from + rng.below(KEYS)))
    }),
    ("delete_range of all", |_, space, _| space.delete_range(..)),
    ("update", |_, space, rng| space.update(key(rng), |_| Some(vec![8; 700])).map(drop)),
    ("batch", |db, space, rng| {
        let (key, mut batch) = (key(rng), WriteBatch::new());
        batch.keyspace(space).put(&key, value(rng)).put(&key, "both");
        db.write(batch)
    }),
    ("transaction", |db, space, rng| {
        let tx = db.transaction();
        tx.keyspace(space).get(key(rng))?;
        tx.keyspace(space).put(key(rng), value(rng))?;
        match tx.commit() {
            Err(error) if error.is_conflict() => Ok(()),
            done => done,
        }
    }),
    ("get", |_, space, rng| space.get(key(rng)).map(drop)),
    ("range", |_, space, _| space.range(..).try_for_each(|pair| pair.map(drop))),
    ("range down", |_, space, _| space.range(..).rev().try_for_each(|pair| pair.map(drop))),
    ("snapshot", |db, space, rng| {
        let held = db.snapshot();
        held.keyspace(space).get(key(rng))?;
        held.keyspace(space).range(..).try_for_each(|pair| pair.map(drop))
    }),
    ("approximate_bytes", |_, space, rng| space.approximate_bytes(key(rng)..).map(drop)),
    ("compact_range", |_, space, _| space.compact_range(..)),
    ("compact_range of a part", |_, space, rng| {
        let from = key(rng);
        space.compact_range(from..)
    }),
    ("chunks", |_, space, _| space.regions().map(drop)),
    ("set_metadata", |_, space, _| space.set_metadata(b"columns")),
    ("sync", |db, _, _| db.sync()),
    ("verify", |db, _, _| db.verify().map(|report| assert!(report.is_ok(), "{report:?}"))),
    ("stats", |db, _, _| {
        db.stats();
        Ok(())
    }),
];

/// One thread drops the keyspace again and again; the others run one operation after the other on
/// it.
pub fn every_operation_ends_beside_the_drop_of_its_keyspace(visit: &Visit, seed: u64) {
    const THREADS: usize = 4;
    let mut rng = Rng::new(seed);
    let watchdog = Watchdog::start("histories");
    for durability in [Durability::Process, Durability::Sync] {
        let dir = dir();
        let path = dir.path().join("store");
        let db = options(visit, durability, &mut rng).open(&path).unwrap();
        let (stop, course) = (AtomicBool::new(false), Course::new(visit, 2500));
        let refused = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for _ in 0..THREADS {
                let (db, stop, watchdog, refused, mut rng) = (&db, &stop, &watchdog, &refused, rng.fork());
                scope.spawn(move || {
                    while !stop.load(SeqCst) {
                        let space = db.keyspace_with(SPACE, keyspace(layout(visit))).unwrap();
                        for _ in 0..rng.below(60) {
                            let (name, act) = OPERATIONS[rng.below(OPERATIONS.len() as u64) as usize];
                            // Enough data for a split, so that there are chunks to drop.
                            if rng.below(3) > 0 {
                                (0..10).for_each(|_| drop(space.put(key(&mut rng), value(&mut rng))));
                            }
                            match watchdog.watch(name, || act(db, &space, &mut rng)) {
                                Ok(()) => {}
                                Err(Error::NoKeyspace(_)) => {
                                    refused.fetch_add(1, SeqCst);
                                    break;
                                }
                                Err(error) => panic!("{name} beside a drop: {error}"),
                            }
                        }
                    }
                });
            }
            let _stop = StopOnDrop(&stop);
            while course.goes_on(|| refused.load(SeqCst) > 20) {
                match watchdog.watch("drop", || db.drop_keyspace(SPACE)) {
                    Ok(()) => visit.count("keyspaces dropped", 1),
                    Err(Error::NoKeyspace(_)) => {}
                    Err(error) => panic!("{error}"),
                }
                std::thread::sleep(Duration::from_millis(rng.below(30)));
            }
        });
        watchdog.watch("close", || db.close()).unwrap();
        drop(db);
        let db = Db::open(&path).unwrap();
        let report = db.verify().unwrap();
        assert!(report.is_ok() && report.unknown_files.is_empty(), "{report:?}");
    }
}
