//! Maintenance under orders in which the empty key is not the first: its rounds reach every chunk.

use super::Chunks;
use crate::Db;
use crate::chunk::chunk::Chunk;
use crate::chunk::test_support::chunks_of;
use crate::sync::Arc;
use crate::types::order::Comparator;
use crate::vfs::MemVfs;
use crate::{ChunkOptions, KeyspaceOptions, Options};
use std::cmp::Ordering;
use std::collections::HashSet;

/// Backwards: the empty key is after all others. With a prefix for keys of an even sum.
struct Backwards;

impl Comparator for Backwards {
    fn name(&self) -> &str {
        "backwards"
    }
    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        b.cmp(a)
    }
    fn prefix(&self, key: &[u8]) -> Option<u64> {
        let sum: u32 = key.iter().map(|&byte| u32::from(byte)).sum();
        let first = key.first().map_or(0, |&byte| 1 + u64::from(byte));
        sum.is_multiple_of(2).then_some(u64::MAX - first)
    }
}

/// Longer keys first: the empty key is the last.
struct LongestFirst;

impl Comparator for LongestFirst {
    fn name(&self) -> &str {
        "longest-first"
    }
    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        b.len().cmp(&a.len()).then_with(|| a.cmp(b))
    }
}

const PAIRS: u32 = 4000;

fn key(number: u32) -> String {
    // Two lengths, so that the keys differ under both orders.
    if number.is_multiple_of(2) { format!("{number:06}") } else { format!("{number:06}/x") }
}

/// Some dozen chunks, which the background does not change by itself.
fn filled(order: Option<Arc<dyn Comparator>>) -> (Db, Arc<Chunks>) {
    let mut keyspace = KeyspaceOptions::new()
        .layout(ChunkOptions::new().munks(false).chunk_bytes(64 << 10).log_bytes(u64::MAX));
    if let Some(order) = order {
        keyspace = keyspace.comparator(order);
    }
    let options = Options::new().memory_budget(1 << 30).default_keyspace(keyspace);
    let db = options.vfs(Arc::new(MemVfs::new())).open("store").unwrap();
    for number in 0..PAIRS {
        db.put(key(number), [number as u8; 500]).unwrap();
    }
    db.compact_range(..).unwrap();
    let chunks = chunks_of(&db);
    assert!(chunks.index.view().len() > 20, "{}", chunks.index.view().len());
    (db, chunks)
}

fn under_every_order(test: impl Fn(&Db, &Chunks)) {
    let orders: [Option<Arc<dyn Comparator>>; 3] =
        [None, Some(Arc::new(Backwards)), Some(Arc::new(LongestFirst))];
    for order in orders {
        let (db, chunks) = filled(order);
        test(&db, &chunks);
    }
}

fn all(chunks: &Chunks) -> Vec<Arc<Chunk>> {
    chunks.index.view().iter().map(|(_, chunk)| chunk.clone()).collect()
}

#[test]
fn every_chunk_that_is_popular_is_a_candidate_for_memory() {
    under_every_order(|db, chunks| {
        for _ in 0..2 {
            (0..PAIRS).for_each(|number| assert!(db.get(key(number)).unwrap().is_some()));
        }
        let candidates: HashSet<u64> = chunks.candidates().iter().map(|(_, chunk)| chunk.id).collect();
        assert_eq!(candidates.len(), all(chunks).len(), "{}", db.comparator_name());
    });
}

#[test]
fn memory_of_logs_is_freed_in_every_chunk() {
    under_every_order(|db, chunks| {
        (0..PAIRS).for_each(|number| db.put(key(number), [1; 10]).unwrap());
        // None is popular, and they are fewer than one round checks.
        (0..32).for_each(|_| all(chunks).iter().for_each(|chunk| chunk.decay()));
        chunks.flush_log_indexes();
        for chunk in all(chunks) {
            let funk = chunk.funk.load_full();
            let is_freed = funk.logs().all(|log| log.all_indexed().is_some());
            assert!(is_freed, "{}: chunk {}", db.comparator_name(), chunk.id);
        }
        (0..PAIRS).for_each(|number| assert_eq!(db.get(key(number)).unwrap().unwrap().len(), 10));
    });
}

#[test]
fn neighbours_are_joined_from_the_first_chunk_on() {
    under_every_order(|db, chunks| {
        // All pairs but a few of the first chunk and of the last.
        let pairs: Vec<_> = db.range(..).map(|pair| pair.unwrap().0).collect();
        let (first, last) = (&pairs[3], &pairs[pairs.len() - 3]);
        db.delete_range(&first[..]..&last[..]).unwrap();
        db.compact_range(..).unwrap();
        assert_eq!(all(chunks).len(), 1, "{}", db.comparator_name());
        assert_eq!(db.range(..).count(), 6);
    });
}
