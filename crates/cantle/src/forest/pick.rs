//! The choice of merges: pure functions from trees and sizes to a job.
//!
//! A stage that has more trees than the growth factor gives the oldest ones to the next stage, which gets one tree of
//! them (SifrDB §2). Besides, a range of keys is merged out of all trees into the oldest one, if that frees the
//! space of garbage or saves reads what it costs: so no merge ever rewrites everything.

use super::shape::oldest;
use super::step::{Plan, of_arcs};
use super::tree::{Section, Tree};
use super::trees::Trees;
use crate::lsm::busy::Busy;
use crate::lsm::marked;
use crate::lsm::shape::{Job, Move, Place, Rules, group_bit, rewrite_cost, with_overhead};
use crate::lsm::sizes::{entries_of, gain_bytes, held_bytes};
use crate::lsm::state::LEVELS_MAX;
use crate::run::run::{Run, Source};
use crate::sync::Arc;
use crate::sync::atomic::Ordering::Relaxed;
use crate::types::bounds::Bounds;
use crate::types::order::KeyOrder;
use crate::types::span::Span;
use bytes::Bytes;
use std::ops::Bound;

/// A stage may have this many times its usual number of trees before it gets another one: then the stage above
/// waits.
const CROWDED: f64 = 1.5;
/// The least part of a range that is freed by a merge for space.
const GAIN_MIN: f64 = 1.0 / 16.0;
/// Number of sub-trees that are cleaned at once at least: as many as overlap in LevelDB (SifrDB §4.2).
pub const CLEANED_LEAST: u64 = 11;
/// The part of the data that a merge cleans at once, as a divisor.
const CLEANED_FRACTION: u64 = 64;
/// Bytes that a merge of a range takes at once.
const RANGE_BYTES: u64 = 32 << 20;

impl Trees {
    /// Bytes that a merge takes in one step. On a full disk, as much as there is room for.
    fn pace(&self, rules: &Rules) -> u64 {
        if rules.size_tiered {
            return u64::MAX;
        }
        let unit = self.unit(rules);
        let usual = rules.cleaned.max(1) * unit;
        self.within_room(rules, (self.bytes() / CLEANED_FRACTION).clamp(usual, usual.max(RANGE_BYTES)))
    }

    /// Bytes that a merge of a range takes in one step.
    fn range_pace(&self, rules: &Rules) -> u64 {
        if rules.size_tiered { u64::MAX } else { self.within_room(rules, RANGE_BYTES) }
    }

    /// Bytes of sub-trees that a merge takes as a whole. It takes a part of one of each tree besides.
    fn within_room(&self, rules: &Rules, pace: u64) -> u64 {
        let Some(room) = rules.disk_room else { return pace };
        let parts = self.trees.len() as u64 * self.unit(rules) / 2;
        pace.min((room / 4 * 3).saturating_sub(parts)).max(1)
    }

    /// The job that is due next, of those that running merges admit.
    pub fn pick_job(&self, order: &KeyOrder, rules: &Rules, busy: &Busy) -> Option<Job> {
        marked::purge(self, order, rules, busy)
            .or_else(|| marked::forget(self, rules, busy))
            .or_else(|| rules.disk_room.and_then(|_| self.free_space(order, rules, busy)))
            .or_else(|| self.grow(order, rules, busy))
            .or_else(|| self.free_space(order, rules, busy))
            .or_else(|| self.ease_reads(order, rules, busy))
    }

    /// The next step of a merge that has begun, or the first one of a stage that has too many trees.
    fn grow(&self, order: &KeyOrder, rules: &Rules, busy: &Busy) -> Option<Job> {
        let stages = || 1..=self.stages().min(LEVELS_MAX - 1);
        let growing = |stage: u32| self.stage(stage + 1).next().filter(|tree| tree.takes.is_some());
        let going = stages().filter_map(|stage| self.step(order, rules, growing(stage)?.place(), None));
        let overfull = stages().filter_map(|stage| self.begin(order, rules, stage));
        let has_room = |job: &Job| {
            let tables = job.pieces.iter().flat_map(|piece| &piece.tables);
            let bytes = with_overhead(tables.map(Run::bytes).sum());
            rules.disk_room.is_none_or(|room| bytes <= room)
        };
        let admitted = |job: &Job| match job.pieces.is_empty() {
            true => job.changed.iter().all(|id| busy.is_free(*id)),
            false => has_room(job) && busy.admits(&job.claim(false)),
        };
        going.chain(overfull).find(admitted)
    }

    /// The first step of the merge of a stage into the next one, if it has too many trees.
    fn begin(&self, order: &KeyOrder, rules: &Rules, stage: u32) -> Option<Job> {
        let usual = rules.runs_max;
        let is_growing = |stage| self.stage(stage).any(|tree| tree.takes.is_some());
        let is_crowded = |stage| self.stage(stage).count() as f64 >= CROWDED * usual as f64;
        let trees = self.stage(stage).count();
        if trees <= usual || is_growing(stage + 1) || (stage + 1 < LEVELS_MAX && is_crowded(stage + 1)) {
            return None;
        }
        // One that grows is the newest, and not complete.
        let mut oldest = self.stage(stage).rev().filter(|tree| tree.takes.is_none()).take(usual);
        let first = oldest.next()?.number;
        let last = oldest.last()?.number;
        let place = Place { level: stage + 1, tree: self.next_tree };
        self.step(order, rules, place, Some((first, last)))
    }

