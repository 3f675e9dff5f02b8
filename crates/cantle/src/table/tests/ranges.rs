//! Tables with range deletes: what is written is read, and damage is found.

use super::*;
use crate::block::model::{Entry, put};
use crate::fetch::Directly;
use crate::filter::bloom;
use crate::table::frame::{Handle, trailer};
use crate::table::ranges::DeletedRange;
use crate::table::{DeletedCursor, TableGet, TableSalvage};
use crate::types::bounds::Bounds;
use crate::types::entry::Kind;
use crate::types::error::Error;
use crate::types::gap::Gap;
use crate::types::span::Span;
use std::ops::Bound;

fn deleted(from: u32, to: u32, versions: &[u64]) -> DeletedRange {
    let key = |number: u32| format!("user/{number:05}").into_bytes();
    let bounds = Bounds { start: Bound::Included(key(from)), end: Bound::Excluded(key(to)) };
    DeletedRange { bounds, versions: versions.iter().map(|version| BASE_VERSION + version).collect() }
}

/// Every tenth key has an entry, and of every ten keys four are deleted.
fn sample(count: u32) -> (Vec<Entry>, Vec<DeletedRange>) {
    let entry = |number: u32| put(format!("user/{number:05}"), BASE_VERSION + 20, [7; 9]);
    let range = |from: u32| deleted(from + 3, from + 7, &[30 + u64::from(from % 7), 10]);
    let tens = || (0..count).step_by(10);
    (tens().map(entry).collect(), tens().map(range).collect())
}

fn build(entries: &[Entry], ranges: &[DeletedRange]) -> (Arc<MemFile>, TableMeta) {
    let file = MemFile::new(Vec::new());
    let options = TableOptions { block_bytes: 200, ..TableOptions::default() };
    let mut builder = TableBuilder::new(file.clone(), PathBuf::from("7.table"), header(), options).unwrap();
    for entry in entries {
        builder.add(&entry.key, entry.version, entry.kind, &entry.value).unwrap();
    }
    ranges.iter().for_each(|range| builder.add_deleted(range));
    let estimate = builder.bytes_estimate();
    let meta = builder.finish(true).unwrap();
    assert!(estimate < meta.file_bytes * 2 && meta.file_bytes < estimate * 2 + 500);
    (file, meta)
}

fn open_bytes(bytes: Vec<u8>) -> Result<Arc<Table>> {
    open(MemFile::new(bytes), KeyOrder::Bytewise)
}

fn damage_of(table: &Table) -> String {
    let mut damage = Vec::new();
    table.verify(&mut |error| damage.push(error.to_string())).unwrap();
    damage.join("; ")
}

#[test]
fn a_table_has_the_range_deletes_that_were_added() {
    let (entries, ranges) = sample(3000);
    let (file, meta) = build(&entries, &ranges);
    assert_eq!((meta.entries, meta.ranges), (300, 300));
    assert_eq!((meta.min_version, meta.max_version), (BASE_VERSION + 10, BASE_VERSION + 36));
    let table = open(file, KeyOrder::Bytewise).unwrap();
    assert_eq!(table.meta(), &meta);
    assert_eq!(damage_of(&table), "");
    assert!(
        table.footer.ranges.is_some_and(|place| place.index.offset - place.start > 2000),
        "several blocks"
    );
    assert_eq!(table.deleted_within(&Span::default()).unwrap(), ranges);
    for number in (0u32..3010).step_by(7).chain(0..40) {
        let key = format!("user/{number:05}");
        let covering = (3..7).contains(&(number % 10)) && number < 3000;
        let newest = BASE_VERSION + 30 + u64::from((number - number % 10) % 7);
        let found = |at: u64, alive: u64| {
            table.deleted_at(key.as_bytes(), at, &|version| version <= alive, &Directly).unwrap()
        };
        let some = |version: u64| covering.then_some(version);
        assert_eq!(found(u64::MAX, u64::MAX), some(newest), "{key}");
        assert_eq!(found(newest - 1, u64::MAX), some(BASE_VERSION + 10), "{key} before");
        assert_eq!(found(u64::MAX, newest - 1), some(BASE_VERSION + 10), "{key}, if the newest is dead");
        assert_eq!(found(BASE_VERSION + 9, u64::MAX), None, "{key} at first");
    }
    let span = Span { start: Some("user/00005".into()), end: Some("user/00023".into()) };
    assert_eq!(table.deleted_within(&span).unwrap(), ranges[..2]);
}

