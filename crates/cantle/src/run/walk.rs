//! Walks the pairs that a snapshot sees, in both directions, area after area.
//!
//! A layout divides the keys into *areas*: a chunk of `chunk`, the keys between two ends of guards
//! of `flsm`. The files of a layout that hold the keys of one area do not depend on the key. The
//! walk opens one area at a time. At the end of an area it looks up the next one by key, so the
//! layout may have changed its files since.

use super::merged::Merged;
use super::visible::{Passed, next_visible};
use crate::types::bounds::Bounds;
use crate::types::error::Result;
use crate::types::order::KeyOrder;
use crate::types::span::Span;
use bytes::Bytes;
use std::cmp::Ordering;
use std::ops::Bound;

/// The areas of a keyspace, as a snapshot sees them.
pub trait Areas {
    type Area: Area;
    fn order(&self) -> &KeyOrder;
    /// The area of `key`; the first one if that is `None`.
    fn area_at(&self, key: Option<&[u8]>) -> Result<Self::Area>;
    /// The area of the greatest keys below `key`; the last one if that is `None`.
    fn area_before(&self, key: Option<&[u8]>) -> Result<Self::Area>;
}

/// The pairs of one area. After a movement, `take` takes the pairs one by one.
pub trait Area {
    fn span(&self) -> &Span;
    /// Moves before the first pair at `key` or after it.
    fn seek(&mut self, key: &[u8]) -> Result<()>;
    /// Moves after the last pair below `key`.
    fn seek_before(&mut self, key: &[u8]) -> Result<()>;
    fn seek_to_first(&mut self) -> Result<()>;
    fn seek_to_last(&mut self) -> Result<()>;
    /// Takes the next visible pair in this direction, in which the area was positioned. False at
    /// the end of the area.
    fn take(&mut self, forward: bool) -> Result<bool>;
    /// Begins to walk back from the pair taken last, whose key this is.
    fn turn_back(&mut self, key: &[u8]) -> Result<()>;
    /// The pair taken last.
    fn pair(&self) -> Option<(&[u8], &[u8])>;
    /// The same pair, owned.
    fn owned_pair(&self) -> Option<(Bytes, Bytes)> {
        self.pair().map(|(key, value)| (Bytes::copy_from_slice(key), Bytes::copy_from_slice(value)))
    }
}

/// The pairs of an area that are read from its runs.
pub struct MergedPairs {
    merged: Merged,
    /// The version of the snapshot.
    at: u64,
    key: Vec<u8>,
    /// Buffer for the next key. After an error the pair stays as it is.
    next_key: Vec<u8>,
    value: Option<Bytes>,
    passed: Passed,
}

impl MergedPairs {
    pub fn new(merged: Merged, at: u64) -> Self {
        canary!(VERSION_OFF_BY_ONE => let at = at + 1);
        Self { merged, at, key: Vec::new(), next_key: Vec::new(), value: None, passed: Passed::default() }
    }

    /// Longest sequence of keys without a visible value that the walk has passed.
    pub fn dead_run(&self) -> u64 {
        self.passed.dead_most.max(self.passed.dead)
    }

    /// Number of versions in the newest logs that the walk has passed without showing them.
    pub fn debt_of_level0(&self) -> u64 {
        self.passed.in_level0
    }

    /// Versions that the walk has passed without showing them, and reads of logs.
    pub fn debt(&self) -> u64 {
        self.passed.versions + self.merged.count_log_reads()
    }

    pub fn seek(&mut self, key: &[u8]) -> Result<()> {
        self.merged.cursor.seek(key)
    }

    pub fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        self.merged.cursor.seek_before(key)
    }

    pub fn seek_to_first(&mut self) -> Result<()> {
        self.merged.cursor.seek_to_first()
    }

    pub fn seek_to_last(&mut self) -> Result<()> {
        self.merged.cursor.seek_to_last()
    }

    pub fn take(&mut self, forward: bool) -> Result<bool> {
        let value = next_visible(&mut self.merged, &mut self.next_key, self.at, forward, &mut self.passed)?;
        if value.is_some() {
            std::mem::swap(&mut self.key, &mut self.next_key);
        }
        self.value = value;
        Ok(self.value.is_some())
    }

    #[inline]
    pub fn pair(&self) -> Option<(&[u8], &[u8])> {
        self.value.as_ref().map(|value| (&self.key[..], &value[..]))
    }

    pub fn owned_pair(&self) -> Option<(Bytes, Bytes)> {
        self.value.as_ref().map(|value| (Bytes::copy_from_slice(&self.key), value.clone()))
    }
}

/// A position among the pairs of a keyspace within bounds.
pub struct Walk<A: Areas> {
    areas: A,
    bounds: Bounds,
    open: Option<Open<A::Area>>,
    /// True if the walk is at a pair: the one that the open area has taken last.
    is_at_pair: bool,
    forward: bool,
}

/// The area at the walk's position.
struct Open<A> {
    area: A,
    /// True if no key of the area lies after the walk's end; the same for its start.
    ends_within: bool,
    starts_within: bool,
}

impl<A: Areas> Walk<A> {
    pub fn new(areas: A, bounds: Bounds) -> Self {
        Self { areas, bounds, open: None, is_at_pair: false, forward: true }
    }

    fn open(&mut self, area: A::Area) -> &mut A::Area {
        let span = area.span();
        let ends_within = match (&self.bounds.end, &span.end) {
            (Bound::Unbounded, _) => true,
            (_, Some(end)) => self.is_before_end(end),
            (_, None) => false,
        };
        let starts_within = match (&self.bounds.start, &span.start) {
            (Bound::Unbounded, _) => true,
            (_, Some(start)) => self.is_behind_start(start),
            (_, None) => false,
        };
        &mut self.open.insert(Open { area, ends_within, starts_within }).area
    }

