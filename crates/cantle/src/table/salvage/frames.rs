//! Finds the blocks of a table without its index.
//!
//! Blocks follow one another without a gap, but only the index has their lengths. From the start of
//! a block, its end is the place where its checksum, which covers file and offset, matches. After a
//! damaged block the next one is searched for at every byte that may begin one.
//!
//! The time for this is bounded by the file's length.

use super::super::frame::{Handle, TRAILER_BYTES, unframe};
use super::super::properties::TableMeta;
use super::super::ranges::{DELETES, INDEX, RangeBlock};
use super::super::reader::read;
use crate::block::{Block, BlockCursor};
use crate::format::codec::Decoder;
use crate::format::header::{FileHeader, HEADER_BYTES};
use crate::sync::Arc;
use crate::types::entry::Kind;
use crate::types::error::Result;
use crate::types::order::KeyOrder;
use crate::vfs::VfsFile;
use bytes::Bytes;
use std::path::Path;

/// The greatest tag of a compression method.
const COMPRESSION_MAX: u8 = 2;
const PIECE_BYTES: u64 = 64 << 10;
/// Maximum length in bytes of a block beyond its first entry that is recognised after damage.
const SEARCHED_BYTES: u64 = 128 << 10;
/// Maximum number of bytes of which checksums are computed: this constant, plus `CHECKED_FACTOR`
/// times the file's length.
const CHECKED_BYTES_MIN: u64 = 1 << 30;
const CHECKED_FACTOR: u64 = 256;

/// The blocks found, and the end of the data.
#[derive(Debug, Default)]
pub(super) struct Frames {
    pub(super) data: Vec<Handle>,
    /// The blocks of range deletes.
    pub(super) deleted: Vec<Handle>,
    /// Offset at which the data ends, if that is known.
    pub(super) data_end: Option<u64>,
}

/// Searches one table.
pub(super) struct Search<'a> {
    pub(super) file: &'a dyn VfsFile,
    pub(super) path: &'a Path,
    pub(super) header: &'a FileHeader,
    pub(super) end: u64,
    checks_left: u64,
    window: Vec<u8>,
    window_offset: u64,
}

impl<'a> Search<'a> {
    /// A search up to `end`, which the file has.
    pub(super) fn new(file: &'a dyn VfsFile, path: &'a Path, header: &'a FileHeader, end: u64) -> Self {
        let checks_left = end.saturating_mul(CHECKED_FACTOR).saturating_add(CHECKED_BYTES_MIN);
        Self { file, path, header, end, checks_left, window: Vec::new(), window_offset: 0 }
    }

    /// All data blocks that are intact. If an index is found, the blocks that it lists.
    pub(super) fn run(&mut self) -> Result<Frames> {
        let mut frames = Vec::new();
        let mut at = HEADER_BYTES;
        let mut sure = true;
        while at < self.end {
            let limit = if sure { self.end } else { self.search_end(at)? };
            match if limit > at { self.frame_at(at, limit)? } else { None } {
                Some(handle) => {
                    frames.push(handle);
                    at = handle.end();
                    sure = true;
                }
                None => {
                    at += 1;
                    sure = false;
                }
            }
        }
        let mut deleted = Vec::new();
        for &handle in &frames {
            let payload = self.payload(handle)?;
            if RangeBlock::parse(payload, DELETES).is_ok() {
                deleted.push(handle);
            }
        }
        // The index is the last block but one, if it is intact.
        for place in (0..frames.len()).rev().take(3) {
            if let Some(data) = self.as_index(frames[place])? {
                let data_end = data.last().map(|last| last.end());
                return Ok(Frames { data, deleted, data_end });
            }
        }
        let last = frames.len().saturating_sub(1);
        let mut data = Vec::with_capacity(frames.len());
        for (place, handle) in frames.into_iter().enumerate() {
            let block = self.payload(handle)?;
            let described = place == last && TableMeta::decode(&block, 0, 0).is_ok();
            if !described && !is_ranges(&block) && is_data(block, self.header.base_version) {
                data.push(handle);
            }
        }
        Ok(Frames { data, deleted, data_end: None })
    }

    fn payload(&self, handle: Handle) -> Result<Bytes> {
        let framed = read(self.file, self.path, handle.offset, handle.framed_bytes())?;
        let block = unframe(self.header, self.path, handle.offset, &framed)?;
        Ok(block.unwrap_or_else(|| Bytes::from(framed).slice(..handle.payload_bytes as usize)))
    }

    /// The places in this block, if it is an index: they follow one another from the first byte on.
    fn as_index(&self, handle: Handle) -> Result<Option<Vec<Handle>>> {
        let Ok(payload) = self.payload(handle) else { return Ok(None) };
        let Ok(index) = Block::parse(payload, 0) else { return Ok(None) };
        let mut places = BlockCursor::new(Arc::new(index), KeyOrder::Bytewise);
        let mut data = Vec::new();
        let mut end = HEADER_BYTES;
        let mut step = places.seek_to_first();
        while step.is_ok() && places.entry().is_some() {
            match Handle::decode(places.value_bytes(), end, handle.offset) {
                Ok(place) if place.offset == end => {
                    end = place.end();
                    data.push(place);
                }
                _ => return Ok(None),
            }
            step = places.next();
        }
        Ok((step.is_ok() && !data.is_empty()).then_some(data))
    }

