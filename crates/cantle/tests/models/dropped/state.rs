//! The runs of the model's guards and what reads of them find: gets, and a repair without a manifest.

use super::Done;
use crate::run::dropped_ranges::DroppedRanges;
use crate::types::order::KeyOrder;
use crate::types::span::Span;
use shuttle::rand::{RngCore, thread_rng};
use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;

pub const KEYS: usize = 4;
/// One guard of level 1, two of level 2, two of level 3.
pub const GUARDS: usize = 5;
pub const ORDER: KeyOrder = KeyOrder::Bytewise;

pub fn level_of(guard: usize) -> usize {
    1 + guard.div_ceil(2)
}

pub fn keys_of(guard: usize) -> Range<usize> {
    match guard {
        0 => 0..KEYS,
        1 | 3 => 0..KEYS / 2,
        _ => KEYS / 2..KEYS,
    }
}

/// The guards that a merge of this guard puts runs into.
pub fn below(guard: usize) -> Vec<usize> {
    match guard {
        0 => vec![1, 2],
        1 | 2 => vec![guard + 2],
        _ => vec![guard],
    }
}

pub fn span(keys: Range<usize>) -> Span {
    Span { start: Some(vec![keys.start as u8].into()), end: Some(vec![keys.end as u8].into()) }
}

/// A put or a range delete.
#[derive(Debug, Clone)]
pub struct Write {
    pub keys: Range<usize>,
    pub deletes: bool,
}

impl Write {
    pub fn any(deletes: bool) -> Self {
        let draw = |count: usize| thread_rng().next_u64() as usize % count;
        let start = draw(KEYS);
        Self { keys: start..start + 1 + draw(KEYS - start), deletes }
    }
}

/// Versions, newest first.
pub type Versions = Vec<u64>;

#[derive(Debug, Clone, Default)]
pub struct Run {
    pub file: u64,
    pub keys: Range<usize>,
    pub puts: [Versions; KEYS],
    pub deletes: [Versions; KEYS],
    /// The number, by key, of the newest log whose operations it has.
    pub ages: [u64; KEYS],
    /// Files with a lower number count no more if their age is at most this; 0 if it replaces none.
    pub replaced: [u64; KEYS],
    /// The version from which on nothing is left of it.
    pub dropped: Option<u64>,
    pub dropped_ranges: Option<std::sync::Arc<DroppedRanges>>,
}

/// The newest word of a run about a key, up to a version.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Found {
    Put(u64),
    Deleted(u64),
}

pub fn newest(versions: &[u64], at: u64) -> Option<u64> {
    versions.iter().copied().find(|version| *version <= at)
}

impl Run {
    /// The run of one write, with an age.
    pub fn of(write: &Write, version: u64, keys: Range<usize>, age: u64) -> Self {
        let versions = |key: usize| match write.keys.contains(&key) && keys.contains(&key) {
            true => vec![version],
            false => Vec::new(),
        };
        let all = std::array::from_fn(versions);
        let (puts, deletes) =
            if write.deletes { (Default::default(), all) } else { (all, Default::default()) };
        let ages = only(keys.clone(), |_| age);
        Self { puts, deletes, ages, ..Self::default() }.with_keys_of(&keys)
    }

    /// The words and statements of another run about some keys.
    pub fn part(&self, keys: &Range<usize>) -> Self {
        let (puts, deletes) = (
            only(keys.clone(), |key| self.puts[key].clone()),
            only(keys.clone(), |key| self.deletes[key].clone()),
        );
        let (ages, replaced) =
            (only(keys.clone(), |key| self.ages[key]), only(keys.clone(), |key| self.replaced[key]));
        Self { puts, deletes, ages, replaced, ..Self::default() }.with_keys_of(keys)
    }

    /// With the keys from its first word to its last one; with these if it has none.
    pub fn with_keys_of(mut self, keys: &Range<usize>) -> Self {
        let has = |key: &usize| !self.puts[*key].is_empty() || !self.deletes[*key].is_empty();
        let (first, last) = ((0..KEYS).find(has), (0..KEYS).rfind(has));
        self.keys = first.zip(last).map_or(keys.clone(), |(first, last)| first..last + 1);
        self
    }

    pub fn is_empty_table(&self) -> bool {
        self.puts.iter().chain(&self.deletes).all(Vec::is_empty)
    }

    pub fn replaces(&self) -> bool {
        self.replaced.iter().any(|replaced| *replaced > 0)
    }

    /// True if a table says that this file counts no more for a key.
    pub fn is_replaced(&self, key: usize, by: &Run) -> bool {
        self.file < by.file && self.ages[key] <= by.replaced[key]
    }

