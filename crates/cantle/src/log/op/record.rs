//! The records of a chunk's log: operations, and after every part of the log its index.
//!
//! ```text
//!   payload of an operation:  tag (1) │ version − base (varint) │ [batch (varint)] │ ordinal (varint) │ digest (3)
//!                             │ key length (varint) │ key │ value
//!   payload of a block:       tag (1) │ the bytes of an index block or of a filter
//!   payload of a revoke:      tag (1) │ ordinal (varint) │ digest (3) │ offset (varint) │ bytes (varint) │ crc32c (4)
//! ```
//!
//! An operation's *counter*, which orders it among those of its version (EvenDB §3.3), is its place
//! in the log. Appends to a log are serialised, so positions are monotonic, and the counter needs
//! no bytes of its own.
//!
//! The head of an operation's record (`log`) is everything before the value. If a head is damaged,
//! the *link* of the next operation says how many operations are lost. If it is one, a digest in
//! the link identifies its key: no other key is harmed.

use crate::format::codec::{Decoder, Malformed, NUMBER_MAX, put_varint, within};
use crate::records::HEAD_BYTES_MAX;
use crate::types::entry::Kind;

/// The low bits of the tag are the kind.
const KIND_MASK: u8 = 0x0f;
/// More operations of the same write follow in this log. The write counts only if its last one is
/// there.
const MORE: u8 = 0x40;
/// The operation counts only if its spanning batch was committed. The number of the batch follows
/// the version.
const CONDITIONAL: u8 = 0x80;
/// Bytes of a digest in a link.
const DIGEST_BYTES: usize = 3;
/// Tags of records that are no operations.
const BLOCK: u8 = 0x08;
const PART_END: u8 = 0x09;
const REVOKE: u8 = 0x0a;

/// Maximum bytes of an operation beside its key and its value: the tag, five numbers and a digest.
pub const OP_BYTES_MAX: usize = 1 + 5 * 10 + DIGEST_BYTES;

/// An operation as it stands in a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogOp<'a> {
    pub kind: Kind,
    pub version: u64,
    /// The spanning batch, or 0.
    pub batch: u64,
    pub more: bool,
    pub link: Link,
    pub key: &'a [u8],
    pub value: &'a [u8],
}

/// The part of an operation that describes the operations before it in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Link {
    /// Number of operations before it.
    pub ordinal: u64,
    /// The digest of the last of them, 0 if there is none.
    pub digest: u32,
}

/// The digest of a range delete, which may concern any key.
const RANGE_DIGEST: u32 = 0xff_ffff;

/// The digest of a key, in three bytes.
pub fn key_digest(key: &[u8]) -> u32 {
    (crc32c::crc32c(key) & 0xff_ffff).min(RANGE_DIGEST - 1)
}

impl Link {
    /// The link of the next operation, if this link's operation is of this kind on this key.
    pub fn next(self, kind: Kind, key: &[u8]) -> Self {
        let digest = if kind == Kind::DeleteRange { RANGE_DIGEST } else { key_digest(key) };
        Self { ordinal: self.ordinal.saturating_add(1), digest }
    }

    /// The link of the next operation, if this link's is a revoke, which may concern any key.
    pub fn behind_revoke(self) -> Self {
        Self { ordinal: self.ordinal.saturating_add(1), digest: RANGE_DIGEST }
    }

    fn encode(self, out: &mut Vec<u8>) {
        put_varint(out, self.ordinal);
        out.extend_from_slice(&self.digest.to_le_bytes()[..DIGEST_BYTES]);
    }

    fn decode(decoder: &mut Decoder<'_>) -> Result<Self, Malformed> {
        let ordinal = decoder.size()?;
        let [low, middle, high] = decoder.array::<DIGEST_BYTES>()?;
        Ok(Self { ordinal, digest: u32::from_le_bytes([low, middle, high, 0]) })
    }

    /// The digest of the key of the previous operation; `None` for a range delete.
    pub fn previous_key(self) -> Option<u32> {
        (self.digest != RANGE_DIGEST).then_some(self.digest)
    }
}

/// Marks a write that does not count. It failed after other writes had been appended after it, so
/// it could not be truncated. A log with one writer at a time has none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Revoke {
    /// The revoke counts as one of the log's operations: if it is damaged, the next one's link
    /// shows that something is lost.
    pub link: Link,
    /// Place of the write's operations, which are adjacent and before this record.
    pub offset: u64,
    pub bytes: u64,
    /// The checksum of the first operation's payload: no other write is void.
    pub check: u32,
}

impl Revoke {
    /// True if the operation at this offset is part of the write.
    pub fn covers(&self, offset: u64) -> bool {
        offset >= self.offset && offset - self.offset < self.bytes
    }

    /// True if the operation at this offset, with this payload, belongs to another write than the
    /// revoked one.
    pub fn contradicts(&self, offset: u64, payload: &[u8]) -> bool {
        offset == self.offset && crc32c::crc32c(payload) != self.check
    }
}

