//! Walks a table in both directions.

use super::frame::{Handle, unframe};
use super::reader::Table;
use crate::block::{Block, BlockCursor};
use crate::read_ahead::{BytesRead, Run, SCAN_BYTES};
use crate::sync::Arc;
use crate::sync::atomic::Ordering::Relaxed;
use crate::sync::time::now;
use crate::types::entry::{EntryCursor, EntryRef};
use crate::types::error::Result;
use bytes::Bytes;

/// Bytes that a cursor without cache reads at once (minimum and maximum) while it moves forward.
const ONE_PASS_BYTES: [u64; 2] = [256 << 10; 2];
/// Reads of more bytes than this are not timed: copying alone takes long.
const TIMED_BYTES_MAX: u64 = 32 << 10;
/// Gap in bytes from which blocks count as apart: a block follows another only if it begins at that
/// one's end.
const NO_GAP: u64 = 1;

/// Walks the entries of a table. It is positioned if and only if `data` is, and then `index` stands
/// at the data block's entry.
pub(crate) struct TableCursor {
    table: Arc<Table>,
    fill_cache: bool,
    /// Loaded by the first seek.
    index: Option<BlockCursor>,
    data: Option<BlockCursor>,
    /// The handle of the block that `data` walks.
    data_handle: Option<Handle>,
    ahead: ReadAhead,
    /// Counts the bytes of the data blocks that were visited.
    read: Option<BytesRead>,
    /// True if the device was asked for the next block.
    is_announced: bool,
}

/// The part of the file that a cursor read last.
struct ReadAhead {
    offset: u64,
    bytes: Vec<u8>,
    run: Run,
    /// Minimum and maximum of the bytes read at once while it moves forward.
    limits: [u64; 2],
}

impl TableCursor {
    pub(super) fn new(table: Arc<Table>, fill_cache: bool) -> Self {
        let limits = if fill_cache { SCAN_BYTES } else { ONE_PASS_BYTES };
        let ahead = ReadAhead { offset: 0, bytes: Vec::new(), run: Run::default(), limits };
        Self {
            table,
            fill_cache,
            index: None,
            data: None,
            data_handle: None,
            ahead,
            read: None,
            is_announced: false,
        }
    }

    /// Adds the bytes of each data block that the cursor visits to `read`.
    pub(crate) fn counting(self, read: BytesRead) -> Self {
        Self { read: Some(read), ..self }
    }

    /// The value of the entry under the cursor, which keeps its block in memory; empty if not
    /// positioned.
    pub(crate) fn value_bytes(&self) -> Bytes {
        self.data.as_ref().map(BlockCursor::value).unwrap_or_default()
    }

    /// Runs a step; after an error the cursor is not positioned.
    fn step(&mut self, step: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        let result = step(self);
        if result.is_err() {
            self.leave();
        }
        result
    }

    fn leave(&mut self) {
        self.data = None;
        self.data_handle = None;
    }

    fn move_index(
        &mut self,
        to: impl FnOnce(&mut BlockCursor) -> Result<(), crate::format::codec::Malformed>,
    ) -> Result<()> {
        if self.index.is_none() {
            let handle = self.table.footer.index;
            let block = if self.fill_cache { self.table.index()? } else { self.block(handle)? };
            self.index = Some(BlockCursor::new(block, self.table.order.clone()));
        }
        match &mut self.index {
            Some(index) => {
                to(index).map_err(|malformed| self.table.corruption(self.table.footer.index, malformed))
            }
            None => Ok(()),
        }
    }

    fn move_data(
        &mut self,
        to: impl FnOnce(&mut BlockCursor) -> Result<(), crate::format::codec::Malformed>,
    ) -> Result<()> {
        match (&mut self.data, self.data_handle) {
            (Some(data), Some(handle)) => {
                to(data).map_err(|malformed| self.table.corruption(handle, malformed))
            }
            _ => Ok(()),
        }
    }

