//! The lineage of a merge's output, by which a repair without a manifest knows the files that it
//! replaces (`table::lineage`).

use super::keyspace::Lsm;
use super::shape::{Outcome, Piece, Placed, Shape};
use crate::run::retain::Bottom;
use crate::run::run::{Run, Source};
use crate::run::stack::RunStack;
use crate::run::writer::Output;
use crate::substrate::Grant;
use crate::table::{Lineage, Part};
use crate::types::error::Result;
use crate::types::span::Span;
use std::cell::OnceCell;

impl<S: Shape> Lsm<S> {
    /// The lineage of the output of a piece that merges these runs.
    pub(super) fn lineage_of(&self, piece: &Piece, stack: &RunStack) -> Result<Lineage> {
        let order = &self.env.order;
        let is_bottom = piece.bottom == Bottom::Reached;
        let mut parts = Vec::new();
        for run in &stack.files {
            let whole = |age| Part { span: (*run.span).clone(), age, replaced: 0 };
            if let Source::Log(log) = &run.source {
                parts.push(whole(log.file.id));
                continue;
            }
            let Some(lineage) = self.read_lineage(run)? else {
                // From before there were lineages: older than everything that has one.
                parts.push(whole(0));
                continue;
            };
            // Beyond the keys of the run, the table has none, but may replace others. If it is shared,
            // another group may still read its keys there.
            let is_limited = run.share_bytes.is_some() && !is_bottom;
            let within = |part: Part| match is_limited {
                true => part.span.intersect(order, &run.span).map(|span| Part { span, ..part }),
                false => Some(part),
            };
            parts.extend(lineage.parts().into_iter().filter_map(within));
        }
        let upto = self.substrate.mvcc.greatest_used();
        canary!(INPUTS_NOT_NAMED => let is_bottom = false);
        Ok(Lineage::of(order, &piece.span, upto, &parts, is_bottom))
    }

    fn read_lineage(&self, run: &Run) -> Result<Option<Lineage>> {
        let Source::Table(table) = &run.source else { return Ok(None) };
        let env = &self.env;
        table.open(&env.tables, &env.files, &env.order, &env.cache)?.lineage()
    }
}

/// The statements of a job that no table of its output has: those of pieces of which nothing is left.
///
/// A table without entries gets them, one for the whole job. Without it a repair would read the puts of
/// files that are still there, or that other groups share, and miss the deletes of those that are gone.
/// The table goes when these files have gone ([`Rules::settled`](super::shape::Rules)); a merge that
/// comes before passes its statements on.
pub(super) struct LeftOut<'a, S: Shape> {
    lsm: &'a Lsm<S>,
    parts: Vec<Part>,
}

impl<'a, S: Shape> LeftOut<'a, S> {
    pub fn new(lsm: &'a Lsm<S>) -> Self {
        Self { lsm, parts: Vec::new() }
    }

    /// Adds a piece with its outcome.
    pub fn add(
        &mut self,
        piece: &Piece,
        stack: &RunStack,
        lineage: &Lineage,
        outcome: &Outcome,
    ) -> Result<()> {
        let is_lost = outcome.placed.is_empty() && stack.files.iter().any(|run| !run.is_empty_table());
        let of_piece = if is_lost { lineage.parts() } else { Vec::new() };
        self.parts.extend(of_piece.into_iter().filter(|part| part.replaced > 0));
        // A table without entries may say something of other pieces.
        let order = &self.lsm.env.order;
        let left = || self.lsm.rotation.view.load_full().tables().filter_map(Run::least_left).min();
        let settled = OnceCell::new();
        let settled = || {
            let gone = self.lsm.substrate.files.settled_below();
            *settled.get_or_init(|| left().map_or(gone, |left| left.min(gone)))
        };
        for run in stack.files.iter().filter(|run| run.is_empty_table() && run.file().id >= settled()) {
            let parts = self.lsm.read_lineage(run)?.map(|lineage| lineage.parts()).unwrap_or_default();
            let parts = parts.into_iter().filter(|part| part.replaced > 0);
            let others = parts.flat_map(|part| {
                let spans = if outcome.placed.is_empty() {
                    vec![part.span.clone()]
                } else {
                    part.span.without(order, &piece.span)
                };
                spans.into_iter().map(move |span| Part { span, ..part.clone() })
            });
            self.parts.extend(others);
        }
        Ok(())
    }

    /// Writes the table, if there is anything to say. On a full disk too: the merge frees space.
    pub fn place(self, outcome: &mut Outcome, grant: &mut Grant<'_>) -> Result<()> {
        if self.parts.is_empty() {
            return Ok(());
        }
        let Self { lsm, parts } = self;
        let upto = lsm.substrate.mvcc.greatest_used();
        let lineage = Lineage::of(&lsm.env.order, &Span::default(), upto, &parts, false);
        let outputs = lsm.substrate.reserve.with(|| {
            let versions = (lsm.substrate.mvcc.current(), 0);
            Output::new(&lsm.env, versions, 1, grant).with_lineage(lineage.clone()).wanted().finish()
        })?;
        outcome.placed.extend(outputs.into_iter().map(|output| Placed {
            from: 0,
            parts: vec![Some(1)],
            output,
        }));
        Ok(())
    }
}
