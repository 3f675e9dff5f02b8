//! Small concurrent programs over the versions, the commit cell and the chunk index, with
//! properties that must hold in every interleaving. A test crate that includes this file supplies
//! `crate::sync`, `crate::pending`, `clock`, `commit` and `index` built on its own threads and
//! atomics.

use crate::clock::{Mvcc, SnapshotGuard};
use crate::commit::CommitCell;
use crate::pending::KeySpan;
use crate::range_index::RangeIndex;
use crate::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use crate::sync::atomic::{AtomicBool, AtomicU64};
use crate::sync::thread::{JoinHandle, spawn, yield_now};
use crate::sync::{Arc, Mutex};
use crate::types::order::KeyOrder;
use bytes::Bytes;

pub fn join<T>(handle: JoinHandle<T>) -> T {
    handle.join().unwrap_or_else(|_| panic!("a thread of the model failed"))
}

/// For each put, the version of the entry that it wrote; 0 while there is none.
type Entries = Arc<Vec<AtomicU64>>;

fn visible(entries: &Entries, version: u64) -> Vec<bool> {
    entries.iter().map(|entry| (1..=version).contains(&entry.load(Relaxed))).collect()
}

fn put(mvcc: &Mvcc, entries: &Entries, index: usize) {
    let announced = mvcc.announce(KeySpan::key(index as u64));
    entries[index].store(announced.version(), Release);
}

/// Takes a snapshot over `span` and returns the entries that it sees.
fn read(mvcc: &Arc<Mvcc>, entries: &Entries, span: KeySpan) -> (SnapshotGuard, Vec<bool>) {
    let shown: Vec<u64> = entries.iter().map(|entry| entry.load(Acquire)).collect();
    let snapshot = mvcc.snapshot(span);
    let seen = visible(entries, snapshot.version());
    for (index, &version) in shown.iter().enumerate() {
        assert!(version == 0 || seen[index], "a put that had shown is missing from a later snapshot");
    }
    (snapshot, seen)
}

/// `writers` gives each writing thread's number of puts; each of `readers` threads takes that many
/// snapshots in turn. The last reader runs on the calling thread.
///
/// Holds: a snapshot contains every put that was visible when the snapshot was requested; its
/// contents never change; a thread's later snapshot sees no less.
pub fn puts_and_snapshots(slots: usize, writers: &[usize], readers: &[usize], span: KeySpan) {
    let mvcc = Arc::new(Mvcc::with_slots(1, slots));
    let entries: Entries = Arc::new((0..writers.iter().sum()).map(|_| AtomicU64::new(0)).collect());
    let mut first = 0;
    let mut writing = Vec::new();
    for &puts in writers {
        let (mvcc, entries, range) = (mvcc.clone(), entries.clone(), first..first + puts);
        first += puts;
        writing.push(spawn(move || range.for_each(|index| put(&mvcc, &entries, index))));
    }
    let mut reading: Vec<_> = readers
        .iter()
        .map(|&snapshots| {
            let (mvcc, entries) = (mvcc.clone(), entries.clone());
            move || {
                let reads: Vec<_> = (0..snapshots).map(|_| read(&mvcc, &entries, span)).collect();
                for pair in reads.windows(2) {
                    assert!(pair[0].0.version() <= pair[1].0.version());
                    assert!(pair[0].1.iter().zip(&pair[1].1).all(|(before, after)| before <= after));
                }
                reads
            }
        })
        .collect();
    let last = reading.pop();
    let reading: Vec<_> = reading.into_iter().map(spawn).collect();
    let mut reads = last.map(|read| read()).unwrap_or_default();
    reads.extend(reading.into_iter().flat_map(join));
    writing.into_iter().for_each(join);
    for (snapshot, seen) in reads {
        assert_eq!(seen, visible(&entries, snapshot.version()), "what a snapshot sees changed");
    }
    assert_eq!(mvcc.open_count(), 0);
}

/// One thread overwrites a key and merges its two entries into the newest and those that open
/// snapshots need. At the same time another takes snapshots and reads the key.
///
/// Holds: every snapshot finds an entry. With `heed` off, the merge ignores snapshots.
pub fn merge_and_snapshots(snapshots: usize, heed: bool) {
    const MERGED: u64 = u64::MAX;
    let mvcc = Arc::new(Mvcc::with_slots(1, 2));
    let old = mvcc.announce(KeySpan::ALL).version();
    // The newer entry's version in the unmerged file; MERGED once the file was replaced.
    let file = Arc::new(AtomicU64::new(0));
    let merged = Arc::new((AtomicU64::new(0), AtomicBool::new(false)));
    let merging = {
        let (mvcc, file, merged) = (mvcc.clone(), file.clone(), merged.clone());
        spawn(move || {
            let announced = mvcc.announce(KeySpan::ALL);
            let new = announced.version();
            file.store(new, Release);
            drop(announced);
            let needed = mvcc.open_versions().iter().any(|&open| old <= open && open < new);
            merged.0.store(new, Relaxed);
            merged.1.store(needed && heed, Relaxed);
            file.store(MERGED, Release);
        })
    };
    for _ in 0..snapshots {
        let snapshot = mvcc.snapshot(KeySpan::ALL);
        if file.load(Acquire) == MERGED {
            let (new, old_is_kept) = (merged.0.load(Relaxed), merged.1.load(Relaxed));
            assert!(new <= snapshot.version() || old_is_kept, "a merge dropped what a snapshot reads");
        }
    }
    join(merging);
}

