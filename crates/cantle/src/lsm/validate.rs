//! Validation of transactions in two passes. The first holds no lock: it takes a snapshot and looks
//! for changes up to it. The second holds the stripes of the read set, and looks only for changes
//! since that snapshot.

use super::keyspace::Lsm;
use super::shape::Shape;
use super::view::View;
use crate::layout::{ReadSet, Validated};
use crate::mvcc::KeySpan;
use crate::run::changed::{key_changed, span_changed};
use crate::run::run::Run;
use crate::run::stack::RunStack;
use crate::types::bounds::Bounds;
use crate::types::error::Result;
use crate::types::span::{intersect_bounds, is_empty_range};
use std::ops::Bound;

impl<S: Shape> Lsm<S> {
    pub(super) fn validate_unlocked(&self, reads: &ReadSet, since: u64) -> Result<Validated> {
        let snapshot = self.substrate.mvcc.own_snapshot(KeySpan::ALL);
        let conflict = self.changed_since(reads, since)?;
        Ok(Validated { conflict, since: snapshot.version(), _snapshot: Some(snapshot) })
    }

    /// A place in the read set that has changed since `since`. Without locks it may also be a
    /// change that was committed a moment ago.
    pub(super) fn changed_since(&self, reads: &ReadSet, since: u64) -> Result<Option<Bounds>> {
        let view = self.rotation.view.load_full();
        for key in &reads.keys {
            let runs: Vec<Run> =
                view.runs_at(&self.env.order, key).filter(|run| run.may_be_newer(since)).cloned().collect();
            if !runs.is_empty() && key_changed(&self.env, &RunStack { files: runs }, key, since)? {
                let key = || Bound::Included(key.to_vec());
                return Ok(Some(Bounds { start: key(), end: key() }));
            }
        }
        for span in &reads.spans {
            if let Some(changed) = self.span_changed_since(&view, span, since)? {
                return Ok(Some(changed));
            }
        }
        Ok(None)
    }

    fn span_changed_since(&self, view: &View<S>, span: &Bounds, since: u64) -> Result<Option<Bounds>> {
        let order = &self.env.order;
        if !view.level0.iter().chain(view.tables()).any(|run| run.may_be_newer(since)) {
            return Ok(None);
        }
        let mut next = match &span.start {
            Bound::Unbounded => view.shape.stretch_at(order, None),
            Bound::Included(key) | Bound::Excluded(key) => view.shape.stretch_at(order, Some(key)),
        };
        loop {
            let within = intersect_bounds(order, span, &next.span.bounds());
            if !is_empty_range(order, &within)
                && let Some(changed) = span_changed(&self.env, &view.stack_of(order, &next), &within, since)?
            {
                return Ok(Some(changed));
            }
            let Some(end) = next.span.end.clone() else { return Ok(None) };
            let is_beyond = match &span.end {
                Bound::Unbounded => false,
                Bound::Included(last) => order.compare(&end, last).is_gt(),
                Bound::Excluded(last) => order.compare(&end, last).is_ge(),
            };
            if is_beyond {
                return Ok(None);
            }
            next = view.shape.stretch_at(order, Some(&end));
        }
    }
}
