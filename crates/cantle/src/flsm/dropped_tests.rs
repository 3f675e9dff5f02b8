//! Parts of tables and logs that range deletes have dropped by metadata.

use super::tests::{Model, all, assert_is, key, lsm_of, open_with, scattered, stats, value};
use crate::format::header::FileKind;
use crate::layout::options::FlsmOptions;
use crate::lsm::state::{Edit, GroupRecord, State};
use crate::manifest::LayoutState;
use crate::read_ahead::BytesRead;
use crate::run::dropped_ranges::{DroppedRange, DroppedRanges, RANGES_MAX};
use crate::run::merged::Merged;
use crate::run::record::FileRecord;
use crate::run::referred::Copying;
use crate::run::run::Run;
use crate::run::stack::RunStack;
use crate::sync::Arc;
use crate::sync::atomic::Ordering::Relaxed;
use crate::sync::random::Rng;
use crate::types::order::Comparator;
use crate::types::span::Span;
use crate::vfs::{CrashPlan, MemVfs, Vfs};
use crate::{Compression, Db, KeyspaceOptions, Options, Snapshot};
use bytes::Bytes;
use std::cmp::Ordering;
use std::ops::Bound;

/// Guards of 64 KiB, so that 4 KiB of a table are dropped as a part, and logs that only the test merges.
fn layout() -> FlsmOptions {
    FlsmOptions::new().generation_bytes(4 << 20).guard_bytes(64 << 10)
}

fn open(disk: &MemVfs) -> Db {
    open_with(disk, KeyspaceOptions::new().layout(layout()))
}

/// One table of 480 keys, which is not divided, or a log of them in key order.
fn one_run(disk: &MemVfs, keyspace: KeyspaceOptions, is_scattered: bool) -> Db {
    let db = open_with(disk, keyspace);
    let numbers: Vec<u64> = if is_scattered { scattered(480).collect() } else { (0..480).collect() };
    numbers.into_iter().for_each(|number| db.put(key(number), value(number, 100)).unwrap());
    lsm_of(&db).merge_logs_for_test().unwrap();
    db
}

fn ranges(db: &Db) -> Vec<DroppedRange> {
    let view = lsm_of(db).view();
    let ranges = view.tables().filter_map(|run| run.dropped_ranges.as_ref());
    ranges.flat_map(|ranges| ranges.list()).cloned().collect()
}

fn whole(db: &Db) -> usize {
    lsm_of(db).view().tables().filter(|run| run.dropped.is_some()).count()
}

fn delete(db: &Db, from: u64, to: u64) {
    db.delete_range(key(from)..key(to)).unwrap();
    lsm_of(db).merge_logs_for_test().unwrap();
}

/// Blocks of tables that an act looks up, in the cache or in files.
fn blocks<T>(db: &Db, act: impl FnOnce() -> T) -> u64 {
    let count = || {
        let stats = db.stats();
        stats.cache_hits + stats.cache_misses
    };
    let before = count();
    act();
    count() - before
}

