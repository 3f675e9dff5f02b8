//! Gets of many keys: the same results as as many gets, from reads that are made together.
#![expect(clippy::disallowed_methods, reason = "a measurement takes times")]
#![expect(clippy::unwrap_used, reason = "helpers of tests may panic")]

use crate::of_layouts::{in_guards, small};
use cantle::vfs::{Failure, FaultVfs, Held, MemVfs, OpenMode, Operation, StallVfs, StdVfs, Verdict, Vfs};
use cantle::{ChunkOptions, Db, Error, FlsmOptions, KeyspaceOptions, LayoutOptions, Options, Value};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const PAIRS: u64 = 3_000;
const LIMIT: Duration = Duration::from_secs(60);

fn key(number: u64) -> Vec<u8> {
    format!("key/{number:06}").into_bytes()
}

fn value(number: u64) -> Vec<u8> {
    number.to_be_bytes().repeat(20)
}

/// A keyspace of files: no region is in memory.
fn on_disk() -> KeyspaceOptions {
    let options = small();
    match options.get_layout() {
        Some(LayoutOptions::Chunk(_)) => {
            options.layout(ChunkOptions::new().chunk_bytes(64 << 10).log_bytes(64 << 10).munks(false))
        }
        _ => options,
    }
}

/// A store whose pairs are in tables, opened again: nothing is cached.
fn cold(vfs: &FaultVfs, budget_bytes: u64) -> Db {
    let open = || {
        let options = Options::new().vfs(Arc::new(vfs.clone())).memory_budget(budget_bytes);
        options.background_threads(1).default_keyspace(on_disk()).open("store").unwrap()
    };
    let db = open();
    for number in 0..PAIRS {
        let number = number * 7919 % PAIRS;
        db.put(key(number), value(number)).unwrap();
    }
    db.compact_range(..).unwrap();
    db.close().unwrap();
    open()
}

fn store() -> (FaultVfs, Db) {
    let vfs = FaultVfs::new(Arc::new(MemVfs::without_history()));
    let db = cold(&vfs, 64 << 20);
    (vfs, db)
}

/// Every 30th key, one that is absent, and one twice.
fn wanted() -> Vec<Vec<u8>> {
    let mut keys: Vec<Vec<u8>> = (0..PAIRS).step_by(30).map(key).collect();
    keys.reverse();
    keys.insert(50, b"key/absent".to_vec());
    keys.push(key(30));
    keys
}

fn expected(db: &Db) -> Vec<Option<Value>> {
    wanted().iter().map(|key| db.get(key).unwrap()).collect()
}

fn values(found: Vec<Result<Option<Value>, Error>>) -> Vec<Option<Value>> {
    found.into_iter().map(Result::unwrap).collect()
}

fn many_gets_return_what_single_ones_do() {
    let (_, db) = store();
    let many = values(db.get_many(wanted()));
    assert_eq!(many, expected(&db));
    assert_eq!(many.iter().flatten().count(), 101);
    assert_eq!(values(db.get_many(wanted())), many, "from the cache");
    assert!(db.get_many(Vec::<&str>::new()).is_empty());
    let mut calls = vec![0; wanted().len()];
    db.get_many_with(wanted(), |number, found| {
        assert_eq!(found.unwrap(), many[number].as_deref());
        calls[number] += 1;
    });
    assert!(calls.iter().all(|calls| *calls == 1));
}

fn many_gets_are_of_one_moment() {
    let (_, db) = store();
    let before = expected(&db);
    let mut found = vec![None; wanted().len()];
    db.get_many_with(wanted(), |number, value| {
        // A caller may write meanwhile, and that is not seen.
        db.put(&wanted()[number], "later").unwrap();
        db.put(&wanted()[(number + 1) % wanted().len()], "later").unwrap();
        found[number] = value.unwrap().map(<[u8]>::to_vec);
    });
    assert!(found.iter().zip(&before).all(|(found, before)| found.as_deref() == before.as_deref()));
    assert!(values(db.get_many(wanted())).iter().all(|value| value.as_deref() == Some(b"later")));
    let snapshot = db.snapshot();
    db.delete_range(..).unwrap();
    assert!(values(db.get_many(wanted())).iter().all(Option::is_none));
    assert!(values(snapshot.get_many(wanted())).iter().all(|value| value.as_deref() == Some(b"later")));
}

