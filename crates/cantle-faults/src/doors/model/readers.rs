//! Snapshots, ranges and cursors that stay open while the store changes.

use super::config::Config;
use super::keys::Keys;
use super::random::Random;
use super::state::{Pair, Space, State, show};
use super::totals::Totals;
use crate::layouts::OfChunk;
use cantle::{Cursor, Db, Key, Range, Snapshot, Value};
use std::collections::VecDeque;
use std::ops::Bound;

/// The same operation on the default keyspace through its store or snapshot, or on a named one.
macro_rules! snapshot_or_in {
    ($snapshot:expr, $space:expr, $read:ident, $($argument:expr),*) => {
        match &$space.handle {
            Some(keyspace) => $snapshot.keyspace(keyspace).$read($($argument),*),
            None => $snapshot.$read($($argument),*),
        }
    };
}

/// A snapshot, the state that it must see, and the iterators that were opened on it.
pub struct Held {
    snapshot: Snapshot,
    state: State,
    ranges: Vec<HeldRange>,
    cursors: Vec<HeldCursor>,
    /// Number of moves when the snapshot was taken ([`moves`]).
    pub moves: u64,
}

/// Number of times that data which iterators read were moved.
pub fn moves(db: &Db) -> u64 {
    db.stats()
        .keyspaces
        .iter()
        .map(|it| it.of_chunk().rebalances + it.of_chunk().splits + it.of_chunk().merges)
        .sum()
}

impl Held {
    pub fn new(snapshot: Snapshot, state: State, moves: u64) -> Self {
        Self { snapshot, state, ranges: Vec::new(), cursors: Vec::new(), moves }
    }

    /// Makes one random check.
    pub fn step(&mut self, random: &mut Random, config: &Config, totals: &mut Totals) {
        let names: Vec<_> = self.state.keys().cloned().collect();
        let name = random.pick(&names);
        let (space, keys) = (&self.state[&name], config.space(&name).1);
        match random.below(13) {
            12 => {
                let wanted = keys.batch(random);
                let found = match random.chance(50) {
                    true => of_values(snapshot_or_in!(self.snapshot, space, get_many, &wanted)),
                    false => of_calls(wanted.len(), |read| {
                        snapshot_or_in!(self.snapshot, space, get_many_with, &wanted, read)
                    }),
                };
                assert_eq!(check_batch(&name, space, &wanted, &found), 0, "{name}: {found:?}");
                totals.batches_on_snapshots += 1;
            }
            0..4 => {
                let key = keys.key(random);
                let expected = space.get(&key);
                let found = match random.below(3) {
                    0 => snapshot_or_in!(self.snapshot, space, get, &key).unwrap().map(|v| v.to_vec()),
                    1 => snapshot_or_in!(self.snapshot, space, get_with, &key, <[u8]>::to_vec).unwrap(),
                    _ => {
                        let found = snapshot_or_in!(self.snapshot, space, contains_key, &key);
                        assert_eq!(found.unwrap(), expected.is_some(), "snapshot: {name}: {}", show(&key));
                        return;
                    }
                };
                assert_same_value(&name, &key, found.as_deref(), expected.as_deref());
            }
            4 => {
                let prefix = keys.prefix(random);
                let range = snapshot_or_in!(self.snapshot, space, prefix, &prefix);
                HeldRange::new(range, space.prefix(&prefix)).finish(random);
            }
            5 => {
                let bounds = keys.bounds(space.order, random);
                let range = snapshot_or_in!(self.snapshot, space, range, bounds.clone());
                let held = HeldRange::new(range, space.range(&bounds));
                if random.chance(50) {
                    held.finish(random);
                } else {
                    self.ranges.push(held);
                }
            }
            6 => {
                let bounds = if random.chance(50) {
                    keys.bounds(space.order, random)
                } else {
                    (Bound::Unbounded, Bound::Unbounded)
                };
                let cursor = snapshot_or_in!(self.snapshot, space, cursor, bounds.clone());
                self.cursors.push(HeldCursor::new(cursor, space.range(&bounds), keys));
            }
            7..9 if !self.ranges.is_empty() => {
                let at = random.below(self.ranges.len());
                if random.chance(10) {
                    self.ranges.swap_remove(at).finish(random);
                } else {
                    let steps = random.below(20);
                    self.ranges[at].advance(random, steps);
                }
            }
            9..12 if !self.cursors.is_empty() => {
                let at = random.below(self.cursors.len());
                for _ in 0..random.below(12) {
                    self.cursors[at].step(random);
                }
                if random.chance(5) {
                    self.cursors.swap_remove(at);
                }
            }
            _ => {}
        }
    }

    /// Checks the whole state that the snapshot must see.
    pub fn check_all(self, random: &mut Random) {
        for (name, space) in &self.state {
            let range = snapshot_or_in!(self.snapshot, space, range, ..);
            assert!(format!("{name} {range:?}").len() > name.len());
            HeldRange::new(range, space.range(&(Bound::Unbounded, Bound::Unbounded))).finish(random);
        }
        for range in self.ranges {
            range.finish(random);
        }
    }
}

/// A range, and the pairs that it has not yet returned.
pub struct HeldRange {
    range: Range,
    expected: VecDeque<Pair>,
}

impl HeldRange {
    pub fn new(range: Range, expected: Vec<Pair>) -> Self {
        Self { range, expected: expected.into() }
    }

    pub fn advance(&mut self, random: &mut Random, steps: usize) {
        for _ in 0..steps {
            let back = random.chance(40);
            self.pull(back);
        }
    }

