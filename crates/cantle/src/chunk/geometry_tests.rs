//! Each step of maintenance, twice, on every chunk of stores that were killed, cut back or closed.
//! The chunks have logs of their own, logs of an earlier epoch whose end has no index, or shared
//! logs.

use super::Chunks;
use super::rebalance::split_tests::{Pairs, assert_holds, open, open_with, put};
use crate::chunk::chunk::Chunk;
use crate::chunk::edit::ChunkEdit;
use crate::chunk::rebalance::rebalance::Trigger;
use crate::chunk::test_support::{adjust, chunks_of};
use crate::run::stack::RunStack;
use crate::sync::Arc;
use crate::sync::atomic::{AtomicBool, AtomicI64, Ordering::SeqCst};
use crate::types::bounds::Bounds;
use crate::types::error::Error;
use crate::types::order::Comparator;
use crate::types::span::Span;
use crate::vfs::{CrashPlan, Failure, FaultVfs, MemVfs, Operation, Verdict};
use crate::{ChunkOptions, KeyspaceOptions};
use crate::{Db, WriteBatch};
use bytes::Bytes;
use std::cmp::Ordering;

fn all(chunks: &Chunks) -> Vec<Arc<Chunk>> {
    chunks.index.view().iter().map(|(_, chunk)| chunk.clone()).collect()
}

/// Chunks of a lower limit count as queued: else the background may take the step before the test.
fn chunk_bytes(chunks: &Chunks, chunk_bytes: u64) {
    for chunk in all(chunks) {
        chunk.queued.store(chunk_bytes < LARGE, SeqCst);
    }
    adjust(chunks, |settings| settings.own.chunk_bytes = chunk_bytes);
}

/// Large enough that maintenance is never due by itself.
const LARGE: u64 = 64 << 20;
const KEYS: u64 = 500;

fn large() -> ChunkOptions {
    ChunkOptions::new().chunk_bytes(LARGE)
}

/// Steps of maintenance on a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    SplitEnd,
    Divide,
    Rebalance,
    Join,
    /// Not maintenance: inserts after the chunk's keys, and before them.
    Insert,
}

const STEPS: [Step; 5] = [Step::SplitEnd, Step::Divide, Step::Rebalance, Step::Join, Step::Insert];

impl Step {
    /// Takes the step on every chunk; returns the number of chunks that it changed.
    fn take(self, db: &Db, chunks: &Chunks, pairs: &mut Pairs) -> usize {
        let mut done = 0;
        for chunk in all(chunks) {
            let is_done = match self {
                Self::SplitEnd => {
                    chunks.evict_munk(&chunk);
                    chunks.split_tail(&chunk).unwrap()
                }
                Self::Divide => {
                    let _ = chunks.load_munk(&chunk).unwrap();
                    chunk_bytes(chunks, 60_000);
                    chunks.split_in_memory(&chunk).unwrap()
                }
                Self::Rebalance => {
                    chunk_bytes(chunks, 150_000);
                    chunks.rebalance(&chunk, Trigger::Asked).unwrap()
                }
                Self::Join => chunks.join_if_small(&chunk).unwrap(),
                Self::Insert => {
                    // Boundaries may be shorter than keys.
                    let number =
                        |key: &Bytes| format!("{:0<6}", String::from_utf8_lossy(key)).parse().unwrap();
                    let from = chunk.span.start.as_ref().map_or(0, number);
                    let end = chunk.span.end.as_ref().map_or(from + 2 * KEYS, number);
                    let middle = from + (end - from) / 2;
                    put(db, pairs, middle..end.min(middle + 160), 2).unwrap();
                    put(db, pairs, from..end.min(from + 2), 3).unwrap();
                    true
                }
            };
            chunk_bytes(chunks, LARGE);
            done += usize::from(is_done);
        }
        done
    }
}

/// True if a log of the chunk has an end that is indexed in memory only.
fn has_no_index(chunk: &Arc<Chunk>) -> bool {
    chunk.funk.load().logs().any(|log| log.all_indexed().is_none())
}

