//! The bytes of one file: a sparse map of 4 KiB pages that copies share until one of them is written.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use xxhash_rust::xxh3::Xxh3;

/// Length of a page in bytes: the unit of sharing and of space accounting, and of write-back from a
/// page cache.
pub(super) const PAGE_BYTES: u64 = 4096;

type Page = [u8; PAGE_BYTES as usize];

/// A file's bytes. Pages that are not in the map read as zeros; bytes of a page beyond `len` are zero.
#[derive(Clone, Default)]
pub(super) struct Content {
    pages: BTreeMap<u64, Arc<Page>>,
    len: u64,
    /// Pages below this index take space even if they were not written.
    reserved_pages: u64,
}

impl Content {
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// Number of pages of space that the file takes.
    pub(super) fn occupied_pages(&self) -> u64 {
        self.reserved_pages + self.pages.range(self.reserved_pages..).count() as u64
    }

    /// True if a write to page `index` takes no more space.
    pub(super) fn occupies(&self, index: u64) -> bool {
        index < self.reserved_pages || self.pages.contains_key(&index)
    }

    /// Adds the length and all bytes except zeros to a hash.
    pub(super) fn hash(&self, hash: &mut Xxh3) {
        hash.update(&self.len.to_le_bytes());
        for (index, page) in &self.pages {
            if page.iter().any(|&byte| byte != 0) {
                hash.update(&index.to_le_bytes());
                hash.update(&page[..]);
            }
        }
    }

    pub(super) fn read_at(&self, buffer: &mut [u8], offset: u64) -> usize {
        let wanted = self.len.saturating_sub(offset).min(buffer.len() as u64);
        let buffer = &mut buffer[..wanted as usize];
        for slice in page_slices(offset, buffer.len()) {
            let target = &mut buffer[slice.start..slice.end];
            match self.pages.get(&slice.page) {
                Some(page) => target.copy_from_slice(&page[slice.within..slice.within + target.len()]),
                None => target.fill(0),
            }
        }
        buffer.len()
    }

    /// Writes `bytes`; the caller has checked that their end lies below `i64::MAX`.
    pub(super) fn write_at(&mut self, bytes: &[u8], offset: u64) {
        for slice in page_slices(offset, bytes.len()) {
            let source = &bytes[slice.start..slice.end];
            let page = self.pages.entry(slice.page).or_insert_with(|| Arc::new([0; PAGE_BYTES as usize]));
            Arc::make_mut(page)[slice.within..slice.within + source.len()].copy_from_slice(source);
        }
        if !bytes.is_empty() {
            self.len = self.len.max(offset + bytes.len() as u64);
        }
    }

    pub(super) fn set_len(&mut self, len: u64) {
        if len < self.len {
            let kept_pages = len.div_ceil(PAGE_BYTES);
            drop(self.pages.split_off(&kept_pages));
            self.reserved_pages = self.reserved_pages.min(kept_pages);
            let within = (len % PAGE_BYTES) as usize;
            if within > 0
                && let Some(page) = self.pages.get_mut(&(len / PAGE_BYTES))
            {
                Arc::make_mut(page)[within..].fill(0);
            }
        }
        self.len = len;
    }

    /// Extends the file to `len` bytes if it is shorter, and reserves their pages.
    pub(super) fn reserve(&mut self, len: u64) {
        self.len = self.len.max(len);
        self.reserved_pages = self.reserved_pages.max(len.div_ceil(PAGE_BYTES));
    }

    /// The result of `occupied_pages` after `reserve(len)`.
    pub(super) fn occupied_pages_if_reserved(&self, len: u64) -> u64 {
        let reserved = self.reserved_pages.max(len.div_ceil(PAGE_BYTES));
        reserved + self.pages.range(reserved..).count() as u64
    }

    /// Shares the pages that `bytes` bytes at `offset` touch with `newer`, as the write-back of
    /// dirty pages does. Does not change the length.
    pub(super) fn take_pages(&mut self, newer: &Self, offset: u64, bytes: u64) {
        if bytes == 0 {
            return;
        }
        for index in offset / PAGE_BYTES..=(offset + bytes - 1) / PAGE_BYTES {
            match newer.pages.get(&index) {
                Some(page) => self.pages.insert(index, Arc::clone(page)),
                None => self.pages.remove(&index),
            };
        }
    }

    /// Overwrites with zeros all bytes from `from` on, in the units (of `unit_bytes`, a divisor of
    /// the page) that `chosen` picks. Does not change the length.
    pub(super) fn zero_units(&mut self, from: u64, unit_bytes: u64, chosen: impl Fn(u64) -> bool) {
        for (index, page) in self.pages.range_mut(from / PAGE_BYTES..) {
            let page_start = index * PAGE_BYTES;
            for within in (0..PAGE_BYTES).step_by(unit_bytes as usize) {
                let start = (page_start + within).max(from);
                let end = page_start + within + unit_bytes;
                if start < end && chosen((page_start + within) / unit_bytes) {
                    let range = (start - page_start) as usize..(end - page_start) as usize;
                    Arc::make_mut(page)[range].fill(0);
                }
            }
        }
    }
}

impl fmt::Debug for Content {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Content").field("len", &self.len).field("pages", &self.pages.len()).finish()
    }
}

/// The part of a buffer that falls into one page.
pub(super) struct PageSlice {
    pub(super) page: u64,
    within: usize,
    pub(super) start: usize,
    pub(super) end: usize,
}

/// Cuts a buffer of `len` bytes for `offset` at the page boundaries.
pub(super) fn page_slices(offset: u64, len: usize) -> impl Iterator<Item = PageSlice> {
    let mut start = 0;
    std::iter::from_fn(move || {
        if start == len {
            return None;
        }
        let at = offset + start as u64;
        let within = (at % PAGE_BYTES) as usize;
        let end = len.min(start + PAGE_BYTES as usize - within);
        let slice = PageSlice { page: at / PAGE_BYTES, within, start, end };
        start = end;
        Some(slice)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cut_bytes_read_as_zeros_when_the_file_grows_again() {
        let mut content = Content::default();
        content.write_at(&[7; 10_000], 0);
        content.set_len(5_000);
        content.set_len(9_000);
        let mut bytes = [1; 10_000];
        assert_eq!(content.read_at(&mut bytes, 0), 9_000);
        assert!(bytes[..5_000].iter().all(|&byte| byte == 7));
        assert!(bytes[5_000..9_000].iter().all(|&byte| byte == 0));
    }

    #[test]
    fn a_copy_does_not_see_later_writes() {
        let mut content = Content::default();
        content.write_at(b"before", 4_094);
        let copy = content.clone();
        content.write_at(b"after!", 4_094);
        let mut bytes = [0; 6];
        copy.read_at(&mut bytes, 4_094);
        assert_eq!(&bytes, b"before");
    }

    #[test]
    fn sparse_and_reserved_pages_are_counted_once() {
        let mut content = Content::default();
        content.set_len(1 << 40);
        assert_eq!(content.occupied_pages(), 0);
        content.write_at(&[1], 3 * PAGE_BYTES);
        assert_eq!(content.occupied_pages(), 1);
        assert_eq!(content.occupied_pages_if_reserved(2 * PAGE_BYTES), 3);
        content.reserve(4 * PAGE_BYTES);
        assert_eq!(content.occupied_pages(), 4);
        assert!(content.occupies(0) && !content.occupies(4));
        content.set_len(PAGE_BYTES + 1);
        assert_eq!(content.occupied_pages(), 2);
    }
}
