//! The bytes of the format documentation are the bytes that are written.

use super::model::{delete, put};
use super::{BASE_VERSION, build, header};
use crate::table::TableOptions;
use crate::table::block::BlockBuilder;
use std::fmt::Write;

/// As `hexdump -C` prints it, offsets from the start of the file.
fn hexdump(bytes: &[u8], start: usize) -> String {
    let mut dump = String::new();
    for (line, bytes) in bytes.chunks(16).enumerate() {
        write!(dump, "{:08x} ", start + line * 16).unwrap();
        for at in 0..16 {
            let gap = if at == 8 { "  " } else { " " };
            match bytes.get(at) {
                Some(byte) => write!(dump, "{gap}{byte:02x}").unwrap(),
                None => write!(dump, "{gap}  ").unwrap(),
            }
        }
        let text: String =
            bytes.iter().map(|&b| if (0x20..0x7f).contains(&b) { b as char } else { '.' }).collect();
        writeln!(dump, "  |{text}|").unwrap();
    }
    dump
}

#[track_caller]
fn assert_documented(page: &str, bytes: &[u8], start: usize) {
    let dump = hexdump(bytes, start);
    assert!(page.contains(&dump), "the page should have:\n{dump}");
}

#[test]
fn the_documented_header_is_what_is_written() {
    assert_documented(include_str!("../../../../../docs/format/header.md"), &header().encode(), 0);
}

#[test]
fn the_documented_block_is_what_is_written() {
    let page = include_str!("../../../../../docs/format/block.md");
    let mut builder = BlockBuilder::with_restarts(BASE_VERSION, 2);
    for entry in [put("app/1", 1005, "one"), delete("app/1", 1001), put("app/2", 1300, "two")] {
        builder.add(&entry.key, entry.version, entry.kind, &entry.value);
    }
    assert_documented(page, &builder.finish(), 0);
}

#[test]
fn the_documented_table_is_what_is_written() {
    let page = include_str!("../../../../../docs/format/table.md");
    let entries = [put("app/1", 1005, "one"), delete("app/1", 1001), put("app/2", 1300, "two")];
    let (file, _) = build(&entries, TableOptions::default());
    assert_documented(page, &file.bytes(), 0);
}
