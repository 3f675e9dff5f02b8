//! A transaction's own writes to one keyspace, and the pairs that it sees through them.

use super::hidden::HidingCursor;
use super::ranges::Ranges;
use crate::db::batch::OwnedOp;
use crate::layout::PairCursor;
use crate::sync::Arc;
use crate::types::bounds::Bounds;
use crate::types::entry::Kind;
use crate::types::error::Result;
use crate::types::order::KeyOrder;
use crate::types::span::{contains, is_empty_range, is_later_start};
use bytes::Bytes;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::ops::Bound;

/// A key in the order of its keyspace.
#[derive(Debug, Clone)]
struct OrderedKey {
    order: KeyOrder,
    key: Bytes,
}

impl PartialEq for OrderedKey {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}
impl Eq for OrderedKey {}
impl PartialOrd for OrderedKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for OrderedKey {
    fn cmp(&self, other: &Self) -> Ordering {
        self.order.compare(&self.key, &other.key)
    }
}

/// The combined writes: ranges are deleted first, then keys are written, each once.
#[derive(Debug, Clone, Default)]
pub struct Overlay {
    order: KeyOrder,
    deleted: Ranges,
    /// Written keys with their values; `None` for a deleted key. Writes that a later range delete
    /// covers are not among them.
    writes: BTreeMap<OrderedKey, Option<Bytes>>,
}

impl Overlay {
    pub fn new(order: KeyOrder) -> Self {
        Self { order, deleted: Ranges::default(), writes: BTreeMap::new() }
    }

    pub fn is_empty(&self) -> bool {
        self.writes.is_empty() && self.deleted.is_empty()
    }

    pub fn order(&self) -> &KeyOrder {
        &self.order
    }

    /// The last write to the key: `Some(None)` if the key was deleted, `None` if it was not
    /// written.
    pub fn get(&self, key: &[u8]) -> Option<Option<Bytes>> {
        if self.is_empty() {
            return None;
        }
        let written = self.writes.get(&self.ordered(key)).cloned();
        written.or_else(|| self.deleted_range(key).map(|_| None))
    }

    /// The deleted range in which the key lies, even if the key was written since.
    pub fn deleted_range(&self, key: &[u8]) -> Option<&Bounds> {
        self.deleted.find(&self.order, key)
    }

    pub fn set(&mut self, key: Bytes, value: Option<Bytes>) {
        let key = OrderedKey { order: self.order.clone(), key };
        // If keys are equal but not identical, the later one counts.
        self.writes.remove(&key);
        if value.is_some() || self.deleted_range(&key.key).is_none() {
            self.writes.insert(key, value);
        }
    }

    pub fn delete_range(&mut self, bounds: Bounds) {
        // The map refuses empty ranges.
        if is_empty_range(&self.order, &bounds) {
            return;
        }
        let overridden: Vec<OrderedKey> = match &self.order {
            KeyOrder::Bytewise => {
                let owned = |bound: &Bound<Vec<u8>>| self.ordered_bound(&owned(bound));
                let overridden = self.writes.range((owned(&bounds.start), owned(&bounds.end)));
                overridden.map(|(key, _)| key.clone()).collect()
            }
            // A comparator that fails now would turn the bounds around, at which `range` panics.
            order => {
                let keys = self.writes.keys().filter(|key| contains(&bounds, order, &key.key));
                keys.cloned().collect()
            }
        };
        for key in overridden {
            self.writes.remove(&key);
        }
        self.deleted.add(&self.order, bounds);
    }

    /// The writes as operations: range deletes, which the others follow, each in key order.
    pub fn ops(&self) -> Vec<OwnedOp> {
        let op = |(key, value): (&OrderedKey, &Option<Bytes>)| OwnedOp {
            kind: if value.is_some() { Kind::Put } else { Kind::Delete },
            key: key.key.clone(),
            value: value.clone().unwrap_or_default(),
            bounds: None,
        };
        let ranges = self.deleted.as_slice().iter().cloned().map(OwnedOp::delete_range);
        ranges.chain(self.writes.iter().map(op)).collect()
    }

    /// The first write from `start` on.
    fn first_from(&self, start: &Bound<Bytes>) -> Option<(&Bytes, &Option<Bytes>)> {
        let mut from = self.writes.range((self.ordered_bound(start), Bound::Unbounded));
        from.next().map(|(key, value)| (&key.key, value))
    }

    /// The last write up to `end`.
    fn last_upto(&self, end: &Bound<Bytes>) -> Option<(&Bytes, &Option<Bytes>)> {
        let mut upto = self.writes.range((Bound::Unbounded, self.ordered_bound(end)));
        upto.next_back().map(|(key, value)| (&key.key, value))
    }

    fn ordered(&self, key: &[u8]) -> OrderedKey {
        OrderedKey { order: self.order.clone(), key: Bytes::copy_from_slice(key) }
    }

    fn ordered_bound(&self, bound: &Bound<Bytes>) -> Bound<OrderedKey> {
        bound.clone().map(|key| OrderedKey { order: self.order.clone(), key })
    }
}

