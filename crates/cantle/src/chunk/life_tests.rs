//! The life of munks, step by step: reads return the same whichever chunks are in memory, whatever
//! happens to them meanwhile.

use super::Chunks;
use crate::chunk::chunk::{Change, Chunk};
use crate::chunk::residency::load::CHUNKS_MAX;
use crate::chunk::test_support::chunks_of;
use crate::sync::Arc;
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use crate::vfs::{FaultVfs, MemVfs, Operation, Verdict, Vfs};
use crate::{ChunkOptions, KeyspaceOptions, Options};
use crate::{Db, Snapshot, WriteBatch};
use std::collections::BTreeMap;

type Pairs = BTreeMap<String, Vec<u8>>;

/// SplitMix64.
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }
}

/// Munks are loaded and evicted by the test, not by popularity.
pub(super) fn open(
    disk: &(impl Vfs + Clone + 'static),
    chunk_bytes: u64,
    log_bytes: u64,
) -> (Db, Arc<Chunks>) {
    let chunk = ChunkOptions::new().munks(false).chunk_bytes(chunk_bytes).log_bytes(log_bytes);
    // Reads of logs go to the files.
    let keyspace = KeyspaceOptions::new().layout(chunk.recent_appends(false));
    let options = Options::new().memory_budget(1 << 30).default_keyspace(keyspace);
    let db = options.vfs(Arc::new(disk.clone())).open("store").unwrap();
    let chunks = chunks_of(&db);
    (db, chunks)
}

pub(super) fn key(number: u64) -> String {
    format!("{number:04}")
}

/// While it is held, the background does not sort the chunk.
pub(super) fn left_alone(chunk: &Arc<Chunk>) -> Change {
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
    // The background jobs may make more seeds necessary.
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

/// Enough writes for the load to catch up both without the lock and under it.
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
        for attempt in 0..1000 {
            // On a busy machine the writers may stand still during the first loads.
            if attempt >= 8 && far_behind > 0 {
                break;
            }
            // A load does not catch up with range deletes: it is abandoned.
            deletes_ranges.store((5..8).contains(&attempt), Relaxed);
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
    // The background may change the chunk for a moment.
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

/// Two pairs are written for each pair that a load reads.
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
            // In the end the load also reads under the chunk's lock.
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
    // One block more, which may be partly empty.
    assert!(most_bytes > 0 && most_bytes <= CHUNKS_MAX * CHUNK_BYTES + (1 << 20), "{most_bytes}");
    assert!(!loaded, "what has outgrown the bound is not loaded");
    assert_eq!(chunks.context.substrate.budget.resident.used_bytes(), 0);
    assert_eq!(db.range(..).count() as u64, written);
}
