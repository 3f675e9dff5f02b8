//! Sorted tables: immutable files of entries in order, with an index and a Bloom filter.
//!
//! A [`builder::TableBuilder`] receives entries in order and writes the file once, front to back;
//! from then on the file never changes. A [`reader::Table`] holds the few hundred bytes that
//! describe the file; its index, the pages of its filter and its blocks are loaded through the
//! block cache and evicted there.
//!
//! ```text
//!   0          64                                                                          file end
//!   ├──────────┼──────────┼──────────┼─ … ─┼──────────┼────────┼───────┼────────────┼────────┤
//!   │FileHeader│data block│data block│     │data block│ filter │ index │ properties │ footer │
//!   │ 64 bytes │        each block is followed by a trailer of 5 bytes               │32 bytes│
//! ```
//!
//! A table may also have range deletes, and nothing else: blocks of them with an index of their own
//! follow the filter, and the footer is longer ([`ranges`]). A range delete covers entries of older
//! tables, and entries of the same table with lower versions.
//!
//! Invariants: entries are in the order of keys, the versions of a key newest first; blocks follow one another
//! without a gap, so every byte of the file is under a checksum; the index has one entry for each data block,
//! not before its last entry and not after the first one of the next block.
//!
//! Errors: bytes that do not decode give `Error::Corruption` with this file and the offset of the
//! block, and harm no other block. Lengths are checked against the file's size before memory is
//! allocated for them.
//!
//! Thread safety: a builder and a cursor belong to one thread; a table may be read by any number at once.
//!
//! `docs/format/table.md` and `docs/format/block.md` draw every byte.

mod aligned_writer;
pub(crate) mod builder;
mod compression;
mod cursor;
mod deleted_cursor;
mod filter;
mod footer;
mod frame;
mod handle;
#[cfg(test)]
mod handle_tests;
mod lineage;
mod open_file;
mod properties;
mod range_reads;
mod ranges;
pub(crate) mod reader;
mod salvage;
mod seek_reads;
mod verify;

pub(crate) use aligned_writer::Storing;
pub(crate) use builder::{TableBuilder, TableOptions};
pub(crate) use deleted_cursor::DeletedCursor;
pub(crate) use handle::{Pinned, Referred, TableHandle, Tables};
pub(crate) use lineage::{Lineage, Part};
pub(crate) use ranges::DeletedRange;
pub(crate) use reader::{Table, TableGet, read_bounds, read_lineage};
pub(crate) use salvage::{TableLoss, TableSalvage};

#[cfg(test)]
mod tests;

use crate::format::limits::{BLOCK_BYTES_MAX, KEY_BYTES_MAX, VALUE_BYTES_MAX};
