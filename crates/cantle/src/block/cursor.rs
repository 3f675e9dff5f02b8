//! Walks a block in both directions.

use super::{Block, RESTART_ENTRIES_MAX, RawEntry, entry_order};
use crate::format::codec::Malformed;
use crate::sync::Arc;
use crate::types::entry::{EntryRef, Kind};
use crate::types::order::KeyOrder;
use bytes::Bytes;
use std::cmp::Ordering;
use std::ops::Range;

/// Walks the entries of one block. After an error the cursor is not positioned; seek again.
#[derive(Debug)]
pub(crate) struct BlockCursor {
    block: Arc<Block>,
    order: KeyOrder,
    /// The whole key under the cursor.
    key: Vec<u8>,
    /// The entry under the cursor.
    current: Option<Position>,
    behind: Behind,
}

#[derive(Debug, Clone)]
struct Position {
    offset: usize,
    version: u64,
    kind: Kind,
    /// The next entry begins at the end of this range.
    value: Range<usize>,
}

/// The entries between the cursor and the restart point before it, decoded once for a walk
/// backwards. At most `RESTART_ENTRIES_MAX` keys.
#[derive(Debug, Default)]
struct Behind {
    /// Each entry with the length of its key. The last one's key ends `keys`.
    entries: Vec<(Position, usize)>,
    keys: Vec<u8>,
}

impl Behind {
    fn clear(&mut self) {
        self.entries.clear();
        self.keys.clear();
    }
}

impl BlockCursor {
    /// A cursor that is not positioned.
    pub(crate) fn new(block: Arc<Block>, order: KeyOrder) -> Self {
        Self { block, order, key: Vec::new(), current: None, behind: Behind::default() }
    }

    /// Moves to another block and keeps the cursor's buffers; not positioned.
    pub(crate) fn set_block(&mut self, block: Arc<Block>) {
        self.block = block;
        self.current = None;
        self.behind.clear();
    }

    /// To the first entry.
    pub(crate) fn seek_to_first(&mut self) -> Result<(), Malformed> {
        self.step_from(0)
    }

    /// To the last entry.
    pub(crate) fn seek_to_last(&mut self) -> Result<(), Malformed> {
        self.current = None;
        self.behind.clear();
        if self.block.entries_end > 0 {
            self.step_back_from(self.block.entries_end)?;
        }
        Ok(())
    }

    /// To the first entry whose key is at or after `key`.
    pub(crate) fn seek(&mut self, key: &[u8]) -> Result<(), Malformed> {
        self.seek_version(key, u64::MAX)
    }

    /// To the first entry of `key` at or below `version`, or else to the first one of the next key.
    pub(crate) fn seek_version(&mut self, key: &[u8], version: u64) -> Result<(), Malformed> {
        self.current = None;
        let start = self.block.restart_before(&self.order, key, version)?;
        self.step_from(start)?;
        while let Some(current) = &self.current {
            if entry_order(&self.order, &self.key, current.version, key, version) != Ordering::Less {
                break;
            }
            self.next()?;
        }
        Ok(())
    }

    /// To the last entry whose key is strictly before `key`.
    pub(crate) fn seek_before(&mut self, key: &[u8]) -> Result<(), Malformed> {
        self.seek(key)?;
        if self.current.is_some() { self.prev() } else { self.seek_to_last() }
    }

    /// One entry forward. No-op if not positioned.
    #[inline]
    pub(crate) fn next(&mut self) -> Result<(), Malformed> {
        match self.current.take() {
            Some(current) => {
                self.behind.clear();
                self.decode(current.value.end).map(|position| self.current = position)
            }
            None => Ok(()),
        }
    }

    /// One entry back. No-op if not positioned.
    pub(crate) fn prev(&mut self) -> Result<(), Malformed> {
        let Some(current) = self.current.take() else { return Ok(()) };
        if current.offset == 0 {
            return Ok(());
        }
        self.step_back_from(current.offset)
    }

    /// The entry under the cursor.
    #[inline]
    pub(crate) fn entry(&self) -> Option<EntryRef<'_>> {
        self.current.as_ref().map(|current| EntryRef {
            key: &self.key,
            version: current.version,
            kind: current.kind,
        })
    }

    /// The value of the entry under the cursor, sharing the block's memory; empty if not
    /// positioned.
    pub(crate) fn value(&self) -> Bytes {
        self.current.as_ref().map(|current| self.block.slice(current.value.clone())).unwrap_or_default()
    }

    /// As `value`, without sharing: for values that are used at once.
    pub(crate) fn value_bytes(&self) -> &[u8] {
        self.current.as_ref().map(|current| self.block.bytes(current.value.clone())).unwrap_or_default()
    }

    /// The share of the bytes of all entries that lies before the cursor; 1 if it is not
    /// positioned.
    pub(crate) fn share_before(&self) -> f64 {
        let share = |current: &Position| current.offset as f64 / self.block.entries_end.max(1) as f64;
        self.current.as_ref().map_or(1.0, share)
    }

    /// To the entry at `offset`, which must be a restart point or the end.
    fn step_from(&mut self, offset: usize) -> Result<(), Malformed> {
        self.current = None;
        self.behind.clear();
        self.key.clear();
        self.current = self.decode(offset)?;
        Ok(())
    }

    /// To the entry that ends at `end`, which is above 0.
    fn step_back_from(&mut self, end: usize) -> Result<(), Malformed> {
        if self.behind.entries.is_empty() {
            self.fill_behind(end)?;
        }
        // After filling there is at least the entry of the restart point.
        let Some((position, key_bytes)) = self.behind.entries.pop() else { return Ok(()) };
        let start = self.behind.keys.len() - key_bytes;
        self.key.clear();
        self.key.extend_from_slice(&self.behind.keys[start..]);
        self.behind.keys.truncate(start);
        self.current = Some(position);
        Ok(())
    }

    /// Decodes the entries from the restart point before `end` up to `end`. `current` must be `None`.
    fn fill_behind(&mut self, end: usize) -> Result<(), Malformed> {
        self.behind.clear();
        self.key.clear();
        let mut offset = self.block.restart_before_offset(end);
        while offset < end {
            if self.behind.entries.len() == RESTART_ENTRIES_MAX {
                self.behind.clear();
                return Err(Malformed("too many entries without a restart point"));
            }
            let Some(position) = self.decode(offset)? else { break };
            offset = position.value.end;
            self.behind.keys.extend_from_slice(&self.key);
            self.behind.entries.push((position, self.key.len()));
        }
        if offset != end {
            self.behind.clear();
            return Err(Malformed("a restart point is not the start of an entry"));
        }
        Ok(())
    }

    /// Decodes the entry at `offset` into `key`, which must hold the key before it, or nothing at a restart point.
    #[inline]
    fn decode(&mut self, offset: usize) -> Result<Option<Position>, Malformed> {
        let Some(RawEntry { shared, kind, version, suffix, value }) = self.block.entry_at(offset)? else {
            return Ok(None);
        };
        if shared > self.key.len() {
            return Err(Malformed("an entry shares more than the key before it has"));
        }
        self.key.truncate(shared);
        self.key.extend_from_slice(&self.block.bytes[suffix]);
        Ok(Some(Position { offset, version, kind, value }))
    }
}
