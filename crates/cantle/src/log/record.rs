//! One record: encoding, reading at a known place, and scanning.

use crate::canary::Canary;
use crate::error::{Error, Result};
use crate::format::codec::{Decoder, put_varint};
use crate::format::header::{FileHeader, HEADER_BYTES};
use crate::vfs::VfsFile;
use bytes::Bytes;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The longest payload: a value of 1 GiB, a key of 64 KiB, and room for what stands around them.
pub(super) const PAYLOAD_BYTES_MAX: u64 = (1 << 30) + (1 << 17);
/// Checksum and the longest length.
pub(super) const FRAME_BYTES_MAX: usize = 4 + 5;
/// How much a scan reads at a time.
const SCAN_BYTES: usize = 256 << 10;

/// An upper bound of the bytes that a record with this payload takes.
pub fn record_bytes_max(payload_bytes: usize) -> usize {
    FRAME_BYTES_MAX + payload_bytes
}

fn checksum(header: &FileHeader, offset: u64, framed: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&header.salt(offset)), framed)
}

/// Appends to `out` the record that will stand at `offset` of the file with `header`. `write_payload` must
/// append exactly `payload_bytes` bytes.
pub fn encode_record(
    header: &FileHeader,
    offset: u64,
    payload_bytes: usize,
    out: &mut Vec<u8>,
    write_payload: impl FnOnce(&mut Vec<u8>),
) {
    let start = out.len();
    out.reserve(record_bytes_max(payload_bytes));
    out.extend_from_slice(&[0; 4]);
    put_varint(out, payload_bytes as u64);
    let payload_start = out.len();
    write_payload(out);
    debug_assert_eq!(out.len() - payload_start, payload_bytes, "the payload's length was announced wrongly");
    let crc = checksum(header, offset, &out[start + 4..]);
    out[start..start + 4].copy_from_slice(&crc.to_le_bytes());
}

/// What stands at an offset, as far as the bytes tell.
pub(super) enum Framed {
    /// A record of `total` bytes whose payload starts `skip` bytes in.
    Record { skip: usize, total: usize },
    /// More bytes are needed: this many from the record's start.
    Short(usize),
    /// Not a record.
    Bad(&'static str),
}

pub(super) fn parse(header: &FileHeader, offset: u64, bytes: &[u8]) -> Framed {
    let mut decoder = Decoder::new(bytes);
    let Ok(crc) = decoder.u32() else { return Framed::Short(FRAME_BYTES_MAX) };
    let Ok(len) = decoder.varint() else {
        return if bytes.len() < FRAME_BYTES_MAX {
            Framed::Short(FRAME_BYTES_MAX)
        } else {
            Framed::Bad("the length does not decode")
        };
    };
    if len == 0 || len > PAYLOAD_BYTES_MAX {
        return Framed::Bad("the length is impossible");
    }
    let skip = bytes.len() - decoder.rest().len();
    let total = skip + len as usize;
    if bytes.len() < total {
        return Framed::Short(total);
    }
    if checksum(header, offset, &bytes[4..total]) != crc && !Canary::LOG_CHECKSUM_SKIPPED.is_planted() {
        return Framed::Bad("the checksum does not match");
    }
    Framed::Record { skip, total }
}

/// How many of `bytes`, which are to stand at `offset`, are whole records of the file with `header`.
pub fn valid_prefix(header: &FileHeader, offset: u64, bytes: &[u8]) -> usize {
    let mut end = 0;
    while let Framed::Record { total, .. } = parse(header, offset + end as u64, &bytes[end..]) {
        end += total;
    }
    end
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
        Framed::Short(_) => Err(Error::corruption(path, offset, "a record is cut short")),
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
        let read = self.file.read_at(&mut bytes, offset).map_err(|e| Error::io("read", &self.path, e))?;
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

    /// Whether an intact record starts anywhere in `from..end`: then what stands before it is damage and not
    /// the torn end of the file. Looks at most `LOOK_BYTES` ahead.
    pub fn valid_record_after(
        &self,
        from: u64,
        end: u64,
        mut is: impl FnMut(&[u8]) -> bool,
    ) -> Result<Option<u64>> {
        const LOOK_BYTES: u64 = 4 << 20;
        let end = end.min(from.saturating_add(LOOK_BYTES));
        let mut bytes = vec![0; end.saturating_sub(from) as usize];
        let read = self.file.read_at(&mut bytes, from).map_err(|e| Error::io("read", &self.path, e))?;
        let bytes = &bytes[..read];
        // A record's checksum is only computed where its length fits; hostile lengths could still make this
        // quadratic, so the bytes checked altogether are bounded too.
        let mut checked_bytes = 0;
        for start in std::iter::successors(next_length(bytes, 0), |start| next_length(bytes, start + 1)) {
            let offset = from + start as u64;
            let Some(Ok(len)) = bytes.get(start + 4..).map(|rest| Decoder::new(rest).varint()) else {
                continue;
            };
            if len == 0 || len > (bytes.len() - start) as u64 {
                continue;
            }
            checked_bytes += len;
            if checked_bytes > 64 * LOOK_BYTES {
                break;
            }
            if let Framed::Record { skip, total } = parse(&self.header, offset, &bytes[start..])
                && is(&bytes[start + skip..start + total])
            {
                return Ok(Some(offset));
            }
        }
        Ok(None)
    }
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
                Framed::Short(_) | Framed::Record { .. } => {
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
                .map_err(|e| Error::io("read", &self.records.path, e))?;
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

    #[test]
    fn a_record_is_found_behind_any_number_of_zeros() {
        for zeros in (0..40).chain([4096, 100_003]) {
            let header = example_header(FileKind::Log, 3, 8, 0);
            let mut bytes = header.encode().to_vec();
            let torn = bytes.len() as u64;
            bytes.resize(bytes.len() + zeros, 0);
            let start = bytes.len() as u64;
            encode_record(&header, start, 5, &mut bytes, |out| out.extend_from_slice(b"found"));
            bytes.resize(bytes.len() + 1000, 0);
            let path = Path::new("records");
            let file = MemVfs::new().open(path, OpenMode::CreateNew).unwrap();
            file.write_at(&bytes, 0).unwrap();
            let records = RecordFile { file, path: path.into(), header };
            let end = bytes.len() as u64;
            assert_eq!(
                records.valid_record_after(torn, end, |_| true).unwrap(),
                Some(start),
                "{zeros} zeros"
            );
            assert_eq!(records.valid_record_after(start + 1, end, |_| true).unwrap(), None, "{zeros} zeros");
        }
    }
}
