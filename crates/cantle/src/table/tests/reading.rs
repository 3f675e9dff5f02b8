//! Reads return what was written.

use super::{BASE_VERSION, FILE, MemFile, STORE, build, open, open_with};
use crate::block::model::{self, Entry, check_cursor, delete, probes, put};
use crate::cache::BlockCache;
use crate::fetch::Directly;
use crate::filter::bloom;
use crate::merge::MergeCursor;
use crate::sync::atomic::Ordering;
use crate::sync::{Arc, Mutex};
use crate::table::properties::TableMeta;
use crate::table::{Table, TableBuilder, TableGet, TableOptions};
use crate::types::compression::Compression;
use crate::types::entry::{EntryCursor, Kind};
use crate::types::error::Error;
use crate::types::order::KeyOrder;
use crate::vfs::{FaultVfs, MemVfs, OpenMode, Operation, Verdict, Vfs};
use proptest::prelude::*;
use std::path::PathBuf;
use std::time::Duration;

fn compressions() -> impl Strategy<Value = Compression> {
    let mut all = vec![Compression::None, Compression::Lz4];
    if cfg!(feature = "zstd") {
        all.push(Compression::Zstd(1));
    }
    prop::sample::select(all)
}

fn get(table: &Table, key: &[u8], at: u64, alive: &dyn Fn(u64) -> bool) -> Option<(u64, Kind, Vec<u8>)> {
    match table.get(key, bloom::hash(key), at, alive, &Directly).unwrap() {
        TableGet::Found { version, kind, value } => Some((version, kind, value.to_vec())),
        TableGet::Absent | TableGet::FilteredOut => None,
    }
}

fn check_gets(table: &Table, entries: &[Entry], order: &KeyOrder) {
    for probe in probes(entries) {
        for at in [BASE_VERSION, BASE_VERSION + 250, BASE_VERSION + 300, u64::MAX] {
            for modulus in [1, 3] {
                let alive = |version: u64| (version / 100).is_multiple_of(modulus);
                let expected = entries
                    .iter()
                    .find(|entry| {
                        order.compare(&entry.key, &probe).is_eq()
                            && entry.version <= at
                            && alive(entry.version)
                    })
                    .map(|entry| (entry.version, entry.kind, entry.value.clone()));
                assert_eq!(get(table, &probe, at, &alive), expected, "{} at {at}", probe.escape_ascii());
            }
        }
    }
}

fn expected_meta(entries: &[Entry], file_bytes: u64) -> TableMeta {
    let puts = || entries.iter().filter(|entry| entry.kind == Kind::Put);
    TableMeta {
        file_bytes,
        entries: entries.len() as u64,
        tombstones: (entries.len() - puts().count()) as u64,
        user_bytes: puts().map(|entry| (entry.key.len() + entry.value.len()) as u64).sum(),
        min_version: entries.iter().map(|entry| entry.version).min().unwrap_or(BASE_VERSION),
        max_version: entries.iter().map(|entry| entry.version).max().unwrap_or(BASE_VERSION),
        smallest: entries.first().map(|entry| entry.key.clone()).unwrap_or_default(),
        largest: entries.last().map(|entry| entry.key.clone()).unwrap_or_default(),
        ranges: 0,
    }
}

/// A table without a cache, on a device that has answered slowly.
fn slow(file: Arc<MemFile>, order: &KeyOrder) -> Arc<Table> {
    let table = open_with(file, order.clone(), BlockCache::new(0)).unwrap();
    table.seek_reads.note(Duration::from_millis(1));
    table
}

fn check_table(entries: &[Entry], options: TableOptions) {
    let order = options.order.clone();
    let (file, meta) = build(entries, options);
    assert_eq!(meta, expected_meta(entries, file.bytes().len() as u64));
    let table = open(file.clone(), order.clone()).unwrap();
    assert_eq!(table.meta(), &meta);
    check_gets(&table, entries, &order);
    check_cursor(&mut table.cursor(), entries, &order);
    check_cursor(&mut table.cursor_without_cache(), entries, &order);
    check_cursor(&mut slow(file, &order).cursor(), entries, &order);
    let mut damage = Vec::new();
    assert_eq!(table.verify(&mut |error| damage.push(error)).unwrap(), entries.len() as u64);
    assert!(damage.is_empty(), "{damage:?}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn a_table_reads_as_its_model(
        (order, entries) in model::entries(BASE_VERSION, false),
        compression in compressions(),
        block_bytes in prop_oneof![Just(1usize), 20usize..400, Just(4096)],
        filter_bits_per_key in prop_oneof![Just(0u32), Just(10)],
    ) {
        check_table(&entries, TableOptions { block_bytes, compression, filter_bits_per_key, order, ..TableOptions::default() });
    }

    #[test]
    fn repeated_pairs_of_key_and_version_keep_their_order_across_blocks(
        (order, entries) in model::entries(BASE_VERSION, true),
        block_bytes in 1usize..200,
    ) {
        check_table(&entries, TableOptions { block_bytes, order, ..TableOptions::default() });
    }
}

