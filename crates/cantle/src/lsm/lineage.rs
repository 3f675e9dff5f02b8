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
use crate::types::entry::{EntryCursor as _, EntryRef};
use crate::types::error::Result;
use crate::types::span::Span;
use bytes::Bytes;
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
            let own = match is_bottom {
                true => Span::default(),
                // Another group may still read keys of the table beyond these.
                false if run.share_bytes.is_some() && !lineage.replaces() => (*run.span).clone(),
                false => self.spoken_for(run)?,
            };
            let within = |part: Part| part.span.intersect(order, &own).map(|span| Part { span, ..part });
            parts.extend(lineage.parts().into_iter().filter_map(within));
        }
        let upto = self.substrate.mvcc.greatest_used();
        canary!(INPUTS_NOT_NAMED => let is_bottom = false);
        Ok(Lineage::of(order, &piece.span, upto, &parts, is_bottom))
    }

    /// The keys for which a run hands on the lineage of its table: its own, and those beside them of which the table
    /// has none. Each key falls to one of the runs that share the table, the one before it or, if there is none, the
    /// first one. Where the table is damaged, that cannot be told, and the run speaks for its own keys.
    fn spoken_for(&self, run: &Run) -> Result<Span> {
        let (Source::Table(table), Some(_)) = (&run.source, run.share_bytes) else {
            return Ok(Span::default());
        };
        let (env, order) = (&self.env, &self.env.order);
        let mut cursor = table.open(&env.tables, &env.files, order, &env.cache)?.cursor();
        let mut own = (*run.span).clone();
        let is_at_first =
            |first: Option<EntryRef<'_>>| first.is_none_or(|first| !run.span.starts_behind(order, first.key));
        if cursor.seek_to_first().is_ok() && is_at_first(cursor.entry()) {
            own.start = None;
        }
        if let Some(end) = &run.span.end
            && cursor.seek(end).is_ok()
        {
            own.end = cursor.entry().map(|next| Bytes::copy_from_slice(next.key));
        }
        Ok(own)
    }

    fn read_lineage(&self, run: &Run) -> Result<Option<Lineage>> {
        let Source::Table(table) = &run.source else { return Ok(None) };
        let env = &self.env;
        table.open(&env.tables, &env.files, &env.order, &env.cache)?.lineage()
    }
}

/// The statements of a job that no table of its output has: those for keys of which nothing is left, those that
/// its inputs make for keys beyond the job (a guard may have been divided between these keys and the table's own), and
/// those of dropped tables that it removes.
///
/// Tables without entries get them, one for the whole job unless they are long. Without these a repair would read the
/// puts of files that are still there, or that other groups share, and miss the deletes of those that are gone.
/// Such a table goes when these files have gone ([`Rules::settled`](super::shape::Rules)); a merge that
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
        let lsm = self.lsm;
        let order = &lsm.env.order;
        let left = || lsm.rotation.view.load_full().tables().filter_map(Run::least_left).min();
        let settled = OnceCell::new();
        let settled = || {
            let gone = lsm.substrate.files.settled_below();
            *settled.get_or_init(|| left().map_or(gone, |left| left.min(gone)))
        };
        // The files that older tables replaced have gone.
        let tables = || stack.files.iter().filter(|run| run.log().is_none() && run.file().id >= settled());
        let applies_deletes =
            piece.bottom == Bottom::Reached && stack.files.iter().any(|run| !run.is_empty_table());
        if applies_deletes || tables().next().is_some() {
            let mut bare = vec![piece.span.clone()];
            for placed in &outcome.placed {
                let covered = piece.span_of(placed.from..placed.from + placed.parts.len());
                bare = bare.iter().flat_map(|span| span.without(order, &covered)).collect();
            }
            bare.iter().for_each(|span| self.say(lineage, |said| said.intersect(order, span)));
        }
        for run in tables() {
            let Some(lineage) = lsm.read_lineage(run)?.filter(Lineage::replaces) else { continue };
            for beyond in lsm.spoken_for(run)?.without(order, &piece.span) {
                self.say(&lineage, |said| said.intersect(order, &beyond));
            }
        }
        Ok(())
    }

    /// Adds what the table of a dropped run has said, for the keys that the run speaks for. Nothing if the table
    /// cannot be read: it goes nevertheless.
    pub fn add_purged(&mut self, run: &Run) {
        let lsm = self.lsm;
        let statements = lsm.read_lineage(run).and_then(|lineage| match lineage.filter(Lineage::replaces) {
            Some(lineage) => Ok(Some((lineage, lsm.spoken_for(run)?))),
            None => Ok(None),
        });
        match statements {
            Ok(Some((lineage, own))) => self.say(&lineage, |said| said.intersect(&lsm.env.order, &own)),
            Ok(None) => {}
            Err(error) => tracing::warn!(%error, "a dropped table goes without telling what it has replaced"),
        }
    }

    /// Adds the statements of a lineage for these keys of each.
    fn say(&mut self, lineage: &Lineage, keys: impl Fn(&Span) -> Option<Span>) {
        let said = lineage.parts().into_iter().filter(|part| part.replaced > 0);
        self.parts.extend(said.filter_map(|part| Some(Part { span: keys(&part.span)?, ..part })));
    }

    /// Writes tables, if there is anything to say. On a full disk too: the merge frees space.
    pub fn place(self, outcome: &mut Outcome, grant: &mut Grant<'_>) -> Result<()> {
        let Self { lsm, parts } = self;
        let upto = lsm.substrate.mvcc.greatest_used();
        for lineage in Lineage::of_statements(&lsm.env.order, upto, &parts) {
            let outputs = lsm.substrate.reserve.with(|| {
                let versions = (lsm.substrate.mvcc.current(), 0);
                Output::new(&lsm.env, versions, 1, grant).with_lineage(lineage.clone()).wanted().finish()
            })?;
            let placed = |output| Placed { from: 0, parts: vec![Some(1)], output };
            outcome.placed.extend(outputs.into_iter().map(placed));
        }
        Ok(())
    }
}