fn many_gets_of_a_transaction_see_its_writes_and_count_as_read() {
    let (_, db) = store();
    let transaction = db.transaction();
    transaction.put(key(30), "own").unwrap();
    transaction.delete(key(60)).unwrap();
    let found = values(transaction.get_many([key(60), key(0), key(30), key(90)]));
    let found: Vec<Option<Vec<u8>>> = found.into_iter().map(|found| found.map(Vec::from)).collect();
    assert_eq!(found, [None, Some(value(0)), Some(b"own".to_vec()), Some(value(90))]);
    db.put(key(90), "changed").unwrap();
    assert!(transaction.commit().is_err_and(|error| matches!(error, Error::Conflict { .. })));
    let transaction = db.transaction();
    transaction.get_many_with([key(60), key(0)], |_, found| assert!(found.unwrap().is_some()));
    transaction.put("other", "").unwrap();
    // Whatever the order of the keys, nothing is seen that was written while they are read.
    transaction.get_many_with(["other", "another"], |number, found| {
        assert_eq!(found.unwrap().is_some(), number == 0);
        transaction.put("another", "").unwrap();
    });
    db.put(key(90), "again").unwrap();
    transaction.commit().unwrap();
}

fn many_gets_let_the_device_read_for_many_keys_at_once() {
    let (vfs, db) = store();
    // Opens the tables and reads their indexes.
    values(db.get_many((1..PAIRS).step_by(300).map(key)));
    let (hints, reads) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let (hinted, most) = (hints.clone(), Arc::new(AtomicU64::new(0)));
    let deepest = most.clone();
    vfs.set_rule(move |call| {
        match call.operation {
            Operation::Prefetch => {
                let ahead = hinted.fetch_add(1, SeqCst) + 1 - reads.load(SeqCst).min(hinted.load(SeqCst));
                deepest.fetch_max(ahead, SeqCst);
            }
            Operation::ReadAt => {
                reads.fetch_add(1, SeqCst);
            }
            _ => {}
        }
        Verdict::Pass
    });
    let keys: Vec<Vec<u8>> = (16..PAIRS).step_by(30).map(key).collect();
    let found = values(db.get_many(&keys));
    vfs.clear_rule();
    assert!(found.iter().all(Option::is_some));
    assert!(hints.load(SeqCst) > 20, "{} places were announced", hints.load(SeqCst));
    assert!(most.load(SeqCst) > 10, "at most {} at a time", most.load(SeqCst));
}

fn a_read_that_fails_among_many_is_the_error_of_its_keys() {
    let (vfs, db) = store();
    let all = wanted();
    let before = expected(&cold(&FaultVfs::new(Arc::new(MemVfs::without_history())), 64 << 20));
    // Opens the tables and reads their indexes. Then the reads of one place fail.
    values(db.get_many((1..PAIRS).step_by(300).map(key)));
    let failing = Arc::new(AtomicU64::new(0));
    let place = failing.clone();
    vfs.set_rule(move |call| {
        let is_table = call.path.extension().is_some_and(|kind| kind != "log");
        if call.operation != Operation::ReadAt || !is_table || call.offset < 4096 {
            return Verdict::Pass;
        }
        let chosen = place.compare_exchange(0, call.offset, SeqCst, SeqCst);
        if chosen.is_ok() || chosen == Err(call.offset) { Verdict::Fail(Failure::EIO) } else { Verdict::Pass }
    });
    let found = db.get_many(&all);
    let failed = found.iter().filter(|found| found.is_err()).count();
    assert!((1..all.len() / 2).contains(&failed), "{failed} keys failed");
    for (found, before) in found.iter().zip(&before) {
        match found {
            Ok(found) => assert_eq!(found, before),
            Err(error) => assert!(matches!(error, Error::Io { .. }), "{error}"),
        }
    }
    vfs.clear_rule();
    assert_eq!(values(db.get_many(&all)), before, "the error does not stay");
}

fn many_gets_without_a_cache_come_to_an_end() {
    let vfs = FaultVfs::new(Arc::new(MemVfs::without_history()));
    let db = cold(&vfs, 1 << 20);
    assert_eq!(values(db.get_many(wanted())), expected(&db));
}

fn a_block_that_a_batch_reads_is_read_once() {
    let fault = FaultVfs::new(Arc::new(MemVfs::without_history()));
    drop(cold(&fault, 64 << 20));
    let stall = StallVfs::new(Arc::new(fault.clone()));
    let options = Options::new().vfs(Arc::new(stall.clone())).default_keyspace(on_disk());
    let db = options.background_threads(1).open("store").unwrap();
    // Opens all tables and reads their indexes and filters, and no block near the keys.
    values(db.get_many((0..PAIRS).filter(|number| !(1470..1530).contains(number)).map(key)));
    let far = [key(1500), key(1501), key(1502)];
    let held = stall.stall(Held::Before, |call| call.operation == Operation::ReadAt);
    let places = Arc::new(Mutex::new(Vec::new()));
    let read = places.clone();
    fault.set_rule(move |call| {
        if call.operation == Operation::ReadAt {
            read.lock().unwrap().push((call.path.to_path_buf(), call.offset));
        }
        Verdict::Pass
    });
    std::thread::scope(|scope| {
        let batch = scope.spawn(|| values(db.get_many(&far)));
        assert!(held.wait(1, LIMIT));
        let others: Vec<_> =
            (0..4).map(|_| scope.spawn(|| (values(db.get_many(&far)), db.get(&far[0]).unwrap()))).collect();
        drop(held);
        let found = batch.join().unwrap();
        for other in others {
            let (many, one) = other.join().unwrap();
            assert_eq!((&many, &one), (&found, &found[0]));
        }
    });
    fault.clear_rule();
    let mut places = places.lock().unwrap().clone();
    places.sort();
    assert!(!places.is_empty() && places.windows(2).all(|pair| pair[0] != pair[1]), "{places:?}");
}

