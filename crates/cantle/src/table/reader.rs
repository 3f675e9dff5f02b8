//! Reads a table: opening, point lookups, and loading blocks into the cache.

use super::cursor::TableCursor;
use super::filter::{FilterPages, FilterPlace};
use super::footer::{Footer, footer_bytes};
use super::frame::{Handle, unframe};
use super::lineage::Lineage;
use super::open_file::OpenFile;
use super::properties::TableMeta;
use super::seek_reads::SeekReads;
use crate::block::{Block, BlockCursor, Probe};
use crate::cache::{BlockCache, CacheValue};
use crate::fetch::{Directly, Fetch, Place};
use crate::filter::bloom;
use crate::format::codec::Malformed;
use crate::format::header::{FileHeader, FileKind, HEADER_BYTES};
use crate::memory::account::{Account, Charge};
use crate::read_ahead::Runs;
use crate::sync::Arc;
use crate::types::entry::Kind;
use crate::types::error::{Attempt, Error, Result};
use crate::types::order::KeyOrder;
use crate::vfs::VfsFile;
use bytes::Bytes;
use std::io;
use std::ops::{Deref, Range};
use std::path::{Path, PathBuf};

/// Bytes at the end of the file that opening reads at once: the footer and, unless its keys are
/// long, the properties.
const TAIL_BYTES: u64 = 1024;
/// Maximum size in bytes of a description that stays in memory while its table is closed: about
/// 200, and the first and the last key. Those of tables with longer keys are read again.
const PINNED_BYTES_MAX: u64 = 1024;

/// The places of a table's parts, and its properties. Like the file, it never changes.
#[derive(Debug)]
pub(crate) struct Description {
    pub(super) header: FileHeader,
    pub(super) footer: Footer,
    pub(super) filter: Option<FilterPages>,
    meta: TableMeta,
    /// Memory of the description.
    _charge: Option<Charge>,
}

impl Description {
    /// Memory that a description takes, in bytes.
    fn bytes(meta: &TableMeta) -> u64 {
        (size_of::<Self>() + meta.smallest.capacity() + meta.largest.capacity()) as u64
    }

    /// True if the description may stay in memory while its table is closed.
    pub(super) fn is_short(&self) -> bool {
        Self::bytes(&self.meta) <= PINNED_BYTES_MAX
    }
}

/// An open table. Keeps its description in memory; everything else is fetched through the cache.
#[derive(Debug)]
pub(crate) struct Table {
    pub(super) file: OpenFile,
    pub(super) path: PathBuf,
    pub(super) order: KeyOrder,
    description: Arc<Description>,
    cache: BlockCache,
    /// Lengths of the runs of its blocks that scans have read.
    pub(super) runs: Arc<Runs>,
    pub(super) seek_reads: Arc<SeekReads>,
}

/// The result of a lookup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TableGet {
    /// The filter excluded the key; no data was read.
    FilteredOut,
    /// The table has no such entry.
    Absent,
    /// The newest entry that matches the lookup.
    Found {
        /// The version at which it was written.
        version: u64,
        /// The kind of the entry.
        kind: Kind,
        /// The value, which keeps its block in memory.
        value: Bytes,
    },
}

impl Deref for Table {
    type Target = Description;
    fn deref(&self) -> &Description {
        &self.description
    }
}

impl Table {
    /// Opens the table in `file`, which `path` names in errors and which must be the file
    /// `expected.1` of the store `expected.0`. Blocks are cached for the owner of `cache`.
    pub(crate) fn open(
        file: Arc<dyn VfsFile>,
        path: PathBuf,
        expected: (u128, u64),
        order: KeyOrder,
        cache: BlockCache,
    ) -> Result<Self> {
        let description = Self::describe(&*file, &path, expected, &Account::default())?;
        let file = OpenFile::Held { file, _count: None };
        Ok(Self::described(file, path, Arc::new(description), order, cache))
    }

    /// Reads the description of a table, charged to `account`.
    pub(super) fn describe(
        file: &dyn VfsFile,
        path: &Path,
        expected: (u128, u64),
        account: &Account,
    ) -> Result<Description> {
        let header = FileHeader::read(file, path, FileKind::Table)?;
        check_identity(&header, path, expected)?;
        let (footer, meta) = read_description(file, path, &header)?;
        let charge = account.charge_anyway(Description::bytes(&meta));
        let filter = FilterPages::of(footer.filter);
        Ok(Description { header, footer, filter, meta, _charge: charge })
    }

    /// Opens the table with this description, without a read. Another file in its place is detected
    /// by the first block that is read, because its checksum covers store and file.
    pub(super) fn described(
        file: OpenFile,
        path: PathBuf,
        description: Arc<Description>,
        order: KeyOrder,
        cache: BlockCache,
    ) -> Self {
        Self { file, path, order, description, cache, runs: Arc::default(), seek_reads: Arc::default() }
    }

