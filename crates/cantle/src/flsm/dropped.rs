//! Tables that range deletes have dropped as a whole. A mark says so, and moves no data. The tables go
//! once no snapshot reads them. A mark on a part of a table works alike (`run/dropped_ranges.rs`).
//! Also tables that hold nothing, and only say which files they replace: they go once these files have
//! gone.

use super::levels::{Changing, Guard, Levels};
use crate::lsm::busy::Busy;
use crate::lsm::shape::{Job, Move, Outcome, Piece, Rules};
use crate::run::run::{Dropped, Run, Source};
use crate::sync::Arc;
use crate::table::DeletedRange;
use crate::types::gap::Gap;
use crate::types::order::KeyOrder;

/// The version of the range delete that covers the whole run, if one of these does. A snapshot from
/// this version on sees nothing of the run.
fn covered_at(order: &KeyOrder, run: &Run, deleted: &[DeletedRange]) -> Option<u64> {
    let bounds = run.span.bounds();
    let begins = |range: &DeletedRange| Gap::start(&range.bounds).compare(order, Gap::start(&bounds)).is_le();
    let range = deleted.get(deleted.partition_point(begins).checked_sub(1)?)?;
    let is_covered = Gap::end(&range.bounds).compare(order, Gap::end(&bounds)).is_ge();
    // All of its versions are newer than the run.
    range.versions.last().copied().filter(|_| is_covered)
}

/// True for a table that no snapshot from this version on needs.
fn is_gone(order: &KeyOrder, run: &Run, oldest_snapshot: u64) -> bool {
    let ranges = run.dropped_ranges.as_ref();
    let by_parts = || ranges.and_then(|ranges| ranges.covers_from(order, &run.span));
    let version = run.dropped.as_ref().map(|dropped| dropped.version).or_else(by_parts);
    version.is_some_and(|version| version <= oldest_snapshot)
}

impl Changing<'_> {
    /// Marks the runs, and parts of runs, below the output of a piece that its range deletes cover.
    pub(super) fn drop_covered(&mut self, piece: &Piece, outcome: &Outcome) {
        let deleted = &outcome.deleted[..];
        let Some((level, _)) = piece.groups.first().and_then(|&id| self.place_of(id)) else { return };
        if deleted.is_empty() {
            return;
        }
        let order = self.order;
        let mark = |run: &Run| {
            let version = covered_at(order, run, deleted).filter(|_| run.dropped.is_none())?;
            Some(Box::new(Dropped { version, batch: 0, cell: None }))
        };
        let narrowed = |run: &Run| outcome.narrowed.iter().find(|narrowed| narrowed.is_of(run));
        // The output is appended after this: everything in its level within the piece is older.
        let marked = |run: &Run| match (mark(run), narrowed(run)) {
            (Some(dropped), _) => Run { dropped: Some(dropped), dropped_ranges: None, ..run.clone() },
            (None, Some(narrowed)) => {
                Run { dropped_ranges: narrowed.after.clone(), ..run.clone() }.dropped_whole(order)
            }
            (None, None) => run.clone(),
        };
        let is_changed = |run: &Run| mark(run).is_some() || narrowed(run).is_some();
        for level in level..self.levels.levels.len() {
            for place in 0..self.levels.levels[level].len() {
                let guard = self.levels.levels[level][place].clone();
                let is_within = guard.span.intersect(order, &piece.span).is_some();
                if is_within && guard.runs.iter().any(is_changed) {
                    let runs = guard.runs.iter().map(marked).collect();
                    self.splice(level, place..place + 1, vec![guard.with_runs(runs)]);
                }
            }
        }
    }

    pub(super) fn purge(&mut self, group: u64, oldest_snapshot: u64) {
        let order = self.order;
        self.remove_runs(group, |run| is_gone(order, run, oldest_snapshot));
    }

    pub(super) fn forget(&mut self, group: u64, settled: u64) {
        self.remove_runs(group, |run| run.is_empty_table() && run.file().id < settled);
    }

    fn remove_runs(&mut self, group: u64, is_removed: impl Fn(&Run) -> bool) {
        let Some((level, place)) = self.place_of(group) else { return };
        let guard = self.levels.levels[level][place].clone();
        let left: Vec<Run> = guard.runs.iter().filter(|run| !is_removed(run)).cloned().collect();
        if left.len() < guard.runs.len() {
            self.splice(level, place..place + 1, vec![guard.with_runs(left)]);
        }
    }
}

impl Guard {
    /// True for a guard without entries and range deletes.
    pub(super) fn is_empty(&self) -> bool {
        self.runs.iter().all(Run::is_empty_table)
    }

    /// True for a guard that has nothing but range deletes, at least one.
    pub fn is_bare(&self) -> bool {
        let has_none = |run: &Run| match &run.source {
            Source::Table(table) => run.dropped.is_none() && table.entries == 0,
            // The entries of one of an earlier opening may not be counted yet.
            Source::Log(_) => false,
        };
        self.runs.iter().all(has_none) && !self.is_empty()
    }
}

impl Levels {
    /// The removal of tables that are dropped and that nobody reads, if there are any.
    pub(super) fn pick_purge(&self, order: &KeyOrder, rules: &Rules, busy: &Busy) -> Option<Job> {
        let oldest_snapshot = rules.oldest_snapshot;
        let has_gone =
            |guard: &&Arc<Guard>| guard.runs.iter().any(|run| is_gone(order, run, oldest_snapshot));
        let guards = self.guards().filter(has_gone).filter(|guard| busy.is_free(guard.id));
        let moves: Vec<Move> = guards.map(|guard| Move::Purge { group: guard.id, oldest_snapshot }).collect();
        (!moves.is_empty()).then(|| Job::of_moves(moves))
    }

    /// The removal of tables that hold nothing, if the files that they replace have gone. A file that
    /// was shared still has the keys that its other groups do not read any more, and a log to which tables
    /// refer has everything that was written to it.
    pub(super) fn pick_empty(&self, rules: &Rules, busy: &Busy) -> Option<Job> {
        let runs = self.guards().flat_map(|guard| &guard.runs);
        let left = runs.filter_map(Run::least_left).min();
        let settled = left.map_or(rules.settled, |left| left.min(rules.settled));
        let may_go = |run: &Run| run.is_empty_table() && run.file().id < settled;
        let guards = self.guards().filter(|guard| guard.runs.iter().any(may_go) && busy.is_free(guard.id));
        let moves: Vec<Move> = guards.map(|guard| Move::Forget { group: guard.id, settled }).collect();
        (!moves.is_empty()).then(|| Job::of_moves(moves))
    }

    /// The merge of guards of the last level that have nothing but range deletes, which cover
    /// nothing there.
    pub(super) fn pick_bare(&self, rules: &Rules, busy: &Busy) -> Option<Job> {
        let bare = self.last().iter().filter(|guard| guard.is_bare() && busy.is_free(guard.id));
        let pieces: Vec<Piece> = bare.map(|guard| guard.merge(guard.runs.len(), rules)).collect();
        (!pieces.is_empty()).then(|| Job::of_pieces(pieces))
    }
}
