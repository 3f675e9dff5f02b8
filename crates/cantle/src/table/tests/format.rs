//! The bytes of the format documentation are the bytes that are written.

use super::{BASE_VERSION, build, header};
use crate::block::BlockBuilder;
use crate::block::model::{delete, put};
use crate::format::documented::assert_documented;
use crate::table::TableOptions;

#[test]
fn the_documented_header_is_what_is_written() {
    assert_documented(include_str!("../../../docs/format/header.md"), &header().encode(), 0);
}

#[test]
fn the_documented_block_is_what_is_written() {
    let page = include_str!("../../../docs/format/block.md");
    let mut builder = BlockBuilder::with_restarts(BASE_VERSION, 2);
    for entry in [put("app/1", 1005, "one"), delete("app/1", 1001), put("app/2", 1300, "two")] {
        builder.add(&entry.key, entry.version, entry.kind, &entry.value);
    }
    assert_documented(page, &builder.finish(), 0);
}

#[test]
fn the_documented_table_is_what_is_written() {
    let page = include_str!("../../../docs/format/table.md");
    let entries = [put("app/1", 1005, "one"), delete("app/1", 1001), put("app/2", 1300, "two")];
    let (file, _) = build(&entries, TableOptions::default());
    assert_documented(page, &file.bytes(), 0);
}
