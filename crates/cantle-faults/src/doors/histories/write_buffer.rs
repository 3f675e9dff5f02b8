//! Reads of buffered data concurrent with writers, checkpoints, rebalances and verification, with
//! fewer slots than logs.

use super::support::{Course, StopOnDrop, keyspace, layout};
use crate::layouts::Tuned;
use crate::rng::Rng;
use crate::visit::Visit;
use cantle::{Durability, Options};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::Duration;

const KEYS: u64 = 60;

pub fn what_is_buffered_is_read_as_if_it_were_in_the_file(visit: &Visit, seed: u64) {
    let mut rng = Rng::new(seed);
    // A real, mapped file of 2 MiB: two slots.
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    let keyspace = keyspace(layout(visit).with("munks", false)).row_cache(false);
    let options = |durability| {
        let options = Options::new().durability(durability).memory_budget(2 << 20);
        options.checkpoint_interval(Duration::from_millis(100)).default_keyspace(keyspace.clone())
    };
    let value = |number: u64, len: u64| {
        let mut value = number.to_le_bytes().to_vec();
        value.resize(8 + len as usize, number as u8);
        value
    };
    let key = |index: u64| format!("{index:02}/key");
    let db = options(Durability::Process).open(&path).unwrap();
    // Several chunks.
    (0..KEYS).for_each(|index| (0..6).for_each(|n| db.put(format!("{index:02}/{n}"), [7; 1000]).unwrap()));
    db.compact_range(..).unwrap();
    (0..KEYS).for_each(|index| db.put(key(index), value(0, 10)).unwrap());
    let done: Vec<AtomicU64> = (0..KEYS).map(|_| AtomicU64::new(0)).collect();
    let (stop, course) = (AtomicBool::new(false), Course::new(visit, 3000));
    let number_of = |bytes: &[u8]| {
        let number = u64::from_le_bytes(bytes[..8].try_into().unwrap());
        assert!(bytes[8..].iter().all(|&byte| byte == number as u8), "a value is whole");
        number
    };
    std::thread::scope(|scope| {
        let (db, done, stop, key) = (&db, &done, &stop, &key);
        let _stop = StopOnDrop(stop);
        for writer in 0..2 {
            let mut rng = rng.fork();
            scope.spawn(move || {
                while !stop.load(SeqCst) {
                    // Most writes go to a few keys, so that their slots fill.
                    let among = if rng.below(3) == 0 { KEYS / 2 } else { 3 };
                    let index = rng.below(among) * 2 + writer;
                    let next = done[index as usize].load(SeqCst) + 1;
                    let len = if rng.below(40) == 0 { 9000 } else { rng.below(600) };
                    db.put(key(index), value(next, len)).unwrap();
                    done[index as usize].store(next, SeqCst);
                    let found = number_of(&db.get(key(index)).unwrap().unwrap());
                    assert_eq!(found, next, "a put is seen by who made it");
                }
            });
        }
        let mut reading = rng.fork();
        scope.spawn(move || {
            while !stop.load(SeqCst) {
                let index = reading.below(KEYS);
                let least = done[index as usize].load(SeqCst);
                assert!(number_of(&db.get(key(index)).unwrap().unwrap()) >= least);
                db.range(key(index)..).take(20).for_each(|pair| assert!(!pair.unwrap().1.is_empty()));
            }
        });
        let mut meddling = rng.fork();
        while course.goes_on(|| db.stats().write_buffer_records > 0) {
            match meddling.below(3) {
                0 => db.sync().unwrap(),
                1 => db.compact_range(key(meddling.below(KEYS))..).unwrap(),
                _ => {
                    let report = db.verify().unwrap();
                    assert!(report.is_ok(), "{:?}", report.damage);
                }
            }
        }
    });
    assert!(db.stats().write_buffer_records > 0);
    db.close().unwrap();
    drop(db);
    let db = options(Durability::Process).open(&path).unwrap();
    for (index, done) in (0..).zip(&done) {
        assert_eq!(number_of(&db.get(key(index)).unwrap().unwrap()), done.load(SeqCst));
    }
}
