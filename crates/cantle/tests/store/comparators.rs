//! Comparators that fail: earlier acknowledged writes are there after the next opening, whichever
//! call used the comparator.
#![expect(clippy::unwrap_used, reason = "helpers of tests are tests")]
#![expect(clippy::disallowed_methods, reason = "waits for background threads")]

use cantle::vfs::MemVfs;
use cantle::{ChunkOptions, Comparator, Db, Error, KeyspaceOptions, Options};
use std::cmp::Ordering;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering::SeqCst};
use std::time::{Duration, Instant};

/// Descending order, until it fails once.
struct Failing {
    /// Number of comparisons until it fails; never below 0.
    left: AtomicI64,
    panics: bool,
    has_failed: AtomicBool,
}

impl Failing {
    fn new(panics: bool) -> Arc<Self> {
        Arc::new(Self { left: AtomicI64::new(i64::MIN / 2), panics, has_failed: AtomicBool::new(false) })
    }

    fn fail_in(&self, comparisons: i64) {
        self.left.store(comparisons, SeqCst);
    }
}

impl Comparator for Failing {
    fn name(&self) -> &str {
        "backwards"
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        b.cmp(a)
    }

    fn try_compare(&self, a: &[u8], b: &[u8]) -> Result<Ordering, String> {
        if self.left.fetch_sub(1, SeqCst) == 0 {
            self.has_failed.store(true, SeqCst);
            assert!(!self.panics, "a bug of the comparator");
            return Err("it had no answer".into());
        }
        Ok(self.compare(a, b))
    }
}

const PAIRS: usize = 1500;
const VALUE_BYTES: usize = 200;

fn key(number: usize) -> [u8; 4] {
    (number as u32).to_be_bytes()
}

fn open(disk: &Arc<MemVfs>, order: &Arc<Failing>) -> Db {
    let small = KeyspaceOptions::new()
        .layout(ChunkOptions::new().chunk_bytes(64 << 10).log_bytes(16 << 10).munks(false));
    let options = Options::new().vfs(disk.clone()).default_keyspace(small.comparator(order.clone()));
    options.background_threads(1).open("store").unwrap()
}

/// Fills a store, and lets its comparator fail in the n-th comparison of `work`, for several n.
fn failing_within(panics: bool, work: impl Fn(&Db) -> Result<(), Error>) {
    let mut failures = 0;
    for at in [0, 1, 2, 3, 5, 8, 13, 40, 200, 1000, 5000, 12_000] {
        let disk = Arc::new(MemVfs::new());
        let order = Failing::new(panics);
        let db = open(&disk, &order);
        for number in 0..PAIRS {
            db.put(key(number), [number as u8; VALUE_BYTES]).unwrap();
        }
        order.fail_in(at);
        let done = work(&db);
        let failed = order.has_failed.load(SeqCst);
        if failed {
            failures += 1;
            // A failure in another thread may not have reached the store yet.
            let end = Instant::now() + Duration::from_secs(30);
            let error = loop {
                if let Err(error) = db.put("more", "") {
                    break error;
                }
                assert!(Instant::now() < end, "nobody told the store");
                std::thread::yield_now();
            };
            assert!(matches!(error, Error::ReadOnly { .. }), "{error}");
            assert!(error.to_string().contains("backwards"), "{error}");
            assert!(
                matches!(db.get(key(7)), Err(Error::ReadOnly { .. })),
                "an answer that nobody can rely on"
            );
            assert!(matches!(db.range(..).next(), Some(Err(Error::ReadOnly { .. }))));
        } else {
            done.unwrap();
        }
        drop(db);
        let db = open(&disk, &Failing::new(false));
        for number in 0..PAIRS {
            let value = db.get(key(number)).unwrap();
            assert_eq!(
                value.as_deref(),
                Some(&[number as u8; VALUE_BYTES][..]),
                "pair {number}, failing at {at}"
            );
        }
        assert!(db.range(..).map(|pair| pair.unwrap().0).is_sorted_by(|a, b| a > b), "failing at {at}");
        assert!(db.verify().unwrap().damage.is_empty(), "failing at {at}");
        db.close().unwrap();
    }
    assert!(failures >= 4, "{failures}");
}

/// A few puts, as one put may make three comparisons only.
fn put_some(db: &Db) -> Result<(), Error> {
    (PAIRS / 3..PAIRS / 3 + 4).try_for_each(|number| db.put(key(number), [number as u8; VALUE_BYTES]))
}

#[test]
fn a_comparator_that_fails_in_a_put_loses_nothing() {
    failing_within(false, put_some);
}

#[test]
fn a_comparator_that_fails_in_a_batch_loses_nothing() {
    failing_within(false, |db| {
        let mut batch = cantle::WriteBatch::new();
        (0..PAIRS).step_by(7).for_each(|number| {
            batch.put(key(number), [number as u8; VALUE_BYTES]);
        });
        db.write(batch)
    });
}

#[test]
fn a_comparator_that_fails_in_a_compaction_loses_nothing() {
    failing_within(false, |db| db.compact_range(..));
}

#[test]
fn a_comparator_that_fails_in_the_background_loses_nothing() {
    failing_within(false, |db| {
        // Enough puts for logs to be merged.
        (0..4 * PAIRS)
            .map(|number| number % PAIRS)
            .try_for_each(|number| db.put(key(number), [number as u8; VALUE_BYTES]))
    });
}

#[test]
fn a_comparator_that_panics_is_one_that_fails() {
    failing_within(true, |db| db.compact_range(..));
    failing_within(true, put_some);
}

