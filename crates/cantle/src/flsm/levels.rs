//! The guards of each level, and their tables.
//!
//! Invariants ([`Shape::fault`]):
//!
//! * The guards of a level cover all keys, each key once.
//! * The tables of a guard hold keys of its span only.

use crate::lsm::shape::{Cuts, Group, Job, Logs, Placed, Rules, Shape, Stretch};
use crate::lsm::state::{GroupRecord, State};
use crate::run::record::FileRecord;
use crate::run::run::{Run, Source};
use crate::sync::Arc;
use crate::types::bounds::Bounds;
use crate::types::order::KeyOrder;
use crate::types::span::Span;
use bytes::Bytes;
use std::cmp::Ordering;

pub struct Guard {
    pub id: u64,
    pub level: u32,
    pub span: Span,
    /// Newest first.
    pub runs: Vec<Run>,
}

/// All levels below level 0.
#[derive(Clone)]
pub struct Levels {
    /// Each level's guards in the order of keys. No level is empty.
    pub levels: Vec<Vec<Arc<Guard>>>,
    /// The number of the next guard.
    next: u64,
}

/// The guard of a level that has `key`.
fn guard_at<'a>(order: &KeyOrder, level: &'a [Arc<Guard>], key: &[u8]) -> Option<&'a Arc<Guard>> {
    level.get(level.partition_point(|guard| !guard.span.starts_behind(order, key)).checked_sub(1)?)
}

/// The guard of a level that has the greatest keys below `key`.
fn guard_before<'a>(order: &KeyOrder, level: &'a [Arc<Guard>], key: &[u8]) -> Option<&'a Arc<Guard>> {
    let is_below = |guard: &Arc<Guard>| {
        guard.span.start.as_ref().is_none_or(|start| order.compare(start, key) == Ordering::Less)
    };
    level.get(level.partition_point(is_below).checked_sub(1)?)
}

impl Guard {
    fn record(&self) -> GroupRecord {
        GroupRecord {
            id: self.id,
            level: self.level,
            start: self.span.start.clone(),
            files: self.runs.iter().map(|run| FileRecord::of(run, &self.span)).collect(),
        }
    }

    /// A table of a merge, as a run of this guard.
    fn run_of(&self, placed: &Placed) -> Run {
        Run {
            source: Source::Table(placed.output.table.clone()),
            span: Arc::new(self.span.clone()),
            dropped: None,
            share_bytes: None,
        }
    }

    pub fn bytes(&self) -> u64 {
        self.runs.iter().map(Run::bytes).sum()
    }
}

impl Levels {
    /// The tables of the guards that `find` finds in each level, within the intersection of their
    /// spans.
    fn stretch<'a>(
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

    fn guard(&self, id: u64) -> Option<&Arc<Guard>> {
        self.guards().find(|guard| guard.id == id)
    }

    /// The guards that come of one whose tables were merged into tables cut at any keys.
    fn recut(&mut self, guard: &Guard, merged: usize, placed: &[Placed]) -> Vec<Guard> {
        let rest = &guard.runs[merged..];
        let starts = placed.iter().skip(1).map(|placed| placed.output.start.clone());
        let starts: Vec<Bytes> = starts.flatten().collect();
        if !rest.is_empty() || starts.is_empty() {
            let runs = placed.iter().map(|placed| guard.run_of(placed)).chain(rest.iter().cloned()).collect();
            return vec![Guard { id: guard.id, level: guard.level, span: guard.span.clone(), runs }];
        }
        let firsts = std::iter::once(guard.span.start.clone()).chain(starts.iter().cloned().map(Some));
        let lasts = starts.iter().cloned().map(Some).chain([guard.span.end.clone()]);
        let spans = firsts.zip(lasts).map(|(start, end)| Span { start, end });
        let mut guards = Vec::with_capacity(placed.len());
        for (span, placed) in spans.zip(placed) {
            let mut new = Guard { id: self.next, level: guard.level, span, runs: Vec::new() };
            new.runs.push(new.run_of(placed));
            self.next += 1;
            guards.push(new);
        }
        guards
    }

    /// Puts guards in the place of the one with this number.
    fn replace(&mut self, id: u64, guards: Vec<Guard>) {
        for level in &mut self.levels {
            if let Some(place) = level.iter().position(|guard| guard.id == id) {
                level.splice(place..=place, guards.into_iter().map(Arc::new));
                return;
            }
        }
    }
}