    /// The offset at which the search for the end of a block that begins at `at`, after damage,
    /// stops. At most `at` if no block can begin there.
    fn search_end(&mut self, at: u64) -> Result<u64> {
        if self.checks_left == 0 {
            return Ok(at);
        }
        let left = self.end - at;
        let bytes = self.window_at(at, 64)?;
        if bytes.iter().take(16).all(|&byte| byte == 0) {
            return Ok(at);
        }
        let mut decoder = Decoder::new(bytes);
        // A compressed block begins with its uncompressed length. Any other begins with an entry
        // that has its whole key.
        let compressed = decoder.varint().is_ok_and(|len| (9..1 << 20).contains(&len));
        let mut decoder = Decoder::new(bytes);
        let mut entry = || {
            let head = decoder.varint().ok()?;
            let (suffix, _, value) = (decoder.varint().ok()?, decoder.varint().ok()?, decoder.varint().ok()?);
            let kind = Kind::in_table(head as u8)?;
            let possible = head < 8
                && kind != Kind::DeleteRange
                && suffix <= super::super::KEY_BYTES_MAX as u64
                && (kind.is_put() || value == 0);
            possible.then_some(suffix.checked_add(value)?)
        };
        let entry_bytes = entry().filter(|&bytes| bytes < left);
        Ok(match entry_bytes {
            Some(bytes) => self.end.min(at + bytes + SEARCHED_BYTES),
            None if compressed => self.end.min(at + SEARCHED_BYTES),
            None => at,
        })
    }

    /// The block that begins at `start` and ends before `limit`, if there is one.
    fn frame_at(&mut self, start: u64, limit: u64) -> Result<Option<Handle>> {
        let header = *self.header;
        let mut crc = crc32c::crc32c(&header.salt(start));
        let mut at = start;
        while at + TRAILER_BYTES <= limit {
            let piece_bytes = (limit - at).min(PIECE_BYTES + TRAILER_BYTES);
            self.checks_left = self.checks_left.saturating_sub(piece_bytes);
            let piece = self.window_at(at, piece_bytes as usize)?;
            let piece = &piece[..piece.len().min(piece_bytes as usize)];
            let Some(ends) = piece.len().checked_sub(TRAILER_BYTES as usize) else { return Ok(None) };
            let mut summed = 0;
            let mut found = None;
            for end in 0..=ends {
                if piece[end] > COMPRESSION_MAX {
                    continue;
                }
                crc = crc32c::crc32c_append(crc, &piece[summed..end]);
                summed = end;
                let stored = piece[end + 1..].first_chunk::<4>();
                let sum = crc32c::crc32c_append(crc, &piece[end..=end]).to_le_bytes();
                if stored.is_some_and(|stored| sum == *stored) {
                    found = Some(end as u64);
                    break;
                }
            }
            if let Some(end) = found {
                let handle = Handle { offset: start, payload_bytes: at + end - start };
                // A checksum that matches by chance is so rare that the search gives up after one.
                return Ok(self.payload(handle).is_ok().then_some(handle));
            }
            crc = crc32c::crc32c_append(crc, &piece[summed..=ends]);
            at += ends as u64 + 1;
            if self.checks_left == 0 {
                return Ok(None);
            }
        }
        Ok(None)
    }

    /// The bytes from `offset` on: at least `wanted`, unless the file ends before.
    fn window_at(&mut self, offset: u64, wanted: usize) -> Result<&[u8]> {
        let window_end = self.window_offset + self.window.len() as u64;
        if offset < self.window_offset || offset + wanted as u64 > window_end.min(self.end) {
            let bytes = (4 * PIECE_BYTES).max(wanted as u64).min(self.end - offset);
            if self.window_offset != offset || self.window.len() as u64 != bytes {
                self.window = read(self.file, self.path, offset, bytes)?;
                self.window_offset = offset;
            }
        }
        Ok(&self.window[(offset - self.window_offset) as usize..])
    }
}

/// True if a payload is a block of ranges.
fn is_ranges(payload: &[u8]) -> bool {
    [DELETES, INDEX].iter().any(|magic| payload.starts_with(magic))
}

/// True if a payload is a block of entries.
fn is_data(payload: Bytes, base_version: u64) -> bool {
    let Ok(block) = Block::parse(payload, base_version) else { return false };
    let mut entries = BlockCursor::new(Arc::new(block), KeyOrder::Bytewise);
    let first = entries.seek_to_first().is_ok();
    first && entries.entry().is_some()
}