/// The content of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogRecord<'a> {
    Op(LogOp<'a>),
    /// An index block or a filter; found through the part's end.
    Block(&'a [u8]),
    /// The end of an indexed part.
    PartEnd(&'a [u8]),
    /// The mark of a void write before it.
    Revoke(Revoke),
}

/// True if a record of a log may begin with these bytes: the `MayBegin` of logs.
pub fn may_begin(beginning: &[u8], bytes: u64) -> bool {
    let Some((&tag, rest)) = beginning.split_first() else { return false };
    if tag == BLOCK || tag == PART_END || tag == REVOKE {
        return true;
    }
    // The head may be cut off before the key.
    let least = || -> Result<u64, Malformed> {
        let mut decoder = Decoder::new(rest);
        decoder.varint()?;
        if tag & CONDITIONAL != 0 {
            decoder.varint()?;
        }
        decoder.varint()?;
        decoder.take(DIGEST_BYTES)?;
        let key_bytes = decoder.varint()?;
        Ok(key_bytes.saturating_add((beginning.len() - decoder.rest().len()) as u64))
    };
    let unknown = !(KIND_MASK | MORE | CONDITIONAL);
    tag & unknown == 0
        && Kind::from_u8(tag & KIND_MASK).is_some()
        && least().is_ok_and(|least| least <= bytes)
}

fn varint_bytes(value: u64) -> usize {
    (64 - (value | 1).leading_zeros() as usize).div_ceil(7)
}

impl LogOp<'_> {
    /// Lengths of the head and of the whole payload. A key that is too long for a head is not part
    /// of it.
    pub fn payload_bytes(&self, base_version: u64) -> (usize, usize) {
        let batch = if self.batch == 0 { 0 } else { varint_bytes(self.batch) };
        let before = 1
            + varint_bytes(self.version.saturating_sub(base_version))
            + batch
            + varint_bytes(self.link.ordinal)
            + DIGEST_BYTES
            + varint_bytes(self.key.len() as u64);
        let head = before + self.key.len();
        (if head <= HEAD_BYTES_MAX { head } else { before }, head + self.value.len())
    }

    pub fn encode(&self, base_version: u64, out: &mut Vec<u8>) {
        let conditional = if self.batch == 0 { 0 } else { CONDITIONAL };
        let more = if self.more { MORE } else { 0 };
        out.push(self.kind as u8 | conditional | more);
        put_varint(out, self.version.saturating_sub(base_version));
        if self.batch != 0 {
            put_varint(out, self.batch);
        }
        self.link.encode(out);
        put_varint(out, self.key.len() as u64);
        out.extend_from_slice(self.key);
        out.extend_from_slice(self.value);
    }
}

impl<'a> LogRecord<'a> {
    /// Decodes a payload, or the head of an operation: then the value is not complete.
    pub fn decode(payload: &'a [u8], base_version: u64) -> Result<Self, Malformed> {
        let mut decoder = Decoder::new(payload);
        let tag = decoder.u8()?;
        match tag {
            BLOCK => return Ok(Self::Block(decoder.rest())),
            PART_END => return Ok(Self::PartEnd(decoder.rest())),
            REVOKE => {
                let link = Link::decode(&mut decoder)?;
                let (offset, bytes) = (decoder.size()?, decoder.size()?);
                let check = u32::from_le_bytes(decoder.array()?);
                decoder.finish()?;
                return Ok(Self::Revoke(Revoke { link, offset, bytes, check }));
            }
            _ => {}
        }
        let kind = Kind::from_u8(tag & KIND_MASK).ok_or(Malformed("is of an unknown kind"))?;
        let version = base_version.saturating_add(decoder.number()?);
        let version = within(version, NUMBER_MAX)?;
        let batch = if tag & CONDITIONAL == 0 { 0 } else { decoder.number()? };
        let link = Link::decode(&mut decoder)?;
        let key = decoder.bytes()?;
        Ok(Self::Op(LogOp { kind, version, batch, more: tag & MORE != 0, link, key, value: decoder.rest() }))
    }

    /// The payload of a block.
    pub fn encode_block(block: &[u8], out: &mut Vec<u8>) {
        out.push(BLOCK);
        out.extend_from_slice(block);
    }

    /// The payload of a revoke.
    pub fn encode_revoke(revoke: Revoke, out: &mut Vec<u8>) {
        out.push(REVOKE);
        revoke.link.encode(out);
        put_varint(out, revoke.offset);
        put_varint(out, revoke.bytes);
        out.extend_from_slice(&revoke.check.to_le_bytes());
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
        for (batch, more, version) in [(0, false, 100), (7, true, 100_000), (NUMBER_MAX, true, NUMBER_MAX)] {
            let link = Link { ordinal: batch.min(1 << 44), digest: 0xab_cdef };
            let op = LogOp { kind: Kind::Put, version, batch, more, link, key: b"key", value: b"value" };
            let mut out = Vec::new();
            op.encode(100, &mut out);
            assert_eq!((out.len() - 5, out.len()), op.payload_bytes(100));
            assert!(may_begin(&out, out.len() as u64));
            let LogRecord::Op(head) = LogRecord::decode(&out[..out.len() - 5], 100).unwrap() else {
                panic!()
            };
            assert_eq!(head, LogOp { value: b"", ..op });
            assert_eq!(LogRecord::decode(&out, 100), Ok(LogRecord::Op(op)));
        }
        let link = Link { ordinal: 1 << 30, digest: 0x12_3456 };
        let revoke = Revoke { link, offset: 1 << 40, bytes: 300, check: crc32c::crc32c(b"payload") };
        assert!(revoke.covers(1 << 40) && revoke.covers((1 << 40) + 299));
        assert!(!revoke.covers((1 << 40) + 300) && !revoke.covers((1 << 40) - 1));
        assert!(revoke.contradicts(1 << 40, b"other") && !revoke.contradicts(1 << 40, b"payload"));
        let mut out = Vec::new();
        LogRecord::encode_revoke(revoke, &mut out);
        assert!(may_begin(&out, out.len() as u64));
        assert_eq!(LogRecord::decode(&out, 7), Ok(LogRecord::Revoke(revoke)));
        for len in 0..out.len() {
            assert!(LogRecord::decode(&out[..len], 7).is_err(), "{len}");
        }
        out.push(0);
        assert!(LogRecord::decode(&out, 7).is_err());
        assert!(LogRecord::decode(&[0x0f], 0).is_err());
        assert!(LogRecord::decode(&[], 0).is_err());
    }
}
