//! Compares the overlay with a map that has the writes applied.

use super::overlay::{Overlay, OverlayCursor};
use super::ranges::Ranges;
use super::read_set::{Reads, TrackedCursor};
use super::{Shared, Touched};
use crate::db::Options;
use crate::db::batch::OwnedOp;
use crate::db::handle::Db;
use crate::layout::{PairCursor, ReadSet};
use crate::sync::{Arc, Mutex};
use crate::types::bounds::Bounds;
use crate::types::error::Result;
use crate::types::order::{Comparator, KeyOrder};
use crate::types::span::{contains, is_empty_range};
use crate::vfs::MemVfs;
use bytes::Bytes;
use proptest::collection::vec;
use proptest::prelude::*;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::ops::Bound;

struct Backward;

impl Comparator for Backward {
    fn name(&self) -> &str {
        "backward"
    }
    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        b.cmp(a)
    }
}

type Pair = (Bytes, Bytes);
type Pairs = Vec<Pair>;
/// Result of a movement, and the pair under the cursor afterwards.
type Seen = (bool, Option<Pair>);

/// A cursor over sorted pairs: the snapshot, and the model of what the overlay makes of it.
struct ListCursor {
    order: KeyOrder,
    pairs: Pairs,
    at: Option<usize>,
}

impl ListCursor {
    fn new(order: &KeyOrder, mut pairs: Pairs, bounds: &Bounds) -> Self {
        pairs.retain(|(key, _)| contains(bounds, order, key));
        pairs.sort_by(|(a, _), (b, _)| order.compare(a, b));
        Self { order: order.clone(), pairs, at: None }
    }

    fn go(&mut self, to: Option<usize>) -> Result<bool> {
        self.at = to.filter(|&to| to < self.pairs.len());
        Ok(self.at.is_some())
    }
}

impl PairCursor for ListCursor {
    fn seek(&mut self, key: &[u8]) -> Result<bool> {
        self.go(Some(self.pairs.partition_point(|(other, _)| self.order.compare(other, key).is_lt())))
    }
    fn seek_to_first(&mut self) -> Result<bool> {
        self.go(Some(0))
    }
    fn seek_to_last(&mut self) -> Result<bool> {
        self.go(self.pairs.len().checked_sub(1))
    }
    fn next(&mut self) -> Result<bool> {
        self.go(self.at.map(|at| at + 1))
    }
    fn prev(&mut self) -> Result<bool> {
        self.go(self.at.and_then(|at| at.checked_sub(1)))
    }
    fn pair(&self) -> Option<(&[u8], &[u8])> {
        self.at.map(|at| (&self.pairs[at].0[..], &self.pairs[at].1[..]))
    }
}

#[derive(Debug, Clone)]
enum Move {
    Seek(u8),
    First,
    Last,
    Next,
    Prev,
}

fn moves() -> impl Strategy<Value = Vec<Move>> {
    let one = prop_oneof![
        1 => (0u8..24).prop_map(Move::Seek),
        1 => Just(Move::First),
        1 => Just(Move::Last),
        6 => Just(Move::Next),
        6 => Just(Move::Prev),
    ];
    vec(one, 1..40)
}

fn bound() -> impl Strategy<Value = Bound<Vec<u8>>> {
    prop_oneof![
        Just(Bound::Unbounded),
        (0u8..24).prop_map(|n| Bound::Included(vec![n])),
        (0u8..24).prop_map(|n| Bound::Excluded(vec![n])),
    ]
}

fn step(cursor: &mut dyn PairCursor, step: &Move) -> Seen {
    let found = match step {
        Move::Seek(key) => cursor.seek(&[*key]),
        Move::First => cursor.seek_to_first(),
        Move::Last => cursor.seek_to_last(),
        Move::Next => cursor.next(),
        Move::Prev => cursor.prev(),
    };
    assert_eq!(
        cursor.owned_pair(),
        cursor.pair().map(|(key, value)| (key.to_vec().into(), value.to_vec().into()))
    );
    (found.unwrap(), cursor.owned_pair())
}

fn one(n: u8) -> Bytes {
    Bytes::from(vec![n])
}