#[test]
fn a_scan_reads_no_block_of_a_dropped_range() {
    for (is_scattered, compression) in
        [(true, Compression::None), (true, Compression::Lz4), (false, Compression::None)]
    {
        let disk = MemVfs::new();
        // A log that is short for its generation is not adopted.
        let layout = if is_scattered { layout() } else { layout().generation_bytes(128 << 10) };
        let keyspace = KeyspaceOptions::new().layout(layout).compression(compression);
        let db = one_run(&disk, keyspace, is_scattered);
        lsm_of(&db).without_merges_for_test(|| {
            assert_eq!(
                lsm_of(&db).view().tables().filter(|run| run.log().is_some()).count(),
                usize::from(!is_scattered)
            );
            let snapshot = db.snapshot();
            let before = all(snapshot.range(..));
            delete(&db, 100, 400);
            let found = ranges(&db);
            let what = format!("scattered: {is_scattered}, {compression:?}: {found:?}");
            assert_eq!(found.len(), 1, "{what}");
            assert_eq!(found[0].span.start.as_deref(), Some(&key(100)[..]), "{what}");
            assert_eq!(found[0].span.end.as_deref(), Some(&key(400)[..]), "{what}");
            let counted = stats(&db);
            assert_eq!((counted.ranges_dropped, counted.dropped_ranges), (1, 1), "{what}");
            assert_eq!(counted.dropped_range_bytes, found[0].bytes, "{what}");
            let garbage: u64 = db.own().layout.regions().iter().map(|region| region.garbage_bytes).sum();
            assert!(garbage >= found[0].bytes, "{what}");
            let scan = |snapshot: &Snapshot, is_forward: bool| {
                let count = || match is_forward {
                    true => snapshot.range(key(90)..key(410)).count(),
                    false => snapshot.range(key(90)..key(410)).rev().count(),
                };
                count();
                (count(), blocks(&db, count))
            };
            let later = db.snapshot();
            for is_forward in [true, false] {
                let ((all, blocks_of_all), (left, blocks)) =
                    (scan(&snapshot, is_forward), scan(&later, is_forward));
                assert_eq!((all, left), (320, 20), "{what}");
                assert!(blocks + 6 <= blocks_of_all, "{blocks} of {blocks_of_all} blocks: {what}");
            }
            assert!(all(snapshot.range(..)) == before && all(snapshot.range(..).rev()) == before, "{what}");
            for number in [0, 99, 100, 250, 399, 400, 479] {
                let is_left = !(100..400).contains(&number);
                assert_eq!(db.get(key(number)).unwrap().is_some(), is_left, "{what}: {number}");
                assert!(snapshot.get(key(number)).unwrap().is_some(), "{what}: {number}");
            }
        });
        assert!(db.verify().unwrap().is_ok());
        db.compact_range(..).unwrap();
        assert_eq!((ranges(&db).len(), db.range(..).count()), (0, 180));
    }
}

/// Seeks to each key near the ends of a dropped range, in both directions.
#[test]
fn a_cursor_finds_the_keys_at_the_ends_of_a_dropped_range() {
    let disk = MemVfs::new();
    let db = one_run(&disk, KeyspaceOptions::new().layout(layout()), true);
    lsm_of(&db).without_merges_for_test(|| {
        let bounds: (Bound<Vec<u8>>, Bound<Vec<u8>>) = (Bound::Excluded(key(100)), Bound::Included(key(400)));
        db.delete_range(bounds).unwrap();
        lsm_of(&db).merge_logs_for_test().unwrap();
        assert_eq!(ranges(&db).len(), 1);
        let is_left = |number: &u64| !(101..=400).contains(number);
        for from in (95..106).chain(395..406) {
            let next = db.range(key(from)..).next().map(|pair| pair.unwrap().0.to_vec());
            assert_eq!(next, (from..480).find(is_left).map(key), "from {from}");
            let last = db.range(..key(from)).next_back().map(|pair| pair.unwrap().0.to_vec());
            assert_eq!(last, (0..from).rev().find(is_left).map(key), "before {from}");
            assert_eq!(db.get(key(from)).unwrap().is_some(), is_left(&from), "{from}");
        }
    });
}

#[test]
fn short_range_deletes_are_not_noted_until_they_are_long_together() {
    let disk = MemVfs::new();
    let db = one_run(&disk, KeyspaceOptions::new().layout(layout()), true);
    lsm_of(&db).without_merges_for_test(|| {
        (0..9).for_each(|at| delete(&db, 50 * at, 50 * at + 10));
        assert_eq!(ranges(&db), []);
        delete(&db, 200, 300);
        assert_eq!(ranges(&db).len(), 1);
        // A short one that touches it.
        delete(&db, 300, 310);
        delete(&db, 190, 200);
        let [range] = &ranges(&db)[..] else { panic!("{:?}", ranges(&db)) };
        let ends = [&range.span.start, &range.span.end].map(|end| end.as_deref().unwrap().to_vec());
        assert_eq!(ends, [key(190), key(310)]);
        assert_eq!(db.range(..).count(), 480 - 120 - 60);
    });
}

