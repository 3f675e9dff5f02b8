//! Gets and scans skip the parts of a log without keys for them, in logs of earlier epochs too.

use super::Chunks;
use crate::chunk::rules::Rules;
use crate::chunk::test_support::{adjust, chunks_of};
use crate::log::index::indexed_part::LogSearch;
use crate::log::index::parts::Parts;
use crate::log::segment::Segment;
use crate::sync::Arc;
use crate::types::span::Span;
use crate::vfs::MemVfs;
use crate::{ChunkOptions, KeyspaceOptions, Options};
use crate::{Db, Stats};

const MIB: u64 = 1 << 20;
const KEYS: u64 = 9_000;

/// One chunk. Its log is not sorted before it is 16 MiB long, in parts of half a MiB.
fn open(disk: &MemVfs) -> (Db, Arc<Chunks>) {
    let published = ChunkOptions::as_published().munks(false);
    let keyspace = KeyspaceOptions::new().layout(published.chunk_bytes(64 * MIB).log_bytes(16 * MIB));
    let options = Options::new().memory_budget(256 * MIB).default_keyspace(keyspace);
    let db = options.vfs(Arc::new(disk.clone())).open("store").unwrap();
    let chunks = chunks_of(&db);
    adjust(&chunks, |settings| {
        settings.rules = Box::leak(Box::new(Rules { log_search: LogSearch::Indexed, ..*settings.rules }));
    });
    (db, chunks)
}

fn key(number: u64) -> String {
    format!("{number:05}")
}

fn value(number: u64) -> Vec<u8> {
    number.to_string().repeat(400).into_bytes()
}

/// Even keys in ascending order, so that each part has a stretch of them. Reopened, so that no
/// part's ends are known.
fn loaded(disk: &MemVfs) -> (Db, Arc<Chunks>) {
    let (db, chunks) = open(disk);
    for number in (0..KEYS).step_by(2) {
        db.put(key(number), value(number)).unwrap();
    }
    db.close().unwrap();
    drop((db, chunks));
    open(disk)
}

fn lookups(stats: &Stats) -> u64 {
    stats.cache_hits + stats.cache_misses
}

/// Lookups in the block cache, and parts skipped, that `work` adds.
fn added(db: &Db, work: impl FnOnce()) -> (u64, u64) {
    let before = db.stats();
    work();
    let after = db.stats();
    let passed_over = |stats: &Stats| stats.keyspaces[0].parts_passed_over;
    (lookups(&after) - lookups(&before), passed_over(&after) - passed_over(&before))
}

fn parts(chunks: &Chunks) -> u64 {
    let funk = chunks.first().funk.load_full();
    funk.logs().map(|log| log.parts(&chunks.context).unwrap().indexed.len() as u64).sum()
}

fn assert_scans_from(db: &Db, start: u64) {
    let first = start.next_multiple_of(2);
    let pairs: Vec<_> = db.range(key(start)..).take(10).map(Result::unwrap).collect();
    let wanted: Vec<_> = (first..KEYS).step_by(2).take(10).collect();
    assert_eq!(pairs.len(), wanted.len(), "from {start}");
    for ((found_key, found), number) in pairs.iter().zip(wanted) {
        assert_eq!(
            (&found_key[..], &found[..]),
            (key(number).as_bytes(), &value(number)[..]),
            "from {start}"
        );
    }
    let back: Vec<_> = db.range(..key(start)).rev().take(10).map(Result::unwrap).collect();
    let wanted: Vec<_> = (0..start).rev().filter(|number| number % 2 == 0).take(10).collect();
    assert_eq!(back.len(), wanted.len(), "back from {start}");
    for ((found_key, _), number) in back.iter().zip(wanted) {
        assert_eq!(&found_key[..], key(number).as_bytes(), "back from {start}");
    }
}

#[test]
fn a_scan_opens_the_indexes_of_the_parts_that_it_reads_from() {
    let disk = MemVfs::new();
    let (db, chunks) = loaded(&disk);
    assert_scans_from(&db, KEYS / 2);
    let parts = parts(&chunks);
    assert!(parts > 6, "{parts}");
    let (lookups, _) = added(&db, || assert!(db.range(key(KEYS / 2)..).next().is_some()));
    assert!(lookups <= 4, "{lookups} for one of {parts} parts");
    // Across the ends of parts, in both directions.
    (0..=KEYS + 10).step_by(37).for_each(|start| assert_scans_from(&db, start));
    assert!(db.range(..).map(Result::unwrap).count() as u64 == KEYS / 2);
    assert!(db.range(..).rev().map(Result::unwrap).count() as u64 == KEYS / 2);
}

