//! Reads the records of a damaged file: skips bytes that are no record, up to the next certain
//! record.
//!
//! A record is recognised at any byte: by its frame, by a checksum that covers file and offset, and
//! by its owner's check of the payload's first bytes. The head is enough for that, so a few
//! kilobytes decide. A search takes time in proportion to the file's length, and a buffer of
//! bounded length.

use super::file::RecordFile;
use super::scan::Scan;
use super::search::MayBegin;
use crate::types::error::{Error, Result};
use std::ops::Range;

/// One step of reading the file.
#[derive(Debug)]
pub enum Salvaged {
    /// A record.
    Record { offset: u64, len: usize, payload: Vec<u8> },
    /// A record with only the beginning of its payload intact. `resumed`: more records follow.
    Damaged { offset: u64, head: Vec<u8>, resumed: bool, error: Error },
    /// Bytes that are no record. `resumed`: records follow.
    Hole { offset: u64, resumed: bool, error: Error },
}

/// Reads records one after the other, across holes.
pub struct Salvage<'a> {
    records: &'a RecordFile,
    scan: Scan<'a>,
    end: u64,
    /// A range that is known to be lost, which ends the part that is read now, and the end of the
    /// part after it.
    gap: Option<(Range<u64>, u64)>,
    may_begin: MayBegin,
}

impl<'a> Salvage<'a> {
    /// From the first record up to `end`.
    pub fn new(records: &'a RecordFile, end: u64, may_begin: MayBegin) -> Self {
        Self { records, scan: records.scan(0, end), end, gap: None, may_begin }
    }

    /// Skips `gap`, whose bytes are lost and after which there are records. It is not searched, so
    /// its length does not matter.
    pub fn across(mut self, gap: Range<u64>) -> Self {
        if !gap.is_empty() && gap.end < self.end {
            let end = std::mem::replace(&mut self.end, gap.start);
            self.scan = self.records.scan(0, self.end);
            self.gap = Some((gap, end));
        }
        self
    }

    /// Continues after the gap, if there is one; returns the place.
    fn cross(&mut self) -> Option<u64> {
        let (gap, end) = self.gap.take()?;
        self.end = end;
        Some(gap.end)
    }

    /// The next step; `None` at the end.
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
        let head = self.records.head_at(offset, self.end)?.filter(|head| head.total <= self.end - offset);
        let behind = head.as_ref().map_or(offset + 1, |head| offset + head.total);
        let found = self.records.head_after(behind, self.end, self.may_begin, |_| true)?;
        if let Some(head) = head {
            // There may be more damage directly after it.
            self.scan = self.records.scan(behind, self.end);
            let resumed = found.is_some() || self.gap.is_some();
            return Ok(Some(Salvaged::Damaged { offset, head: head.payload, resumed, error }));
        }
        let found = match found {
            None => self.cross(),
            found => found,
        };
        self.scan = self.records.scan(found.unwrap_or(self.end), self.end);
        Ok(Some(Salvaged::Hole { offset, resumed: found.is_some(), error }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::documented::example_header;
    use crate::format::header::FileKind;
    use crate::records::encode_record;
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
                Salvaged::Hole { offset, .. } | Salvaged::Damaged { offset, .. } => holes.push(offset),
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
                encode_record(&header, start as u64, (length / 9, length), &mut bytes, |out| out.extend_from_slice(&payload));
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

    /// Each byte looks like the beginning of a record as long as the file.
    #[test]
    fn a_hostile_file_costs_no_more_than_it_may() {
        let mut bytes = example_header(FileKind::Log, 3, 8, 0).encode().to_vec();
        let claimed = [0x80, 0x80, 0x40];
        bytes.extend(claimed.iter().cycle().take(2 << 20));
        let (payloads, holes) = read(&bytes);
        assert_eq!((payloads.len(), holes), (0, vec![64]));
    }
}
