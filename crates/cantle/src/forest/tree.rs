//! One logical tree: sub-trees that have no key in common, and the index to find them by (SifrDB §4.1).

use crate::lsm::state::GroupRecord;
use crate::run::record::FileRecord;
use crate::run::run::Run;
use crate::sync::Arc;
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use crate::types::order::KeyOrder;
use crate::types::span::Span;
use std::cmp::Ordering;

/// A part of a tree, which an edit of the manifest replaces as a whole.
pub struct Section {
    pub id: u64,
    pub span: Span,
    /// Sub-trees in the order of keys, and behind them tables that hold nothing, and only say which files they replace.
    pub runs: Vec<Run>,
    sub_trees: usize,
    /// Entries that reads of its keys passed over, or could have done without, since it was made.
    pub debt: AtomicU64,
    /// True after many seeks without a write between them (SifrDB §6).
    sought: AtomicBool,
}

/// A tree. Its sections cover all keys.
#[derive(Clone)]
pub struct Tree {
    pub stage: u32,
    pub number: u64,
    pub sections: Vec<Arc<Section>>,
    /// The first and the last number of the trees of the stage above that it takes up, while it grows.
    pub takes: Option<(u64, u64)>,
}

/// The place of a key in a tree: the widest span around it with the same sub-tree, or none.
pub struct At<'a> {
    pub span: Span,
    pub run: Option<&'a Run>,
}

/// True if the span begins before the key.
fn begins_before(order: &KeyOrder, span: &Span, key: &[u8]) -> bool {
    span.start.as_ref().is_none_or(|start| order.compare(start, key) == Ordering::Less)
}

impl Section {
    pub fn new(id: u64, span: Span, runs: Vec<Run>) -> Self {
        let (mut sub_trees, empty): (Vec<Run>, Vec<Run>) =
            runs.into_iter().partition(|run| !run.is_empty_table());
        let count = sub_trees.len();
        sub_trees.extend(empty);
        Self {
            id,
            span,
            runs: sub_trees,
            sub_trees: count,
            debt: AtomicU64::new(0),
            sought: AtomicBool::new(false),
        }
    }

    /// In the order of keys.
    pub fn sub_trees(&self) -> &[Run] {
        self.runs.get(..self.sub_trees).unwrap_or_default()
    }

    pub fn bytes(&self) -> u64 {
        self.runs.iter().map(Run::bytes).sum()
    }

    pub fn owe(&self, entries: u64) {
        self.debt.fetch_add(entries, Relaxed);
    }

    pub fn seek(&self) {
        self.sought.store(true, Relaxed);
    }

    pub fn is_sought(&self) -> bool {
        self.sought.load(Relaxed)
    }

    /// The place before the sub-tree of this number, and behind the one before it.
    fn gap(&self, before: usize) -> At<'_> {
        let runs = self.sub_trees();
        let start = match before.checked_sub(1) {
            Some(last) => runs[last].span.end.clone(),
            None => self.span.start.clone(),
        };
        let end = match runs.get(before) {
            Some(next) => next.span.start.clone(),
            None => self.span.end.clone(),
        };
        At { span: Span { start, end }, run: None }
    }

    fn at(&self, order: &KeyOrder, key: Option<&[u8]>) -> At<'_> {
        let runs = self.sub_trees();
        let next = match key {
            Some(key) => runs.partition_point(|run| !run.span.starts_behind(order, key)),
            None => runs.partition_point(|run| run.span.start.is_none()),
        };
        let found = next.checked_sub(1).map(|at| &runs[at]);
        match found.filter(|run| key.is_none_or(|key| !run.span.ends_before(order, key))) {
            Some(run) => At { span: (*run.span).clone(), run: Some(run) },
            None => self.gap(next),
        }
    }

    fn before(&self, order: &KeyOrder, key: Option<&[u8]>) -> At<'_> {
        let runs = self.sub_trees();
        let next = match key {
            Some(key) => runs.partition_point(|run| begins_before(order, &run.span, key)),
            None => runs.len(),
        };
        let reaches = |run: &&Run| match (&run.span.end, key) {
            (None, _) => true,
            (Some(end), Some(key)) => order.compare(end, key).is_ge(),
            // Only a run without an end reaches to the last keys.
            (Some(_), None) => false,
        };
        match next.checked_sub(1).map(|at| &runs[at]).filter(reaches) {
            Some(run) => At { span: (*run.span).clone(), run: Some(run) },
            None => self.gap(next),
        }
    }
}

