//! LevelDB's log format, of write-ahead logs and of the manifest: records in blocks of 32 KiB.
//!
//! ```text
//!   block      record record … [fewer than 7 bytes: zeros]
//!   record     checksum (4) │ length (2) │ kind (1) │ bytes
//!   kinds      1 full · 2 first · 3 middle · 4 last part of a record that spans blocks · 0 nothing: the rest of the block was never written
//! ```
//!
//! The checksum is of kind and bytes. A record that ends behind the file's end was being written
//! when its writer died: the end is *torn*, which is no damage. Behind a wrong checksum the rest of
//! the block cannot be trusted, not even lengths.

use super::coding::masked_crc;
use super::file::SourceFile;
use super::reading::Reading;
use crate::error::{Damage, Result};

pub(crate) const BLOCK_BYTES: usize = 32 << 10;
pub(crate) const HEADER_BYTES: usize = 7;

const NOTHING: u8 = 0;
const FULL: u8 = 1;
const FIRST: u8 = 2;
const MIDDLE: u8 = 3;
const LAST: u8 = 4;

/// A whole record.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Record {
    /// Offset of its first part in the file.
    pub offset: u64,
    pub bytes: Vec<u8>,
}

/// The part at the reader's place.
enum Part {
    /// Bytes of the block, from and to.
    Whole {
        kind: u8,
        offset: u64,
        bytes: std::ops::Range<usize>,
    },
    /// The rest of the block holds nothing that can be read.
    Gap(Option<Damage>),
    End,
}

/// Reads a log from its beginning.
#[derive(Debug)]
pub(crate) struct LogReader {
    file: SourceFile,
    block: Vec<u8>,
    block_offset: u64,
    /// In the block.
    at: usize,
    last_block: bool,
    /// A record whose other parts are to come.
    begun: Option<Record>,
    /// Offset of a record that was not written to its end.
    torn: Option<u64>,
}

/// The result of one part of a log.
pub(crate) enum Step {
    Record(Record),
    /// No whole record yet, and perhaps never one.
    More,
    End,
}

impl LogReader {
    pub fn new(file: SourceFile) -> Self {
        Self { file, block: Vec::new(), block_offset: 0, at: 0, last_block: false, begun: None, torn: None }
    }

    /// After the last record: where one begins that was not written to its end, if there is one.
    pub fn torn(&self) -> Option<u64> {
        self.torn
    }

    pub fn damage(&self, offset: u64, what: impl Into<String>) -> Damage {
        Damage::new(&self.file.path, offset, what)
    }

    /// Reads one part of a record, or what is in the place of one. A log may be as long as its file
    /// system takes, and have nothing in it: so whoever calls this is never away for more than a
    /// block.
    pub fn step(&mut self, reading: &mut Reading) -> Result<Step> {
        match self.part(reading)? {
            Part::Whole { kind, offset, bytes } => {
                let bytes = &self.block[bytes];
                match (kind, &mut self.begun) {
                    (MIDDLE, Some(record)) => record.bytes.extend_from_slice(bytes),
                    (LAST, Some(record)) => {
                        record.bytes.extend_from_slice(bytes);
                        return Ok(self.begun.take().map_or(Step::More, Step::Record));
                    }
                    (FULL | FIRST, begun) => {
                        let record = Record { offset, bytes: bytes.to_vec() };
                        if let Some(cut) = begun.take() {
                            let what = "a record begins before the one at this place has ended";
                            reading.damage(self.damage(cut.offset, what))?;
                        }
                        if kind == FULL {
                            return Ok(Step::Record(record));
                        }
                        self.begun = Some(record);
                    }
                    (MIDDLE | LAST, None) => {
                        reading.damage(self.damage(offset, "a part of a record has no beginning"))?;
                    }
                    _ => {
                        self.begun = None;
                        reading.damage(self.damage(offset, format!("there is no record of kind {kind}")))?;
                    }
                }
            }
            Part::Gap(damage) => {
                let begun = self.begun.take();
                if let Some(damage) = damage {
                    reading.damage(damage)?;
                } else if let Some(record) = begun {
                    let what = "a record's other parts were never written, yet something follows";
                    reading.damage(self.damage(record.offset, what))?;
                }
            }
            Part::End => {
                if let Some(record) = self.begun.take() {
                    self.torn = Some(record.offset);
                }
                return Ok(Step::End);
            }
        }
        Ok(Step::More)
    }

