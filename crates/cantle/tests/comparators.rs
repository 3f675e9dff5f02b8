//! Comparators that fail: what was acknowledged before is there after the next opening, whoever was asking.
#![expect(clippy::unwrap_used, reason = "helpers of tests are tests")]
#![expect(clippy::disallowed_methods, reason = "waits for background threads")]

use cantle::vfs::MemVfs;
use cantle::{Comparator, Db, Error, KeyspaceOptions, Options};
use std::cmp::Ordering;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering::SeqCst};
use std::time::{Duration, Instant};

/// Backwards, until it fails once.
struct Failing {
    /// How many comparisons there are until it fails; never below zero.
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
    let small = KeyspaceOptions::new().chunk_bytes(64 << 10).log_bytes(16 << 10).munks(false);
    let options = Options::new().vfs(disk.clone()).default_keyspace(small.comparator(order.clone()));
    options.background_threads(1).open("store").unwrap()
}

/// Fills a store, and has its comparator fail in the n-th comparison of `work`, for several n.
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
            // In another thread it may still be on its way to the store.
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

#[test]
fn a_comparator_that_fails_in_a_put_loses_nothing() {
    failing_within(false, |db| db.put(key(PAIRS / 3), [(PAIRS / 3) as u8; VALUE_BYTES]));
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
        // So much that logs are merged.
        (0..4 * PAIRS)
            .map(|number| number % PAIRS)
            .try_for_each(|number| db.put(key(number), [number as u8; VALUE_BYTES]))
    });
}

#[test]
fn a_comparator_that_panics_is_one_that_fails() {
    failing_within(true, |db| db.compact_range(..));
    failing_within(true, |db| db.put(key(PAIRS / 3), [(PAIRS / 3) as u8; VALUE_BYTES]));
}