    /// `Run::is_visible` and `Run::is_dropped_at`.
    pub fn is_dropped_at(&self, key: usize, at: u64) -> bool {
        let range = self.dropped_ranges.as_ref().and_then(|ranges| ranges.at(&ORDER, &[key as u8]));
        let by_range = range.map(|range| range.version);
        self.dropped.into_iter().chain(by_range).any(|version| version <= at)
    }

    pub fn find(&self, key: usize, at: u64) -> Option<Found> {
        if self.is_dropped_at(key, at) {
            return None;
        }
        let (put, deleted) = (newest(&self.puts[key], at), newest(&self.deletes[key], at));
        match put > deleted {
            true => put.map(Found::Put),
            false => deleted.map(Found::Deleted),
        }
    }
}

/// The newest word of some runs, which are given newest first, about a key, up to a version.
pub fn find<'a>(runs: impl IntoIterator<Item = &'a Run>, key: usize, at: u64) -> Option<Found> {
    runs.into_iter().filter(|run| run.keys.contains(&key)).find_map(|run| run.find(key, at))
}

/// The results of a function for some keys, and nothing for the others.
pub fn only<T: Default>(keys: Range<usize>, of: impl Fn(usize) -> T) -> [T; KEYS] {
    std::array::from_fn(|key| if keys.contains(&key) { of(key) } else { T::default() })
}

#[derive(Default)]
pub struct State {
    /// The runs of each guard, newest first.
    pub guards: [Vec<Run>; GUARDS],
    /// The first write has version 1.
    pub writes: Vec<Write>,
    /// The versions of open snapshots, ascending.
    pub snapshots: Vec<u64>,
    pub files: u64,
    /// Replaced files that are still in the directory.
    pub left: Vec<Run>,
}

impl State {
    /// The number of the newest write.
    pub fn newest(&self) -> u64 {
        self.writes.len() as u64
    }

    pub fn new_file(&mut self) -> u64 {
        self.files += 1;
        self.files
    }

    pub fn expected(&self, key: usize, at: u64) -> Option<u64> {
        let writes = self
            .writes
            .iter()
            .zip(1..)
            .filter(|(write, version)| *version <= at && write.keys.contains(&key));
        writes.last().and_then(|(write, version)| (!write.deletes).then_some(version))
    }

    pub fn check_at(&self, at: u64, done: &Done) {
        for key in 0..KEYS {
            let found = match find(self.guards.iter().flatten(), key, at) {
                Some(Found::Put(version)) => Some(version),
                _ => None,
            };
            let expected = self.expected(key, at);
            assert_eq!(found, expected, "broken: key {key} at {at} in {:#?}", self.guards);
            let of_range = |run: &Run| {
                run.is_dropped_at(key, u64::MAX) && matches!(run.find(key, at), Some(Found::Put(_)))
            };
            done.older_reads.fetch_add(
                usize::from(found.is_some() && self.guards.iter().flatten().any(of_range)),
                Relaxed,
            );
        }
    }

    /// Files with a lower number that were replaced have gone.
    pub fn settled(&self) -> u64 {
        self.left.iter().map(|run| run.file).min().unwrap_or(u64::MAX)
    }

    /// Gets as a repair without a manifest answers them.
    pub fn check_repair(&self, done: &Done) {
        let files = || self.guards.iter().flatten().chain(&self.left);
        for key in 0..KEYS {
            let (replaced, mut counting): (Vec<&Run>, Vec<&Run>) =
                files().partition(|run| files().any(|by| run.is_replaced(key, by)));
            done.replaced.fetch_add(replaced.len(), Relaxed);
            counting.sort_by_key(|run| std::cmp::Reverse(run.ages[key]));
            let plain = |run: &Run| Run { dropped: None, dropped_ranges: None, ..run.clone() };
            let found = counting.into_iter().find_map(|run| plain(run).find(key, u64::MAX));
            let found = found.and_then(|found| match found {
                Found::Put(version) => Some(version),
                Found::Deleted(_) => None,
            });
            let expected = self.expected(key, self.newest());
            let (guards, left) = (&self.guards, &self.left);
            assert_eq!(found, expected, "broken: repair of key {key} in {guards:#?} with {left:#?}");
        }
    }

    /// Gets at each version that somebody may read at, and those after a repair.
    pub fn check(&self, done: &Done) {
        self.check_repair(done);
        for &at in self.snapshots.iter().chain([&self.newest()]) {
            self.check_at(at, done);
        }
    }
}
