//! Inserts in order into chunks without a munk.

use super::split_tests::{Pairs, assert_holds, open, open_with, put, until};
use crate::chunk::Chunks;
use crate::chunk::chunk::Chunk;
use crate::chunk::test_support::chunks_of;
use crate::sync::Arc;
use crate::sync::atomic::{AtomicU64, Ordering::SeqCst};
use crate::types::order::KeyOrder;
use crate::vfs::MemVfs;
use crate::{ChunkOptions, KeyspaceOptions, Options};
use crate::{Db, WriteBatch};

fn small_chunks() -> ChunkOptions {
    ChunkOptions::new().chunk_bytes(1 << 20)
}

fn all(chunks: &Chunks) -> Vec<Arc<Chunk>> {
    chunks.index.view().iter().map(|(_, chunk)| chunk.clone()).collect()
}

fn end(chunks: &Chunks) -> Arc<Chunk> {
    all(chunks).pop().unwrap()
}

/// Bytes that count as the chunks' in their files, and unclaimed bytes of these files.
fn counted(db: &Db) -> (u64, u64) {
    let stats = &db.stats().keyspaces[0];
    (stats.log_bytes + stats.table_bytes, stats.unclaimed_bytes)
}

#[test]
fn what_is_inserted_next_goes_to_a_chunk_in_memory_that_has_none_of_the_files_but_the_last_key() {
    let memory = MemVfs::new();
    let (db, chunks) = open(Arc::new(memory.clone()), small_chunks());
    let mut pairs = Pairs::new();
    put(&db, &mut pairs, 0..4000, 1).unwrap();
    // One log ended and another begun, as after opening.
    end(&chunks).writer.lock().end_log(&chunks.context.substrate);
    put(&db, &mut pairs, 4000..5000, 1).unwrap();
    let (snapshot, before) = (db.snapshot(), pairs.clone());
    let parent = end(&chunks);
    assert!(chunks.split_tail(&parent).unwrap());
    assert!(!chunks.split_tail(&parent).unwrap(), "it was split");

    let [rest, end] = <[_; 2]>::try_from(all(&chunks)).ok().unwrap();
    assert_eq!(end.span.start.as_deref(), Some(&b"004999"[..]));
    assert!(rest.munk.load().is_none());
    assert_eq!(end.munk.load().as_ref().map(|munk| munk.len()), Some(1));
    let bytes = |chunk: &Chunk| chunk.funk.load().sizes().log_bytes;
    assert!(bytes(&end) < 1000 && bytes(&rest) > 5_000_000, "{}, {}", bytes(&end), bytes(&rest));
    assert!(counted(&db).1 < 64, "shares are rounded");
    assert_eq!(db.stats().keyspaces[0].chunk().unwrap().end_splits, 1);
    assert!(end.score() > 0 && rest.score() == 0, "what comes goes to the end");
    assert_holds(&db, &pairs, "after the split");

    put(&db, &mut pairs, 4990..5500, 2).unwrap();
    assert!(end.munk.load_full().unwrap().len() > 500);
    assert_holds(&db, &pairs, "with more inserted");
    for (key, value) in &before {
        assert_eq!(snapshot.get(key).unwrap().as_deref(), Some(&value[..]));
    }
    drop(snapshot);
    let (reopened, _) = open(Arc::new(memory.kill()), small_chunks());
    assert_holds(&reopened, &pairs, "killed and opened again");
    db.compact_range(..).unwrap();
    assert_holds(&db, &pairs, "sorted");
    assert_eq!(counted(&db).1, 0);
    assert!(db.verify().unwrap().is_ok());
}

