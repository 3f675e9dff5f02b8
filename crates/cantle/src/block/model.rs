//! A sorted vector of entries as the model of blocks and tables.

use crate::sync::Arc;
use crate::types::entry::{EntryCursor, Kind};
use crate::types::order::{Comparator, KeyOrder};
use proptest::prelude::*;
use std::cmp::Ordering;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) key: Vec<u8>,
    pub(crate) version: u64,
    pub(crate) kind: Kind,
    pub(crate) value: Vec<u8>,
}

pub(crate) fn put(key: impl AsRef<[u8]>, version: u64, value: impl AsRef<[u8]>) -> Entry {
    Entry { key: key.as_ref().to_vec(), version, kind: Kind::Put, value: value.as_ref().to_vec() }
}

pub(crate) fn delete(key: impl AsRef<[u8]>, version: u64) -> Entry {
    Entry { key: key.as_ref().to_vec(), version, kind: Kind::Delete, value: Vec::new() }
}

/// The reverse of the bytewise order.
struct Reverse;

impl Comparator for Reverse {
    fn name(&self) -> &str {
        "test.reverse"
    }
    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        b.cmp(a)
    }
}

/// An order that ignores case, so that equal keys may differ in bytes.
struct CaseFolding;

impl Comparator for CaseFolding {
    fn name(&self) -> &str {
        "test.case-folding"
    }
    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        a.to_ascii_lowercase().cmp(&b.to_ascii_lowercase())
    }
    fn equal_is_identical(&self) -> bool {
        false
    }
}

pub(crate) fn reverse() -> KeyOrder {
    KeyOrder::custom(Arc::new(Reverse))
}

pub(crate) fn case_folding() -> KeyOrder {
    KeyOrder::custom(Arc::new(CaseFolding))
}

pub(crate) fn orders() -> impl Strategy<Value = KeyOrder> {
    prop_oneof![3 => Just(KeyOrder::Bytewise), 1 => Just(reverse()), 1 => Just(case_folding())]
}

fn keys() -> impl Strategy<Value = Vec<u8>> {
    let letters = || {
        proptest::collection::vec(prop_oneof![Just(0), Just(b'a'), Just(b'A'), Just(b'b'), Just(0xff)], 0..6)
    };
    prop_oneof![
        4 => letters(),
        4 => letters().prop_map(|tail| [b"tenant-0001/user/".as_slice(), &tail].concat()),
        1 => proptest::collection::vec(any::<u8>(), 0..40),
        1 => (100usize..2_000, letters()).prop_map(|(long, tail)| [vec![b'k'; long], tail].concat()),
    ]
}

fn values() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        2 => Just(Vec::new()),
        6 => proptest::collection::vec(any::<u8>(), 0..30),
        2 => (0usize..300).prop_map(|len| vec![b'v'; len]),
        1 => (5_000usize..9_000, any::<u8>()).prop_map(|(len, byte)| vec![byte; len]),
    ]
}

/// Entries in order, with several versions of many keys; equal pairs of key and version are kept if `repeated`.
pub(crate) fn entries(base_version: u64, repeated: bool) -> impl Strategy<Value = (KeyOrder, Vec<Entry>)> {
    let pool = proptest::collection::vec(keys(), 1..40);
    let picks =
        proptest::collection::vec((any::<prop::sample::Index>(), 0u64..6, any::<bool>(), values()), 0..150);
    (orders(), pool, picks).prop_map(move |(order, pool, picks)| {
        let mut entries: Vec<Entry> = picks
            .into_iter()
            .map(|(index, version, is_put, value)| {
                let key = index.get(&pool);
                let version = base_version + version * 100;
                if is_put { put(key, version, value) } else { delete(key, version) }
            })
            .collect();
        entries.sort_by(|a, b| order.compare(&a.key, &b.key).then(b.version.cmp(&a.version)));
        if !repeated {
            entries.dedup_by(|a, b| order.compare(&a.key, &b.key).is_eq() && a.version == b.version);
        }
        (order, entries)
    })
}