#[test]
fn an_empty_table_is_a_table() {
    check_table(&[], TableOptions::default());
}

#[test]
fn the_longest_keys_and_big_values_fit() {
    let mut entries = vec![put("", BASE_VERSION, "empty key")];
    for last in 0..4 {
        let mut key = vec![b'k'; 64 << 10];
        key[(64 << 10) - 1] = last;
        entries.push(put(&key, BASE_VERSION + 9, vec![last; 600 << 10]));
        entries.push(put(&key, BASE_VERSION + 8, ""));
        entries.push(delete(&key, BASE_VERSION + 7));
    }
    entries.push(put("l", BASE_VERSION, vec![b'l'; 3 << 20]));
    for compression in [Compression::None, Compression::Lz4] {
        check_table(&entries, TableOptions { compression, ..TableOptions::default() });
    }
    entries.sort_by(|a, b| b.key.cmp(&a.key).then(b.version.cmp(&a.version)));
    check_table(&entries, TableOptions { order: model::reverse(), ..TableOptions::default() });
}

#[test]
fn keys_beyond_the_limit_are_refused() {
    let file = MemFile::new(Vec::new());
    let options = TableOptions::default();
    let mut builder = TableBuilder::new(file, PathBuf::from("t"), super::header(), options).unwrap();
    let refused = builder.add(&vec![0; (1 << 20) + 1], BASE_VERSION, Kind::Put, b"");
    assert!(matches!(refused, Err(Error::InvalidArgument(_))));
}

/// 10,000 keys of 100 bytes each: about 300 blocks.
fn many() -> Vec<Entry> {
    (0..10_000).map(|i| put(format!("user/{i:08}"), BASE_VERSION + i % 7, vec![i as u8; 100])).collect()
}

#[test]
fn versions_up_to_the_last_one_are_stored() {
    let entries =
        vec![put("a", u64::MAX, "newest"), put("a", BASE_VERSION, "oldest"), put("b", u64::MAX - 1, "b")];
    check_table(&entries, TableOptions::default());
}

#[test]
fn the_filter_spares_reading_data() {
    let (file, _) = build(&many(), TableOptions::default());
    let table = open(file.clone(), KeyOrder::Bytewise).unwrap();
    let key = b"user/00000000x";
    assert_eq!(
        table.get(key, bloom::hash(key), u64::MAX, &|_| true, &Directly).unwrap(),
        TableGet::FilteredOut
    );
    let reads = file.reads();
    let filtered = (0..1_000)
        .map(|i| format!("other/{i}"))
        .filter(|key| {
            let got = table
                .get(key.as_bytes(), bloom::hash(key.as_bytes()), u64::MAX, &|_| true, &Directly)
                .unwrap();
            got == TableGet::FilteredOut
        })
        .count();
    assert!(filtered > 970, "{filtered} of 1000 were filtered out");
    let other_pages = table.filter.unwrap().pages().count() as u64 - 1;
    let read = file.reads() - reads;
    assert!(read <= 2 + other_pages, "at most the filter, the index and the last block were read");
}

#[test]
fn a_second_get_reads_nothing() {
    let (file, _) = build(&many(), TableOptions::default());
    let cache = BlockCache::new(8 << 20);
    let table = open_with(file.clone(), KeyOrder::Bytewise, cache.clone()).unwrap();
    assert_eq!(file.reads(), 2, "opening reads the header and the end");
    assert!(get(&table, b"user/00004711", u64::MAX, &|_| true).is_some());
    assert_eq!(file.reads(), 5, "filter, index, block");
    assert!(get(&table, b"user/00004711", u64::MAX, &|_| true).is_some());
    assert_eq!(file.reads(), 5);
    assert_eq!((cache.hits(), cache.misses()), (3, 3));

    let other_owner =
        open_with(file.clone(), KeyOrder::Bytewise, cache.for_owner(cache.next_owner())).unwrap();
    assert!(get(&other_owner, b"user/00004711", u64::MAX, &|_| true).is_some());
    assert_eq!(cache.misses(), 6, "the entries of another owner are not used");
}

