//! After any maintenance of the chunks of a killed store, the store can be opened again and has
//! every pair.
#![expect(clippy::unwrap_used, reason = "helpers of tests may panic")]

use cantle::vfs::MemVfs;
use cantle::{ChunkOptions, Comparator, Db, KeyspaceOptions, Options};
use std::cmp::Ordering;
use std::collections::HashMap;
use std::sync::Arc;

fn open(disk: &MemVfs, keyspace: KeyspaceOptions) -> Db {
    Options::new().vfs(Arc::new(disk.clone())).default_keyspace(keyspace).open("store").unwrap()
}

/// SplitMix64.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }
}

fn key(number: u64) -> String {
    format!("{number:010}")
}

/// Fills a store in key order, kills it, and reads it by hot gets until maintenance has run many
/// times; repeated several times.
#[test]
fn a_killed_store_survives_being_read() {
    for (value_bytes, pairs) in [(1000, 10_000_u64), (100, 60_000), (3000, 4_000), (16, 120_000)] {
        let mut disk = MemVfs::new();
        let value = |number: u64| number.to_be_bytes().repeat(value_bytes / 8 + 1);
        let db = open(&disk, KeyspaceOptions::new());
        for number in 0..pairs {
            db.put(key(number), value(number)).unwrap();
        }
        let mut random = Random(value_bytes as u64);
        for life in 0..3 {
            disk = disk.kill();
            let db = open(&disk, KeyspaceOptions::new());
            for _ in 0..200_000 {
                let number = random.below(pairs);
                let found = db.get(key(number)).unwrap();
                assert!(
                    found.is_some_and(|found| found[..8] == number.to_be_bytes()),
                    "{number} in life {life}"
                );
            }
            assert!(db.stats().read_only.is_none(), "{:?}", db.stats().read_only);
            assert_eq!(db.stats().keyspaces[0].edits_refused, 0);
        }
        let db = open(&disk.kill(), KeyspaceOptions::new());
        assert_eq!(db.range(..).filter(|pair| pair.is_ok()).count() as u64, pairs);
        assert!(db.verify().unwrap().is_ok());
    }
}

/// An order in which an empty key is the greatest.
struct Backwards;

impl Comparator for Backwards {
    fn name(&self) -> &str {
        "backwards"
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        b.cmp(a)
    }
}

/// The longest keys first: an empty key is the greatest, and prefixes carry no information.
struct LongestFirst;

impl Comparator for LongestFirst {
    fn name(&self) -> &str {
        "longest first"
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        b.len().cmp(&a.len()).then_with(|| a.cmp(b))
    }
}

/// An order in which an empty key is in the middle.
struct OddFirst;

impl Comparator for OddFirst {
    fn name(&self) -> &str {
        "odd first"
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        let rank = |key: &[u8]| key.len().is_multiple_of(2);
        rank(a).cmp(&rank(b)).then_with(|| a.cmp(b))
    }
}

fn assert_holds(db: &Db, pairs: &HashMap<Vec<u8>, Vec<u8>>, order: &dyn Comparator, what: &str) {
    assert!(db.stats().read_only.is_none(), "{what}: {:?}", db.stats().read_only);
    assert_eq!(db.stats().keyspaces[0].edits_refused, 0, "{what}");
    let mut expected: Vec<_> = pairs.iter().collect();
    expected.sort_by(|(a, _), (b, _)| order.compare(a, b));
    let same = |found: &(cantle::Key, cantle::Value), expected: &(&Vec<u8>, &Vec<u8>)| {
        found.0[..] == expected.0[..] && found.1[..] == expected.1[..]
    };
    let found: Vec<_> = db.range(..).map(|pair| pair.unwrap()).collect();
    assert!(found.len() == expected.len(), "{what}: {} of {} pairs", found.len(), expected.len());
    assert!(found.iter().zip(&expected).all(|(found, expected)| same(found, expected)), "{what}: a range");
    let back = db.range(..).rev().map(|pair| pair.unwrap());
    assert!(
        back.zip(expected.iter().rev()).all(|(found, expected)| same(&found, expected)),
        "{what}: backwards"
    );
    for (key, value) in pairs {
        assert!(db.get(key).unwrap().as_deref() == Some(&value[..]), "{what}: a get of {key:?}");
    }
}

/// The empty key is written more than others, and alone is as long as a chunk, so that cuts next to
/// it are likely.
#[test]
fn an_empty_key_may_be_anywhere_in_the_order() {
    let orders: [Arc<dyn Comparator>; 3] = [Arc::new(Backwards), Arc::new(LongestFirst), Arc::new(OddFirst)];
    for order in orders {
        for seed in 0..6 {
            let mut random = Random(seed);
            let mut disk = MemVfs::new();
            let keyspace = || {
                KeyspaceOptions::new()
                    .layout(ChunkOptions::new().chunk_bytes(64 << 10).log_bytes(16 << 10))
                    .comparator(order.clone())
            };
            let mut pairs = HashMap::new();
            // Some stores begin with the empty key alone.
            if seed % 2 == 0 {
                let db = open(&disk, keyspace());
                db.put("", vec![1; 50_000]).unwrap();
                pairs.insert(Vec::new(), vec![1; 50_000]);
                db.compact_range(..).unwrap();
            }
            for life in 0..4 {
                let what = format!("{}, seed {seed}, life {life}", order.name());
                let db = open(&disk, keyspace());
                assert_holds(&db, &pairs, &*order, &what);
                for step in 0..800_u64 {
                    let (key, value_bytes) = match random.below(12) {
                        0 => (Vec::new(), 5_000 + 40_000 * (step % 2)),
                        // In the order of the keyspace, after all existing keys.
                        1..4 => (format!("{:04}", 9_999 - step).into_bytes(), 400),
                        _ => (vec![b'a' + random.below(4) as u8; 1 + random.below(120) as usize], 400),
                    };
                    let value = vec![step as u8; value_bytes as usize];
                    db.put(&key, &value).unwrap();
                    pairs.insert(key, value);
                    if random.below(200) == 0 {
                        db.compact_range(..).unwrap();
                    }
                }
                assert_holds(&db, &pairs, &*order, &what);
                assert!(db.verify().unwrap().is_ok(), "{what}");
                disk = if life % 2 == 0 { disk.kill() } else { disk };
            }
        }
    }
}
