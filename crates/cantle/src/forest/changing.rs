//! Trees while a job changes them.

use super::tree::{Section, Tree};
use super::trees::Trees;
use crate::lsm::marked::marked;
use crate::lsm::shape::{Change, Cuts, Job, Move, Outcome, Piece, Place, Placed};
use crate::run::run::{Run, Source};
use crate::sync::Arc;
use crate::types::order::KeyOrder;
use crate::types::span::Span;
use std::collections::{BTreeMap, HashSet};

/// Maximum number of sub-trees of a section. An edit replaces sections: short ones make edits short, and many of
/// them take memory.
pub const SECTION_RUNS: usize = 32;

/// Sections by number, each with its place.
type Sections = BTreeMap<u64, (Arc<Tree>, Arc<Section>)>;

pub struct Changing<'a> {
    order: &'a KeyOrder,
    before: &'a Trees,
    trees: Trees,
    /// The number of a section that the job names and that is gone, or has other runs than the job took.
    missed: Option<u64>,
    /// The sections that the job has claimed and changed. Those that it only marks may be claimed by others.
    claimed: HashSet<u64>,
}

impl<'a> Changing<'a> {
    pub fn new(order: &'a KeyOrder, before: &'a Trees) -> Self {
        Self { order, before, trees: before.clone(), missed: None, claimed: HashSet::new() }
    }

    /// Takes what the pieces of a job have merged, and puts their output and what is handed over into the tree of the
    /// job.
    pub fn apply(&mut self, job: &Job, outcomes: &[Outcome]) {
        let mut new = Vec::new();
        for (piece, outcome) in job.pieces.iter().zip(outcomes) {
            for (section, run) in piece.taken.iter().map(|(id, _)| *id).zip(&piece.tables) {
                self.take(section, run);
            }
            self.mark(piece, outcome);
            new.extend(self.runs_of(piece, outcome));
        }
        let mut into = job.pieces.first().map(|piece| piece.place);
        for change in &job.moves {
            match change {
                Move::Grow { place, inputs } => {
                    into = Some(*place);
                    self.grow(*place, *inputs);
                }
                Move::Hand { group, run } => {
                    self.take(*group, run);
                    new.push(run.clone());
                }
                Move::Adopt { run, .. } => new.push(run.clone()),
                Move::Purge { group, run: gone } => self.retain(*group, |run| !run.is_same(gone)),
                Move::Forget { group, settled } => {
                    self.retain(*group, |run| !run.is_empty_table() || run.file().id >= *settled);
                }
                // Changes of guards.
                Move::Sink { .. }
                | Move::Insert { .. }
                | Move::Delete { .. }
                | Move::AddLevel { .. }
                | Move::RemoveLevel => self.missed = Some(0),
            }
        }
        if let Some(place) = into.filter(|_| !new.is_empty()) {
            self.put(place, new);
        }
    }

    /// The tree at a place, to be changed.
    fn tree(&mut self, place: Place) -> Option<&mut Tree> {
        self.trees.trees.iter_mut().find(|tree| tree.place() == place).map(Arc::make_mut)
    }

    fn next_section(&mut self) -> u64 {
        self.trees.next_section += 1;
        self.trees.next_section - 1
    }

    /// Makes the tree of a place, if there is none, and notes which trees it takes up.
    fn grow(&mut self, place: Place, inputs: Option<(u64, u64)>) {
        if self.trees.tree(place).is_none() {
            let first = Section::new(self.next_section(), Span::default(), Vec::new());
            let tree =
                Tree { stage: place.level, number: place.tree, sections: vec![Arc::new(first)], takes: None };
            let newer = |tree: &Arc<Tree>| tree.place().is_newer_than(place);
            let at = self.trees.trees.partition_point(newer);
            self.trees.trees.insert(at, Arc::new(tree));
            self.trees.next_tree = self.trees.next_tree.max(place.tree + 1);
        }
        if let (Some(tree), Some(_)) = (self.tree(place), inputs) {
            tree.takes = inputs;
        }
    }

