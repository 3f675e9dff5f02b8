//! The life of munks, step by step: what is read stays the same whichever chunks are in memory, and whatever becomes
//! of them meanwhile.

use super::Chunks;
use crate::chunk::chunk::{Change, Chunk};
use crate::chunk::residency::load::CHUNKS_MAX;
use crate::chunk::test_support::chunks_of;
use crate::run::merged::Merged;
use crate::run::stack::RunStack;
use crate::sync::Arc;
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use crate::sync::counter::Counter;
use crate::types::span::Span;
use crate::vfs::{Failure, FaultVfs, MemVfs, Operation, Verdict, Vfs};
use crate::{ChunkOptions, KeyspaceOptions, Options};
use crate::{Db, Snapshot, WriteBatch};
use std::collections::BTreeMap;

type Pairs = BTreeMap<String, Vec<u8>>;

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

/// Munks come and go as the test says, not by popularity.
fn open(disk: &(impl Vfs + Clone + 'static), chunk_bytes: u64, log_bytes: u64) -> (Db, Arc<Chunks>) {
    let chunk = ChunkOptions::new().munks(false).chunk_bytes(chunk_bytes).log_bytes(log_bytes);
    // What is read from logs is read from files.
    let keyspace = KeyspaceOptions::new().layout(chunk.recent_appends(false));
    let options = Options::new().memory_budget(1 << 30).default_keyspace(keyspace);
    let db = options.vfs(Arc::new(disk.clone())).open("store").unwrap();
    let chunks = chunks_of(&db);
    (db, chunks)
}

fn key(number: u64) -> String {
    format!("{number:04}")
}

/// As long as it is held, nobody sorts the chunk in the background.
fn left_alone(chunk: &Arc<Chunk>) -> Change {
    std::iter::from_fn(|| Some(chunk.begin_change())).find_map(|change| change).unwrap()
}

fn load_all(chunks: &Chunks) {
    for (_, chunk) in chunks.index.view().iter() {
        chunks.load_munk(chunk).unwrap();
    }
}

fn evict_all(chunks: &Chunks) {
    chunks.index.view().iter().for_each(|(_, chunk)| chunks.evict_munk(chunk));
}

fn assert_holds(db: &Db, snapshot: Option<&Snapshot>, expected: &Pairs, what: &str) {
    let range = || snapshot.map_or_else(|| db.range(..), |snapshot| snapshot.range(..));
    let to_pair = |pair: crate::Result<(crate::Key, crate::Value)>| {
        let (key, value) = pair.unwrap();
        (String::from_utf8(key.to_vec()).unwrap(), value.to_vec())
    };
    let wanted = || expected.iter().map(|(key, value)| (key.clone(), value.clone()));
    assert!(range().map(to_pair).eq(wanted()), "a range differs {what}");
    assert!(range().rev().map(to_pair).eq(wanted().rev()), "a range backwards differs {what}");
    for number in 0..KEYS {
        let key = key(number);
        let found = snapshot.map_or_else(|| db.get(&key), |snapshot| snapshot.get(&key)).unwrap();
        let wanted = expected.get(&key).map(Vec::as_slice);
        assert!(found.as_deref() == wanted, "a get of {key} differs {what}");
    }
}

const KEYS: u64 = 300;

/// One step of a history, in the store and in the model.
fn write(db: &Db, pairs: &mut Pairs, random: &mut Random) -> &'static str {
    let value = |random: &mut Random| vec![random.below(256) as u8; 1 + random.below(700) as usize];
    match random.below(12) {
        0 => {
            let (from, to) = (random.below(KEYS), random.below(KEYS));
            let (from, to) = (key(from.min(to)), key(from.max(to)));
            db.delete_range(&from..&to).unwrap();
            pairs.retain(|key, _| *key < from || *key >= to);
            "a range delete"
        }
        1 | 2 => {
            let mut batch = WriteBatch::new();
            if random.below(2) == 0 {
                let from = random.below(KEYS);
                let (from, to) = (key(from), key(from + 20));
                batch.delete_range(&from..&to);
                pairs.retain(|key, _| *key < from || *key >= to);
            }
            for _ in 0..random.below(40) {
                let (key, value) = (key(random.below(KEYS)), value(random));
                batch.put(&key, &value);
                pairs.insert(key, value);
            }
            db.write(batch).unwrap();
            "a batch"
        }
        3 | 4 => {
            let key = key(random.below(KEYS));
            db.delete(&key).unwrap();
            pairs.remove(&key);
            "a delete"
        }
        _ => {
            for _ in 0..random.below(60) {
                let (key, value) = (key(random.below(KEYS)), value(random));
                db.put(&key, &value).unwrap();
                pairs.insert(key, value);
            }
            "puts"
        }
    }
}

