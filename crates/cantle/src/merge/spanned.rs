//! A source of which only a span of keys counts: files are shared under key bounds.

use crate::entry::{EntryCursor, EntryRef};
use crate::error::Result;
use crate::order::KeyOrder;
use crate::span::Span;
use bytes::Bytes;
use std::cmp::Ordering;

/// Confines a cursor to a span.
pub struct SpannedCursor {
    inner: Box<dyn EntryCursor>,
    span: Span,
    order: KeyOrder,
}

impl SpannedCursor {
    pub fn new(inner: Box<dyn EntryCursor>, span: Span, order: KeyOrder) -> Self {
        Self { inner, span, order }
    }
}

impl EntryCursor for SpannedCursor {
    fn seek_to_first(&mut self) -> Result<()> {
        match &self.span.start {
            Some(start) => self.inner.seek(start),
            None => self.inner.seek_to_first(),
        }
    }

    fn seek_to_last(&mut self) -> Result<()> {
        match &self.span.end {
            Some(end) => self.inner.seek_before(end),
            None => self.inner.seek_to_last(),
        }
    }

    fn seek(&mut self, key: &[u8]) -> Result<()> {
        match &self.span.start {
            Some(start) if self.order.compare(key, start) == Ordering::Less => self.inner.seek(start),
            _ => self.inner.seek(key),
        }
    }

    fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        match &self.span.end {
            Some(end) if self.order.compare(key, end) == Ordering::Greater => self.inner.seek_before(end),
            _ => self.inner.seek_before(key),
        }
    }

    fn next(&mut self) -> Result<()> {
        self.inner.next()
    }

    fn prev(&mut self) -> Result<()> {
        self.inner.prev()
    }

    fn entry(&self) -> Option<EntryRef<'_>> {
        self.inner.entry().filter(|entry| self.span.contains(&self.order, entry.key))
    }

    fn position(&self) -> u64 {
        self.inner.position()
    }

    fn value(&mut self) -> Result<Bytes> {
        self.inner.value()
    }
}
