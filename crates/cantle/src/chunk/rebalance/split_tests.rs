//! Splits whose edit of the manifest fails, and splits as published.

use crate::Db;
use crate::chunk::Chunks;
use crate::chunk::policy;
use crate::chunk::rebalance::rebalance::Trigger;
use crate::chunk::test_support::{adjust, chunks_of};
use crate::maintenance::Class;
use crate::run::run::{Run, Source};
use crate::sync::Arc;
use crate::sync::atomic::{AtomicBool, Ordering::SeqCst};
use crate::sync::thread::sleep;
use crate::types::error::{Error, Result};
use crate::vfs::{CrashPlan, Failure, FaultVfs, MemVfs, OpenMode, Operation, Verdict, Vfs};
use crate::{ChunkOptions, KeyspaceOptions, Options};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

pub(in crate::chunk) type Pairs = BTreeMap<String, Vec<u8>>;

const VALUE_BYTES: u64 = 1000;
const KEYS: u64 = 250;

pub(in crate::chunk) fn open(vfs: Arc<dyn Vfs>, chunk: ChunkOptions) -> (Db, Arc<Chunks>) {
    open_with(vfs, chunk, KeyspaceOptions::new())
}

pub(in crate::chunk) fn open_with(
    vfs: Arc<dyn Vfs>,
    chunk: ChunkOptions,
    keyspace: KeyspaceOptions,
) -> (Db, Arc<Chunks>) {
    // Munks are loaded by the test; logs are of any length, in parts of 128 KiB.
    let chunk = chunk.munks(false).log_bytes(8 << 20).filter_partitions(64).munk_log_bytes(1 << 30);
    let keyspace = keyspace.layout(chunk);
    let options = Options::new().memory_budget(64 << 20).default_keyspace(keyspace);
    let db = options.checkpoint_interval(Duration::from_secs(3600)).vfs(vfs).open("store").unwrap();
    let chunks = chunks_of(&db);
    (db, chunks)
}

pub(in crate::chunk) fn put(
    db: &Db,
    pairs: &mut Pairs,
    numbers: impl Iterator<Item = u64>,
    with: u8,
) -> Result<()> {
    for number in numbers {
        let (key, value) = (format!("{number:06}"), vec![with; VALUE_BYTES as usize]);
        db.put(&key, &value)?;
        pairs.insert(key, value);
    }
    Ok(())
}

#[track_caller]
pub(in crate::chunk) fn assert_holds(db: &Db, pairs: &Pairs, what: &str) {
    let found: Pairs = db
        .range(..)
        .map(|pair| pair.unwrap())
        .map(|(key, value)| (String::from_utf8(key.to_vec()).unwrap(), value.to_vec()))
        .collect();
    assert!(found == *pairs, "a range differs {what}");
    for (key, value) in pairs {
        assert!(db.get(key).unwrap().as_deref() == Some(value), "a get of {key} differs {what}");
    }
}

/// The ways in which a chunk is split.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// Its munk is split, and the files are shared.
    InMemory,
    /// Its munk is written to several tables.
    Flush,
    /// Its log is sorted into several tables.
    Sort,
    /// It is inserted into in order, and its end is split off.
    End,
}

impl Way {
    /// Small enough that this way, and none of the others, is due.
    fn chunk_bytes(self) -> u64 {
        match self {
            Self::InMemory => KEYS * VALUE_BYTES / 3,
            Self::Flush | Self::Sort => KEYS * VALUE_BYTES * 2 / 3,
            Self::End => KEYS * VALUE_BYTES * 2,
        }
    }

    fn has_munk(self) -> bool {
        matches!(self, Self::InMemory | Self::Flush)
    }

    fn split(self, chunks: &Chunks) -> Result<bool> {
        let chunk = chunks.index.find(b"");
        match self {
            Self::InMemory => chunks.split_in_memory(&chunk),
            Self::Flush | Self::Sort => chunks.rebalance(&chunk, Trigger::Asked),
            Self::End => chunks.split_tail(&chunk),
        }
    }
}

const WAYS: [Way; 4] = [Way::InMemory, Way::Flush, Way::Sort, Way::End];

const FAILURES: [Verdict; 4] = [
    Verdict::Fail(Failure::EIO),
    Verdict::Fail(Failure::ENOSPC),
    Verdict::ShortWrite { bytes: 13, failure: Failure::ENOSPC },
    Verdict::FailDone(Failure::EIO),
];

/// A store of one chunk that is to be split now. The edit for that will fail or has just failed.
struct Failing {
    memory: MemVfs,
    fault: FaultVfs,
    db: Db,
    chunks: Arc<Chunks>,
    pairs: Pairs,
}

