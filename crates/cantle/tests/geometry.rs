//! Whatever maintenance does to the chunks of a killed store, it can be opened again and has every pair.
#![expect(clippy::unwrap_used, reason = "helpers of tests may panic")]

use cantle::vfs::MemVfs;
use cantle::{Db, KeyspaceOptions, Options};
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

/// Fills a store in key order, kills it, and reads it by hot gets until maintenance has had many turns; several times.
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
        assert_eq!(db.range(..).map(|pair| pair.unwrap()).count() as u64, pairs);
        assert!(db.verify().unwrap().is_ok());
    }
}
