//! One record: encoding, reading at a known place, and scanning.

use crate::format::codec::{Decoder, put_varint, varint_bytes};
use crate::format::header::{FileHeader, HEADER_BYTES};
use crate::format::limits::RECORD_BYTES_MAX;
use crate::types::error::{Attempt, Error, Result};
use crate::vfs::VfsFile;
use bytes::Bytes;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The longest head, in bytes.
pub const HEAD_BYTES_MAX: usize = 4096;
/// A payload is divided into head and body, each with a checksum of its own, where the body is at least this long: below, six
/// bytes more would be over 2 % of the record.
const BODY_BYTES_MIN: usize = 256;
/// Checksum, length, and of a divided record the head's length and the body's checksum.
const FRAME_BYTES_MAX: usize = 4 + 5 + 2 + 4;
/// A record's frame, and what the first checksum covers behind it: so many bytes decide whether a record begins somewhere.
const HEADED_BYTES_MAX: usize = FRAME_BYTES_MAX + HEAD_BYTES_MAX + BODY_BYTES_MIN;
/// How much a scan reads at a time.
const SCAN_BYTES: usize = 256 << 10;

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

/// Whether a payload of this many bytes may begin so. Called with some of its first bytes, or none.
pub type MayBegin = fn(&[u8], u64) -> bool;

/// Appends to `out` the record that will stand at `offset` of the file with `header`. `write_payload` must
/// append exactly `payload_bytes` bytes, of which the first `head_bytes` tell whose record it is: damage behind them leaves
/// them readable, if the rest is long. The payload must not exceed `RECORD_BYTES_MAX`, the head `HEAD_BYTES_MAX`.
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

/// What stands at an offset, as far as the bytes tell.
enum Framed {
    /// A record of `total` bytes whose payload starts `skip` bytes in.
    Record { skip: usize, total: usize },
    /// The frame and the first `head` bytes of the payload are those of a record. The body is damaged, or, unless `complete`, not
    /// all there.
    Head { skip: usize, head: usize, total: usize, complete: bool },
    /// More bytes are needed: this many from the record's start.
    Short(usize),
    /// Not a record.
    Bad(&'static str),
}

impl Framed {
    /// What is intact of the payload, and how long the record is.
    fn head<'a>(&self, bytes: &'a [u8]) -> Option<(&'a [u8], usize)> {
        match *self {
            Self::Record { skip, total } => Some((&bytes[skip..total], total)),
            Self::Head { skip, head, total, .. } => Some((&bytes[skip..skip + head], total)),
            Self::Short(_) | Self::Bad(_) => None,
        }
    }
}

/// The frame of a record.
struct Frame {
    crc: u32,
    /// The head's length and the body's checksum, if it is divided.
    divided: Option<(usize, u32)>,
    skip: usize,
    payload_bytes: usize,
}