#[test]
fn snapshots_see_the_same_whatever_becomes_of_munks() {
    let mut counts = [0; 5];
    // What the background has to do may need more of them.
    for seed in 0..60 {
        if seed >= 6 && counts.iter().all(|count| *count > 0) {
            break;
        }
        let mut random = Random(seed);
        let disk = MemVfs::new();
        let (mut db, mut chunks) = open(&disk, 64 << 10, 32 << 10);
        let mut pairs = Pairs::new();
        let mut held: Vec<(Snapshot, Pairs)> = Vec::new();
        for step in 0..120 {
            let what = match random.below(16) {
                0 | 1 => {
                    load_all(&chunks);
                    "a load"
                }
                2 => {
                    let chunk = chunks.index.find(key(random.below(KEYS)).as_bytes());
                    chunks.evict_munk(&chunk);
                    "an eviction"
                }
                3 => {
                    db.compact_range(..).unwrap();
                    "a flush"
                }
                4 => {
                    held.push((db.snapshot(), pairs.clone()));
                    "a snapshot"
                }
                5 if !held.is_empty() => {
                    held.swap_remove(random.below(held.len() as u64) as usize);
                    "the end of a snapshot"
                }
                6 if random.below(4) == 0 => {
                    held.clear();
                    count(&db, &mut counts);
                    db.close().unwrap();
                    drop((db, chunks));
                    (db, chunks) = open(&disk, 64 << 10, 32 << 10);
                    "reopening"
                }
                _ => write(&db, &mut pairs, &mut random),
            };
            let what = format!("after {what}, step {step} of seed {seed}");
            assert_holds(&db, None, &pairs, &what);
            for (snapshot, pairs) in &held {
                assert_holds(&db, Some(snapshot), pairs, &format!("at a snapshot, {what}"));
            }
        }
        count(&db, &mut counts);
        evict_all(&chunks);
        assert_holds(&db, None, &pairs, "once all is evicted");
    }
    println!("[loads, evictions, rebalances, splits, flushes]: {counts:?}");
    assert!(counts.iter().all(|count| *count > 0), "something never happened: {counts:?}");
}

fn count(db: &Db, counts: &mut [u64; 5]) {
    let stats = &db.stats().keyspaces[0];
    let of = [
        stats.chunk().unwrap().munk_loads,
        stats.chunk().unwrap().munk_evictions,
        stats.chunk().unwrap().munk_rebalances,
        stats.chunk().unwrap().munk_splits,
        stats.chunk().unwrap().munk_flushes,
    ];
    counts.iter_mut().zip(of).for_each(|(sum, count)| *sum += count);
}

