//! The guards of each level, and their tables.
//!
//! Invariants ([`Shape::fault`](crate::lsm::shape::Shape::fault)):
//!
//! * The guards of a level cover all keys, each key once.
//! * A key that begins a guard begins one in every deeper level (PebblesDB §3.1).
//! * The tables of a guard hold keys of its span only.

use super::tally::Tally;
use crate::lsm::hashed::Chosen;
use crate::lsm::middle::{Division, Half};
use crate::lsm::shape::{Change, Rules, Stretch, depth};
use crate::lsm::sizes::{entries_of, freeable_bytes, gain_bytes, held_bytes, stale_bytes};
use crate::lsm::state::{GroupRecord, State};
use crate::run::record::FileRecord;
use crate::run::run::Run;
use crate::sync::Arc;
use crate::types::order::KeyOrder;
use crate::types::span::Span;
use bytes::Bytes;
use std::cmp::Ordering;
use std::collections::BTreeMap;

/// Tables of a level whose keys lie in one span.
pub struct Guard {
    pub id: u64,
    pub level: u32,
    pub span: Span,
    /// Newest first.
    pub runs: Vec<Run>,
    pub tally: Tally,
    /// The place at which it may be divided, if that is known. In memory only.
    pub division: Option<Arc<Division>>,
}

/// The guards of one level, in the order of keys. The first one is the sentinel.
pub type Level = Vec<Arc<Guard>>;

/// All levels below level 0; at least one.
#[derive(Clone)]
pub struct Levels {
    pub levels: Vec<Level>,
    /// Keys that are to begin guards (PebblesDB §3.3), ascending. In memory only, and no read looks at
    /// them.
    pub uncommitted: Arc<[Chosen]>,
    /// The number of the next guard.
    next: u64,
}

/// The guard of a level that has `key`.
pub fn guard_at<'a>(order: &KeyOrder, level: &'a [Arc<Guard>], key: &[u8]) -> Option<&'a Arc<Guard>> {
    level.get(level.partition_point(|guard| !guard.span.starts_behind(order, key)).checked_sub(1)?)
}

/// The guard of a level that has the greatest keys below `key`. The first one if there are none.
pub fn guard_before<'a>(order: &KeyOrder, level: &'a [Arc<Guard>], key: &[u8]) -> Option<&'a Arc<Guard>> {
    let is_below = |guard: &Arc<Guard>| {
        guard.span.start.as_ref().is_none_or(|start| order.compare(start, key) == Ordering::Less)
    };
    level.get(level.partition_point(is_below).saturating_sub(1))
}

/// The guards of a level within a span, in order. The span begins and ends with guards.
pub fn guards_within<'a>(order: &KeyOrder, level: &'a [Arc<Guard>], span: &Span) -> &'a [Arc<Guard>] {
    let from = span.start.as_ref().map_or(0, |start| {
        level.partition_point(|guard| {
            guard.span.end.as_ref().is_some_and(|end| order.compare(end, start).is_le())
        })
    });
    let to = span.end.as_ref().map_or(level.len(), |end| {
        level.partition_point(|guard| {
            guard.span.start.as_ref().is_none_or(|start| order.compare(start, end).is_lt())
        })
    });
    level.get(from..to).unwrap_or_default()
}

impl Guard {
    pub fn new(id: u64, level: u32, span: Span, runs: Vec<Run>) -> Self {
        Self { id, level, span, runs, tally: Tally::default(), division: None }
    }

    /// Number of entries of its tables that are not dropped.
    pub fn entries(&self) -> u64 {
        self.runs.iter().map(entries_of).sum()
    }

    /// The second half of its keys, if that is known.
    pub fn half(&self) -> Option<&Half> {
        match self.division.as_deref() {
            Some(Division::At(half)) => Some(half),
            _ => None,
        }
    }

    /// Bytes that a merge could not divide.
    pub fn uncut_bytes(&self) -> u64 {
        match self.division.as_deref() {
            Some(Division::Nowhere { bytes }) => *bytes,
            _ => 0,
        }
    }

    fn record(&self) -> GroupRecord {
        GroupRecord {
            id: self.id,
            level: self.level,
            start: self.span.start.clone(),
            files: self.runs.iter().map(|run| FileRecord::of(run, &self.span)).collect(),
            ..GroupRecord::default()
        }
    }

    pub fn bytes(&self) -> u64 {
        self.runs.iter().map(Run::bytes).sum()
    }