impl Frame {
    fn decode(bytes: &[u8]) -> std::result::Result<Self, Framed> {
        // Bytes that are missing, or numbers that do not end.
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
        // No more than fits in 32 bits.
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

fn parse(header: &FileHeader, offset: u64, bytes: &[u8]) -> Framed {
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

const BODY_DAMAGED: &str = "a record is damaged: the checksum of its body does not match";

/// What is there of the payload.
fn beginning<'a>(bytes: &'a [u8], frame: &Frame) -> &'a [u8] {
    let payload = bytes.get(frame.skip..).unwrap_or_default();
    &payload[..payload.len().min(frame.payload_bytes)]
}

/// Where in `bytes`, which stand at `offset`, from `start` on and before `limit` the head of a record begins.
fn find_head(
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

/// How many of `bytes`, which are to stand at `offset`, reach to the end of their last whole record; and where the first
/// damage in them begins, of which there is none if all are whole records.
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

/// Checks the record of `len` bytes that stands at `offset` and cuts out its payload.
pub fn record_payload(
    header: &FileHeader,
    path: &Path,
    offset: u64,
    bytes: Bytes,
    len: usize,
) -> Result<Bytes> {
    match parse(header, offset, &bytes) {
        Framed::Record { skip, total } if total == len => Ok(bytes.slice(skip..total)),
        Framed::Record { .. } => {
            Err(Error::corruption(path, offset, "a record has another length than its index says"))
        }
        Framed::Head { complete: true, .. } => Err(Error::corruption(path, offset, BODY_DAMAGED)),
        Framed::Short(_) | Framed::Head { .. } => {
            Err(Error::corruption(path, offset, "a record is cut short"))
        }
        Framed::Bad(what) => Err(Error::corruption(path, offset, format!("a record is damaged: {what}"))),
    }
}

/// A file of records, open for reading.
#[derive(Clone, Debug)]
pub struct RecordFile {
    pub file: Arc<dyn VfsFile>,
    pub path: PathBuf,
    pub header: FileHeader,
}

impl RecordFile {
    /// The payload of the record of `len` bytes at `offset`, which is known to be there.
    pub fn read(&self, offset: u64, len: usize) -> Result<Bytes> {
        let mut bytes = vec![0; len];
        let read =
            self.file.read_at(&mut bytes, offset).map_err(|e| Error::io(Attempt::Read, &self.path, e))?;
        record_payload(&self.header, &self.path, offset, Bytes::from(bytes).slice(..read), len)
    }

    /// Scans records from `from` up to `end`.
    pub fn scan(&self, from: u64, end: u64) -> Scan<'_> {
        Scan {
            records: self,
            offset: from.max(HEADER_BYTES),
            end,
            buffer: Vec::new(),
            buffer_offset: 0,
            skip: 0,
        }
    }

    /// What is intact of the record at `offset`, if that is its head or more.
    pub fn head_at(&self, offset: u64, end: u64) -> Result<Option<Head>> {
        let mut bytes = vec![
            0;
            usize::try_from(end.saturating_sub(offset))
                .map_or(HEADED_BYTES_MAX, |left| left.min(HEADED_BYTES_MAX))
        ];
        let read =
            self.file.read_at(&mut bytes, offset).map_err(|e| Error::io(Attempt::Read, &self.path, e))?;
        let framed = parse(&self.header, offset, &bytes[..read]);
        Ok(framed.head(&bytes).map(|(head, total)| Head { payload: head.to_vec(), total: total as u64 }))
    }

    /// The first place in `from..end` at which the head of a record stands that `is` accepts: proof that records were
    /// written there, so that what stands before it is damage and not the torn end of the file. Reads the file in steps, however
    /// far that is; `is` is shown the head, or all of a short payload.
    pub fn head_after(
        &self,
        from: u64,
        end: u64,
        may_begin: MayBegin,
        mut is: impl FnMut(&[u8]) -> bool,
    ) -> Result<Option<u64>> {
        canary!(LOOK_AHEAD_SHORT => let end = end.min(from.saturating_add(64 << 10)));
        let (mut at, mut bytes) = (from.max(HEADER_BYTES), Vec::new());
        while at < end {
            let wanted = (SCAN_BYTES + HEADED_BYTES_MAX).min(usize::try_from(end - at).unwrap_or(usize::MAX));
            bytes.resize(wanted, 0);
            let read =
                self.file.read_at(&mut bytes, at).map_err(|e| Error::io(Attempt::Read, &self.path, e))?;
            bytes.truncate(read);
            let is_last = read < wanted || at + read as u64 == end;
            let limit = if is_last { read } else { SCAN_BYTES };
            let mut start = 0;
            while let Some((found, framed)) = find_head(&self.header, at, &bytes, (start, limit), may_begin) {
                if framed.head(&bytes[found..]).is_some_and(|(head, _)| is(head)) {
                    return Ok(Some(at + found as u64));
                }
                start = found + 1;
            }
            if is_last {
                break;
            }
            at += SCAN_BYTES as u64;
        }
        Ok(None)
    }
}

/// What is intact of a record.
pub struct Head {
    /// The first bytes of the payload, or all of it.
    pub payload: Vec<u8>,
    /// Bytes of the whole record, which may go beyond the end of the file.
    pub total: u64,
}

/// Where a record may begin at `start` or behind: no record has a length of zero, and zeros are what most of a file that was
/// allocated ahead has.
fn next_length(bytes: &[u8], start: usize) -> Option<usize> {
    const CRC_BYTES: usize = 4;
    // As many as processors compare at once, a few times.
    const LINE_BYTES: usize = 64;
    let lengths = bytes.get(start + CRC_BYTES..)?;
    let is_zero = |line: &&[u8]| line.iter().fold(0, |all, byte| all | byte) == 0;
    let zero_lines = lengths.chunks_exact(LINE_BYTES).take_while(is_zero).count();
    let zeros = lengths[zero_lines * LINE_BYTES..].iter().take_while(|&&byte| byte == 0).count();
    let skipped = zero_lines * LINE_BYTES + zeros;
    (skipped < lengths.len()).then_some(start + skipped)
}

/// A record that a scan found.
#[derive(Debug, Clone, Copy)]
pub struct Scanned<'a> {
    pub offset: u64,
    /// Bytes of the whole record; the next one starts behind them.
    pub len: usize,
    pub payload: &'a [u8],
}