/// A cursor over the pairs of a snapshot, overlaid with a transaction's writes.
///
/// If the current pair is from the base cursor, this cursor stands on it. Otherwise the base cursor
/// always stands beyond the current pair, in the direction of the walk.
pub struct OverlayCursor {
    base: Box<dyn PairCursor>,
    overlay: Arc<Overlay>,
    bounds: Bounds,
    forward: bool,
    /// True if the base cursor stands on the current key rather than beyond it.
    base_is_current: bool,
    current: Option<(Bytes, Bytes)>,
}

impl OverlayCursor {
    /// `base` walks the pairs within the same bounds.
    pub fn new(base: Box<dyn PairCursor>, overlay: Arc<Overlay>, bounds: Bounds) -> Self {
        let base = match overlay.deleted.is_empty() {
            true => base,
            false => Box::new(HidingCursor::new(base, overlay.clone())),
        };
        Self { base, overlay, bounds, forward: true, base_is_current: false, current: None }
    }

    /// Moves to the first pair at or after `start`. The base cursor stands there already.
    fn skip_hidden_forward(&mut self, mut start: Bound<Bytes>) -> Result<bool> {
        self.forward = true;
        loop {
            // After a failure of the comparator keys may compare in a circle.
            self.overlay.order.check()?;
            let written = self.overlay.first_from(&start).filter(|(key, _)| self.is_within(key));
            let Some((key, value)) = written else { return Ok(self.take_base()) };
            let order = self.base.pair().map(|(base, _)| self.overlay.order.compare(base, key));
            if order == Some(Ordering::Less) {
                return Ok(self.take_base());
            }
            let (key, value) = (key.clone(), value.clone());
            if order == Some(Ordering::Equal) {
                self.base.next()?;
            }
            if let Some(value) = value {
                return Ok(self.take(key, value));
            }
            start = Bound::Excluded(key);
        }
    }

    fn skip_hidden_back(&mut self, mut end: Bound<Bytes>) -> Result<bool> {
        self.forward = false;
        loop {
            self.overlay.order.check()?;
            let written = self.overlay.last_upto(&end).filter(|(key, _)| self.is_within(key));
            let Some((key, value)) = written else { return Ok(self.take_base()) };
            let order = self.base.pair().map(|(base, _)| self.overlay.order.compare(base, key));
            if order == Some(Ordering::Greater) {
                return Ok(self.take_base());
            }
            let (key, value) = (key.clone(), value.clone());
            if order == Some(Ordering::Equal) {
                self.base.prev()?;
            }
            if let Some(value) = value {
                return Ok(self.take(key, value));
            }
            end = Bound::Excluded(key);
        }
    }

    fn take_base(&mut self) -> bool {
        self.current = self.base.owned_pair();
        self.base_is_current = self.current.is_some();
        self.base_is_current
    }

    fn take(&mut self, key: Bytes, value: Bytes) -> bool {
        self.current = Some((key, value));
        self.base_is_current = false;
        true
    }

    fn is_within(&self, key: &[u8]) -> bool {
        contains(&self.bounds, &self.overlay.order, key)
    }
}

fn owned(bound: &Bound<Vec<u8>>) -> Bound<Bytes> {
    bound.as_ref().map(|key| Bytes::copy_from_slice(key))
}

impl PairCursor for OverlayCursor {
    fn seek(&mut self, key: &[u8]) -> Result<bool> {
        self.current = None;
        self.base.seek(key)?;
        let (key, start) = (Bound::Included(Bytes::copy_from_slice(key)), owned(&self.bounds.start));
        self.skip_hidden_forward(if is_later_start(&self.overlay.order, &start, &key) { start } else { key })
    }

    fn seek_to_first(&mut self) -> Result<bool> {
        self.current = None;
        self.base.seek_to_first()?;
        self.skip_hidden_forward(owned(&self.bounds.start))
    }

    fn seek_to_last(&mut self) -> Result<bool> {
        self.current = None;
        self.base.seek_to_last()?;
        self.skip_hidden_back(owned(&self.bounds.end))
    }

    fn next(&mut self) -> Result<bool> {
        let Some((key, _)) = self.current.take() else { return Ok(false) };
        if self.forward {
            if self.base_is_current {
                self.base.next()?;
            }
        } else {
            let found = self.base.seek(&key)?;
            if found
                && self.base.pair().is_some_and(|(base, _)| self.overlay.order.compare(base, &key).is_eq())
            {
                self.base.next()?;
            }
        }
        self.skip_hidden_forward(Bound::Excluded(key))
    }

    fn prev(&mut self) -> Result<bool> {
        let Some((key, _)) = self.current.take() else { return Ok(false) };
        if self.forward {
            if self.base.seek(&key)? {
                self.base.prev()?;
            } else {
                self.base.seek_to_last()?;
            }
        } else if self.base_is_current {
            self.base.prev()?;
        }
        self.skip_hidden_back(Bound::Excluded(key))
    }

    fn pair(&self) -> Option<(&[u8], &[u8])> {
        self.current.as_ref().map(|(key, value)| (&key[..], &value[..]))
    }

    fn owned_pair(&self) -> Option<(Bytes, Bytes)> {
        self.current.clone()
    }
}
