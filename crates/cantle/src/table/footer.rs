//! The last bytes of a table: the places of its parts. 32 bytes, or 48 if it has range deletes.
//!
//! ```text
//!   0               8               16                   24      28      32
//!   ├───────────────┼───────────────┼────────────────────┼───────┼───────┤
//!   │ filter offset │ index offset  │ properties offset  │"TEND" │crc32c │
//!
//!   0               8               16              24             32                   40      44      48
//!   ├───────────────┼───────────────┼───────────────┼──────────────┼────────────────────┼───────┼───────┤
//!   │ filter offset │ ranges offset │ their index's │ index offset │ properties offset  │"TENR" │crc32c │
//! ```
//!
//! The parts follow one another without a gap, so their offsets give their lengths.

use super::frame::{Handle, TRAILER_BYTES};
use crate::format::codec::{Decoder, Malformed};
use crate::format::header::{FileHeader, HEADER_BYTES};
use crate::types::error::{Error, Result};
use std::path::Path;

/// The lengths of the two forms.
pub(super) const FOOTER_BYTES: u64 = 32;
pub(super) const LONG_FOOTER_BYTES: u64 = 48;
const MAGIC: [u8; 4] = *b"TEND";
const LONG_MAGIC: [u8; 4] = *b"TENR";
const CRC_BYTES: usize = size_of::<u32>();
/// Bytes at the end that say which form it is: magic number and checksum.
const FORM_BYTES: usize = MAGIC.len() + CRC_BYTES;

/// The parts of a table after its data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Footer {
    pub(super) filter: Handle,
    pub(super) ranges: Option<RangesPlace>,
    pub(super) index: Handle,
    pub(super) properties: Handle,
}

/// The place of the range deletes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RangesPlace {
    /// The offset of the first block. The last one ends at the index.
    pub(super) start: u64,
    pub(super) index: Handle,
}

/// Length of the footer of a file that ends with these bytes.
pub(super) fn footer_bytes(file_end: &[u8]) -> u64 {
    let form = file_end.len().checked_sub(FORM_BYTES).and_then(|at| file_end.get(at..at + LONG_MAGIC.len()));
    if form == Some(&LONG_MAGIC[..]) { LONG_FOOTER_BYTES } else { FOOTER_BYTES }
}

impl Footer {
    /// The footer of a table whose properties end at `offset`, where the footer begins.
    pub(super) fn encode(&self, header: &FileHeader, offset: u64) -> Vec<u8> {
        let mut out = Vec::with_capacity(LONG_FOOTER_BYTES as usize);
        let ranges = self.ranges.iter().flat_map(|ranges| [ranges.start, ranges.index.offset]);
        let offsets = [self.filter.offset].into_iter().chain(ranges);
        for part in offsets.chain([self.index.offset, self.properties.offset]) {
            out.extend_from_slice(&part.to_le_bytes());
        }
        out.extend_from_slice(if self.ranges.is_some() { &LONG_MAGIC } else { &MAGIC });
        let crc = crc32c::crc32c_append(crc32c::crc32c(&header.salt(offset)), &out);
        out.extend_from_slice(&crc.to_le_bytes());
        out
    }

    /// Decodes a footer that stands at `offset`.
    pub(super) fn decode(header: &FileHeader, path: &Path, offset: u64, bytes: &[u8]) -> Result<Self> {
        let corrupt = |what: &str| Error::corruption(path, offset, what);
        let (fields, crc) =
            bytes.split_last_chunk::<CRC_BYTES>().ok_or_else(|| corrupt("the footer is too short"))?;
        if crc32c::crc32c_append(crc32c::crc32c(&header.salt(offset)), fields).to_le_bytes() != *crc {
            return Err(corrupt("the footer's checksum does not match: the table is cut off or damaged"));
        }
        Self::decode_fields(fields, offset).map_err(|Malformed(what)| corrupt(what))
    }

    fn decode_fields(fields: &[u8], end: u64) -> Result<Self, Malformed> {
        let mut decoder = Decoder::new(fields);
        let is_long = fields.len() as u64 + CRC_BYTES as u64 == LONG_FOOTER_BYTES;
        let filter = decoder.u64()?;
        let ranges = if is_long { Some([decoder.u64()?, decoder.u64()?]) } else { None };
        let (index, properties) = (decoder.u64()?, decoder.u64()?);
        if decoder.array()? != if is_long { LONG_MAGIC } else { MAGIC } {
            return Err(Malformed("the footer's magic number is missing"));
        }
        decoder.finish()?;
        let disorder = Malformed("the footer's offsets are out of order");
        if filter < HEADER_BYTES {
            return Err(disorder);
        }
        let part = |offset: u64, next: u64| {
            let bytes = next.checked_sub(offset).and_then(|bytes| bytes.checked_sub(TRAILER_BYTES));
            Ok(Handle { offset, payload_bytes: bytes.ok_or(disorder)? })
        };
        let ranges = match ranges {
            Some([start, ranges_index]) => {
                part(start, ranges_index)?;
                Some(RangesPlace { start, index: part(ranges_index, index)? })
            }
            None => None,
        };
        Ok(Self {
            filter: part(filter, ranges.map_or(index, |ranges| ranges.start))?,
            ranges,
            index: part(index, properties)?,
            properties: part(properties, end)?,
        })
    }
}
