//! One step of a merge of trees: as many sub-trees as are cleaned at once (SifrDB §4.2), those that overlap
//! merged, the others handed over as they are (§4.1).

use super::tree::Tree;
use crate::lsm::shape::{Cuts, Job, Move, Piece, Place};
use crate::lsm::sizes::written_of;
use crate::run::retain::Bottom;
use crate::run::run::Run;
use crate::sync::Arc;
use crate::types::order::KeyOrder;
use crate::types::span::Span;
use bytes::Bytes;

/// A sub-tree is handed over only if it, and what is merged before it, has this part of the usual length: no
/// short ones come of it.
const LEAST_FRACTION: u64 = 4;
/// Maximum number of sub-trees that a step hands over: its edit names them.
const HANDED_MOST: usize = 256;
/// A length that no table reaches.
pub const WHOLE: u64 = 1 << 60;

/// The trees and the sizes that make a step.
pub struct Plan<'a> {
    pub order: &'a KeyOrder,
    /// The trees that are merged, newest first.
    pub trees: &'a [&'a Tree],
    /// The keys that it may reach.
    pub span: &'a Span,
    pub place: Place,
    /// The tree there, if there is one and it is not merged, too: no output may reach beyond a sub-tree of it.
    pub target: Option<&'a Tree>,
    /// True if no older tree has keys of this span.
    pub is_bottom: &'a dyn Fn(&Span) -> bool,
    /// The usual length of a sub-tree in bytes.
    pub unit: u64,
    /// Bytes that are merged in one step.
    pub pace: u64,
    /// True if sub-trees without a key in common with others stay as they are.
    pub hands: bool,
    pub oldest_snapshot: u64,
}

/// A sub-tree, or the part of one that the step takes.
struct Taken {
    tree: usize,
    section: u64,
    run: Run,
}

/// Sub-trees whose keys are connected: each overlaps another one.
#[derive(Default)]
struct Cluster {
    taken: Vec<Taken>,
    end: Option<Bytes>,
}

impl Cluster {
    fn bytes(&self) -> u64 {
        self.taken.iter().map(|taken| taken.run.bytes()).sum()
    }

    fn start(&self, order: &KeyOrder) -> Option<Bytes> {
        let first = self.taken.iter().min_by(|a, b| start_order(order, &a.run.span, &b.run.span))?;
        first.run.span.start.clone()
    }

    /// Bytes of the sub-trees that end at a key or before it.
    fn bytes_before(&self, order: &KeyOrder, key: &[u8]) -> u64 {
        let runs = self.taken.iter().map(|taken| &taken.run);
        runs.filter(|run| run.span.ends_before(order, key)).map(Run::bytes).sum()
    }
}

fn start_order(order: &KeyOrder, a: &Span, b: &Span) -> std::cmp::Ordering {
    match (&a.start, &b.start) {
        (Some(a), Some(b)) => order.compare(a, b),
        (a, b) => a.is_some().cmp(&b.is_some()),
    }
}