#[test]
fn a_second_delete_of_the_rest_drops_the_whole_table() {
    let disk = MemVfs::new();
    let db = one_run(&disk, KeyspaceOptions::new().layout(layout()), true);
    let lsm = lsm_of(&db);
    let snapshot = db.snapshot();
    let before = all(snapshot.range(..));
    lsm.without_merges_for_test(|| {
        delete(&db, 100, 400);
        delete(&db, 0, 100);
        assert_eq!((ranges(&db).len(), whole(&db)), (1, 0));
        delete(&db, 400, 480);
        assert_eq!((ranges(&db).len(), whole(&db)), (0, 1));
        assert!(all(snapshot.range(..)) == before);
        assert_eq!(db.range(..).count(), 0);
    });
    drop(snapshot);
    let written = db.own().layout.stats().table_bytes_written;
    lsm.settle_for_test().unwrap();
    let written = db.own().layout.stats().table_bytes_written - written;
    assert!(whole(&db) == 0 && written < 1000, "{written} bytes are written");
    assert_eq!(db.range(..).count(), 0);
}

/// Snapshots between the deletes keep the ranges apart, but once they are gone, nothing is left to keep.
#[test]
fn snapshots_between_deletes_see_what_was_not_deleted_yet() {
    let disk = MemVfs::new();
    let db = one_run(&disk, KeyspaceOptions::new().layout(layout()), true);
    let lsm = lsm_of(&db);
    let mut held = Vec::new();
    lsm.without_merges_for_test(|| {
        for part in 0..4 {
            held.push((db.snapshot(), all(db.range(..))));
            delete(&db, 120 * part, 120 * part + 120);
        }
        let versions: Vec<u64> = ranges(&db).iter().map(|range| range.version).collect();
        assert_eq!((versions.len(), whole(&db)), (4, 0), "{versions:?}");
        assert!(versions.is_sorted_by(|a, b| a < b), "{versions:?}");
        for (number, (snapshot, model)) in held.iter().enumerate() {
            assert_eq!(model.len(), 480 - 120 * number);
            assert!(all(snapshot.range(..)) == *model && all(snapshot.range(..).rev()) == *model, "{number}");
        }
        // A merge of the newest tables below the marks keeps what the snapshots see.
        db.put(key(60), "again").unwrap();
        lsm.merge_logs_for_test().unwrap();
    });
    db.compact_range(..).unwrap();
    for (number, (snapshot, model)) in held.iter().enumerate() {
        assert!(all(snapshot.range(..)) == *model, "{number}, compacted");
    }
    held.clear();
    db.compact_range(..).unwrap();
    assert_eq!((db.range(..).count(), db.verify().unwrap().entries), (1, 1));
}

#[test]
fn a_merge_reads_nothing_of_a_dropped_range_that_no_snapshot_needs() {
    let disk = MemVfs::new();
    let db = one_run(&disk, KeyspaceOptions::new().layout(layout()), true);
    let lsm = lsm_of(&db);
    lsm.without_merges_for_test(|| {
        let snapshot = db.snapshot();
        delete(&db, 20, 460);
        drop(snapshot);
        let version = ranges(&db)[0].version;
        let narrowed: Vec<Run> =
            lsm.view().tables().filter(|run| run.dropped_ranges.is_some()).cloned().collect();
        let [table] = &narrowed[..] else { panic!("one table") };
        let (bytes, stack) = (table.bytes(), RunStack { files: vec![table.clone()] });
        let read_with = |snapshots: &[u64]| {
            let read = BytesRead::default();
            let mut merged = Merged::needed(&lsm.env, &stack, (&read, Copying::ALL), snapshots).unwrap();
            merged.cursor.seek_to_first().unwrap();
            let mut entries = 0;
            while merged.cursor.entry().is_some() {
                entries += 1;
                merged.cursor.advance().unwrap();
            }
            (entries, read.load(Relaxed))
        };
        let (entries, read) = read_with(&[version]);
        assert!(entries == 40 && read < bytes / 4, "{entries} entries, {read} of {bytes} bytes");
        let (entries, read) = read_with(&[version - 1]);
        assert!(entries == 480 && read > bytes / 2, "{entries} entries, {read} of {bytes} bytes");
        db.compact_range(..).unwrap();
        assert_eq!((db.range(..).count(), db.verify().unwrap().entries), (40, 40));
    });
}

