//! Writes a table, front to back, once.

use super::aligned_writer::{AlignedWriter, Storing};
use super::compression::{self, Compressor};
use super::footer::{Footer, RangesPlace};
use super::frame::{Handle, TRAILER_BYTES, trailer};
use super::lineage::Lineage;
use super::properties::TableMeta;
use super::ranges::{DELETES, DeletedRange, INDEX, RangesBuilder};
use super::{BLOCK_BYTES_MAX, KEY_BYTES_MAX, VALUE_BYTES_MAX};
use crate::block::{BlockBuilder, entry_order, shared_prefix};
use crate::filter::bloom::{self, BloomBuilder};
use crate::format::header::{FileHeader, FileKind};
use crate::records::user_bytes;
use crate::sync::Arc;
use crate::types::bounds::Bounds;
use crate::types::compression::Compression;
use crate::types::entry::Kind;
use crate::types::error::{Error, Result};
use crate::types::gap::Gap;
use crate::types::order::KeyOrder;
use crate::vfs::VfsFile;
use std::cmp::Ordering;
use std::path::{Path, PathBuf};

/// Entries between two restart points of the index. It is searched for every key, and with few
/// entries between restart points the search is mostly binary.
const INDEX_RESTART_ENTRIES: usize = 4;
/// Maximum of the block size in bytes that a table accepts: larger blocks only make reads of small
/// values more expensive.
const BLOCK_BYTES_TARGET_MAX: usize = 16 << 20;

/// Options for writing a table.
#[derive(Debug, Clone)]
pub(crate) struct TableOptions {
    /// Size before compression at which a block is closed. Default: 4096. With smaller blocks, a
    /// read of one value reads and caches less; larger ones compress better and need less index.
    pub(crate) block_bytes: usize,
    /// Compression of blocks. Default: none.
    pub(crate) compression: Compression,
    /// Bits for each key in the Bloom filter. Default: 10. With 0, or an order that is not
    /// hashable, there is no filter.
    pub(crate) filter_bits_per_key: u32,
    /// The order of keys. Default: bytewise.
    pub(crate) order: KeyOrder,
    /// The way in which the bytes get into the file. Default: as others.
    pub(crate) storing: Storing,
}

impl Default for TableOptions {
    fn default() -> Self {
        Self {
            block_bytes: 4096,
            compression: Compression::None,
            filter_bits_per_key: 10,
            order: KeyOrder::Bytewise,
            storing: Storing::default(),
        }
    }
}

/// Writes one table. After an error the file is useless: the caller drops the builder and removes
/// the file.
pub(crate) struct TableBuilder {
    out: AlignedWriter,
    header: FileHeader,
    order: KeyOrder,
    block_bytes: usize,
    compressor: Compressor,
    block: BlockBuilder,
    index: BlockBuilder,
    filter: Option<BloomBuilder>,
    /// The last data block written, whose index entry waits for the next key.
    unindexed: Option<Handle>,
    /// The last entry's key and version.
    last_key: Vec<u8>,
    last_version: u64,
    meta: TableMeta,
    ranges: Vec<RangesOfBlock>,
    lineage: Option<Lineage>,
}

/// The range deletes of one block, from the start of the first to the end of the last.
struct RangesOfBlock {
    bounds: Bounds,
    block: RangesBuilder,
}

impl TableBuilder {
    /// Starts a table in the empty `file`, which `path` names in errors. No added version may be
    /// below `header.base_version`.
    pub(crate) fn new(
        file: Arc<dyn VfsFile>,
        path: PathBuf,
        header: FileHeader,
        options: TableOptions,
    ) -> Result<Self> {
        debug_assert_eq!(header.kind, FileKind::Table);
        let filtered = options.filter_bits_per_key > 0 && options.order.hashable();
        let mut out = AlignedWriter::new(file, path, options.storing)?;
        out.append(&header.encode())?;
        Ok(Self {
            out,
            header,
            order: options.order,
            block_bytes: options.block_bytes.min(BLOCK_BYTES_TARGET_MAX),
            compressor: Compressor::new(options.compression)?,
            block: BlockBuilder::new(header.base_version),
            index: BlockBuilder::with_restarts(header.base_version, INDEX_RESTART_ENTRIES),
            filter: filtered.then(|| BloomBuilder::new(options.filter_bits_per_key)),
            unindexed: None,
            last_key: Vec::new(),
            last_version: 0,
            meta: TableMeta::empty(header.base_version),
            ranges: Vec::new(),
            lineage: None,
        })
    }

    /// Sets the lineage, which the properties get.
    pub(crate) fn set_lineage(&mut self, lineage: Lineage) {
        self.lineage = Some(lineage);
    }

