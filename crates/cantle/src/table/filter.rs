//! The places of the pages of a table's filter.
//!
//! ```text
//!   ├──────────────────┼───────┼──────────────────┼───────┼─ … ─┼────────────────┼───────┤
//!   │ 64 lines, probes │trailer│ 64 lines, probes │trailer│     │1 to 64, probes │trailer│
//! ```
//!
//! A probe reads the one page that its hash names. Damage in a page concerns the keys of that page only.

use super::frame::{Handle, TRAILER_BYTES};
use crate::filter::bloom::{self, PAGE_BYTES, PAGE_LINES};

/// The pages of a filter: all have the same length, except the last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FilterPages {
    start: u64,
    lines: u64,
}

/// A page, and the line in it with the bits of one key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FilterPlace {
    /// The number of the page, from 0.
    pub(super) number: u64,
    pub(super) page: Handle,
    pub(super) line: usize,
}

impl FilterPages {
    /// The pages that make up this part of a file. `None` if it is empty, or has a length that no
    /// pages have: it then excludes nothing.
    pub(super) fn of(part: Handle) -> Option<Self> {
        let lines = bloom::lines_in_pages(part.framed_bytes(), TRAILER_BYTES)?;
        Some(Self { start: part.offset, lines })
    }

    /// The place of a key with this hash.
    #[inline]
    pub(super) fn place_of(self, hash: u64) -> FilterPlace {
        let (number, line) = bloom::page_of(hash, self.lines);
        FilterPlace { number, page: self.page(number), line }
    }

    /// All pages, in the order of their places.
    pub(super) fn pages(self) -> impl Iterator<Item = Handle> {
        (0..self.lines.div_ceil(PAGE_LINES as u64)).map(move |page| self.page(page))
    }

    fn page(self, page: u64) -> Handle {
        let lines = (self.lines - page * PAGE_LINES as u64).min(PAGE_LINES as u64);
        let whole_bytes = PAGE_BYTES as u64;
        let short_bytes = (PAGE_LINES as u64 - lines) * (whole_bytes - 1) / PAGE_LINES as u64;
        let offset = self.start + page * (whole_bytes + TRAILER_BYTES);
        Handle { offset, payload_bytes: whole_bytes - short_bytes }
    }
}