#[test]
fn a_table_has_a_limited_number_of_dropped_ranges() {
    let disk = MemVfs::new();
    let layout = FlsmOptions::new().generation_bytes(4 << 20).guard_bytes(32 << 10);
    let db = open_with(&disk, KeyspaceOptions::new().layout(layout));
    // The guard is as long as all of its neighbours, as nothing divides a table.
    lsm_of(&db).without_merges_for_test(|| {
        (0..600).for_each(|number| db.put(key(number), value(number, 100)).unwrap());
        lsm_of(&db).merge_logs_for_test().unwrap();
        for part in 0..24 {
            delete(&db, 25 * part, 25 * part + 19 + part % 5);
        }
        let view = lsm_of(&db).view();
        let counts: Vec<usize> = view
            .tables()
            .filter_map(|run| run.dropped_ranges.as_ref().map(|ranges| ranges.list().len()))
            .collect();
        assert!(counts.iter().all(|count| *count <= RANGES_MAX), "{counts:?}");
        assert!(counts.contains(&RANGES_MAX), "{counts:?}");
        let left = (0..600).filter(|number| number % 25 >= 19 + number / 25 % 5).count();
        assert_eq!(db.range(..).count(), left);
    });
}

/// A guard that is divided within a dropped range leaves each half its part.
#[test]
fn dropped_ranges_stay_when_guards_are_divided_and_the_store_is_opened_again() {
    let disk = MemVfs::new();
    let db = open(&disk);
    let lsm = lsm_of(&db);
    lsm.without_merges_for_test(|| {
        for turn in 0..3 {
            (0..600).for_each(|number| db.put(key(number * 37 % 600), value(number + turn, 100)).unwrap());
            lsm.merge_logs_for_test().unwrap();
        }
        delete(&db, 40, 560);
        assert!(ranges(&db).len() >= 2, "{:?}", ranges(&db));
        let expected = all(db.range(..));
        let before = ranges(&db);
        let again = open(&disk.kill());
        assert_eq!(ranges(&again), before);
        assert!(all(again.range(..)) == expected && again.verify().unwrap().is_ok());
        drop(again);
        lsm.settle_for_test().unwrap();
        assert!(all(db.range(..)) == expected && all(db.range(..).rev()) == expected);
    });
    let copy = std::path::Path::new("copy");
    db.backup(copy).unwrap();
    let options = Options::new().vfs(Arc::new(disk.clone())).create_if_missing(false);
    assert_eq!(options.open("copy").unwrap().range(..).count(), 80);
}

#[test]
fn a_loss_of_power_takes_dropped_ranges_back_with_their_deletes() {
    let disk = MemVfs::new();
    let db = one_run(&disk, KeyspaceOptions::new().layout(layout()), true);
    db.sync().unwrap();
    lsm_of(&db).without_merges_for_test(|| {
        delete(&db, 100, 400);
        assert_eq!(ranges(&db).len(), 1);
        let (lost, killed) = (disk.crash(&CrashPlan::LOSE_UNSYNCED), disk.kill());
        for (disk, left) in [(lost, 480), (killed, 180)] {
            let db = open(&disk);
            assert_eq!((db.range(..).count(), db.range(..).rev().count()), (left, left));
            db.compact_range(..).unwrap();
            assert_eq!((db.range(..).count(), db.verify().unwrap().entries), (left, left as u64));
        }
    });
}