/// So much that it is caught up with both without the lock and under it.
#[test]
fn what_is_written_while_a_chunk_is_loaded_is_in_its_munk() {
    const WRITERS: u64 = 2;
    let disk = MemVfs::new();
    let (db, chunks) = open(&disk, 1 << 30, 1 << 30);
    for number in 0..2000 {
        db.put(format!("x{number:06}"), vec![1; 1000]).unwrap();
    }
    let (stop, deletes_ranges) = (AtomicBool::new(false), AtomicBool::new(false));
    let (mut loads, mut refused, mut far_behind) = (0, 0, 0);
    let models: Vec<Pairs> = std::thread::scope(|scope| {
        let (db, stop, deletes_ranges) = (&db, &stop, &deletes_ranges);
        let writing: Vec<_> = (0..WRITERS)
            .map(|writer| {
                scope.spawn(move || {
                    let (mut random, mut model, mut round) = (Random(writer), Pairs::new(), 0_u64);
                    let own = |number: u64| format!("{writer}/{number:03}");
                    while !stop.load(Relaxed) {
                        round += 1;
                        let key = own(random.below(200));
                        let value = vec![round as u8; 1 + random.below(1000) as usize];
                        match random.below(200) {
                            0 if writer == 0 && deletes_ranges.load(Relaxed) => {
                                let to = own(random.below(200));
                                db.delete_range(&key..&to.clone().max(key.clone())).unwrap();
                                model.retain(|other, _| *other < key || *other >= to);
                            }
                            1..20 => {
                                db.delete(&key).unwrap();
                                model.remove(&key);
                            }
                            20..40 => {
                                let mut batch = WriteBatch::new();
                                for _ in 0..5 {
                                    let key = own(random.below(200));
                                    batch.put(&key, &value);
                                    model.insert(key, value.clone());
                                }
                                db.write(batch).unwrap();
                            }
                            _ => {
                                db.put(&key, &value).unwrap();
                                model.insert(key, value);
                            }
                        }
                    }
                    model
                })
            })
            .collect();
        let chunk = chunks.index.find(b"");
        for attempt in 0..8 {
            // What is deleted meanwhile is not caught up with: such a load is given up.
            deletes_ranges.store(attempt >= 5, Relaxed);
            let log_bytes = || chunk.funk.load().sizes().log_bytes;
            let before = log_bytes();
            if chunks.load_munk(&chunk).unwrap() {
                loads += 1;
                far_behind +=
                    usize::from(log_bytes() - before > 2 * crate::chunk::residency::load::LAST_BYTES_MAX);
                // Some writes through the munk, too.
                crate::sync::thread::sleep(std::time::Duration::from_millis(2));
                chunks.evict_munk(&chunk);
            } else {
                refused += 1;
            }
        }
        stop.store(true, Relaxed);
        writing.into_iter().map(|writing| writing.join().unwrap()).collect()
    });
    println!("{loads} loads, {far_behind} of them from far behind; {refused} refused");
    assert!(loads > 0 && far_behind > 0, "nothing was tested");
    let expected: Pairs = models.into_iter().flatten().collect();
    let check = |db: &Db, what: &str| {
        let found: Pairs = db
            .range(.."x")
            .map(|pair| pair.unwrap())
            .map(|(key, value)| (String::from_utf8(key.to_vec()).unwrap(), value.to_vec()))
            .collect();
        assert!(found == expected, "{what} differs");
        assert_eq!(db.range("x"..).count(), 2000);
        for (key, value) in &expected {
            assert_eq!(db.get(key).unwrap().as_deref(), Some(&value[..]), "{key} in {what}");
        }
    };
    // The background may be at the chunk for a moment.
    for _ in 0..2000 {
        load_all(&chunks);
        if chunks.index.find(b"").munk.load().is_some() {
            break;
        }
        crate::sync::thread::sleep(std::time::Duration::from_millis(5));
    }
    assert!(chunks.index.find(b"").munk.load().is_some());
    check(&db, "the munk");
    evict_all(&chunks);
    check(&db, "the log");
    load_all(&chunks);
    db.compact_range(..).unwrap();
    evict_all(&chunks);
    check(&db, "the flushed table");
    db.close().unwrap();
    drop((db, chunks));
    check(&open(&disk, 1 << 30, 1 << 30).0, "the store that was reopened");
}

/// For each pair that a load reads, two are written.
#[test]
fn a_load_that_cannot_catch_up_takes_no_more_memory_than_a_large_chunk() {
    const CHUNK_BYTES: u64 = 256 << 10;
    const VALUE_BYTES: usize = 10_000;
    /// Without a bound the load goes on until this much is written.
    const WRITTEN_MAX: u64 = 64 << 20;
    let fault = FaultVfs::over_memory(MemVfs::new());
    let (db, chunks) = open(&fault, CHUNK_BYTES, 1 << 30);
    let put = |db: &Db, number: u64| db.put(format!("{number:06}"), vec![7; VALUE_BYTES]).unwrap();
    let written = Arc::new(AtomicU64::new(40));
    (0..40).for_each(|number| put(&db, number));
    let chunk = chunks.index.find(b"");
    let most_bytes = Arc::new(AtomicU64::new(0));
    {
        let (db, chunk, written, most_bytes) =
            (db.clone(), chunk.clone(), written.clone(), most_bytes.clone());
        let (munk_bytes, loading) =
            (chunks.context.substrate.budget.resident.counter().clone(), std::thread::current().id());
        let inside = AtomicBool::new(false);
        fault.set_rule(move |call| {
            // The load reads under the chunk's lock, too, in the end.
            let reads = call.operation == Operation::ReadAt && std::thread::current().id() == loading;
            if reads && chunk.writer.try_lock().is_some() && !inside.swap(true, Relaxed) {
                most_bytes.fetch_max(munk_bytes.load(Relaxed), Relaxed);
                for _ in 0..2 {
                    if written.load(Relaxed) * (VALUE_BYTES as u64) < WRITTEN_MAX {
                        put(&db, written.fetch_add(1, Relaxed));
                    }
                }
                inside.store(false, Relaxed);
            }
            Verdict::Pass
        });
    }
    let loaded = chunks.load_munk(&chunk).unwrap();
    fault.clear_rule();
    let (written, most_bytes) = (written.load(Relaxed), most_bytes.load(Relaxed));
    println!("{written} pairs written, {most_bytes} bytes in memory at most");
    assert!(written > 80, "nothing was written meanwhile");
    // A block more, of which not all is filled.
    assert!(most_bytes > 0 && most_bytes <= CHUNKS_MAX * CHUNK_BYTES + (1 << 20), "{most_bytes}");
    assert!(!loaded, "what has outgrown the bound is not loaded");
    assert_eq!(chunks.context.substrate.budget.resident.used_bytes(), 0);
    assert_eq!(db.range(..).count() as u64, written);
}