fn pairs(keys: &[u8], value: u8) -> Pairs {
    keys.iter().map(|&key| (one(key), one(value))).collect()
}

fn order(backward: bool) -> KeyOrder {
    if backward { KeyOrder::custom(Arc::new(Backward)) } else { KeyOrder::Bytewise }
}

#[derive(Debug, Clone)]
enum Write {
    Key(u8, Option<u8>),
    Range(Bounds),
}

fn write() -> impl Strategy<Value = Write> {
    prop_oneof![
        3 => (0u8..24, proptest::option::of(100u8..200)).prop_map(|(key, value)| Write::Key(key, value)),
        1 => (bound(), bound()).prop_map(|(start, end)| Write::Range(Bounds { start, end })),
    ]
}

fn write_of(op: &OwnedOp) -> Write {
    match &op.bounds {
        Some(bounds) => Write::Range(bounds.clone()),
        None => Write::Key(op.key[0], op.value.first().copied()),
    }
}

fn apply(pairs: &mut BTreeMap<Bytes, Bytes>, order: &KeyOrder, write: &Write) {
    match write {
        Write::Key(key, Some(value)) => drop(pairs.insert(one(*key), one(*value))),
        Write::Key(key, None) => drop(pairs.remove(&one(*key))),
        Write::Range(bounds) => pairs.retain(|key, _| !contains(bounds, order, key)),
    }
}

/// The effect of the last write that concerns the key.
fn last_write(writes: &[Write], order: &KeyOrder, key: u8) -> Option<Option<Bytes>> {
    writes.iter().rev().find_map(|write| match write {
        Write::Key(written, value) => (*written == key).then(|| value.map(one)),
        Write::Range(bounds) => contains(bounds, order, &[key]).then_some(None),
    })
}

