//! A queue with a backlog: pairs deleted at its head do not slow down the search for the first
//! pair.

use super::Chunks;
use crate::chunk::test_support::chunks_of;
use crate::chunk::walk::walk;
use crate::layout::PairCursor;
use crate::mvcc::KeySpan;
use crate::sync::atomic::{AtomicU64, Ordering::Relaxed};
use crate::sync::{Arc, thread};
use crate::types::bounds::Bounds;
use crate::types::order::Comparator;
use crate::vfs::MemVfs;
use crate::{ChunkOptions, KeyspaceOptions, Options};
use std::cmp::Ordering;
use std::ops::Bound;
use std::time::Duration;

/// Number of deleted keys before the first pair, at least: those that lie in one chunk.
fn dead_at_head(chunks: &Arc<Chunks>) -> u64 {
    let bounds = Bounds { start: Bound::Unbounded, end: Bound::Unbounded };
    let snapshot = chunks.context.substrate.mvcc.own_snapshot(KeySpan::ALL);
    let mut walk = walk(chunks.clone(), bounds, snapshot);
    assert!(walk.seek_to_first().unwrap());
    drop(walk);
    let view = chunks.index.view();
    let of_munk =
        |chunk: &crate::chunk::chunk::Chunk| chunk.munk.load().as_ref().map(|munk| munk.dead_keys());
    view.iter().map(|(_, chunk)| of_munk(chunk).unwrap_or(0).max(chunk.dead_run())).max().unwrap()
}

#[test]
fn an_idle_backlog_has_few_deleted_keys_at_its_head() {
    for munks in [false, true] {
        let keyspace = KeyspaceOptions::new().layout(ChunkOptions::new().munks(false).chunk_bytes(1 << 20));
        let options = Options::new().write_buffer(false).memory_budget(64 << 20).default_keyspace(keyspace);
        let db = options.vfs(Arc::new(MemVfs::new())).open("store").unwrap();
        let chunks = chunks_of(&db);
        (0..20_000u64).for_each(|number| db.put(number.to_be_bytes(), [1; 20]).unwrap());
        if munks {
            let chunk = chunks.index.find(b"");
            assert!(chunks.load_munk(&chunk).unwrap());
        }
        (0..10_000u64).for_each(|number| db.delete(number.to_be_bytes()).unwrap());
        let is_healed = || {
            // Half a second without access, then a check, a probe and a rebalance.
            (0..200).any(|_| {
                thread::sleep(Duration::from_millis(1500));
                dead_at_head(&chunks) <= 100
            })
        };
        assert!(is_healed(), "{} deleted keys at the head; with munks: {munks}", dead_at_head(&chunks));
        assert_eq!(db.range(..).next().unwrap().unwrap().0, 10_000u64.to_be_bytes()[..]);
        assert_eq!(db.range(..).count(), 10_000);
    }
}

/// Bytewise order that counts comparisons.
#[derive(Debug, Default)]
struct Counting(Arc<AtomicU64>);

impl Comparator for Counting {
    fn name(&self) -> &str {
        "counting"
    }
    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        self.0.fetch_add(1, Relaxed);
        a.cmp(b)
    }
}

#[test]
fn a_scan_beside_many_range_deletes_looks_at_few_of_them() {
    const PAIRS: u64 = 8_000;
    let count = Arc::new(AtomicU64::new(0));
    let keyspace = KeyspaceOptions::new().layout(ChunkOptions::new().munks(false).log_bytes(u64::MAX));
    let keyspace = keyspace.comparator(Arc::new(Counting(count.clone())));
    let options = Options::new().default_keyspace(keyspace).vfs(Arc::new(MemVfs::new()));
    let db = options.write_buffer(false).open("store").unwrap();
    let key = |number: u64| number.to_be_bytes();
    let put = || (0..PAIRS).for_each(|number| db.put(key(number), [1; 20]).unwrap());
    put();
    let chunks = chunks_of(&db);
    // The background does not sort them meanwhile.
    let chunk = chunks.index.find(b"");
    let _alone = std::iter::from_fn(|| Some(chunk.begin_change())).find_map(|change| change).unwrap();
    let scan = || {
        let before = count.load(Relaxed);
        let pairs = db.range(..).count() as u64;
        (pairs, count.load(Relaxed) - before)
    };
    let (_, without) = scan();
    (0..1000).for_each(|number: u64| db.delete_range(key(number * 8)..key(number * 8 + 2)).unwrap());
    let (pairs, with) = scan();
    assert_eq!(pairs, PAIRS - 2000);
    // The ends of ranges are sorted, and each pair is compared with two of them.
    let a_pair = |more: u64| more as f64 / PAIRS as f64;
    let small = a_pair(with - without.min(with));
    assert!(small <= 16.0, "{small} comparisons more a pair");

    // The same with a range delete that deletes everything before it.
    db.delete_range(key(0)..key(PAIRS)).unwrap();
    put();
    let (pairs, without) = scan();
    assert_eq!(pairs, PAIRS);
    (0..1000).for_each(|number: u64| db.delete_range(key(number * 8)..key(number * 8 + 2)).unwrap());
    // A part of the log may have been sorted and indexed meanwhile, or not.
    let (pairs, with) = scan();
    assert_eq!(pairs, PAIRS - 2000);
    let large = a_pair(with - without.min(with));
    assert!(large <= 16.0, "{large} comparisons more a pair over a large range");
}
