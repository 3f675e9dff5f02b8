//! Reads the records of a damaged file: behind what is no record, on with the next one that certainly is.
//!
//! A record is recognised by its frame, by a checksum that covers file and offset, and by what its owner says of its
//! payload, at whatever byte it begins. To look for one takes time that is bounded in the file's length, and memory
//! that is bounded by what the file has.

use super::record::{FRAME_BYTES_MAX, Framed, PAYLOAD_BYTES_MAX, RecordFile, Scan, parse};
use crate::error::{Error, Result};
use crate::format::codec::Decoder;
use std::ops::Range;

/// So much of a payload's beginning is shown to whoever says whether it may be one.
const PEEK_BYTES: usize = 32;
const WINDOW_BYTES: usize = 1 << 20;
/// Bytes of which checksums are computed in vain, at most: so much, and so many times what the file has.
const CHECKED_BYTES_MIN: u64 = 256 << 20;
const CHECKED_FACTOR: u64 = 64;

/// Whether a payload of this many bytes may begin so. Called with the first bytes only.
pub type MayBegin = fn(&[u8], u64) -> bool;

/// What stands in the file.
#[derive(Debug)]
pub enum Salvaged {
    /// A record.
    Record { offset: u64, len: usize, payload: Vec<u8> },
    /// Bytes that are no record; whether one follows.
    Hole { offset: u64, resumed: bool, error: Error },
}

/// Reads records one after the other, across holes.
pub struct Salvage<'a> {
    records: &'a RecordFile,
    scan: Scan<'a>,
    end: u64,
    /// A stretch that is known to be lost, where this part ends, and where the part behind it does.
    gap: Option<(Range<u64>, u64)>,
    may_begin: MayBegin,
    checks_left: u64,
    window: Vec<u8>,
    window_offset: u64,
}

impl<'a> Salvage<'a> {
    /// From the first record up to `end`.
    pub fn new(records: &'a RecordFile, end: u64, may_begin: MayBegin) -> Self {
        Self {
            records,
            scan: records.scan(0, end),
            end,
            gap: None,
            may_begin,
            checks_left: end.saturating_mul(CHECKED_FACTOR).saturating_add(CHECKED_BYTES_MIN),
            window: Vec::new(),
            window_offset: 0,
        }
    }

    /// Of the bytes in `gap`, which records stand behind, nothing is left: nobody looks there, however long it is.
    pub fn across(mut self, gap: Range<u64>) -> Self {
        if !gap.is_empty() && gap.end < self.end {
            let there = self.end - (gap.end - gap.start);
            self.checks_left = there.saturating_mul(CHECKED_FACTOR).saturating_add(CHECKED_BYTES_MIN);
            let end = std::mem::replace(&mut self.end, gap.start);
            self.scan = self.records.scan(0, self.end);
            self.gap = Some((gap, end));
        }
        self
    }

    /// Goes on behind the gap, if there is one; says where.
    fn cross(&mut self) -> Option<u64> {
        let (gap, end) = self.gap.take()?;
        self.end = end;
        Some(gap.end)
    }

    /// What stands next; `None` at the end.
    pub fn next(&mut self) -> Result<Option<Salvaged>> {
        let offset = self.scan.offset();
        let error = match self.scan.next() {
            Ok(None) => {
                let Some(behind) = self.cross() else { return Ok(None) };
                self.scan = self.records.scan(behind, self.end);
                let what = format!("{} bytes are gone", behind - offset);
                let error = Error::corruption(&self.records.path, offset, what);
                return Ok(Some(Salvaged::Hole { offset, resumed: true, error }));
            }
            Ok(Some(record)) => {
                let (len, payload) = (record.len, record.payload.to_vec());
                return Ok(Some(Salvaged::Record { offset, len, payload }));
            }
            Err(error) if error.is_corruption() => error,
            Err(error) => return Err(error),
        };
        let found = match self.find(offset + 1)? {
            None => self.cross(),
            found => found,
        };
        let end = found.unwrap_or(self.end);
        self.scan = self.records.scan(end, self.end);
        Ok(Some(Salvaged::Hole { offset, resumed: found.is_some(), error }))
    }

    /// The first record that begins at `from` or behind it.
    fn find(&mut self, from: u64) -> Result<Option<u64>> {
        let mut offset = from;
        while offset < self.end {
            let (left, may_begin) = (self.end - offset, self.may_begin);
            let window = self.window_at(offset, FRAME_BYTES_MAX + PEEK_BYTES)?;
            if window.is_empty() {
                break;
            }
            let starts = window.len().saturating_sub(FRAME_BYTES_MAX + PEEK_BYTES).max(1);
            let mut candidate = None;
            for start in 0..starts {
                if let Some(total) = candidate_bytes(&window[start..], left, may_begin) {
                    candidate = Some((start as u64, total));
                    break;
                }
            }
            let Some((start, total)) = candidate else {
                offset += starts as u64;
                continue;
            };
            offset += start;
            if total > self.checks_left {
                return Ok(None);
            }
            self.checks_left -= total;
            if offset + total <= self.end && self.is_record(offset, total)? {
                return Ok(Some(offset));
            }
            offset += 1;
        }
        Ok(None)
    }