#[test]
fn a_get_passes_over_parts_whose_ends_are_known() {
    let disk = MemVfs::new();
    let (db, chunks) = loaded(&disk);
    let get_all = || {
        (0..KEYS).step_by(50).for_each(|number| {
            let found = db.get(key(number)).unwrap();
            assert_eq!(found.as_deref(), Some(&value(number)[..]));
            assert_eq!(db.get(key(number + 1)).unwrap(), None);
        })
    };
    // Ends are read with the first get that finds something.
    get_all();
    let (parts, gets) = (parts(&chunks), 2 * KEYS.div_ceil(50));
    let (lookups, passed_over) = added(&db, get_all);
    assert!(passed_over > gets * parts / 3, "{passed_over} of {gets} gets, {parts} parts");
    // A filter, and for keys that exist a root and a block.
    assert!(lookups <= gets * 4, "{lookups} for {gets} gets");
}

#[test]
fn ends_are_counted_and_parts_do_without_where_there_is_no_room() {
    let disk = MemVfs::new();
    let (db, chunks) = loaded(&disk);
    // Different keys each time, as rows are cached.
    let get_from = |first: u64| {
        (first..KEYS).step_by(50).for_each(|number| {
            assert_eq!(db.get(key(number)).unwrap().as_deref(), Some(&value(number)[..]));
        })
    };
    let budget = &chunks.context.substrate.budget;
    let taken = budget.logs.views.charge(budget.logs.views.limit_bytes()).unwrap();
    get_from(0);
    let (_, passed_over) = added(&db, || get_from(2));
    assert_eq!(passed_over, 0, "without ends");
    let counted = budget.logs.views.clone();
    assert_eq!(counted.used_bytes(), budget.logs.views.limit_bytes());
    drop(taken);
    get_from(4);
    let (_, passed_over) = added(&db, || get_from(6));
    assert!(passed_over > 0);
    let (parts, bytes) = (parts(&chunks), counted.used_bytes());
    assert!((64 * parts..256 * parts).contains(&bytes), "{bytes} for the ends of {parts} parts");
    db.close().unwrap();
    drop((db, chunks));
    assert_eq!(counted.used_bytes(), 0, "what is gone is counted");
}

#[test]
fn a_part_that_deletes_a_range_is_not_passed_over() {
    let disk = MemVfs::new();
    let (db, chunks) = loaded(&disk);
    // The last part has one key, and a range delete of other keys.
    db.put("zz", "last").unwrap();
    db.delete_range(key(100)..key(200)).unwrap();
    chunks.index_all_parts().unwrap();
    db.close().unwrap();
    drop((db, chunks));
    let (db, _) = open(&disk);
    for _ in 0..2 {
        assert_eq!(db.get("zz").unwrap().as_deref(), Some(&b"last"[..]));
        assert_eq!(db.get(key(150)).unwrap(), None);
        assert_eq!(db.range(key(98)..key(202)).count(), 2);
        assert_eq!(db.range(key(98)..key(202)).rev().count(), 2);
    }
}

/// Numbers of the parts that may have something for the span.
fn not_outside(chunks: &Chunks, parts: &Parts, span: &Span) -> Vec<usize> {
    let order = &chunks.context.order;
    (0..parts.indexed.len()).filter(|number| !parts.indexed[*number].is_outside(order, span)).collect()
}

fn first_log(chunks: &Chunks) -> Arc<Segment> {
    chunks.first().funk.load().logs().next().unwrap().clone()
}

#[test]
fn parts_outside_of_a_span_are_told_once_their_ends_are_known() {
    let disk = MemVfs::new();
    let (db, chunks) = loaded(&disk);
    let parts = first_log(&chunks).parts(&chunks.context).unwrap();
    let span = Span { start: Some(key(1000).into()), end: Some(key(2000).into()) };
    let all: Vec<_> = (0..parts.indexed.len()).collect();
    assert_eq!(not_outside(&chunks, &parts, &span), all, "nothing is known yet");
    assert_scans_from(&db, 1000);
    let needed = not_outside(&chunks, &parts, &span);
    assert!(!needed.is_empty() && needed.len() * 2 < all.len(), "{} of {}", needed.len(), all.len());
}

#[test]
fn parts_that_a_log_gets_are_outside_of_spans_whose_keys_they_lack() {
    let disk = MemVfs::new();
    let (db, chunks) = open(&disk);
    let put = |numbers: std::ops::Range<u64>| {
        numbers.for_each(|number| db.put(key(number), value(number)).unwrap());
        chunks.index_all_parts().unwrap();
        first_log(&chunks).parts(&chunks.context).unwrap()
    };
    let span = Span { start: Some(key(1000).into()), end: Some(key(1010).into()) };
    let needed = |parts: &Parts| not_outside(&chunks, parts, &span).len();
    assert_eq!(needed(&put(0..1000)), 0);
    assert_eq!(needed(&put(1000..1100)), 1);
    assert_eq!(needed(&put(1100..1200)), 1);
    assert_eq!(needed(&put(1005..1010)), 2);
}
