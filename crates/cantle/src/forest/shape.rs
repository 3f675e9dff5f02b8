//! The trees as a shape of the engine: reading them, and the shape after a job.

use super::changing::{Changing, SECTION_RUNS};
use super::step::{WHOLE, cuts};
use super::tree::{At, Tree};
use super::trees::Trees;
use crate::lsm::busy::Busy;
use crate::lsm::shape::{
    Apart, Change, Group, Job, Logs, Move, Outcome, Piece, Place, RUN_COST, Rules, Shape, Space, Stretch,
};
use crate::lsm::sizes::{freeable_bytes, held_bytes};
use crate::lsm::state::GroupRecord;
use crate::run::record::FileRecord;
use crate::run::retain::Bottom;
use crate::run::run::Run;
use crate::sync::Arc;
use crate::sync::atomic::Ordering::Relaxed;
use crate::types::bounds::Bounds;
use crate::types::order::KeyOrder;
use crate::types::span::Span;

impl Trees {
    /// The sub-trees that `find` finds in each tree, within the intersection of their places.
    fn stretch<'a>(&'a self, order: &KeyOrder, find: impl Fn(&'a Tree) -> Option<At<'a>>) -> Stretch {
        let mut stretch = Stretch { span: Span::default(), runs: Vec::new() };
        for at in self.trees.iter().filter_map(|tree| find(tree)) {
            stretch.span = stretch.span.intersect(order, &at.span).unwrap_or(stretch.span);
            stretch.runs.extend(at.run.cloned());
        }
        stretch
    }
}