    /// Appends an entry. Keys ascend, and the versions of a key come newest first.
    pub(crate) fn add(&mut self, key: &[u8], version: u64, kind: Kind, value: &[u8]) -> Result<()> {
        if key.len() > KEY_BYTES_MAX || value.len() > VALUE_BYTES_MAX {
            return Err(Error::InvalidArgument(format!(
                "a key of {} bytes or a value of {} bytes is too long: keys end at 1 MiB, values at 1 GiB",
                key.len(),
                value.len()
            )));
        }
        debug_assert!(
            self.meta.entries == 0
                || entry_order(&self.order, &self.last_key, self.last_version, key, version)
                    != Ordering::Greater
                // Checked last: this very comparison may be the one that fails.
                || self.order.failure().is_some(),
            "entries are added out of order"
        );
        if value.len() > self.block_bytes {
            self.finish_block()?;
        }
        if let Some(handle) = self.unindexed.take() {
            self.index_block(handle, Some(key));
        }
        if self.meta.entries == 0 {
            self.meta.smallest = key.to_vec();
        }
        self.meta.add_version(version);
        self.meta.entries += 1;
        let user_bytes = user_bytes(key, kind, value);
        self.meta.user_bytes += user_bytes.map_err(|what| Error::corruption(self.out.path(), 0, what.0))?;
        self.meta.tombstones += u64::from(!kind.is_put());
        if let Some(filter) = &mut self.filter {
            filter.add(bloom::hash(key));
        }
        self.block.add(key, version, kind, value);
        self.last_key.clear();
        self.last_key.extend_from_slice(key);
        self.last_version = version;
        if self.block.size_bytes() >= self.block_bytes { self.finish_block() } else { Ok(()) }
    }

    /// Adds a range whose entries below each of these versions are deleted, here and in older
    /// tables. Ranges ascend and do not overlap.
    pub(crate) fn add_deleted(&mut self, range: &DeletedRange) {
        debug_assert!(range.versions.is_sorted_by(|a, b| a > b) && !range.versions.is_empty());
        debug_assert!(
            self.ranges.last().is_none_or(|last| {
                let start = Gap::start(&range.bounds);
                Gap::end(&last.bounds).compare(&self.order, start).is_le() || self.order.failure().is_some()
            }),
            "ranges are added out of order"
        );
        let is_full = |last: &RangesOfBlock| last.block.size_bytes() >= self.block_bytes;
        if self.ranges.last().is_none_or(is_full) {
            let (bounds, block) = (range.bounds.clone(), RangesBuilder::new(DELETES));
            self.ranges.push(RangesOfBlock { bounds, block });
        }
        let base_version = self.header.base_version;
        let above = |version: &u64| version.saturating_sub(base_version);
        let differences: Vec<u64> = range.versions.iter().map(above).collect();
        if let Some(last) = self.ranges.last_mut() {
            last.bounds.end = range.bounds.end.clone();
            last.block.add(&range.bounds, &differences);
        }
        range.versions.iter().for_each(|&version| self.meta.add_version(version));
        self.meta.ranges += 1;
    }

    /// Approximate length of the file if it were finished now.
    pub(crate) fn bytes_estimate(&self) -> u64 {
        let filter_bytes = self.filter.as_ref().map_or(0, BloomBuilder::size_bytes);
        let range_bytes: usize = self.ranges.iter().map(|ranges| ranges.block.size_bytes()).sum();
        let held_bytes = self.block.size_bytes() + self.index.size_bytes() + filter_bytes + range_bytes;
        self.out.position() + held_bytes as u64
    }

    /// Bytes for which the file has space so far.
    pub(crate) fn occupied_bytes(&self) -> u64 {
        self.out.occupied_bytes()
    }

    pub(crate) fn file(&self) -> &Arc<dyn VfsFile> {
        self.out.file()
    }

    /// The name of the file.
    pub(crate) fn path(&self) -> &Path {
        self.out.path()
    }

    /// True if the file's space was allocated before it was written.
    pub(crate) fn is_allocated(&self) -> bool {
        self.out.is_allocated()
    }

    /// Bytes that were written past the operating system's page cache.
    pub(crate) fn direct_bytes(&self) -> u64 {
        self.out.direct_bytes()
    }

    /// True if the file system has refused direct writes.
    pub(crate) fn is_direct_refused(&self) -> bool {
        self.out.is_direct_refused()
    }

