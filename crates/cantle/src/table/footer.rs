//! The last 32 bytes of a table: the places of its parts.
//!
//! ```text
//!   0               8               16                   24      28      32
//!   ├───────────────┼───────────────┼────────────────────┼───────┼───────┤
//!   │ filter offset │ index offset  │ properties offset  │"TEND" │crc32c │
//! ```
//!
//! The parts follow one another without a gap, so their offsets give their lengths.

use super::frame::{Handle, TRAILER_BYTES};
use crate::format::codec::{Decoder, Malformed};
use crate::format::header::{FileHeader, HEADER_BYTES};
use crate::types::error::{Error, Result};
use std::path::Path;

pub(super) const FOOTER_BYTES: u64 = 32;
const MAGIC: [u8; 4] = *b"TEND";
const CHECKED_BYTES: usize = FOOTER_BYTES as usize - size_of::<u32>();

/// The parts of a table after its data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Footer {
    pub(super) filter: Handle,
    pub(super) index: Handle,
    pub(super) properties: Handle,
}

impl Footer {
    /// The footer of a table whose properties end at `offset`, where the footer begins.
    pub(super) fn encode(&self, header: &FileHeader, offset: u64) -> Vec<u8> {
        let mut out = Vec::with_capacity(FOOTER_BYTES as usize);
        for part in [self.filter, self.index, self.properties] {
            out.extend_from_slice(&part.offset.to_le_bytes());
        }
        out.extend_from_slice(&MAGIC);
        let crc = crc32c::crc32c_append(crc32c::crc32c(&header.salt(offset)), &out);
        out.extend_from_slice(&crc.to_le_bytes());
        out
    }

    /// Decodes a footer that stands at `offset`.
    pub(super) fn decode(header: &FileHeader, path: &Path, offset: u64, bytes: &[u8]) -> Result<Self> {
        let corrupt = |what: &str| Error::corruption(path, offset, what);
        let (fields, crc) =
            bytes.split_at_checked(CHECKED_BYTES).ok_or_else(|| corrupt("the footer is too short"))?;
        if crc32c::crc32c_append(crc32c::crc32c(&header.salt(offset)), fields).to_le_bytes() != *crc {
            return Err(corrupt("the footer's checksum does not match: the table is cut off or damaged"));
        }
        Self::decode_fields(fields, offset).map_err(|Malformed(what)| corrupt(what))
    }

    fn decode_fields(fields: &[u8], end: u64) -> Result<Self, Malformed> {
        let mut decoder = Decoder::new(fields);
        let starts = [HEADER_BYTES, decoder.u64()?, decoder.u64()?, decoder.u64()?, end];
        if decoder.array()? != MAGIC {
            return Err(Malformed("the footer's magic number is missing"));
        }
        if starts[1] < starts[0] {
            return Err(Malformed("the footer's offsets are out of order"));
        }
        let part = |index: usize| {
            let payload_bytes = starts[index + 1]
                .checked_sub(starts[index])
                .and_then(|bytes| bytes.checked_sub(TRAILER_BYTES))
                .ok_or(Malformed("the footer's offsets are out of order"))?;
            Ok(Handle { offset: starts[index], payload_bytes })
        };
        Ok(Self { filter: part(1)?, index: part(2)?, properties: part(3)? })
    }
}
