//! Keys and ranges of one keyspace that a transaction has read.
//!
//! A range counts as read as far as it was consumed. A transaction that took ten pairs of a range
//! has read everything up to the tenth pair, and nothing after it.

use super::ranges::Ranges;
use super::{Shared, Touched};
use crate::layout::{PairCursor, ReadSet};
use crate::sync::Arc;
use crate::types::bounds::Bounds;
use crate::types::error::Result;
use crate::types::order::KeyOrder;
use crate::types::span::{is_later_end, is_later_start};
use bytes::Bytes;
use std::collections::HashSet;
use std::ops::Bound;

/// The keys and spans that were read, neither sorted nor merged.
#[derive(Debug, Default)]
pub struct Reads {
    keys: HashSet<Bytes>,
    /// One span for each stretch that a cursor moved across; they may overlap.
    spans: Vec<KeySpan>,
}

/// The keys between two bounds.
#[derive(Debug, Clone)]
struct KeySpan {
    start: Bound<Bytes>,
    end: Bound<Bytes>,
}

impl Reads {
    pub fn add_key(&mut self, key: &[u8]) {
        if !self.keys.contains(key) {
            self.keys.insert(Bytes::copy_from_slice(key));
        }
    }

    /// The read set for validation: in ascending order, each key once, and overlapping spans
    /// merged.
    pub fn to_read_set(&self, order: &KeyOrder) -> ReadSet {
        let mut keys: Vec<Bytes> = self.keys.iter().cloned().collect();
        order.sort_by(&mut keys, |a, b| order.compare(a, b));
        let mut read: Vec<&KeySpan> = self.spans.iter().collect();
        let starts = |a: &&KeySpan, b: &&KeySpan| {
            let later = |a: &KeySpan, b: &KeySpan| is_later_start(order, &a.start, &b.start);
            later(a, b).cmp(&later(b, a))
        };
        order.sort_by(&mut read, starts);
        let mut spans = Ranges::default();
        read.into_iter().for_each(|span| spans.add(order, span.to_bounds()));
        ReadSet { keys, spans: spans.into_vec() }
    }
}

impl KeySpan {
    fn to_bounds(&self) -> Bounds {
        let bound = |bound: &Bound<Bytes>| bound.as_ref().map(|key| key.to_vec());
        Bounds { start: bound(&self.start), end: bound(&self.end) }
    }
}

/// A cursor that records the keys that it moves across as read.
pub struct TrackedCursor {
    inner: Box<dyn PairCursor>,
    shared: Arc<Shared>,
    keyspace: usize,
    order: KeyOrder,
    bounds: Bounds,
    /// Index of the span in which the position lies, once there is one.
    span: Option<usize>,
    /// True if the transaction ended before the last movement was recorded. The pair is not shown
    /// then.
    is_over: bool,
}

impl TrackedCursor {
    pub fn new(
        inner: Box<dyn PairCursor>,
        shared: Arc<Shared>,
        keyspace: usize,
        order: KeyOrder,
        bounds: Bounds,
    ) -> Self {
        Self { inner, shared, keyspace, order, bounds, span: None, is_over: false }
    }

    /// The current key, or the end of the bounds in the direction of the walk.
    fn reached(&self, bound: &Bound<Vec<u8>>) -> Bound<Bytes> {
        match self.inner.pair() {
            Some((key, _)) => Bound::Included(Bytes::copy_from_slice(key)),
            None => bound.as_ref().map(|key| Bytes::copy_from_slice(key)),
        }
    }

    /// Records a movement from a position in the current span to the present one.
    fn extend(&mut self, forward: bool) -> Result<()> {
        let Some(span) = self.span else { return Ok(()) };
        let reached = self.reached(if forward { &self.bounds.end } else { &self.bounds.start });
        let noted = self.shared.with(self.keyspace, |Touched { reads, .. }| {
            let Some(span) = reads.spans.get_mut(span) else { return };
            if forward && is_later_end(&self.order, &reached, &span.end) {
                span.end = reached;
            } else if !forward && is_later_start(&self.order, &span.start, &reached) {
                span.start = reached;
            }
        });
        noted.inspect_err(|_| self.is_over = true)
    }

    /// Records a movement from elsewhere across this span.
    fn begin(&mut self, span: KeySpan) -> Result<()> {
        let noted = self.shared.with(self.keyspace, |Touched { reads, .. }| {
            reads.spans.push(span);
            reads.spans.len() - 1
        });
        self.span = Some(noted.inspect_err(|_| self.is_over = true)?);
        Ok(())
    }
}

impl PairCursor for TrackedCursor {
    fn seek(&mut self, key: &[u8]) -> Result<bool> {
        let found = self.inner.seek(key)?;
        let own: Bound<Bytes> = self.bounds.start.as_ref().map(|key| Bytes::copy_from_slice(key));
        let key = Bound::Included(Bytes::copy_from_slice(key));
        let start = if is_later_start(&self.order, &own, &key) { own } else { key };
        let end = self.reached(&self.bounds.end);
        self.begin(KeySpan { start, end })?;
        Ok(found)
    }

    fn seek_to_first(&mut self) -> Result<bool> {
        let found = self.inner.seek_to_first()?;
        let start = self.bounds.start.as_ref().map(|key| Bytes::copy_from_slice(key));
        let end = self.reached(&self.bounds.end);
        self.begin(KeySpan { start, end })?;
        Ok(found)
    }

    fn seek_to_last(&mut self) -> Result<bool> {
        let found = self.inner.seek_to_last()?;
        let end = self.bounds.end.as_ref().map(|key| Bytes::copy_from_slice(key));
        let start = self.reached(&self.bounds.start);
        self.begin(KeySpan { start, end })?;
        Ok(found)
    }

    fn next(&mut self) -> Result<bool> {
        // Without a current pair the cursor does not move, and nothing is read.
        let stood = self.inner.pair().is_some();
        let found = self.inner.next()?;
        if stood {
            self.extend(true)?;
        }
        Ok(found)
    }

    fn prev(&mut self) -> Result<bool> {
        let stood = self.inner.pair().is_some();
        let found = self.inner.prev()?;
        if stood {
            self.extend(false)?;
        }
        Ok(found)
    }

    fn pair(&self) -> Option<(&[u8], &[u8])> {
        self.inner.pair().filter(|_| !self.is_over)
    }

    fn owned_pair(&self) -> Option<(Bytes, Bytes)> {
        self.inner.owned_pair().filter(|_| !self.is_over)
    }
}
