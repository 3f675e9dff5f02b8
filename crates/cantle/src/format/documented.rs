//! Checks that the bytes in the format documentation are those that are written: the library
//! produces each page's example again and looks for it in the page.

use super::header::{FileHeader, FileKind};
use std::fmt::Write;

/// The store of all examples.
pub(crate) const STORE: u128 = 0x0123_4567_89ab_cdef_0011_2233_4455_6677;

/// The header of an example file, written in epoch 2 with base version 1000.
pub(crate) fn example_header(kind: FileKind, keyspace: u32, file: u64, base_version: u64) -> FileHeader {
    FileHeader { kind, keyspace, store: STORE, file, epoch: 2, base_version }
}

/// Formats bytes as `hexdump -C` does, with offsets from the start of the file.
pub(crate) fn hexdump(bytes: &[u8], start: usize) -> String {
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

/// Asserts that `page` shows `bytes`, which stand at `start` of their file.
#[track_caller]
pub(crate) fn assert_documented(page: &str, bytes: &[u8], start: usize) {
    let dump = hexdump(bytes, start);
    assert!(page.contains(&dump), "the page should have:\n{dump}");
}