fn long_values_are_read_one_at_a_time() {
    let vfs = FaultVfs::new(Arc::new(MemVfs::without_history()));
    let db = cold(&vfs, 64 << 20);
    let long = |number: u8| vec![number; 1 << 20];
    (0..20).for_each(|number| db.put([b'l', number], long(number)).unwrap());
    db.compact_range(..).unwrap();
    let mut seen = 0;
    db.get_many_with((0..20).map(|number| [b'l', number]), |number, found| {
        assert_eq!(found.unwrap(), Some(&long(number as u8)[..]));
        seen += 1;
    });
    assert_eq!(seen, 20);
}

fn each_key_fails_if_the_store_is_closed() {
    let (_, db) = store();
    let snapshot = db.snapshot();
    db.clone().close().unwrap();
    for found in db.get_many([key(1), key(2)]).into_iter().chain(snapshot.get_many([key(1)])) {
        assert!(matches!(found, Err(Error::Closed)));
    }
}

const TESTS: &[fn()] = &[
    many_gets_return_what_single_ones_do,
    many_gets_are_of_one_moment,
    many_gets_of_a_transaction_see_its_writes_and_count_as_read,
    many_gets_let_the_device_read_for_many_keys_at_once,
    a_read_that_fails_among_many_is_the_error_of_its_keys,
    many_gets_without_a_cache_come_to_an_end,
    a_block_that_a_batch_reads_is_read_once,
    long_values_are_read_one_at_a_time,
    each_key_fails_if_the_store_is_closed,
];

#[test]
fn in_chunks() {
    TESTS.iter().for_each(|test| test());
}

#[test]
fn in_levels_of_guards() {
    in_guards(TESTS);
}

/// Medians of the time for 64 keys that are in no cache, by gets and by one `get_many`.
#[test]
#[ignore = "a measurement: cargo test --release -p cantle --test store -- --ignored --nocapture speed_of_many"]
fn speed_of_many_gets_and_of_as_many_single_ones() {
    const RECORDS: u64 = 1_000_000;
    const KEYS: u64 = 64;
    const ROUNDS: usize = 60;
    for (name, layout) in [
        ("chunk", LayoutOptions::from(ChunkOptions::new().munks(false))),
        ("flsm", LayoutOptions::from(FlsmOptions::new())),
    ] {
        let dir = tempfile::tempdir_in(".").unwrap();
        let keyspace = KeyspaceOptions::new().layout(layout).row_cache(false);
        let options = Options::new().memory_budget(64 << 20).default_keyspace(keyspace);
        let db = options.open(dir.path().join("store")).unwrap();
        (0..RECORDS).for_each(|number| {
            let number = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            db.put(number.to_be_bytes(), [number as u8; 1000]).unwrap();
        });
        db.compact_range(..).unwrap();
        db.sync().unwrap();
        let forget_pages = || {
            for file in StdVfs.list(&dir.path().join("store")).unwrap() {
                let path = dir.path().join("store").join(&file);
                let Ok(file) = StdVfs.open(&path, OpenMode::Read) else { continue };
                rustix::fs::fadvise(file.descriptor().unwrap(), 0, None, rustix::fs::Advice::DontNeed)
                    .unwrap();
            }
        };
        let mut times = [Vec::new(), Vec::new()];
        let mut next = 1_u64;
        for round in 0..2 * ROUNDS {
            let keys: Vec<[u8; 8]> = (0..KEYS)
                .map(|_| {
                    next = next.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    ((next >> 33) % RECORDS).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()
                })
                .collect();
            forget_pages();
            let begun = Instant::now();
            let found = match round % 2 {
                0 => keys.iter().filter(|key| db.get(key).unwrap().is_some()).count(),
                _ => db.get_many(&keys).into_iter().filter(|found| found.as_ref().unwrap().is_some()).count(),
            };
            times[round % 2].push(begun.elapsed());
            assert_eq!(found as u64, KEYS);
        }
        let [single, many] = times.map(|mut times| {
            times.sort_unstable();
            times[ROUNDS / 2]
        });
        let ratio = single.as_secs_f64() / many.as_secs_f64();
        println!("{name}: {KEYS} gets {single:?}, get_many {many:?}: {ratio:.1} times as fast");
    }
}
