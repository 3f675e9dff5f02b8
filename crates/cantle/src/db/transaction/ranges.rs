//! Ranges of keys that lie apart from one another.

use crate::types::bounds::Bounds;
use crate::types::order::KeyOrder;
use crate::types::span::{contains, is_empty_range, is_later_end, is_later_start};
use std::cmp::Ordering;
use std::ops::Bound;

/// A union of ranges: ascending, none empty, and no two overlap or touch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ranges(Vec<Bounds>);

impl Ranges {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn as_slice(&self) -> &[Bounds] {
        &self.0
    }

    pub fn into_vec(self) -> Vec<Bounds> {
        self.0
    }

    /// Adds a range, and merges it with those that it overlaps or touches. Cheap if it is after all
    /// others.
    pub fn add(&mut self, order: &KeyOrder, mut bounds: Bounds) {
        if is_empty_range(order, &bounds) {
            return;
        }
        let from = self.0.partition_point(|range| lies_apart(order, range, &bounds));
        let upto = from + self.0[from..].partition_point(|range| !lies_apart(order, &bounds, range));
        if let (Some(first), Some(last)) = (self.0[from..upto].first(), self.0[from..upto].last()) {
            if is_later_start(order, &bounds.start, &first.start) {
                bounds.start = first.start.clone();
            }
            if is_later_end(order, &last.end, &bounds.end) {
                bounds.end = last.end.clone();
            }
        }
        self.0.splice(from..upto, [bounds]);
    }

    /// The range that contains the key.
    pub fn find(&self, order: &KeyOrder, key: &[u8]) -> Option<&Bounds> {
        let from = self.0.partition_point(|range| match &range.end {
            Bound::Unbounded => false,
            Bound::Included(end) => order.compare(end, key) == Ordering::Less,
            Bound::Excluded(end) => order.compare(end, key) != Ordering::Greater,
        });
        self.0.get(from).filter(|range| contains(range, order, key))
    }
}

/// True if `one` ends before `other` begins, without touching it: keys between them belong to
/// neither.
fn lies_apart(order: &KeyOrder, one: &Bounds, other: &Bounds) -> bool {
    match (&one.end, &other.start) {
        (Bound::Unbounded, _) | (_, Bound::Unbounded) => false,
        (Bound::Excluded(end), Bound::Excluded(start)) => order.compare(end, start) != Ordering::Greater,
        (Bound::Included(end) | Bound::Excluded(end), Bound::Included(start) | Bound::Excluded(start)) => {
            order.compare(end, start) == Ordering::Less
        }
    }
}
