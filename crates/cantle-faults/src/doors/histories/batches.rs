//! Batches over several chunks and keyspaces are seen completely or not at all, by gets, snapshots,
//! ranges, and batches of keys that are read together.

use super::support::{
    Course, StopOnDrop, amid_maintenance, assert_moved, dir, has_moved, keyspace, layout, number, options,
    value,
};
use crate::layouts::Tuned;
use crate::rng::Rng;
use crate::visit::Visit;
use cantle::{Db, Durability, WriteBatch};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

/// Runs `read` in a loop on threads of their own while `write` runs on this one, until `is_over`.
fn against(is_over: impl Fn() -> bool, mut write: impl FnMut(u64), read: impl Fn() + Sync) {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !stop.load(SeqCst) {
                    read();
                }
            });
        }
        let _stop = StopOnDrop(&stop);
        let mut round = 1;
        while !is_over() {
            write(round);
            round += 1;
        }
    });
}

pub fn who_sees_one_half_of_a_batch_sees_the_other(visit: &Visit, seed: u64) {
    let mut rng = Rng::new(seed);
    let dir = dir();
    let db = options(visit, Durability::Process, &mut rng).open(dir.path().join("store")).unwrap();
    let other = db.keyspace_with("other", keyspace(layout(visit).with("log_bytes", 8 << 10))).unwrap();
    let batch_of = |round: u64, rng: &mut Rng| {
        let mut batch = WriteBatch::new();
        batch.put("a050", value(round, rng)).put("a051", value(round, rng)).put("e050", value(round, rng));
        batch.keyspace(&other).put("z", value(round, rng));
        batch
    };
    let mut values = rng.fork();
    db.write(batch_of(0, &mut values)).unwrap();
    let readers: [&(dyn Fn() -> u64 + Sync); 4] = [
        &|| number(&db.get("a050").unwrap().unwrap()),
        &|| number(&db.get("a051").unwrap().unwrap()),
        &|| number(&db.get("e050").unwrap().unwrap()),
        &|| number(&other.get("z").unwrap().unwrap()),
    ];
    let (orders, batches) = (Mutex::new(rng.fork()), AtomicU64::new(0));
    let course = Course::new(visit, 2500);
    amid_maintenance(&db, &mut rng, || {
        against(
            || !course.goes_on(|| has_moved(&db)),
            |round| db.write(batch_of(round, &mut values)).unwrap(),
            || {
                let (first, then, way) = {
                    let mut rng = orders.lock().unwrap();
                    (rng.below(4) as usize, rng.below(4) as usize, rng.below(8))
                };
                if way == 0 {
                    let found = db.get_many(["e050", "a050", "a051", "a050"]);
                    let found: Vec<u64> = found.into_iter().map(|v| number(&v.unwrap().unwrap())).collect();
                    assert!(found.iter().all(|seen| *seen == found[0]), "a batch of keys saw {found:?}");
                    batches.fetch_add(1, SeqCst);
                } else if way == 1 {
                    let snapshot = db.snapshot();
                    let a = number(&snapshot.get("a050").unwrap().unwrap());
                    let b = number(&snapshot.get("a051").unwrap().unwrap());
                    let c = number(&snapshot.get("e050").unwrap().unwrap());
                    let d = number(&snapshot.keyspace(&other).get("z").unwrap().unwrap());
                    assert_eq!([a; 3], [b, c, d], "a snapshot saw a part of a batch");
                } else {
                    let (earlier, later) = (readers[first](), readers[then]());
                    assert!(earlier <= later, "key {first} was at {earlier}, then key {then} at {later}");
                }
            },
        );
    });
    visit.count("batches of keys read", batches.into_inner());
    assert_moved(visit, &db);
}

fn balances(read: impl Fn(usize) -> Option<u64>) -> u64 {
    (0..ACCOUNTS).map(|account| read(account).unwrap()).sum()
}

const ACCOUNTS: usize = 12;
const TOTAL: u64 = ACCOUNTS as u64 * 1000;

fn account(number: usize) -> String {
    format!("{}0{number:02}", (b'a' + (number % 6) as u8) as char)
}

/// Reads both accounts under `bank`, and writes both in a batch.
fn transfer(db: &Db, bank: &Mutex<()>, rng: &mut Rng) {
    let (from, to) = (rng.below(ACCOUNTS as u64) as usize, rng.below(ACCOUNTS as u64) as usize);
    if from == to {
        return;
    }
    let _turn = bank.lock().unwrap();
    let balance = |account_number| number(&db.get(account(account_number)).unwrap().unwrap());
    let (source, target) = (balance(from), balance(to));
    let amount = rng.below(source + 1);
    let mut batch = WriteBatch::new();
    batch.put(account(from), value(source - amount, rng)).put(account(to), value(target + amount, rng));
    db.write(batch).unwrap();
}

pub fn transfers_keep_the_sum_that_snapshots_see(visit: &Visit, seed: u64) {
    let mut rng = Rng::new(seed);
    let dir = dir();
    let db = options(visit, Durability::Process, &mut rng).open(dir.path().join("store")).unwrap();
    for number in 0..ACCOUNTS {
        db.put(account(number), value(1000, &mut rng)).unwrap();
    }
    let (bank, batches) = (Mutex::new(()), AtomicU64::new(0));
    let mut transfers = rng.fork();
    let course = Course::new(visit, 2500);
    amid_maintenance(&db, &mut rng, || {
        against(
            || !course.goes_on(|| has_moved(&db)),
            |_| transfer(&db, &bank, &mut transfers),
            || {
                let snapshot = db.snapshot();
                let read = |n| snapshot.get(account(n)).unwrap().map(|value| number(&value));
                assert_eq!(balances(read), TOTAL, "by gets of a snapshot");
                let together = db.get_many((0..ACCOUNTS).map(account));
                let read = |n: usize| together[n].as_ref().unwrap().as_ref().map(|value| number(value));
                assert_eq!(balances(read), TOTAL, "by a batch of all keys");
                batches.fetch_add(1, SeqCst);
                let pairs: Vec<_> = snapshot.range(..).rev().map(|pair| pair.unwrap()).collect();
                let find = |n: usize| {
                    let pair = pairs.iter().find(|(key, _)| key[..] == *account(n).as_bytes());
                    pair.map(|(_, value)| number(value))
                };
                assert_eq!(balances(find), TOTAL, "by a range of the same snapshot");
            },
        );
    });
    visit.count("batches of keys read", batches.into_inner());
    assert_moved(visit, &db);
}

/// A get that finds entries of a batch during its commit must not stop at one that was never the
/// value.
pub fn of_what_a_batch_writes_to_one_key_only_the_last_is_seen(visit: &Visit, seed: u64) {
    let mut rng = Rng::new(seed);
    let dir = dir();
    let db = options(visit, Durability::Buffered, &mut rng).open(dir.path().join("store")).unwrap();
    let last = u64::MAX.to_le_bytes();
    db.put("key", last).unwrap();
    let course = Course::new(visit, 2000);
    against(
        || !course.goes_on(|| true),
        |round| {
            let mut batch = WriteBatch::new();
            for _ in 0..20 {
                batch.put("key", round.to_le_bytes());
            }
            batch.delete("key").put("key", last);
            db.write(batch).unwrap();
        },
        || assert_eq!(db.get("key").unwrap().map(|value| number(&value)), Some(u64::MAX)),
    );
}