impl Failing {
    /// Lets the edit fail; if not `undone`, the written part of it stays there.
    fn new(way: Way, verdict: Verdict, undone: bool) -> Self {
        let memory = MemVfs::new();
        let fault = FaultVfs::over_memory(memory.clone());
        let (db, chunks) = open(Arc::new(fault.clone()), ChunkOptions::new().chunk_bytes(1 << 20));
        let mut pairs = Pairs::new();
        put(&db, &mut pairs, 0..KEYS, 1).unwrap();
        if way.has_munk() {
            assert!(chunks.load_munk(&chunks.index.find(b"")).unwrap());
        }
        assert_eq!(chunks.index.view().iter().count(), 1);
        let armed = Arc::new(AtomicBool::new(true));
        let arms = armed.clone();
        fault.set_rule(move |call| {
            if !call.path.to_string_lossy().contains("MANIFEST") {
                return Verdict::Pass;
            }
            match call.operation {
                Operation::WriteAt if arms.swap(false, SeqCst) => verdict,
                Operation::SetLen if !undone => Verdict::Fail(Failure::EIO),
                _ => Verdict::Pass,
            }
        });
        adjust(&chunks, |settings| settings.own.chunk_bytes = way.chunk_bytes());
        // The background may have changed the chunk before.
        let result = way.split(&chunks);
        for _ in 0..2000 {
            if !armed.load(SeqCst) && !chunks.index.find(b"").is_changing() {
                break;
            }
            sleep(Duration::from_millis(5));
        }
        assert!(!armed.load(SeqCst), "{way:?}: no edit was written, but {result:?}");
        Self { memory, fault, db, chunks, pairs }
    }

    fn assert_holds(&self, what: &str) {
        assert_holds(&self.db, &self.pairs, what);
    }
}

#[test]
fn a_split_whose_edit_fails_leaves_everything_readable_and_writable() {
    for way in WAYS {
        for verdict in FAILURES {
            let what = &format!("after a split {way:?}, {verdict:?}");
            let mut store = Failing::new(way, verdict, true);
            let has_munk = |store: &Failing| {
                store.chunks.index.view().iter().all(|(_, chunk)| chunk.munk.load().is_some())
            };
            assert_eq!(has_munk(&store), way.has_munk(), "{what}");
            store.assert_holds(what);
            let (snapshot, before) = (store.db.snapshot(), store.pairs.clone());
            put(&store.db, &mut store.pairs, (0..KEYS).step_by(3), 2).unwrap();
            put(&store.db, &mut store.pairs, KEYS..KEYS + 20, 3).unwrap();
            for number in (1..KEYS).step_by(7) {
                let key = format!("{number:06}");
                store.db.delete(&key).unwrap();
                store.pairs.remove(&key);
            }
            assert_eq!(has_munk(&store), way.has_munk(), "{what}");
            store.assert_holds(what);
            for (key, value) in &before {
                assert_eq!(snapshot.get(key).unwrap().as_deref(), Some(&value[..]), "{what}");
            }
            drop(snapshot);
            assert_eq!(store.db.stats().read_only, None, "{what}");
            let reopened = |vfs: MemVfs, pairs: &Pairs, when: &str| {
                let (db, _) = open(Arc::new(vfs), ChunkOptions::new().chunk_bytes(way.chunk_bytes()));
                assert_holds(&db, pairs, &format!("{what}, {when}"));
                assert!(db.verify().unwrap().is_ok(), "{what}, {when}");
            };
            reopened(store.memory.kill(), &store.pairs, "killed");
            store.db.sync().unwrap();
            reopened(store.memory.crash(&CrashPlan::LOSE_UNSYNCED), &store.pairs, "power lost");
            // The next attempt succeeds, possibly in the background.
            for round in 0..2000 {
                if way == Way::End {
                    let next = KEYS + 20 + round * 40;
                    put(&store.db, &mut store.pairs, next..next + 40, 4).unwrap();
                }
                way.split(&store.chunks).unwrap();
                if store.chunks.index.view().iter().count() > 1 {
                    break;
                }
                sleep(Duration::from_millis(5));
            }
            assert!(store.chunks.index.view().iter().count() > 1, "{what}");
            store.assert_holds(what);
            reopened(store.memory.kill(), &store.pairs, "split and killed");
            store.db.close().unwrap();
            reopened(store.memory.kill(), &store.pairs, "closed");
        }
    }
}

#[test]
fn a_split_whose_edit_cannot_be_undone_leaves_everything_readable() {
    for way in WAYS {
        for verdict in FAILURES {
            let what = &format!("after a split {way:?}, {verdict:?}");
            let store = Failing::new(way, verdict, false);
            store.assert_holds(what);
            let refused = store.db.put("key", "value").unwrap_err();
            assert!(matches!(refused, Error::ReadOnly { .. }), "{what}: {refused}");
            store.assert_holds(what);
            let image = store.memory.kill();
            store.fault.clear_rule();
            // It reports again why it is read-only.
            store.db.close().ok();
            for (vfs, when) in [(image, "killed"), (store.memory.kill(), "closed")] {
                let (db, _) = open(Arc::new(vfs), ChunkOptions::new().chunk_bytes(way.chunk_bytes()));
                assert_holds(&db, &store.pairs, &format!("{what}, {when}"));
                assert!(db.verify().unwrap().is_ok(), "{what}, {when}");
                db.put("key", "value").unwrap();
            }
        }
    }
}