    /// Loads the block at the index's position; `false`, and not positioned, if the index has none.
    fn load(&mut self) -> Result<bool> {
        let Some(index) = self.index.as_ref().filter(|index| index.entry().is_some()) else {
            self.leave();
            return Ok(false);
        };
        let handle = self.table.data_handle(index.value_bytes())?;
        if self.data_handle == Some(handle) {
            return Ok(true);
        }
        let block = self.block(handle)?;
        if let Some(read) = &self.read {
            read.fetch_add(handle.framed_bytes(), Relaxed);
        }
        match &mut self.data {
            Some(data) => data.set_block(block),
            None => self.data = Some(BlockCursor::new(block, self.table.order.clone())),
        }
        self.data_handle = Some(handle);
        Ok(true)
    }

    fn block(&mut self, handle: Handle) -> Result<Arc<Block>> {
        let runs = self.fill_cache.then_some(&self.table.runs);
        self.ahead.run.visit((handle.offset, handle.framed_bytes()), NO_GAP, runs);
        let cached =
            if self.fill_cache { self.table.use_cached(handle) } else { self.table.cached_block(handle) };
        if let Some(block) = cached {
            return Ok(block);
        }
        let is_timed = !std::mem::take(&mut self.is_announced);
        let bytes = self.ahead.payload(&self.table, handle, is_timed)?;
        let block = self.table.parse(handle, bytes)?;
        if self.fill_cache {
            self.table.cache_block(handle, &block);
        }
        Ok(block)
    }

    /// Moves to the first entry of the following blocks while the current block has none under the
    /// cursor.
    fn skip_hidden_forward(&mut self) -> Result<()> {
        while self.entry().is_none() {
            self.move_index(BlockCursor::next)?;
            if !self.load()? {
                break;
            }
            self.move_data(BlockCursor::seek_to_first)?;
        }
        Ok(())
    }

    /// Moves to the last entry of the preceding blocks while the current block has none under the
    /// cursor.
    fn skip_hidden_back(&mut self) -> Result<()> {
        while self.entry().is_none() {
            self.move_index(BlockCursor::prev)?;
            if !self.load()? {
                break;
            }
            self.move_data(BlockCursor::seek_to_last)?;
        }
        Ok(())
    }
}

impl ReadAhead {
    fn has(&self, handle: Handle) -> bool {
        self.offset <= handle.offset && handle.end() <= self.offset + self.bytes.len() as u64
    }

    /// The payload of a data block or the index. The result shares no memory with the rest of the
    /// piece.
    fn payload(&mut self, table: &Table, handle: Handle, is_timed: bool) -> Result<Bytes> {
        let len = handle.framed_bytes();
        if len >= self.limits[1] {
            return table.read_payload(handle);
        }
        if !self.has(handle) {
            let room = table.meta().file_bytes.saturating_sub(handle.offset);
            let bytes = self.run.window((handle.offset, len), self.limits).min(room).max(len);
            let begun = now();
            let read = table.read_bytes(handle.offset, bytes);
            if is_timed && self.limits == SCAN_BYTES && bytes <= TIMED_BYTES_MAX {
                table.seek_reads.note(begun.elapsed());
            }
            self.bytes = match read {
                // The bytes ahead may never be needed, so only this block counts.
                Err(_) if bytes > len => return table.read_payload(handle),
                read => read?,
            };
            self.offset = handle.offset;
            if self.limits == ONE_PASS_BYTES {
                // All that follows is read as well. A merge then waits for the device only if that is slower than the merge.
                let end = self.offset + self.bytes.len() as u64;
                let left = table.data().end.saturating_sub(end);
                if left > 0 {
                    table.prefetch(end, left.min(self.limits[1]));
                }
            }
        }
        let start = (handle.offset - self.offset) as usize;
        let framed = &self.bytes[start..start + len as usize];
        let block = unframe(&table.header, &table.path, handle.offset, framed)?;
        Ok(block.unwrap_or_else(|| Bytes::copy_from_slice(&framed[..handle.payload_bytes as usize])))
    }
}