/// A batch of two records is written while one thread gets and another takes a snapshot.
///
/// Holds: both are seen or neither; records seen once are seen again; a snapshot's result never
/// changes. With `ask` off, readers accept records without asking the commit cell.
pub fn batch_and_readers(ask: bool) {
    let mvcc = Arc::new(Mvcc::with_slots(1, 2));
    let records: Entries = Arc::new((0..2).map(|_| AtomicU64::new(0)).collect());
    let cell = CommitCell::new();
    let writing = {
        let (mvcc, records, cell) = (mvcc.clone(), records.clone(), cell.clone());
        spawn(move || {
            let announced = mvcc.announce(KeySpan::ALL);
            for record in records.iter() {
                record.store(announced.version(), Relaxed);
            }
            cell.commit();
            drop(announced);
        })
    };
    let getting = {
        let (records, cell) = (records.clone(), cell.clone());
        spawn(move || {
            let mut seen_before = false;
            for _ in 0..2 {
                let committed = cell.is_committed() || !ask;
                let [a, b] = [0, 1].map(|record: usize| committed && records[record].load(Relaxed) != 0);
                assert_eq!(a, b, "half a batch");
                assert!(a >= seen_before, "a batch went away");
                seen_before = a;
            }
        })
    };
    let snapshot = mvcc.snapshot(KeySpan::ALL);
    let sees = || {
        let version = records[1].load(Relaxed);
        (cell.is_committed() || !ask) && version != 0 && version <= snapshot.version()
    };
    let first = sees();
    join(writing);
    assert_eq!(first, sees(), "what a snapshot sees changed");
    join(getting);
}

struct Chunk {
    state: Mutex<ChunkState>,
}

#[derive(Default)]
struct ChunkState {
    retired: bool,
    keys: Vec<&'static [u8]>,
}

impl Chunk {
    fn new(keys: Vec<&'static [u8]>) -> Arc<Self> {
        Arc::new(Self { state: Mutex::new(ChunkState { retired: false, keys }) })
    }
}

/// Threads put one key each while another one splits the only chunk, at "m", and a third reads the
/// index.
///
/// Holds: no put is lost; a thread that knows that `replace` has returned finds the new chunks.
/// With `retry` off, puts go to the chunk that they found, even if it is retired.
pub fn split_and_puts(keys: &'static [&'static [u8]], retry: bool) {
    let whole = Chunk::new(Vec::new());
    let index = Arc::new(RangeIndex::new(KeyOrder::Bytewise, vec![(Bytes::new(), whole.clone())]));
    let is_split = Arc::new(AtomicBool::new(false));
    let putting: Vec<_> = keys
        .iter()
        .map(|&key| {
            let index = index.clone();
            spawn(move || {
                loop {
                    let chunk = index.find(key);
                    let mut state = chunk.state.lock();
                    if !state.retired || !retry {
                        state.keys.push(key);
                        return;
                    }
                    drop(state);
                    yield_now();
                }
            })
        })
        .collect();
    let splitting = {
        let (index, is_split, whole) = (index.clone(), is_split.clone(), whole.clone());
        spawn(move || {
            let mut state = whole.state.lock();
            let (left, right) = state.keys.iter().copied().partition(|key| *key < &b"m"[..]);
            let halves =
                vec![(Bytes::new(), Chunk::new(left)), (Bytes::from_static(b"m"), Chunk::new(right))];
            index.replace(b"", 1, halves);
            state.retired = true;
            drop(state);
            is_split.store(true, Release);
        })
    };
    if is_split.load(Acquire) {
        assert!(!Arc::ptr_eq(&index.find(b"a"), &whole) && !Arc::ptr_eq(&index.find(b"z"), &whole));
    }
    join(splitting);
    putting.into_iter().for_each(join);
    for key in keys {
        assert!(index.find(key).state.lock().keys.contains(key), "a put was lost");
    }
}

/// One thread merges the first two of three chunks and splits the result at another key. At the
/// same time another thread visits all of them, one after the other.
///
/// Holds: the visit finds each key once. With `by_key` off it continues with the chunk with the
/// next number, not with the one that contains the next key.
pub fn walk_and_flips(by_key: bool) {
    type Keys = &'static [&'static [u8]];
    fn entry(start: &'static [u8], end: Option<&'static [u8]>, keys: Keys) -> (Bytes, Arc<Span>) {
        (Bytes::from_static(start), Arc::new(Span { end, keys }))
    }
    struct Span {
        end: Option<&'static [u8]>,
        keys: Keys,
    }
    let chunks = vec![
        entry(b"", Some(b"h"), &[b"b", b"d"]),
        entry(b"h", Some(b"t"), &[b"p"]),
        entry(b"t", None, &[b"x"]),
    ];
    let index = Arc::new(RangeIndex::new(KeyOrder::Bytewise, chunks));
    let flipping = {
        let index = index.clone();
        spawn(move || {
            index.replace(b"", 2, vec![entry(b"", Some(b"t"), &[b"b", b"d", b"p"])]);
            let halves = vec![entry(b"", Some(b"c"), &[b"b"]), entry(b"c", Some(b"t"), &[b"d", b"p"])];
            index.replace(b"", 1, halves);
        })
    };
    let mut walked: Vec<&[u8]> = Vec::new();
    let mut from: &[u8] = b"";
    for number in 0.. {
        let chunk = if by_key {
            index.find(from)
        } else {
            let view = index.view();
            let Some((_, chunk)) = view.iter().nth(number) else { break };
            chunk.clone()
        };
        walked.extend(chunk.keys.iter().filter(|key| !by_key || **key >= from));
        let Some(end) = chunk.end else { break };
        from = end;
    }
    join(flipping);
    let keys: [&[u8]; 4] = [b"b", b"d", b"p", b"x"];
    assert_eq!(walked, keys, "a walk lost a key or found one twice");
}
