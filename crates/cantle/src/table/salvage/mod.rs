//! The salvage of a damaged table: every entry of every intact block, in order.
//!
//! The index has the places of the blocks. If it is lost, they are found by their checksums
//! (`frames`). Each damage is recorded with the keys between which entries are missing, and the
//! walk continues after it. Range deletes are read first, all at once. No contents of a file make it fail; only errors of the operating system
//! do.
//!
//! Memory: the places of the blocks, 16 bytes each, one block, and a window of the file.

mod frames;

use super::filter::FilterPages;
use super::footer::{Footer, LONG_FOOTER_BYTES, RangesPlace, footer_bytes};
use super::frame::{Handle, unframe};
use super::range_reads::{decoded, place_of};
use super::ranges::{DELETES, DeletedRange, INDEX, RangeBlock};
use super::reader::{read, read_description};
use crate::block::{Block, BlockCursor, entry_order};
use crate::format::codec::Malformed;
use crate::format::header::{FileHeader, HEADER_BYTES};
use crate::sync::Arc;
use crate::types::entry::EntryRef;
use crate::types::error::{Attempt, Error, Result};
use crate::types::order::KeyOrder;
use crate::vfs::VfsFile;
use bytes::Bytes;
use frames::Search;
use std::cmp::Ordering;
use std::path::PathBuf;

const WINDOW_BYTES: u64 = 256 << 10;

/// A damage, with the last key before it and the first key after it.
#[derive(Debug, Clone)]
pub(crate) struct TableLoss {
    pub(crate) error: Error,
    /// True if entries may be missing.
    pub(crate) entries: bool,
    pub(crate) after: Option<Vec<u8>>,
    pub(crate) before: Option<Vec<u8>>,
}

/// Walks the entries of a table that may be damaged.
pub(crate) struct TableSalvage {
    file: Arc<dyn VfsFile>,
    path: PathBuf,
    header: FileHeader,
    order: KeyOrder,
    blocks: std::vec::IntoIter<Handle>,
    /// Offset at which the next block begins if none is missing, and at which the last one ends, if
    /// that is known.
    expected: u64,
    data_end: Option<u64>,
    data: Option<BlockCursor>,
    block_offset: u64,
    window: Vec<u8>,
    window_offset: u64,
    /// True if entries that are not in order are skipped.
    in_order: bool,
    out_of_order: bool,
    /// The last entry that the walk passed.
    last: Option<(Vec<u8>, u64)>,
    losses: Vec<TableLoss>,
    /// Index of the first loss that waits for the key after it.
    open_losses: usize,
    deleted: Vec<DeletedRange>,
}

impl TableSalvage {
    /// Finds the blocks of the table in `file`, whose header this is or was. The walk begins before
    /// the first entry.
    pub(crate) fn new(
        file: Arc<dyn VfsFile>,
        path: PathBuf,
        header: FileHeader,
        order: KeyOrder,
    ) -> Result<Self> {
        let mut salvage = Self {
            file,
            path,
            header,
            order,
            blocks: Vec::new().into_iter(),
            expected: HEADER_BYTES,
            data_end: None,
            data: None,
            block_offset: HEADER_BYTES,
            window: Vec::new(),
            window_offset: 0,
            in_order: true,
            out_of_order: false,
            last: None,
            losses: Vec::new(),
            open_losses: 0,
            deleted: Vec::new(),
        };
        salvage.blocks = salvage.find_blocks()?.into_iter();
        Ok(salvage)
    }

    fn find_blocks(&mut self) -> Result<Vec<Handle>> {
        let file = self.file.clone();
        let file_bytes = file.len().map_err(|e| Error::io(Attempt::Measure, &self.path, e))?;
        let described = read_description(&*file, &self.path, &self.header);
        let mut search_end = file_bytes;
        match described.map_err(|error| self.lose(error, false)) {
            Ok((footer, _)) => {
                self.look_at_filter(footer.filter);
                self.read_deleted(footer.ranges);
                self.data_end = Some(footer.filter.offset);
                match self.read_index(&footer) {
                    Ok(blocks) => return Ok(blocks),
                    Err(error) => self.lose(error, false),
                }
                search_end = footer.filter.offset;
            }
            Err(()) => {
                // Perhaps only the properties are damaged.
                if let Some(footer) = self.footer(file_bytes)
                    && let Ok(blocks) = self.read_index(&footer)
                {
                    self.read_deleted(footer.ranges);
                    self.data_end = Some(footer.filter.offset);
                    return Ok(blocks);
                }
            }
        }
        let frames = Search::new(&*file, &self.path, &self.header, search_end).run()?;
        self.data_end = self.data_end.or(frames.data_end);
        for handle in frames.deleted {
            self.read_deleted_block(handle);
        }
        Ok(frames.data)
    }