/// The history of the store before the steps.
#[derive(Debug, Clone, Copy)]
enum Beginning {
    /// One chunk, with the log that is being written.
    Active,
    /// One chunk with a log of a killed process.
    Killed,
    /// Chunks that share such a log, or several.
    SharedAndKilled,
    /// Chunks that share a log whose end has no index, as writing it failed.
    SharedWithoutIndex,
    /// Chunks that share a log which was written while they were sorted. Its end has no index
    /// either.
    SharedWhileSorted,
    /// One chunk, after a loss of power undid a split.
    CutBack,
    /// Chunks that share a log which came out of a close.
    Closed,
}

const BEGINNINGS: [Beginning; 7] = [
    Beginning::Active,
    Beginning::Killed,
    Beginning::SharedAndKilled,
    Beginning::SharedWithoutIndex,
    Beginning::SharedWhileSorted,
    Beginning::CutBack,
    Beginning::Closed,
];

impl Beginning {
    /// The store's disk, and the same disk with writes of log indexes that fail while the switch is
    /// on.
    fn make(self, pairs: &mut Pairs) -> (MemVfs, FaultVfs, Db) {
        let disk = MemVfs::new();
        let (fault, fails) = failing(&disk);
        let (db, chunks) = open(Arc::new(fault.clone()), large());
        put(&db, pairs, 0..KEYS, 1).unwrap();
        match self {
            Self::Active => return (disk, fault, db),
            Self::Killed => {}
            Self::SharedAndKilled => assert!(Step::Divide.take(&db, &chunks, pairs) > 0),
            Self::SharedWithoutIndex => {
                assert!(Step::SplitEnd.take(&db, &chunks, pairs) > 0);
                put(&db, pairs, (0..2).chain(KEYS..KEYS + 50), 1).unwrap();
                fails.store(true, SeqCst);
                assert!(Step::Join.take(&db, &chunks, pairs) > 0);
                fails.store(false, SeqCst);
                assert!(Step::Divide.take(&db, &chunks, pairs) > 0);
                assert!(all(&chunks).iter().any(has_no_index));
                return (disk, fault, db);
            }
            Self::SharedWhileSorted => {
                let chunk = chunks.first();
                let _change = chunk.begin_change().unwrap();
                chunk_bytes(&chunks, 150_000);
                let mut grant = chunks.room_for(&chunk, Trigger::Asked).unwrap();
                let input = chunks.seal(&chunk).unwrap().unwrap();
                let pieces = chunks.merge_files(&input, &mut grant).unwrap();
                put(&db, pairs, (0..KEYS).step_by(20), 2).unwrap();
                fails.store(true, SeqCst);
                assert!(chunks.split(&chunk, &input, &pieces).unwrap());
                fails.store(false, SeqCst);
                chunk_bytes(&chunks, LARGE);
                assert!(all(&chunks).iter().all(has_no_index));
                return (disk, fault, db);
            }
            Self::CutBack => {
                db.sync().unwrap();
                assert!(Step::SplitEnd.take(&db, &chunks, pairs) > 0);
                let disk = disk.crash(&CrashPlan::LOSE_UNSYNCED);
                let (fault, _) = failing(&disk);
                let (db, _) = open(Arc::new(fault.clone()), large());
                return (disk, fault, db);
            }
            Self::Closed => {
                assert!(Step::Divide.take(&db, &chunks, pairs) > 0);
                db.close().unwrap();
            }
        }
        let disk = disk.kill();
        let (fault, _) = failing(&disk);
        let (db, _) = open(Arc::new(fault.clone()), large());
        (disk, fault, db)
    }
}

/// A disk that refuses writes to logs while the switch is on.
fn failing(disk: &MemVfs) -> (FaultVfs, Arc<AtomicBool>) {
    let (fault, fails) = (FaultVfs::over_memory(disk.clone()), Arc::new(AtomicBool::new(false)));
    let switch = fails.clone();
    fault.set_rule(move |call| {
        let is_log = call.path.extension().is_some_and(|kind| kind == "log");
        match call.operation {
            Operation::WriteAt if is_log && switch.load(SeqCst) => Verdict::Fail(Failure::ENOSPC),
            _ => Verdict::Pass,
        }
    });
    (fault, fails)
}