    /// The place of a section, and its index there.
    fn section(&self, id: u64) -> Option<(Place, usize)> {
        self.trees.trees.iter().find_map(|tree| {
            let at = tree.sections.iter().position(|section| section.id == id)?;
            Some((tree.place(), at))
        })
    }

    fn set_runs(&mut self, place: Place, at: usize, runs: Vec<Run>) {
        let Some(section) = self.tree(place).and_then(|tree| tree.sections.get_mut(at)) else { return };
        *section = Arc::new(Section::new(section.id, section.span.clone(), runs));
    }

    /// Takes the keys of a run out of its tree. A run that has others besides is left with them.
    fn take(&mut self, id: u64, taken: &Run) {
        let order = self.order;
        let is_it = |run: &Run| {
            run.file().id == taken.file().id
                && run.span.intersect(order, &taken.span).as_ref() == Some(&*taken.span)
        };
        let found = self.trees.trees.iter().find_map(|tree| {
            let (id, _) = tree.all_within(order, &taken.span).find(|(_, run)| is_it(run))?;
            let index = tree.sections.iter().position(|section| section.id == id)?;
            let section = tree.sections.get(index)?;
            Some((tree.place(), index, section.clone(), section.runs.iter().position(is_it)?))
        });
        let Some((place, index, section, at)) = found else {
            self.missed = Some(id);
            return;
        };
        let run = &section.runs[at];
        let rest: Vec<Span> = run.span.without(order, &taken.span);
        let share = run.bytes().saturating_sub(taken.bytes()) / rest.len().max(1) as u64;
        let part = |span| run.part(span, share.max(1)).clip_dropped_ranges(order).dropped_whole(order);
        let mut runs = section.runs.clone();
        runs.splice(at..=at, rest.into_iter().map(part));
        self.claimed.insert(section.id);
        self.set_runs(place, index, runs);
    }

    /// Marks the runs, and parts of runs, that are older than the output of a piece and that its range deletes cover.
    fn mark(&mut self, piece: &Piece, outcome: &Outcome) {
        if outcome.deleted.is_empty() {
            return;
        }
        let order = self.order;
        let older = self.trees.trees.iter().filter(|tree| piece.place.is_newer_than(tree.place()));
        let mut changed = Vec::new();
        for tree in older {
            for (at, section) in tree.sections.iter().enumerate() {
                if section.span.intersect(order, &piece.span).is_none() {
                    continue;
                }
                let marks: Vec<_> = section.runs.iter().map(|run| marked(order, run, outcome)).collect();
                if marks.iter().any(Option::is_some) {
                    let runs = section.runs.iter().zip(marks);
                    let runs = runs.map(|(run, mark)| mark.unwrap_or_else(|| run.clone())).collect();
                    changed.push((tree.place(), at, runs));
                }
            }
        }
        for (place, at, runs) in changed {
            self.set_runs(place, at, runs);
        }
    }

    fn retain(&mut self, id: u64, is_left: impl Fn(&Run) -> bool) {
        let Some((place, at)) = self.section(id) else { return };
        let Some(section) = self.trees.tree(place).and_then(|tree| tree.sections.get(at)) else { return };
        let runs: Vec<Run> = section.runs.iter().filter(|run| is_left(run)).cloned().collect();
        if runs.len() < section.runs.len() {
            self.claimed.insert(id);
            self.set_runs(place, at, runs);
        }
    }

