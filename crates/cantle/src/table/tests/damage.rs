//! Damaged files give errors or right data, never a panic or wrong data.

use super::{BASE_VERSION, MemFile, build, header, open};
use crate::block::BlockCursor;
use crate::block::model::{Entry, delete, put};
use crate::fetch::Directly;
use crate::filter::bloom;
use crate::table::footer::FOOTER_BYTES;
use crate::table::frame::{Handle, trailer};
use crate::table::{Table, TableGet, TableOptions};
use crate::types::compression::Compression;
use crate::types::entry::{EntryCursor, Kind};
use crate::types::error::Error;
use crate::types::order::KeyOrder;
use std::path::Path;

fn sample() -> Vec<Entry> {
    let mut entries = Vec::new();
    for i in 0..8 {
        entries.push(put(format!("user/{i}"), BASE_VERSION + 20, "abcabcabcabcabcabc".repeat(1 + i)));
        entries.push(delete(format!("user/{i}"), BASE_VERSION + 10));
    }
    entries
}

fn options(compression: Compression) -> TableOptions {
    TableOptions { block_bytes: 100, compression, ..TableOptions::default() }
}

fn assert_names_the_file(error: &Error) {
    match error {
        Error::Corruption { path, .. } => assert_eq!(path, Path::new("7.table")),
        Error::UnsupportedFormat { .. } => {}
        other => panic!("damage is reported as {other}"),
    }
}

/// Reads everything in every way; returns the number of errors.
fn read_all(table: &std::sync::Arc<Table>, entries: &[Entry]) -> usize {
    let mut errors = 0;
    for entry in entries {
        match table.get(&entry.key, bloom::hash(&entry.key), entry.version, &|_| true, &Directly) {
            Ok(TableGet::Found { version, kind, value }) => {
                assert_eq!(
                    (version, kind, value.as_ref()),
                    (entry.version, entry.kind, entry.value.as_slice())
                );
            }
            Ok(other) => panic!("a key that is there is {other:?}"),
            Err(error) => {
                assert_names_the_file(&error);
                errors += 1;
            }
        }
    }
    for mut cursor in [table.cursor(), table.cursor_without_cache()] {
        for backward in [false, true] {
            let mut seen = Vec::new();
            let mut step = if backward { cursor.seek_to_last() } else { cursor.seek_to_first() };
            while step.is_ok()
                && let Some(entry) = cursor.entry()
            {
                let (key, version, kind): (Vec<u8>, u64, Kind) =
                    (entry.key.to_vec(), entry.version, entry.kind);
                seen.push(Entry { key, version, kind, value: cursor.value().unwrap().to_vec() });
                step = if backward { cursor.prev() } else { cursor.next() };
            }
            let expected: Vec<Entry> =
                if backward { entries.iter().rev().cloned().collect() } else { entries.to_vec() };
            match step {
                Ok(()) => assert_eq!(seen, expected),
                Err(error) => {
                    assert_names_the_file(&error);
                    assert!(cursor.entry().is_none(), "after an error the cursor is not positioned");
                    assert!(expected.starts_with(&seen));
                    errors += 1;
                }
            }
        }
    }
    errors
}

fn compressions() -> Vec<Compression> {
    let mut all = vec![Compression::None, Compression::Lz4];
    if cfg!(feature = "zstd") {
        all.push(Compression::Zstd(3));
    }
    all
}

#[test]
fn every_flipped_byte_is_an_error_or_harmless_and_found_by_verify() {
    let entries = sample();
    for compression in compressions() {
        let (file, _) = build(&entries, options(compression));
        let intact = file.bytes();
        for at in 0..intact.len() {
            for flip in [0x01, 0x80, 0xff] {
                let mut bytes = intact.clone();
                bytes[at] ^= flip;
                match open(MemFile::new(bytes), KeyOrder::Bytewise) {
                    Err(error) => assert_names_the_file(&error),
                    Ok(table) => {
                        read_all(&table, &entries);
                        let mut damage = Vec::new();
                        table.verify(&mut |error| damage.push(error)).unwrap();
                        assert!(!damage.is_empty(), "verify overlooks byte {at} ^ {flip:#x}");
                        damage.iter().for_each(assert_names_the_file);
                    }
                }
            }
        }
    }
}

#[test]
fn every_truncation_and_extension_is_an_error() {
    let (file, _) = build(&sample(), options(Compression::None));
    let intact = file.bytes();
    for len in 0..intact.len() {
        assert_names_the_file(&open(MemFile::new(intact[..len].to_vec()), KeyOrder::Bytewise).unwrap_err());
    }
    let longer = [intact.as_slice(), &[0; 100]].concat();
    assert_names_the_file(&open(MemFile::new(longer), KeyOrder::Bytewise).unwrap_err());
}

