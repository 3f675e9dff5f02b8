//! Reads the range deletes of a table: those that cover a key or overlap a span, or all of them to
//! check them.

use super::footer::RangesPlace;
use super::frame::{Handle, unframe};
use super::properties::TableMeta;
use super::ranges::{DELETES, DeletedRange, INDEX, RangeBlock, StoredRange};
use super::reader::Table;
use crate::fetch::{Directly, Fetch};
use crate::format::codec::{Malformed, NUMBER_MAX, within};
use crate::types::error::{Error, Result};
use crate::types::gap::Gap;
use crate::types::order::KeyOrder;
use crate::types::span::Span;
use bytes::Bytes;
use std::cmp::Ordering;

/// Maximum number of bytes that are read at once: a table may have tens of megabytes of range deletes.
const AHEAD_BYTES: u64 = 128 << 10;

/// The part of the file that was read last.
#[derive(Default)]
pub(super) struct Piece {
    offset: u64,
    bytes: Vec<u8>,
}

/// The place in an entry of the index.
pub(super) fn place_of(place: RangesPlace, range: &StoredRange<'_>) -> Result<Handle, Malformed> {
    let mut numbers = range.numbers();
    let mut number = || numbers.next().ok_or(Malformed("a range without its block's place"))?;
    let handle = Handle { offset: number()?, payload_bytes: number()? };
    handle.checked(place.start, place.index.offset)
}

/// The versions of a range, newest first.
fn versions_of(range: &StoredRange<'_>, base_version: u64) -> impl Iterator<Item = Result<u64, Malformed>> {
    range.numbers().map(move |number| within(base_version.saturating_add(number?), NUMBER_MAX))
}

/// The range with its versions.
pub(super) fn decoded(range: &StoredRange<'_>, base_version: u64) -> Result<DeletedRange, Malformed> {
    let versions: Result<Vec<u64>, Malformed> = versions_of(range, base_version).collect();
    Ok(DeletedRange { bounds: range.bounds(), versions: versions? })
}

impl Table {
    /// The newest range delete of `key` at or below version `at`, whose version satisfies `alive`.
    /// It deletes the entries of older tables, and those of this table with lower versions.
    pub(crate) fn deleted_at<F: Fetch>(
        &self,
        key: &[u8],
        at: u64,
        alive: &dyn Fn(u64) -> bool,
        fetch: &F,
    ) -> Result<Option<u64>, F::Stop> {
        let Some(place) = self.footer.ranges else { return Ok(None) };
        let index = self.ranges_by(place.index, INDEX, fetch)?;
        let Some(handle) = self.ranges_near(place, &index, key)? else { return Ok(None) };
        let in_block = |malformed| self.corruption(handle, malformed);
        let block = self.ranges_by(handle, DELETES, fetch)?;
        let Some(found) = block.find(&self.order, key).map_err(in_block)? else { return Ok(None) };
        Ok(self.newest_of(&found, at, alive).map_err(in_block)?)
    }

    /// The place of the block whose ranges begin before the key and end behind it.
    pub(super) fn ranges_near(
        &self,
        place: RangesPlace,
        index: &RangeBlock,
        key: &[u8],
    ) -> Result<Option<Handle>> {
        let found =
            index.find(&self.order, key).and_then(|found| found.map(|it| place_of(place, &it)).transpose());
        found.map_err(|malformed| self.corruption(place.index, malformed))
    }

    /// The newest delete of the range at or below version `at`, whose version satisfies `alive`.
    pub(super) fn newest_of(
        &self,
        range: &StoredRange<'_>,
        at: u64,
        alive: &dyn Fn(u64) -> bool,
    ) -> Result<Option<u64>, Malformed> {
        for version in versions_of(range, self.header.base_version) {
            let version = version?;
            if version <= at && alive(version) {
                return Ok(Some(version));
            }
        }
        Ok(None)
    }

