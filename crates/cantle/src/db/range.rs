//! An iterator over a range, from either end.

use super::keyspace::KeyspaceInner;
use super::read::note_corruption;
use super::snapshot::Snapshot;
use super::transaction::View;
use crate::layout::PairCursor;
use crate::sync::Arc;
use crate::types::bounds::Bounds;
use crate::types::error::Result;
use crate::types::order::KeyOrder;
use crate::types::value::{Key, Value};
use std::cmp::Ordering;
use std::ops::Bound;

/// An iterator over the pairs of a range in key order, as of one snapshot. `rev()` iterates in the
/// other direction; both ends may also be used in turn.
///
/// After an error the iterator is at its end.
pub struct Range {
    snapshot: Snapshot,
    keyspace: Arc<KeyspaceInner>,
    bounds: Bounds,
    /// The prefix of the keys to return. Pairs within the bounds with other keys are left out.
    prefix: Option<Vec<u8>>,
    /// The view of the transaction, for a range within one.
    transaction: Option<View>,
    /// The cursors of the two ends. Each is created when it is first used, and stays at the last
    /// pair that it returned.
    front: Option<Box<dyn PairCursor>>,
    back: Option<Box<dyn PairCursor>>,
    finished: bool,
}

impl Range {
    pub(super) fn new(snapshot: &Snapshot, keyspace: &Arc<KeyspaceInner>, bounds: Bounds) -> Self {
        let (snapshot, keyspace) = (snapshot.clone(), keyspace.clone());
        let (front, back) = (None, None);
        Self { snapshot, keyspace, bounds, prefix: None, transaction: None, front, back, finished: false }
    }

    /// The pairs whose keys start with `prefix`. In the bytewise order these are neighbours. In
    /// another order they may be anywhere, so all pairs are read.
    pub(super) fn with_prefix(snapshot: &Snapshot, keyspace: &Arc<KeyspaceInner>, prefix: &[u8]) -> Self {
        match keyspace.order {
            KeyOrder::Bytewise => Self::new(snapshot, keyspace, Bounds::prefix(prefix)),
            KeyOrder::Custom(_) => {
                let all = Bounds { start: Bound::Unbounded, end: Bound::Unbounded };
                let range = Self::new(snapshot, keyspace, all);
                Self { prefix: Some(prefix.to_vec()), ..range }
            }
        }
    }

    /// The range as a transaction sees it.
    pub(super) fn within(self, transaction: View) -> Self {
        Self { transaction: Some(transaction), ..self }
    }

    /// The next pair from one end that has the prefix.
    fn step(&mut self, forward: bool) -> Result<Option<(Key, Value)>> {
        loop {
            let pair = self.step_any(forward)?;
            match (&pair, &self.prefix) {
                (Some((key, _)), Some(prefix)) if !key.starts_with(prefix) => {}
                _ => return Ok(pair),
            }
        }
    }

    fn step_any(&mut self, forward: bool) -> Result<Option<(Key, Value)>> {
        self.snapshot.check(&self.keyspace)?;
        let (this, other) =
            if forward { (&mut self.front, &self.back) } else { (&mut self.back, &self.front) };
        let found = match this {
            Some(cursor) => {
                if forward {
                    cursor.next()?
                } else {
                    cursor.prev()?
                }
            }
            None => {
                let bounds = self.bounds.clone();
                let layout = self.keyspace.layout.clone();
                let cursor = layout.cursor(bounds.clone(), self.snapshot.guard.clone());
                let cursor = match &self.transaction {
                    Some(view) => view.cursor(cursor, &self.keyspace, bounds),
                    None => cursor,
                };
                let cursor = this.insert(cursor);
                if forward { cursor.seek_to_first()? } else { cursor.seek_to_last()? }
            }
        };
        self.keyspace.order.check()?;
        let pair = this.as_ref().filter(|_| found).and_then(|cursor| cursor.owned_pair());
        let Some((key, value)) = pair else { return Ok(None) };
        // If both ends meet, each pair is returned once.
        if let Some((last, _)) = other.as_ref().and_then(|cursor| cursor.pair()) {
            let order = self.keyspace.order.compare(&key, last);
            self.keyspace.order.check()?;
            if order == Ordering::Equal || (order == Ordering::Greater) == forward {
                return Ok(None);
            }
        }
        Ok(Some((Key::new(key), Value::new(value))))
    }

    fn pull(&mut self, forward: bool) -> Option<Result<(Key, Value)>> {
        if self.finished {
            return None;
        }
        let pair = self.step(forward).inspect_err(note_corruption).transpose();
        self.finished = !matches!(pair, Some(Ok(_)));
        pair
    }
}

impl Iterator for Range {
    type Item = Result<(Key, Value)>;

    fn next(&mut self) -> Option<Self::Item> {
        self.pull(true)
    }
}

impl DoubleEndedIterator for Range {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.pull(false)
    }
}

impl std::iter::FusedIterator for Range {}

impl std::fmt::Debug for Range {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Range").field("bounds", &self.bounds).finish_non_exhaustive()
    }
}
