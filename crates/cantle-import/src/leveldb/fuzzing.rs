//! The readers of single files, for those who send them anything.
//!
//! Nothing after a wrong checksum is believed. Bytes are therefore read twice: as they are, and
//! with the checksums that they should have.

use super::coding::{Decoder, masked_crc};
use super::file::SourceFile;
use super::log::{BLOCK_BYTES, HEADER_BYTES, LogReader, Step};
use super::manifest::{TableFile, read_manifest};
use super::reading::Reading;
use super::table::{FOOTER_BYTES, MAGIC, Place, Table, index_handle};
use std::path::Path;

/// Reads bytes as a write-ahead log.
pub fn log(bytes: &[u8]) {
    for bytes in [bytes.to_vec(), sealed_log(bytes)] {
        let mut reading = Reading::new(true);
        let length = bytes.len() as u64;
        let mut log = LogReader::new(SourceFile::in_memory("log", bytes));
        let mut last = None;
        loop {
            let record = match log.step(&mut reading) {
                Ok(Step::Record(record)) => record,
                Ok(Step::More) => continue,
                Ok(Step::End) | Err(_) => break,
            };
            assert!(last < Some(record.offset) && record.bytes.len() as u64 <= length);
            last = Some(record.offset);
            let _ = super::batch::decode_batch(&record.bytes);
        }
    }
}

/// Reads bytes as a manifest.
pub fn manifest(bytes: &[u8]) {
    for bytes in [bytes.to_vec(), sealed_log(bytes)] {
        let file = SourceFile::in_memory("manifest", bytes);
        let _ = read_manifest(Path::new("store"), file, &mut Reading::new(true), &mut |_| Ok(()));
    }
}

/// Reads bytes as a table; what is read is in order.
pub fn table(bytes: &[u8]) {
    for bytes in [bytes.to_vec(), sealed_table(bytes)] {
        let length = bytes.len() as u64;
        let known = TableFile { number: 1, bytes: length, smallest: Vec::new(), largest: vec![0xff; 64] };
        let file = SourceFile::in_memory("table", bytes);
        let mut reading = Reading::new(true);
        let Ok(Some(mut table)) = Table::open(file, known, Place::default(), true, &mut reading) else {
            continue;
        };
        let mut before = None;
        while let Ok(Some(entry)) = table.next(&mut reading) {
            assert!(before.is_none_or(|before| before <= entry.key), "entries are not in order");
            before = Some(entry.key);
        }
    }
}

/// Reads bytes as a dump of RocksDB's; what is read is written and read again.
pub fn dump(bytes: &[u8]) {
    let mut dump = crate::dump::Dump::new(bytes, "dump");
    while let Ok(Some((key, value))) = dump.next() {
        assert_eq!(crate::dump::parse_line(&crate::dump::line(&key, &value)), Ok((key, value)));
    }
}

fn sealed_log(bytes: &[u8]) -> Vec<u8> {
    let mut log = bytes.to_vec();
    for block in log.chunks_mut(BLOCK_BYTES) {
        let mut at = 0;
        while let Some(&[.., low, high, _]) = block.get(at..at + HEADER_BYTES) {
            let end = at + HEADER_BYTES + usize::from(u16::from_le_bytes([low, high]));
            let Some(sealed) = block.get(at + HEADER_BYTES - 1..end) else { break };
            let checksum = masked_crc(sealed).to_le_bytes();
            block[at..at + 4].copy_from_slice(&checksum);
            at = end;
        }
    }
    log
}

/// Seals the index, and what it points to.
fn sealed_table(bytes: &[u8]) -> Vec<u8> {
    let mut table = bytes.to_vec();
    let Some(footer) = table.len().checked_sub(FOOTER_BYTES) else { return table };
    table[footer + FOOTER_BYTES - 8..].copy_from_slice(&MAGIC.to_le_bytes());
    let Some(index) = index_handle(&table[footer..footer + FOOTER_BYTES - 8]) else { return table };
    let Some(index) = seal(&mut table, index) else { return table };
    let Ok(mut block) = super::compression::unpack(index.1, index.0).and_then(super::block::Block::new)
    else {
        return table;
    };
    while let Ok(Some((_, handle))) = block.next() {
        let mut decoder = Decoder::new(handle);
        if let Some(place) = decoder.varint64().zip(decoder.varint64()) {
            seal(&mut table, place);
        }
    }
    table
}

/// Gives a block its checksum; its bytes and method.
fn seal(table: &mut [u8], (offset, length): (u64, u64)) -> Option<(Vec<u8>, u8)> {
    let start = usize::try_from(offset).ok()?;
    let end = start.checked_add(usize::try_from(length).ok()?)?.checked_add(1)?;
    let checksum = masked_crc(table.get(start..end)?).to_le_bytes();
    table.get_mut(end..end.checked_add(4)?)?.copy_from_slice(&checksum);
    Some((table[start..end - 1].to_vec(), table[end - 1]))
}
