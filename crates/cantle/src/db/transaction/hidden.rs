//! The pairs of a snapshot without those that a transaction's range deletes hide.

use super::overlay::Overlay;
use crate::layout::PairCursor;
use crate::sync::Arc;
use crate::types::bounds::Bounds;
use crate::types::error::Result;
use bytes::Bytes;
use std::ops::Bound;

/// A cursor over the pairs of a snapshot without those in ranges that the transaction deletes. It
/// passes each range by a seek.
pub struct HidingCursor {
    base: Box<dyn PairCursor>,
    overlay: Arc<Overlay>,
    /// True if the base cursor was left at a hidden pair, because there are only hidden ones in the
    /// direction of the walk.
    is_past: bool,
}

impl HidingCursor {
    pub fn new(base: Box<dyn PairCursor>, overlay: Arc<Overlay>) -> Self {
        Self { base, overlay, is_past: false }
    }

    /// The hidden range in which the base cursor stands.
    fn range(&self) -> Option<&Bounds> {
        let (key, _) = self.base.pair()?;
        self.overlay.deleted_range(key)
    }

    fn stands_at(&self, key: &[u8]) -> bool {
        self.base.pair().is_some_and(|(base, _)| self.overlay.order().compare(base, key).is_eq())
    }

    fn skip_hidden_forward(&mut self) -> Result<bool> {
        self.is_past = false;
        while let Some(range) = self.range() {
            self.overlay.order().check()?;
            match range.end.clone() {
                Bound::Unbounded => {
                    self.is_past = true;
                    break;
                }
                Bound::Excluded(end) => self.base.seek(&end)?,
                Bound::Included(end) => {
                    self.base.seek(&end)?;
                    self.stands_at(&end) && self.base.next()?
                }
            };
        }
        Ok(self.pair().is_some())
    }

    fn skip_hidden_back(&mut self) -> Result<bool> {
        self.is_past = false;
        while let Some(range) = self.range() {
            self.overlay.order().check()?;
            match range.start.clone() {
                Bound::Unbounded => {
                    self.is_past = true;
                    break;
                }
                // The seek finds a pair, because the current one is not before the start.
                Bound::Included(start) => self.base.seek(&start)? && self.base.prev()?,
                Bound::Excluded(start) => {
                    self.base.seek(&start)?;
                    self.stands_at(&start) || self.base.prev()?
                }
            };
        }
        Ok(self.pair().is_some())
    }
}

impl PairCursor for HidingCursor {
    fn seek(&mut self, key: &[u8]) -> Result<bool> {
        self.base.seek(key)?;
        self.skip_hidden_forward()
    }

    fn seek_to_first(&mut self) -> Result<bool> {
        self.base.seek_to_first()?;
        self.skip_hidden_forward()
    }

    fn seek_to_last(&mut self) -> Result<bool> {
        self.base.seek_to_last()?;
        self.skip_hidden_back()
    }

    fn next(&mut self) -> Result<bool> {
        if self.pair().is_none() {
            return Ok(false);
        }
        self.base.next()?;
        self.skip_hidden_forward()
    }

    fn prev(&mut self) -> Result<bool> {
        if self.pair().is_none() {
            return Ok(false);
        }
        self.base.prev()?;
        self.skip_hidden_back()
    }

    fn pair(&self) -> Option<(&[u8], &[u8])> {
        self.base.pair().filter(|_| !self.is_past)
    }

    fn owned_pair(&self) -> Option<(Bytes, Bytes)> {
        self.base.owned_pair().filter(|_| !self.is_past)
    }
}
