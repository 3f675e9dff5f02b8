//! What a chunk's log is made of: operations, and behind every part of the log its index.
//!
//! ```text
//!   payload of an operation:  tag (1) │ version − base (varint) │ [batch (varint)] │ key length (varint) │ key │ value
//!   payload of a block:       tag (1) │ the bytes of an index block or of a filter
//! ```
//!
//! An operation's *counter*, which orders it among those of its version (EvenDB §3.3), is its place in the log:
//! appends to a log are serialised, so positions are the monotonic counter, and need no bytes of their own.

use crate::entry::Kind;
use crate::format::codec::{Decoder, Malformed, put_varint};

/// The low bits of the tag are the kind.
const KIND_MASK: u8 = 0x0f;
/// More operations of the same write follow in this log; without the last of them none counts.
const MORE: u8 = 0x40;
/// The operation counts only if its spanning batch was committed; its number follows the version.
const CONDITIONAL: u8 = 0x80;
/// Tags of what is no operation.
const BLOCK: u8 = 0x08;
const PART_END: u8 = 0x09;

/// An operation as it stands in a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogOp<'a> {
    pub kind: Kind,
    pub version: u64,
    /// The spanning batch, or 0.
    pub batch: u64,
    pub more: bool,
    pub key: &'a [u8],
    pub value: &'a [u8],
}

/// What a record holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogRecord<'a> {
    Op(LogOp<'a>),
    /// An index block or a filter; found through the part's end.
    Block(&'a [u8]),
    /// The end of an indexed part.
    PartEnd(&'a [u8]),
}

fn varint_bytes(value: u64) -> usize {
    (64 - (value | 1).leading_zeros() as usize).div_ceil(7)
}

impl LogOp<'_> {
    /// Length of the payload.
    pub fn payload_bytes(&self, base_version: u64) -> usize {
        let batch = if self.batch == 0 { 0 } else { varint_bytes(self.batch) };
        1 + varint_bytes(self.version - base_version)
            + batch
            + varint_bytes(self.key.len() as u64)
            + self.key.len()
            + self.value.len()
    }

    pub fn encode(&self, base_version: u64, out: &mut Vec<u8>) {
        let conditional = if self.batch == 0 { 0 } else { CONDITIONAL };
        let more = if self.more { MORE } else { 0 };
        out.push(self.kind as u8 | conditional | more);
        put_varint(out, self.version - base_version);
        if self.batch != 0 {
            put_varint(out, self.batch);
        }
        put_varint(out, self.key.len() as u64);
        out.extend_from_slice(self.key);
        out.extend_from_slice(self.value);
    }
}

impl<'a> LogRecord<'a> {
    pub fn decode(payload: &'a [u8], base_version: u64) -> Result<Self, Malformed> {
        let mut decoder = Decoder::new(payload);
        let tag = decoder.u8()?;
        match tag {
            BLOCK => return Ok(Self::Block(decoder.rest())),
            PART_END => return Ok(Self::PartEnd(decoder.rest())),
            _ => {}
        }
        let kind = Kind::from_u8(tag & KIND_MASK).ok_or(Malformed("is of an unknown kind"))?;
        let version =
            base_version.checked_add(decoder.varint()?).ok_or(Malformed("has an impossible version"))?;
        let batch = if tag & CONDITIONAL == 0 { 0 } else { decoder.varint()? };
        let key = decoder.bytes()?;
        Ok(Self::Op(LogOp { kind, version, batch, more: tag & MORE != 0, key, value: decoder.rest() }))
    }

    /// The payload of a block.
    pub fn encode_block(block: &[u8], out: &mut Vec<u8>) {
        out.push(BLOCK);
        out.extend_from_slice(block);
    }

    /// The payload of a part's end.
    pub fn encode_part_end(end: &[u8], out: &mut Vec<u8>) {
        out.push(PART_END);
        out.extend_from_slice(end);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_round_trip_at_their_announced_length() {
        for (batch, more, version) in [(0, false, 100), (7, true, 100_000), (u64::MAX, true, u64::MAX)] {
            let op = LogOp { kind: Kind::Put, version, batch, more, key: b"key", value: b"value" };
            let mut out = Vec::new();
            op.encode(100, &mut out);
            assert_eq!(out.len(), op.payload_bytes(100));
            assert_eq!(LogRecord::decode(&out, 100), Ok(LogRecord::Op(op)));
        }
        assert!(LogRecord::decode(&[0x0f], 0).is_err());
        assert!(LogRecord::decode(&[], 0).is_err());
    }
}