    pub fn depth(&self, order: &KeyOrder) -> usize {
        depth(order, &self.runs)
    }

    /// Bytes of its files, of the values in logs that they refer to, and of what nobody claims any more of both.
    pub fn held_bytes(&self) -> u64 {
        held_bytes(&self.runs)
    }

    pub fn freeable_bytes(&self, oldest_snapshot: u64) -> u64 {
        freeable_bytes(&self.runs, oldest_snapshot)
    }

    pub fn gain_bytes(&self, rules: &Rules) -> u64 {
        gain_bytes(&self.runs, rules)
    }

    /// Bytes of replaced values, and of dropped ranges, that a merge of the guard would free.
    pub fn stale_bytes(&self, oldest_snapshot: u64) -> u64 {
        stale_bytes(&self.runs, oldest_snapshot)
    }
}

impl Levels {
    pub fn open(
        order: &KeyOrder,
        groups: &[GroupRecord],
        run: &mut dyn FnMut(&FileRecord, &Span) -> Run,
    ) -> Result<Self, &'static str> {
        let mut levels: Vec<Level> = Vec::new();
        for (group, span) in State::sorted(order, groups.iter())? {
            let number = group.level as usize;
            if number > levels.len() {
                levels.push(Vec::new());
            }
            let Some(level) = number.checked_sub(1).and_then(|above| levels.get_mut(above)) else {
                return Err("a level between others has no guard");
            };
            let is_within = |file: &FileRecord| {
                file.span.as_ref().is_none_or(|own| own.intersect(order, &span).as_ref() == Some(own))
            };
            if !group.files.iter().all(is_within) {
                return Err("a table lies outside of its guard");
            }
            let are_within = |file: &FileRecord| {
                let ranges = file.dropped_ranges.as_ref();
                ranges.is_none_or(|ranges| ranges.are_within(order, file.span.as_ref().unwrap_or(&span)))
            };
            if !group.files.iter().all(are_within) {
                return Err("the dropped ranges of a table are out of order, or lie outside of it");
            }
            let runs = group.files.iter().map(|file| run(file, &span)).collect();
            level.push(Arc::new(Guard::new(group.id, group.level, span, runs)));
        }
        if levels.is_empty() {
            return Err("it has no guard");
        }
        let next = groups.iter().map(|group| group.id).max().unwrap_or(0) + 1;
        let opened = Self { levels, uncommitted: Arc::default(), next };
        if !opened.is_nested(order) {
            return Err("a guard begins at a key that begins none in the next level");
        }
        Ok(opened)
    }

    /// The tables of the guards that `find` finds in each level, within the intersection of their
    /// spans.
    pub fn stretch<'a>(
        &'a self,
        order: &KeyOrder,
        find: impl Fn(&'a [Arc<Guard>]) -> Option<&'a Arc<Guard>>,
    ) -> Stretch {
        let mut stretch = Stretch { span: Span::default(), runs: Vec::new() };
        for guard in self.levels.iter().filter_map(|level| find(level)) {
            stretch.span = stretch.span.intersect(order, &guard.span).unwrap_or(stretch.span);
            stretch.runs.extend(guard.runs.iter().cloned());
        }
        stretch
    }

    pub fn guards(&self) -> impl Iterator<Item = &Arc<Guard>> {
        self.levels.iter().flatten()
    }

    /// The guards of the deepest level.
    pub fn last(&self) -> &Level {
        // There is always one level: an opening refuses none, and no move removes the only one.
        self.levels.last().unwrap_or(const { &Vec::new() })
    }

    /// The level below this one, counted from 1.
    pub fn below(&self, level: u32) -> Option<&Level> {
        self.levels.get(level as usize)
    }

    pub fn data_bytes(&self) -> u64 {
        self.guards().map(|guard| guard.bytes()).sum()
    }

    fn is_nested(&self, order: &KeyOrder) -> bool {
        let begins = |level: &Level, key: &Bytes| {
            guard_at(order, level, key).is_some_and(|guard| guard.span.start.as_ref() == Some(key))
        };
        let mut pairs = self.levels.iter().zip(self.levels.iter().skip(1));
        pairs.all(|(level, below)| {
            level.iter().filter_map(|guard| guard.span.start.as_ref()).all(|start| begins(below, start))
        })
    }

    /// The first invariant that is broken, if one is.
    pub fn find_fault(&self, order: &KeyOrder) -> Option<String> {
        for (number, level) in self.levels.iter().enumerate() {
            let starts = level.first().is_some_and(|first| first.span.start.is_none());
            let is_covered = starts && level.last().is_some_and(|last| last.span.end.is_none());
            let is_ascending = level.iter().zip(level.iter().skip(1)).all(|(a, b)| {
                a.span.end.is_some()
                    && a.span.end == b.span.start
                    && a.span.start.as_ref().is_none_or(|start| b.span.starts_behind(order, start))
            });
            if !is_covered || !is_ascending {
                return Some(format!("the guards of level {} do not cover the keys once", number + 1));
            }
            if let Some(guard) = level.iter().find(|guard| guard.level as usize != number + 1) {
                return Some(format!("guard {} is in another level", guard.id));
            }
            let is_outside = |guard: &&Arc<Guard>| {
                guard
                    .runs
                    .iter()
                    .any(|run| run.span.intersect(order, &guard.span).as_ref() != Some(&*run.span))
            };
            if let Some(guard) = level.iter().find(is_outside) {
                return Some(format!("a table of guard {} lies outside of it", guard.id));
            }
            let is_narrowed_wrongly = |run: &Run| {
                run.dropped_ranges.as_ref().is_some_and(|ranges| !ranges.are_within(order, &run.span))
            };
            if let Some(guard) = level.iter().find(|guard| guard.runs.iter().any(is_narrowed_wrongly)) {
                return Some(format!("dropped ranges of a table of guard {} are no list of it", guard.id));
            }
        }
        (!self.is_nested(order)).then(|| "guards are not nested".into())
    }
}

