//! Many short range deletes: they travel as blocks of tables, and cost little beside the data.
//!
//! The stores have guards of the default length, or of 1 MiB with logs in proportion. Much shorter guards, as
//! other tests have them to see many, would count something else: a table takes a few blocks of its own
//! (index, filter, footer), and half of the blocks of a guard of 64 KiB are such.

use super::tests::{lsm_of, open_with, value};
use crate::layout::options::FlsmOptions;
use crate::sync::Arc;
use crate::sync::atomic::AtomicU64;
use crate::sync::atomic::Ordering::Relaxed;
use crate::vfs::{FaultVfs, MemVfs, Operation, Verdict, Vfs};
use crate::{KeyspaceOptions, Options, WriteBatch};
use std::path::Path;

/// Keys for each delete, which takes ten of them.
const KEYS: u64 = 16;
/// Writes of one batch: a batch takes much less time than its writes one by one.
const BATCH: u64 = 512;
/// Number of batches after which the store is merged, as far as merges are due.
const BATCHES_PER_MERGE: u64 = 64;

fn key(number: u64) -> String {
    format!("key {number:09}")
}

fn number(place: u64, count: u64) -> u64 {
    // Every number once: the counts have the prime factors 2 and 5 only.
    place * 7_368_787 % count
}

fn keyspace(layout: &FlsmOptions) -> KeyspaceOptions {
    KeyspaceOptions::new().layout(layout.clone())
}

/// Loads keys in random order, then deletes ten of each sixteen, in random order too, or none. Other keys are
/// written meanwhile. All merges come at the same places, whatever the machine does.
fn write(layout: &FlsmOptions, deletes: u64, is_deleted: bool) -> MemVfs {
    let disk = MemVfs::without_history();
    let db = open_with(&disk, keyspace(layout));
    let lsm = lsm_of(&db);
    let keys = deletes * KEYS;
    let in_batches = |count: u64, add: &dyn Fn(&mut WriteBatch, u64)| {
        for (number, from) in (0..count).step_by(BATCH as usize).enumerate() {
            let mut batch = WriteBatch::new();
            (from..count.min(from + BATCH)).for_each(|place| add(&mut batch, place));
            db.write(batch).unwrap();
            if (number as u64).is_multiple_of(BATCHES_PER_MERGE) {
                lsm.settle_for_test().unwrap();
            }
        }
        lsm.settle_for_test().unwrap();
    };
    lsm.without_merges_for_test(|| {
        in_batches(keys, &|batch, place| {
            batch.put(key(number(place, keys)), value(place, 30));
        });
        in_batches(deletes, &|batch, place| {
            let first = number(place, deletes) * KEYS;
            if is_deleted {
                batch.delete_range(key(first + 3)..key(first + 13));
            }
            if place % 8 == 0 {
                batch.put(key(first), value(place, 30));
            }
        });
    });
    db.close().unwrap();
    disk
}

/// Pairs of a short scan.
const SHORT: usize = 20;

/// Bytes of the manifest, bytes and number of reads of an opening, of a short scan after it, and of a scan of
/// everything.
#[derive(Debug)]
struct Costs {
    manifest_bytes: u64,
    opening: (u64, u64),
    short_scan: (u64, u64),
    scan: (u64, u64),
    pairs: u64,
}

fn costs(layout: &FlsmOptions, disk: &MemVfs) -> Costs {
    let vfs: &dyn Vfs = disk;
    let names = vfs.list(Path::new("store")).unwrap();
    let manifests = names.iter().filter(|name| name.starts_with("MANIFEST"));
    let manifest_bytes =
        manifests.map(|name| vfs.metadata(&Path::new("store").join(name)).unwrap().unwrap().len).sum();
    let counting = FaultVfs::new(Arc::new(disk.clone()));
    let (bytes, reads) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let counters = (bytes.clone(), reads.clone());
    counting.set_rule(move |call| {
        if call.operation == Operation::ReadAt {
            counters.0.fetch_add(call.len, Relaxed);
            counters.1.fetch_add(1, Relaxed);
        }
        Verdict::Pass
    });
    let counted = || (bytes.swap(0, Relaxed), reads.swap(0, Relaxed));
    let options = Options::new().default_keyspace(keyspace(layout)).vfs(Arc::new(counting.clone()));
    let db = options.background_threads(1).open("store").unwrap();
    lsm_of(&db).without_merges_for_test(|| {
        let opening = counted();
        assert_eq!(db.range(key(KEYS * 100 + 1)..).take(SHORT).count(), SHORT);
        let short_scan = counted();
        let pairs = db.range(..).count() as u64;
        Costs { manifest_bytes, opening, short_scan, scan: counted(), pairs }
    })
}

fn assert_cheap(layout: &FlsmOptions, deletes: u64) {
    let with = costs(layout, &write(layout, deletes, true));
    let without = costs(layout, &write(layout, deletes, false));
    let what = format!("{deletes} deletes: {with:?}, without them: {without:?}");
    assert_eq!((with.pairs, without.pairs), (deletes * (KEYS - 10), deletes * KEYS), "{what}");
    assert!(with.manifest_bytes <= 2 * without.manifest_bytes, "{what}");
    let is_alike = |with: u64, without: u64| 10 * with <= 12 * without;
    assert!(is_alike(with.opening.0, without.opening.0), "{what}");
    // The blocks of the range deletes of its keys, for each of a few tables.
    assert!(with.short_scan.0 <= without.short_scan.0 + (64 << 10), "{what}");
    assert!(is_alike(with.scan.0, without.scan.0) && is_alike(with.scan.1, without.scan.1), "{what}");
    println!("{what}");
}

#[test]
fn many_deletes_of_short_ranges_cost_openings_and_scans_little() {
    for layout in [FlsmOptions::new(), FlsmOptions::new().generation_bytes(256 << 10).guard_bytes(1 << 20)] {
        assert_cheap(&layout, 20_000);
    }
}

#[test]
#[ignore = "takes four minutes of processor time in release mode"]
fn many_deletes_of_short_ranges_a_million_of_them_cost_openings_and_scans_little() {
    assert_cheap(&FlsmOptions::new(), 1_000_000);
}