impl Plan<'_> {
    /// The step from the smallest keys of the span on; `None` if no tree has any there. Its keys are all that the
    /// trees have up to its end.
    pub fn job(&self) -> Option<Job> {
        let (clusters, is_last) = self.clusters();
        let mut job = Job::default();
        let mut pending: Vec<Taken> = Vec::new();
        let least = self.unit / LEAST_FRACTION;
        for cluster in clusters {
            let pending_bytes: u64 = pending.iter().map(|taken| taken.run.bytes()).sum();
            if self.is_handed(&cluster, least) && (pending.is_empty() || pending_bytes >= least) {
                job.pieces.extend(self.piece(std::mem::take(&mut pending)));
                for Taken { section, run, .. } in cluster.taken {
                    job.changed.push(section);
                    job.moves.push(Move::Hand { group: section, run });
                }
            } else {
                if self.is_divided(&pending, &cluster) {
                    job.pieces.extend(self.piece(std::mem::take(&mut pending)));
                }
                pending.extend(cluster.taken);
            }
        }
        job.pieces.extend(self.piece(pending));
        if is_last {
            self.hand_empty(&mut job);
        }
        (!job.pieces.is_empty() || !job.moves.is_empty()).then_some(job)
    }

    /// True if the tree that the output belongs to has keys between these sub-trees.
    fn is_divided(&self, before: &[Taken], next: &Cluster) -> bool {
        let (Some(target), Some(start), Some(end)) =
            (self.target, self.end_of(before), next.start(self.order))
        else {
            return false;
        };
        self.order.compare(&start, &end).is_lt()
            && target.has_runs_within(self.order, &Span { start: Some(start), end: Some(end) })
    }

    /// The end of the keys of these sub-trees; `None` if there is none.
    fn end_of(&self, taken: &[Taken]) -> Option<Bytes> {
        let ends = taken.iter().map(|taken| taken.run.span.end.clone());
        let later = |a: Bytes, b: Bytes| if self.order.compare(&a, &b).is_lt() { b } else { a };
        ends.reduce(|a, b| Some(later(a?, b?)))?
    }

    /// True for a single sub-tree that may stay as it is.
    fn is_handed(&self, cluster: &Cluster, least: u64) -> bool {
        let [Taken { run, .. }] = &cluster.taken[..] else { return false };
        let is_marked = run.dropped.is_some() || run.dropped_ranges.is_some();
        self.hands && !is_marked && run.bytes() >= least
    }

    /// Tables that hold nothing go along with the last step.
    fn hand_empty(&self, job: &mut Job) {
        for section in self.trees.iter().flat_map(|tree| tree.sections_within(self.order, self.span)) {
            let count = section.sub_trees().len();
            for run in section.runs.get(count..).unwrap_or_default() {
                job.changed.push(section.id);
                job.moves.push(Move::Hand { group: section.id, run: run.clone() });
            }
        }
    }

    /// The next sub-trees in the order of keys, and true if there are no others behind them.
    fn clusters(&self) -> (Vec<Cluster>, bool) {
        let order = self.order;
        let mut cursors: Vec<_> =
            self.trees.iter().map(|tree| tree.runs_within(order, self.span).peekable()).collect();
        let (mut clusters, mut open) = (Vec::new(), Cluster::default());
        let (mut merged_bytes, mut handed) = (0, 0);
        loop {
            let next = cursors.iter_mut().enumerate().filter_map(|(tree, cursor)| {
                let (section, run) = *cursor.peek()?;
                Some((tree, section, run))
            });
            let next = next.min_by(|(_, _, a), (_, _, b)| start_order(order, &a.span, &b.span));
            let Some((tree, section, run)) = next else {
                clusters.push(open);
                break (clusters, true);
            };
            let overlaps =
                |end: &Bytes| run.span.start.as_ref().is_none_or(|start| order.compare(start, end).is_lt());
            let is_connected = !open.taken.is_empty() && open.end.as_ref().is_none_or(overlaps);
            if !is_connected && !open.taken.is_empty() {
                let closed = std::mem::take(&mut open);
                match self.is_handed(&closed, self.unit / LEAST_FRACTION) {
                    true => handed += 1,
                    false => merged_bytes += closed.bytes(),
                }
                clusters.push(closed);
            }
            // Each step takes whole sub-trees, or it would come to nothing.
            let start = run.span.start.as_ref();
            let whole_bytes = merged_bytes + start.map_or(0, |start| open.bytes_before(order, start));
            let is_full = whole_bytes >= self.pace || handed >= HANDED_MOST;
            if let Some(start) = start.filter(|_| is_full) {
                self.cut(&mut open, start);
                clusters.push(open);
                break (clusters, false);
            }
            let within = run.span.intersect(order, self.span);
            if let Some(within) = within {
                let is_whole = within == *run.span;
                // Nobody knows how its bytes lie.
                let run = if is_whole { run.clone() } else { run.part(within, run.bytes() / 2) };
                let end = run.span.end.clone();
                open.end = match (open.taken.is_empty(), open.end.take(), end) {
                    (true, _, end) => end,
                    (false, Some(a), Some(b)) => Some(if order.compare(&a, &b).is_lt() { b } else { a }),
                    (false, ..) => None,
                };
                open.taken.push(Taken { tree, section, run });
            }
            let _ = cursors[tree].next();
        }
    }

    /// Leaves what a cluster has from a key on to the next step.
    fn cut(&self, cluster: &mut Cluster, at: &Bytes) {
        let before = Span { start: None, end: Some(at.clone()) };
        cluster.taken.retain(|taken| taken.run.span.intersect(self.order, &before).is_some());
        for taken in &mut cluster.taken {
            if let Some(within) = taken.run.span.intersect(self.order, &before)
                && within != *taken.run.span
            {
                taken.run = taken.run.part(within, taken.run.bytes() / 2).clip_dropped_ranges(self.order);
            }
        }
    }

    /// The merge of these sub-trees.
    fn piece(&self, mut taken: Vec<Taken>) -> Option<Piece> {
        let first = taken.iter().min_by(|a, b| start_order(self.order, &a.run.span, &b.run.span))?;
        let start = first.run.span.start.clone();
        let span = Span { start, end: self.end_of(&taken) };
        // Newest first. The sub-trees of one tree have no key in common.
        taken.sort_by_key(|taken| taken.tree);
        let bottom = if (self.is_bottom)(&span) { Bottom::Reached } else { Bottom::Deeper };
        let written = |taken: &Taken| written_of(&taken.run, bottom, self.oldest_snapshot);
        let bytes: u64 = taken.iter().map(written).sum();
        Some(Piece {
            span,
            taken: taken.iter().map(|taken| (taken.section, 0..1)).collect(),
            tables: taken.into_iter().map(|taken| taken.run).collect(),
            bottom,
            cuts: cuts(bytes, self.unit),
            place: self.place,
            groups: Vec::new(),
        })
    }
}

/// The cuts of this number of bytes into sub-trees of about equal length.
pub fn cuts(bytes: u64, unit: u64) -> Cuts {
    let unit = unit.max(1);
    let parts = bytes.saturating_add(unit / 2) / unit;
    Cuts::Near(if parts < 2 { WHOLE } else { bytes / parts })
}

/// The trees as a plan takes them.
pub fn of_arcs<'a>(trees: &[&'a Arc<Tree>]) -> Vec<&'a Tree> {
    trees.iter().map(|tree| &***tree).collect()
}