    /// The tables of a piece as sub-trees. A table with range deletes has all keys up to the next one.
    fn runs_of(&self, piece: &Piece, outcome: &Outcome) -> Vec<Run> {
        let order = self.order;
        let (empty, full): (Vec<&Placed>, Vec<&Placed>) =
            outcome.placed.iter().partition(|placed| placed.output.table.is_empty());
        debug_assert!(matches!(piece.cuts, Cuts::Near(_)) || full.is_empty());
        let begins = full.iter().map(|placed| placed.output.start.clone());
        let starts =
            begins.enumerate().map(|(at, start)| if at == 0 { piece.span.start.clone() } else { start });
        let starts: Vec<_> = starts.collect();
        let ends = starts.iter().skip(1).cloned().chain([piece.span.end.clone()]);
        let spans = starts.iter().cloned().zip(ends).map(|(start, end)| Span { start, end });
        let run = |(placed, span): (&&Placed, Span)| {
            let table = placed.output.table.clone();
            let keys = if table.has_deleted { None } else { placed.output.keys.intersect(order, &span) };
            let span = Arc::new(keys.unwrap_or(span));
            Run { source: Source::Table(table), span, dropped: None, dropped_ranges: None, share_bytes: None }
        };
        let mut runs: Vec<Run> = full.iter().zip(spans).map(run).collect();
        // They hold nothing: any place does.
        runs.extend(empty.into_iter().map(|placed| {
            let (source, span) = (Source::Table(placed.output.table.clone()), piece.span.clone().into());
            Run { source, span, dropped: None, dropped_ranges: None, share_bytes: None }
        }));
        runs
    }

    /// Puts sub-trees into a tree, in the order of keys.
    fn put(&mut self, place: Place, runs: Vec<Run>) {
        self.grow(place, None);
        let order = self.order;
        let Some(tree) = self.trees.tree(place).cloned() else { return };
        // Else the store could not be opened again.
        let inputs = self.trees.inputs_of(&tree);
        let is_common = |run: &Run| inputs.iter().any(|input| input.has_runs_within(order, &run.span));
        if runs.iter().filter(|run| !run.is_empty_table()).any(is_common) {
            self.missed = Some(tree.sections.first().map_or(0, |first| first.id));
        }
        let mut by_section: BTreeMap<usize, Vec<Run>> = BTreeMap::new();
        for run in runs {
            if run.is_empty_table() {
                let at = tree.place_of(order, run.span.start.as_deref());
                let span = tree.sections.get(at).map(|section| Arc::new(section.span.clone()));
                by_section.entry(at).or_default().extend(span.map(|span| Run { span, ..run }));
                continue;
            }
            // Parts of a run may belong to several sections.
            let from = tree.place_of(order, run.span.start.as_deref());
            let count = tree.sections_within(order, &run.span).len();
            for at in from..from + count {
                let Some(span) = run.span.intersect(order, &tree.sections[at].span) else { continue };
                let is_whole = span == *run.span;
                let part = if is_whole { run.clone() } else { run.part(span, run.bytes() / 2) };
                let part = if is_whole { part } else { part.clip_dropped_ranges(order).dropped_whole(order) };
                by_section.entry(at).or_default().push(part);
            }
        }
        for (at, new) in by_section {
            let mut runs: Vec<Run> = tree.sections[at].runs.iter().cloned().chain(new).collect();
            order.sort_by(&mut runs, |a, b| match (&a.span.start, &b.span.start) {
                (Some(a), Some(b)) => order.compare(a, b),
                (a, b) => a.is_some().cmp(&b.is_some()),
            });
            self.claimed.insert(tree.sections[at].id);
            self.set_runs(place, at, runs);
        }
    }

    /// Divides long sections, and joins those without a sub-tree with their neighbours. Trees without any go.
    fn tidy(&mut self) {
        for at in 0..self.trees.trees.len() {
            let tree = self.trees.trees[at].clone();
            if !self.before.trees.iter().any(|before| Arc::ptr_eq(before, &tree)) {
                let sections = self.tidied(&tree);
                self.trees.trees[at] = Arc::new(Tree { sections, ..Tree::clone(&tree) });
            }
        }
        self.trees.trees.retain(has_runs_or_takes);
        let places: Vec<Place> = self.trees.trees.iter().map(|tree| tree.place()).collect();
        for place in places {
            let is_done = self.trees.tree(place).is_some_and(|tree| self.trees.inputs_of(tree).is_empty());
            if let Some(tree) = self.tree(place).filter(|tree| is_done && tree.takes.is_some()) {
                tree.takes = None;
            }
            self.renew_mark(place);
        }
        self.trees.trees.retain(has_runs_or_takes);
    }