impl Shape for Trees {
    fn open(
        order: &KeyOrder,
        groups: Vec<GroupRecord>,
        run: &mut dyn FnMut(&FileRecord, &Span) -> Run,
    ) -> Result<Self, &'static str> {
        Self::open(order, &groups, run)
    }

    /// One sub-tree of each tree (SifrDB §4.1).
    fn runs_at<'a>(&'a self, order: &'a KeyOrder, key: &'a [u8]) -> impl Iterator<Item = &'a Run> {
        self.trees.iter().filter_map(move |tree| tree.run_at(order, key))
    }

    fn stretch_at(&self, order: &KeyOrder, key: Option<&[u8]>) -> Stretch {
        self.stretch(order, |tree| tree.at(order, key))
    }

    fn stretch_before(&self, order: &KeyOrder, key: Option<&[u8]>) -> Stretch {
        self.stretch(order, |tree| tree.before(order, key))
    }

    fn groups(&self) -> impl Iterator<Item = Group<'_>> {
        self.sections().map(|(tree, section)| Group {
            id: section.id,
            level: tree.stage,
            tree: tree.number,
            grows: tree.takes.is_some(),
            span: &section.span,
            runs: &section.runs,
            debt: section.debt.load(Relaxed),
        })
    }

    /// Sections are divided, not merged, when they are long.
    fn runs_max(&self, _: &Rules) -> impl Iterator<Item = usize> {
        self.sections().map(|_| SECTION_RUNS)
    }

    /// The most trees that a stage has, without one that grows: those that it takes up are counted.
    fn runs_most(&self, _: &KeyOrder) -> usize {
        let trees = |stage| self.stage(stage).filter(|tree| tree.takes.is_none()).count();
        (1..=self.stages()).map(trees).max().unwrap_or(0)
    }

    fn is_older(&self, group: &Group<'_>, piece: &Piece) -> bool {
        piece.place.is_newer_than(Place { level: group.level, tree: group.tree })
    }

    /// The oldest tree is charged: merges for reads write into it. Each sub-tree beside the first costs a seek
    /// [`RUN_COST`] entries.
    fn owe(&self, order: &KeyOrder, key: Option<&[u8]>, entries: u64) {
        let places = self.trees.iter().filter_map(|tree| tree.at(order, key));
        let runs = places.filter(|at| at.run.is_some()).count() as u64;
        let Some(oldest) = self.trees.last() else { return };
        if let Some(section) = oldest.sections.get(oldest.place_of(order, key)).filter(|_| runs > 1) {
            section.owe(entries + RUN_COST * (runs - 1));
        }
    }

    fn sought(&self, order: &KeyOrder, key: Option<&[u8]>) {
        let Some(oldest) = self.trees.last() else { return };
        if let Some(section) = oldest.sections.get(oldest.place_of(order, key)) {
            section.seek();
        }
    }

    /// A sub-tree, and a part of one of each other tree. From the start as of two full stages: when the disk is full it
    /// is too late to keep more aside.
    fn least_merge_bytes(&self, rules: &Rules) -> u64 {
        if rules.size_tiered {
            return self.bytes();
        }
        let trees = self.trees.len().max(2 * rules.runs_max + 1);
        (trees as u64 + 1) * self.unit(rules)
    }

    fn space(&self, rules: &Rules) -> Space {
        let runs = || self.sections().map(|(_, section)| &section.runs[..]);
        let bytes = runs().map(held_bytes).sum();
        let stale_bytes: u64 = runs().map(|runs| freeable_bytes(runs, rules.oldest_snapshot)).sum();
        Space { bytes, stale_bytes: stale_bytes.min(bytes) }
    }

    fn pick(&self, order: &KeyOrder, rules: &Rules, busy: &Busy) -> Option<Job> {
        self.pick_job(order, rules, busy)
    }

    /// A new tree of the first stage.
    fn take_logs(&self, _: &KeyOrder, rules: &Rules, logs: &Logs, _: &Busy) -> Job {
        let place = Place { level: 1, tree: self.next_tree };
        let bottom = if self.trees.is_empty() { Bottom::Reached } else { Bottom::Deeper };
        canary!(DELETES_DROPPED_ABOVE => let bottom = Bottom::Reached);
        Job::of_pieces(vec![Piece {
            span: Span::default(),
            tables: Vec::new(),
            taken: Vec::new(),
            bottom,
            cuts: cuts(logs.bytes, self.unit(rules)),
            place,
            groups: Vec::new(),
        }])
    }

    fn sort_within(
        &self,
        order: &KeyOrder,
        rules: &Rules,
        bounds: &Bounds,
        upto: u64,
        busy: &Busy,
    ) -> Option<Job> {
        self.sort_next(order, rules, bounds, upto, busy)
    }

    /// It becomes a sub-tree of the oldest tree, if no tree has any of its keys.
    fn take_apart(&self, order: &KeyOrder, run: &Run, busy: &Busy) -> Option<Apart> {
        let is_apart = !self.trees.iter().any(|tree| tree.has_runs_within(order, &run.span));
        canary!(ADOPTED_BELOW_OTHERS => let is_apart = true);
        let oldest = self.trees.last();
        let sections = oldest.map_or(&[][..], |tree| tree.sections_within(order, &run.span));
        if !is_apart || !sections.iter().all(|section| busy.is_free(section.id)) {
            return None;
        }
        let place = oldest.map_or(Place { level: 1, tree: self.next_tree }, |tree| tree.place());
        let grow = Move::Grow { place, inputs: None };
        let moves = vec![grow, Move::Adopt { level: place.level, run: run.clone() }];
        Some(Apart { moves, upto: None })
    }

    fn after(&self, order: &KeyOrder, job: &Job, outcomes: &[Outcome]) -> Change<Self> {
        let mut changing = Changing::new(order, self);
        changing.apply(job, outcomes);
        changing.finish()
    }

    fn fault(&self, order: &KeyOrder) -> Option<String> {
        self.fault(order).or_else(|| if cfg!(debug_assertions) { self.common(order) } else { None })
    }
}

impl Trees {
    /// The usual length of a sub-tree in bytes: so that there are not too many of them. A tree is one sub-tree if the
    /// forest is size-tiered.
    pub fn unit(&self, rules: &Rules) -> u64 {
        match rules.is_tuned {
            _ if rules.size_tiered => WHOLE,
            true => unit_for(self.bytes()).max(rules.table_bytes),
            false => rules.table_bytes,
        }
    }
}

/// The lengths that a sub-tree may have by itself, in bytes.
pub const UNIT_BYTES: std::ops::RangeInclusive<u64> = 2 << 20..=256 << 20;
/// The part of the data that a sub-tree has, as a divisor.
const UNIT_FRACTION: u64 = 1 << 16;

/// The usual length of a sub-tree of a store of this size.
pub fn unit_for(live_bytes: u64) -> u64 {
    (live_bytes / UNIT_FRACTION).clamp(*UNIT_BYTES.start(), *UNIT_BYTES.end())
}

/// The tree behind all others.
pub fn oldest(trees: &Trees) -> Option<&Arc<Tree>> {
    trees.trees.last()
}
