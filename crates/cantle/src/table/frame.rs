//! The frame around each block in a table file.
//!
//! ```text
//!   payload │ compression (u8) │ crc32c (u32)
//! ```
//!
//! The checksum covers the salt of the block's place (file, store and offset), the payload as stored, and the
//! compression byte: intact bytes in the wrong place do not pass.

use super::compression::{self, DecompressError};
use crate::format::codec::{Decoder, Malformed, put_varint};
use crate::format::header::FileHeader;
use crate::types::error::{Error, Result};
use bytes::Bytes;
use std::path::Path;

/// Length in bytes of the compression byte and the checksum.
pub(super) const TRAILER_BYTES: u64 = 5;

/// The place of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Handle {
    /// Offset from the start of the file.
    pub(super) offset: u64,
    /// Length of the payload, without the trailer.
    pub(super) payload_bytes: u64,
}

impl Handle {
    /// Appends the handle as the index stores it.
    pub(super) fn encode(self, out: &mut Vec<u8>) {
        put_varint(out, self.offset);
        put_varint(out, self.payload_bytes);
    }

    /// The handle of a block that lies, including its trailer, within `start..end` of the file.
    pub(super) fn decode(bytes: &[u8], start: u64, end: u64) -> Result<Self, Malformed> {
        let mut decoder = Decoder::new(bytes);
        let handle = Self { offset: decoder.varint()?, payload_bytes: decoder.varint()? };
        decoder.finish()?;
        handle.checked(start, end)
    }

    /// The same handle, if its block lies within `start..end`.
    pub(super) fn checked(self, start: u64, end: u64) -> Result<Self, Malformed> {
        let block_end =
            self.offset.checked_add(self.payload_bytes).and_then(|end| end.checked_add(TRAILER_BYTES));
        if self.offset < start || block_end.is_none_or(|block_end| block_end > end) {
            return Err(Malformed("a block's place is outside the file's data"));
        }
        Ok(self)
    }

    /// Bytes of the block with its trailer.
    pub(super) fn framed_bytes(self) -> u64 {
        self.payload_bytes + TRAILER_BYTES
    }

    /// Offset at which the next block begins.
    pub(super) fn end(self) -> u64 {
        self.offset + self.framed_bytes()
    }
}

/// The trailer of a payload at `offset`.
pub(super) fn trailer(header: &FileHeader, offset: u64, payload: &[u8], compression: u8) -> [u8; 5] {
    let [a, b, c, d] = checksum(header, offset, payload, compression).to_le_bytes();
    [compression, a, b, c, d]
}

fn checksum(header: &FileHeader, offset: u64, payload: &[u8], compression: u8) -> u32 {
    let crc = crc32c::crc32c(&header.salt(offset));
    crc32c::crc32c_append(crc32c::crc32c_append(crc, payload), &[compression])
}

/// Checks payload and trailer as read at `offset`. Returns the decompressed block, or `None` if the
/// payload is the block itself.
pub(super) fn unframe(header: &FileHeader, path: &Path, offset: u64, framed: &[u8]) -> Result<Option<Bytes>> {
    let corrupt = |what: &str| Error::corruption(path, offset, what);
    let (payload, trailer) = framed
        .split_last_chunk::<{ TRAILER_BYTES as usize }>()
        .ok_or_else(|| corrupt("a block is shorter than its trailer"))?;
    let [compression, crc @ ..] = *trailer;
    let is_intact = u32::from_le_bytes(crc) == checksum(header, offset, payload, compression);
    canary!(TABLE_CHECKSUM_SKIPPED => let is_intact = true);
    if !is_intact {
        return Err(corrupt("a block's checksum does not match"));
    }
    if compression == compression::RAW {
        return Ok(None);
    }
    match compression::decompress(compression, payload) {
        Ok(block) => Ok(Some(block)),
        Err(DecompressError::Malformed(Malformed(what))) => Err(corrupt(what)),
        #[cfg(not(feature = "zstd"))]
        Err(DecompressError::Missing(what)) => {
            Err(Error::InvalidArgument(format!("cannot read {}: {what}", path.display())))
        }
    }
}
