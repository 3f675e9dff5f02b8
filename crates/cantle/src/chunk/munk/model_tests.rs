//! A munk compared with a map of all versions.

use super::build::room_for;
use super::*;
use crate::mvcc::CommitCell;
use crate::mvcc::Keep;
use crate::sync::Arc;
use crate::sync::atomic::{AtomicU64, Ordering::Relaxed};
use crate::types::entry::{Content, Kind};
use crate::types::order::Comparator;
use crate::types::order::KeyOrder;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Included};

/// Shorter keys first, and no prefix.
struct ByLength;

impl Comparator for ByLength {
    fn name(&self) -> &str {
        "by-length"
    }
    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        a.len().cmp(&b.len()).then_with(|| a.cmp(b))
    }
}

/// Backwards, with a prefix of one byte.
struct Backwards;

impl Comparator for Backwards {
    fn name(&self) -> &str {
        "backwards"
    }
    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        b.cmp(a)
    }
    fn prefix(&self, key: &[u8]) -> Option<u64> {
        Some(u64::MAX - key.first().map_or(0, |&byte| u64::from(byte) + 1))
    }
}

/// As `Backwards`, but every third key or so has no prefix.
struct PartlyPrefixed;

impl Comparator for PartlyPrefixed {
    fn name(&self) -> &str {
        "partly-prefixed"
    }
    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        b.cmp(a)
    }
    fn prefix(&self, key: &[u8]) -> Option<u64> {
        let sum: u32 = key.iter().map(|&byte| u32::from(byte)).sum();
        Backwards.prefix(key).filter(|_| !sum.is_multiple_of(3))
    }
}

#[derive(Debug, Clone)]
enum Step {
    Put(Vec<u8>, usize),
    Delete(Vec<u8>),
    DeleteRange(Vec<u8>, Vec<u8>),
    /// Keys, each true if it is put; a range delete before them; and true if the batch is
    /// committed.
    Batch(BTreeMap<Vec<u8>, bool>, Option<(Vec<u8>, Vec<u8>)>, bool),
    /// Opens a snapshot, closes the oldest or newest.
    Open,
    CloseOldest,
    CloseNewest,
    Resort,
    Rebalance,
    /// Begins a copy, makes it, or catches up.
    BeginCopy,
    Copy,
    /// True if for the last time.
    CatchUp(bool),
    SplitAndJoin(Vec<u8>),
    SplitAndStay(Vec<u8>, bool),
}

fn key() -> impl Strategy<Value = Vec<u8>> {
    let stem =
        select(vec![&b""[..], b"a", b"user/0001/", b"user/0001/thread/", b"user/0002/thread/", b"\xff\xff"]);
    let end = vec(select(vec![0u8, 1, b'a', 255]), 0..3);
    (stem, end).prop_map(|(stem, end)| [stem, &end].concat())
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        12 => (key(), 0..40usize).prop_map(|(key, len)| Step::Put(key, len)),
        4 => key().prop_map(Step::Delete),
        1 => (key(), key()).prop_map(|(a, b)| Step::DeleteRange(a, b)),
        3 => (proptest::collection::btree_map(key(), any::<bool>(), 1..6), proptest::option::weighted(0.2, (key(), key())), any::<bool>())
            .prop_map(|(puts, range, commit)| Step::Batch(puts, range, commit)),
        2 => Just(Step::Open),
        1 => Just(Step::CloseOldest),
        1 => Just(Step::CloseNewest),
        1 => Just(Step::Resort),
        1 => Just(Step::Rebalance),
        2 => Just(Step::BeginCopy),
        2 => Just(Step::Copy),
        2 => any::<bool>().prop_map(Step::CatchUp),
        1 => key().prop_map(Step::SplitAndJoin),
        1 => (key(), any::<bool>()).prop_map(|(key, first)| Step::SplitAndStay(key, first)),
    ]
}

/// A key with its order.
#[derive(Clone)]
struct Ordered(Vec<u8>, KeyOrder);

impl PartialEq for Ordered {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}
impl Eq for Ordered {}
impl PartialOrd for Ordered {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Ordered {
    fn cmp(&self, other: &Self) -> Ordering {
        self.1.compare(&self.0, &other.0)
    }
}

type Pair = (Vec<u8>, Vec<u8>);
type Version = (u64, Option<Vec<u8>>);

struct Model {
    order: KeyOrder,
    total_bytes: Arc<AtomicU64>,
    munk: Arc<Munk>,
    /// The versions of each key, oldest first.
    versions: BTreeMap<Ordered, Vec<Version>>,
    /// Open snapshots, each with a cursor that keeps its position, and the pair at that position.
    snapshots: Vec<(u64, MunkCursor, Option<Pair>)>,
    /// The munk to be copied, and the copy once it is made.
    copying: Option<(Arc<Munk>, Option<Munk>)>,
    version: u64,
    written: u8,
}

impl Model {
    fn new(order: KeyOrder) -> Self {
        let total_bytes = Arc::default();
        let munk = Arc::new(MunkBuilder::new(order.clone(), 0, Arc::clone(&total_bytes)).finish(4));
        Self {
            order,
            total_bytes,
            munk,
            versions: BTreeMap::new(),
            snapshots: Vec::new(),
            copying: None,
            version: 1,
            written: 0,
        }
    }

