//! Range deletes inside a chunk: a `delete_range` leaves one at each chunk that it covers only in
//! part. They live until the chunk's next rebalance.

use crate::mvcc::CommitCell;
use crate::types::bounds::Bounds;
use crate::types::order::KeyOrder;
use crate::types::span::contains;

/// A delete of every key within the bounds, at a version, at a place in a log.
#[derive(Debug, Clone)]
pub struct RangeTombstone {
    pub bounds: Bounds,
    pub version: u64,
    /// Place of the record: it deletes the entries before this place.
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
