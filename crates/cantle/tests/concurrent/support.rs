//! What the tests share: a small generator, options for tiny chunks, and threads that keep maintenance busy.

use cantle::{Db, Durability, KeyspaceOptions, Options, WriteBatch};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant, SystemTime};
use tempfile::TempDir;

pub fn factor() -> u32 {
    std::env::var("CANTLE_TEST_FACTOR").ok().and_then(|factor| factor.parse().ok()).unwrap_or(1)
}

/// How long a test goes on.
pub fn until(millis: u64) -> Instant {
    Instant::now() + Duration::from_millis(millis) * factor()
}

/// SplitMix64.
#[derive(Debug, Clone)]
pub struct Rng(u64);

impl Rng {
    /// For one test; prints the seed.
    pub fn for_test(name: &str) -> Self {
        let time = || SystemTime::UNIX_EPOCH.elapsed().map_or(0, |elapsed| elapsed.as_nanos() as u64);
        let seed = std::env::var("CANTLE_TEST_SEED").ok().and_then(|seed| seed.parse().ok());
        let seed = seed.unwrap_or_else(time);
        println!("{name}: CANTLE_TEST_SEED={seed}");
        Self(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    pub fn fork(&mut self) -> Self {
        Self(self.next())
    }
}

/// In memory, if the system has such a place: what is tested is not the device, and others may use that too.
pub fn dir() -> TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

/// Chunks of 64 KiB that are rebalanced after every few writes, and frequent checkpoints.
pub fn options(durability: Durability, rng: &mut Rng) -> Options {
    let keyspace = KeyspaceOptions::new()
        .chunk_bytes(64 << 10)
        .log_bytes([4 << 10, 16 << 10, 48 << 10][rng.below(3) as usize])
        .log_index(rng.below(4) > 0);
    Options::new()
        .durability(durability)
        .memory_budget(2 << 20)
        .background_threads(2)
        .checkpoint_interval(Duration::from_millis(20))
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

/// Keys between those that a test looks at: `letter` is the first byte, 'a' to 'f'.
fn filler_key(rng: &mut Rng) -> String {
    format!("{}{:03}x", (b'a' + rng.below(6) as u8) as char, rng.below(100))
}

/// So much between the keys that tests look at that they lie in several chunks.
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

/// Fills the gaps between the keys that tests look at, which are a letter and three digits, and empties them, so that
/// chunks split and merge, until `stop`.
pub fn churn(db: &Db, mut rng: Rng, stop: &AtomicBool) {
    while !stop.load(SeqCst) {
        match rng.below(40) {
            0 => {
                // No key that a test looks at: these have no 'x' at the end.
                for number in 0..20 {
                    let letter = (b'a' + rng.below(6) as u8) as char;
                    db.delete(format!("{letter}{number:03}x")).unwrap();
                }
            }
            _ => db.put(filler_key(&mut rng), vec![7; 1 + rng.below(3000) as usize]).unwrap(),
        }
    }
}

/// Asks for everything that moves data, until `stop`.
pub fn shake(db: &Db, mut rng: Rng, stop: &AtomicBool) {
    while !stop.load(SeqCst) {
        let from = filler_key(&mut rng);
        match rng.below(6) {
            0 => db.sync().unwrap(),
            1 => db.compact_range(from..).unwrap(),
            2 | 3 => db.compact_range(..from).unwrap(),
            4 => drop(db.snapshot().range(from..).take(20).count()),
            _ => drop((db.stats(), db.chunks().unwrap(), db.approximate_bytes(from..).unwrap())),
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

/// Also when a test fails, so that it ends.
pub struct StopOnDrop<'a>(pub &'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
    }
}

/// What maintenance did, to show that a test tests something.
pub fn assert_moved(db: &Db) {
    let stats = db.stats();
    let keyspace = &stats.keyspaces[0];
    println!(
        "{} rebalances, {} splits, {} merges, {} chunks dropped, {} checkpoints",
        keyspace.rebalances, keyspace.splits, keyspace.merges, keyspace.chunks_dropped, stats.checkpoints
    );
    println!(
        "{} munk loads, {} evictions, {} rebalances, {} splits, {} flushes; {:?}; {} rows, {} scanned munks",
        keyspace.munk_loads,
        keyspace.munk_evictions,
        keyspace.munk_rebalances,
        keyspace.munk_splits,
        keyspace.munk_flushes,
        keyspace.gets_served,
        stats.memory.row_hits,
        keyspace.scans_munk,
    );
    assert!(keyspace.rebalances > 0 && keyspace.splits > 0, "nothing moved");
    assert!(stats.memory_used < 1 << 40, "memory accounting went below zero");
}

/// One after the other, whoever asks.
#[derive(Debug, Default)]
pub struct Clock(AtomicU64);

impl Clock {
    pub fn tick(&self) -> u64 {
        self.0.fetch_add(1, SeqCst)
    }
}
