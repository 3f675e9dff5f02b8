//! Small concurrent programs over a munk, with properties that must hold in every interleaving. A
//! test crate that includes this file supplies `crate::munk` and its dependencies, built on its own
//! threads and atomics.

use crate::memory::pages::Seen;
use crate::munk::{Munk, MunkBuilder, Towers};
use crate::mvcc::CommitCell;
use crate::sync::ArcSwap;
use crate::sync::atomic::AtomicU64;
use crate::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use crate::sync::thread::{JoinHandle, spawn};
use crate::types::entry::{Content, Kind};
use crate::types::order::KeyOrder;
use std::sync::Arc;

fn join<T>(handle: JoinHandle<T>) -> T {
    handle.join().unwrap_or_else(|_| panic!("a thread of the model failed"))
}

fn put<'a>(key: &'a [u8], version: u64, value: &'a [u8]) -> Content<'a> {
    Content { key, version, kind: Kind::Put, value }
}

fn nobody(_: u64, _: u64) -> bool {
    false
}

/// A munk of these keys at version 1, each with itself as its value, and the count of its memory.
fn munk(keys: &[&[u8]], room: usize) -> (Arc<Munk>, crate::sync::Arc<AtomicU64>) {
    let total_bytes = crate::sync::Arc::new(AtomicU64::new(0));
    let mut builder = MunkBuilder::new(KeyOrder::Bytewise, 0, total_bytes.clone());
    keys.iter().for_each(|key| builder.push(put(key, 1, key)));
    (Arc::new(builder.finish(room)), total_bytes)
}

/// The keys from the first to the last, and in reverse.
fn scan(munk: &Arc<Munk>, at: u64) -> (Vec<Vec<u8>>, Vec<Vec<u8>>) {
    let mut cursor = munk.cursor(at);
    let mut forward = Vec::new();
    let mut is_at = cursor.seek_to_first();
    while is_at {
        forward.extend(cursor.key().map(<[u8]>::to_vec));
        is_at = cursor.next();
    }
    let mut back = Vec::new();
    let mut is_at = cursor.seek_to_last();
    while is_at {
        back.extend(cursor.key().map(<[u8]>::to_vec));
        is_at = cursor.prev();
    }
    (forward, back)
}

/// One thread inserts `keys` in turn, with the keys as their values, between "b" and "d" or after
/// them; another gets them. Older keys stay visible, keys seen once are seen again, and a later key
/// is not seen without the earlier.
pub fn inserts_and_gets(keys: &'static [&'static [u8]]) {
    let (munk, _) = munk(&[b"b", b"d"], keys.len());
    let writing = {
        let munk = munk.clone();
        spawn(move || {
            for key in keys {
                munk.insert(put(key, 2, key), None, nobody).unwrap_or_else(|_| panic!("there is room"));
            }
        })
    };
    let mut seen_later = false;
    for key in keys.iter().rev() {
        let value = munk.get(key, u64::MAX);
        assert!(value.is_none_or(|value| value == *key));
        assert!(value.is_some() || !seen_later, "an insert was overtaken");
        seen_later |= value.is_some();
    }
    assert_eq!(munk.get(b"d", u64::MAX), Some(&b"d"[..]));
    join(writing);
    assert!(keys.iter().all(|key| munk.get(key, 1).is_none() && munk.get(key, 2).is_some()));
}

/// One thread inserts `keys`, another scans in both directions: in order, and without missing older
/// keys.
pub fn inserts_and_scans(keys: &'static [&'static [u8]]) {
    let (munk, _) = munk(&[b"b", b"d"], keys.len());
    let writing = {
        let munk = munk.clone();
        spawn(move || {
            for key in keys {
                munk.insert(put(key, 2, key), None, nobody).unwrap_or_else(|_| panic!("there is room"));
            }
        })
    };
    let (forward, mut back) = scan(&munk, u64::MAX);
    back.reverse();
    for keys in [&forward, &back] {
        assert!(keys.is_sorted_by(|a, b| a < b), "out of order: {keys:?}");
        assert!(keys.contains(&b"b".to_vec()) && keys.contains(&b"d".to_vec()), "lost: {keys:?}");
    }
    assert!(forward.iter().all(|key| back.contains(key)), "went away");
    join(writing);
}