/// A scan that goes from key to key, in any direction and by any step, finds what a search for each key finds.
#[test]
fn a_scan_finds_the_range_deletes_of_its_keys() {
    let (entries, mut ranges) = sample(3000);
    // Neighbours that touch, one that begins at the first key, and one that ends at the last.
    ranges[0].bounds.start = Bound::Unbounded;
    ranges[100].bounds.end = Gap::between(Gap::First, Gap::start(&ranges[101].bounds)).end;
    let last = ranges.len() - 1;
    ranges[last].bounds.end = Bound::Unbounded;
    let (file, _) = build(&entries, &ranges);
    let table = open(file, KeyOrder::Bytewise).unwrap();
    let mut cursor = DeletedCursor::new(table.clone());
    let mut check = |number: u32| {
        let key = format!("user/{number:05}");
        for (at, alive) in
            [(u64::MAX, u64::MAX), (BASE_VERSION + 29, u64::MAX), (u64::MAX, BASE_VERSION + 29)]
        {
            let alive = |version| version <= alive;
            let found = cursor.newest(key.as_bytes(), at, &alive).unwrap();
            assert_eq!(
                found,
                table.deleted_at(key.as_bytes(), at, &alive, &Directly).unwrap(),
                "{key} at {at}"
            );
        }
    };
    (0..3010).for_each(&mut check);
    (0..3010).rev().for_each(&mut check);
    (0..3010u32).map(|number| number * 1_237 % 3010).for_each(&mut check);
    for step in [3, 40, 700] {
        (0..3010).step_by(step).chain((0..3010).rev().step_by(step)).for_each(&mut check);
    }
}

#[test]
fn a_table_may_have_nothing_but_range_deletes() {
    let (file, meta) = build(&[], &[deleted(2, 4, &[5])]);
    assert_eq!((meta.entries, meta.ranges, meta.max_version), (0, 1, BASE_VERSION + 5));
    let table = open(file, KeyOrder::Bytewise).unwrap();
    assert_eq!(damage_of(&table), "");
    let get = |key: &str| table.deleted_at(key.as_bytes(), u64::MAX, &|_| true, &Directly).unwrap();
    assert_eq!((get("user/00003"), get("user/00004")), (Some(BASE_VERSION + 5), None));
    let hash = bloom::hash(b"user/00003");
    let found = table.get(b"user/00003", hash, u64::MAX, &|_| true, &Directly).unwrap();
    assert!(matches!(found, TableGet::Absent | TableGet::FilteredOut));
}

/// The bytes of a table without range deletes are those of `docs/format/table.md`.
#[test]
fn a_table_without_range_deletes_has_none_of_it() {
    let (entries, _) = sample(100);
    let (file, meta) = build(&entries, &[]);
    assert_eq!(meta.ranges, 0);
    assert_eq!(file.bytes()[file.bytes().len() - 8..][..4], *b"TEND");
    let table = open(file, KeyOrder::Bytewise).unwrap();
    assert_eq!(table.footer.ranges, None);
    assert_eq!(table.deleted_at(b"user/00003", u64::MAX, &|_| true, &Directly).unwrap(), None);
}

#[test]
fn every_flipped_byte_of_range_deletes_is_an_error_and_found_by_verify() {
    let (entries, ranges) = sample(200);
    let (file, _) = build(&entries, &ranges);
    let intact = file.bytes();
    let place = open(file, KeyOrder::Bytewise).unwrap().footer.ranges.unwrap();
    for at in place.start as usize..intact.len() {
        for flip in [0x01, 0x80, 0xff] {
            let mut bytes = intact.clone();
            bytes[at] ^= flip;
            let Ok(table) = open_bytes(bytes) else { continue };
            assert_ne!(damage_of(&table), "", "byte {at} ^ {flip:#x}");
            match table.deleted_within(&Span::default()) {
                Ok(found) => assert_eq!(found, ranges),
                Err(Error::Corruption { offset, .. }) => assert!(offset >= place.start),
                Err(other) => panic!("{other}"),
            }
            let mut cursor = DeletedCursor::new(table.clone());
            for number in (0..200).step_by(5) {
                let key = format!("user/{number:05}");
                match cursor.newest(key.as_bytes(), u64::MAX, &|_| true) {
                    Ok(found) => assert_eq!(found.is_some(), number % 10 == 5, "{key}"),
                    Err(Error::Corruption { offset, .. }) => assert!(offset >= place.start),
                    Err(other) => panic!("{other}"),
                }
            }
        }
    }
    for len in place.start as usize..intact.len() {
        assert!(open_bytes(intact[..len].to_vec()).is_err(), "{len}");
    }
}