impl Shape for Levels {
    fn open(
        order: &KeyOrder,
        groups: Vec<GroupRecord>,
        run: &mut dyn FnMut(&FileRecord, &Span) -> Run,
    ) -> Result<Self, &'static str> {
        let mut levels: Vec<Vec<Arc<Guard>>> = Vec::new();
        for (group, span) in State::sorted(order, groups.iter())? {
            let number = group.level as usize;
            if number > levels.len() {
                levels.push(Vec::new());
            }
            let Some(level) = number.checked_sub(1).and_then(|below| levels.get_mut(below)) else {
                return Err("a level between others has no guard");
            };
            let is_within = |file: &FileRecord| {
                file.span.as_ref().is_none_or(|own| own.intersect(order, &span).as_ref() == Some(own))
            };
            if !group.files.iter().all(is_within) {
                return Err("a table lies outside of its guard");
            }
            let runs = group.files.iter().map(|file| run(file, &span)).collect();
            level.push(Arc::new(Guard { id: group.id, level: group.level, span, runs }));
        }
        if levels.is_empty() {
            return Err("it has no guard");
        }
        let next = groups.iter().map(|group| group.id).max().unwrap_or(0) + 1;
        Ok(Self { levels, next })
    }

    fn runs_at<'a>(&'a self, order: &'a KeyOrder, key: &'a [u8]) -> impl Iterator<Item = &'a Run> {
        self.levels.iter().filter_map(move |level| guard_at(order, level, key)).flat_map(|guard| &guard.runs)
    }

    fn stretch_at(&self, order: &KeyOrder, key: Option<&[u8]>) -> Stretch {
        self.stretch(order, |level| key.map_or(level.first(), |key| guard_at(order, level, key)))
    }

    fn stretch_before(&self, order: &KeyOrder, key: Option<&[u8]>) -> Stretch {
        // Below the smallest key there is nothing; the first guard has nothing to show there.
        let find = |level| key.map_or_else(|| last(level), |key| guard_before(order, level, key));
        self.stretch(order, |level| find(level).or(level.first()))
    }

    fn groups(&self) -> impl Iterator<Item = Group<'_>> {
        self.guards().map(|guard| Group { level: guard.level, span: &guard.span, runs: &guard.runs })
    }

    fn pick(&self, rules: &Rules) -> Option<Job> {
        self.pick_guard(rules)
    }

    fn take_logs(&self, order: &KeyOrder, rules: &Rules, logs: &Logs<'_>) -> Job {
        self.append_fragments(order, rules, logs)
    }

    fn sort_within(&self, order: &KeyOrder, rules: &Rules, bounds: &Bounds) -> Option<Job> {
        let within = |guard: &&Arc<Guard>| guard.runs.len() > 1 && guard.span.overlaps(order, bounds);
        self.guards().find(within).map(|guard| guard.merge(guard.runs.len(), rules))
    }

    fn after(&self, job: &Job, outputs: &[Vec<Placed>]) -> (Self, Vec<u64>, Vec<GroupRecord>) {
        let mut after = self.clone();
        let (mut removed, mut added) = (Vec::new(), Vec::new());
        for (piece, placed) in job.pieces.iter().zip(outputs) {
            for (number, &id) in piece.groups.iter().enumerate() {
                let Some(guard) = self.guard(id) else { continue };
                let guards = match &piece.cuts {
                    Cuts::Near(_) => after.recut(guard, piece.tables.len(), placed),
                    Cuts::At(_) => {
                        let fragment = placed.iter().filter(|placed| placed.group == number);
                        let runs = fragment.map(|placed| guard.run_of(placed));
                        let runs: Vec<Run> = runs.chain(guard.runs.iter().cloned()).collect();
                        if runs.len() == guard.runs.len() {
                            continue;
                        }
                        let Guard { id, level, ref span, .. } = **guard;
                        vec![Guard { id, level, span: span.clone(), runs }]
                    }
                };
                removed.push(id);
                added.extend(guards.iter().map(Guard::record));
                after.replace(id, guards);
            }
        }
        (after, removed, added)
    }

    fn fault(&self, order: &KeyOrder) -> Option<String> {
        for (number, level) in self.levels.iter().enumerate() {
            let ends = || level.iter().map(|guard| &guard.span);
            let starts = level.first().is_some_and(|first| first.span.start.is_none());
            let is_covered = starts && level.last().is_some_and(|last| last.span.end.is_none());
            let is_ascending = ends().zip(ends().skip(1)).all(|(a, b)| {
                a.end.is_some()
                    && a.end == b.start
                    && a.start.as_ref().is_none_or(|start| b.starts_behind(order, start))
            });
            if !is_covered || !is_ascending {
                return Some(format!("the guards of level {} do not cover the keys once", number + 1));
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
        }
        None
    }
}

fn last(level: &[Arc<Guard>]) -> Option<&Arc<Guard>> {
    level.last()
}