impl EntryCursor for TableCursor {
    fn seek_to_first(&mut self) -> Result<()> {
        self.step(|cursor| {
            cursor.move_index(BlockCursor::seek_to_first)?;
            if cursor.load()? {
                cursor.move_data(BlockCursor::seek_to_first)?;
                cursor.skip_hidden_forward()?;
            }
            Ok(())
        })
    }

    fn seek_to_last(&mut self) -> Result<()> {
        self.step(|cursor| {
            cursor.move_index(BlockCursor::seek_to_last)?;
            if cursor.load()? {
                cursor.move_data(BlockCursor::seek_to_last)?;
                cursor.skip_hidden_back()?;
            }
            Ok(())
        })
    }

    fn seek(&mut self, key: &[u8]) -> Result<()> {
        self.step(|cursor| {
            cursor.move_index(|index| index.seek(key))?;
            if cursor.load()? {
                cursor.move_data(|data| data.seek(key))?;
                cursor.skip_hidden_forward()?;
            }
            Ok(())
        })
    }

    fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        self.step(|cursor| {
            // The first block that reaches `key` is the last one that can contain an entry before
            // it.
            cursor.move_index(|index| {
                index.seek(key)?;
                if index.entry().is_some() { Ok(()) } else { index.seek_to_last() }
            })?;
            if cursor.load()? {
                cursor.move_data(|data| data.seek_before(key))?;
                cursor.skip_hidden_back()?;
            }
            Ok(())
        })
    }

    fn announce_index(&mut self, begin: bool) -> bool {
        let handle = self.table.footer.index;
        let is_needed = self.fill_cache && self.index.is_none() && self.table.seek_reads.are_slow();
        if !is_needed || self.table.cached_block(handle).is_some() {
            return false;
        }
        if begin {
            self.table.prefetch(handle.offset, handle.framed_bytes());
            self.table.seek_reads.count();
        }
        true
    }

    fn announce(&mut self, key: &[u8], begin: bool) -> bool {
        if !self.fill_cache || !self.table.seek_reads.are_slow() {
            return false;
        }
        self.leave();
        // An index that is not cached is read now: its block is known only then.
        let found = self.move_index(|index| index.seek(key));
        let index = self.index.as_ref().filter(|index| found.is_ok() && index.entry().is_some());
        let Some(handle) = index.and_then(|index| self.table.data_handle(index.value_bytes()).ok()) else {
            return false;
        };
        if self.ahead.has(handle) || self.table.cached_block(handle).is_some() {
            return false;
        }
        if begin {
            let bytes = self.table.runs.first_bytes(handle.offset, handle.framed_bytes());
            self.table.prefetch(handle.offset, bytes.max(handle.framed_bytes()));
            self.table.seek_reads.count();
            self.is_announced = true;
        }
        true
    }

    #[inline]
    fn next(&mut self) -> Result<()> {
        if self.entry().is_none() {
            return Ok(());
        }
        self.step(|cursor| {
            cursor.move_data(BlockCursor::next)?;
            cursor.skip_hidden_forward()
        })
    }

    fn prev(&mut self) -> Result<()> {
        if self.entry().is_none() {
            return Ok(());
        }
        self.step(|cursor| {
            cursor.move_data(BlockCursor::prev)?;
            cursor.skip_hidden_back()
        })
    }

    #[inline]
    fn entry(&self) -> Option<EntryRef<'_>> {
        self.data.as_ref().and_then(BlockCursor::entry)
    }

    /// The version: a range delete of a table covers its entries with lower ones.
    fn position(&self) -> u64 {
        self.entry().map_or(0, |entry| entry.version)
    }

    fn value(&mut self) -> Result<Bytes> {
        Ok(self.value_bytes())
    }
}