    /// Reads the rest: forward, backward, or from both ends in turn.
    pub fn finish(mut self, random: &mut Random) {
        let back = random.pick(&[0, 100, 50]);
        while !self.expected.is_empty() {
            let back = random.chance(back);
            self.pull(back);
        }
        self.pull(false);
        self.pull(true);
    }

    fn pull(&mut self, back: bool) {
        let (found, expected) = if back {
            (self.range.next_back(), self.expected.pop_back())
        } else {
            (self.range.next(), self.expected.pop_front())
        };
        assert_same_pair(found.map(Result::unwrap), expected.as_ref(), back);
    }
}

/// A cursor, its pairs, and its position.
pub struct HeldCursor {
    cursor: Cursor,
    pairs: Vec<Pair>,
    at: Option<usize>,
    keys: Keys,
}

impl HeldCursor {
    pub fn new(cursor: Cursor, pairs: Vec<Pair>, keys: Keys) -> Self {
        Self { cursor, pairs, at: None, keys }
    }

    pub fn step(&mut self, random: &mut Random) {
        let what = random.below(20);
        let (found, at) = match what {
            0 => (self.cursor.seek_to_first(), (!self.pairs.is_empty()).then_some(0)),
            1 => (self.cursor.seek_to_last(), self.pairs.len().checked_sub(1)),
            2..6 => {
                let key = match self.pairs.get(random.below(self.pairs.len())) {
                    Some((key, _)) if random.chance(50) => key.bytes.to_vec(),
                    _ => self.keys.key(random),
                };
                let first = self.pairs.partition_point(|(other, _)| {
                    other.order.cmp(&other.bytes, &key) == std::cmp::Ordering::Less
                });
                (self.cursor.seek(&key), (first < self.pairs.len()).then_some(first))
            }
            6..14 => (self.cursor.next(), self.at.map(|at| at + 1).filter(|&at| at < self.pairs.len())),
            _ => (self.cursor.prev(), self.at.and_then(|at| at.checked_sub(1))),
        };
        self.at = at;
        let expected = at.map(|at| &self.pairs[at]);
        assert_eq!(
            found.unwrap(),
            expected.is_some(),
            "cursor: movement {what} to {at:?} of {}",
            self.pairs.len()
        );
        assert_eq!(
            self.cursor.key(),
            expected.map(|(key, _)| &key.bytes[..]),
            "cursor: movement {what} to {at:?}"
        );
        assert!(
            self.cursor.value() == expected.map(|(_, value)| &value[..]),
            "cursor: value after {what} at {at:?}"
        );
    }
}

pub fn assert_same_value(name: &str, key: &[u8], found: Option<&[u8]>, expected: Option<&[u8]>) {
    assert!(
        found == expected,
        "{name}: {}: found {:?}, not {:?}",
        show(key),
        found.map(show),
        expected.map(show)
    );
}

/// The results of a store for the keys of a batch, in their order.
pub type Found = Vec<cantle::Result<Option<Vec<u8>>>>;

/// The results of `get_many`.
pub fn of_values(found: Vec<cantle::Result<Option<Value>>>) -> Found {
    found.into_iter().map(|found| found.map(|value| value.map(Vec::from))).collect()
}

/// The results that `get_many_with` passes to the function that `read` gets: one for each key.
pub fn of_calls(
    keys: usize,
    read: impl FnOnce(&mut dyn FnMut(usize, cantle::Result<Option<&[u8]>>)),
) -> Found {
    let mut found: Vec<Option<cantle::Result<Option<Vec<u8>>>>> = vec![None; keys];
    read(&mut |number, value| {
        let before = found[number].replace(value.map(|value| value.map(<[u8]>::to_vec)));
        assert!(before.is_none(), "key {number} of {keys} has two results");
    });
    found.into_iter().map(|found| found.expect("a result for each key")).collect()
}

/// Checks the results of a batch. Returns the number of keys that failed.
pub fn check_batch(name: &str, space: &Space, keys: &[Vec<u8>], found: &Found) -> u64 {
    assert_eq!(found.len(), keys.len(), "{name}: results of a batch");
    let mut failed = 0;
    for (key, found) in keys.iter().zip(found) {
        match found {
            Ok(found) => assert_same_value(name, key, found.as_deref(), space.get(key).as_deref()),
            Err(error) => {
                assert!(!error.is_corruption(), "{name}: {}: {error}", show(key));
                failed += 1;
            }
        }
    }
    failed
}

pub fn assert_same_pair(found: Option<(Key, Value)>, expected: Option<&Pair>, back: bool) {
    let found = found.as_ref().map(|(key, value)| (&key[..], &value[..]));
    let expected = expected.map(|(key, value)| (&key.bytes[..], &value[..]));
    assert!(
        found == expected,
        "a pair (back: {back}): found {:?}, not {:?}",
        found.map(|(key, value)| (show(key), show(value))),
        expected.map(|(key, value)| (show(key), show(value)))
    );
}

/// Reads the whole store.
pub fn read_all(db: &Db, config: &Config) -> State {
    let mut state = State::new();
    for name in db.keyspaces().unwrap() {
        let order = config.space(&name).0;
        let keyspace = db.keyspace_with(&name, config.plain(&name)).unwrap();
        let mut space = Space::new(order, Some(keyspace.clone()));
        space.metadata = keyspace.metadata();
        let map: super::state::Map = keyspace
            .range(..)
            .map(Result::unwrap)
            .map(|(key, value)| (space.key(&key), value[..].into()))
            .collect();
        space.map = map.into();
        state.insert(name, space);
    }
    state
}