/// One thread builds towers for slots whose keys are numbers, another searches: it sees the key of
/// each slot that it visits, and slots found once are found again.
pub fn searches_beside_towers() {
    let towers = Arc::new(Towers::new(16));
    let keys: Arc<Vec<AtomicU64>> = Arc::new((0..3).map(|_| AtomicU64::new(0)).collect());
    let building = {
        let (towers, keys) = (towers.clone(), keys.clone());
        spawn(move || {
            for (slot, key, height) in [(1, 20, 1), (2, 10, 2)] {
                keys[slot as usize].store(key, Relaxed);
                towers.build(slot, height, |other| keys[other as usize].load(Relaxed) < key);
            }
        })
    };
    let last_before = |key: u64| {
        let slot = towers.last_slot_of(|slot| {
            let of_slot = keys[slot as usize].load(Relaxed);
            assert!(of_slot > 0, "a tower without its slot");
            of_slot < key
        });
        keys[slot as usize].load(Relaxed)
    };
    let (first, near, second) = (last_before(30), last_before(15), last_before(30));
    assert!(first == 0 || first == 20, "a tower is linked before those behind it");
    assert!(near == 0 || second == 20, "a tower was overtaken by one behind it");
    assert!(second >= first, "a tower went away");
    join(building);
    assert_eq!([10, 15, 30].map(last_before), [0, 10, 20]);
}

/// One thread overwrites a key at versions 2 and 3. A snapshot at version 1 sees the value at 1, a
/// get never an older value than the get before. With `heed` off, the needs of the snapshot are
/// ignored.
pub fn overwrites_and_gets(heed: bool) {
    let (munk, _) = munk(&[b"k"], 0);
    let writing = {
        let munk = munk.clone();
        spawn(move || {
            let needed = |older, newer| heed && older <= 1 && 1 < newer;
            for (version, value) in [(2, b"2"), (3, b"3")] {
                let written = munk.insert(put(b"k", version, value), None, needed);
                written.unwrap_or_else(|_| panic!("an overwrite needs no room"));
            }
        })
    };
    let version = || munk.find(b"k", u64::MAX).map(|record| record.version());
    let first = version();
    assert_eq!(munk.get(b"k", 1), Some(&b"k"[..]), "what a snapshot sees changed");
    assert!(version() >= first && first >= Some(1), "a get went back");
    join(writing);
    assert_eq!(version(), Some(3));
}

/// A batch writes two keys, and its cell is committed; then one of the keys is overwritten, which
/// cuts off the older records. A get of both keys sees the batch completely or not at all, and
/// always a value.
pub fn batch_and_gets(range_delete: bool) {
    let (munk, _) = munk(&[b"a", b"b"], 0);
    let writing = {
        let munk = munk.clone();
        spawn(move || {
            let cell = CommitCell::new();
            if range_delete {
                let all = (std::ops::Bound::Unbounded, std::ops::Bound::Unbounded);
                munk.delete_range(all, 2, Some(&cell), nobody);
            }
            for key in [b"a", b"b"] {
                let written = munk.insert(put(key, 2, b"2"), Some(&cell), nobody);
                written.unwrap_or_else(|_| panic!("an overwrite needs no room"));
            }
            cell.commit();
            let written = munk.insert(put(b"b", 3, b"3"), None, nobody);
            written.unwrap_or_else(|_| panic!("an overwrite needs no room"));
        })
    };
    // The version of the value.
    let version = |key: &[u8]| {
        munk.find(key, u64::MAX).filter(|record| record.kind() == Kind::Put).map(|record| record.version())
    };
    let [a, b] = [b"a", b"b"].map(|key| version(key));
    assert!(a.is_some() && b.is_some(), "neither the value before nor the one after");
    assert!(b >= a, "half a batch: {a:?} {b:?}");
    join(writing);
    assert_eq!([b"a", b"b"].map(|key| version(key)), [Some(2), Some(3)]);
}

/// The replacement of a munk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Replacement {
    Sorted,
    Rebalanced,
    Split,
    /// None: the munk is evicted, and later readers do without.
    Evicted,
}

