//! Bugs of other stores, each in the form that it would have here. The comment of each test
//! describes the original bug.
#![expect(clippy::unwrap_used, reason = "a failed test panics")]

mod leveldb;
mod others;
mod rocksdb;
mod torn;

use cantle::vfs::{CrashPlan, FaultVfs, MemVfs, Vfs};
use cantle::{ChunkOptions, Db, Durability, KeyspaceOptions, Options};
use cantle_faults::doors::crash_states::plans;
use cantle_faults::files::{self, Kind};
use cantle_faults::history::{Marks, Progress};
use cantle_faults::images::{Image, record};
use cantle_faults::setup::STORE;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

/// No checkpoints except the requested ones.
fn options(vfs: impl Vfs, durability: Durability) -> Options {
    Options::new()
        .vfs(Arc::new(vfs))
        .memory_budget(4 << 20)
        .background_threads(1)
        .durability(durability)
        .checkpoint_interval(Duration::from_secs(3600))
        .default_keyspace(keyspace())
}

fn keyspace() -> KeyspaceOptions {
    KeyspaceOptions::new().layout(ChunkOptions::new().chunk_bytes(64 << 10))
}

fn open(vfs: impl Vfs, durability: Durability) -> cantle::Result<Db> {
    options(vfs, durability).open(STORE)
}

/// A file system whose calls are watched.
struct Lab {
    memory: MemVfs,
    fault: FaultVfs,
    progress: Arc<Progress>,
}

impl Lab {
    fn over(memory: MemVfs) -> Self {
        Self { fault: FaultVfs::over_memory(memory.clone()), memory, progress: Progress::at(0, 0) }
    }

    /// Runs one operation that is acknowledged when it returns.
    fn acknowledged<T>(&self, durable: bool, act: impl FnOnce() -> cantle::Result<T>) -> T {
        self.progress.begin();
        let done = act().unwrap();
        self.progress.finish(durable);
        done
    }

    /// Images of the file system before every call by which `act` changes something, and at its
    /// end.
    fn watch<T>(&self, act: impl FnOnce() -> T) -> (T, Vec<Image>) {
        let images = record(&self.fault, &self.memory, &self.progress, 1, usize::MAX);
        let done = act();
        self.fault.clear_rule();
        let mut images = std::mem::take(&mut *images.lock().unwrap());
        let (vfs, marks) = (self.memory.kill(), self.progress.now());
        images.push(Image { vfs, marks, call: None, at: "the end".into() });
        (done, images)
    }
}

/// Every image that a loss of power at these moments could leave, each once. Returns their number.
fn lose_power(images: &[Image], mut check: impl FnMut(MemVfs, Marks, &str)) -> usize {
    let mut seen = HashSet::new();
    for (index, image) in images.iter().enumerate() {
        for plan in plans(&image.vfs, index as u64) {
            let lost = image.vfs.crash(&plan);
            if seen.insert((lost.fingerprint(), image.marks.durable, image.marks.acknowledged)) {
                check(lost, image.marks, &format!("before {}: {plan:?}", image.at));
            }
        }
    }
    seen.len()
}

/// Only the synced data, all data, and the death of the process alone.
fn deaths(memory: &MemVfs) -> [(MemVfs, &'static str); 3] {
    [
        (memory.crash(&CrashPlan::LOSE_UNSYNCED), "what was not synced is lost"),
        (memory.crash(&CrashPlan::KEEP_ALL), "the power fails when all is written"),
        (memory.kill(), "the process is killed"),
    ]
}

/// A file that does not have its final name yet is not of its kind.
fn is_of(name: &str, kind: Kind) -> bool {
    Kind::of(name) == kind && !name.ends_with(".tmp")
}

fn names_of(memory: &MemVfs, kind: Kind) -> Vec<String> {
    files::names(memory).into_iter().filter(|name| is_of(name, kind)).collect()
}

fn key(n: usize) -> String {
    format!("key{n:05}")
}

fn value(n: usize, len: usize) -> Vec<u8> {
    (0..len).map(|at| (n.wrapping_mul(31) + at / 7 + at) as u8).collect()
}

const VALUE_BYTES: usize = 1000;

fn put(db: &Db, n: usize) -> cantle::Result<()> {
    db.put(key(n), value(n, VALUE_BYTES))
}

/// The number of pairs: these must be the ones that were put first, with their values, and no
/// others.
fn count(db: &Db, what: &str) -> usize {
    let mut count = 0;
    for pair in db.range(..) {
        let (found, stored) = pair.unwrap_or_else(|error| panic!("{what}: {error}"));
        assert!(found == key(count), "{what}: {} is missing, {found:?} is there", key(count));
        assert!(stored == value(count, VALUE_BYTES), "{what}: {found:?} has another value");
        count += 1;
    }
    count
}

/// Checks that the store opens, is sound, has the pairs that were put in order, and accepts more.
/// Returns the number of pairs.
fn check(vfs: MemVfs, durability: Durability, what: &str) -> usize {
    let db = open(vfs, durability).unwrap_or_else(|error| panic!("{what}: {error}"));
    let count = count(&db, what);
    let report = db.verify().unwrap_or_else(|error| panic!("{what}: {error}"));
    assert!(report.is_ok(), "{what}: {:?}", report.damage);
    put(&db, count).unwrap_or_else(|error| panic!("{what}: {error}"));
    count
}
