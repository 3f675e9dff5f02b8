//! Range deletes of level 0 drop what they cover of the tables, before a merge brings them there.
//!
//! A merge notes what its range deletes cover ([`dropped_ranges`](super::dropped_ranges)), but it needs room for what
//! it keeps. On a full disk there may be none, though a range delete has left nothing of many tables. So the marks
//! are made at once: nothing is written but an edit of the manifest, and the tables go with the next checkpoint.
//!
//! *Correctness.* The runs of level 0 are newer than all tables, and are merged oldest first. As long as those
//! that the range deletes were read from are in level 0, so is everything newer than these, and nothing in a
//! table is. They stay, with their range deletes: a table that a running merge adds is hidden by them as before.

use super::keyspace::Lsm;
use super::merge::{Planned, Written};
use super::shape::{Cuts, Job, Outcome, Piece, Place, Shape};
use super::view::View;
use crate::mvcc::Keep;
use crate::read_ahead::BytesRead;
use crate::run::merged::Merged;
use crate::run::referred::Copying;
use crate::run::retain::Bottom;
use crate::run::run::{Run, Source};
use crate::run::stack::RunStack;
use crate::types::error::Result;
use crate::types::span::Span;

/// A piece of all keys that takes nothing, above all tables.
fn above<S: Shape>(view: &View<S>) -> Piece {
    let first_level = || view.shape.groups().filter(|group| group.level == 1);
    Piece {
        span: Span::default(),
        tables: Vec::new(),
        taken: Vec::new(),
        bottom: Bottom::Deeper,
        cuts: Cuts::At(first_level().filter_map(|group| group.span.start.clone()).collect()),
        place: Place::ABOVE,
        groups: first_level().map(|group| group.id).collect(),
    }
}

fn has_range_deletes(run: &Run) -> bool {
    match &run.source {
        Source::Log(log) => log.loaded().is_some_and(|parts| parts.range_deletes() > 0),
        Source::Table(table) => table.has_deleted,
    }
}

impl<S: Shape> Lsm<S> {
    /// Marks what range deletes of level 0 cover; false if nothing is.
    pub fn drop_early(&self) -> Result<bool> {
        let view = self.rotation.view.load_full();
        let level0 = self.ripe_logs(&view);
        if !level0.iter().any(has_range_deletes) {
            return Ok(false);
        }
        let outcome = self.covered(&view, &level0)?;
        self.publish_covered(outcome, &level0)
    }

    /// The parts of the tables that range deletes of these runs cover.
    pub fn covered(&self, view: &View<S>, level0: &[Run]) -> Result<Outcome> {
        let substrate = &self.substrate;
        substrate.journal.wait_durable().map_err(|error| substrate.sync_failed(error))?;
        let keep = Keep::new(substrate.mvcc.open_versions());
        let stack = RunStack { files: level0.to_vec() };
        let read = (&BytesRead::default(), Copying::ALL);
        let deleted = Merged::needed(&self.env, &stack, read, &keep.versions)?.carried(&keep);
        let narrowed = self.narrow((view, &above(view)), &deleted, &keep);
        Ok(Outcome { deleted, narrowed, ..Outcome::default() })
    }

    /// Notes it in the manifest, if all of these runs are in level 0 still.
    pub fn publish_covered(&self, outcome: Outcome, level0: &[Run]) -> Result<bool> {
        if outcome.deleted.is_empty() {
            return Ok(false);
        }
        let mut busy = self.jobs.claims.lock();
        let view = self.rotation.view.load_full();
        let is_there = |run: &Run| view.level0.iter().any(|now| now.file().id == run.file().id);
        if !level0.iter().all(is_there) {
            return Ok(false);
        }
        let planned = Planned { logs: Vec::new(), job: Job::of_pieces(vec![above(&view)]) };
        let mut written = Written { lsm: self, pieces: vec![outcome], logs: Vec::new() };
        self.substrate.reserve.with(|| self.install(&mut busy, &planned, &mut written))
    }
}
