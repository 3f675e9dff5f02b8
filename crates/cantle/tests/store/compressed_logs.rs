//! If a keyspace compresses, its data use less space than their length after closing and reopening,
//! and when the store is idle, counted in allocated blocks. Data that do not compress are not
//! rewritten repeatedly.
#![expect(
    clippy::disallowed_methods,
    reason = "looks at files from outside, and waits for threads that it does not see"
)]
#![expect(clippy::unwrap_used, reason = "a helper of tests may panic")]

use cantle::vfs::MemVfs;
use cantle::{Compression, Db, KeyspaceOptions, Options};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

const DATA_BYTES: usize = 10_000_000;
const LENGTHS: [usize; 4] = [100, 4 << 10, 100_000, 1 << 20];
/// Number of polls without a change until a store is considered to be idle.
const POLLS_MAX: u32 = 1500;
const POLL: Duration = Duration::from_millis(20);

fn compressing() -> Options {
    let keyspace = KeyspaceOptions::new().compression(Compression::Lz4);
    Options::new().default_keyspace(keyspace).checkpoint_interval(Duration::from_millis(200))
}

fn open(disk: &MemVfs) -> Db {
    // The write buffer has the same size for any data.
    compressing().write_buffer(false).vfs(Arc::new(disk.clone())).open("store").unwrap()
}

/// Writes the data in values of one length, each of one letter.
fn fill(db: &Db, value_bytes: usize) {
    let value = vec![b'x'; value_bytes];
    for number in 0..DATA_BYTES / value_bytes {
        db.put((number as u64).to_be_bytes(), &value).unwrap();
    }
}

fn check(db: &Db, value_bytes: usize) {
    let pairs = (DATA_BYTES / value_bytes) as u64;
    for number in [0, pairs / 2, pairs - 1] {
        assert_eq!(db.get(number.to_be_bytes()).unwrap().as_deref(), Some(&vec![b'x'; value_bytes][..]));
    }
    assert_eq!(db.get(pairs.to_be_bytes()).unwrap(), None);
}

fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    for _ in 0..POLLS_MAX {
        if is_so() {
            return;
        }
        std::thread::sleep(POLL);
    }
    panic!("never: {what}");
}

fn allocated_in(dir: &Path) -> u64 {
    let entries = std::fs::read_dir(dir).unwrap();
    // A file that was removed since takes no space.
    512 * entries.map(|entry| entry.unwrap().metadata().map_or(0, |metadata| metadata.blocks())).sum::<u64>()
}

#[test]
fn idle_logs_take_less_than_what_is_in_them() {
    for value_bytes in LENGTHS {
        let disk = MemVfs::without_history();
        let db = open(&disk);
        fill(&db, value_bytes);
        wait_until("the logs are compressed", || disk.allocated_bytes() < DATA_BYTES as u64 / 4);
        check(&db, value_bytes);
    }
}

/// A chunk of one pair, which cannot be split, though it is large.
#[test]
fn a_value_longer_than_a_chunk_is_compressed_as_well() {
    let disk = MemVfs::without_history();
    let db = open(&disk);
    db.put("key", vec![b'x'; 20 << 20]).unwrap();
    for _ in 0..100 {
        assert_eq!(db.get("key").unwrap().map(|value| value.len()), Some(20 << 20));
    }
    wait_until("it is compressed", || disk.allocated_bytes() < 1 << 20);
}

#[test]
fn a_store_that_was_closed_takes_less_than_what_is_in_it() {
    for value_bytes in LENGTHS {
        let disk = MemVfs::without_history();
        let db = open(&disk);
        fill(&db, value_bytes);
        db.close().unwrap();
        let allocated = disk.allocated_bytes();
        assert!(allocated < DATA_BYTES as u64 / 2, "{allocated} bytes in values of {value_bytes}");
        let db = open(&disk);
        check(&db, value_bytes);
        wait_until("the rest is compressed", || disk.allocated_bytes() < DATA_BYTES as u64 / 4);
    }
}

#[test]
fn logs_of_a_killed_process_are_compressed_after_reopening() {
    for value_bytes in LENGTHS {
        let disk = MemVfs::new();
        let db = open(&disk);
        fill(&db, value_bytes);
        let disk = disk.kill();
        drop(db);
        let db = open(&disk);
        wait_until("the logs are compressed", || disk.allocated_bytes() < DATA_BYTES as u64 / 4);
        check(&db, value_bytes);
    }
}

#[test]
fn with_all_defaults_on_a_file_system_as_well() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    let options = || Options::new().default_keyspace(KeyspaceOptions::new().compression(Compression::Lz4));
    let db = options().open(&path).unwrap();
    fill(&db, 100);
    db.close().unwrap();
    let db = options().open(&path).unwrap();
    wait_until("it is compressed", || allocated_in(&path) < DATA_BYTES as u64 / 4);
    check(&db, 100);
}

/// Bytes that do not compress.
fn noise(seed: u64, bytes: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    (0..bytes).map(|_| next() as u8).collect()
}

#[test]
fn what_does_not_compress_is_sorted_once() {
    let db = open(&MemVfs::without_history());
    for number in 0..1000u64 {
        db.put(number.to_be_bytes(), noise(number, 4 << 10)).unwrap();
    }
    let work = || {
        let stats = db.stats();
        let keyspace = &stats.keyspaces[0];
        (keyspace.log_bytes, keyspace.table_bytes_written, keyspace.chunk().unwrap().rebalances)
    };
    wait_until("all is sorted", || work().0 == 0);
    let (_, written, rebalances) = work();
    // Each round writes a tenth of the data, and then the store idles long enough to rebalance.
    for round in 0..4u64 {
        for number in 0..100u64 {
            db.put((1000 + round * 100 + number).to_be_bytes(), noise(!number, 4 << 10)).unwrap();
        }
        std::thread::sleep(50 * POLL);
    }
    assert_eq!((work().1, work().2), (written, rebalances), "it was sorted in vain again");
}

#[test]
fn what_an_open_snapshot_sees_is_compressed_and_stays() {
    let disk = MemVfs::without_history();
    let db = open(&disk);
    fill(&db, 4 << 10);
    let snapshot = db.snapshot();
    let pairs = (DATA_BYTES / (4 << 10)) as u64;
    (0..pairs).for_each(|number| db.put(number.to_be_bytes(), vec![b'y'; 4 << 10]).unwrap());
    wait_until("the logs are compressed", || {
        db.stats().keyspaces[0].log_bytes == 0 && disk.allocated_bytes() < DATA_BYTES as u64 / 4
    });
    let rebalances = db.stats().keyspaces[0].chunk().unwrap().rebalances;
    std::thread::sleep(50 * POLL);
    assert_eq!(db.stats().keyspaces[0].chunk().unwrap().rebalances, rebalances, "nothing was written since");
    for number in [0, pairs - 1] {
        assert_eq!(snapshot.get(number.to_be_bytes()).unwrap().unwrap()[..], vec![b'x'; 4 << 10]);
        assert_eq!(db.get(number.to_be_bytes()).unwrap().unwrap()[..], vec![b'y'; 4 << 10]);
    }
}