/// A store with one chunk, whose log has several indexed parts.
fn with_a_log(disk: &(impl Vfs + Clone + 'static), records: u64) -> (Db, Arc<Chunks>) {
    let (db, chunks) = open(disk, 8 << 20, 1 << 20);
    let mut random = Random(7);
    let mut order: Vec<u64> = (0..records).collect();
    order.sort_by_cached_key(|_| random.below(u64::MAX));
    for number in order {
        db.put(key(number), [number as u8; 200]).unwrap();
    }
    assert!(
        chunks.index.find(b"").funk.load().logs().all(|log| log
            .parts(&chunks.context)
            .unwrap()
            .indexed
            .len()
            > 3)
    );
    (db, chunks)
}

#[test]
fn who_merges_a_log_once_reads_it_at_once() {
    let disk = FaultVfs::over_memory(MemVfs::new());
    let (db, chunks) = with_a_log(&disk, 4000);
    let before = disk.count(Operation::ReadAt);
    db.compact_range(..).unwrap();
    let reads = disk.count(Operation::ReadAt) - before;
    assert!(reads < 1000, "{reads} reads for 4,000 records");
    assert_eq!(db.range(..).count(), 4000);
    drop(chunks);
}

#[test]
fn who_merges_a_log_while_others_have_the_memory_reads_its_records_in_batches() {
    let disk = FaultVfs::over_memory(MemVfs::new());
    let (db, chunks) = with_a_log(&disk, 4000);
    let budget = &chunks.context.substrate.budget;
    let limit = budget.total_bytes / 16;
    assert!(budget.logs.merges.charge(limit + 1).is_none());
    let taken = budget.logs.merges.charge(limit).expect("nobody else merges");
    assert_eq!(budget.stats().merges.used, limit);
    let munks = budget.resident_limit_bytes();
    let before = disk.count(Operation::ReadAt);
    db.compact_range(..).unwrap();
    let reads = disk.count(Operation::ReadAt) - before;
    assert!((20..1000).contains(&reads), "{reads} reads for 4,000 records");
    let counters = &chunks.context.log.counters;
    let [batches, bytes] = [&counters.log_batches, &counters.log_batch_bytes].map(Counter::get);
    assert!(
        (1..=reads).contains(&batches) && bytes > 3000 * 200,
        "{batches} batches of {bytes} bytes in {reads} reads"
    );
    drop(taken);
    assert_eq!(budget.stats().merges.used, 0);
    assert!(budget.resident_limit_bytes() > munks, "it is lent to munks");
    assert_eq!(db.range(..).count(), 4000);
    assert!(db.range(..).enumerate().all(|(number, pair)| pair.unwrap().1 == [number as u8; 200][..]));
}

/// As of chunks that share the logs of the chunk that they were one time: each reads what is its own.
#[test]
fn who_merges_a_piece_of_a_log_reads_its_records_in_batches() {
    let disk = FaultVfs::over_memory(MemVfs::new());
    let (_db, chunks) = with_a_log(&disk, 4000);
    let mut funk = RunStack::clone(&chunks.index.find(b"").funk.load());
    let log_bytes = funk.sizes().log_bytes;
    for file in &mut funk.files {
        file.span = Span { start: Some(key(1000).into()), end: Some(key(1400).into()) }.into();
        file.share_bytes = Some(file.bytes() / 10);
    }
    let before = disk.count(Operation::ReadAt);
    let budget = &chunks.context.substrate.budget;
    let mut merged = Merged::new(&chunks.context.run, &funk, true, |_| true).unwrap();
    merged.cursor.seek_to_first().unwrap();
    let (mut found, mut most) = (0, 0);
    while let Some(entry) = merged.cursor.entry() {
        let number = 1000 + found;
        assert_eq!(entry.key, key(number).as_bytes());
        assert_eq!(merged.cursor.value().unwrap(), [number as u8; 200][..]);
        found += 1;
        most = most.max(budget.stats().merges.used);
        merged.cursor.advance().unwrap();
    }
    assert_eq!(found, 400);
    let reads = disk.count(Operation::ReadAt) - before;
    assert!(reads < 200, "{reads} reads for 400 records");
    assert!(most > 0 && most < log_bytes / 5, "{most} bytes in memory, of a log of {log_bytes}");
    assert_eq!(budget.stats().merges.used, 0, "what was taken is given back");
}

#[test]
fn reads_of_a_log_are_debts_of_its_chunk_and_those_of_a_table_are_not() {
    let (db, chunks) = with_a_log(&MemVfs::new(), 2000);
    let debt = || chunks.index.find(b"").read_debt();
    // So many reads would pay for sorting it.
    let alone = left_alone(&chunks.index.find(b""));
    let read_all = || (0..2000).for_each(|number| drop(db.get(key(number)).unwrap()));
    read_all();
    let of_gets = debt();
    assert!(of_gets > 2000, "{of_gets}");
    assert_eq!(db.range(..).count(), 2000);
    let of_scan = debt() - of_gets;
    assert!((1000..=2000).contains(&of_scan), "{of_scan}: some happen to lie behind one another");
    assert_eq!(db.stats().keyspaces[0].scan_log_reads, of_scan);
    drop(alone);
    db.compact_range(..).unwrap();
    assert_eq!(debt(), 0);
    read_all();
    assert_eq!(db.range(..).count(), 2000);
    assert_eq!(debt(), 0);
    assert_eq!(db.stats().keyspaces[0].scan_log_reads, of_scan);
}

/// Whose log has many parts: of their filters one lets any key pass.
#[test]
fn inserts_in_order_are_not_taken_for_overwrites() {
    let (db, chunks) = open(&MemVfs::new(), 64 << 20, u64::MAX);
    let put = |number: u64| db.put(number.to_be_bytes(), [1; 1000]).unwrap();
    (0..40_000).for_each(put);
    let garbage_bytes = || chunks.chunk_sizes(&chunks.index.find(b"")).garbage_bytes;
    // A put that was the last of its part is found there itself.
    assert!(garbage_bytes() < 20_000, "{}", garbage_bytes());
    (0..8_000).for_each(put);
    // Sampled.
    assert!(garbage_bytes() > 4_000_000, "{}", garbage_bytes());
}

#[test]
fn a_bad_sector_ahead_of_a_scan_harms_nobody_before_it() {
    const PAIRS: u64 = 2000;
    let disk = FaultVfs::over_memory(MemVfs::new());
    let (db, chunks) = open(&disk, 8 << 20, 8 << 20);
    (0..PAIRS).for_each(|number| db.put(key(number), [1; 1000]).unwrap());
    for sorted in [false, true] {
        if sorted {
            db.compact_range(..).unwrap();
        }
        let chunk = chunks.index.find(b"");
        let _alone = left_alone(&chunk);
        let (id, path, len) = {
            let funk = chunk.funk.load();
            let file = funk.files.iter().max_by_key(|file| file.bytes()).unwrap();
            (file.file().id, file.file().path.clone(), file.bytes())
        };
        for bad in (1..16).map(|part| len / 20 * part + 777) {
            chunks.context.cache.forget(&[id]);
            let path = path.clone();
            disk.set_rule(move |call| {
                let covers = (call.offset..call.offset + call.len).contains(&bad);
                let is_there = call.operation == Operation::ReadAt && call.path == path && covers;
                if is_there { Verdict::Fail(Failure::EIO) } else { Verdict::Pass }
            });
            let read = db.range(..).take_while(|pair| pair.is_ok()).count() as u64;
            disk.clear_rule();
            // Indexes stand between the records.
            let (at, slack) = (read * len / PAIRS, 40 << 10);
            assert!(
                read < PAIRS && at + slack > bad,
                "{read} pairs, about {at} bytes, before {bad}; {sorted}"
            );
        }
    }
}
