//! Blocks of range deletes: ranges that do not overlap, in order, each with numbers.
//!
//! ```text
//!   ├──────┼───────┼─ … ─┼───────┼───────────────────────┼───────────┤
//!   │ magic│ range │     │ range │ u32 offset of each    │ u32 count │
//! ```
//!
//! The blocks of range deletes have the magic `RDEL`, and the numbers of a range are its versions. One
//! more block, the index of the others, has the magic `RDIX`: a range for each of them, from the
//! start of its first range to the end of its last one, whose numbers are the block's place.

use crate::format::bounds::encode_bounds;
use crate::format::codec::{Decoder, Malformed, put_varint};
use crate::types::bounds::Bounds;
use crate::types::gap::Gap;
use crate::types::order::KeyOrder;
use bytes::Bytes;
use std::ops::Bound;

/// Everything in a range was deleted, at each of these versions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DeletedRange {
    pub(crate) bounds: Bounds,
    /// Newest first; at least one.
    pub(crate) versions: Vec<u64>,
}

/// The two kinds of blocks, by their magic numbers.
pub(super) const DELETES: [u8; 4] = *b"RDEL";
pub(super) const INDEX: [u8; 4] = *b"RDIX";

/// Makes one block.
pub(super) struct RangesBuilder {
    bytes: Vec<u8>,
    offsets: Vec<u32>,
}

impl RangesBuilder {
    pub(super) fn new(magic: [u8; 4]) -> Self {
        Self { bytes: magic.to_vec(), offsets: Vec::new() }
    }

    /// Adds a range behind those before.
    pub(super) fn add(&mut self, bounds: &Bounds, numbers: &[u64]) {
        self.offsets.push(self.bytes.len() as u32);
        self.bytes.extend_from_slice(&encode_bounds(bounds));
        put_varint(&mut self.bytes, numbers.len() as u64);
        numbers.iter().for_each(|&number| put_varint(&mut self.bytes, number));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.offsets.is_empty()
    }

    pub(super) fn size_bytes(&self) -> usize {
        self.bytes.len() + (self.offsets.len() + 1) * size_of::<u32>()
    }

    pub(super) fn finish(mut self) -> Vec<u8> {
        let count = self.offsets.len() as u32;
        for number in self.offsets.into_iter().chain([count]) {
            self.bytes.extend_from_slice(&number.to_le_bytes());
        }
        self.bytes
    }
}

/// A block as it is read.
pub(super) struct RangeBlock {
    bytes: Bytes,
    /// The place in the bytes at which the offsets begin.
    offsets: usize,
    count: usize,
}

/// A range of a block.
pub(super) struct StoredRange<'a> {
    pub(super) start: Gap<'a>,
    pub(super) end: Gap<'a>,
    numbers: Decoder<'a>,
}

impl RangeBlock {
    pub(super) fn parse(bytes: Bytes, magic: [u8; 4]) -> Result<Self, Malformed> {
        if bytes.get(..magic.len()) != Some(&magic[..]) {
            return Err(Malformed("a block of range deletes begins with another magic number"));
        }
        let too_short = Malformed("a block of range deletes is too short for its ranges");
        let (before, count) = bytes.split_last_chunk().ok_or(too_short)?;
        let count = u32::from_le_bytes(*count) as usize;
        let offsets = count.checked_mul(size_of::<u32>()).and_then(|bytes| before.len().checked_sub(bytes));
        let offsets = offsets.filter(|&at| at >= magic.len()).ok_or(too_short)?;
        Ok(Self { bytes, offsets, count })
    }

    pub(super) fn len(&self) -> usize {
        self.count
    }

    /// The range with this number.
    pub(super) fn get(&self, number: usize) -> Result<StoredRange<'_>, Malformed> {
        let outside = Malformed("a range is outside of its block");
        let at = self.offsets + number * size_of::<u32>();
        let offset = self.bytes.get(at..).and_then(<[u8]>::first_chunk).ok_or(outside)?;
        let ranges = self.bytes.get(u32::from_le_bytes(*offset) as usize..self.offsets).ok_or(outside)?;
        let mut decoder = Decoder::new(ranges);
        let mut bound = || {
            Ok(match decoder.u8()? {
                0 => Bound::Unbounded,
                1 => Bound::Included(decoder.bytes()?),
                2 => Bound::Excluded(decoder.bytes()?),
                _ => return Err(Malformed("a range has an unknown bound")),
            })
        };
        let start = match bound()? {
            Bound::Unbounded => Gap::First,
            Bound::Included(key) => Gap::Before(key),
            Bound::Excluded(key) => Gap::Behind(key),
        };
        let end = match bound()? {
            Bound::Unbounded => Gap::Last,
            Bound::Included(key) => Gap::Behind(key),
            Bound::Excluded(key) => Gap::Before(key),
        };
        Ok(StoredRange { start, end, numbers: decoder })
    }

    /// All ranges.
    pub(super) fn iter(&self) -> impl Iterator<Item = Result<StoredRange<'_>, Malformed>> {
        (0..self.count).map(|number| self.get(number))
    }

    /// The range that has the key.
    pub(super) fn find(&self, order: &KeyOrder, key: &[u8]) -> Result<Option<StoredRange<'_>>, Malformed> {
        let Some(last) = self.upto(order, key)?.checked_sub(1) else { return Ok(None) };
        let found = self.get(last)?;
        Ok((!found.end.is_before(order, key)).then_some(found))
    }

    /// Number of ranges that start before the key or at it.
    pub(super) fn upto(&self, order: &KeyOrder, key: &[u8]) -> Result<usize, Malformed> {
        let (mut low, mut high) = (0, self.count);
        while low < high {
            let middle = low + (high - low) / 2;
            match self.get(middle)?.start.is_before(order, key) {
                true => low = middle + 1,
                false => high = middle,
            }
        }
        Ok(low)
    }
}

