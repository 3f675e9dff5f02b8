//! Walks the pairs that a snapshot sees: the newest visible version of each key, chunk after chunk,
//! in both directions.

use super::Chunks;
use crate::chunk::chunk::Chunk;
use crate::chunk::munk::MunkCursor;
use crate::layout::PairCursor;
use crate::mvcc::SnapshotGuard;
use crate::run::merged::Merged;
use crate::run::visible::{Passed, next_visible};
use crate::sync::Arc;
use crate::types::bounds::Bounds;
use crate::types::error::Result;
use bytes::Bytes;
use std::cmp::Ordering;
use std::ops::Bound;

/// A cursor over the pairs of a keyspace within bounds, at one snapshot.
pub struct Walk {
    chunks: Arc<Chunks>,
    bounds: Bounds,
    snapshot: SnapshotGuard,
    chunk: Option<Open>,
    current: Current,
    /// The key of `Current::Merged`.
    key: Vec<u8>,
    /// Buffer for the next key; after an error the cursor keeps its position.
    next_key: Vec<u8>,
    forward: bool,
}

/// The chunk at the cursor's position.
struct Open {
    chunk: Arc<Chunk>,
    pairs: Pairs,
    /// True if no key of the chunk lies after the walk's end; the same for its start.
    ends_within: bool,
    starts_within: bool,
    /// Recorded in the chunk at the end.
    passed: Passed,
}

impl Drop for Open {
    fn drop(&mut self) {
        self.chunk.note_dead_run(self.passed.dead_most.max(self.passed.dead));
        let reads = match &self.pairs {
            Pairs::Munk { .. } => 0,
            Pairs::Files(merged) => merged.count_log_reads(),
        };
        self.chunk.owe_reads(self.passed.versions + reads);
    }
}

/// The source of the chunk's pairs.
enum Pairs {
    /// Its munk. `ahead`: the cursor is at a pair that the walk has not taken yet.
    Munk { cursor: MunkCursor, ahead: bool },
    /// Its files, merged. The merge is past the pairs that the walk has taken.
    Files(Box<Merged>),
}

/// The pair at the cursor's position.
enum Current {
    None,
    /// The pair of the munk's cursor.
    Munk,
    /// The walk's key with this value.
    Merged(Bytes),
}

impl Open {
    fn seek(&mut self, key: &[u8]) -> Result<()> {
        match &mut self.pairs {
            Pairs::Munk { cursor, ahead } => *ahead = cursor.seek(key),
            Pairs::Files(merged) => merged.cursor.seek(key)?,
        }
        Ok(())
    }

    fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        match &mut self.pairs {
            Pairs::Munk { cursor, ahead } => *ahead = cursor.seek_before(key),
            Pairs::Files(merged) => merged.cursor.seek_before(key)?,
        }
        Ok(())
    }

    fn seek_to_first(&mut self) -> Result<()> {
        match &mut self.pairs {
            Pairs::Munk { cursor, ahead } => *ahead = cursor.seek_to_first(),
            Pairs::Files(merged) => merged.cursor.seek_to_first()?,
        }
        Ok(())
    }

    fn seek_to_last(&mut self) -> Result<()> {
        match &mut self.pairs {
            Pairs::Munk { cursor, ahead } => *ahead = cursor.seek_to_last(),
            Pairs::Files(merged) => merged.cursor.seek_to_last()?,
        }
        Ok(())
    }
}

impl Walk {
    pub fn new(chunks: Arc<Chunks>, bounds: Bounds, snapshot: SnapshotGuard) -> Self {
        Self {
            chunks,
            bounds,
            snapshot,
            chunk: None,
            current: Current::None,
            key: Vec::new(),
            next_key: Vec::new(),
            forward: true,
        }
    }

    fn open(&mut self, chunk: Arc<Chunk>) -> Result<&mut Open> {
        let at = self.snapshot.version();
        let context = &self.chunks.context;
        chunk.touch_scan(&self.chunks.jobs.ticks);
        context.substrate.budget.count_scan();
        // A reader that finds no munk finds all pairs of the snapshot in the files: they were
        // written before.
        let pairs = match chunk.munk.load_full() {
            Some(munk) => {
                context.counters.scans_munk.add(1);
                Pairs::Munk { cursor: munk.cursor(at), ahead: false }
            }
            None => {
                let funk = chunk.funk.load_full();
                Pairs::Files(Box::new(Merged::new(&context.run, &funk, false, |file| file.is_visible(at))?))
            }
        };
        let ends_within = match (&self.bounds.end, &chunk.span.end) {
            (Bound::Unbounded, _) => true,
            (_, Some(end)) => self.is_before_end(end),
            (_, None) => false,
        };
        let starts_within = match (&self.bounds.start, &chunk.span.start) {
            (Bound::Unbounded, _) => true,
            (_, Some(start)) => self.is_behind_start(start),
            (_, None) => false,
        };
        Ok(self.chunk.insert(Open { chunk, pairs, ends_within, starts_within, passed: Passed::default() }))
    }

    fn is_before_end(&self, key: &[u8]) -> bool {
        let order = &self.chunks.context.order;
        match &self.bounds.end {
            Bound::Unbounded => true,
            Bound::Included(end) => order.compare(key, end) != Ordering::Greater,
            Bound::Excluded(end) => order.compare(key, end) == Ordering::Less,
        }
    }

    fn is_behind_start(&self, key: &[u8]) -> bool {
        let order = &self.chunks.context.order;
        match &self.bounds.start {
            Bound::Unbounded => true,
            Bound::Included(start) => order.compare(key, start) != Ordering::Less,
            Bound::Excluded(start) => order.compare(key, start) == Ordering::Greater,
        }
    }