/// The manifest stores the start keys, in each edit of their chunks.
#[test]
fn chunks_begin_at_the_shortest_key_that_separates() {
    let (db, chunks) = open(Arc::new(MemVfs::new()), small_chunks());
    let mut next = 0;
    let mut put = |count: u64| {
        for number in next..next + count {
            let key = format!("{number:06}/{}", "k".repeat(600));
            db.put(key, number.to_be_bytes().repeat(50)).unwrap();
        }
        next += count;
        next
    };
    let manifest_bytes = || chunks.context.substrate.manifest.bytes();
    let mut told_bytes = 0;
    for _ in 0..5 {
        put(600);
        let parent = end(&chunks);
        chunks.evict_munk(&parent);
        put(500);
        let mut before = manifest_bytes();
        // The newest part may have just begun, and show nothing.
        let is_split = (0..50).any(|_| {
            let is_split = chunks.split_tail(&parent).unwrap();
            if !is_split {
                put(4);
                before = manifest_bytes();
            }
            is_split
        });
        assert!(is_split);
        told_bytes += manifest_bytes() - before;
    }
    for chunk in &all(&chunks)[1..] {
        let start = chunk.span.start.as_deref().unwrap();
        assert!(start.len() <= 6, "{} bytes of a boundary", start.len());
        let (first, _) = db.range(start.to_vec()..).next().unwrap().unwrap();
        assert_eq!(first[..6], *start, "nothing lies between it and the key that it was made of");
    }
    // Two chunks each, with a few files.
    assert!(told_bytes < 5 * 600, "{told_bytes} bytes of a manifest for five splits");
    assert_eq!(db.range(..).count() as u64, put(0));
}

#[test]
fn some_keys_may_come_late_and_no_others_are_in_order() {
    // One key of `late` comes late; `None`: keys come in random order.
    let is_in_order = |late: Option<u64>| {
        let (db, chunks) = open(Arc::new(MemVfs::new()), small_chunks());
        for number in 0..3000_u64 {
            let key = match late {
                None => number * 1_237 % 3_000,
                Some(late) if number % late == 0 => number.saturating_sub(1_000),
                Some(_) => number,
            };
            db.put(format!("{key:06}"), [1; 1000]).unwrap();
        }
        let found = chunks.split_tail(&end(&chunks)).unwrap();
        assert_eq!(found, all(&chunks).len() == 2);
        found
    };
    assert!(is_in_order(Some(3_001)) && is_in_order(Some(20)));
    assert!(!is_in_order(Some(3)) && !is_in_order(None));
}

#[test]
fn it_is_for_chunks_that_are_large_and_have_no_munk() {
    let memory = MemVfs::new();
    let keyspace = KeyspaceOptions::new().layout(small_chunks().log_bytes(8 << 20).filter_partitions(64));
    let db = Options::new().default_keyspace(keyspace).vfs(Arc::new(memory)).open("store").unwrap();
    let chunks = chunks_of(&db);
    let chunk = end(&chunks);
    // The background neither loads nor splits it meanwhile.
    let _change = std::iter::from_fn(|| Some(chunk.begin_change())).find_map(|change| change).unwrap();
    let mut pairs = Pairs::new();
    put(&db, &mut pairs, 0..900, 1).unwrap();
    chunks.evict_munk(&chunk);
    put(&db, &mut pairs, 900..1000, 1).unwrap();
    assert!(!chunks.is_inserted_in_order(&chunk), "it is small");
    put(&db, &mut pairs, 1000..1990, 1).unwrap();
    assert!(chunks.is_inserted_in_order(&chunk));
    let overwrites = (0..1000).map(|number| number * 7 % 1000);
    put(&db, &mut pairs, overwrites, 2).unwrap();
    assert!(!chunks.is_inserted_in_order(&chunk), "others are written as well");
}

/// Like composite keys, with inserts at the end of each prefix.
#[test]
fn keys_behind_those_that_are_inserted_go_with_the_end() {
    for sorted in [false, true] {
        let memory = MemVfs::new();
        let (db, chunks) = open(Arc::new(memory.clone()), small_chunks());
        let mut pairs = Pairs::new();
        // One chunk, if sorted.
        put(&db, &mut pairs, (0..700).chain(9000..9200), 1).unwrap();
        if sorted {
            db.compact_range(..).unwrap();
        }
        put(&db, &mut pairs, 700..2060, 1).unwrap();
        let bytes = counted(&db).0;
        assert!(chunks.split_tail(&end(&chunks)).unwrap());
        let end = end(&chunks);
        assert_eq!(end.span.start.as_deref(), Some(&b"002059"[..]));
        assert_eq!(end.munk.load().as_ref().map(|munk| munk.len()), Some(201), "sorted: {sorted}");
        let sizes = end.funk.load().sizes();
        let taken_for = sizes.log_bytes + sizes.table_bytes;
        assert!((100_000..400_000).contains(&taken_for), "{taken_for}");
        assert!(counted(&db).0.abs_diff(bytes) < 64 << 10, "an index of the last part");
        put(&db, &mut pairs, 2060..2200, 1).unwrap();
        assert_holds(&db, &pairs, "after the split");
        let (reopened, _) = open(Arc::new(memory.kill()), small_chunks());
        assert_holds(&reopened, &pairs, "opened again");
    }
}