    fn needed(&self) -> impl Fn(u64, u64) -> bool + use<> {
        let keep = Keep::new(self.snapshots.iter().map(|snapshot| snapshot.0).collect());
        move |older, newer| keep.needed(Some(newer), older)
    }

    fn make_room(&mut self, keys: usize) {
        if self.munk.room() < keys {
            let room = room_for(self.munk.len()).min(3) + keys;
            self.munk = Arc::new(self.munk.resort(room, self.needed()));
        }
    }

    fn write(&mut self, key: &[u8], value: Option<Vec<u8>>, cell: Option<&CommitCell>) {
        let kind = if value.is_some() { Kind::Put } else { Kind::Delete };
        let content =
            Content { key, version: self.version, kind, value: value.as_deref().unwrap_or_default() };
        self.munk.insert(content, cell, self.needed()).unwrap();
    }

    fn record(&mut self, key: Vec<u8>, value: Option<Vec<u8>>) {
        let entry = self.versions.entry(Ordered(key, self.order.clone())).or_default();
        entry.push((self.version, value));
    }

    fn delete_range(&mut self, a: &[u8], b: &[u8], cell: Option<&CommitCell>) {
        self.munk.delete_range((Included(a), Excluded(b)), self.version, cell, self.needed());
    }

    fn record_range(&mut self, a: &[u8], b: &[u8]) {
        let within = |key: &Ordered| {
            self.order.compare(&key.0, a) != Ordering::Less && self.order.compare(&key.0, b) == Ordering::Less
        };
        let version = self.version;
        for (_, versions) in self.versions.iter_mut().filter(|(key, _)| within(key)) {
            versions.push((version, None));
        }
    }

    fn value(&mut self, len: usize) -> Vec<u8> {
        self.written = self.written.wrapping_add(1);
        vec![self.written; len]
    }

    fn take(&mut self, step: Step) {
        match step {
            Step::Put(key, len) => {
                self.make_room(1);
                let value = self.value(len);
                self.write(&key, Some(value.clone()), None);
                self.record(key, Some(value));
            }
            Step::Delete(key) => {
                self.write(&key, None, None);
                self.record(key, None);
            }
            Step::DeleteRange(a, b) => {
                self.delete_range(&a, &b, None);
                self.record_range(&a, &b);
            }
            Step::Batch(ops, range, commit) => self.batch(ops, range, commit),
            Step::Open => {
                let mut cursor = self.munk.cursor(self.version);
                cursor.seek(b"user/0001/");
                let pair =
                    cursor.key().zip(cursor.value()).map(|(key, value)| (key.to_vec(), value.to_vec()));
                self.snapshots.push((self.version, cursor, pair));
                self.version += 1;
            }
            Step::CloseOldest => drop((!self.snapshots.is_empty()).then(|| self.snapshots.remove(0))),
            Step::CloseNewest => drop(self.snapshots.pop()),
            Step::Resort => self.munk = Arc::new(self.munk.resort(2, self.needed())),
            Step::Rebalance => self.munk = Arc::new(self.munk.rebalance(2, self.needed())),
            Step::BeginCopy => {
                self.munk.begin_copy();
                self.copying = Some((self.munk.clone(), None));
            }
            Step::Copy => {
                let needed = self.needed();
                if let Some((munk, copy @ None)) = &mut self.copying {
                    *copy = Some(munk.rebalance(room_for(munk.len()).min(6), needed));
                }
            }
            Step::CatchUp(last) => {
                let Some((munk, Some(copy))) = self.copying.take() else { return };
                if let Some(written) = munk.take_written()
                    && copy.catch_up(&written, self.needed()).is_ok()
                {
                    if last && Arc::ptr_eq(&munk, &self.munk) {
                        self.munk = Arc::new(copy);
                    } else {
                        self.copying = Some((munk, Some(copy)));
                        return;
                    }
                }
                munk.end_copy();
            }
            Step::SplitAndJoin(key) => {
                let parts = self.munk.split(&[&key], |_| 0, self.needed());
                self.munk = Arc::new(Munk::join(&[&parts[0], &parts[1]], 2, self.needed()));
            }
            Step::SplitAndStay(key, first) => {
                let mut parts = self.munk.split(&[&key], |_| 2, self.needed());
                let kept = |other: &Ordered| (self.order.compare(&other.0, &key) == Ordering::Less) == first;
                self.versions.retain(|key, _| kept(key));
                self.munk = Arc::new(parts.swap_remove(usize::from(!first)));
                // The snapshots read the other chunk.
                self.snapshots.clear();
            }
        }
    }

