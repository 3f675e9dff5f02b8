//! Helpers of the histories: options for tiny chunks, and threads that keep maintenance busy.

use crate::files::dir_in_memory;
use crate::layouts::{self, OfChunk, Tuned};
use crate::rng::Rng;
use crate::visit::Visit;
use cantle::{Db, Durability, KeyspaceOptions, LayoutOptions, Options, WriteBatch};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Duration of a history: this number of milliseconds, in tests half of it. On a busy machine it
/// lasts until the tested events have happened, but at most 20 times as long.
pub struct Course {
    least: Instant,
    most: Instant,
}

impl Course {
    pub fn new(visit: &Visit, millis: u64) -> Self {
        let least = Duration::from_millis(if visit.is_long() { millis } else { millis / 2 });
        let now = Instant::now();
        Self { least: now + least, most: now + 20 * least }
    }

    pub fn goes_on(&self, has_happened: impl FnOnce() -> bool) -> bool {
        let now = Instant::now();
        now < self.least || (now < self.most && !has_happened())
    }
}

pub fn dir() -> TempDir {
    dir_in_memory().unwrap()
}

pub fn keyspace(layout: LayoutOptions) -> KeyspaceOptions {
    KeyspaceOptions::new().layout(layout)
}

/// The layout under test; chunks of 64 KiB.
pub fn layout(visit: &Visit) -> LayoutOptions {
    LayoutOptions::from(visit.layout).with_regions(64 << 10)
}

/// Chunks of 64 KiB that are rebalanced after every few writes, and frequent checkpoints.
pub fn options(visit: &Visit, durability: Durability, rng: &mut Rng) -> Options {
    let log_bytes = [4 << 10, 16 << 10, 48 << 10][rng.below(3) as usize];
    // Some stores search their logs linearly.
    let layout = layouts::options(visit.layout, rng.below(8) == 0).with_regions(64 << 10);
    let layout = layout.with("log_bytes", log_bytes).with("munk_log_bytes", log_bytes);
    // An option of `flsm`, which has none of these names.
    let layout = layout.with("log_is_level_0", log_bytes != 4 << 10).with_storing(log_bytes / 5000);
    let keyspace = KeyspaceOptions::new().layout(layout);
    Options::new()
        .durability(durability)
        .memory_budget(2 << 20)
        .background_threads(2)
        .checkpoint_interval(Duration::from_millis(20))
        // The stores of every second run read by hints.
        .io_uring(rng.below(2) == 0)
        .default_keyspace(keyspace)
}

/// A number with padding, so that few values fill a chunk.
pub fn value(number: u64, rng: &mut Rng) -> Vec<u8> {
    let mut bytes = number.to_le_bytes().to_vec();
    bytes.resize(8 + rng.below(1500) as usize, b'.');
    bytes
}

pub fn number(value: &[u8]) -> u64 {
    u64::from_le_bytes(value[..8].try_into().unwrap())
}

/// Keys between the keys of a test: `letter` is the first byte, 'a' to 'f'.
fn filler_key(rng: &mut Rng) -> String {
    format!("{}{:03}x", (b'a' + rng.below(6) as u8) as char, rng.below(100))
}

/// Writes enough between the keys of tests to put them into several chunks.
pub fn fill(db: &Db, rng: &mut Rng) {
    for _ in 0..10 {
        let mut batch = WriteBatch::new();
        for _ in 0..40 {
            batch.put(filler_key(rng), vec![7; 2000]);
        }
        db.write(batch).unwrap();
    }
    db.compact_range(..).unwrap();
}

/// Fills the ranges between the keys of tests, which are a letter and three digits, and empties
/// them, so that chunks split and merge, until `stop`.
pub fn churn(db: &Db, mut rng: Rng, stop: &AtomicBool) {
    while !stop.load(SeqCst) {
        match rng.below(40) {
            0 => {
                // Not a key of a test: those have no 'x' at the end.
                for number in 0..20 {
                    let letter = (b'a' + rng.below(6) as u8) as char;
                    db.delete(format!("{letter}{number:03}x")).unwrap();
                }
            }
            _ => db.put(filler_key(&mut rng), vec![7; 1 + rng.below(3000) as usize]).unwrap(),
        }
        if !db.layout().capabilities().frees_space {
            // No space is ever freed, so fewer writes.
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Starts every operation that moves data, until `stop`.
pub fn shake(db: &Db, mut rng: Rng, stop: &AtomicBool) {
    while !stop.load(SeqCst) {
        let from = filler_key(&mut rng);
        match rng.below(6) {
            0 => db.sync().unwrap(),
            1 => db.compact_range(from..).unwrap(),
            2 | 3 => db.compact_range(..from).unwrap(),
            4 => drop(db.snapshot().range(from..).take(20).count()),
            _ => drop((db.stats(), db.regions().unwrap(), db.approximate_bytes(from..).unwrap())),
        }
        std::thread::sleep(Duration::from_millis(rng.below(4)));
    }
}

/// Runs `test` while other threads churn and shake.
pub fn amid_maintenance<T>(db: &Db, rng: &mut Rng, test: impl FnOnce() -> T) -> T {
    let stop = AtomicBool::new(false);
    let (churning, shaking) = (rng.fork(), rng.fork());
    std::thread::scope(|scope| {
        scope.spawn(|| churn(db, churning, &stop));
        scope.spawn(|| shake(db, shaking, &stop));
        let _stop = StopOnDrop(&stop);
        test()
    })
}

/// Stops the threads when a test ends or panics.
pub struct StopOnDrop<'a>(pub &'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
    }
}

/// True if data were rebalanced and chunks split: without that a history tests little. Other
/// layouts do not count such work.
pub fn has_moved(db: &Db) -> bool {
    db.stats().keyspaces[0].chunk().is_none_or(|chunk| chunk.rebalances > 0 && chunk.splits > 0)
}

/// Counts the work of maintenance, to show that a history tests something.
pub fn assert_moved(visit: &Visit, db: &Db) {
    let stats = db.stats();
    let keyspace = &stats.keyspaces[0];
    visit.count("rebalances", keyspace.of_chunk().rebalances);
    visit.count("splits", keyspace.of_chunk().splits);
    visit.count("merges", keyspace.of_chunk().merges);
    visit.count("checkpoints", stats.checkpoints);
    visit.count("places read by rings", stats.reads_by_io_uring);
    visit.count("places read by hints", stats.reads_by_hints);
    visit.count("munk loads", keyspace.of_chunk().munk_loads);
    assert!(has_moved(db), "nothing moved");
    assert!(stats.memory_used < 1 << 40, "memory accounting went below zero");
}

/// A counter: all its values over all threads are different and ordered.
#[derive(Debug, Default)]
pub struct Clock(AtomicU64);

impl Clock {
    pub fn tick(&self) -> u64 {
        self.0.fetch_add(1, SeqCst)
    }
}
