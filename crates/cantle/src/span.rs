//! Key ranges of chunks and of the files that they share.

use crate::bounds::Bounds;
use crate::order::KeyOrder;
use bytes::Bytes;
use std::cmp::Ordering;
use std::ops::Bound;

/// From a key (or from the beginning) up to, not including, another (or to the end).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Span {
    pub start: Option<Bytes>,
    pub end: Option<Bytes>,
}

impl Span {
    pub fn contains(&self, order: &KeyOrder, key: &[u8]) -> bool {
        self.start.as_ref().is_none_or(|start| order.compare(key, start) != Ordering::Less)
            && !self.ends_before(order, key)
    }

    /// Whether the span ends at or before `key`.
    pub fn ends_before(&self, order: &KeyOrder, key: &[u8]) -> bool {
        self.end.as_ref().is_some_and(|end| order.compare(key, end) != Ordering::Less)
    }

    /// What both have in common; `None` if nothing.
    pub fn intersect(&self, order: &KeyOrder, other: &Self) -> Option<Self> {
        let later = |a: &Option<Bytes>, b: &Option<Bytes>| match (a, b) {
            (Some(a), Some(b)) => {
                Some(if order.compare(a, b) == Ordering::Less { b.clone() } else { a.clone() })
            }
            (a, b) => a.clone().or_else(|| b.clone()),
        };
        let earlier = |a: &Option<Bytes>, b: &Option<Bytes>| match (a, b) {
            (Some(a), Some(b)) => {
                Some(if order.compare(a, b) == Ordering::Less { a.clone() } else { b.clone() })
            }
            (a, b) => a.clone().or_else(|| b.clone()),
        };
        let span = Self { start: later(&self.start, &other.start), end: earlier(&self.end, &other.end) };
        match (&span.start, &span.end) {
            (Some(start), Some(end)) if order.compare(start, end) != Ordering::Less => None,
            _ => Some(span),
        }
    }

    /// Whether every key of the span lies within `bounds`.
    pub fn is_within(&self, order: &KeyOrder, bounds: &Bounds) -> bool {
        let from_start = match (&bounds.start, &self.start) {
            (Bound::Unbounded, _) => true,
            (_, None) => false,
            (Bound::Included(key), Some(start)) => order.compare(key, start) != Ordering::Greater,
            (Bound::Excluded(key), Some(start)) => order.compare(key, start) == Ordering::Less,
        };
        let to_end = match (&bounds.end, &self.end) {
            (Bound::Unbounded, _) => true,
            (_, None) => false,
            (Bound::Included(key) | Bound::Excluded(key), Some(end)) => {
                order.compare(key, end) != Ordering::Less
            }
        };
        from_start && to_end
    }

    /// Whether some key may lie within both.
    pub fn overlaps(&self, order: &KeyOrder, bounds: &Bounds) -> bool {
        let before_end = match (&bounds.end, &self.start) {
            (Bound::Unbounded, _) | (_, None) => true,
            (Bound::Included(end), Some(start)) => order.compare(end, start) != Ordering::Less,
            (Bound::Excluded(end), Some(start)) => order.compare(end, start) == Ordering::Greater,
        };
        let after_start = match (&bounds.start, &self.end) {
            (Bound::Unbounded, _) | (_, None) => true,
            (Bound::Included(start) | Bound::Excluded(start), Some(end)) => {
                order.compare(start, end) == Ordering::Less
            }
        };
        before_end && after_start
    }
}

/// Whether no key can lie within the bounds.
pub fn is_empty_range(order: &KeyOrder, bounds: &Bounds) -> bool {
    match (&bounds.start, &bounds.end) {
        (Bound::Unbounded, _) | (_, Bound::Unbounded) => false,
        (Bound::Included(start), Bound::Included(end)) => order.compare(start, end) == Ordering::Greater,
        (Bound::Included(start) | Bound::Excluded(start), Bound::Included(end) | Bound::Excluded(end)) => {
            order.compare(start, end) != Ordering::Less
        }
    }
}
