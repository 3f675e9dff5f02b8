//! Guards whose tables range deletes have dropped (`lsm/marked.rs`), or that have nothing but range deletes.

use super::levels::{Changing, Guard, Levels};
use crate::lsm::busy::Busy;
use crate::lsm::marked::marked;
use crate::lsm::shape::{Job, Outcome, Piece, Rules};
use crate::run::run::{Run, Source};

impl Changing<'_> {
    /// Marks the runs, and parts of runs, below the output of a piece that its range deletes cover.
    pub(super) fn drop_covered(&mut self, piece: &Piece, outcome: &Outcome) {
        let Some((level, _)) = piece.groups.first().and_then(|&id| self.place_of(id)) else { return };
        if outcome.deleted.is_empty() {
            return;
        }
        let order = self.order;
        // The output is appended after this: everything in its level within the piece is older.
        for level in level..self.levels.levels.len() {
            for place in 0..self.levels.levels[level].len() {
                let guard = self.levels.levels[level][place].clone();
                if guard.span.intersect(order, &piece.span).is_none() {
                    continue;
                }
                let marks: Vec<_> = guard.runs.iter().map(|run| marked(order, run, outcome)).collect();
                if marks.iter().any(Option::is_some) {
                    let runs =
                        guard.runs.iter().zip(marks).map(|(run, mark)| mark.unwrap_or_else(|| run.clone()));
                    self.splice(level, place..place + 1, vec![guard.with_runs(runs.collect())]);
                }
            }
        }
    }

    pub(super) fn purge(&mut self, group: u64, gone: &Run) {
        self.remove_runs(group, |run| run.is_same(gone));
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
    /// The merge of guards of the last level that have nothing but range deletes, which cover
    /// nothing there.
    pub(super) fn pick_bare(&self, rules: &Rules, busy: &Busy) -> Option<Job> {
        let bare = self.last().iter().filter(|guard| guard.is_bare() && busy.is_free(guard.id));
        let pieces: Vec<Piece> = bare.map(|guard| guard.merge(guard.runs.len(), rules)).collect();
        (!pieces.is_empty()).then(|| Job::of_pieces(pieces))
    }
}
