//! The overlay beside a map that has everything in it.

use super::overlay::{Overlay, OverlayCursor};
use super::read_set::{Reads, TrackedCursor};
use super::{Shared, Touched};
use crate::bounds::Bounds;
use crate::db::handle::Db;
use crate::error::Result;
use crate::layout::{PairCursor, ReadSet};
use crate::options::Options;
use crate::order::{Comparator, KeyOrder};
use crate::span::is_empty_range;
use crate::sync::{Arc, Mutex};
use crate::vfs::MemVfs;
use bytes::Bytes;
use proptest::collection::vec;
use proptest::prelude::*;
use std::cmp::Ordering;
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
/// What a movement said, and what was under the cursor then.
type Seen = (bool, Option<Pair>);

/// A cursor over sorted pairs: the snapshot, and the model of what the overlay makes of it.
struct ListCursor {
    order: KeyOrder,
    pairs: Pairs,
    at: Option<usize>,
}

impl ListCursor {
    fn new(order: &KeyOrder, mut pairs: Pairs, bounds: &Bounds) -> Self {
        pairs.retain(|(key, _)| crate::span::contains(bounds, order, key));
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
    if backward { KeyOrder::Custom(Arc::new(Backward)) } else { KeyOrder::Bytewise }
}

proptest! {
    #[test]
    fn an_overlay_shows_what_a_map_with_the_writes_would(
        base in vec(0u8..24, 0..16),
        writes in vec((0u8..24, proptest::option::of(100u8..200)), 0..16),
        (start, end) in (bound(), bound()),
        moves in moves(),
        backward: bool,
    ) {
        let (order, bounds) = (order(backward), Bounds { start, end });
        let mut base = pairs(&base, 1);
        base.sort();
        base.dedup();
        let mut overlay = Overlay::new(order.clone());
        let mut all: std::collections::BTreeMap<Bytes, Bytes> = base.iter().cloned().collect();
        for (key, value) in &writes {
            overlay.set(one(*key), value.map(one));
            match value {
                Some(value) => drop(all.insert(one(*key), one(*value))),
                None => drop(all.remove(&one(*key))),
            }
        }
        for key in 0u8..24 {
            let last = writes.iter().rev().find(|(written, _)| *written == key);
            prop_assert_eq!(overlay.get(&[key]).cloned(), last.map(|(_, value)| value.map(one)));
        }
        let mut model = ListCursor::new(&order, all.into_iter().collect(), &bounds);
        let below = Box::new(ListCursor::new(&order, base, &bounds));
        let mut cursor = OverlayCursor::new(below, Arc::new(overlay), bounds);
        for (index, movement) in moves.iter().enumerate() {
            prop_assert_eq!(step(&mut cursor, movement), step(&mut model, movement), "after {} moves", index);
        }
    }

    /// What was seen depends on the keys that count as read, and on no other.
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
            let read = shared.read.lock();
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
            let counts = read.spans.iter().any(|span| crate::span::contains(span, &order, &[key]));
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
    Arc::new(Shared { read: Mutex::new(Some(vec![Touched { keyspace, reads: Reads::default() }])) })
}