    /// The next step of the merge into the tree at a place, which takes up these trees, or those that it has noted.
    fn step(&self, order: &KeyOrder, rules: &Rules, place: Place, inputs: Option<(u64, u64)>) -> Option<Job> {
        let tree = self.tree(place);
        let takes = inputs.or_else(|| tree?.takes)?;
        let above = self.stage(place.level - 1);
        let inputs: Vec<&Arc<Tree>> =
            above.filter(|input| (takes.0..=takes.1).contains(&input.number)).collect();
        let mut job = Plan {
            order,
            trees: &of_arcs(&inputs),
            span: &Span::default(),
            place,
            target: tree.map(|tree| &**tree),
            is_bottom: &|span| !self.has_older(order, place, span),
            unit: self.unit(rules),
            pace: self.pace(rules),
            hands: !rules.size_tiered,
            oldest_snapshot: rules.oldest_snapshot,
        }
        .job()?;
        job.moves.insert(0, Move::Grow { place, inputs: Some(takes) });
        // No other job may put keys between those that it takes.
        let spans = job.pieces.iter().flat_map(|piece| inputs.iter().map(move |input| (input, &piece.span)));
        let between = spans.flat_map(|(input, span)| input.sections_within(order, span));
        let between: Vec<u64> = between.map(|section| section.id).collect();
        job.changed.extend(between);
        self.claim_target(order, place, &mut job);
        Some(job)
    }

    /// Claims the sections of the tree into which a job writes.
    fn claim_target(&self, order: &KeyOrder, place: Place, job: &mut Job) {
        let Some(tree) = self.tree(place) else { return };
        let handed = job.moves.iter().filter_map(|change| match change {
            Move::Hand { run, .. } => Some((*run.span).clone()),
            _ => None,
        });
        let spans = job.pieces.iter().map(|piece| piece.span.clone()).chain(handed);
        let sections = spans.flat_map(|span| tree.sections_within(order, &span));
        let mut claimed: Vec<u64> = sections.map(|section| section.id).collect();
        // It has the mark of a tree that grows.
        claimed.extend(tree.sections.last().filter(|_| tree.takes.is_some()).map(|last| last.id));
        job.changed.extend(claimed);
        job.changed.sort_unstable();
        job.changed.dedup();
    }

    /// The merge of the keys of a section of the oldest tree, out of all trees into that tree.
    fn range(&self, order: &KeyOrder, rules: &Rules, span: &Span, pace: u64, busy: &Busy) -> Option<Job> {
        let place = oldest(self)?.place();
        let trees: Vec<&Tree> = self.trees.iter().map(|tree| &**tree).collect();
        let plan = Plan {
            order,
            trees: &trees,
            span,
            place,
            target: None,
            is_bottom: &|_| true,
            unit: self.unit(rules),
            pace,
            hands: false,
            oldest_snapshot: rules.oldest_snapshot,
        };
        let mut job = plan.job()?;
        job.moves.insert(0, Move::Grow { place, inputs: None });
        self.claim_target(order, place, &mut job);
        busy.admits(&job.claim(false)).then_some(job)
    }

    /// The merge of the range that frees most, if garbage takes more space than it may, or the disk is full.
    fn free_space(&self, order: &KeyOrder, rules: &Rules, busy: &Busy) -> Option<Job> {
        use crate::lsm::shape::Shape;
        let space = self.space(rules);
        if rules.disk_room.is_none() && !space.exceeds(rules.space_amplification) {
            return None;
        }
        let oldest = oldest(self)?;
        let gain_min = GAIN_MIN.min(rules.rest_part());
        let mut windows: Vec<(f64, &Arc<Section>)> = oldest
            .sections
            .iter()
            .filter(|section| rules.without_room & group_bit(section.id) == 0)
            .map(|section| (self.gain(order, rules, &section.span), section))
            .filter(|(gain, _)| *gain >= gain_min)
            .collect();
        windows.sort_by(|(a, _), (b, _)| b.total_cmp(a));
        let pace = self.range_pace(rules);
        let has_gain = |run: &Run| gain_bytes(std::slice::from_ref(run), rules) > 0;
        windows.iter().find_map(|(_, section)| {
            let start = self.first(order, &section.span, &|_, run| has_gain(run))?;
            let span = Span { start, end: section.span.end.clone() };
            let job = self.range(order, rules, &span, pace, busy)?;
            Some(Job { frees_space: true, window: Some(section.id), ..job })
        })
    }

    /// The part of the bytes of a range that its merge frees.
    fn gain(&self, order: &KeyOrder, rules: &Rules, span: &Span) -> f64 {
        let mut sums = (0, 0);
        for (_, run) in self.trees.iter().flat_map(|tree| tree.runs_within(order, span)) {
            let run = std::slice::from_ref(run);
            sums = (sums.0 + gain_bytes(run, rules), sums.1 + held_bytes(run));
        }
        sums.0 as f64 / sums.1.max(1) as f64
    }