/// A read of each kind, in a store whose comparator fails in the first comparison or a later one.
#[test]
fn whatever_reads_after_a_comparator_failed_says_so() {
    type Read = fn(&Db, &cantle::Snapshot, &cantle::Transaction) -> Result<(), Error>;
    let reads: &[(&str, Read)] = &[
        ("get", |db, _, _| db.get(key(7)).map(drop)),
        ("get_with", |db, _, _| db.get_with(key(7), |_| ()).map(drop)),
        ("contains_key", |db, _, _| db.contains_key(key(7)).map(drop)),
        ("range", |db, _, _| db.range(..).next().transpose().map(drop)),
        ("range back", |db, _, _| db.range(..).next_back().transpose().map(drop)),
        ("cursor", |db, _, _| db.cursor(..).seek(key(7)).map(drop)),
        ("approximate_bytes", |db, _, _| db.approximate_bytes(key(9)..key(7)).map(drop)),
        ("a snapshot's get", |_, snapshot, _| snapshot.get(key(7)).map(drop)),
        ("a snapshot's get_with", |_, snapshot, _| snapshot.get_with(key(7), |_| ()).map(drop)),
        ("a snapshot's range", |_, snapshot, _| snapshot.range(..).next().transpose().map(drop)),
        ("a transaction's get", |_, _, tx| tx.get(key(7)).map(drop)),
        ("a transaction's get_with", |_, _, tx| tx.get_with(key(7), |_| ()).map(drop)),
        ("a transaction's get of what it wrote", |_, _, tx| tx.get(key(3)).map(drop)),
        ("a transaction's range", |_, _, tx| tx.range(..).next().transpose().map(drop)),
        ("a transaction's cursor", |_, _, tx| tx.cursor(..).seek(key(7)).map(drop)),
    ];
    for (name, read) in reads {
        for at in [0, 1, 4] {
            let disk = Arc::new(MemVfs::new());
            let order = Failing::new(false);
            let db = open(&disk, &order);
            for number in 0..PAIRS {
                db.put(key(number), [number as u8; VALUE_BYTES]).unwrap();
            }
            let snapshot = db.snapshot();
            let mut tx = db.transaction();
            tx.put(key(3), "written").unwrap();
            tx.put(key(4), "written").unwrap();
            order.fail_in(at);
            // The failure occurs in the read itself, in another one, or in the background.
            let failed_within = (0..100).find_map(|_| match read(&db, &snapshot, &mut tx) {
                Ok(()) if order.has_failed.load(SeqCst) => Some(Ok(())),
                Ok(()) => None,
                Err(error) => Some(Err(error)),
            });
            match failed_within {
                Some(Err(error)) => {
                    assert!(matches!(error, Error::ReadOnly { .. }), "{name} at {at}: {error}");
                }
                // It failed in the background between the read and the check.
                Some(Ok(())) | None => {
                    let _ = db.get(key(7));
                    assert!(read(&db, &snapshot, &mut tx).is_err(), "{name} at {at}: no error");
                }
            }
        }
    }
}

/// Descending order, in which only keys of an even length have a prefix.
struct SomePrefixes;

impl Comparator for SomePrefixes {
    fn name(&self) -> &str {
        "some-prefixes"
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        b.cmp(a)
    }

    fn prefix(&self, key: &[u8]) -> Option<u64> {
        let mut first = [0; 8];
        first.iter_mut().zip(key).for_each(|(to, from)| *to = *from);
        key.len().is_multiple_of(2).then(|| !u64::from_be_bytes(first))
    }
}

/// Keys without a prefix are written with the others, before the chunk is in memory; or, if `late`,
/// only when it is in memory and all its keys have a prefix.
#[test]
fn keys_without_a_prefix_are_found_beside_others_that_have_one() {
    for late in [false, true] {
        let small = KeyspaceOptions::new()
            .layout(ChunkOptions::new().chunk_bytes(64 << 10))
            .comparator(Arc::new(SomePrefixes));
        let options = || Options::new().vfs(Arc::new(MemVfs::new())).default_keyspace(small.clone());
        let db = options().open("store").unwrap();
        let key = |number: usize| "x".repeat(number % 2) + &format!("{number:06}");
        let numbers = || (0..4000).filter(|number| !late || number % 2 == 0);
        numbers().for_each(|number| db.put(key(number), number.to_le_bytes()).unwrap());
        let until = Instant::now() + Duration::from_secs(60);
        while db.stats().keyspaces[0].chunk().unwrap().munks == 0 {
            numbers().for_each(|number| assert!(db.get(key(number)).unwrap().is_some(), "{number}"));
            assert!(Instant::now() < until, "no chunk came into memory");
        }
        (0..4000).for_each(|number| db.put(key(number), number.to_le_bytes()).unwrap());
        for number in 0..4000 {
            let value = db.get(key(number)).unwrap();
            assert_eq!(value.as_deref(), Some(&number.to_le_bytes()[..]), "{number}, late: {late}");
        }
        let mut expected: Vec<_> = (0..4000).map(key).collect();
        expected.sort_by(|a, b| b.cmp(a));
        let read: Vec<_> = db.range(..).map(|pair| pair.unwrap().0).collect();
        assert!(read.iter().map(|key| &key[..]).eq(expected.iter().map(String::as_bytes)), "late: {late}");
        let back: Vec<_> = db.range(..).rev().map(|pair| pair.unwrap().0).collect();
        assert!(back.iter().rev().map(|key| &key[..]).eq(expected.iter().map(String::as_bytes)));
    }
}