#[test]
fn each_step_may_be_taken_twice_on_every_chunk_whatever_came_before() {
    let mut done = [0; STEPS.len()];
    for beginning in BEGINNINGS {
        for first in STEPS {
            for then in STEPS {
                let mut pairs = Pairs::new();
                let (disk, _fault, db) = beginning.make(&mut pairs);
                let chunks = chunks_of(&db);
                let what = &format!("{beginning:?}, {first:?}, {then:?}");
                // Logs of an earlier epoch are read first, as by gets.
                assert_holds(&db, &pairs, what);
                for step in [first, first, then, then] {
                    done[STEPS.iter().position(|other| *other == step).unwrap()] +=
                        step.take(&db, &chunks, &mut pairs);
                    assert_eq!(db.stats().read_only, None, "{what}");
                }
                assert_eq!(db.stats().keyspaces[0].edits_refused, 0, "{what}");
                assert_holds(&db, &pairs, what);
                let (reopened, _) = open(Arc::new(disk.kill()), large());
                assert_holds(&reopened, &pairs, &format!("{what}, killed"));
                assert!(reopened.verify().unwrap().is_ok(), "{what}");
            }
        }
    }
    assert!(done.iter().all(|count| *count > 0), "{STEPS:?}: {done:?}");
}

/// Children that do not tile their parent, for every kind of stale chunks of the caller.
#[test]
fn a_split_that_does_not_fit_is_refused_and_the_store_goes_on() {
    let disk = MemVfs::new();
    let (db, chunks) = open(Arc::new(disk.clone()), large());
    let mut pairs = Pairs::new();
    put(&db, &mut pairs, 0..KEYS, 1).unwrap();
    assert!(Step::SplitEnd.take(&db, &chunks, &mut pairs) > 0);
    let manifest_bytes = || chunks.context.substrate.manifest.bytes();
    let before = manifest_bytes();
    let [low, high] = <[_; 2]>::try_from(all(&chunks)).ok().unwrap();
    let boundary = high.span.start.clone();
    let key = |name: &'static str| Some(Bytes::from_static(name.as_bytes()));
    let outside = [
        // At a key of the other chunk, at the boundary, and at an empty key.
        (&low, [(None, key("9")), (key("9"), boundary.clone())]),
        (&high, [(boundary.clone(), key("0")), (key("0"), None)]),
        (&low, [(None, boundary.clone()), (boundary.clone(), boundary.clone())]),
        (&low, [(None, key("")), (key(""), boundary.clone())]),
        // With a gap, and beyond the chunk's end.
        (&low, [(None, key("0001")), (key("0002"), boundary.clone())]),
        (&low, [(None, key("0001")), (key("0001"), None)]),
    ];
    for (refused, (parent, spans)) in outside.into_iter().enumerate() {
        let writer = parent.writer.lock();
        let children = spans.map(|(start, end)| {
            Arc::new(Chunk::new(chunks.next_id(), Span { start, end }, RunStack { files: Vec::new() }))
        });
        let publish = |_: &ChunkEdit| panic!("the manifest is told");
        assert!(!chunks.succeed(&[parent], &children, publish, || panic!("it is replaced")).unwrap());
        assert_eq!(db.stats().keyspaces[0].edits_refused, refused as u64 + 1);
        assert!(!writer.retired && !parent.may_be_split(0), "it is left alone for a while");
    }
    // A chunk with the right place that replaces chunks which are not in the index any more.
    let stranger = Arc::new(Chunk::new(low.id, low.span.clone(), RunStack { files: Vec::new() }));
    assert!(chunks.replacement(&[&stranger], &[(&stranger, &[])]).unwrap().is_none());
    assert_eq!(manifest_bytes(), before, "the manifest was told");
    put(&db, &mut pairs, 0..KEYS + 100, 2).unwrap();
    assert_holds(&db, &pairs, "after all that was refused");
    let (reopened, _) = open(Arc::new(disk.kill()), large());
    assert_holds(&reopened, &pairs, "killed");
}