    /// The merge of a range that reads have paid for (SifrDB §6 merges what is sought often), or that has nothing
    /// but range deletes which hide nothing.
    fn ease_reads(&self, order: &KeyOrder, rules: &Rules, busy: &Busy) -> Option<Job> {
        let is_due = |section: &&Arc<Section>| match rules.seek_compaction {
            Some(_) => section.is_sought() && self.depth(order, &section.span) > 1,
            None => {
                let debt = section.debt.load(Relaxed);
                debt > 0 && debt > self.cost(order, rules, &section.span)
            }
        };
        let is_bare = |section: &&Arc<Section>| section.sub_trees().iter().any(has_only_deletes);
        let mut due = oldest(self)?.sections.iter().filter(|section| is_due(section) || is_bare(section));
        let pace = self.range_pace(rules);
        due.find_map(|section| {
            let is_left = |tree: usize, run: &Run| has_only_deletes(run) || self.overlaps(order, tree, run);
            let start = self.first(order, &section.span, &is_left)?;
            let span = Span { start, end: section.span.end.clone() };
            self.range(order, rules, &span, pace, busy)
        })
    }

    fn cost(&self, order: &KeyOrder, rules: &Rules, span: &Span) -> u64 {
        let runs = self.trees.iter().flat_map(|tree| tree.runs_within(order, span));
        let sum = |(entries, bytes), (_, run): (u64, &Run)| (entries + entries_of(run), bytes + run.bytes());
        let (entries, bytes) = runs.fold((0, 0), sum);
        // A step at a time.
        let steps = if rules.size_tiered { 1 } else { (bytes / RANGE_BYTES).max(1) };
        rewrite_cost(entries, bytes) / steps
    }

    /// Number of trees that have keys of a span.
    fn depth(&self, order: &KeyOrder, span: &Span) -> usize {
        self.trees.iter().filter(|tree| tree.has_runs_within(order, span)).count()
    }

    /// The next range within bounds that is not in one tree, or has garbage.
    pub fn sort_next(
        &self,
        order: &KeyOrder,
        rules: &Rules,
        bounds: &Bounds,
        upto: u64,
        busy: &Busy,
    ) -> Option<Job> {
        let pace = self.range_pace(rules);
        let is_old = |run: &Run| run.file().id < upto;
        let is_left = |run: &Run| {
            let is_bare = matches!(&run.source, Source::Table(table) if table.has_deleted);
            run.log().is_some() || is_bare || gain_bytes(std::slice::from_ref(run), rules) > 0
        };
        let oldest = oldest(self)?;
        for section in oldest.sections.iter().filter(|section| section.span.overlaps(order, bounds)) {
            // From the first key on at which something is left to do.
            let is_due = |tree: usize, run: &Run| {
                let is_in_oldest = tree + 1 == self.trees.len();
                is_old(run) && (!is_in_oldest || is_left(run) || self.overlaps(order, tree, run))
            };
            // A user may ask for few keys of a long section.
            let end = match &bounds.end {
                Bound::Excluded(end) if section.span.contains(order, end) => {
                    Some(Bytes::copy_from_slice(end))
                }
                _ => section.span.end.clone(),
            };
            let within = Span { start: section.span.start.clone(), end };
            let Some(start) = self.first(order, &within, &is_due) else { continue };
            let span = Span { start, ..within };
            if let Some(job) = self.range(order, rules, &span, pace, busy) {
                return Some(job);
            }
        }
        None
    }

    /// True if another tree than the one at this index has keys of the run.
    fn overlaps(&self, order: &KeyOrder, tree: usize, run: &Run) -> bool {
        let mut others = self.trees.iter().enumerate().filter(|(other, _)| *other != tree);
        others.any(|(_, other)| other.has_runs_within(order, &run.span))
    }

    /// The start of the first sub-tree of a span, of any tree, that fits.
    fn first(
        &self,
        order: &KeyOrder,
        span: &Span,
        fits: &dyn Fn(usize, &Run) -> bool,
    ) -> Option<Option<Bytes>> {
        let of_tree = |(at, tree): (usize, &Arc<Tree>)| {
            let (_, run) = tree.runs_within(order, span).find(|(_, run)| fits(at, run))?;
            Some(run.span.intersect(order, span)?.start)
        };
        let compare = |a: &Option<Bytes>, b: &Option<Bytes>| match (a, b) {
            (Some(a), Some(b)) => order.compare(a, b),
            (a, b) => a.is_some().cmp(&b.is_some()),
        };
        self.trees.iter().enumerate().filter_map(of_tree).min_by(compare)
    }
}

/// True for a table without entries that has range deletes.
fn has_only_deletes(run: &Run) -> bool {
    matches!(&run.source, Source::Table(table) if run.dropped.is_none() && table.entries == 0 && table.has_deleted)
}

/// Number of sub-trees that a store cleans at once, by its option.
pub fn cleaned(threshold: Option<u32>) -> u64 {
    threshold.map_or(CLEANED_LEAST, u64::from)
}