#[test]
fn a_cursor_without_cache_reads_ahead_and_leaves_the_cache_alone() {
    let (file, meta) = build(&many(), TableOptions::default());
    let cache = BlockCache::new(8 << 20);
    let table = open_with(file.clone(), KeyOrder::Bytewise, cache.clone()).unwrap();
    let mut cursor = table.cursor_without_cache();
    cursor.seek_to_first().unwrap();
    let before = file.reads();
    let mut entries = 0;
    while cursor.entry().is_some() {
        entries += 1;
        cursor.next().unwrap();
    }
    assert_eq!(entries, 10_000);
    assert!(file.reads() - before <= meta.file_bytes / (256 << 10) + 2);
    assert_eq!((cache.used_bytes(), cache.hits(), cache.misses()), (0, 0, 0));
    assert!(file.largest_read.load(Ordering::Relaxed) <= 256 << 10);
    // The device reads the next piece meanwhile, and nothing behind the entries.
    let (ahead, reads) = (file.ahead.load(Ordering::Relaxed), file.reads_ahead.load(Ordering::Relaxed));
    assert!(reads >= meta.file_bytes / (256 << 10) - 2, "{reads} of {}", file.reads());
    assert_eq!(ahead, table.data().end);
}

#[test]
fn the_device_reads_the_tables_of_a_seek_at_the_same_time() {
    let tables = |are_slow: bool| -> Vec<(Arc<MemFile>, Arc<Table>)> {
        let table = |first: u64| {
            let entries =
                (0..3_000).map(|i| put(format!("user/{:08}", 3 * i + first), BASE_VERSION, vec![1; 100]));
            let (file, _) = build(&entries.collect::<Vec<_>>(), TableOptions::default());
            let table = open(file.clone(), KeyOrder::Bytewise).unwrap();
            // The indexes are in memory.
            drop(table.index().unwrap());
            table.seek_reads.note(if are_slow { Duration::from_millis(1) } else { Duration::ZERO });
            (file, table)
        };
        (0..3).map(table).collect()
    };
    let seek = |tables: &[(Arc<MemFile>, Arc<Table>)], key: &str| {
        let sources = tables.iter().map(|(_, table)| Box::new(table.cursor()) as Box<dyn EntryCursor>);
        let mut merged = MergeCursor::new(KeyOrder::Bytewise, sources.collect());
        merged.seek(key.as_bytes()).unwrap();
        assert_eq!(merged.entry().unwrap().key, key.as_bytes());
        merged.seek_before(key.as_bytes()).unwrap();
    };
    let reads_ahead = |tables: &[(Arc<MemFile>, Arc<Table>)]| {
        let of = |(file, table): &(Arc<MemFile>, Arc<Table>)| {
            (file.reads_ahead.load(Ordering::Relaxed), table.seek_reads.announced())
        };
        tables.iter().map(of).collect::<Vec<_>>()
    };
    let slow = tables(true);
    seek(&slow, "user/00004000");
    assert_eq!(reads_ahead(&slow), [(0, 0), (1, 1), (1, 1)], "nothing waits before the first");
    seek(&slow, "user/00004000");
    assert_eq!(reads_ahead(&slow), [(0, 0), (1, 1), (1, 1)], "the blocks are cached");
    let fast = tables(false);
    seek(&fast, "user/00004000");
    assert_eq!(reads_ahead(&fast), [(0, 0); 3], "hints cost more than such reads");
}