/// The tables that it wrote are not thrown away.
#[test]
fn a_rebalance_whose_split_is_refused_keeps_its_tables_in_one_chunk() {
    let disk = MemVfs::new();
    let (db, chunks) = open(Arc::new(disk.clone()), large());
    let mut pairs = Pairs::new();
    put(&db, &mut pairs, 0..KEYS, 1).unwrap();
    assert!(Step::SplitEnd.take(&db, &chunks, &mut pairs) > 0);
    let low = chunks.first();
    chunk_bytes(&chunks, 150_000);
    {
        let _change = low.begin_change().unwrap();
        let mut grant = chunks.room_for(&low, Trigger::Asked).unwrap();
        let input = chunks.seal(&low).unwrap().unwrap();
        let mut pieces = chunks.merge_files(&input, &mut grant).unwrap();
        assert!(pieces.len() > 2);
        // A boundary that is a key of the other chunk.
        pieces[1].start = Some(Bytes::from_static(b"9"));
        put(&db, &mut pairs, (0..KEYS - 1).step_by(50), 2).unwrap();
        assert!(chunks.split(&low, &input, &pieces).unwrap());
        assert_eq!(low.funk.load().sizes().tables as usize, pieces.len());
    }
    chunk_bytes(&chunks, LARGE);
    assert_eq!(db.stats().keyspaces[0].edits_refused, 1);
    assert!(Arc::ptr_eq(&low, &chunks.first()) && !low.writer.lock().retired);
    assert_holds(&db, &pairs, "after the refusal");
    let (reopened, _) = open(Arc::new(disk.kill()), large());
    assert_holds(&reopened, &pairs, "killed");
    reopened.compact_range(..).unwrap();
    assert_holds(&reopened, &pairs, "sorted");
    assert!(reopened.verify().unwrap().is_ok());
}

/// Another process may have opened the store by then.
#[test]
fn whoever_changes_chunks_while_the_store_is_closed_comes_too_late() {
    for step in STEPS.into_iter().filter(|step| *step != Step::Insert) {
        let disk = MemVfs::new();
        let (db, chunks) = open(Arc::new(disk.clone()), large());
        let mut pairs = Pairs::new();
        put(&db, &mut pairs, 0..KEYS, 1).unwrap();
        // Both steps are possible: a munk to be divided, and two chunks to be joined.
        assert!(chunks.split_tail(&chunks.first()).unwrap());
        put(&db, &mut pairs, KEYS..KEYS + 300, 1).unwrap();
        for chunk in all(&chunks) {
            let _ = chunks.load_munk(&chunk).unwrap();
        }
        if step == Step::SplitEnd {
            chunks.evict_munk(&all(&chunks)[1]);
        }
        let chunk = if step == Step::SplitEnd { all(&chunks)[1].clone() } else { chunks.first() };
        chunk_bytes(&chunks, if step == Step::Join { LARGE } else { 60_000 });
        db.close().unwrap();
        let bytes = chunks.context.substrate.manifest.bytes();
        let late = match step {
            Step::SplitEnd => chunks.split_tail(&chunk),
            Step::Divide => chunks.split_in_memory(&chunk),
            Step::Rebalance => chunks.rebalance(&chunk, Trigger::Asked),
            Step::Join | Step::Insert => chunks.join_if_small(&chunk),
        };
        assert!(!matches!(late, Ok(true)), "{step:?}: {late:?}");
        assert!(matches!(db.compact_range(..), Err(Error::Closed)));
        assert!(
            matches!(chunks.context.substrate.checkpoint(), Err(Error::Closed)) || late.is_ok(),
            "{step:?}"
        );
        assert_eq!(chunks.context.substrate.manifest.bytes(), bytes, "{step:?}");
        assert_eq!(all(&chunks).len(), 2);
        drop((db, chunks, chunk));
        let (reopened, _) = open(Arc::new(disk), large());
        assert_holds(&reopened, &pairs, &format!("{step:?}"));
    }
}

/// An order that counts comparisons and fails after a number of them, so that an endless loop ends.
struct Counting(AtomicI64);