impl Tree {
    /// The index of the section that has a key; of the first one if that is `None`.
    pub fn place_of(&self, order: &KeyOrder, key: Option<&[u8]>) -> usize {
        let Some(key) = key else { return 0 };
        self.sections.partition_point(|section| !section.span.starts_behind(order, key)).saturating_sub(1)
    }

    /// The sub-tree that may have a key.
    pub fn run_at<'a>(&'a self, order: &KeyOrder, key: &[u8]) -> Option<&'a Run> {
        let runs = self.sections.get(self.place_of(order, Some(key)))?.sub_trees();
        let at = runs.partition_point(|run| !run.span.starts_behind(order, key)).checked_sub(1)?;
        runs.get(at).filter(|run| !run.span.ends_before(order, key))
    }

    /// The place of a key; of the first keys if that is `None`.
    pub fn at(&self, order: &KeyOrder, key: Option<&[u8]>) -> Option<At<'_>> {
        Some(self.sections.get(self.place_of(order, key))?.at(order, key))
    }

    /// The place of the greatest keys below a key; of the last keys if that is `None`.
    pub fn before(&self, order: &KeyOrder, key: Option<&[u8]>) -> Option<At<'_>> {
        let section = match key {
            Some(key) => {
                let next = self.sections.partition_point(|section| begins_before(order, &section.span, key));
                self.sections.get(next.saturating_sub(1))
            }
            None => self.sections.last(),
        };
        Some(section?.before(order, key))
    }

    /// All sub-trees, in the order of keys, with the numbers of their sections.
    pub fn runs(&self) -> impl Iterator<Item = (u64, &Run)> {
        self.sections.iter().flat_map(|section| section.sub_trees().iter().map(|run| (section.id, run)))
    }

    /// The sections that have keys of a span.
    pub fn sections_within<'a>(&'a self, order: &KeyOrder, span: &Span) -> &'a [Arc<Section>] {
        let from = self.place_of(order, span.start.as_deref());
        let to = span.end.as_ref().map_or(self.sections.len(), |end| {
            self.sections.partition_point(|section| begins_before(order, &section.span, end))
        });
        self.sections.get(from..to).unwrap_or_default()
    }

    /// The sub-trees that have keys of a span, with the numbers of their sections.
    pub fn runs_within<'a>(
        &'a self,
        order: &'a KeyOrder,
        span: &'a Span,
    ) -> impl Iterator<Item = (u64, &'a Run)> {
        self.sections_within(order, span).iter().flat_map(move |section| {
            let runs = section.sub_trees();
            let from = span
                .start
                .as_ref()
                .map_or(0, |start| runs.partition_point(|run| run.span.ends_before(order, start)));
            let runs = runs.get(from..).unwrap_or_default().iter();
            let is_within =
                move |run: &&Run| span.end.as_ref().is_none_or(|end| begins_before(order, &run.span, end));
            runs.take_while(is_within).map(|run| (section.id, run))
        })
    }

    /// The same, and the tables that hold nothing in the sections there.
    pub fn all_within<'a>(
        &'a self,
        order: &'a KeyOrder,
        span: &'a Span,
    ) -> impl Iterator<Item = (u64, &'a Run)> {
        let sections = self.sections_within(order, span).iter();
        sections.flat_map(|section| section.runs.iter().map(|run| (section.id, run)))
    }

    pub fn has_runs_within(&self, order: &KeyOrder, span: &Span) -> bool {
        self.runs_within(order, span).next().is_some()
    }

    pub fn bytes(&self) -> u64 {
        self.sections.iter().map(|section| section.bytes()).sum()
    }

    pub fn record(&self, section: &Section) -> GroupRecord {
        let is_last = self.sections.last().is_some_and(|last| last.id == section.id);
        GroupRecord {
            id: section.id,
            level: self.stage,
            tree: self.number,
            // In the section that each step replaces.
            takes: self.takes.filter(|_| is_last),
            start: section.span.start.clone(),
            files: section.runs.iter().map(|run| FileRecord::of(run, &section.span)).collect(),
        }
    }
}