/// Reads records one after the other.
pub struct Scan<'a> {
    records: &'a RecordFile,
    offset: u64,
    end: u64,
    buffer: Vec<u8>,
    buffer_offset: u64,
    skip: usize,
}

impl Scan<'_> {
    /// Where the next record would start.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// The next record, or `None` at the end. Bytes that are no record are a `Corruption`: whether that is
    /// damage or the torn end of what was being written, the caller knows.
    pub fn next(&mut self) -> Result<Option<Scanned<'_>>> {
        let path: &Path = &self.records.path;
        let mut wanted = FRAME_BYTES_MAX;
        loop {
            if self.offset >= self.end {
                return Ok(None);
            }
            let left = self.end - self.offset;
            let have = self.available();
            let complete = have as u64 >= left || have >= wanted;
            if !complete {
                if self.fill(wanted.min(usize::try_from(left).unwrap_or(usize::MAX)))? {
                    continue;
                }
                // The file ends before `end`.
                if self.available() == 0 {
                    return Ok(None);
                }
            }
            let at = self.skip;
            match parse(&self.records.header, self.offset, &self.buffer[at..]) {
                Framed::Record { skip, total } if total as u64 <= left => {
                    let offset = self.offset;
                    self.offset += total as u64;
                    self.skip += total;
                    return Ok(Some(Scanned {
                        offset,
                        len: total,
                        payload: &self.buffer[at + skip..at + total],
                    }));
                }
                Framed::Short(needed) if complete && needed as u64 <= left => wanted = needed,
                Framed::Head { total, complete: false, .. } if complete && total as u64 <= left => {
                    wanted = total;
                }
                Framed::Head { total, complete: true, .. } if total as u64 <= left => {
                    return Err(Error::corruption(path, self.offset, BODY_DAMAGED));
                }
                Framed::Short(_) | Framed::Head { .. } | Framed::Record { .. } => {
                    return Err(Error::corruption(path, self.offset, "a record is cut short"));
                }
                Framed::Bad(what) => {
                    return Err(Error::corruption(path, self.offset, format!("a record is damaged: {what}")));
                }
            }
        }
    }

    fn available(&self) -> usize {
        self.buffer.len() - self.skip
    }

    /// Reads on until `wanted` bytes are there; false if the file ends first.
    fn fill(&mut self, wanted: usize) -> Result<bool> {
        self.buffer.drain(..self.skip);
        self.buffer_offset = self.offset;
        self.skip = 0;
        while self.buffer.len() < wanted {
            // Grown by what the file has, not by what a length claims, and by no more than is looked at.
            let have = self.buffer.len();
            let left = self.end.saturating_sub(self.buffer_offset + have as u64);
            self.buffer.resize(have + SCAN_BYTES.min(usize::try_from(left).unwrap_or(SCAN_BYTES)), 0);
            let read = self
                .records
                .file
                .read_at(&mut self.buffer[have..], self.buffer_offset + have as u64)
                .map_err(|e| Error::io(Attempt::Read, &self.records.path, e))?;
            self.buffer.truncate(have + read);
            if read == 0 {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::documented::example_header;
    use crate::format::header::FileKind;
    use crate::vfs::{MemVfs, OpenMode, Vfs};

    fn any(_: &[u8], _: u64) -> bool {
        true
    }

    fn header() -> FileHeader {
        example_header(FileKind::Log, 3, 8, 0)
    }

    fn file(bytes: &[u8]) -> RecordFile {
        let path = Path::new("records");
        let file = MemVfs::new().open(path, OpenMode::CreateNew).unwrap();
        file.write_at(bytes, 0).unwrap();
        RecordFile { file, path: path.into(), header: header() }
    }

    fn append(bytes: &mut Vec<u8>, head: usize, payload: &[u8]) -> u64 {
        let offset = bytes.len() as u64;
        encode_record(&header(), offset, (head, payload.len()), bytes, |out| out.extend_from_slice(payload));
        offset
    }

    #[test]
    fn a_record_is_found_behind_any_number_of_zeros() {
        for zeros in (0..40).chain([4096, 100_003, 6 << 20]) {
            let mut bytes = header().encode().to_vec();
            let torn = bytes.len() as u64;
            bytes.resize(bytes.len() + zeros, 0);
            let start = append(&mut bytes, 0, b"found");
            bytes.resize(bytes.len() + 1000, 0);
            let (records, end) = (file(&bytes), bytes.len() as u64);
            assert_eq!(records.head_after(torn, end, any, |_| true).unwrap(), Some(start), "{zeros} zeros");
            assert_eq!(records.head_after(start + 1, end, any, |_| true).unwrap(), None, "{zeros} zeros");
        }
    }

    /// Chance makes lengths of random bytes, at each of which a record might begin: none is gone through in vain.
    #[test]
    fn a_record_is_found_behind_any_number_of_random_bytes() {
        let mut random = crate::sync::random::Rng::new(7);
        for noise in [100, 9_999, 5 << 20] {
            let mut bytes = header().encode().to_vec();
            let torn = bytes.len() as u64;
            bytes.extend((0..noise).map(|_| random.below(256) as u8));
            let start = append(&mut bytes, 2, &[5; 3000]);
            let records = file(&bytes);
            let end = bytes.len() as u64;
            assert_eq!(records.head_after(torn, end, any, |_| true).unwrap(), Some(start), "{noise} bytes");
            // Its body may be damaged as well, or cut off.
            bytes.truncate(bytes.len() - 1);
            let records = file(&bytes);
            assert_eq!(
                records.head_after(torn, end - 1, any, |_| true).unwrap(),
                Some(start),
                "{noise} bytes"
            );
        }
    }

    /// Of each byte of a record: what is damaged behind the head leaves the head, whatever is damaged is noticed.
    #[test]
    fn damage_behind_the_head_leaves_the_head() {
        for (head, len) in [(0, 1), (10, 265), (10, 266), (0, 256), (4096, 4351), (4096, 4352), (1, 9000)] {
            let payload: Vec<u8> = (0..len).map(|at| (at * 7) as u8).collect();
            let mut bytes = header().encode().to_vec();
            let start = append(&mut bytes, head, &payload);
            let end = bytes.len() as u64;
            assert_eq!(file(&bytes).scan(0, end).next().unwrap().unwrap().payload, payload);
            let body_start = bytes.len() - (len - head);
            for at in (start as usize..bytes.len()).step_by(1 + len / 300) {
                bytes[at] ^= 0x10;
                let records = file(&bytes);
                assert!(records.scan(0, end).next().unwrap_err().is_corruption());
                let found = records.head_at(start, end).unwrap();
                if len - head >= BODY_BYTES_MIN && at >= body_start {
                    let found = found.unwrap();
                    assert_eq!((&found.payload[..], start + found.total), (&payload[..head], end));
                } else {
                    assert!(found.is_none(), "byte {at} of a record of {len} bytes");
                }
                bytes[at] ^= 0x10;
            }
        }
    }

    #[test]
    fn the_longest_record_is_none_to_few() {
        let bytes = |payload_bytes: u64| {
            let mut bytes = vec![0; 4];
            put_varint(&mut bytes, payload_bytes << 1 | 1);
            bytes.resize(40, 0);
            bytes
        };
        let is_possible = |payload_bytes| Frame::decode(&bytes(payload_bytes)).is_ok();
        assert!(
            is_possible(RECORD_BYTES_MAX)
                && !is_possible(RECORD_BYTES_MAX + 1)
                && !is_possible(u64::MAX >> 1)
        );
    }

    #[test]
    fn what_is_damaged_within_is_no_end() {
        let mut bytes = header().encode().to_vec();
        let places: Vec<u64> = (0..5).map(|n| append(&mut bytes, 1, &[n; 300])).collect();
        let body = &bytes[64..];
        assert_eq!(valid_extent(&header(), 64, body, any), (body.len(), None));
        for (at, damaged) in
            [(places[1] + 5, 1), (places[1] + 200, 1), (places[4] + 5, 4), (places[4] + 200, 4)]
        {
            let mut bytes = bytes.clone();
            bytes[at as usize] ^= 1;
            let end = if damaged == 4 { places[4] } else { bytes.len() as u64 };
            let found = valid_extent(&header(), 64, &bytes[64..], any);
            assert_eq!(found, ((end - 64) as usize, Some((places[damaged] - 64) as usize)));
        }
    }
}
