//! Reads a whole table and reports everything that is wrong with it.

use super::filter::FilterPlace;
use super::frame::Handle;
use super::properties::TableMeta;
use super::reader::{Table, check_identity, read_description};
use crate::block::{BlockCursor, entry_order};
use crate::filter::bloom;
use crate::format::codec::Malformed;
use crate::format::header::{FileHeader, FileKind, HEADER_BYTES};
use crate::records::user_bytes;
use crate::sync::Arc;
use crate::types::entry::EntryRef;
use crate::types::error::{Error, Result};
use bytes::Bytes;
use std::cmp::Ordering;

/// Sums over the data blocks walked so far.
struct Walk {
    /// The properties that the table should have.
    meta: TableMeta,
    last_version: u64,
    /// Key and version of the previous block's index entry.
    separator: Option<(Vec<u8>, u64)>,
    /// True if every block could be read, so that sums can be compared.
    complete: bool,
}

impl Table {
    /// Reads everything from the file, bypassing the cache, and reports each damage with its
    /// offset, continuing after it. Returns the number of entries that could be read. Fails only if
    /// the file cannot be read at all.
    pub(crate) fn verify(&self, report: &mut dyn FnMut(Error)) -> Result<u64> {
        let identity = (self.header.store, self.header.file);
        let described = self.file.with(|file| {
            check_identity(&FileHeader::read(file, &self.path, FileKind::Table)?, &self.path, identity)?;
            read_description(file, &self.path, &self.header)
        });
        let described = caught(described, report)?;
        let filter = self.verify_filter(report)?;
        let index =
            self.read_payload(self.footer.index).and_then(|bytes| self.parse(self.footer.index, bytes));
        let Some(index) = caught(index, report)? else { return Ok(0) };

        let mut walk = Walk {
            meta: TableMeta {
                file_bytes: self.meta().file_bytes,
                ..TableMeta::empty(self.header.base_version)
            },
            last_version: 0,
            separator: None,
            complete: true,
        };
        let mut places = BlockCursor::new(index, self.order.clone());
        let mut end = HEADER_BYTES;
        let mut step = places.seek_to_first();
        loop {
            if let Err(malformed) = step {
                report(self.corruption(self.footer.index, malformed));
                return Ok(walk.meta.entries);
            }
            let Some(place) = places.entry() else { break };
            match self.data_handle(places.value_bytes()) {
                Ok(handle) => {
                    if handle.offset != end {
                        let what = format!(
                            "the index leaves a gap or overlap before the block at {}",
                            handle.offset
                        );
                        report(Error::corruption(&self.path, end, what));
                    }
                    end = handle.end();
                    self.verify_block(handle, place, &filter, &mut walk, report)?;
                    walk.separator = Some((place.key.to_vec(), place.version));
                }
                Err(error) => {
                    walk.complete = false;
                    report(error);
                }
            }
            step = places.next();
        }
        if end != self.footer.filter.offset {
            report(Error::corruption(&self.path, end, "the index does not reach the end of the data"));
        }
        walk.complete &= self.verify_ranges(&mut walk.meta, report, caught)?;
        if let Some((_, described)) = described
            && walk.complete
            && described != walk.meta
        {
            let what = "the properties do not describe the entries";
            report(Error::corruption(&self.path, self.footer.properties.offset, what));
        }
        Ok(walk.meta.entries)
    }

    /// Reads all pages of the filter. A damaged one is reported and replaced by a page that
    /// excludes nothing.
    fn verify_filter(&self, report: &mut dyn FnMut(Error)) -> Result<Vec<Bytes>> {
        let part = self.footer.filter;
        let Some(pages) = self.filter else {
            if caught(self.read_payload(part), report)?.is_some_and(|payload| !payload.is_empty()) {
                report(self.corruption(part, Malformed("the filter's length is that of no pages")));
            }
            return Ok(Vec::new());
        };
        pages.pages().map(|page| Ok(caught(self.read_payload(page), report)?.unwrap_or_default())).collect()
    }

    /// True if the readable pages of the filter do not exclude a key of this hash.
    fn passes(&self, pages: &[Bytes], hash: u64) -> bool {
        let Some(filter) = self.filter else { return true };
        let FilterPlace { number, line, .. } = filter.place_of(hash);
        pages.get(number as usize).is_none_or(|page| bloom::may_contain_in_line(page, line, hash))
    }

    /// Reads the block of one index entry.
    fn verify_block(
        &self,
        handle: Handle,
        place: EntryRef<'_>,
        filter: &[Bytes],
        walk: &mut Walk,
        report: &mut dyn FnMut(Error),
    ) -> Result<()> {
        let block = self.read_payload(handle).and_then(|bytes| self.parse(handle, bytes));
        let Some(block) = caught(block, report)? else {
            walk.complete = false;
            return Ok(());
        };
        if let Err(malformed) =
            self.walk_block(BlockCursor::new(Arc::clone(&block), self.order.clone()), filter, walk)
        {
            walk.complete = false;
            report(self.corruption(handle, malformed));
        }
        let beyond =
            entry_order(&self.order, &walk.meta.largest, walk.last_version, place.key, place.version);
        if walk.meta.entries > 0 && beyond == Ordering::Greater {
            report(self.corruption(handle, Malformed("a block goes beyond its place in the index")));
        }
        Ok(())
    }

    fn walk_block(
        &self,
        mut entries: BlockCursor,
        filter: &[Bytes],
        walk: &mut Walk,
    ) -> Result<(), Malformed> {
        let mut disorder = false;
        let mut unfiltered = false;
        entries.seek_to_first()?;
        if entries.entry().is_none() {
            return Err(Malformed("a block has no entries"));
        }
        if let (Some(first), Some((key, version))) = (entries.entry(), &walk.separator) {
            disorder |=
                entry_order(&self.order, key, *version, first.key, first.version) == Ordering::Greater;
        }
        while let Some(entry) = entries.entry() {
            let meta = &mut walk.meta;
            if meta.entries == 0 {
                meta.smallest = entry.key.to_vec();
            } else {
                let last =
                    entry_order(&self.order, &meta.largest, walk.last_version, entry.key, entry.version);
                disorder |= last == Ordering::Greater;
            }
            unfiltered |= !self.passes(filter, bloom::hash(entry.key));
            meta.add_version(entry.version);
            meta.entries += 1;
            meta.user_bytes += user_bytes(entry.key, entry.kind, entries.value_bytes())?;
            meta.tombstones += u64::from(!entry.kind.is_put());
            meta.largest.clear();
            meta.largest.extend_from_slice(entry.key);
            walk.last_version = entry.version;
            entries.next()?;
        }
        match (disorder, unfiltered) {
            (true, _) => Err(Malformed("entries are out of order")),
            (_, true) => Err(Malformed("the filter denies a key that is there")),
            _ => Ok(()),
        }
    }
}

/// Reports damage, and returns other errors.
fn caught<T>(result: Result<T>, report: &mut dyn FnMut(Error)) -> Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.is_corruption() || matches!(error, Error::UnsupportedFormat { .. }) => {
            report(error);
            Ok(None)
        }
        Err(error) => Err(error),
    }
}
