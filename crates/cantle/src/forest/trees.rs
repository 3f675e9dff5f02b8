//! All trees of a keyspace.

use super::tree::{Section, Tree};
use crate::lsm::shape::Place;
use crate::lsm::state::{GroupRecord, State};
use crate::run::record::FileRecord;
use crate::run::run::Run;
use crate::sync::Arc;
use crate::types::order::KeyOrder;
use crate::types::span::Span;
use std::collections::HashSet;

/// The trees, newest first: those of lower stages, and of a stage those with higher numbers.
#[derive(Clone, Default)]
pub struct Trees {
    pub trees: Vec<Arc<Tree>>,
    /// The number of the next section, and of the next tree.
    pub next_section: u64,
    pub next_tree: u64,
}

/// True if each of these begins where the one before it has ended, or behind it.
fn are_apart(order: &KeyOrder, runs: &[Run]) -> bool {
    runs.iter().zip(runs.iter().skip(1)).all(|(a, b)| match (&a.span.end, &b.span.start) {
        (Some(end), Some(start)) => order.compare(end, start).is_le(),
        _ => false,
    })
}

impl Trees {
    pub fn open(
        order: &KeyOrder,
        groups: &[GroupRecord],
        run: &mut dyn FnMut(&FileRecord, &Span) -> Run,
    ) -> Result<Self, &'static str> {
        let mut trees: Vec<Tree> = Vec::new();
        for (group, span) in State::sorted(order, groups.iter())? {
            let is_within = |file: &FileRecord| {
                let ranges = file.dropped_ranges.as_ref();
                let own = file.span.as_ref().unwrap_or(&span);
                let are_within = ranges.is_none_or(|ranges| ranges.are_within(order, own));
                own.intersect(order, &span).as_ref() == Some(own) && are_within
            };
            if !group.files.iter().all(is_within) {
                return Err("a sub-tree, or a dropped range of one, lies outside of its place");
            }
            let runs = group.files.iter().map(|file| run(file, &span)).collect();
            let section = Section::new(group.id, span, runs);
            if !are_apart(order, section.sub_trees()) {
                return Err("two sub-trees of a tree have keys in common, or are out of order");
            }
            let place = Place { level: group.level, tree: group.tree };
            if trees.last().is_none_or(|last| last.place() != place) {
                trees.push(Tree {
                    stage: group.level,
                    number: group.tree,
                    sections: Vec::new(),
                    takes: None,
                });
            }
            if let Some(tree) = trees.last_mut() {
                if tree.takes.is_some() {
                    return Err("a section before the last one says which trees its tree takes up");
                }
                tree.takes = group.takes;
                tree.sections.push(Arc::new(section));
            }
        }
        let numbers = trees.iter().map(|tree| tree.number.max(tree.takes.map_or(0, |(_, last)| last)));
        let opened = Self {
            next_tree: numbers.max().unwrap_or(0) + 1,
            next_section: groups.iter().map(|group| group.id).max().unwrap_or(0) + 1,
            trees: trees.into_iter().map(Arc::new).collect(),
        };
        match opened.fault(order).or_else(|| opened.common(order)) {
            None => Ok(opened),
            Some(_) => Err(
                "a tree that grows is not the newest of its stage, does not take up the oldest ones of the \
                            stage above, or has keys of these",
            ),
        }
    }

    pub fn tree(&self, place: Place) -> Option<&Arc<Tree>> {
        self.trees.iter().find(|tree| tree.place() == place)
    }

    /// The trees of a stage, newest first.
    pub fn stage(&self, stage: u32) -> impl DoubleEndedIterator<Item = &Arc<Tree>> {
        self.trees.iter().filter(move |tree| tree.stage == stage)
    }

    pub fn stages(&self) -> u32 {
        self.trees.last().map_or(0, |tree| tree.stage)
    }

    /// The trees that one takes up, newest first.
    pub fn inputs_of(&self, tree: &Tree) -> Vec<&Arc<Tree>> {
        let Some((first, last)) = tree.takes else { return Vec::new() };
        let above = tree.stage.saturating_sub(1);
        self.stage(above).filter(|input| (first..=last).contains(&input.number)).collect()
    }

    pub fn sections(&self) -> impl Iterator<Item = (&Arc<Tree>, &Arc<Section>)> {
        self.trees.iter().flat_map(|tree| tree.sections.iter().map(move |section| (tree, section)))
    }

    pub fn bytes(&self) -> u64 {
        self.trees.iter().map(|tree| tree.bytes()).sum()
    }

    /// True if a tree behind this place in age has keys of the span.
    pub fn has_older(&self, order: &KeyOrder, place: Place, span: &Span) -> bool {
        self.trees.iter().any(|tree| place.is_newer_than(tree.place()) && tree.has_runs_within(order, span))
    }

    /// The first invariant that is broken, if one is.
    pub fn fault(&self, order: &KeyOrder) -> Option<String> {
        let mut ids = HashSet::new();
        for (number, tree) in self.trees.iter().enumerate() {
            let what = |fault: &str| Some(format!("tree {} of stage {} {fault}", tree.number, tree.stage));
            if number > 0 && !self.trees[number - 1].place().is_newer_than(tree.place()) {
                return what("is out of order");
            }
            let is_covered = tree.sections.first().is_some_and(|first| first.span.start.is_none())
                && tree.sections.last().is_some_and(|last| last.span.end.is_none());
            let is_ascending = tree.sections.iter().zip(tree.sections.iter().skip(1)).all(|(a, b)| {
                let starts_later =
                    |start| a.span.start.as_ref().is_none_or(|_| b.span.starts_behind(order, start));
                a.span.end.is_some()
                    && a.span.end == b.span.start
                    && a.span.start.as_deref().is_none_or(starts_later)
            });
            if !is_covered || !is_ascending {
                return what("does not cover the keys once");
            }
            for section in &tree.sections {
                let is_within =
                    |run: &Run| run.span.intersect(order, &section.span).as_ref() == Some(&*run.span);
                let is_narrowed_rightly = |run: &Run| {
                    run.dropped_ranges.as_ref().is_none_or(|ranges| ranges.are_within(order, &run.span))
                };
                if !section.runs.iter().all(|run| is_within(run) && is_narrowed_rightly(run)) {
                    return what("has a sub-tree outside of its place");
                }
                if !are_apart(order, section.sub_trees()) {
                    return what("has sub-trees with keys in common");
                }
                if !ids.insert(section.id) {
                    return what("has a section of another one");
                }
            }
            if let Some((first, last)) = tree.takes {
                let is_newest =
                    self.stage(tree.stage).next().is_some_and(|newest| newest.number == tree.number);
                if tree.stage < 2 || !is_newest {
                    return what("grows, and is not the newest of its stage");
                }
                let mut above = self.stage(tree.stage - 1);
                let is_other = |input: &Arc<Tree>| {
                    input.number < first || (input.number <= last && input.takes.is_some())
                };
                if above.any(is_other) {
                    return what("takes up others than the oldest trees of the stage above");
                }
            }
        }
        None
    }

    /// A tree that has keys in common with one that it takes up, if there is one.
    pub fn common(&self, order: &KeyOrder) -> Option<String> {
        let has_common = |tree: &&Arc<Tree>| {
            let inputs = self.inputs_of(tree);
            let has = |run: &Run| inputs.iter().any(|input| input.has_runs_within(order, &run.span));
            !inputs.is_empty() && tree.runs().any(|(_, run)| has(run))
        };
        let tree = self.trees.iter().find(has_common)?;
        Some(format!("tree {} of stage {} has keys of a tree that it takes up", tree.number, tree.stage))
    }
}

impl Tree {
    pub fn place(&self) -> Place {
        Place { level: self.stage, tree: self.number }
    }
}
