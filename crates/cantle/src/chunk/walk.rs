//! Walks what a snapshot sees: the newest visible version of each key, chunk after chunk, in both directions.

use super::Chunks;
use super::chunk::Chunk;
use super::merged::Merged;
use crate::bounds::Bounds;
use crate::cache::budget::Cost;
use crate::entry::Kind;
use crate::error::Result;
use crate::layout::PairCursor;
use crate::mvcc::SnapshotGuard;
use crate::span::{Span, contains};
use crate::sync::Arc;
use bytes::Bytes;
use std::cmp::Ordering;
use std::ops::Bound;

/// A cursor over the pairs of a keyspace within bounds, at one snapshot.
pub struct Walk {
    chunks: Arc<Chunks>,
    bounds: Bounds,
    snapshot: SnapshotGuard,
    chunk: Option<Open>,
    current: Option<(Bytes, Bytes)>,
    forward: bool,
}

/// The chunk under the cursor.
struct Open {
    chunk: Arc<Chunk>,
    span: Span,
    merged: Merged,
}

impl Walk {
    pub fn new(chunks: Arc<Chunks>, bounds: Bounds, snapshot: SnapshotGuard) -> Self {
        Self { chunks, bounds, snapshot, chunk: None, current: None, forward: true }
    }

    fn open(&mut self, chunk: Arc<Chunk>) -> Result<()> {
        let at = self.snapshot.version();
        let funk = chunk.funk.load_full();
        let merged = Merged::new(&self.chunks.context, &funk, false, |file| file.is_visible(at))?;
        chunk.touch_scan();
        self.chunks.context.budget.count_reads(1);
        self.chunks.context.budget.charge(Cost::Merge);
        self.chunk = Some(Open { span: chunk.span.clone(), chunk, merged });
        Ok(())
    }

    /// Takes the next visible pair at or behind the merge's position, in its direction and chunk.
    fn settle(&mut self) -> Result<Option<(Bytes, Bytes)>> {
        let at = self.snapshot.version();
        let Some(Open { merged, chunk, .. }) = &mut self.chunk else { return Ok(None) };
        let order = &self.chunks.context.order;
        let mut skipped = 0u64;
        let mut key: Vec<u8> = Vec::new();
        while let Some(entry) = merged.cursor.entry() {
            key.clear();
            key.extend_from_slice(entry.key);
            // Of the versions of this key the newest that is visible counts. Forward it comes first; backward last.
            let mut newest: Option<(Kind, Bytes)> = None;
            while let Some(entry) = merged.cursor.entry() {
                if order.compare(entry.key, &key) != Ordering::Equal {
                    break;
                }
                let (kind, version) = (entry.kind, entry.version);
                if (newest.is_none() || !self.forward) && version <= at && merged.is_alive(version) {
                    let deleted =
                        merged.is_deleted(&key, at, merged.cursor.source(), merged.cursor.position());
                    if entry.key != key {
                        // Equal, but not identical: each version has its own spelling.
                        key.clear();
                        key.extend_from_slice(entry.key);
                    }
                    newest = Some(if deleted {
                        (Kind::Delete, Bytes::new())
                    } else {
                        (kind, merged.cursor.value()?)
                    });
                } else {
                    skipped += 1;
                }
                merged.cursor.advance()?;
            }
            match newest {
                Some((Kind::Put, value)) => {
                    chunk.owe_reads(skipped);
                    return Ok(Some((Bytes::from(key), value)));
                }
                _ => skipped += 1,
            }
        }
        chunk.owe_reads(skipped);
        Ok(None)
    }

    /// Goes on with the next chunks until there is a pair.
    fn advance_forward(&mut self) -> Result<bool> {
        self.current = None;
        loop {
            if let Some((key, value)) = self.settle()? {
                let within = contains(
                    &Bounds { start: Bound::Unbounded, end: self.bounds.end.clone() },
                    &self.chunks.context.order,
                    &key,
                );
                self.current = within.then_some((key, value));
                return Ok(within);
            }
            let Some(next) = self.chunk.as_ref().and_then(|open| open.span.end.clone()) else {
                return Ok(false);
            };
            if !contains(
                &Bounds { start: Bound::Unbounded, end: self.bounds.end.clone() },
                &self.chunks.context.order,
                &next,
            ) {
                return Ok(false);
            }
            // Found by key, as chunks may have been split or merged since.
            self.open(self.chunks.index.find(&next))?;
            if let Some(open) = &mut self.chunk {
                open.merged.cursor.seek(&next)?;
            }
        }
    }

    fn advance_back(&mut self) -> Result<bool> {
        self.current = None;
        loop {
            if let Some((key, value)) = self.settle()? {
                let within = contains(
                    &Bounds { start: self.bounds.start.clone(), end: Bound::Unbounded },
                    &self.chunks.context.order,
                    &key,
                );
                self.current = within.then_some((key, value));
                return Ok(within);
            }
            let Some(start) = self.chunk.as_ref().and_then(|open| open.span.start.clone()) else {
                return Ok(false);
            };
            let order = &self.chunks.context.order;
            let beyond = match &self.bounds.start {
                Bound::Unbounded => false,
                Bound::Included(key) | Bound::Excluded(key) => {
                    order.compare(&start, key) != Ordering::Greater
                }
            };
            if beyond {
                return Ok(false);
            }
            let chunk = self.chunks.index.view().find_last_before(Some(&start)).clone();
            self.open(chunk)?;
            if let Some(open) = &mut self.chunk {
                open.merged.cursor.seek_before(&start)?;
            }
        }
    }