impl StoredRange<'_> {
    /// The numbers, one by one.
    pub(super) fn numbers(&self) -> impl Iterator<Item = Result<u64, Malformed>> {
        let mut decoder = self.numbers;
        let count = decoder.length();
        let (count, failed) = match count {
            Ok(count) => (count, None),
            Err(error) => (0, Some(Err(error))),
        };
        let mut left = count;
        let numbers = std::iter::from_fn(move || {
            left = left.checked_sub(1)?;
            let number = decoder.number();
            // Nothing can be read after an error.
            left = if number.is_ok() { left } else { 0 };
            Some(number)
        });
        failed.into_iter().chain(numbers)
    }

    pub(super) fn bounds(&self) -> Bounds {
        Gap::between(self.start, self.end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bounds(from: u8, to: u8) -> Bounds {
        Bounds { start: Bound::Included(vec![from]), end: Bound::Excluded(vec![to]) }
    }

    #[test]
    fn a_key_is_found_in_its_range_only() {
        let mut builder = RangesBuilder::new(DELETES);
        let ranges = [
            Bounds { start: Bound::Unbounded, end: Bound::Included(vec![3]) },
            Bounds { start: Bound::Excluded(vec![3]), end: Bound::Excluded(vec![5]) },
            bounds(7, 9),
            Bounds { start: Bound::Excluded(vec![11]), end: Bound::Unbounded },
        ];
        ranges.iter().zip(1u64..).for_each(|(bounds, number)| builder.add(bounds, &[number + 10, number]));
        let block = RangeBlock::parse(builder.finish().into(), DELETES).unwrap();
        let found = |key: u8| {
            let found = block.find(&KeyOrder::Bytewise, &[key]).unwrap()?;
            Some(found.numbers().map(Result::unwrap).collect::<Vec<_>>()[1])
        };
        let expected =
            [1, 1, 1, 1, 2, 0, 0, 3, 3, 0, 0, 0, 4, 4].map(|number| Some(number).filter(|&n| n > 0));
        assert_eq!((0..14).map(found).collect::<Vec<_>>(), expected);
        let all: Vec<Bounds> = block.iter().map(|range| range.unwrap().bounds()).collect();
        assert_eq!(all, ranges);
    }

    /// The example of `docs/format/table.md`.
    #[test]
    fn the_documented_block_is_what_is_written() {
        let bounds = Bounds { start: Bound::Included(b"b".to_vec()), end: Bound::Excluded(b"d".to_vec()) };
        let mut builder = RangesBuilder::new(DELETES);
        builder.add(&bounds, &[7]);
        let bytes = builder.finish();
        let page = include_str!("../../docs/format/table.md");
        let rows = page.split("For example, the range from `b`").nth(1).unwrap().lines();
        let cells = rows.filter_map(|row| row.strip_prefix("| `")?.split(" | ").next());
        let hex = cells.take(4).collect::<String>().replace(['`', ' '], "");
        let written: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, written);
    }

    proptest! {
        #[test]
        fn hostile_bytes_are_an_error_or_ranges(mut bytes in prop::collection::vec(any::<u8>(), 0..80), count in 0..4u8) {
            let last = bytes.len();
            if last >= 8 {
                bytes[..4].copy_from_slice(&DELETES);
                bytes[last - 4..].copy_from_slice(&[count, 0, 0, 0]);
            }
            if let Ok(block) = RangeBlock::parse(bytes.into(), DELETES) {
                for range in block.iter().flatten() {
                    let _ = (range.bounds(), range.numbers().count());
                }
                let _ = block.find(&KeyOrder::Bytewise, b"k");
            }
        }
    }
}
