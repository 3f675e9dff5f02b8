//! Range deletes inside a chunk: what is left of a `delete_range` at the edges of the chunks that it covers
//! only in part. They live until the chunk's next rebalance.

use crate::bounds::Bounds;
use crate::mvcc::CommitCell;
use crate::order::KeyOrder;
use std::cmp::Ordering;
use std::ops::Bound;

/// Every key within the bounds was deleted at a version, at a place in a log.
#[derive(Debug, Clone)]
pub struct RangeTombstone {
    pub bounds: Bounds,
    pub version: u64,
    /// Where the record stands: it deletes what stands before it.
    pub offset: u64,
    pub cell: Option<CommitCell>,
}

impl RangeTombstone {
    pub fn covers(&self, order: &KeyOrder, key: &[u8]) -> bool {
        contains(&self.bounds, order, key)
    }

    pub fn is_visible(&self, at: u64) -> bool {
        self.version <= at && self.cell.as_ref().is_none_or(|cell| cell.is_committed())
    }
}

/// Whether `key` lies within `bounds`.
pub fn contains(bounds: &Bounds, order: &KeyOrder, key: &[u8]) -> bool {
    let after_start = match &bounds.start {
        Bound::Included(start) => order.compare(key, start) != Ordering::Less,
        Bound::Excluded(start) => order.compare(key, start) == Ordering::Greater,
        Bound::Unbounded => true,
    };
    after_start
        && match &bounds.end {
            Bound::Included(end) => order.compare(key, end) != Ordering::Greater,
            Bound::Excluded(end) => order.compare(key, end) == Ordering::Less,
            Bound::Unbounded => true,
        }
}