    #[inline]
    fn current_key(&self) -> Option<&[u8]> {
        self.pair().map(|(key, _)| key)
    }

    /// Takes the next visible pair of the chunk in the walk's direction, at or after the present
    /// position; false at the chunk's end.
    #[inline]
    fn find_visible(&mut self) -> Result<bool> {
        let Some(open) = &mut self.chunk else { return Ok(false) };
        if let Pairs::Munk { cursor, ahead } = &mut open.pairs {
            let found = std::mem::take(ahead) || if self.forward { cursor.next() } else { cursor.prev() };
            self.current = if found { Current::Munk } else { Current::None };
            return Ok(found);
        }
        let value = self.next_merged()?;
        let found = value.is_some();
        if found {
            std::mem::swap(&mut self.key, &mut self.next_key);
        }
        self.current = value.map_or(Current::None, Current::Merged);
        Ok(found)
    }

    /// The value of the next visible pair. Sets `next_key` to its key.
    fn next_merged(&mut self) -> Result<Option<Bytes>> {
        let at = self.snapshot.version();
        canary!(VERSION_OFF_BY_ONE => let at = at + 1);
        let Some(Open { pairs: Pairs::Files(merged), passed, .. }) = &mut self.chunk else {
            return Ok(None);
        };
        next_visible(merged, &mut self.next_key, at, self.forward, passed)
    }

    /// Continues with the next chunks until there is a pair.
    #[inline]
    fn advance_forward(&mut self) -> Result<bool> {
        loop {
            if self.find_visible()? {
                let within = self.chunk.as_ref().is_some_and(|open| open.ends_within)
                    || self.current_key().is_some_and(|key| self.is_before_end(key));
                if !within {
                    self.current = Current::None;
                }
                return Ok(within);
            }
            let Some(next) = self.chunk.as_ref().and_then(|open| open.chunk.span.end.clone()) else {
                return Ok(false);
            };
            if !self.is_before_end(&next) {
                return Ok(false);
            }
            self.chunks.context.order.check()?;
            // Found by key, as chunks may have been split or merged since.
            self.open(self.chunks.index.find(&next))?.seek(&next)?;
        }
    }

    fn advance_back(&mut self) -> Result<bool> {
        loop {
            if self.find_visible()? {
                let within = self.chunk.as_ref().is_some_and(|open| open.starts_within)
                    || self.current_key().is_some_and(|key| self.is_behind_start(key));
                if !within {
                    self.current = Current::None;
                }
                return Ok(within);
            }
            let Some(start) = self.chunk.as_ref().and_then(|open| open.chunk.span.start.clone()) else {
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
            order.check()?;
            let chunk = self.chunks.index.view().find_last_before(Some(&start)).clone();
            self.open(chunk)?.seek_before(&start)?;
        }
    }

    /// Moves to the first pair at or after `key` (after it, if `after`), never before the start of
    /// the bounds.
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
        match &key {
            Some(key) => self.open(self.chunks.index.find(key))?.seek(key)?,
            None => self.open(self.chunks.first())?.seek_to_first()?,
        }
        let found = self.advance_forward()?;
        match (&key, self.current_key()) {
            (Some(key), Some(found_key)) if after && order.compare(found_key, key) == Ordering::Equal => {
                self.advance_forward()
            }
            _ => Ok(found),
        }
    }

    /// Moves to the last pair before `key`, never after the end of the bounds.
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
            self.open(self.chunks.index.find(key))?.seek(key)?;
            let found = self.find_visible()?;
            self.forward = false;
            if found
                && let Some(found_key) = self.current_key()
                && order.compare(found_key, key) == Ordering::Equal
                && self.is_behind_start(found_key)
            {
                // A merge is past the pair; a munk's cursor is at it.
                if let Some(Open { pairs: Pairs::Files(merged), .. }) = &mut self.chunk {
                    merged.cursor.seek_before(key)?;
                }
                return Ok(true);
            }
        }
        let chunk = self.chunks.index.view().find_last_before(key.as_deref()).clone();
        match &key {
            Some(key) => self.open(chunk)?.seek_before(key)?,
            None => self.open(chunk)?.seek_to_last()?,
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

    #[inline]
    fn next(&mut self) -> Result<bool> {
        if self.forward {
            return Ok(!matches!(self.current, Current::None) && self.advance_forward()?);
        }
        let Some(key) = self.current_key().map(<[u8]>::to_vec) else { return Ok(false) };
        self.seek_forward(Some(&key), true)
    }

    fn prev(&mut self) -> Result<bool> {
        if !self.forward {
            return Ok(!matches!(self.current, Current::None) && self.advance_back()?);
        }
        let Some(key) = self.current_key().map(<[u8]>::to_vec) else { return Ok(false) };
        self.seek_back(Some(&key))
    }

    #[inline]
    fn pair(&self) -> Option<(&[u8], &[u8])> {
        match (&self.current, &self.chunk) {
            (Current::Merged(value), _) => Some((&self.key, value)),
            (Current::Munk, Some(Open { pairs: Pairs::Munk { cursor, .. }, .. })) => {
                Some((cursor.key()?, cursor.value()?))
            }
            _ => None,
        }
    }

    fn owned_pair(&self) -> Option<(Bytes, Bytes)> {
        match &self.current {
            Current::Merged(value) => Some((Bytes::copy_from_slice(&self.key), value.clone())),
            _ => self.pair().map(|(key, value)| (Bytes::copy_from_slice(key), Bytes::copy_from_slice(value))),
        }
    }
}