    /// Writes the sections anew of which one was marked as that of a tree that grows, or is to be.
    fn renew_mark(&mut self, place: Place) {
        let mark = |tree: &Arc<Tree>| Some((tree.takes?, tree.sections.last()?.id));
        let [was, is] = [self.before, &self.trees].map(|trees| trees.tree(place).and_then(mark));
        if was == is {
            return;
        }
        for (_, id) in was.into_iter().chain(is) {
            if let Some((place, at)) = self.section(id)
                && let Some(section) = self.trees.tree(place).and_then(|tree| tree.sections.get(at))
            {
                let runs = section.runs.clone();
                self.set_runs(place, at, runs);
            }
        }
    }

    fn tidied(&mut self, tree: &Tree) -> Vec<Arc<Section>> {
        let mut sections: Vec<Arc<Section>> = Vec::new();
        for section in &tree.sections {
            // The keys of one without sub-trees belong to its neighbour, if this job has claimed that.
            let joins = |last: &mut Arc<Section>| match (last.runs.is_empty(), section.runs.is_empty()) {
                (true, true) => true,
                (true, false) => self.claimed.contains(&section.id),
                (false, true) => self.claimed.contains(&last.id),
                (false, false) => false,
            };
            let section = match sections.pop_if(joins) {
                None => section.clone(),
                Some(last) => {
                    let span = Span { start: last.span.start.clone(), end: section.span.end.clone() };
                    let (id, runs) = (self.next_section(), last.runs.iter().chain(&section.runs));
                    self.claimed.insert(id);
                    Arc::new(Section::new(id, span, runs.cloned().collect()))
                }
            };
            let count = section.sub_trees().len();
            if count <= SECTION_RUNS || !self.claimed.contains(&section.id) {
                sections.push(section);
                continue;
            }
            let parts: Vec<&[Run]> =
                section.sub_trees().chunks(count.div_ceil(count.div_ceil(SECTION_RUNS / 2))).collect();
            let starts: Vec<_> = parts.iter().skip(1).map(|part| part[0].span.start.clone()).collect();
            let firsts = std::iter::once(section.span.start.clone()).chain(starts.iter().cloned());
            let ends = starts.iter().cloned().chain([section.span.end.clone()]);
            let mut empty: Vec<Run> = section.runs[count..].to_vec();
            for ((part, start), end) in parts.iter().zip(firsts).zip(ends) {
                let (id, span) = (self.next_section(), Span { start, end });
                let whole = Arc::new(span.clone());
                let empty = empty.drain(..).map(|run| Run { span: whole.clone(), ..run });
                let runs = part.iter().cloned().chain(empty).collect();
                sections.push(Arc::new(Section::new(id, span, runs)));
            }
        }
        sections
    }

    /// The differences to the trees before.
    pub fn finish(mut self) -> Change<Trees> {
        self.tidy();
        let by_id = |trees: &Trees| -> Sections {
            trees.sections().map(|(tree, section)| (section.id, (tree.clone(), section.clone()))).collect()
        };
        let (before, after) = (by_id(self.before), by_id(&self.trees));
        let is_same = |id: &u64, section: &Arc<Section>, other: &Sections| {
            other.get(id).is_some_and(|(_, other)| Arc::ptr_eq(section, other))
        };
        let removed = before.iter().filter(|(id, (_, section))| !is_same(id, section, &after));
        let added = after.iter().filter(|(id, (_, section))| !is_same(id, section, &before));
        Change {
            removed: removed.map(|(id, (_, section))| (*id, section.runs.clone())).collect(),
            added: added.map(|(_, (tree, section))| (tree.record(section), section.runs.clone())).collect(),
            shape: self.trees,
            missed: self.missed,
        }
    }
}

fn has_runs_or_takes(tree: &Arc<Tree>) -> bool {
    tree.takes.is_some() || tree.sections.iter().any(|section| !section.runs.is_empty())
}
