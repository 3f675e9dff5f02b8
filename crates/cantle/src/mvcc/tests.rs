//! The guarantees of versions, step by step and on real threads. Every interleaving of small cases
//! is in `tests/loom_mvcc.rs`. None of these tests asserts a time: a waiter that fails to wait
//! fails the test in most runs, and one that waits for too much hangs.

use super::{KeySpan, Mvcc};
use crate::mvcc::pending::Pending;
use crate::sync::Arc;
use crate::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use crate::sync::atomic::{AtomicBool, AtomicU64, fence};
use proptest::prelude::*;
use std::thread::{self, scope};

fn mvcc() -> Arc<Mvcc> {
    Arc::new(Mvcc::new(100))
}

fn put(mvcc: &Mvcc) -> u64 {
    mvcc.announce(KeySpan::ALL).version()
}

#[test]
fn a_snapshot_includes_what_was_written_before_it_and_nothing_after() {
    let mvcc = mvcc();
    assert_eq!(put(&mvcc), 100);
    assert_eq!(put(&mvcc), 100);
    let snapshot = mvcc.snapshot(KeySpan::ALL);
    assert_eq!(snapshot.version(), 100);
    assert_eq!(put(&mvcc), 101);
    assert_eq!(mvcc.snapshot(KeySpan::ALL).version(), 101);
    assert_eq!(mvcc.current(), 102);
}

#[test]
fn the_first_snapshot_includes_what_recovery_wrote_with_the_first_version() {
    assert_eq!(mvcc().snapshot(KeySpan::ALL).version(), 100);
}

#[test]
fn snapshots_without_writes_between_them_share_a_version() {
    let mvcc = mvcc();
    let versions: Vec<u64> = (0..10).map(|_| mvcc.snapshot(KeySpan::ALL).version()).collect();
    assert_eq!(versions, [100; 10]);
    assert_eq!(mvcc.current(), 101);
    let announced = mvcc.announce(KeySpan::key(1));
    assert_eq!(announced.version(), 101);
    // An announced version counts as used: its entries may be visible already.
    assert_eq!(mvcc.snapshot(KeySpan::key(2)).version(), 101);
}

#[test]
fn open_versions_ascend_without_repetition_and_end_with_the_last_clone() {
    let mvcc = mvcc();
    assert!(mvcc.open_versions().is_empty());
    let first = mvcc.snapshot(KeySpan::ALL);
    let same = mvcc.snapshot(KeySpan::ALL);
    let clone = first.clone();
    put(&mvcc);
    let second = mvcc.snapshot(KeySpan::ALL);
    assert_eq!(mvcc.open_versions(), [100, 101]);
    let own = mvcc.own_snapshot(KeySpan::ALL);
    assert_eq!(mvcc.open_count(), 3, "but for the store's own");
    drop(first);
    assert_eq!(mvcc.open_versions(), [100, 101]);
    drop(clone);
    assert_eq!(mvcc.open_versions(), [100, 101]);
    drop(same);
    assert_eq!(mvcc.open_versions(), [101]);
    drop(second);
    assert_eq!(mvcc.open_count(), 0);
    assert_eq!(mvcc.open_versions(), [101]);
    drop(own);
    assert!(mvcc.open_versions().is_empty());
}

#[test]
fn a_snapshot_waits_for_writers_in_its_span_only() {
    let mvcc = mvcc();
    let five = mvcc.announce(KeySpan::key(5));
    mvcc.snapshot(KeySpan { lo: 0, hi: 4 });
    mvcc.snapshot(KeySpan { lo: 6, hi: u64::MAX });
    let extended = mvcc.snapshot(KeySpan::EMPTY);
    extended.wait_for(KeySpan::key(6));
    let is_over = AtomicBool::new(false);
    let check = || assert!(is_over.load(Acquire), "did not wait for the writer");
    scope(|scope| {
        scope.spawn(|| {
            mvcc.snapshot(KeySpan { lo: 0, hi: 5 });
            check();
        });
        scope.spawn(|| {
            extended.wait_for(KeySpan { lo: 5, hi: 9 });
            check();
        });
        thread::yield_now();
        is_over.store(true, Release);
        drop(five);
    });
}

#[test]
fn a_snapshot_does_not_wait_for_writers_with_greater_versions() {
    let mvcc = mvcc();
    let snapshot = mvcc.snapshot(KeySpan::EMPTY);
    let later = mvcc.announce(KeySpan::ALL);
    assert!(later.version() > snapshot.version());
    snapshot.wait_for(KeySpan::ALL);
}