    /// The next whole record.
    #[cfg(test)]
    pub fn next(&mut self, reading: &mut Reading) -> Result<Option<Record>> {
        loop {
            match self.step(reading)? {
                Step::Record(record) => return Ok(Some(record)),
                Step::More => {}
                Step::End => return Ok(None),
            }
        }
    }

    fn part(&mut self, reading: &mut Reading) -> Result<Part> {
        while self.block.len() - self.at < HEADER_BYTES {
            if self.last_block {
                if self.at < self.block.len() {
                    self.torn = Some(self.block_offset + self.at as u64);
                }
                return Ok(Part::End);
            }
            self.read_block(reading)?;
        }
        let header = &self.block[self.at..self.at + HEADER_BYTES];
        let checksum = u32::from_le_bytes([header[0], header[1], header[2], header[3]]);
        let length = usize::from(u16::from_le_bytes([header[4], header[5]]));
        let kind = header[6];
        let offset = self.block_offset + self.at as u64;
        let start = self.at + HEADER_BYTES;
        let end = start + length;
        if end > self.block.len() {
            self.at = self.block.len();
            if self.last_block {
                self.torn = Some(offset);
                return Ok(Part::End);
            }
            let what = format!("a record of {length} bytes would go on behind its block");
            return Ok(Part::Gap(Some(self.damage(offset, what))));
        }
        if kind == NOTHING && length == 0 {
            self.at = self.block.len();
            return Ok(Part::Gap(None));
        }
        if masked_crc(&self.block[start - 1..end]) != checksum {
            self.at = self.block.len();
            return Ok(Part::Gap(Some(self.damage(offset, "a record's checksum is wrong"))));
        }
        self.at = end;
        Ok(Part::Whole { kind, offset, bytes: start..end })
    }