    fn is_record(&mut self, offset: u64, total: u64) -> Result<bool> {
        let header = self.records.header;
        let Ok(total) = usize::try_from(total) else { return Ok(false) };
        let is = |bytes: &[u8]| matches!(parse(&header, offset, bytes), Framed::Record { total: found, .. } if found == total);
        if total <= WINDOW_BYTES / 4 {
            return self.window_at(offset, total).map(is);
        }
        // Not longer than the file, as was checked.
        let mut bytes = vec![0; total];
        let read = self.records.file.read_at(&mut bytes, offset);
        let read = read.map_err(|e| Error::io("read", &self.records.path, e))?;
        Ok(is(&bytes[..read]))
    }

    /// The bytes from `offset` on: `wanted` at least, unless the file ends before.
    fn window_at(&mut self, offset: u64, wanted: usize) -> Result<&[u8]> {
        let window_end = self.window_offset + self.window.len() as u64;
        if offset < self.window_offset || offset + wanted as u64 > window_end {
            self.window.resize(WINDOW_BYTES.min((self.end - offset) as usize), 0);
            let read = self.records.file.read_at(&mut self.window, offset);
            let read = read.map_err(|e| Error::io("read", &self.records.path, e))?;
            self.window.truncate(read);
            self.window_offset = offset;
        }
        Ok(&self.window[(offset - self.window_offset) as usize..])
    }
}

/// The length of the record that may begin with these bytes.
fn candidate_bytes(bytes: &[u8], left: u64, may_begin: MayBegin) -> Option<u64> {
    let mut decoder = Decoder::new(bytes.get(4..bytes.len().min(FRAME_BYTES_MAX + PEEK_BYTES))?);
    let payload_bytes = decoder.varint().ok()?;
    let skip = bytes.len().min(FRAME_BYTES_MAX + PEEK_BYTES) - decoder.rest().len();
    let total = payload_bytes.checked_add(skip as u64)?;
    let beginning = decoder.rest();
    let beginning = &beginning[..beginning.len().min(usize::try_from(payload_bytes).unwrap_or(usize::MAX))];
    let possible = (1..=PAYLOAD_BYTES_MAX).contains(&payload_bytes) && total <= left;
    (possible && may_begin(beginning, payload_bytes)).then_some(total)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::documented::example_header;
    use crate::format::header::FileKind;
    use crate::log::encode_record;
    use crate::vfs::{MemVfs, OpenMode, Vfs};
    use proptest::prelude::*;
    use std::path::Path;

    fn file(bytes: &[u8]) -> RecordFile {
        let path = Path::new("records");
        let file = MemVfs::new().open(path, OpenMode::CreateNew).unwrap();
        file.write_at(bytes, 0).unwrap();
        RecordFile { file, path: path.into(), header: example_header(FileKind::Log, 3, 8, 0) }
    }

    fn read(bytes: &[u8]) -> (Vec<Vec<u8>>, Vec<u64>) {
        let records = file(bytes);
        let mut salvage = Salvage::new(&records, bytes.len() as u64, |_, _| true);
        let (mut payloads, mut holes) = (Vec::new(), Vec::new());
        while let Some(found) = salvage.next().unwrap() {
            match found {
                Salvaged::Record { payload, .. } => payloads.push(payload),
                Salvaged::Hole { offset, .. } => holes.push(offset),
            }
        }
        (payloads, holes)
    }

    proptest! {
        #[test]
        fn every_record_that_is_intact_is_found(
            lengths in proptest::collection::vec(1usize..3000, 1..30),
            damage in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 1usize..600), 1..4),
        ) {
            let header = example_header(FileKind::Log, 3, 8, 0);
            let mut bytes = header.encode().to_vec();
            let mut places = Vec::new();
            for (n, &length) in lengths.iter().enumerate() {
                let start = bytes.len();
                let payload: Vec<u8> = (0..length).map(|at| (at * 7 + n) as u8).collect();
                encode_record(&header, start as u64, length, &mut bytes, |out| out.extend_from_slice(&payload));
                places.push((start..bytes.len(), payload));
            }
            let sound = bytes.clone();
            for (at, value, len) in damage {
                let at = 64 + at.index(bytes.len() - 64);
                let end = (at + len).min(bytes.len());
                bytes[at..end].fill(value);
            }
            let intact: Vec<Vec<u8>> = places
                .iter()
                .filter(|(place, _)| bytes[place.clone()] == sound[place.clone()])
                .map(|(_, payload)| payload.clone())
                .collect();
            let (payloads, holes) = read(&bytes);
            prop_assert_eq!(payloads, intact);
            prop_assert_eq!(holes.is_empty(), bytes == sound);
        }
    }

    /// Each byte claims to begin a record as long as the file.
    #[test]
    fn a_hostile_file_costs_no_more_than_it_may() {
        let mut bytes = example_header(FileKind::Log, 3, 8, 0).encode().to_vec();
        let claimed = [0x80, 0x80, 0x40];
        bytes.extend(claimed.iter().cycle().take(2 << 20));
        let (payloads, holes) = read(&bytes);
        assert_eq!((payloads.len(), holes), (0, vec![64]));
    }
}