/// Without the manifest, nobody knows of the dropped range. The range delete itself is in a table.
#[test]
fn a_repair_without_a_manifest_brings_nothing_of_a_dropped_range_back() {
    let disk = MemVfs::without_history();
    let db = one_run(&disk, KeyspaceOptions::new().layout(layout()), true);
    lsm_of(&db).without_merges_for_test(|| {
        delete(&db, 100, 400);
        assert_eq!(ranges(&db).len(), 1);
        db.put(key(200), "after").unwrap();
        db.sync().unwrap();
        let expected = all(db.range(..));
        let disk = disk.kill();
        let (vfs, dir): (&dyn Vfs, _) = (&disk, std::path::Path::new("store"));
        for name in vfs.list(dir).unwrap().iter().filter(|name| name.starts_with("MANIFEST")) {
            vfs.remove(&dir.join(name)).unwrap();
        }
        let keyspace = KeyspaceOptions::new().layout(layout());
        let options = Options::new().default_keyspace(keyspace).vfs(Arc::new(disk.clone()));
        Db::repair("store", "repaired", options.clone()).unwrap();
        let found = all(options.open("repaired").unwrap().range(..));
        assert!(found == expected, "{} pairs instead of {}", found.len(), expected.len());
    });
}

/// A guard with a table from `c` up to `t`, which has dropped ranges with these ends.
fn guard_with(ends: &[(&'static str, &'static str)]) -> GroupRecord {
    let span = |&(start, end): &(&'static str, &'static str)| {
        let key = |key: &'static str| (!key.is_empty()).then(|| Bytes::from_static(key.as_bytes()));
        Span { start: key(start), end: key(end) }
    };
    let range = |ends| DroppedRange { span: span(ends), version: 1, batch: 0, bytes: 5000 };
    let file = FileRecord {
        kind: FileKind::Table,
        bytes: 9000,
        span: Some(span(&("c", "t"))),
        dropped_ranges: DroppedRanges::new(ends.iter().map(range).collect()),
        ..FileRecord::log(999, 1)
    };
    GroupRecord { id: 1, level: 1, files: vec![file], ..GroupRecord::default() }
}

#[test]
fn dropped_ranges_that_cannot_be_are_damage_of_the_manifest() {
    const KEYS: [&str; 18] =
        ["c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n", "o", "p", "q", "r", "s", "t"];
    let many: Vec<(&str, &str)> = KEYS.windows(2).map(|ends| (ends[0], ends[1])).collect();
    let (order, number) =
        ("are out of order, or lie outside of it", "a number of dropped ranges that cannot be");
    for (ends, why) in [
        (&[("d", "f"), ("f", "t")][..], None),
        (&[("f", "g"), ("d", "e")], Some(order)),
        (&[("d", "f"), ("e", "g")], Some(order)),
        (&[("f", "f")], Some(order)),
        (&[("f", "d")], Some(order)),
        (&[("b", "d")], Some(order)),
        (&[("d", "u")], Some(order)),
        (&[("", "d")], Some(order)),
        (&[("d", "")], Some(order)),
        (&many[..RANGES_MAX], None),
        (&many, Some(number)),
    ] {
        let disk = MemVfs::new();
        let db = open(&disk);
        db.put("a", "b").unwrap();
        let edit = Edit::Merge { logs: Vec::new(), removed: vec![1], added: vec![guard_with(ends)] };
        let payload = edit.encode();
        if why != Some(number) {
            assert_eq!(Edit::decode(&payload).as_ref(), Ok(&edit), "{ends:?}");
        }
        for len in 0..payload.len() {
            assert!(Edit::decode(&payload[..len]).is_err(), "{ends:?}: {len} bytes of it");
        }
        let (manifest, keyspace) = (&lsm_of(&db).substrate.manifest, lsm_of(&db).env.keyspace);
        manifest.append(&[crate::manifest::Edit::Layout { keyspace, payload }]).unwrap();
        let killed = disk.kill();
        let keyspace = KeyspaceOptions::new().layout(layout());
        let opened = Options::new().default_keyspace(keyspace).vfs(Arc::new(killed)).open("store");
        match (why, opened) {
            (None, Ok(db)) => assert_eq!(ranges(&db).len(), ends.len()),
            (Some(why), Err(error)) => {
                assert!(error.is_corruption() && error.to_string().contains(why), "{ends:?}: {error}");
            }
            (_, opened) => panic!("{ends:?}: {:?}", opened.map(drop)),
        }
    }
}