    /// To the first pair at or after `key` (after it, if `after`), never before the start of the bounds.
    fn seek_forward(&mut self, key: Option<&[u8]>, after: bool) -> Result<bool> {
        self.forward = true;
        let order = self.chunks.context.order.clone();
        let (key, after) = match (&self.bounds.start, key) {
            (Bound::Unbounded, None) => (None, false),
            (Bound::Unbounded, Some(key)) => (Some(key.to_vec()), after),
            (Bound::Included(start), None) => (Some(start.clone()), false),
            (Bound::Excluded(start), None) => (Some(start.clone()), true),
            (Bound::Included(start) | Bound::Excluded(start), Some(key)) => {
                let excluded = matches!(self.bounds.start, Bound::Excluded(_));
                match order.compare(key, start) {
                    Ordering::Less => (Some(start.clone()), excluded),
                    Ordering::Equal => (Some(key.to_vec()), after || excluded),
                    Ordering::Greater => (Some(key.to_vec()), after),
                }
            }
        };
        let chunk = match &key {
            Some(key) => self.chunks.index.find(key),
            None => self.chunks.index.find(b""),
        };
        let first = match &key {
            Some(_) => chunk,
            None => self.chunks.first(),
        };
        self.open(first)?;
        if let Some(open) = &mut self.chunk {
            match &key {
                Some(key) => open.merged.cursor.seek(key)?,
                None => open.merged.cursor.seek_to_first()?,
            }
        }
        let found = self.advance_forward()?;
        match (&key, &self.current) {
            (Some(key), Some((found_key, _)))
                if after && order.compare(found_key, key) == Ordering::Equal =>
            {
                self.advance_forward()
            }
            _ => Ok(found),
        }
    }

    /// To the last pair before `key` (or at it, if `at`), never behind the end of the bounds.
    fn seek_back(&mut self, key: Option<&[u8]>) -> Result<bool> {
        self.forward = false;
        let order = self.chunks.context.order.clone();
        // `seek_before` excludes its key: an included end is looked up first.
        let (key, including) = match (&self.bounds.end, key) {
            (Bound::Unbounded, key) => (key.map(<[u8]>::to_vec), false),
            (Bound::Excluded(end), None) => (Some(end.clone()), false),
            (Bound::Included(end), None) => (Some(end.clone()), true),
            (Bound::Excluded(end), Some(key)) => (
                Some(if order.compare(key, end) == Ordering::Greater { end.clone() } else { key.to_vec() }),
                false,
            ),
            (Bound::Included(end), Some(key)) => {
                if order.compare(key, end) == Ordering::Greater {
                    (Some(end.clone()), true)
                } else {
                    (Some(key.to_vec()), false)
                }
            }
        };
        if including && let Some(key) = &key {
            // The pair at the end itself, if there is one.
            self.forward = true;
            self.open(self.chunks.index.find(key))?;
            if let Some(open) = &mut self.chunk {
                open.merged.cursor.seek(key)?;
            }
            let pair = self.settle()?.filter(|(found, _)| order.compare(found, key) == Ordering::Equal);
            self.forward = false;
            if let Some((found, value)) = pair
                && contains(
                    &Bounds { start: self.bounds.start.clone(), end: Bound::Unbounded },
                    &order,
                    &found,
                )
            {
                if let Some(open) = &mut self.chunk {
                    open.merged.cursor.seek_before(key)?;
                }
                self.current = Some((found, value));
                return Ok(true);
            }
        }
        let chunk = match &key {
            Some(key) => self.chunks.index.view().find_last_before(Some(key)).clone(),
            None => self.chunks.index.view().find_last_before(None).clone(),
        };
        self.open(chunk)?;
        if let Some(open) = &mut self.chunk {
            match &key {
                Some(key) => open.merged.cursor.seek_before(key)?,
                None => open.merged.cursor.seek_to_last()?,
            }
        }
        self.advance_back()
    }
}

impl PairCursor for Walk {
    fn seek(&mut self, key: &[u8]) -> Result<bool> {
        self.seek_forward(Some(key), false)
    }

    fn seek_to_first(&mut self) -> Result<bool> {
        self.seek_forward(None, false)
    }

    fn seek_to_last(&mut self) -> Result<bool> {
        self.seek_back(None)
    }

    fn next(&mut self) -> Result<bool> {
        let Some((key, _)) = &self.current else { return Ok(false) };
        if self.forward {
            self.advance_forward()
        } else {
            let key = key.clone();
            self.seek_forward(Some(&key), true)
        }
    }

    fn prev(&mut self) -> Result<bool> {
        let Some((key, _)) = &self.current else { return Ok(false) };
        if self.forward {
            let key = key.clone();
            self.seek_back(Some(&key))
        } else {
            self.advance_back()
        }
    }

    fn pair(&self) -> Option<(&[u8], &[u8])> {
        self.current.as_ref().map(|(key, value)| (&key[..], &value[..]))
    }

    fn owned_pair(&self) -> Option<(Bytes, Bytes)> {
        self.current.clone()
    }
}
