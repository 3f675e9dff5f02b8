//! The places between keys at which ranges begin and end. Under a user's order there may be no key
//! directly before or behind another, so a place names the key beside it.

use super::bounds::Bounds;
use super::order::KeyOrder;
use std::cmp::Ordering;
use std::ops::Bound;

/// A place between keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gap<'a> {
    /// Before all keys.
    First,
    Before(&'a [u8]),
    Behind(&'a [u8]),
    /// Behind all keys.
    Last,
}

impl<'a> Gap<'a> {
    /// The place at which the range begins.
    pub fn start(bounds: &'a Bounds) -> Self {
        match &bounds.start {
            Bound::Unbounded => Self::First,
            Bound::Included(key) => Self::Before(key),
            Bound::Excluded(key) => Self::Behind(key),
        }
    }

    /// The place at which the range ends.
    pub fn end(bounds: &'a Bounds) -> Self {
        match &bounds.end {
            Bound::Unbounded => Self::Last,
            Bound::Included(key) => Self::Behind(key),
            Bound::Excluded(key) => Self::Before(key),
        }
    }

    pub fn compare(self, order: &KeyOrder, other: Self) -> Ordering {
        let rank = |gap| match gap {
            Gap::First => 0,
            Gap::Before(_) | Gap::Behind(_) => 1,
            Gap::Last => 2,
        };
        match (self, other) {
            (Gap::Before(a), Gap::Before(b)) | (Gap::Behind(a), Gap::Behind(b)) => order.compare(a, b),
            (Gap::Before(a), Gap::Behind(b)) => order.compare(a, b).then(Ordering::Less),
            (Gap::Behind(a), Gap::Before(b)) => order.compare(a, b).then(Ordering::Greater),
            (a, b) => rank(a).cmp(&rank(b)),
        }
    }

    /// True if the key follows the place.
    pub fn is_before(self, order: &KeyOrder, key: &[u8]) -> bool {
        match self {
            Gap::First => true,
            Gap::Before(start) => order.compare(start, key) != Ordering::Greater,
            Gap::Behind(start) => order.compare(start, key) == Ordering::Less,
            Gap::Last => false,
        }
    }

    /// The range between two places.
    pub fn between(start: Self, end: Self) -> Bounds {
        let start = match start {
            Gap::First | Gap::Last => Bound::Unbounded,
            Gap::Before(key) => Bound::Included(key.to_vec()),
            Gap::Behind(key) => Bound::Excluded(key.to_vec()),
        };
        let end = match end {
            Gap::First | Gap::Last => Bound::Unbounded,
            Gap::Before(key) => Bound::Excluded(key.to_vec()),
            Gap::Behind(key) => Bound::Included(key.to_vec()),
        };
        Bounds { start, end }
    }
}