    /// The range deletes that overlap the span, in order.
    pub(crate) fn deleted_within(&self, span: &Span) -> Result<Vec<DeletedRange>> {
        let mut found = Vec::new();
        let Some(place) = self.footer.ranges else { return Ok(found) };
        let overlaps = |range: &StoredRange<'_>| {
            let from = span.start.as_deref().map_or(Gap::First, Gap::Before);
            let to = span.end.as_deref().map_or(Gap::Last, Gap::Before);
            range.end.compare(&self.order, from).is_gt() && range.start.compare(&self.order, to).is_lt()
        };
        let in_index = |malformed| self.corruption(place.index, malformed);
        let mut handles = Vec::new();
        for part in self.ranges(place.index, INDEX)?.iter() {
            let part = part.map_err(in_index)?;
            if overlaps(&part) {
                handles.push(place_of(place, &part).map_err(in_index)?);
            }
        }
        let end = handles.last().map_or(0, |last| last.end());
        let mut piece = Piece::default();
        for handle in handles {
            let in_block = |malformed| self.corruption(handle, malformed);
            for range in self.ranges_ahead(&mut piece, handle, end)?.iter() {
                let range = range.map_err(in_block)?;
                if overlaps(&range) {
                    found.push(decoded(&range, self.header.base_version).map_err(in_block)?);
                }
            }
        }
        Ok(found)
    }

    /// A block of ranges, which is read together with those that follow it up to `end`.
    pub(super) fn ranges_ahead(&self, piece: &mut Piece, handle: Handle, end: u64) -> Result<RangeBlock> {
        let block = self.plain_block_by(handle, &Directly, || self.read_ahead(piece, handle, end))?;
        self.parse_ranges(handle, block, DELETES)
    }

    /// The payload of a block, which is read together with those that follow it up to `end`.
    fn read_ahead(&self, piece: &mut Piece, handle: Handle, end: u64) -> Result<Bytes> {
        let is_there = |piece: &Piece| {
            handle.offset >= piece.offset && handle.end() <= piece.offset + piece.bytes.len() as u64
        };
        let len = end.saturating_sub(handle.offset).min(AHEAD_BYTES);
        if !is_there(piece) && len > handle.framed_bytes() {
            // The bytes ahead may be damaged, so only this block counts.
            let bytes = self.read_bytes(handle.offset, len).unwrap_or_default();
            *piece = Piece { offset: handle.offset, bytes };
        }
        if !is_there(piece) {
            return self.read_payload(handle);
        }
        let start = (handle.offset - piece.offset) as usize;
        let framed = &piece.bytes[start..start + handle.framed_bytes() as usize];
        let block = unframe(&self.header, &self.path, handle.offset, framed)?;
        Ok(block.unwrap_or_else(|| Bytes::copy_from_slice(&framed[..handle.payload_bytes as usize])))
    }

    /// A block of ranges, through the cache.
    pub(super) fn ranges(&self, handle: Handle, magic: [u8; 4]) -> Result<RangeBlock> {
        self.ranges_by(handle, magic, &Directly)
    }

    fn ranges_by<F: Fetch>(&self, handle: Handle, magic: [u8; 4], fetch: &F) -> Result<RangeBlock, F::Stop> {
        Ok(self.parse_ranges(handle, self.plain_block(handle, fetch)?, magic)?)
    }

    fn parse_ranges(&self, handle: Handle, bytes: Bytes, magic: [u8; 4]) -> Result<RangeBlock> {
        RangeBlock::parse(bytes, magic).map_err(|malformed| self.corruption(handle, malformed))
    }

    /// Reads the range deletes from the file, counts them in `meta`, and reports all damage. False
    /// if some could not be read.
    pub(super) fn verify_ranges(
        &self,
        meta: &mut TableMeta,
        report: &mut dyn FnMut(Error),
        caught: impl Fn(Result<RangeBlock>, &mut dyn FnMut(Error)) -> Result<Option<RangeBlock>>,
    ) -> Result<bool> {
        let Some(place) = self.footer.ranges else { return Ok(true) };
        let read = |handle: Handle, magic| {
            self.read_payload(handle).and_then(|bytes| self.parse_ranges(handle, bytes, magic))
        };
        let Some(index) = caught(read(place.index, INDEX), report)? else { return Ok(false) };
        let (mut end, mut is_whole) = (place.start, true);
        let mut last: Option<DeletedRange> = None;
        for part in index.iter() {
            let part = part.and_then(|part| Ok((place_of(place, &part)?, part)));
            let (handle, part) = match part {
                Ok(found) => found,
                Err(malformed) => {
                    report(self.corruption(place.index, malformed));
                    return Ok(false);
                }
            };
            if handle.offset != end {
                let what = "the index of range deletes leaves a gap or overlap before this block";
                report(self.corruption(handle, Malformed(what)));
            }
            end = handle.end();
            let Some(block) = caught(read(handle, DELETES), report)? else {
                is_whole = false;
                continue;
            };
            if let Err(malformed) = self.verify_range_block(&part, &block, &mut last, meta) {
                is_whole = false;
                report(self.corruption(handle, malformed));
            }
        }
        if end != place.index.offset {
            let what = "the index of range deletes does not reach their end";
            report(self.corruption(place.index, Malformed(what)));
        }
        Ok(is_whole)
    }

    fn verify_range_block(
        &self,
        part: &StoredRange<'_>,
        block: &RangeBlock,
        last: &mut Option<DeletedRange>,
        meta: &mut TableMeta,
    ) -> Result<(), Malformed> {
        if block.len() == 0 {
            return Err(Malformed("a block of range deletes has no range"));
        }
        let order = &self.order;
        let mut is_in_order = true;
        for (number, range) in block.iter().enumerate() {
            let range = range?;
            is_in_order &= number > 0 || is_at(order, range.start, part.start);
            is_in_order &= number + 1 < block.len() || is_at(order, range.end, part.end);
            is_in_order &= range.start.compare(order, range.end).is_lt();
            is_in_order &=
                last.as_ref().is_none_or(|last| Gap::end(&last.bounds).compare(order, range.start).is_le());
            let range = decoded(&range, self.header.base_version)?;
            is_in_order &= range.versions.is_sorted_by(|a, b| a > b) && !range.versions.is_empty();
            range.versions.iter().for_each(|&version| meta.add_version(version));
            meta.ranges += 1;
            *last = Some(range);
        }
        if is_in_order { Ok(()) } else { Err(Malformed("range deletes are out of order")) }
    }
}

fn is_at(order: &KeyOrder, a: Gap<'_>, b: Gap<'_>) -> bool {
    a.compare(order, b) == Ordering::Equal
}