/// SifrDB §4.3: a range begins with a search of all trees at the same time.
#[test]
fn the_device_reads_the_indexes_of_a_seek_at_the_same_time_and_then_the_blocks() {
    let vfs = FaultVfs::new(Arc::new(MemVfs::new()));
    let cache = BlockCache::new(8 << 20);
    let table = |number: u64| {
        let entries: Vec<_> = (0..3_000)
            .map(|i| put(format!("user/{:08}", 4 * i + number), BASE_VERSION, vec![1; 100]))
            .collect();
        let (file, _) = build(&entries, TableOptions::default());
        let path = PathBuf::from(number.to_string());
        let opened = vfs.open(&path, OpenMode::CreateNew).unwrap();
        opened.write_at(&file.bytes(), 0).unwrap();
        let cache = cache.for_owner(cache.next_owner());
        let table = Table::open(opened, path, (STORE, FILE), KeyOrder::Bytewise, cache).unwrap();
        table.seek_reads.note(Duration::from_millis(1));
        Arc::new(table)
    };
    let tables: Vec<Arc<Table>> = (0..4).map(table).collect();
    let calls = Arc::new(Mutex::new(Vec::new()));
    let (seen, indexes) = (calls.clone(), tables.clone());
    vfs.set_rule(move |call| {
        let table = indexes.iter().find(|table| table.path == call.path);
        let is_index = table.is_some_and(|table| table.footer.index.offset == call.offset);
        seen.lock().push((call.operation, is_index));
        Verdict::Pass
    });
    let sources = tables.iter().map(|table| Box::new(table.cursor()) as Box<dyn EntryCursor>);
    let mut merged = MergeCursor::new(KeyOrder::Bytewise, sources.collect());
    merged.seek(b"user/00004001").unwrap();
    assert_eq!(merged.entry().unwrap().key, b"user/00004001");
    let (index_ahead, block_ahead) = ((Operation::Prefetch, true), (Operation::Prefetch, false));
    let (index_read, block_read) = ((Operation::ReadAt, true), (Operation::ReadAt, false));
    // Each is asked for before any of its kind is read, but for the first index.
    let mut expected = vec![index_ahead; 3];
    expected.extend([index_read, block_ahead].repeat(4));
    expected.extend([block_read; 4]);
    assert_eq!(*calls.lock(), expected);
    assert!(tables.iter().zip([1, 2, 2, 2]).all(|(table, count)| table.seek_reads.announced() == count));
    // All is cached now.
    merged.seek(b"user/00004001").unwrap();
    assert_eq!(calls.lock().len(), expected.len());
}

#[test]
fn a_scan_reads_ahead_by_and_by_and_caches_what_it_visits() {
    let (file, meta) = build(&many(), TableOptions::default());
    let cache = BlockCache::new(8 << 20);
    let table = open_with(file.clone(), KeyOrder::Bytewise, cache.clone()).unwrap();
    let walk = |entries: usize| {
        let before = file.reads();
        let mut cursor = table.cursor();
        cursor.seek(b"user/00001000").unwrap();
        (1..entries).for_each(|_| cursor.next().unwrap());
        assert!(cursor.entry().is_some());
        file.reads() - before
    };
    assert_eq!(walk(1), 2, "the index and a block");
    assert!(file.largest_read.load(Ordering::Relaxed) < 16 << 10);
    let blocks = meta.file_bytes * 8 / 10 / 4096;
    let reads = walk(8_000);
    assert!(reads < blocks / 8, "{reads} reads for {blocks} blocks");
    assert!(file.largest_read.load(Ordering::Relaxed) <= 128 << 10);
    assert_eq!(walk(8_000), 0, "everything is cached");
}

#[test]
fn a_scan_begins_with_about_as_much_as_the_last_ones_read() {
    let (file, _) = build(&many(), TableOptions::default());
    let table = open_with(file.clone(), KeyOrder::Bytewise, BlockCache::new(0)).unwrap();
    drop(table.index().unwrap());
    let scan = |entries: usize, number: usize| {
        file.largest_read.store(0, Ordering::Relaxed);
        let before = file.reads();
        let mut cursor = table.cursor();
        cursor.seek(format!("user/{:08}", number * 37 % 5_000).as_bytes()).unwrap();
        (1..entries).for_each(|_| cursor.next().unwrap());
        assert!(cursor.entry().is_some());
        (file.reads() - before, file.largest_read.load(Ordering::Relaxed))
    };
    let reads: Vec<u64> = (0..40).map(|number| scan(2_000, number).0).collect();
    assert!(reads[..3].iter().min() > reads[37..].iter().max(), "{reads:?}");
    for number in 0..40 {
        scan(1, number);
    }
    assert!(scan(1, 7).1 < 6 << 10, "where runs are of one block, one is read");
}

#[test]
fn the_estimate_is_close_to_the_file() {
    let file = MemFile::new(Vec::new());
    let mut builder =
        TableBuilder::new(file, PathBuf::from("t"), super::header(), TableOptions::default()).unwrap();
    for entry in many() {
        builder.add(&entry.key, entry.version, entry.kind, &entry.value).unwrap();
    }
    let estimate = builder.bytes_estimate();
    assert!(estimate.abs_diff(builder.finish(false).unwrap().file_bytes) < 1024);
}

