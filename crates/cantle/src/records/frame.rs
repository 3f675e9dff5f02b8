//! The frame of one record: encoding and parsing.

use crate::format::codec::{Decoder, put_varint, varint_bytes};
use crate::format::header::FileHeader;
use crate::format::limits::RECORD_BYTES_MAX;

/// The longest head, in bytes.
pub const HEAD_BYTES_MAX: usize = 4096;
/// Minimum length of a body. A payload with such a body is divided into head and body, each with a
/// checksum of its own. For a shorter one, the six additional bytes would be over 2 % of the
/// record.
pub(super) const BODY_BYTES_MIN: usize = 256;
/// Maximum length of a frame: checksum and length; for a divided record also the head's length and
/// the body's checksum.
pub(super) const FRAME_BYTES_MAX: usize = 4 + 5 + 2 + 4;
/// An upper bound of the bytes that a record with this payload takes.
pub fn record_bytes_max(payload_bytes: usize) -> usize {
    FRAME_BYTES_MAX + payload_bytes
}

/// Bytes of a record whose payload has this head and length.
pub const fn record_bytes(head_bytes: usize, payload_bytes: usize) -> usize {
    let is_divided = payload_bytes - head_bytes >= BODY_BYTES_MIN;
    let body = if is_divided { varint_bytes(head_bytes as u64) + 4 } else { 0 };
    4 + varint_bytes((payload_bytes as u64) << 1) + body + payload_bytes
}

fn checksum(header: &FileHeader, offset: u64, framed: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&header.salt(offset)), framed)
}

/// Appends to `out` the record that will stand at `offset` of the file with `header`.
/// `write_payload` must append exactly `payload_bytes` bytes. The first `head_bytes` of them
/// identify the record: if the rest is long, damage after the head leaves the head readable. The
/// payload must not exceed `RECORD_BYTES_MAX`, the head `HEAD_BYTES_MAX`.
pub fn encode_record(
    header: &FileHeader,
    offset: u64,
    (head_bytes, payload_bytes): (usize, usize),
    out: &mut Vec<u8>,
    write_payload: impl FnOnce(&mut Vec<u8>),
) {
    debug_assert!(
        payload_bytes as u64 <= RECORD_BYTES_MAX && head_bytes <= HEAD_BYTES_MAX.min(payload_bytes)
    );
    let start = out.len();
    out.reserve(record_bytes_max(payload_bytes));
    out.extend_from_slice(&[0; 4]);
    let divided = payload_bytes - head_bytes >= BODY_BYTES_MIN;
    put_varint(out, (payload_bytes as u64) << 1 | u64::from(divided));
    let mut body_crc_at = out.len();
    if divided {
        put_varint(out, head_bytes as u64);
        body_crc_at = out.len();
        out.extend_from_slice(&[0; 4]);
    }
    let payload_start = out.len();
    write_payload(out);
    debug_assert_eq!(out.len() - payload_start, payload_bytes, "the payload's length was announced wrongly");
    let mut head_end = out.len();
    if divided {
        head_end = payload_start + head_bytes;
        let crc = crc32c::crc32c(&out[head_end..]);
        out[body_crc_at..body_crc_at + 4].copy_from_slice(&crc.to_le_bytes());
    }
    let crc = checksum(header, offset, &out[start + 4..head_end]);
    out[start..start + 4].copy_from_slice(&crc.to_le_bytes());
}

/// Result of parsing the bytes at an offset.
pub(super) enum Framed {
    /// A record of `total` bytes whose payload starts `skip` bytes in.
    Record { skip: usize, total: usize },
    /// The frame and the first `head` bytes of the payload are intact. The body is damaged or,
    /// unless `complete`, cut off.
    Head { skip: usize, head: usize, total: usize, complete: bool },
    /// More bytes are needed: this number from the record's start.
    Short(usize),
    /// Not a record.
    Bad(&'static str),
}

impl Framed {
    /// The intact part of the payload, and the length of the record.
    pub fn head<'a>(&self, bytes: &'a [u8]) -> Option<(&'a [u8], usize)> {
        match *self {
            Self::Record { skip, total } => Some((&bytes[skip..total], total)),
            Self::Head { skip, head, total, .. } => Some((&bytes[skip..skip + head], total)),
            Self::Short(_) | Self::Bad(_) => None,
        }
    }
}

/// The frame of a record.
pub(super) struct Frame {
    pub crc: u32,
    /// The head's length and the body's checksum, for a divided record.
    pub divided: Option<(usize, u32)>,
    pub skip: usize,
    pub payload_bytes: usize,
}

impl Frame {
    pub fn decode(bytes: &[u8]) -> std::result::Result<Self, Framed> {
        // Too few bytes, or a varint that does not end.
        let short = |what| match bytes.len() < FRAME_BYTES_MAX {
            true => Framed::Short(FRAME_BYTES_MAX),
            false => Framed::Bad(what),
        };
        let mut decoder = Decoder::new(bytes);
        let crc = decoder.u32().map_err(|_| short(""))?;
        let length = decoder.varint().map_err(|_| short("the length does not decode"))?;
        let payload_bytes = length >> 1;
        if payload_bytes == 0 || payload_bytes > RECORD_BYTES_MAX {
            return Err(Framed::Bad("the length is impossible"));
        }
        // At most `RECORD_BYTES_MAX`, which fits in 32 bits.
        let payload_bytes = payload_bytes as usize;
        let mut divided = None;
        if length & 1 == 0 {
            if payload_bytes >= HEAD_BYTES_MAX + BODY_BYTES_MIN {
                return Err(Framed::Bad("the length is impossible"));
            }
        } else {
            let head = decoder.length().map_err(|_| short("the head's length does not decode"))?;
            if head > HEAD_BYTES_MAX || payload_bytes < head + BODY_BYTES_MIN {
                return Err(Framed::Bad("the head's length is impossible"));
            }
            divided = Some((head, decoder.u32().map_err(|_| short(""))?));
        }
        Ok(Self { crc, divided, skip: bytes.len() - decoder.rest().len(), payload_bytes })
    }
}

pub(super) fn parse(header: &FileHeader, offset: u64, bytes: &[u8]) -> Framed {
    let Frame { crc, divided, skip, payload_bytes } = match Frame::decode(bytes) {
        Ok(frame) => frame,
        Err(framed) => return framed,
    };
    let total = skip + payload_bytes;
    let head = divided.map_or(payload_bytes, |(head, _)| head);
    if bytes.len() < skip + head {
        return Framed::Short(skip + head);
    }
    let is_right = |found: u32, expected: u32| {
        canary!(LOG_CHECKSUM_SKIPPED => return true);
        found == expected
    };
    if !is_right(checksum(header, offset, &bytes[4..skip + head]), crc) {
        return Framed::Bad("the checksum does not match");
    }
    let Some((head, body_crc)) = divided else { return Framed::Record { skip, total } };
    let Some(body) = bytes.get(skip + head..total) else {
        return Framed::Head { skip, head, total, complete: false };
    };
    if is_right(crc32c::crc32c(body), body_crc) {
        Framed::Record { skip, total }
    } else {
        Framed::Head { skip, head, total, complete: true }
    }
}