/// Waits until the background has done its work.
pub(in crate::chunk) fn until(what: &str, done: impl Fn() -> bool) {
    for _ in 0..2000 {
        if done() {
            return;
        }
        sleep(Duration::from_millis(5));
    }
    panic!("never came about: {what}");
}

/// Bytes of the store's files.
fn file_bytes(disk: &MemVfs) -> u64 {
    let paths = disk.list(Path::new("store")).unwrap();
    let is_of_chunk = |name: &str| name.ends_with(".log") || name.ends_with(".table");
    let of_chunks = paths.iter().filter(|name| is_of_chunk(name));
    of_chunks
        .map(|name| disk.open(&Path::new("store").join(name), OpenMode::Read).unwrap().len().unwrap())
        .sum()
}

#[test]
fn what_is_sorted_of_a_shared_log_counts_until_all_of_it_is() {
    let disk = MemVfs::new();
    let (db, chunks) = open(Arc::new(disk.clone()), ChunkOptions::new().chunk_bytes(1 << 20));
    let mut pairs = Pairs::new();
    put(&db, &mut pairs, 0..4 * KEYS, 1).unwrap();
    assert!(chunks.load_munk(&chunks.first()).unwrap());
    adjust(&chunks, |settings| settings.own.chunk_bytes = KEYS * VALUE_BYTES);
    // Unless the background is faster.
    let _ = chunks.split_in_memory(&chunks.first()).unwrap();
    until("chunks that share a log", || chunks.index.view().iter().count() >= 4);
    let all: Vec<_> = chunks.index.view().iter().map(|(_, chunk)| chunk.clone()).collect();
    let assert_counted = |what: &str, db: &Db| {
        // Frees obsolete files.
        chunks_of(db).context.substrate.checkpoint().unwrap();
        let stats = &db.stats().keyspaces[0];
        let counted = stats.log_bytes + stats.table_bytes + stats.unclaimed_bytes;
        let there = file_bytes(&disk);
        assert!(there.abs_diff(counted) < 4096, "{what}: {counted} counted, {there} there");
        stats.unclaimed_bytes
    };
    assert!(assert_counted("after the split", &db) < 64, "shares are rounded");
    let (last, first) = all.split_last().unwrap();
    for (sorted, chunk) in first.iter().enumerate() {
        assert!(chunks.rebalance(chunk, Trigger::Asked).unwrap());
        let unclaimed = assert_counted("some are sorted", &db);
        assert!(unclaimed > sorted as u64 * KEYS / 2 * VALUE_BYTES, "{unclaimed} once {sorted} are sorted");
    }
    // It has no garbage, but keeps the unclaimed bytes on disk.
    assert!(policy::gain(&chunks.chunk_sizes(last)) > 1.0);
    assert!(policy::gain(&chunks.chunk_sizes(&first[0])) < policy::GAIN_MIN);
    db.close().unwrap();
    drop((db, chunks, all));

    let (db, chunks) = open(Arc::new(disk.clone()), ChunkOptions::new().chunk_bytes(1 << 20));
    assert!(assert_counted("once reopened", &db) > KEYS * VALUE_BYTES);
    assert_holds(&db, &pairs, "once reopened");
    for (_, chunk) in chunks.index.view().iter() {
        chunks.rebalance(chunk, Trigger::Asked).unwrap();
    }
    assert_eq!(assert_counted("all are sorted", &db), 0);
    assert_holds(&db, &pairs, "all are sorted");
}

#[test]
fn as_published_a_munk_is_split_in_two_at_a_chunks_size_and_its_files_at_once() {
    for published in [true, false] {
        let options = if published { ChunkOptions::as_published() } else { ChunkOptions::new() };
        let (db, chunks) = open(Arc::new(MemVfs::new()), options.chunk_bytes(100_000));
        let mut pairs = Pairs::new();
        put(&db, &mut pairs, (0..160).step_by(2), 1).unwrap();
        assert!(chunks.load_munk(&chunks.index.find(b"")).unwrap());
        // Beyond a chunk's size, not beyond two.
        put(&db, &mut pairs, (1..90).step_by(2), 2).unwrap();
        let tables_of_their_own = || {
            chunks.index.view().iter().all(|(_, chunk)| {
                let funk = chunk.funk.load();
                let is_table = |file: &Run| matches!(file.source, Source::Table(_));
                funk.files.iter().all(|file| file.share_bytes.is_none()) && funk.files.iter().any(is_table)
            })
        };
        let count = || chunks.index.view().iter().count();
        if published {
            until("two chunks with a table each", || count() == 2 && tables_of_their_own());
        } else {
            assert!(!chunks.split_in_memory(&chunks.index.find(b"")).unwrap());
            assert_eq!(count(), 1);
            put(&db, &mut pairs, 160..320, 3).unwrap();
            until("chunks that share a log", || count() >= 2);
            assert!(!tables_of_their_own());
        }
        assert!(chunks.index.view().iter().all(|(_, chunk)| chunk.munk.load().is_some()));
        assert_holds(&db, &pairs, "after the split");
    }
}