    fn is_before_end(&self, key: &[u8]) -> bool {
        let order = self.areas.order();
        match &self.bounds.end {
            Bound::Unbounded => true,
            Bound::Included(end) => order.compare(key, end) != Ordering::Greater,
            Bound::Excluded(end) => order.compare(key, end) == Ordering::Less,
        }
    }

    fn is_behind_start(&self, key: &[u8]) -> bool {
        let order = self.areas.order();
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

    /// The pair at the walk's position.
    #[inline]
    pub fn pair(&self) -> Option<(&[u8], &[u8])> {
        self.open.as_ref().filter(|_| self.is_at_pair).and_then(|open| open.area.pair())
    }

    /// The same pair, owned.
    pub fn owned_pair(&self) -> Option<(Bytes, Bytes)> {
        self.open.as_ref().filter(|_| self.is_at_pair).and_then(|open| open.area.owned_pair())
    }

    #[inline]
    fn take(&mut self) -> Result<bool> {
        let Some(open) = &mut self.open else { return Ok(false) };
        self.is_at_pair = open.area.take(self.forward)?;
        Ok(self.is_at_pair)
    }

    /// Continues with the next areas until there is a pair.
    #[inline]
    fn advance_forward(&mut self) -> Result<bool> {
        loop {
            if self.take()? {
                let within = self.open.as_ref().is_some_and(|open| open.ends_within)
                    || self.current_key().is_some_and(|key| self.is_before_end(key));
                self.is_at_pair = within;
                return Ok(within);
            }
            let Some(next) = self.open.as_ref().and_then(|open| open.area.span().end.clone()) else {
                return Ok(false);
            };
            if !self.is_before_end(&next) {
                return Ok(false);
            }
            self.areas.order().check()?;
            let area = self.areas.area_at(Some(&next))?;
            self.open(area).seek(&next)?;
        }
    }

    fn advance_back(&mut self) -> Result<bool> {
        loop {
            if self.take()? {
                let within = self.open.as_ref().is_some_and(|open| open.starts_within)
                    || self.current_key().is_some_and(|key| self.is_behind_start(key));
                self.is_at_pair = within;
                return Ok(within);
            }
            let Some(start) = self.open.as_ref().and_then(|open| open.area.span().start.clone()) else {
                return Ok(false);
            };
            let order = self.areas.order();
            let is_beyond = match &self.bounds.start {
                Bound::Unbounded => false,
                Bound::Included(key) | Bound::Excluded(key) => {
                    order.compare(&start, key) != Ordering::Greater
                }
            };
            if is_beyond {
                return Ok(false);
            }
            order.check()?;
            let area = self.areas.area_before(Some(&start))?;
            self.open(area).seek_before(&start)?;
        }
    }

    /// Moves to the first pair at or after `key` (after it, if `after`), never before the start of
    /// the bounds.
    pub fn seek_forward(&mut self, key: Option<&[u8]>, after: bool) -> Result<bool> {
        (self.forward, self.is_at_pair) = (true, false);
        let order = self.areas.order().clone();
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
        let area = self.areas.area_at(key.as_deref())?;
        match &key {
            Some(key) => self.open(area).seek(key)?,
            None => self.open(area).seek_to_first()?,
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
    pub fn seek_back(&mut self, key: Option<&[u8]>) -> Result<bool> {
        (self.forward, self.is_at_pair) = (false, false);
        let order = self.areas.order().clone();
        // `seek_before` excludes its key: an included end is looked up first.
        let (key, including) = match (&self.bounds.end, key) {
            (Bound::Unbounded, key) => (key.map(<[u8]>::to_vec), false),
            (Bound::Excluded(end), None) => (Some(end.clone()), false),
            (Bound::Included(end), None) => (Some(end.clone()), true),
            (Bound::Excluded(end), Some(key)) => (
                Some(if order.compare(key, end) == Ordering::Greater { end.clone() } else { key.to_vec() }),
                false,
            ),
            (Bound::Included(end), Some(key)) => match order.compare(key, end) {
                Ordering::Greater => (Some(end.clone()), true),
                _ => (Some(key.to_vec()), false),
            },
        };
        if including && let Some(key) = &key {
            // The pair at the end itself, if there is one.
            let area = self.areas.area_at(Some(key))?;
            self.open(area).seek(key)?;
            self.forward = true;
            let found = self.take();
            self.forward = false;
            if found?
                && let Some(found_key) = self.current_key()
                && order.compare(found_key, key) == Ordering::Equal
                && self.is_behind_start(found_key)
            {
                if let Some(open) = &mut self.open {
                    open.area.turn_back(key)?;
                }
                return Ok(true);
            }
            self.is_at_pair = false;
        }
        let area = self.areas.area_before(key.as_deref())?;
        match &key {
            Some(key) => self.open(area).seek_before(key)?,
            None => self.open(area).seek_to_last()?,
        }
        self.advance_back()
    }

    #[inline]
    pub fn next(&mut self) -> Result<bool> {
        if self.forward {
            return Ok(self.is_at_pair && self.advance_forward()?);
        }
        let Some(key) = self.current_key().map(<[u8]>::to_vec) else { return Ok(false) };
        self.seek_forward(Some(&key), true)
    }

    pub fn prev(&mut self) -> Result<bool> {
        if !self.forward {
            return Ok(self.is_at_pair && self.advance_back()?);
        }
        let Some(key) = self.current_key().map(<[u8]>::to_vec) else { return Ok(false) };
        self.seek_back(Some(&key))
    }
}
