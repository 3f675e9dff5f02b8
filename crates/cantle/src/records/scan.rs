//! Reading records one after the other.

use super::file::{BODY_DAMAGED, RecordFile};
use super::frame::{FRAME_BYTES_MAX, Framed, parse};
use crate::types::error::{Attempt, Error, Result};
use std::path::Path;

/// The bytes that a scan reads at a time.
pub(super) const SCAN_BYTES: usize = 256 << 10;

/// A record that a scan found.
#[derive(Debug, Clone, Copy)]
pub struct Scanned<'a> {
    pub offset: u64,
    /// Bytes of the whole record; the next one starts after them.
    pub len: usize,
    pub payload: &'a [u8],
}

/// Reads records one after the other.
pub struct Scan<'a> {
    pub(super) records: &'a RecordFile,
    pub(super) offset: u64,
    pub(super) end: u64,
    pub(super) buffer: Vec<u8>,
    pub(super) buffer_offset: u64,
    pub(super) skip: usize,
}

impl Scan<'_> {
    /// The place at which the next record would start.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// The next record, or `None` at the end. Bytes that are no record are a `Corruption`: the
    /// caller decides if that is damage or the torn end of an append.
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
            // Grown by the bytes that the file has, not by a length that a record claims, and by no
            // more than is parsed.
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