    fn batch(&mut self, ops: BTreeMap<Vec<u8>, bool>, range: Option<(Vec<u8>, Vec<u8>)>, commit: bool) {
        self.make_room(ops.len());
        let cell = CommitCell::new();
        if let Some((a, b)) = &range {
            self.delete_range(a, b, Some(&cell));
        }
        let ops: Vec<_> = ops.into_iter().map(|(key, put)| (key, put.then(|| self.value(9)))).collect();
        for (key, value) in &ops {
            self.write(key, value.clone(), Some(&cell));
        }
        self.check();
        if !commit {
            return;
        }
        cell.commit();
        if let Some((a, b)) = &range {
            self.record_range(a, b);
        }
        ops.into_iter().for_each(|(key, value)| self.record(key, value));
    }

    fn seen(&self, at: u64) -> Vec<Pair> {
        let newest = |versions: &Vec<Version>| {
            versions.iter().rev().find(|(version, _)| *version <= at).and_then(|(_, value)| value.clone())
        };
        self.versions.iter().filter_map(|(key, versions)| Some((key.0.clone(), newest(versions)?))).collect()
    }

    fn check(&self) {
        for at in self.snapshots.iter().map(|snapshot| snapshot.0).chain([u64::MAX]) {
            self.check_view(at);
        }
        for (version, cursor, pair) in &self.snapshots {
            let pair = pair.as_ref().map(|(key, value)| (&key[..], &value[..]));
            assert_eq!(cursor.key().zip(cursor.value()), pair, "a cursor at {version} moved");
        }
        let reached = self.munk.slots_records().map(Record::size).sum::<u64>();
        assert_eq!(self.munk.live_bytes(), reached);
        if self.snapshots.is_empty() && self.copying.is_none() {
            assert_eq!(self.total_bytes.load(Relaxed), self.munk.bytes());
        }
    }

    fn check_view(&self, at: u64) {
        let seen = self.seen(at);
        let mut cursor = self.munk.cursor(at);
        let pair = |cursor: &MunkCursor| Some((cursor.key()?.to_vec(), cursor.value()?.to_vec()));
        let mut walked = Vec::new();
        cursor.seek_to_first();
        while let Some(pair) = pair(&cursor) {
            walked.push(pair);
            cursor.next();
        }
        assert_eq!(walked, seen);
        walked.clear();
        cursor.seek_to_last();
        while let Some(pair) = pair(&cursor) {
            walked.push(pair);
            cursor.prev();
        }
        walked.reverse();
        assert_eq!(walked, seen);
        for key in self.versions.keys() {
            let less = seen.partition_point(|(other, _)| self.order.compare(other, &key.0) == Ordering::Less);
            cursor.seek(&key.0);
            assert_eq!(pair(&cursor).as_ref(), seen.get(less));
            let found =
                seen.get(less).filter(|(other, _)| self.order.compare(other, &key.0) == Ordering::Equal);
            assert_eq!(self.munk.get(&key.0, at), found.map(|(_, value)| &value[..]));
            cursor.seek_before(&key.0);
            assert_eq!(pair(&cursor).as_ref(), less.checked_sub(1).map(|index| &seen[index]));
        }
        let mut from_versions: Vec<Pair> = Vec::new();
        let mut last: Option<&[u8]> = None;
        for record in self.munk.versions(at) {
            if last.is_none_or(|last| self.order.compare(last, record.key()) != Ordering::Equal)
                && record.kind() == Kind::Put
            {
                from_versions.push((record.key().to_vec(), record.value().to_vec()));
            }
            last = Some(record.key());
        }
        assert_eq!(from_versions, seen);
    }
}

impl Munk {
    /// All reachable records.
    fn slots_records(&self) -> impl Iterator<Item = &Record> {
        let slots = std::iter::successors(Some(self.slots.next(0)), |&slot| Some(self.slots.next(slot)));
        slots
            .take_while(|&slot| slot != 0)
            .flat_map(|slot| std::iter::successors(self.slots.newest(slot), |record| record.older().get()))
    }
}

fn run(order: KeyOrder, steps: Vec<Step>) {
    let mut model = Model::new(order);
    for step in steps {
        model.take(step);
        model.check();
    }
    let total_bytes = model.total_bytes.clone();
    drop(model);
    assert_eq!(total_bytes.load(Relaxed), 0);
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if cfg!(miri) { 2 } else { 300 },
        failure_persistence: if cfg!(miri) { None } else { ProptestConfig::default().failure_persistence },
        ..ProptestConfig::default()
    })]

    #[test]
    fn bytewise(steps in vec(step(), 1..if cfg!(miri) { 25 } else { 80 })) {
        run(KeyOrder::Bytewise, steps);
    }

    #[test]
    fn a_comparator_without_prefix(steps in vec(step(), 1..if cfg!(miri) { 15 } else { 60 })) {
        run(KeyOrder::custom(Arc::new(ByLength)), steps);
    }

    #[test]
    fn a_comparator_with_a_prefix(steps in vec(step(), 1..if cfg!(miri) { 15 } else { 60 })) {
        run(KeyOrder::custom(Arc::new(Backwards)), steps);
    }

    #[test]
    fn a_comparator_with_a_prefix_for_some_keys(steps in vec(step(), 1..if cfg!(miri) { 15 } else { 60 })) {
        run(KeyOrder::custom(Arc::new(PartlyPrefixed)), steps);
    }
}