    /// The range deletes, in order. Those that are lost are among the losses.
    pub(crate) fn take_deleted(&mut self) -> Vec<DeletedRange> {
        std::mem::take(&mut self.deleted)
    }

    fn read_deleted(&mut self, place: Option<RangesPlace>) {
        let Some(place) = place else { return };
        let damaged = |what: Malformed| Error::corruption(&self.path, place.index.offset, what.0);
        let index = self.read_part(place.index);
        let index = index.and_then(|bytes| RangeBlock::parse(bytes, INDEX).map_err(damaged));
        let handles = index.and_then(|index| {
            let handles: Result<Vec<Handle>, Malformed> =
                index.iter().map(|part| place_of(place, &part?)).collect();
            handles.map_err(damaged)
        });
        match handles {
            Ok(handles) => handles.into_iter().for_each(|handle| self.read_deleted_block(handle)),
            Err(error) => self.lose_deleted(error),
        }
    }

    fn read_deleted_block(&mut self, handle: Handle) {
        let damaged = |what: Malformed| Error::corruption(&self.path, handle.offset, what.0);
        let block = self.read_part(handle);
        let block = block.and_then(|bytes| RangeBlock::parse(bytes, DELETES).map_err(damaged));
        let ranges = block.and_then(|block| {
            let base_version = self.header.base_version;
            let ranges: Result<Vec<DeletedRange>, Malformed> =
                block.iter().map(|range| decoded(&range?, base_version)).collect();
            ranges.map_err(damaged)
        });
        match ranges {
            Ok(ranges) => self.deleted.extend(ranges),
            Err(error) => self.lose_deleted(error),
        }
    }

    /// Records that range deletes are lost, whose ranges nobody knows.
    fn lose_deleted(&mut self, error: Error) {
        let loss = TableLoss { error, entries: true, after: None, before: None };
        self.losses.insert(self.open_losses, loss);
        self.open_losses += 1;
    }

    /// Reports damage of the filter, by which no entry is lost.
    fn look_at_filter(&mut self, part: Handle) {
        let Some(pages) = FilterPages::of(part) else {
            if let Err(error) = self.read_part(part) {
                self.lose(error, false);
            }
            return;
        };
        for page in pages.pages() {
            if let Err(error) = self.read_part(page) {
                self.lose(error, false);
            }
        }
    }

    fn footer(&self, file_bytes: u64) -> Option<Footer> {
        let tail_bytes = LONG_FOOTER_BYTES.min(file_bytes.saturating_sub(HEADER_BYTES));
        let tail = read(&*self.file, &self.path, file_bytes - tail_bytes, tail_bytes).ok()?;
        let bytes = footer_bytes(&tail);
        let offset = file_bytes.checked_sub(bytes).filter(|&offset| offset >= HEADER_BYTES)?;
        let bytes = tail.get((tail_bytes - bytes) as usize..)?;
        Footer::decode(&self.header, &self.path, offset, bytes).ok()
    }

    fn read_part(&self, handle: Handle) -> Result<Bytes> {
        let framed = read(&*self.file, &self.path, handle.offset, handle.framed_bytes())?;
        let block = unframe(&self.header, &self.path, handle.offset, &framed)?;
        Ok(block.unwrap_or_else(|| Bytes::from(framed).slice(..handle.payload_bytes as usize)))
    }

    fn read_index(&self, footer: &Footer) -> Result<Vec<Handle>> {
        let damaged = |what: crate::format::codec::Malformed| {
            Error::corruption(&self.path, footer.index.offset, format!("in the index {}", what.0))
        };
        let index = Block::parse(self.read_part(footer.index)?, self.header.base_version).map_err(damaged)?;
        let mut places = BlockCursor::new(Arc::new(index), self.order.clone());
        let mut blocks = Vec::new();
        let mut end = HEADER_BYTES;
        places.seek_to_first().map_err(damaged)?;
        while places.entry().is_some() {
            let handle = Handle::decode(places.value_bytes(), end, footer.filter.offset).map_err(damaged)?;
            end = handle.end();
            blocks.push(handle);
            places.next().map_err(damaged)?;
        }
        Ok(blocks)
    }

    /// Accepts entries in any order.
    pub(crate) fn ignore_order(&mut self) {
        self.in_order = false;
    }