    /// The same table, whose seeks are timed and counted with those of others.
    pub(super) fn with_seek_reads(self, seek_reads: Arc<SeekReads>) -> Self {
        Self { seek_reads, ..self }
    }

    /// Sizes and bounds.
    pub(crate) fn meta(&self) -> &TableMeta {
        &self.meta
    }

    /// The file's header.
    pub(crate) fn header(&self) -> &FileHeader {
        &self.header
    }

    /// The lineage, if the table has one. Reads the file.
    pub(crate) fn lineage(&self) -> Result<Option<Lineage>> {
        self.file.with(|file| read_lineage(file, &self.path, &self.header))
    }

    /// The newest entry of `key`, whose hash is `hash`, at or below version `at`, whose version
    /// satisfies `alive`.
    pub(crate) fn get<F: Fetch>(
        &self,
        key: &[u8],
        hash: u64,
        at: u64,
        alive: &dyn Fn(u64) -> bool,
        fetch: &F,
    ) -> Result<TableGet, F::Stop> {
        if !self.may_contain(hash, fetch)? {
            return Ok(TableGet::FilteredOut);
        }
        let index = self.block_by(self.footer.index, fetch)?;
        let in_index = |malformed| self.corruption(self.footer.index, malformed);
        let (mut places, mut found) = Probe::find(&index, &self.order, key, at).map_err(in_index)?;
        while let Some(place) = found {
            let handle = self.data_handle(index.bytes(place.value))?;
            let block = self.block_by(handle, fetch)?;
            let in_block = |malformed| self.corruption(handle, malformed);
            let (mut entries, mut entry) = Probe::find(&block, &self.order, key, at).map_err(in_block)?;
            while let Some(hit) = entry {
                if !hit.is_target {
                    return Ok(TableGet::Absent);
                }
                if alive(hit.version) {
                    let value = block.slice(hit.value);
                    return Ok(TableGet::Found { version: hit.version, kind: hit.kind, value });
                }
                entry = entries.next().map_err(in_block)?;
            }
            // The key can continue in the next block only if this block's index entry has the same
            // key.
            found = if place.is_target { places.next().map_err(in_index)? } else { None };
        }
        Ok(TableGet::Absent)
    }

    /// True if the filter does not exclude a key of this hash. Without a filter, always true.
    pub(crate) fn may_contain<F: Fetch>(&self, hash: u64, fetch: &F) -> Result<bool, F::Stop> {
        let Some(filter) = self.filter else { return Ok(true) };
        let FilterPlace { page, line, .. } = filter.place_of(hash);
        Ok(bloom::may_contain_in_line(&self.plain_block(page, fetch)?, line, hash))
    }

    /// True if there is a filter.
    pub(crate) fn has_filter(&self) -> bool {
        self.filter.is_some()
    }

    /// Length in the file of the block that has `key`, or would have it; `None` if `key` is after
    /// all entries.
    pub(crate) fn block_bytes_for(&self, key: &[u8]) -> Result<Option<u64>> {
        let index = self.index()?;
        let in_index = |malformed| self.corruption(self.footer.index, malformed);
        let Some(place) = Probe::find(&index, &self.order, key, u64::MAX).map_err(in_index)?.1 else {
            return Ok(None);
        };
        Ok(Some(self.data_handle(index.bytes(place.value))?.payload_bytes))
    }

    /// Walks all entries, and caches the blocks that it reads.
    pub(crate) fn cursor(self: &Arc<Self>) -> TableCursor {
        TableCursor::new(self.clone(), true)
    }

    /// Walks all entries for a job that passes once: uses cached blocks, caches nothing, and reads
    /// ahead.
    pub(crate) fn cursor_without_cache(self: &Arc<Self>) -> TableCursor {
        TableCursor::new(self.clone(), false)
    }

    /// Approximate offset in the file of `key`, or of its place: the start of its block. For size
    /// estimates.
    pub(crate) fn offset_of(&self, key: &[u8]) -> Result<u64> {
        let index = self.index()?;
        let in_index = |malformed| self.corruption(self.footer.index, malformed);
        match Probe::find(&index, &self.order, key, u64::MAX).map_err(in_index)?.1 {
            Some(place) => Ok(self.data_handle(index.bytes(place.value))?.offset),
            None => Ok(self.footer.filter.offset),
        }
    }

    /// The range of the file with the blocks of entries.
    pub(crate) fn data(&self) -> Range<u64> {
        HEADER_BYTES..self.footer.filter.offset
    }

