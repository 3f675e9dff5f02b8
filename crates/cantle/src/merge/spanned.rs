//! Limits a source to a span of keys: files are shared under key bounds.

use crate::sync::Arc;
use crate::types::entry::{EntryCursor, EntryRef};
use crate::types::error::Result;
use crate::types::order::KeyOrder;
use crate::types::span::Span;
use bytes::Bytes;
use std::cmp::Ordering;

/// Confines a cursor to a span.
pub struct SpannedCursor<C> {
    inner: C,
    span: Arc<Span>,
    order: KeyOrder,
    /// True if there is an entry and it is within the span. Computed once for each entry, as it is
    /// read often.
    within: bool,
}

impl<C: EntryCursor> SpannedCursor<C> {
    pub fn new(inner: C, span: Arc<Span>, order: KeyOrder) -> Self {
        Self { inner, span, order, within: false }
    }

    /// Moves the inner cursor and updates `within`. After an error the cursor is not positioned.
    fn step(&mut self, step: impl FnOnce(&mut C, &Span, &KeyOrder) -> Result<()>) -> Result<()> {
        self.within = false;
        step(&mut self.inner, &self.span, &self.order)?;
        self.within = self.inner.entry().is_some_and(|entry| self.span.contains(&self.order, entry.key));
        Ok(())
    }
}

impl<C: EntryCursor> EntryCursor for SpannedCursor<C> {
    fn seek_to_first(&mut self) -> Result<()> {
        self.step(|inner, span, _| match &span.start {
            Some(start) => inner.seek(start),
            None => inner.seek_to_first(),
        })
    }

    fn seek_to_last(&mut self) -> Result<()> {
        self.step(|inner, span, _| match &span.end {
            Some(end) => inner.seek_before(end),
            None => inner.seek_to_last(),
        })
    }

    fn seek(&mut self, key: &[u8]) -> Result<()> {
        self.step(|inner, span, order| match &span.start {
            Some(start) if order.compare(key, start) == Ordering::Less => inner.seek(start),
            _ => inner.seek(key),
        })
    }

    fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        self.step(|inner, span, order| match &span.end {
            Some(end) if order.compare(key, end) == Ordering::Greater => inner.seek_before(end),
            _ => inner.seek_before(key),
        })
    }

    fn announce_index(&mut self, begin: bool) -> bool {
        self.inner.announce_index(begin)
    }

    fn announce(&mut self, key: &[u8], begin: bool) -> bool {
        self.within = false;
        let clamped = match (&self.span.start, &self.span.end) {
            (Some(start), _) if self.order.compare(key, start) == Ordering::Less => start,
            (_, Some(end)) if self.order.compare(key, end) == Ordering::Greater => end,
            _ => key,
        };
        self.inner.announce(clamped, begin)
    }

    fn next(&mut self) -> Result<()> {
        self.step(|inner, _, _| inner.next())
    }

    fn prev(&mut self) -> Result<()> {
        self.step(|inner, _, _| inner.prev())
    }

    #[inline]
    fn entry(&self) -> Option<EntryRef<'_>> {
        if self.within { self.inner.entry() } else { None }
    }

    fn position(&self) -> u64 {
        self.inner.position()
    }

    fn value(&mut self) -> Result<Bytes> {
        self.inner.value()
    }
}
