//! An iterator over a range, from either end.

use super::keyspace::KeyspaceInner;
use super::snapshot::Snapshot;
use super::write::note_corruption;
use crate::bounds::Bounds;
use crate::error::Result;
use crate::layout::PairCursor;
use crate::sync::Arc;
use crate::value::{Key, Value};
use bytes::Bytes;
use std::cmp::Ordering;

/// The pairs of a range in order, as of one snapshot; `rev()` for the other direction, or both ends in turn.
///
/// After an error it is at its end.
pub struct Range {
    snapshot: Snapshot,
    keyspace: Arc<KeyspaceInner>,
    bounds: Bounds,
    front: End,
    back: End,
    finished: bool,
}

/// One end of the range: its cursor, made when it is first used, and the last key that it gave.
#[derive(Default)]
struct End {
    cursor: Option<Box<dyn PairCursor>>,
    last: Option<Bytes>,
}

impl Range {
    pub(super) fn new(snapshot: &Snapshot, keyspace: &Arc<KeyspaceInner>, bounds: Bounds) -> Self {
        let (front, back) = (End::default(), End::default());
        Self { snapshot: snapshot.clone(), keyspace: keyspace.clone(), bounds, front, back, finished: false }
    }

    fn step(&mut self, forward: bool) -> Result<Option<(Key, Value)>> {
        self.snapshot.handle.store.check_open()?;
        let (this, other) =
            if forward { (&mut self.front, &self.back) } else { (&mut self.back, &self.front) };
        let found = match &mut this.cursor {
            Some(cursor) => {
                if forward {
                    cursor.next()?
                } else {
                    cursor.prev()?
                }
            }
            None => {
                let bounds = self.bounds.clone();
                let cursor = self.keyspace.layout.clone().cursor(bounds, self.snapshot.guard.clone());
                let cursor = this.cursor.insert(cursor);
                if forward { cursor.seek_to_first()? } else { cursor.seek_to_last()? }
            }
        };
        let Some((key, value)) = this.cursor.as_ref().filter(|_| found).and_then(|cursor| cursor.pair())
        else {
            return Ok(None);
        };
        // Where both ends meet, each pair is given once.
        if let Some(last) = &other.last {
            let order = self.keyspace.order.compare(key, last);
            if order == Ordering::Equal || (order == Ordering::Greater) == forward {
                return Ok(None);
            }
        }
        this.last = Some(key.clone());
        Ok(Some((Key::new(key.clone()), Value::new(value.clone()))))
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