#[test]
fn a_file_that_shrinks_after_it_was_opened_gives_errors() {
    let entries = sample();
    let (file, meta) = build(&entries, options(Compression::None));
    for len in (0..meta.file_bytes as usize).step_by(7) {
        let shrinking = MemFile::new(file.bytes());
        let table = open(shrinking.clone(), KeyOrder::Bytewise).unwrap();
        shrinking.bytes.lock().truncate(len);
        assert!(read_all(&table, &entries) > 0 || len as u64 >= table.footer.index.end());
        let mut damage = 0;
        table.verify(&mut |_| damage += 1).unwrap();
        assert!(damage > 0);
    }
}

#[test]
fn damage_in_one_block_harms_no_other() {
    let entries = sample();
    let (file, _) = build(&entries, options(Compression::None));
    let mut bytes = file.bytes();
    bytes[70] ^= 1;
    let table = open(MemFile::new(bytes), KeyOrder::Bytewise).unwrap();
    let read =
        |entry: &Entry| table.get(&entry.key, bloom::hash(&entry.key), entry.version, &|_| true, &Directly);
    let error = read(&entries[0]).unwrap_err();
    assert!(error.to_string().contains("7.table at offset 64: a block's checksum does not match"), "{error}");
    assert!(matches!(read(&entries[15]).unwrap(), TableGet::Found { .. }));

    let mut damage = Vec::new();
    let found = table.verify(&mut |error| damage.push(error)).unwrap();
    assert!(found > 8 && found < 16, "verify goes on after the first block: {found}");
    assert_eq!(damage.len(), 1, "{damage:?}");

    // A cursor fails on the damaged block and can be positioned after it.
    let mut cursor = table.cursor();
    assert!(cursor.seek_to_first().is_err());
    cursor.seek(b"user/5").unwrap();
    assert_eq!(cursor.entry().unwrap().key, b"user/5");
    assert!(cursor.seek(b"user/0").is_err());
    assert!(cursor.entry().is_none(), "the cursor has left where it was");
}

/// The place of each block of the table, and of each part after them.
fn handles(table: &std::sync::Arc<Table>) -> Vec<Handle> {
    let mut index = BlockCursor::new(table.index().unwrap(), KeyOrder::Bytewise);
    let mut handles = vec![table.footer.filter, table.footer.index, table.footer.properties];
    index.seek_to_first().unwrap();
    while index.entry().is_some() {
        handles.push(table.data_handle(index.value_bytes()).unwrap());
        index.next().unwrap();
    }
    handles
}

/// Reads a table whose checksums match although its bytes are wrong: any result will do, as long as there is one.
fn exercise(table: &std::sync::Arc<Table>, entries: &[Entry]) {
    for entry in entries {
        let _ = table.get(&entry.key, bloom::hash(&entry.key), entry.version, &|_| true, &Directly);
        let _ = table.offset_of(&entry.key);
        for mut cursor in [table.cursor(), table.cursor_without_cache()] {
            let _ = cursor.seek_before(&entry.key);
            let _ = cursor.seek(&entry.key);
            let _ = cursor.prev();
        }
    }
    for mut cursor in [table.cursor(), table.cursor_without_cache()] {
        let mut step = cursor.seek_to_first();
        while step.is_ok() && cursor.entry().is_some() {
            step = cursor.next();
        }
        step = cursor.seek_to_last();
        while step.is_ok() && cursor.entry().is_some() {
            step = cursor.prev();
        }
    }
    table.verify(&mut |error| assert_names_the_file(&error)).unwrap();
}

#[test]
fn wrong_bytes_under_a_right_checksum_do_no_harm() {
    let entries = sample();
    for compression in compressions() {
        let (file, _) = build(&entries, options(compression));
        let intact = file.bytes();
        for handle in handles(&open(file, KeyOrder::Bytewise).unwrap()) {
            let payload = handle.offset as usize..(handle.offset + handle.payload_bytes) as usize;
            for at in payload.clone() {
                for flip in [0x01, 0x02, 0x04, 0x10, 0x80, 0xff] {
                    let mut bytes = intact.clone();
                    bytes[at] ^= flip;
                    let trailer =
                        trailer(&header(), handle.offset, &bytes[payload.clone()], bytes[payload.end]);
                    bytes[payload.end..handle.end() as usize].copy_from_slice(&trailer);
                    if let Ok(table) = open(MemFile::new(bytes), KeyOrder::Bytewise) {
                        exercise(&table, &entries);
                    }
                }
            }
        }
    }
}

