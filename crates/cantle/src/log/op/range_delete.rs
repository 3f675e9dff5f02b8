//! Range deletes inside a chunk: what is left of a `delete_range` at the edges of the chunks that it covers
//! only in part. They live until the chunk's next rebalance.

use crate::mvcc::CommitCell;
use crate::types::bounds::Bounds;
use crate::types::order::KeyOrder;
use crate::types::span::contains;

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