    /// Writes the rest and, if `sync`, makes the file's data durable (the caller syncs its name). Otherwise the kernel
    /// is asked to begin with that.
    pub(crate) fn finish(&mut self, sync: bool) -> Result<TableMeta> {
        self.finish_block()?;
        if let Some(handle) = self.unindexed.take() {
            self.index_block(handle, None);
        }
        let filter = self.write_filter()?;
        let ranges = self.write_ranges()?;
        let index = self.index.finish();
        if index.len() > BLOCK_BYTES_MAX {
            return Err(Error::InvalidArgument("a table's index exceeds 1 GiB: write smaller tables".into()));
        }
        let index = self.write_block(&index, true)?;
        self.meta.largest = std::mem::take(&mut self.last_key);
        let properties = self.meta.encode(self.header.base_version, self.lineage.as_ref());
        let properties = self.write_block(&properties, false)?;
        let footer = Footer { filter, ranges, index, properties }.encode(&self.header, self.out.position());
        self.out.append(&footer)?;
        self.out.end()?;
        if sync {
            canary!(UNSYNCED_TABLE else self.out.sync())?;
        } else {
            self.out.start_writeback()?;
        }
        self.meta.file_bytes = self.out.position();
        Ok(std::mem::replace(&mut self.meta, TableMeta::empty(self.header.base_version)))
    }

    /// Writes the filter page by page, or an empty block if there is none. The handle covers all
    /// pages.
    fn write_filter(&mut self) -> Result<Handle> {
        let pages = self.filter.take().map(BloomBuilder::finish_in_pages).unwrap_or_default();
        let offset = self.out.position();
        if pages.is_empty() {
            return self.write_block(&[], false);
        }
        for page in pages {
            self.write_block(&page, false)?;
        }
        Ok(Handle { offset, payload_bytes: self.out.position() - offset - TRAILER_BYTES })
    }

    /// Writes the range deletes and their index, if there are any.
    fn write_ranges(&mut self) -> Result<Option<RangesPlace>> {
        let (start, mut index) = (self.out.position(), RangesBuilder::new(INDEX));
        for RangesOfBlock { bounds, block } in std::mem::take(&mut self.ranges) {
            let Handle { offset, payload_bytes } = self.write_block(&block.finish(), true)?;
            index.add(&bounds, &[offset, payload_bytes]);
        }
        if index.is_empty() {
            return Ok(None);
        }
        let index = index.finish();
        if index.len() > BLOCK_BYTES_MAX {
            return Err(Error::InvalidArgument("a table's range deletes need more than 1 GiB".into()));
        }
        Ok(Some(RangesPlace { start, index: self.write_block(&index, true)? }))
    }

    fn finish_block(&mut self) -> Result<()> {
        if !self.block.is_empty() {
            let block = self.block.finish();
            self.unindexed = Some(self.write_block(&block, true)?);
        }
        Ok(())
    }

    /// Adds the index entry of a block whose last entry is the last one added. The next block, if
    /// there is one, begins with `next_key`.
    fn index_block(&mut self, handle: Handle, next_key: Option<&[u8]>) {
        let mut place = Vec::new();
        handle.encode(&mut place);
        let separator = match (&self.order, next_key) {
            (KeyOrder::Bytewise, Some(next_key)) => separator(&self.last_key, next_key),
            _ => &self.last_key,
        };
        self.index.add(separator, self.last_version, Kind::Put, &place);
    }

    fn write_block(&mut self, block: &[u8], compressible: bool) -> Result<Handle> {
        let compressed = if compressible { self.compressor.compress(block) } else { None };
        let (payload, tag) = compressed.unwrap_or((block, compression::RAW));
        let handle = Handle { offset: self.out.position(), payload_bytes: payload.len() as u64 };
        self.out.append(payload)?;
        self.out.append(&trailer(&self.header, handle.offset, payload, tag))?;
        Ok(handle)
    }
}

/// The shortest prefix of `next` that lies strictly between `last` and `next`, or else `last`; in
/// bytewise order.
fn separator<'a>(last: &'a [u8], next: &'a [u8]) -> &'a [u8] {
    let shared = shared_prefix(last, next);
    if last < next && shared + 1 < next.len() && shared + 1 < last.len() { &next[..=shared] } else { last }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn separators_are_short_and_strictly_between() {
        for (last, next, expected) in [
            ("apple", "banana", "b"),
            ("user/0001/a", "user/0002/b", "user/0002"),
            ("abc", "abd", "abc"),  // nothing shorter is between
            ("abc", "abcd", "abc"), // the last key is a prefix of the next
            ("abc", "abcde", "abc"),
            ("abc", "abc", "abc"), // versions of one key in two blocks
            ("", "zz", ""),
            ("a", "zz", "a"), // already as short
        ] {
            let found = separator(last.as_bytes(), next.as_bytes());
            assert_eq!(found, expected.as_bytes(), "between {last} and {next}");
        }
    }
}
