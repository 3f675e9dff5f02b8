//! What a transaction has read of one keyspace.
//!
//! A walk counts for as far as it got: whoever took ten pairs of a range knows what lies between the first and the
//! tenth, and nothing of what comes behind.

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

/// Keys and spans read, as they come.
#[derive(Debug, Default)]
pub struct Reads {
    keys: HashSet<Bytes>,
    /// One for each stretch that a cursor walked; they may overlap.
    spans: Vec<KeySpan>,
}

/// From one key to another.
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

    /// What a validation is told: ascending, each key once, spans that overlap as one.
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

/// A cursor that notes what it walks over.
pub struct TrackedCursor {
    inner: Box<dyn PairCursor>,
    shared: Arc<Shared>,
    keyspace: usize,
    order: KeyOrder,
    bounds: Bounds,
    /// Which of the spans the position lies in, once there is one.
    span: Option<usize>,
    /// What it walked over was not noted any more, and is not shown.
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

    /// Where the cursor stands, or the end of the bounds behind it.
    fn reached(&self, bound: &Bound<Vec<u8>>) -> Bound<Bytes> {
        match self.inner.pair() {
            Some((key, _)) => Bound::Included(Bytes::copy_from_slice(key)),
            None => bound.as_ref().map(|key| Bytes::copy_from_slice(key)),
        }
    }

    /// It went from the place where it stood, in its span, to where it stands.
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

    /// It came from elsewhere and went over this span.
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
        // From nowhere it goes nowhere, and has learned nothing.
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
