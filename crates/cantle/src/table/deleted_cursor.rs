//! Finds the range deletes of a table for the keys of a scan, one after the other.
//!
//! A scan asks for keys that stand near each other, so the ranges around the last one are tried first. A short
//! scan reads the blocks of range deletes that its keys lie in, and no others: a table may have tens of megabytes
//! of them. A scan that goes from a block to the one behind it reads those that follow, too.

use super::frame::Handle;
use super::range_reads::Piece;
use super::ranges::{DELETES, INDEX, RangeBlock};
use super::reader::Table;
use crate::format::codec::Malformed;
use crate::sync::Arc;
use crate::types::error::Result;
use crate::types::order::KeyOrder;

pub(crate) struct DeletedCursor {
    table: Arc<Table>,
    index: Option<RangeBlock>,
    near: Option<Near>,
    /// The end of the block that was read last.
    read_to: u64,
    ahead: Piece,
}

/// The block that had the last key.
struct Near {
    block: RangeBlock,
    handle: Handle,
    /// Number of its ranges that start before the last key or at it.
    upto: usize,
}

impl Near {
    /// Moves to the key. True if the block answers for it: the key is behind the start of a range, and not behind
    /// the end of the last.
    fn seek(&mut self, order: &KeyOrder, key: &[u8]) -> Result<bool, Malformed> {
        let starts = |number: usize| Ok(self.block.get(number)?.start.is_before(order, key));
        let is_here =
            self.upto > 0 && starts(self.upto - 1)? && (self.upto == self.block.len() || !starts(self.upto)?);
        if !is_here {
            self.upto = self.block.upto(order, key)?;
        }
        let Some(last) = self.upto.checked_sub(1) else { return Ok(false) };
        Ok(self.upto < self.block.len() || !self.block.get(last)?.end.is_before(order, key))
    }
}

impl DeletedCursor {
    pub(crate) fn new(table: Arc<Table>) -> Self {
        Self { table, index: None, near: None, read_to: 0, ahead: Piece::default() }
    }

    /// The newest range delete of `key` at or below version `at`, whose version satisfies `alive`.
    pub(crate) fn newest(&mut self, key: &[u8], at: u64, alive: &dyn Fn(u64) -> bool) -> Result<Option<u64>> {
        let order = &self.table.order;
        let is_near = match &mut self.near {
            Some(near) => {
                near.seek(order, key).map_err(|malformed| self.table.corruption(near.handle, malformed))?
            }
            None => false,
        };
        if !is_near {
            self.near = self.find(key)?;
        }
        let (table, Some(near)) = (&*self.table, &self.near) else { return Ok(None) };
        let newest = || {
            let range = near.block.get(near.upto.saturating_sub(1))?;
            if range.end.is_before(&table.order, key) { Ok(None) } else { table.newest_of(&range, at, alive) }
        };
        newest().map_err(|malformed| table.corruption(near.handle, malformed))
    }

    /// The block that answers for the key.
    fn find(&mut self, key: &[u8]) -> Result<Option<Near>> {
        let table = &*self.table;
        let Some(place) = table.footer.ranges else { return Ok(None) };
        let index = match &mut self.index {
            Some(index) => index,
            none => none.insert(table.ranges(place.index, INDEX)?),
        };
        let Some(handle) = table.ranges_near(place, index, key)? else { return Ok(None) };
        let block = match handle.offset == self.read_to {
            true => table.ranges_ahead(&mut self.ahead, handle, place.index.offset)?,
            false => table.ranges(handle, DELETES)?,
        };
        self.read_to = handle.end();
        let mut near = Near { block, handle, upto: 0 };
        let is_near =
            near.seek(&table.order, key).map_err(|malformed| table.corruption(handle, malformed))?;
        Ok(is_near.then_some(near))
    }
}