#[test]
fn a_waiter_is_not_held_up_by_the_next_use_of_a_slot() {
    let pending = Pending::new(1);
    let first = pending.claim(KeySpan::ALL);
    first.publish(7);
    fence(SeqCst);
    let seen = pending.look(0, KeySpan::ALL, 7).unwrap();
    assert!(!pending.is_over(seen, KeySpan::ALL, 7));
    drop(first);
    let successor = pending.claim(KeySpan::ALL);
    assert!(pending.is_over(seen, KeySpan::ALL, 7), "the successor has the slot, and no version yet");
    assert!(pending.look(0, KeySpan::ALL, 7).is_some(), "who looks now must wait for the successor");
    drop(successor);
    assert!(pending.look(0, KeySpan::ALL, 7).is_none());
}

#[test]
fn a_thread_uses_few_slots_also_when_its_claims_nest() {
    let pending = Pending::new(16);
    for _ in 0..100 {
        let _outer = pending.claim(KeySpan::ALL);
        let _inner = pending.claim(KeySpan::ALL);
    }
    assert!(pending.used_count() <= 2, "{}", pending.used_count());
}

#[test]
fn writers_beyond_the_slots_take_turns() {
    let mvcc = Arc::new(Mvcc::with_slots(1, 2));
    let under_way = AtomicU64::new(0);
    scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..200 {
                    let announced = mvcc.announce(KeySpan::ALL);
                    assert!(under_way.fetch_add(1, SeqCst) < 2);
                    under_way.fetch_sub(1, SeqCst);
                    drop(announced);
                }
            });
        }
    });
}

#[test]
fn what_a_snapshot_sees_does_not_change_under_load() {
    const WRITERS: usize = 3;
    const PUTS: usize = 3_000;
    let mvcc = mvcc();
    let entries: Vec<Vec<AtomicU64>> =
        (0..WRITERS).map(|_| (0..PUTS).map(|_| AtomicU64::new(0)).collect()).collect();
    let seen = |version: u64| -> Vec<usize> {
        let upto = |entry: &&AtomicU64| (1..=version).contains(&entry.load(Relaxed));
        entries.iter().map(|puts| puts.iter().take_while(upto).count()).collect()
    };
    let writers_left = AtomicU64::new(WRITERS as u64);
    scope(|scope| {
        for (writer, puts) in entries.iter().enumerate() {
            let (mvcc, writers_left) = (&mvcc, &writers_left);
            scope.spawn(move || {
                for entry in puts {
                    let announced = mvcc.announce(KeySpan::key(writer as u64));
                    entry.store(announced.version(), Relaxed);
                }
                writers_left.fetch_sub(1, Release);
            });
        }
        for _ in 0..2 {
            scope.spawn(|| {
                let mut before = vec![0; WRITERS];
                while writers_left.load(Acquire) > 0 {
                    let snapshot = mvcc.snapshot(KeySpan::ALL);
                    let first = seen(snapshot.version());
                    assert!(first.iter().zip(&before).all(|(now, before)| now >= before));
                    thread::yield_now();
                    assert_eq!(first, seen(snapshot.version()));
                    before = first;
                }
            });
        }
    });
    assert_eq!(seen(mvcc.snapshot(KeySpan::ALL).version()), [PUTS; WRITERS]);
}

proptest! {
    #[test]
    fn spans_overlap_where_they_share_a_key(
        a in (0u64..8, 0u64..8), b in (0u64..8, 0u64..8), c in (0u64..8, 0u64..8),
    ) {
        let [a, b, c] = [a, b, c].map(|(lo, hi)| KeySpan { lo, hi });
        let contains = |span: KeySpan, key: u64| (span.lo..=span.hi).contains(&key);
        let shares = |a, b| (0..8).any(|key| contains(a, key) && contains(b, key));
        prop_assert_eq!(a.overlaps(b), shares(a, b));
        prop_assert_eq!(a.overlaps(KeySpan::ALL), a.lo <= a.hi);
        prop_assert!(!a.overlaps(KeySpan::EMPTY));
        prop_assert_eq!(a.hull(KeySpan::EMPTY), a);
        prop_assert_eq!(KeySpan::EMPTY.hull(a), a);
        if shares(a, c) || shares(b, c) {
            prop_assert!(a.hull(b).overlaps(c));
        }
    }
}