/// Recovery takes back the marks of versions and of batches that died, one by one.
#[test]
fn dead_versions_and_batches_take_their_dropped_ranges_back() {
    let ends = [("d", "f"), ("g", "i"), ("k", "m")];
    let mut guard = guard_with(&ends);
    let mut marked = guard.files[0].dropped_ranges.as_ref().unwrap().list().to_vec();
    (marked[0].version, marked[2].batch) = (9, 4);
    guard.files[0].dropped_ranges = DroppedRanges::new(marked);
    let left = |dead: &dyn Fn(u64, u64) -> bool| -> Vec<(Bytes, u64)> {
        let mut state = State { level0: Vec::new(), groups: [(1, guard.clone())].into() };
        state.resolve(dead);
        let ranges = state.groups[&1].files[0].dropped_ranges.as_ref();
        let ranges = ranges.map_or(&[][..], |ranges| ranges.list());
        ranges.iter().map(|range| (range.span.start.clone().unwrap(), range.batch)).collect()
    };
    assert_eq!(left(&|_, _| false), [("d".into(), 0), ("g".into(), 0), ("k".into(), 0)]);
    assert_eq!(left(&|version, _| version == 9), [("g".into(), 0), ("k".into(), 0)]);
    assert_eq!(left(&|_, batch| batch == 4), [("d".into(), 0), ("g".into(), 0)]);
    assert_eq!(left(&|_, _| true), []);
}

/// Greater keys first. No key lies directly behind another.
#[derive(Debug)]
pub struct Backwards;

impl Comparator for Backwards {
    fn name(&self) -> &'static str {
        "test.backwards"
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        b.cmp(a)
    }
}

#[test]
fn a_user_defined_order_has_dropped_ranges() {
    let disk = MemVfs::new();
    let keyspace = KeyspaceOptions::new().layout(layout()).comparator(Arc::new(Backwards));
    let options = Options::new().default_keyspace(keyspace).background_threads(1).vfs(Arc::new(disk.clone()));
    let db = options.clone().open("store").unwrap();
    scattered(480).for_each(|number| db.put(key(number), value(number, 100)).unwrap());
    lsm_of(&db).merge_logs_for_test().unwrap();
    lsm_of(&db).without_merges_for_test(|| {
        for bounds in [
            (Bound::Included(key(430)), Bound::Excluded(key(330))),
            (Bound::Included(key(300)), Bound::Included(key(200))),
            // The start has no key directly behind it: this one is not noted.
            (Bound::Excluded(key(150)), Bound::Excluded(key(50))),
        ] {
            db.delete_range(bounds).unwrap();
            lsm_of(&db).merge_logs_for_test().unwrap();
        }
        assert_eq!(ranges(&db).len(), 2, "{:?}", ranges(&db));
        let is_left = |number: &u64| {
            !((331..=430).contains(number) || (200..=300).contains(number) || (51..150).contains(number))
        };
        let expected: Vec<Vec<u8>> = (0..480).rev().filter(is_left).map(key).collect();
        let keys = |db: &Db| -> Vec<Vec<u8>> { db.range(..).map(|pair| pair.unwrap().0.to_vec()).collect() };
        let mut back: Vec<Vec<u8>> = db.range(..).rev().map(|pair| pair.unwrap().0.to_vec()).collect();
        back.reverse();
        assert!(keys(&db) == expected && back == expected);
        for number in 0..480 {
            assert_eq!(db.get(key(number)).unwrap().is_some(), is_left(&number), "{number}");
        }
    });
}