#[test]
fn blocks_are_written_in_large_pieces() {
    let (file, meta) = build(&many(), TableOptions::default());
    assert!(file.writes.load(Ordering::Relaxed) <= meta.file_bytes / (256 << 10) + 1);
}

#[test]
fn a_big_value_has_a_block_of_its_own() {
    let entries =
        [put("a", BASE_VERSION, "small"), put("b", BASE_VERSION, [0; 5000]), put("c", BASE_VERSION, "small")];
    let (file, _) = build(&entries, TableOptions::default());
    let table = open(file, KeyOrder::Bytewise).unwrap();
    let [a, b, c] = [b"a", b"b", b"c"].map(|key| table.offset_of(key).unwrap());
    assert!(a < b && b + 5000 < c);
}

#[test]
fn a_failing_device_is_not_damage() {
    let (file, _) = build(&many(), TableOptions::default());
    let table = open(file.clone(), KeyOrder::Bytewise).unwrap();
    file.failing.store(true, Ordering::Relaxed);
    let key = b"user/00000003";
    assert!(matches!(
        table.get(key, bloom::hash(key), u64::MAX, &|_| true, &Directly),
        Err(Error::Io { .. })
    ));
    assert!(matches!(table.cursor().seek_to_first(), Err(Error::Io { .. })));
    assert!(matches!(table.verify(&mut |error| panic!("{error}")), Err(Error::Io { .. })));
    assert!(matches!(open(file.clone(), KeyOrder::Bytewise), Err(Error::Io { .. })));
    file.failing.store(false, Ordering::Relaxed);
    assert!(get(&table, key, u64::MAX, &|_| true).is_some(), "the failure was not remembered");

    let file = MemFile::new(Vec::new());
    file.failing.store(true, Ordering::Relaxed);
    let mut builder =
        TableBuilder::new(file, PathBuf::from("t"), super::header(), TableOptions::default()).unwrap();
    builder.add(b"key", BASE_VERSION, Kind::Put, b"value").unwrap();
    assert!(matches!(builder.finish(false), Err(Error::Io { .. })));
}

#[test]
fn offsets_grow_with_the_key() {
    let (file, meta) = build(&many(), TableOptions::default());
    let table = open(file, KeyOrder::Bytewise).unwrap();
    let offsets: Vec<u64> = (0..10_000)
        .step_by(500)
        .map(|i| table.offset_of(format!("user/{i:08}").as_bytes()).unwrap())
        .collect();
    assert!(offsets.is_sorted() && offsets[0] == 64, "{offsets:?}");
    assert!(offsets[10].abs_diff(meta.file_bytes / 2) < meta.file_bytes / 20);
    assert!(table.offset_of(b"zzz").unwrap() > offsets[19]);
}

#[test]
fn a_value_outlives_the_table_and_pins_only_its_block() {
    let (file, _) = build(&many(), TableOptions::default());
    let table = open_with(file, KeyOrder::Bytewise, BlockCache::new(0)).unwrap();
    let TableGet::Found { value, .. } =
        table.get(b"user/00000003", bloom::hash(b"user/00000003"), u64::MAX, &|_| true, &Directly).unwrap()
    else {
        panic!("the key is there");
    };
    drop(table);
    assert_eq!(value, [3; 100][..]);
}

#[test]
fn another_file_in_this_ones_place_is_recognised() {
    let (file, _) = build(&many(), TableOptions::default());
    for (expected, named) in [((STORE + 1, FILE), "store"), ((STORE, FILE + 1), "number 8")] {
        let opened = Table::open(
            file.clone(),
            PathBuf::from("7.table"),
            expected,
            KeyOrder::Bytewise,
            BlockCache::new(0),
        );
        let error = opened.unwrap_err();
        assert!(error.is_corruption() && error.to_string().contains(named), "{error}");
    }
}

#[test]
fn threads_share_a_table() {
    let (file, _) = build(&many(), TableOptions::default());
    let table = open_with(file, KeyOrder::Bytewise, BlockCache::new(64 << 10)).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..3 {
            let table = Arc::clone(&table);
            scope.spawn(move || {
                for i in (thread..10_000u64).step_by(7) {
                    let key = format!("user/{i:08}");
                    let (version, _, value) = get(&table, key.as_bytes(), u64::MAX, &|_| true).unwrap();
                    assert_eq!((version, value), (BASE_VERSION + i % 7, vec![i as u8; 100]));
                }
            });
        }
    });
}