/// The writer overwrites a key and inserts another, replaces the munk, and continues in the new
/// one; a reader loads the munk and reads. It sees the state before or after each step, and the
/// memory is freed by the last holder.
pub fn replacement_and_gets(replacement: Replacement) {
    let (first, total_bytes) = munk(&[b"a", b"c"], 1);
    let munks = Arc::new(ArcSwap::from_pointee(vec![first]));
    let written = Arc::new(AtomicU64::new(1));
    let writing = {
        let (munks, written) = (munks.clone(), written.clone());
        spawn(move || {
            let all = munks.load_full();
            let munk = &all[0];
            munk.insert(put(b"b", 2, b"b"), None, nobody).unwrap_or_else(|_| panic!("there is room"));
            munk.insert(put(b"a", 2, b"a"), None, nobody).unwrap_or_else(|_| panic!("there is room"));
            written.store(2, Release);
            let next = match replacement {
                Replacement::Sorted => vec![munk.resort(1, nobody)],
                Replacement::Rebalanced => vec![munk.rebalance(1, nobody)],
                Replacement::Split => munk.split(&[b"b"], |_| 1, nobody),
                Replacement::Evicted => Vec::new(),
            };
            munks.store(crate::sync::Arc::new(next.into_iter().map(Arc::new).collect()));
            drop(all);
            if let Some(munk) = munks.load_full().first() {
                munk.insert(put(b"a", 3, b"a"), None, nobody).unwrap_or_else(|_| panic!("there is room"));
                written.store(3, Release);
            }
        })
    };
    let before = written.load(Acquire);
    let all = munks.load_full();
    if let Some(munk) = all.first() {
        let seen = munk.find(b"a", u64::MAX).map_or(0, |record| record.version());
        // The replaced munk does not have later writes.
        assert!(seen >= before.min(2), "a put was lost");
        let (forward, back) = scan(munk, u64::MAX);
        assert!(forward.contains(&b"a".to_vec()) && back.contains(&b"a".to_vec()));
        assert_eq!(all.last().and_then(|munk| munk.get(b"c", u64::MAX)), Some(&b"c"[..]));
    } else {
        assert_eq!(replacement, Replacement::Evicted);
    }
    join(writing);
    let bytes = all.iter().map(|munk| munk.bytes()).sum::<u64>();
    assert!(total_bytes.load(Relaxed) > 0 || bytes == 0);
    drop(all);
    // The replacement has everything that it needs.
    let current = munks.load_full();
    for (munk, keys) in current.iter().zip(match current.len() {
        1 => vec![vec![b"a", b"b", b"c"]],
        _ => vec![vec![b"a"], vec![b"b", b"c"]],
    }) {
        let (forward, back) = scan(munk, u64::MAX);
        assert!(forward.iter().eq(&keys) && back.iter().rev().eq(&keys), "a key was lost");
        assert!(keys.iter().all(|key| munk.get(*key, u64::MAX) == Some(&key[..])), "a value was lost");
    }
    drop((current, munks));
    assert_eq!(total_bytes.load(Relaxed), 0, "memory was left behind");
}