    /// The same with the precision of an entry: the place where the entries of `key` begin or would
    /// begin, or where they end if `behind`. Reads a block.
    pub(crate) fn place_of(&self, key: &[u8], behind: bool) -> Result<u64> {
        // Version 0 is after all versions that a key may have.
        let version = if behind { 0 } else { u64::MAX };
        let index = self.index()?;
        let in_index = |malformed| self.corruption(self.footer.index, malformed);
        let Some(place) = Probe::find(&index, &self.order, key, version).map_err(in_index)?.1 else {
            return Ok(self.footer.filter.offset);
        };
        let handle = self.data_handle(index.bytes(place.value))?;
        let mut block = BlockCursor::new(self.block(handle)?, self.order.clone());
        block.seek_version(key, version).map_err(|malformed| self.corruption(handle, malformed))?;
        Ok(handle.offset + (handle.framed_bytes() as f64 * block.share_before()) as u64)
    }

    /// A block that has no entries, through the cache.
    pub(super) fn plain_block<F: Fetch>(&self, handle: Handle, fetch: &F) -> Result<Bytes, F::Stop> {
        self.plain_block_by(handle, fetch, || self.fetch_payload(handle, fetch))
    }

    /// The same, read from the file by `load`.
    pub(super) fn plain_block_by<F: Fetch>(
        &self,
        handle: Handle,
        fetch: &F,
        load: impl FnOnce() -> Result<Bytes, F::Stop>,
    ) -> Result<Bytes, F::Stop> {
        let load = || load().map(CacheValue::Bytes);
        match fetch.entry(&self.cache, self.header.file, handle.offset, load)? {
            CacheValue::Bytes(page) => Ok(page),
            CacheValue::Block(_) => self.fetch_payload(handle, fetch),
        }
    }

    /// The index, through the cache.
    pub(super) fn index(&self) -> Result<Arc<Block>> {
        self.block(self.footer.index)
    }

    /// A block, through the cache.
    pub(super) fn block(&self, handle: Handle) -> Result<Arc<Block>> {
        self.block_by(handle, &Directly)
    }

    fn block_by<F: Fetch>(&self, handle: Handle, fetch: &F) -> Result<Arc<Block>, F::Stop> {
        let load = || Ok(self.parse(handle, self.fetch_payload(handle, fetch)?)?);
        let load_entry = || load().map(CacheValue::Block);
        match fetch.entry(&self.cache, self.header.file, handle.offset, load_entry)? {
            CacheValue::Block(block) => Ok(block),
            CacheValue::Bytes(_) => load(),
        }
    }

    /// A block, if it is cached; counts as a use.
    pub(super) fn use_cached(&self, handle: Handle) -> Option<Arc<Block>> {
        match self.cache.get(self.header.file, handle.offset) {
            Some(CacheValue::Block(block)) => Some(block),
            _ => None,
        }
    }

    pub(super) fn cache_block(&self, handle: Handle, block: &Arc<Block>) {
        self.cache.insert(self.header.file, handle.offset, CacheValue::Block(block.clone()));
    }

    /// A block, if it is cached; does not count as a use.
    pub(super) fn cached_block(&self, handle: Handle) -> Option<Arc<Block>> {
        match self.cache.peek(self.header.file, handle.offset) {
            Some(CacheValue::Block(block)) => Some(block),
            _ => None,
        }
    }

    pub(super) fn parse(&self, handle: Handle, bytes: Bytes) -> Result<Arc<Block>> {
        Block::parse(bytes, self.header.base_version)
            .map(Arc::new)
            .map_err(|malformed| self.corruption(handle, malformed))
    }

    /// The handle in an index entry: of a block among the data.
    pub(super) fn data_handle(&self, value: &[u8]) -> Result<Handle> {
        Handle::decode(value, HEADER_BYTES, self.footer.filter.offset)
            .map_err(|malformed| self.corruption(self.footer.index, malformed))
    }

    /// Reads a part of the file, checks it, and decompresses it.
    pub(super) fn read_payload(&self, handle: Handle) -> Result<Bytes> {
        self.fetch_payload(handle, &Directly)
    }

    fn fetch_payload<F: Fetch>(&self, handle: Handle, fetch: &F) -> Result<Bytes, F::Stop> {
        let (offset, len) = (handle.offset, handle.framed_bytes());
        let place = Place { file: self.header.file, offset, len };
        let read = || self.read_bytes(offset, len).map(Bytes::from);
        let framed = fetch.bytes(place, || self.file.handle(), read)?;
        Ok(payload_of(framed, &self.path, &self.header, handle)?)
    }

    /// Reads bytes as they are in the file.
    pub(super) fn read_bytes(&self, offset: u64, bytes: u64) -> Result<Vec<u8>> {
        self.file.with(|file| read(file, &self.path, offset, bytes))
    }