impl Comparator for Counting {
    fn name(&self) -> &str {
        "counting"
    }
    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        a.cmp(b)
    }
    fn try_compare(&self, a: &[u8], b: &[u8]) -> std::result::Result<Ordering, String> {
        if self.0.fetch_sub(1, SeqCst) > 0 { Ok(a.cmp(b)) } else { Err("it was asked too often".into()) }
    }
}

#[test]
fn a_compaction_ends_when_its_keyspace_is_dropped() {
    for from in ["000001", "000499"] {
        let order = Arc::new(Counting(AtomicI64::new(i64::MAX)));
        let (db, chunks) =
            open_with(Arc::new(MemVfs::new()), large(), KeyspaceOptions::new().comparator(order.clone()));
        let mut pairs = Pairs::new();
        put(&db, &mut pairs, 0..KEYS, 1).unwrap();
        assert!(chunks.split_tail(&chunks.first()).unwrap());
        put(&db, &mut pairs, 0..KEYS, 1).unwrap();
        // As when a keyspace is dropped while a call is under way.
        chunks.retire_chunks();
        order.0.store(1_000_000, SeqCst);
        let bounds = Bounds::of(&(from..));
        let compacted = chunks.compact_chunks(&bounds);
        assert!(matches!(compacted, Err(Error::NoKeyspace(_))), "{compacted:?}");
        assert!(order.0.load(SeqCst) > 0);
    }
}

/// An order in which the empty key is the greatest.
struct Backwards;

impl Comparator for Backwards {
    fn name(&self) -> &str {
        "backwards"
    }
    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        b.cmp(a)
    }
}

#[test]
fn no_chunk_is_cut_at_an_empty_key() {
    let disk = MemVfs::new();
    let backwards = || KeyspaceOptions::new().comparator(Arc::new(Backwards));
    let (db, chunks) = open_with(Arc::new(disk.clone()), large(), backwards());
    let number = |number: u64| format!("{number:06}");
    for key in (0..KEYS).rev() {
        db.put(number(key), [1; 1000]).unwrap();
    }
    let reopened = |disk: MemVfs, keys: u64, what: &str| {
        let (db, _) = open_with(Arc::new(disk), large(), backwards());
        assert_eq!(db.range(..).filter(|pair| pair.is_ok()).count() as u64, keys, "{what}");
        assert!(db.get("").unwrap().is_some() && db.get(number(7)).unwrap().is_some(), "{what}");
        assert!(db.verify().unwrap().is_ok(), "{what}");
    };
    // The last of the keys that are inserted in order.
    db.put("", "end").unwrap();
    assert!(!chunks.split_tail(&chunks.first()).unwrap());
    reopened(disk.kill(), KEYS + 1, "as the end of a log");
    // Not in the table, and after its keys.
    chunk_bytes(&chunks, 400_000);
    let mut batch = WriteBatch::new();
    batch.delete("");
    db.write(batch).unwrap();
    db.compact_range(..).unwrap();
    chunk_bytes(&chunks, LARGE);
    while all(&chunks).len() > 1 {
        assert!(Step::Join.take(&db, &chunks, &mut Pairs::new()) > 0);
    }
    db.compact_range(..).unwrap();
    chunk_bytes(&chunks, 500_000);
    (0..4).for_each(|round| db.put("", vec![round; 100_000]).unwrap());
    assert!(chunks.rebalance(&chunks.first(), Trigger::Asked).unwrap());
    assert_eq!(db.stats().keyspaces[0].edits_refused, 0);
    reopened(disk.kill(), KEYS + 1, "as the end of a chunk");
    // A table with this key only, and another with all keys before it.
    db.delete_range(..).unwrap();
    db.put("", vec![9; 400_000]).unwrap();
    db.compact_range(..).unwrap();
    for key in (0..KEYS).rev() {
        db.put(number(key), [2; 1000]).unwrap();
    }
    for chunk in all(&chunks) {
        let _ = chunks.rebalance(&chunk, Trigger::Asked).unwrap();
    }
    assert_eq!(db.stats().keyspaces[0].edits_refused, 0);
    reopened(disk.kill(), KEYS + 1, "as the only key of a table");
    db.compact_range(..).unwrap();
    reopened(disk.kill(), KEYS + 1, "sorted");
}