    fn read_block(&mut self, reading: &mut Reading) -> Result<()> {
        self.block_offset += self.block.len() as u64;
        self.block.resize(BLOCK_BYTES, 0);
        let read = self.file.read_at(&mut self.block, self.block_offset)?;
        self.block.truncate(read);
        self.at = 0;
        self.last_block = read < BLOCK_BYTES;
        reading.bytes += read as u64;
        Ok(())
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::error::Error;
    use proptest::prelude::*;

    /// The bytes of a log of these records.
    pub(crate) fn write_log(records: &[Vec<u8>]) -> Vec<u8> {
        let mut log = Vec::new();
        for record in records {
            let mut rest = &record[..];
            let mut first = true;
            loop {
                let left = BLOCK_BYTES - log.len() % BLOCK_BYTES;
                if left < HEADER_BYTES {
                    log.resize(log.len() + left, 0);
                    continue;
                }
                let (part, behind) = rest.split_at(rest.len().min(left - HEADER_BYTES));
                let kind = match (first, behind.is_empty()) {
                    (true, true) => FULL,
                    (true, false) => FIRST,
                    (false, false) => MIDDLE,
                    (false, true) => LAST,
                };
                let sealed = [&[kind], part].concat();
                log.extend_from_slice(&masked_crc(&sealed).to_le_bytes());
                log.extend_from_slice(&(part.len() as u16).to_le_bytes());
                log.extend_from_slice(&sealed);
                (rest, first) = (behind, false);
                if rest.is_empty() {
                    break;
                }
            }
        }
        log
    }

    fn read_log(bytes: &[u8], skip: bool) -> (Result<Vec<Vec<u8>>>, Option<u64>, Reading) {
        let mut reading = Reading::new(skip);
        let mut log = LogReader::new(SourceFile::in_memory("log", bytes.to_vec()));
        let mut records = Vec::new();
        loop {
            match log.next(&mut reading) {
                Ok(Some(record)) => records.push(record.bytes),
                Ok(None) => return (Ok(records), log.torn(), reading),
                Err(error) => return (Err(error), log.torn(), reading),
            }
        }
    }

    fn records() -> impl Strategy<Value = Vec<Vec<u8>>> {
        let small = prop::collection::vec(any::<u8>(), 0..50);
        let large = (any::<u8>(), 0..100_000usize).prop_map(|(byte, length)| vec![byte; length]);
        prop::collection::vec(prop_oneof![4 => small, 1 => large], 0..12)
    }

    proptest! {
        #[test]
        fn records_come_back(records in records()) {
            let (read, torn, reading) = read_log(&write_log(&records), false);
            prop_assert_eq!(read.unwrap(), records);
            prop_assert_eq!(torn, None);
            prop_assert!(reading.torn.is_empty());
        }

        #[test]
        fn a_torn_log_has_what_was_written_whole(records in records(), cut: prop::sample::Index) {
            let whole = write_log(&records);
            let cut = cut.index(whole.len() + 1);
            let (read, torn, _) = read_log(&whole[..cut], false);
            let read = read.unwrap();
            prop_assert_eq!(&read[..], &records[..read.len()]);
            let kept = write_log(&read).len();
            let padding = whole[kept.min(cut)..cut].iter().all(|&byte| byte == 0) && cut - kept.min(cut) < HEADER_BYTES;
            prop_assert!(torn.is_some() || padding || kept == cut, "{torn:?} {kept} {cut}");
            // Nothing that was written whole is left out.
            prop_assert!(read.len() == records.len() || write_log(&records[..=read.len()]).len() > cut);
        }

        #[test]
        fn a_changed_byte_is_damage_or_a_torn_end(records in records(), at: prop::sample::Index, bits in 1..=255u8) {
            let mut log = write_log(&records);
            prop_assume!(!log.is_empty());
            let at = at.index(log.len());
            log[at] ^= bits;
            match read_log(&log, false) {
                (Ok(read), torn, _) => {
                    // A length that leads behind the end cannot be told from a torn record; padding
                    // is nobody's.
                    prop_assert!(torn.is_some() || read == records);
                    prop_assert_eq!(&read[..], &records[..read.len()]);
                }
                (Err(Error::Damaged(_)), ..) => {}
                (Err(other), ..) => prop_assert!(false, "{}", other),
            }
            let (left, _, reading) = read_log(&log, true);
            for record in left.unwrap() {
                prop_assert!(records.contains(&record));
            }
            prop_assert!(reading.lost.len() < 8);
        }

        #[test]
        fn any_bytes_are_read_to_their_end(bytes: Vec<u8>) {
            let (read, ..) = read_log(&bytes, true);
            prop_assert!(read.is_ok());
        }
    }

    #[test]
    fn damage_is_told_with_its_place_and_what_follows_its_block_is_read() {
        let records = [vec![1; 100], vec![2; 40_000], vec![3; 10], vec![4; 40_000], vec![5; 10]];
        let mut log = write_log(&records);
        log[50] ^= 1;
        let (strict, ..) = read_log(&log, false);
        let Err(Error::Damaged(damage)) = strict else { panic!("{strict:?}") };
        assert_eq!((damage.offset, damage.what.as_str()), (0, "a record's checksum is wrong"));
        let (left, _, reading) = read_log(&log, true);
        assert_eq!(left.unwrap(), records[2..]);
        // The second record's end is there, its beginning was behind the damage.
        assert_eq!(reading.lost.iter().map(|lost| lost.offset).collect::<Vec<_>>(), [0, BLOCK_BYTES as u64]);
    }

    #[test]
    fn a_record_that_another_cuts_off_is_damage_and_the_other_is_read() {
        let long = write_log(&[vec![1; 40_000]]);
        let mut log = long[..BLOCK_BYTES].to_vec();
        log.extend_from_slice(&write_log(&[vec![2; 10]]));
        log.extend_from_slice(&write_log(&[vec![3; 10]]));
        let (left, torn, reading) = read_log(&log, true);
        assert_eq!(left.unwrap(), [vec![2; 10], vec![3; 10]]);
        assert_eq!((reading.lost.len(), reading.lost[0].offset, torn), (1, 0, None));
        assert!(matches!(read_log(&log, false).0, Err(Error::Damaged(_))));
    }

    #[test]
    fn space_that_was_set_aside_and_never_written_is_no_damage() {
        let mut log = write_log(&[vec![1; 10]]);
        log.resize(2 * BLOCK_BYTES + 100, 0);
        let (read, _, _) = read_log(&log, false);
        assert_eq!(read.unwrap(), [vec![1; 10]]);
    }
}
