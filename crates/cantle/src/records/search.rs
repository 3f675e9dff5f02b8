//! Looking for records in bytes that may be damaged, torn or never written.

use super::frame::{BODY_BYTES_MIN, FRAME_BYTES_MAX, Frame, Framed, HEAD_BYTES_MAX, parse};
use crate::format::header::FileHeader;

/// Maximum bytes of a frame and of the payload that its first checksum covers. This many bytes
/// decide if a record begins somewhere.
pub(super) const HEADED_BYTES_MAX: usize = FRAME_BYTES_MAX + HEAD_BYTES_MAX + BODY_BYTES_MIN;

/// True if a payload of this length may begin with these bytes. Called with the first bytes of the
/// payload, perhaps none.
pub type MayBegin = fn(&[u8], u64) -> bool;

/// The bytes of the payload that are available.
fn beginning<'a>(bytes: &'a [u8], frame: &Frame) -> &'a [u8] {
    let payload = bytes.get(frame.skip..).unwrap_or_default();
    &payload[..payload.len().min(frame.payload_bytes)]
}

/// The first place in `bytes`, from `start` on and before `limit`, with the head of a record.
/// `bytes` stand at `offset` in the file.
pub(super) fn find_head(
    header: &FileHeader,
    offset: u64,
    bytes: &[u8],
    (start, limit): (usize, usize),
    may_begin: MayBegin,
) -> Option<(usize, Framed)> {
    let mut next = next_length(bytes, start);
    while let Some(at) = next.filter(|at| *at < limit) {
        let here = &bytes[at..];
        if let Ok(frame) = Frame::decode(here)
            && may_begin(beginning(here, &frame), frame.payload_bytes as u64)
        {
            let framed = parse(header, offset + at as u64, here);
            if matches!(framed, Framed::Record { .. } | Framed::Head { .. }) {
                return Some((at, framed));
            }
        }
        next = next_length(bytes, at + 1);
    }
    None
}

/// The length of `bytes` up to the end of their last whole record, and the place of their first
/// damage: `None` if all are whole records. `bytes` stand at `offset` in the file.
pub fn valid_extent(
    header: &FileHeader,
    offset: u64,
    bytes: &[u8],
    may_begin: MayBegin,
) -> (usize, Option<usize>) {
    let (mut at, mut end, mut damage) = (0, 0, None);
    while at < bytes.len() {
        match parse(header, offset + at as u64, &bytes[at..]) {
            Framed::Record { total, .. } => {
                at += total;
                end = at;
            }
            framed => {
                damage.get_or_insert(at);
                let behind = match framed {
                    Framed::Head { total, complete: true, .. } => at + total,
                    _ => at + 1,
                };
                let found = find_head(header, offset, bytes, (behind, bytes.len()), may_begin);
                let Some((found, _)) = found else { break };
                at = found;
            }
        }
    }
    (end, damage)
}

/// The next place, at `start` or after it, at which a record may begin. No record has a length of
/// 0, so this skips zeros: most of a file that was allocated ahead.
fn next_length(bytes: &[u8], start: usize) -> Option<usize> {
    const CRC_BYTES: usize = 4;
    // A small multiple of the bytes that processors compare at once.
    const LINE_BYTES: usize = 64;
    let lengths = bytes.get(start + CRC_BYTES..)?;
    let is_zero = |line: &&[u8]| line.iter().fold(0, |all, byte| all | byte) == 0;
    let zero_lines = lengths.chunks_exact(LINE_BYTES).take_while(is_zero).count();
    let zeros = lengths[zero_lines * LINE_BYTES..].iter().take_while(|&&byte| byte == 0).count();
    let skipped = zero_lines * LINE_BYTES + zeros;
    (skipped < lengths.len()).then_some(start + skipped)
}