/// Keys at, just before and just after every entry, and at the ends.
pub(crate) fn probes(entries: &[Entry]) -> Vec<Vec<u8>> {
    let mut probes = vec![Vec::new(), vec![0xff; 3], b"tenant-0001/".to_vec()];
    for Entry { key, .. } in entries {
        probes.push(key.clone());
        probes.push([key.as_slice(), &[0]].concat());
        if let [rest @ .., last] = key.as_slice() {
            probes.push(rest.to_vec());
            probes.push([rest, &[last.wrapping_sub(1)]].concat());
            probes.push([rest, &[last.wrapping_add(1)]].concat());
        }
    }
    probes.sort();
    probes.dedup();
    probes
}

fn assert_at(cursor: &mut dyn EntryCursor, entries: &[Entry], index: Option<usize>, what: &str) {
    let expected = index.and_then(|index| entries.get(index));
    let found = cursor.entry().map(|entry| (entry.key.to_vec(), entry.version, entry.kind));
    assert_eq!(found, expected.map(|entry| (entry.key.clone(), entry.version, entry.kind)), "{what}");
    if let Some(entry) = expected {
        assert_eq!(cursor.value().unwrap(), entry.value, "{what}");
    }
}

/// Compares every kind of movement with the model.
pub(crate) fn check_cursor(cursor: &mut dyn EntryCursor, entries: &[Entry], order: &KeyOrder) {
    assert!(cursor.entry().is_none(), "a new cursor is not positioned");
    cursor.next().unwrap();
    cursor.prev().unwrap();
    assert!(cursor.entry().is_none(), "moving a cursor that is not positioned does nothing");

    cursor.seek_to_first().unwrap();
    for index in 0..=entries.len() {
        assert_at(cursor, entries, Some(index), "forward");
        cursor.next().unwrap();
    }
    cursor.seek_to_last().unwrap();
    for index in (0..entries.len()).rev() {
        assert_at(cursor, entries, Some(index), "backward");
        cursor.prev().unwrap();
    }
    assert_at(cursor, entries, None, "before the first entry");

    for probe in probes(entries) {
        let first = entries.partition_point(|entry| order.compare(&entry.key, &probe).is_lt());
        let what = format!("at {}", probe.escape_ascii());
        cursor.announce(&probe, first % 2 == 0);
        cursor.seek(&probe).unwrap();
        assert_at(cursor, entries, Some(first), &what);
        cursor.prev().unwrap();
        if first < entries.len() {
            assert_at(cursor, entries, first.checked_sub(1), &format!("turned back {what}"));
        }
        cursor.announce(&probe, first % 3 == 0);
        cursor.seek_before(&probe).unwrap();
        assert_at(cursor, entries, first.checked_sub(1), &format!("before {what}"));
        cursor.next().unwrap();
        if first > 0 {
            assert_at(cursor, entries, Some(first), &format!("turned forward {what}"));
        }
    }
    // Turns: three forward, two back, all the way; then the reverse.
    cursor.seek_to_first().unwrap();
    let mut index = 0;
    while index < entries.len() {
        for step in [1, 1, 1, -1, -1] {
            if index < entries.len() {
                if step > 0 {
                    cursor.next().unwrap()
                } else {
                    cursor.prev().unwrap()
                }
                index = index.wrapping_add_signed(step);
            }
            assert_at(cursor, entries, Some(index), "turning forward");
        }
    }
    cursor.seek_to_last().unwrap();
    let mut index = entries.len().wrapping_sub(1);
    while index < entries.len() {
        for step in [-1, -1, -1, 1, 1] {
            if index < entries.len() {
                if step > 0 {
                    cursor.next().unwrap()
                } else {
                    cursor.prev().unwrap()
                }
                index = index.wrapping_add_signed(step);
            }
            assert_at(cursor, entries, Some(index), "turning backward");
        }
    }
}