#[cfg(test)]
impl Levels {
    /// Makes the merge of each guard above the last level due.
    pub fn owe_above_for_test(&self) {
        let (_, above) = self.levels.split_last().unwrap();
        above.iter().flatten().for_each(|guard| guard.tally.owe(1 << 40));
    }
}

/// Levels while a job changes them.
pub struct Changing<'a> {
    pub order: &'a KeyOrder,
    pub levels: Levels,
    /// The number of a guard that a job names and that is gone, or has other runs than the job took.
    pub missed: Option<u64>,
    before: &'a Levels,
}

impl<'a> Changing<'a> {
    pub fn new(order: &'a KeyOrder, before: &'a Levels) -> Self {
        Self { order, levels: before.clone(), missed: None, before }
    }

    pub fn next_id(&mut self) -> u64 {
        self.levels.next += 1;
        self.levels.next - 1
    }

    /// Puts guards in the place of those from `place` on.
    pub fn splice(&mut self, level: usize, places: std::ops::Range<usize>, guards: Vec<Guard>) {
        if let Some(level) = self.levels.levels.get_mut(level) {
            level.splice(places, guards.into_iter().map(Arc::new));
        }
    }

    /// The level and the place of a guard.
    pub fn place_of(&self, id: u64) -> Option<(usize, usize)> {
        self.levels.levels.iter().enumerate().find_map(|(number, level)| {
            level.iter().position(|guard| guard.id == id).map(|place| (number, place))
        })
    }

    /// The level and the place of the guard that has a key.
    pub fn place_at(&self, level: u32, key: &[u8]) -> Option<(usize, usize)> {
        let number = (level as usize).checked_sub(1)?;
        let guards = self.levels.levels.get(number)?;
        let place =
            guards.partition_point(|guard| !guard.span.starts_behind(self.order, key)).checked_sub(1)?;
        Some((number, place))
    }

    /// The differences to the levels before.
    pub fn finish(self) -> Change<Levels> {
        let by_id = |levels: &Levels| -> BTreeMap<u64, Arc<Guard>> {
            levels.guards().map(|guard| (guard.id, guard.clone())).collect()
        };
        let (before, after) = (by_id(self.before), by_id(&self.levels));
        let is_same = |guard: &Arc<Guard>, other: &BTreeMap<u64, Arc<Guard>>| {
            other.get(&guard.id).is_some_and(|other| Arc::ptr_eq(guard, other))
        };
        let removed = before.values().filter(|guard| !is_same(guard, &after));
        let added = after.values().filter(|guard| !is_same(guard, &before));
        added.clone().for_each(|guard| guard.tally.settle());
        Change {
            removed: removed.map(|guard| (guard.id, guard.runs.clone())).collect(),
            added: added.map(|guard| (guard.record(), guard.runs.clone())).collect(),
            shape: self.levels,
            missed: self.missed,
        }
    }
}