    /// Asks the device for bytes that will be read soon. An error is left to the read.
    pub(super) fn prefetch(&self, offset: u64, bytes: u64) {
        let _ = self.file.with(|file| {
            file.prefetch(offset, bytes);
            Ok(())
        });
    }

    pub(super) fn corruption(&self, handle: Handle, Malformed(what): Malformed) -> Error {
        Error::corruption(&self.path, handle.offset, what)
    }
}

/// Fails unless the header is that of the file `expected.1` of the store `expected.0`.
pub(super) fn check_identity(header: &FileHeader, path: &Path, expected: (u128, u64)) -> Result<()> {
    let (store, file) = expected;
    if header.store != store {
        let what = format!("the file belongs to store {:032x}, not to {store:032x}", header.store);
        return Err(Error::corruption(path, 16, what));
    }
    if header.file != file {
        let what = format!("the file is number {}, not number {file}", header.file);
        return Err(Error::corruption(path, 32, what));
    }
    Ok(())
}

/// Reads footer and properties.
pub(super) fn read_description(
    file: &dyn VfsFile,
    path: &Path,
    header: &FileHeader,
) -> Result<(Footer, TableMeta)> {
    read_properties(file, path, header).map(|(footer, (meta, _))| (footer, meta))
}

/// The lineage of a table, which is not kept in memory; `None` if the table has none.
pub(crate) fn read_lineage(file: &dyn VfsFile, path: &Path, header: &FileHeader) -> Result<Option<Lineage>> {
    read_properties(file, path, header).map(|(_, (_, lineage))| lineage)
}

/// The first and the last key of a table; `None` if it has no entries.
pub(crate) fn read_bounds(
    file: &dyn VfsFile,
    path: &Path,
    header: &FileHeader,
) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
    let (_, meta) = read_description(file, path, header)?;
    Ok((meta.entries > 0).then_some((meta.smallest, meta.largest)))
}

fn read_properties(
    file: &dyn VfsFile,
    path: &Path,
    header: &FileHeader,
) -> Result<(Footer, (TableMeta, Option<Lineage>))> {
    let file_bytes = file.len().map_err(|source| Error::io(Attempt::Measure, path, source))?;
    let tail_offset = file_bytes.saturating_sub(TAIL_BYTES).max(HEADER_BYTES);
    let tail = read(file, path, tail_offset, file_bytes.saturating_sub(tail_offset))?;
    let before_footer = (tail.len() as u64).checked_sub(footer_bytes(&tail));
    let Some(before_footer) = before_footer else {
        return Err(Error::corruption(path, file_bytes, "the table is cut off before its footer"));
    };
    let footer_offset = tail_offset + before_footer;
    let (before_footer, footer) = tail.split_at(before_footer as usize);
    let footer = Footer::decode(header, path, footer_offset, footer)?;
    let Handle { offset, .. } = footer.properties;
    let properties = match offset.checked_sub(tail_offset) {
        Some(start) => {
            let framed = &before_footer[start as usize..];
            let block = unframe(header, path, offset, framed)?;
            block.unwrap_or_else(|| {
                Bytes::copy_from_slice(&framed[..footer.properties.payload_bytes as usize])
            })
        }
        None => read_payload(file, path, header, footer.properties)?,
    };
    let described = TableMeta::decode(&properties, header.base_version, file_bytes)
        .map_err(|Malformed(what)| Error::corruption(path, offset, what))?;
    Ok((footer, described))
}

fn read_payload(file: &dyn VfsFile, path: &Path, header: &FileHeader, handle: Handle) -> Result<Bytes> {
    let framed = read(file, path, handle.offset, handle.framed_bytes())?;
    payload_of(framed.into(), path, header, handle)
}

/// Checks a part of the file, and decompresses it.
fn payload_of(framed: Bytes, path: &Path, header: &FileHeader, handle: Handle) -> Result<Bytes> {
    match unframe(header, path, handle.offset, &framed)? {
        Some(block) => Ok(block),
        None => Ok(framed.slice(..handle.payload_bytes as usize)),
    }
}

/// Reads a range that lies within the file's length at the time when the table was opened.
pub(super) fn read(file: &dyn VfsFile, path: &Path, offset: u64, bytes: u64) -> Result<Vec<u8>> {
    let mut buffer = vec![0; bytes as usize];
    file.read_exact_at(&mut buffer, offset).map_err(|source| match source.kind() {
        io::ErrorKind::UnexpectedEof => Error::corruption(path, offset, "the file ends within a block"),
        _ => Error::io(Attempt::Read, path, source),
    })?;
    Ok(buffer)
}
