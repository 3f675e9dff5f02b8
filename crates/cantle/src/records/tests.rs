//! Records are found after any bytes, and damage is distinguished from an end.

use super::file::RecordFile;
use super::frame::{BODY_BYTES_MIN, Frame, encode_record};
use super::search::valid_extent;
use crate::format::codec::put_varint;
use crate::format::documented::example_header;
use crate::format::header::{FileHeader, FileKind};
use crate::format::limits::RECORD_BYTES_MAX;
use crate::vfs::{MemVfs, OpenMode, Vfs};
use std::path::Path;

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

/// Random bytes make random lengths, and a record might begin at each of them: none is searched in
/// vain.
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
        assert_eq!(records.head_after(torn, end - 1, any, |_| true).unwrap(), Some(start), "{noise} bytes");
    }
}

/// Each byte of a record in turn: damage after the head leaves the head, and all damage is
/// detected.
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
        is_possible(RECORD_BYTES_MAX) && !is_possible(RECORD_BYTES_MAX + 1) && !is_possible(u64::MAX >> 1)
    );
}

#[test]
fn what_is_damaged_within_is_no_end() {
    let mut bytes = header().encode().to_vec();
    let places: Vec<u64> = (0..5).map(|n| append(&mut bytes, 1, &[n; 300])).collect();
    let body = &bytes[64..];
    assert_eq!(valid_extent(&header(), 64, body, any), (body.len(), None));
    for (at, damaged) in [(places[1] + 5, 1), (places[1] + 200, 1), (places[4] + 5, 4), (places[4] + 200, 4)]
    {
        let mut bytes = bytes.clone();
        bytes[at as usize] ^= 1;
        let end = if damaged == 4 { places[4] } else { bytes.len() as u64 };
        let found = valid_extent(&header(), 64, &bytes[64..], any);
        assert_eq!(found, ((end - 64) as usize, Some((places[damaged] - 64) as usize)));
    }
}
