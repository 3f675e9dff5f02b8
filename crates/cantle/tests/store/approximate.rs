//! `approximate_bytes`: the sum of ten tenths is about the whole, each of them is about a tenth,
//! and ranges without pairs have 0 bytes.
#![expect(clippy::unwrap_used, reason = "helpers of tests are tests")]

use cantle::vfs::MemVfs;
use cantle::{ChunkOptions, Db, KeyspaceOptions, Options};
use std::collections::BTreeMap;
use std::sync::Arc;

/// SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

#[derive(Debug, Clone, Copy)]
enum Keys {
    Uniform,
    /// Keys of twenty users, each with its events in the order of time.
    Composite,
    /// Most keys have one long prefix.
    Skewed,
}

impl Keys {
    fn key(self, number: u64, random: &mut Random) -> Vec<u8> {
        match self {
            Self::Uniform => random.next().to_be_bytes().to_vec(),
            Self::Composite => format!("user{:02}/{number:08}", number % 20).into_bytes(),
            Self::Skewed if number.is_multiple_of(10) => format!("{:x}", random.next()).into_bytes(),
            Self::Skewed => format!("m/all/the/same/{:x}", random.next()).into_bytes(),
        }
    }
}

type Pairs = BTreeMap<Vec<u8>, usize>;

/// No background work, so that sizes do not change between the calls.
fn options(disk: &MemVfs, munks: bool) -> Options {
    let chunk = ChunkOptions::new().munks(munks).chunk_bytes(1 << 20);
    let chunk = chunk.log_bytes(u64::MAX).munk_log_bytes(u64::MAX);
    let keyspace = KeyspaceOptions::new().layout(chunk).space_amplification(100.0);
    Options::new().vfs(Arc::new(disk.clone())).memory_budget(256 << 20).default_keyspace(keyspace)
}

fn fill(db: &Db, keys: Keys, value_bytes: impl Fn(&[u8]) -> usize, pairs: u64) -> Pairs {
    let mut random = Random(pairs);
    let mut filled = Pairs::new();
    for number in 0..pairs {
        let key = keys.key(number, &mut random);
        let length = value_bytes(&key);
        let value: Vec<u8> = (0..length.div_ceil(8)).flat_map(|_| random.next().to_le_bytes()).collect();
        db.put(&key, &value[..length]).unwrap();
        filled.insert(key, length);
    }
    filled
}

/// Approximate number of bytes of a pair, including its record or entry.
fn weight((key, value_bytes): (&Vec<u8>, &usize)) -> f64 {
    (key.len() + value_bytes + 16) as f64
}

/// `evenly`: true if every pair was written equally often, so that a tenth of the pairs has a tenth
/// of the bytes.
fn check_if(evenly: bool, db: &Db, pairs: &Pairs, what: &str) {
    let whole = db.approximate_bytes(..).unwrap() as f64;
    let all: f64 = pairs.iter().map(weight).sum();
    let user: f64 = pairs.iter().map(|(key, value_bytes)| (key.len() + value_bytes) as f64).sum();
    // Tables share the prefixes of keys.
    assert!(whole > user / 2.0 && whole < all * 3.0, "{what}: {whole} for {user}");
    // Ranges with equal numbers of bytes.
    let mut bounds: Vec<&[u8]> = vec![b""];
    let mut sizes = vec![0.0];
    for pair in pairs {
        if *sizes.last().unwrap() >= all / 10.0 && sizes.len() < 10 {
            bounds.push(pair.0);
            sizes.push(0.0);
        }
        *sizes.last_mut().unwrap() += weight(pair);
    }
    bounds.push(&[0xff; 17]);
    let found: Vec<f64> =
        bounds.windows(2).map(|pair| db.approximate_bytes(pair[0]..pair[1]).unwrap() as f64).collect();
    let sum: f64 = found.iter().sum();
    assert!((sum / whole - 1.0).abs() < 0.1, "{what}: {sum} of {whole}");
    for (tenth, (found, size)) in found.iter().zip(&sizes).enumerate() {
        let expected = whole * size / all;
        assert!(
            !evenly || (found / expected - 1.0).abs() < 0.2,
            "{what}: tenth {tenth}: {found}, not {expected}"
        );
    }
    for (number, (key, _)) in pairs.iter().enumerate().step_by(pairs.len().div_ceil(20)) {
        assert_eq!(db.approximate_bytes(key..key).unwrap(), 0, "{what}: nothing at {number}");
        // Between two neighbours.
        let behind = [&key[..], &[0]].concat();
        let next = pairs.range(behind.clone()..).next().map_or(vec![0xff; 17], |(next, _)| next.clone());
        assert_eq!(db.approximate_bytes(behind..next).unwrap(), 0, "{what}: nothing behind {number}");
    }
}

fn check(db: &Db, pairs: &Pairs, what: &str) {
    check_if(true, db, pairs, what);
}

fn under_all_circumstances(keys: Keys, value_bytes: fn(&[u8]) -> usize, pairs: u64) {
    for munks in [false, true] {
        let disk = MemVfs::new();
        let what = |when: &str| format!("{keys:?}, munks: {munks}, {when}");
        let db = options(&disk, munks).open("store").unwrap();
        let filled = fill(&db, keys, value_bytes, pairs);
        check(&db, &filled, &what("filled"));
        let killed = options(&disk.kill(), munks).open("store").unwrap();
        check(&killed, &filled, &what("killed"));
        db.close().unwrap();
        drop(db);
        let db = options(&disk, munks).open("store").unwrap();
        check(&db, &filled, &what("reopened"));
        db.compact_range(..).unwrap();
        check(&db, &filled, &what("compacted"));
        filled.iter().for_each(|(key, &length)| db.put(key, vec![7; length]).unwrap());
        // Some overwritten data may have been removed by now.
        check_if(false, &db, &filled, &what("overwritten"));
    }
}

#[test]
fn of_small_values() {
    under_all_circumstances(Keys::Uniform, |_| 16, 30_000);
    under_all_circumstances(Keys::Composite, |_| 16, 30_000);
}

#[test]
fn of_middling_values() {
    under_all_circumstances(Keys::Uniform, |_| 1000, 6000);
    under_all_circumstances(Keys::Composite, |_| 1000, 6000);
    under_all_circumstances(Keys::Skewed, |_| 1000, 6000);
}

#[test]
fn of_large_values() {
    for keys in [Keys::Uniform, Keys::Composite, Keys::Skewed] {
        under_all_circumstances(keys, |_| 100 << 10, 160);
    }
}

/// There are few pairs with long values.
#[test]
fn of_values_that_are_longer_under_some_keys() {
    under_all_circumstances(Keys::Uniform, |key| if key[0] < 0x80 { 300 } else { 3000 }, 4000);
}

/// As published, logs have no indexes.
#[test]
fn of_a_log_without_an_index() {
    let keyspace =
        KeyspaceOptions::new().layout(ChunkOptions::as_published().chunk_bytes(8 << 20).log_bytes(64 << 20));
    let options = Options::new().vfs(Arc::new(MemVfs::new())).default_keyspace(keyspace);
    let db = options.open("store").unwrap();
    let filled = fill(&db, Keys::Uniform, |_| 200, 20_000);
    check(&db, &filled, "as published");
}