#[test]
fn a_footer_with_wrong_offsets_is_refused() {
    let (file, meta) = build(&sample(), options(Compression::None));
    let intact = file.bytes();
    let footer = intact.len() - FOOTER_BYTES as usize;
    for field in 0..3 {
        for offset in [0, 63, 64, 68, meta.file_bytes, u64::MAX - 4, u64::MAX] {
            let mut bytes = intact.clone();
            bytes[footer + 8 * field..][..8].copy_from_slice(&offset.to_le_bytes());
            let crc = crc32c::crc32c(&header().salt(footer as u64));
            let crc = crc32c::crc32c_append(crc, &bytes[footer..footer + 28]);
            bytes[footer + 28..].copy_from_slice(&crc.to_le_bytes());
            match open(MemFile::new(bytes), KeyOrder::Bytewise) {
                Err(error) => assert_names_the_file(&error),
                Ok(table) => assert!(read_all(&table, &sample()) > 0),
            }
        }
    }
}

#[test]
fn verify_notices_what_checksums_cannot() {
    // Mistakes of a writer: entries out of order, an index entry before its block's end, wrong
    // sums.
    let entries: Vec<Entry> = (0..8).map(|i| put(format!("user/{i}"), BASE_VERSION, [i; 100])).collect();
    let (file, _) = build(&entries, options(Compression::None));
    let table = open(file.clone(), KeyOrder::Bytewise).unwrap();
    let damaged = |handle: Handle, from: &[u8], to: &[u8]| {
        assert_eq!(from.len(), to.len());
        let mut bytes = file.bytes();
        let payload = handle.offset as usize..(handle.offset + handle.payload_bytes) as usize;
        let at = bytes[payload.clone()].windows(from.len()).position(|window| window == from).unwrap();
        bytes[payload.start + at..][..to.len()].copy_from_slice(to);
        let trailer = trailer(&header(), handle.offset, &bytes[payload.clone()], bytes[payload.end]);
        bytes[payload.end..handle.end() as usize].copy_from_slice(&trailer);
        let mut damage = Vec::new();
        let table = open(MemFile::new(bytes), KeyOrder::Bytewise).unwrap();
        table.verify(&mut |error| damage.push(error.to_string())).unwrap();
        damage.join("; ")
    };
    let encoded = |handle: Handle| {
        let mut bytes = Vec::new();
        handle.encode(&mut bytes);
        bytes
    };
    let all = handles(&table);
    let blocks = &all[3..];
    assert!(damaged(blocks[2], b"user/", b"aser/").contains("out of order"));
    assert!(damaged(blocks[0], b"user/", b"wser/").contains("goes beyond its place"));
    assert!(damaged(table.footer.index, b"user/", b"aser/").contains("goes beyond its place"));
    assert!(damaged(table.footer.index, b"user/0", b"user/2").contains("out of order"));
    assert!(damaged(table.footer.properties, b"user/7", b"user/6").contains("properties"));
    let [.., third_last, second_last, last] = blocks else { panic!("there are several blocks") };
    let skipped = damaged(table.footer.index, &encoded(*third_last), &encoded(*second_last));
    assert!(skipped.contains("a gap or overlap"), "{skipped}");
    let cut = damaged(table.footer.index, &encoded(*last), &encoded(*second_last));
    assert!(cut.contains("does not reach the end"), "{cut}");
    let filter = file.bytes()[all[0].offset as usize..][..64].to_vec();
    assert!(damaged(table.footer.filter, &filter, &[0; 64]).contains("filter denies"));
}

#[test]
fn intact_blocks_in_the_wrong_place_are_recognised() {
    // Equal sizes, so that swapping two blocks keeps every offset.
    let entries: Vec<Entry> = (0..4).map(|i| put(format!("user/{i}"), BASE_VERSION, [i; 100])).collect();
    let (file, _) = build(&entries, options(Compression::None));
    let mut bytes = file.bytes();
    let table = open(file, KeyOrder::Bytewise).unwrap();
    let block_bytes = (table.offset_of(b"user/1").unwrap() - 64) as usize;
    let (first, second) = bytes[64..].split_at_mut(block_bytes);
    first.swap_with_slice(&mut second[..block_bytes]);
    let table = open(MemFile::new(bytes), KeyOrder::Bytewise).unwrap();
    assert!(read_all(&table, &entries) > 0);
}