proptest! {
    #[test]
    fn ranges_that_are_added_become_a_union(
        added in vec((bound(), bound()), 0..12),
        backward: bool,
    ) {
        let order = order(backward);
        let added: Vec<Bounds> = added.into_iter().map(|(start, end)| Bounds { start, end }).collect();
        let mut ranges = Ranges::default();
        added.iter().for_each(|bounds| ranges.add(&order, bounds.clone()));
        // Between two keys of one byte there are keys of two bytes.
        let keys = (0u8..24).flat_map(|key| [vec![key], vec![key, 7]]);
        for key in keys {
            let within = added.iter().any(|bounds| contains(bounds, &order, &key));
            let found = ranges.find(&order, &key);
            prop_assert_eq!(found.is_some(), within, "{:?}", key);
            prop_assert!(found.is_none_or(|range| contains(range, &order, &key)));
        }
        for range in ranges.as_slice() {
            prop_assert!(!is_empty_range(&order, range));
        }
        for pair in ranges.as_slice().windows(2) {
            let between = Bounds { start: flip(&pair[0].end), end: flip(&pair[1].start) };
            prop_assert!(!is_empty_range(&order, &between), "they ascend and lie apart: {:?}", pair);
        }
    }

    #[test]
    fn an_overlay_shows_what_a_map_with_the_writes_would(
        base in vec(0u8..24, 0..16),
        writes in vec(write(), 0..16),
        (start, end) in (bound(), bound()),
        moves in moves(),
        backward: bool,
    ) {
        let (order, bounds) = (order(backward), Bounds { start, end });
        let mut base = pairs(&base, 1);
        base.sort();
        base.dedup();
        let mut overlay = Overlay::new(order.clone());
        let mut all: BTreeMap<Bytes, Bytes> = base.iter().cloned().collect();
        for write in &writes {
            match write {
                Write::Key(key, value) => overlay.set(one(*key), value.map(one)),
                Write::Range(bounds) => overlay.delete_range(bounds.clone()),
            }
            apply(&mut all, &order, write);
        }
        for key in 0u8..24 {
            prop_assert_eq!(overlay.get(&[key]), last_write(&writes, &order, key));
        }
        // The combined effect of the operations, whatever other writers have done meanwhile.
        let ops = overlay.ops();
        for others in [0..0, 0..24] {
            let others: BTreeMap<Bytes, Bytes> = others.map(|key| (one(key), one(2))).collect();
            let (mut committed, mut expected) = (others.clone(), others);
            ops.iter().for_each(|op| apply(&mut committed, &order, &write_of(op)));
            writes.iter().for_each(|write| apply(&mut expected, &order, write));
            prop_assert_eq!(committed, expected, "after {:?}", &ops);
        }
        let mut points: Vec<&Bytes> = ops.iter().filter(|op| op.bounds.is_none()).map(|op| &op.key).collect();
        let count = points.len();
        points.dedup();
        prop_assert_eq!(points.len(), count, "a key is written twice");
        let mut model = ListCursor::new(&order, all.into_iter().collect(), &bounds);
        let below = Box::new(ListCursor::new(&order, base, &bounds));
        let mut cursor = OverlayCursor::new(below, Arc::new(overlay), bounds);
        for (index, movement) in moves.iter().enumerate() {
            prop_assert_eq!(step(&mut cursor, movement), step(&mut model, movement), "after {} moves", index);
        }
    }

    /// The results depend on the keys that count as read, and on no other keys.
    #[test]
    fn what_counts_as_read_is_what_the_moves_depend_on(
        base in vec(0u8..24, 0..16),
        (start, end) in (bound(), bound()),
        moves in moves(),
        backward: bool,
    ) {
        let (order, bounds) = (order(backward), Bounds { start, end });
        let walk = |base: Pairs| -> (Vec<Seen>, ReadSet) {
            let shared = shared_for_test();
            let below = Box::new(ListCursor::new(&order, base, &bounds));
            let mut cursor = TrackedCursor::new(below, shared.clone(), 0, order.clone(), bounds.clone());
            let seen = moves.iter().map(|movement| step(&mut cursor, movement)).collect();
            let read = shared.touched.lock();
            (seen, read.as_ref().unwrap()[0].reads.to_read_set(&order))
        };
        let base: std::collections::BTreeSet<u8> = base.into_iter().collect();
        let (seen, read) = walk(pairs(&base.iter().copied().collect::<Vec<_>>(), 1));
        for spans in read.spans.windows(2) {
            let between = Bounds { start: flip(&spans[0].end), end: flip(&spans[1].start) };
            prop_assert!(!is_empty_range(&order, &between), "spans ascend and lie apart: {:?}", spans);
        }
        for key in 0u8..24 {
            let mut changed = base.clone();
            if !changed.remove(&key) {
                changed.insert(key);
            }
            let counts = read.spans.iter().any(|span| contains(span, &order, &[key]));
            if !counts {
                let (seen_then, _) = walk(pairs(&changed.iter().copied().collect::<Vec<_>>(), 1));
                prop_assert_eq!(&seen_then, &seen, "{} was read unnoticed", key);
            }
        }
        // And not everything counts: nothing but gaps next to a place where the cursor stood.
        if let [Move::First, rest @ ..] = &moves[..]
            && rest.iter().all(|movement| matches!(movement, Move::Next))
        {
            let stood = seen.iter().filter_map(|(_, pair)| pair.as_ref()).map(|(key, _)| key).next_back();
            if let (Some(last), true) = (stood, seen.iter().all(|(found, _)| *found)) {
                prop_assert_eq!(&read.spans[0].end, &Bound::Included(last.to_vec()));
            }
        }
    }
}

fn flip(bound: &Bound<Vec<u8>>) -> Bound<Vec<u8>> {
    match bound {
        Bound::Included(key) => Bound::Excluded(key.clone()),
        Bound::Excluded(key) => Bound::Included(key.clone()),
        Bound::Unbounded => Bound::Unbounded,
    }
}

fn shared_for_test() -> Arc<Shared> {
    thread_local! {
        static DB: Db = Options::new().vfs(Arc::new(MemVfs::new())).open("store").unwrap();
    }
    let keyspace = DB.with(|db| db.own().clone());
    let touched = Touched { keyspace, reads: Reads::default(), writes: Arc::default() };
    Arc::new(Shared { touched: Mutex::new(Some(vec![touched])) })
}