#[test]
fn a_large_munk_is_split_while_all_workers_rebalance() {
    let keyspace = KeyspaceOptions::new().layout(
        ChunkOptions::new().chunk_bytes(64 << 10).munks(false).log_bytes(1 << 30).munk_log_bytes(1 << 30),
    );
    let options = Options::new().background_threads(1).default_keyspace(keyspace);
    let db = options.vfs(Arc::new(MemVfs::new())).open("store").unwrap();
    let chunks = chunks_of(&db);
    let (end, ends) = std::sync::mpsc::channel::<()>();
    // Until the sender is dropped.
    chunks.context.substrate.pool.submit(Class::Deep, move || {
        let _ = ends.recv();
    });
    let mut pairs = Pairs::new();
    put(&db, &mut pairs, 0..50, 1).unwrap();
    assert!(chunks.load_munk(&chunks.index.find(b"")).unwrap());
    put(&db, &mut pairs, 50..KEYS, 1).unwrap();
    let split = (0..1000).any(|_| {
        sleep(Duration::from_millis(5));
        chunks.index.view().iter().count() > 1
    });
    assert!(split, "the munk waits behind the rebalance");
    assert_eq!(chunks.context.counters.rebalances.get(), 0);
    drop(end);
    assert_holds(&db, &pairs, "after the split");
}

/// Inserts in order until there are this many chunks.
fn grow_in_order(db: &Db, chunks: &Chunks, pairs: &mut Pairs, count: usize, step: u64) {
    assert!(chunks.load_munk(&chunks.index.find(b"")).unwrap());
    let mut next = 0;
    while chunks.index.view().iter().count() < count {
        put(db, pairs, next..next + step, 1).unwrap();
        next += step;
        chunks.split_in_memory(&chunks.index.find(format!("{next:06}").as_bytes())).unwrap();
    }
}

#[test]
fn a_chunk_refers_to_no_log_that_has_nothing_for_it() {
    // Number of keys between two attempts to split. The background tries, too, at any time.
    for step in [5, 20, 50, 120] {
        refers_to_no_log_that_has_nothing_for_it(step);
    }
}

fn refers_to_no_log_that_has_nothing_for_it(step: u64) {
    let memory = MemVfs::new();
    let keyspace = ChunkOptions::new().chunk_bytes(64 << 10);
    let (db, chunks) = open(Arc::new(memory.clone()), keyspace.clone());
    let mut pairs = Pairs::new();
    grow_in_order(&db, &chunks, &mut pairs, 12, step);
    for (_, chunk) in chunks.index.view().iter() {
        let funk = chunk.funk.load();
        // A split divides a log that has something for both, and begins another.
        assert!(funk.files.len() <= 3, "{} files", funk.files.len());
        let own =
            pairs.keys().filter(|key| chunk.span.contains(&chunks.context.order, key.as_bytes())).count();
        let (own_bytes, taken_for) = (own as u64 * VALUE_BYTES, funk.sizes().log_bytes);
        assert!((own_bytes / 2..own_bytes * 2).contains(&taken_for), "{taken_for} for {own_bytes}");
    }
    assert_holds(&db, &pairs, "after the splits");
    let (db, _) = open(Arc::new(memory.kill()), keyspace);
    assert_holds(&db, &pairs, "when opened again");
}

#[test]
fn a_log_with_a_range_delete_concerns_every_chunk() {
    let memory = MemVfs::new();
    let keyspace = ChunkOptions::new().chunk_bytes(64 << 10);
    let (db, chunks) = open(Arc::new(memory.clone()), keyspace.clone());
    let mut pairs = Pairs::new();
    put(&db, &mut pairs, 0..20, 1).unwrap();
    db.delete_range("000005".."000900").unwrap();
    pairs.retain(|key, _| key.as_str() < "000005");
    grow_in_order(&db, &chunks, &mut pairs, 6, 50);
    assert_holds(&db, &pairs, "after the splits");
    let (db, _) = open(Arc::new(memory.kill()), keyspace);
    assert_holds(&db, &pairs, "when opened again");
}