#[test]
fn range_deletes_and_what_a_comparator_orders_otherwise_are_kept() {
    let memory = MemVfs::new();
    let reversed = || KeyspaceOptions::new().comparator(Arc::new(Reverse));
    let (db, chunks) = open_with(Arc::new(memory.clone()), small_chunks(), reversed());
    let mut pairs = Pairs::new();
    put(&db, &mut pairs, (1000..4000).rev(), 1).unwrap();
    let mut batch = WriteBatch::new();
    batch.delete_range("003500".."003000");
    db.write(batch).unwrap();
    pairs.retain(|key, _| !("003001".."003501").contains(&key.as_str()));
    put(&db, &mut pairs, (500..1000).rev(), 2).unwrap();
    assert!(chunks.split_tail(&end(&chunks)).unwrap());
    assert_eq!(end(&chunks).span.start.as_deref(), Some(&b"000500"[..]));
    put(&db, &mut pairs, (300..500).rev(), 2).unwrap();
    assert_holds(&db, &pairs, "after the split");
    let (reopened, _) = open_with(Arc::new(memory.kill()), small_chunks(), reversed());
    assert_holds(&reopened, &pairs, "opened again");
}

struct Reverse;

impl crate::Comparator for Reverse {
    fn name(&self) -> &str {
        "reverse"
    }
    fn compare(&self, a: &[u8], b: &[u8]) -> std::cmp::Ordering {
        KeyOrder::Bytewise.compare(b, a)
    }
}

/// Maintenance by itself, as after opening a store, or after its munk was evicted.
#[test]
fn who_inserts_in_order_gets_a_chunk_in_memory_again() {
    let memory = MemVfs::new();
    let keyspace = KeyspaceOptions::new().layout(ChunkOptions::new().chunk_bytes(256 << 10));
    let db = Options::new().default_keyspace(keyspace).vfs(Arc::new(memory)).open("store").unwrap();
    let chunks = chunks_of(&db);
    let mut pairs = Pairs::new();
    for round in 0..1000 {
        put(&db, &mut pairs, round * 400..round * 400 + 400, 1).unwrap();
        if db.stats().keyspaces[0].chunk().unwrap().end_splits > 0 {
            break;
        }
        // It may have been loaded as a whole, if inserts are slow.
        chunks.evict_munk(&end(&chunks));
    }
    until("a split", || db.stats().keyspaces[0].chunk().unwrap().end_splits > 0);
    assert_holds(&db, &pairs, "after the split");
}

#[test]
fn writers_and_readers_do_not_notice() {
    let (db, chunks) = open(Arc::new(MemVfs::new()), ChunkOptions::new().chunk_bytes(64 << 10));
    const KEYS: u64 = 12_000;
    let (next, written) = (AtomicU64::new(0), [AtomicU64::new(0), AtomicU64::new(0)]);
    std::thread::scope(|scope| {
        let writers: Vec<_> = written
            .iter()
            .map(|written| {
                let (db, next) = (&db, &next);
                scope.spawn(move || {
                    loop {
                        let number = next.fetch_add(1, SeqCst);
                        if number >= KEYS {
                            return;
                        }
                        db.put(format!("{number:06}"), number.to_be_bytes().repeat(100)).unwrap();
                        written.store(number, SeqCst);
                    }
                })
            })
            .collect();
        let holds = |number: u64| {
            let value = db.get(format!("{number:06}")).unwrap();
            assert!(value.is_some_and(|value| value[..8] == number.to_be_bytes()), "{number} is missing");
        };
        while !writers.iter().all(|writer| writer.is_finished()) {
            let chunk = end(&chunks);
            chunks.evict_munk(&chunk);
            let _ = chunks.split_tail(&chunk).unwrap();
            written.iter().map(|written| written.load(SeqCst)).filter(|number| *number > 0).for_each(holds);
        }
        (0..KEYS).for_each(holds);
    });
    assert!(db.stats().keyspaces[0].chunk().unwrap().end_splits > 0);
    assert_eq!(db.range(..).count() as u64, KEYS);
}