/// A reader holds a value and a cursor while the munk is replaced.
///
/// Holds: both do not change, and the last holder frees the memory. With `holds` off, the reader
/// drops the cursor before it reads.
pub fn what_is_lent(replacement: Replacement, holds: bool) {
    let (first, total_bytes) = munk(&[b"a", b"c"], 1);
    // In a lock, so that the replaced munk is dropped.
    let munks = Arc::new(crate::sync::Mutex::new(vec![first]));
    let replacing = {
        let munks = munks.clone();
        spawn(move || {
            let munk = munks.lock()[0].clone();
            munk.insert(put(b"a", 2, b"A"), None, nobody).unwrap_or_else(|_| panic!("there is room"));
            let next = match replacement {
                Replacement::Sorted => vec![munk.resort(1, nobody)],
                Replacement::Rebalanced => vec![munk.rebalance(1, nobody)],
                Replacement::Split => munk.split(&[b"b"], |_| 1, nobody),
                Replacement::Evicted => Vec::new(),
            };
            drop(munk);
            let replaced = std::mem::replace(&mut *munks.lock(), next.into_iter().map(Arc::new).collect());
            drop(replaced);
        })
    };
    let first = munks.lock().first().cloned();
    if let Some(munk) = first {
        let mut cursor = Some(munk.cursor(u64::MAX));
        let is_at = cursor.as_mut().is_some_and(|cursor| cursor.seek(b"c"));
        let seen = munk.get(b"a", u64::MAX).map(Seen::of);
        let before = seen.as_ref().map(Seen::now);
        // The cursor alone.
        drop(munk);
        cursor = cursor.filter(|_| holds);
        // A step, so that other threads can run.
        drop(munks.lock());
        assert_eq!(seen.as_ref().map(Seen::now), before, "what is lent changed");
        if let Some(cursor) = cursor.filter(|_| is_at) {
            assert_eq!(
                (cursor.key(), cursor.value()),
                (Some(&b"c"[..]), Some(&b"c"[..])),
                "what is lent changed"
            );
        }
    }
    join(replacing);
    // The replacement, or one half of it, has what it needs by itself.
    let alone = munks.lock().first().cloned();
    let seen = alone.as_ref().and_then(|munk| munk.get(b"a", u64::MAX)).map(Seen::of);
    let before = seen.as_ref().map(Seen::now);
    munks.lock().clear();
    assert_eq!(seen.as_ref().map(Seen::now), before, "what is lent changed");
    drop(alone);
    assert_eq!(total_bytes.load(Relaxed), 0, "memory was left behind");
}

/// Writes concurrent with a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Writes {
    /// Two overwrites of a key, and an insert, at one version.
    Single,
    /// A batch that deletes a range and puts a key in it.
    Batch,
}

/// The writer writes under the chunk's lock; another thread copies the munk at the same time and
/// replaces the munk by the copy. With `catches_up` off the copy lacks the writes made in the
/// meantime. All writes are there in the end, and the result of a snapshot at version 1 does not
/// change.
pub fn writes_and_a_copy(writes: Writes, catches_up: bool) {
    let (first, _) = munk(&[b"a", b"c"], 4);
    let lock = Arc::new(crate::sync::Mutex::new(()));
    let current = Arc::new(ArcSwap::from_pointee(first));
    let needed = |older: u64, newer: u64| older <= 1 && 1 < newer;
    let writing = {
        let (lock, current) = (lock.clone(), current.clone());
        spawn(move || match writes {
            Writes::Single => {
                for (key, value) in [(b"a", b"1"), (b"b", b"2"), (b"a", b"3")] {
                    let _writer = lock.lock();
                    let written = current.load_full().insert(put(key, 4, value), None, needed);
                    written.unwrap_or_else(|_| panic!("there is room"));
                }
            }
            Writes::Batch => {
                let _writer = lock.lock();
                let (munk, cell) = (current.load_full(), CommitCell::new());
                let all = (std::ops::Bound::Unbounded, std::ops::Bound::Unbounded);
                munk.delete_range(all, 4, Some(&cell), needed);
                let written = munk.insert(put(b"a", 4, b"3"), Some(&cell), needed);
                written.unwrap_or_else(|_| panic!("an overwrite needs no room"));
                cell.commit();
            }
        })
    };
    let original = {
        let _writer = lock.lock();
        let munk = current.load_full();
        munk.begin_copy();
        munk
    };
    let copy = original.rebalance(4, needed);
    {
        let _writer = lock.lock();
        if catches_up {
            let written = original.take_written().unwrap_or_else(|| panic!("a copy is made"));
            copy.catch_up(&written, needed).unwrap_or_else(|_| panic!("there is room"));
        }
        current.store(crate::sync::Arc::new(Arc::new(copy)));
    }
    join(writing);
    let munk = current.load_full();
    let newest = |key: &[u8]| munk.get(key, u64::MAX);
    assert_eq!(newest(b"a"), Some(&b"3"[..]), "the copy lacks a put");
    match writes {
        Writes::Single => assert_eq!(newest(b"b"), Some(&b"2"[..]), "the copy lacks a put"),
        Writes::Batch => assert_eq!(newest(b"c"), None, "the copy lacks a delete"),
    }
    assert_eq!(
        [munk.get(b"a", 1), munk.get(b"c", 1)],
        [Some(&b"a"[..]), Some(&b"c"[..])],
        "a snapshot changed"
    );
}