/// Range deletes of some kilobytes, in every order with merges, snapshots, ends of the process and losses
/// of power.
#[test]
fn dropped_ranges_hide_what_was_deleted_and_nothing_else() {
    let (mut noted, mut several) = (0, 0);
    let open = |disk: &MemVfs| {
        let layout = FlsmOptions::new().generation_bytes(16 << 10).guard_bytes(16 << 10);
        open_with(disk, KeyspaceOptions::new().layout(layout))
    };
    for seed in 0..4 {
        let mut rng = Rng::new(seed);
        let mut below = move |bound: u64| rng.below(bound);
        let mut disk = MemVfs::new();
        let (mut db, mut model) = (open(&disk), Model::new());
        let mut held: Vec<(Snapshot, Model)> = Vec::new();
        // The state at the last checkpoint, and after each write since.
        let mut since = vec![model.clone()];
        for step in 0..2500 {
            let number = below(2000);
            match below(100) {
                0..80 => {
                    let value = value(step, 10 + below(90) as usize);
                    db.put(key(number), &value).unwrap();
                    model.insert(key(number), value);
                }
                80..84 => {
                    let most = if below(3) == 0 { 400 } else { 60 };
                    let end = number + 1 + below(most);
                    db.delete_range(key(number)..key(end)).unwrap();
                    model.retain(|at, _| *at < key(number) || *at >= key(end));
                }
                84..87 if held.len() < 4 => held.push((db.snapshot(), model.clone())),
                87..90 if !held.is_empty() => drop(held.swap_remove(below(held.len() as u64) as usize)),
                90 => lsm_of(&db).merge_logs_for_test().unwrap(),
                91 => {
                    let owing = lsm_of(&db).view();
                    owing.shape.owe_above_for_test();
                    lsm_of(&db).merge_tables(crate::lsm::merge::Trigger::Asked).unwrap();
                }
                92 if below(3) == 0 => lsm_of(&db).settle_for_test().unwrap(),
                93 if below(6) == 0 => db.compact_range(key(number)..key(number + 300)).unwrap(),
                94 if below(3) == 0 => {
                    db.sync().unwrap();
                    since.clear();
                }
                95 if below(6) == 0 => {
                    held.clear();
                    let killed = disk.kill();
                    drop(db);
                    (disk, db) = (killed.clone(), open(&killed));
                    db.sync().unwrap();
                    since.clear();
                }
                96 if below(6) == 0 => {
                    held.clear();
                    let lost = disk.crash(&CrashPlan::LOSE_UNSYNCED);
                    drop(db);
                    (disk, db) = (lost.clone(), open(&lost));
                    let found = all(db.range(..));
                    assert!(since.contains(&found), "seed {seed}, step {step}: after a loss of power");
                    model = found;
                    since.clear();
                }
                _ => {}
            }
            since.push(model.clone());
            if step % 10 == 0 {
                let counts = |run: &Run| run.dropped_ranges.as_ref().map_or(0, |ranges| ranges.list().len());
                let most = lsm_of(&db).view().tables().map(counts).max().unwrap_or(0);
                noted += u64::from(most > 0);
                several += u64::from(most > 1);
            }
            if step % 50 == 0 {
                for (snapshot, model) in &held {
                    assert!(all(snapshot.range(..)) == *model, "seed {seed}, step {step}: a snapshot");
                    assert!(all(snapshot.range(..).rev()) == *model, "seed {seed}, step {step}: backward");
                }
                assert!(all(db.range(..)) == model, "seed {seed}, step {step}");
                assert!(all(db.range(..).rev()) == model, "seed {seed}, step {step}: backward");
                let (from, to) = (number, number + below(300));
                let within: Model = model
                    .range(key(from)..key(to))
                    .map(|(key, value)| (key.clone(), value.clone()))
                    .collect();
                assert!(
                    all(db.range(key(from)..key(to))) == within,
                    "seed {seed}, step {step}: {from} to {to}"
                );
            }
        }
        assert_is(&db, &model, "as written");
        held.clear();
        lsm_of(&db).settle_for_test().unwrap();
        assert_is(&db, &model, "settled");
        db.compact_range(..).unwrap();
        assert_is(&db, &model, "compacted");
    }
    assert!(noted > 50 && several > 10, "{noted} times with dropped ranges, {several} with several");
}