    /// Moves to the next entry; false at the end.
    pub(crate) fn advance(&mut self) -> bool {
        if let (Some(data), Some((key, version))) = (&self.data, &mut self.last)
            && let Some(entry) = data.entry()
        {
            key.clear();
            key.extend_from_slice(entry.key);
            *version = entry.version;
        } else if let Some(entry) = self.data.as_ref().and_then(BlockCursor::entry) {
            self.last = Some((entry.key.to_vec(), entry.version));
        }
        loop {
            let step = match &mut self.data {
                Some(data) if data.entry().is_some() => data.next(),
                _ => match self.next_block() {
                    None => {
                        self.data = None;
                        self.open_losses = self.losses.len();
                        return false;
                    }
                    Some(data) => self.data.insert(data).seek_to_first(),
                },
            };
            if let Err(what) = step {
                // Lengths after this cannot be trusted: the rest of the block is lost.
                self.data = None;
                self.lose(Error::corruption(&self.path, self.block_offset, what.0), true);
                continue;
            }
            let Some(entry) = self.data.as_ref().and_then(BlockCursor::entry) else { continue };
            let in_order = !self.in_order
                || self.last.as_ref().is_none_or(|(key, version)| {
                    entry_order(&self.order, key, *version, entry.key, entry.version) != Ordering::Greater
                });
            if in_order {
                let key = entry.key.to_vec();
                for loss in &mut self.losses[self.open_losses..] {
                    loss.before = Some(key.clone());
                }
                self.open_losses = self.losses.len();
                return true;
            }
            self.out_of_order = true;
            let what = "an entry is out of order";
            self.lose(Error::corruption(&self.path, self.block_offset, what), true);
        }
    }

    /// The entry under the walk.
    pub(crate) fn entry(&self) -> Option<EntryRef<'_>> {
        self.data.as_ref().and_then(BlockCursor::entry)
    }

    /// True if the walk has met an entry that is out of order.
    pub(crate) fn is_out_of_order(&self) -> bool {
        self.out_of_order
    }

    /// The value of the entry under the walk.
    pub(crate) fn value(&self) -> Bytes {
        self.data.as_ref().map(BlockCursor::value).unwrap_or_default()
    }

    /// The losses found since the last call. Those that wait for the key after them come later.
    pub(crate) fn take_losses(&mut self) -> Vec<TableLoss> {
        let taken = self.losses.drain(..self.open_losses).collect();
        self.open_losses = 0;
        taken
    }

    fn next_block(&mut self) -> Option<BlockCursor> {
        loop {
            let Some(handle) = self.blocks.next() else {
                let what = match self.data_end {
                    Some(end) if end == self.expected => return None,
                    _ => "the table ends without its index: entries may be missing from here on",
                };
                self.data_end = Some(self.expected);
                self.lose(Error::corruption(&self.path, self.expected, what), true);
                return None;
            };
            if handle.offset != self.expected {
                let what = format!("what stands here, up to offset {}, is no block", handle.offset);
                self.lose(Error::corruption(&self.path, self.expected, what), true);
            }
            self.expected = handle.end();
            self.block_offset = handle.offset;
            let block = self.block(handle).and_then(|bytes| {
                Block::parse(bytes, self.header.base_version)
                    .map_err(|what| Error::corruption(&self.path, handle.offset, what.0))
            });
            match block {
                Ok(block) => return Some(BlockCursor::new(Arc::new(block), self.order.clone())),
                Err(error) => self.lose(error, true),
            }
        }
    }

    fn block(&mut self, handle: Handle) -> Result<Bytes> {
        let framed_bytes = handle.framed_bytes();
        if framed_bytes > WINDOW_BYTES {
            return self.read_part(handle);
        }
        let window_end = self.window_offset + self.window.len() as u64;
        if handle.offset < self.window_offset || handle.end() > window_end {
            let file_bytes = self.file.len().map_err(|e| Error::io(Attempt::Measure, &self.path, e))?;
            let bytes = WINDOW_BYTES.min(file_bytes.saturating_sub(handle.offset)).max(framed_bytes);
            self.window = read(&*self.file, &self.path, handle.offset, bytes)?;
            self.window_offset = handle.offset;
        }
        let start = (handle.offset - self.window_offset) as usize;
        let framed = &self.window[start..start + framed_bytes as usize];
        let block = unframe(&self.header, &self.path, handle.offset, framed)?;
        Ok(block.unwrap_or_else(|| Bytes::copy_from_slice(&framed[..handle.payload_bytes as usize])))
    }

    fn lose(&mut self, error: Error, entries: bool) {
        let after = self.last.as_ref().map(|(key, _)| key.clone());
        let loss = TableLoss { error, entries, after, before: None };
        if entries {
            self.losses.push(loss);
        } else {
            self.losses.insert(self.open_losses, loss);
            self.open_losses += 1;
        }
    }
}