/// The table with bytes of a block replaced, under a right checksum.
fn forged(bytes: &[u8], handle: Handle, from: &[u8], to: &[u8]) -> Arc<Table> {
    assert_eq!(from.len(), to.len());
    let mut bytes = bytes.to_vec();
    let payload = handle.offset as usize..(handle.offset + handle.payload_bytes) as usize;
    let at = bytes[payload.clone()].windows(from.len()).position(|window| window == from).unwrap();
    bytes[payload.start + at..][..to.len()].copy_from_slice(to);
    let trailer = trailer(&header(), handle.offset, &bytes[payload.clone()], bytes[payload.end]);
    bytes[payload.end..handle.end() as usize].copy_from_slice(&trailer);
    open_bytes(bytes).unwrap()
}

#[test]
fn wrong_range_deletes_under_a_right_checksum_are_found() {
    let (entries, ranges) = sample(50);
    let (file, _) = build(&entries, &ranges);
    let bytes = file.bytes();
    let table = open(file, KeyOrder::Bytewise).unwrap();
    let place = table.footer.ranges.unwrap();
    let first = {
        // The first block ends where the second begins, or the index.
        let index = table.read_payload(place.index).unwrap();
        let index = crate::table::ranges::RangeBlock::parse(index, crate::table::ranges::INDEX).unwrap();
        crate::table::range_reads::place_of(place, &index.get(0).unwrap()).unwrap()
    };
    let damage = |handle, from: &[u8], to: &[u8]| damage_of(&forged(&bytes, handle, from, to));
    assert!(damage(first, b"user/00013", b"user/00093").contains("out of order"));
    assert!(damage(first, b"user/00003", b"user/00002").contains("out of order"), "not as the index says");
    assert!(damage(first, b"RDEL", b"RDIX").contains("magic"));
    assert!(damage(first, b"\x01\x0auser/00003", b"\x07\x0auser/00003").contains("unknown bound"));
    assert!(damage(place.index, b"RDIX", b"RDEL").contains("magic"));
    assert!(damage(place.index, b"user/00003", b"user/00001").contains("out of order"));
    // A place outside of the range deletes.
    let mut from = Vec::new();
    first.encode(&mut from);
    let mut to = Vec::new();
    Handle { offset: first.offset + 1000, ..first }.encode(&mut to);
    let outside = forged(&bytes, place.index, &from, &to);
    assert!(damage_of(&outside).contains("outside"));
    assert!(outside.deleted_at(b"user/00004", u64::MAX, &|_| true, &Directly).is_err());
    assert!(outside.deleted_within(&Span::default()).is_err());
    // The number of ranges in the properties.
    let ranges = [&b"\x0auser/00040"[..], &[5]].concat();
    let wrong = [&b"\x0auser/00040"[..], &[6]].concat();
    assert!(damage(table.footer.properties, &ranges, &wrong).contains("properties"));
}

fn salvaged(bytes: Vec<u8>) -> (usize, Vec<DeletedRange>, usize) {
    let (file, path) = (MemFile::new(bytes), PathBuf::from("7.table"));
    let mut walk = TableSalvage::new(file, path, header(), KeyOrder::Bytewise).unwrap();
    let deleted = walk.take_deleted();
    let mut entries = 0;
    while walk.advance() {
        assert_eq!(walk.entry().unwrap().kind, Kind::Put);
        entries += 1;
    }
    (entries, deleted, walk.take_losses().iter().filter(|loss| loss.entries).count())
}

#[test]
fn range_deletes_are_salvaged_whatever_else_is_damaged() {
    let (entries, ranges) = sample(500);
    let (file, _) = build(&entries, &ranges);
    let bytes = file.bytes();
    let table = open(file, KeyOrder::Bytewise).unwrap();
    let place = table.footer.ranges.unwrap();
    let with_damage = |at: u64| {
        let mut bytes = bytes.clone();
        bytes[at as usize] ^= 0x55;
        salvaged(bytes)
    };
    assert_eq!(salvaged(bytes.clone()), (50, ranges.clone(), 0));
    let footer = bytes.len() as u64 - 10;
    for at in [table.footer.index.offset + 8, table.footer.properties.offset, footer] {
        assert_eq!(with_damage(at), (50, ranges.clone(), 0), "at {at}");
    }
    // Its index and footer: the blocks are found by their checksums.
    let mut both = bytes.clone();
    both[footer as usize] ^= 1;
    both[place.index.offset as usize + 6] ^= 1;
    assert_eq!(salvaged(both), (50, ranges.clone(), 0));
    // Range deletes that are lost are told.
    let (found, deleted, losses) = with_damage(place.start + 20);
    assert!((found, losses) == (50, 1) && !deleted.is_empty() && deleted.len() < ranges.len());
    assert_eq!(with_damage(place.index.offset + 20), (50, Vec::new(), 1));
}
