//! One run: a sorted table or an indexed log, limited to a span of keys.

use crate::files::{StoreFile, Totals};
use crate::log::segment::Segment;
use crate::mvcc::CommitCell;
use crate::sync::Arc;
use crate::sync::atomic::Ordering::Relaxed;
use crate::table::TableHandle;
use crate::types::span::Span;

/// A mark that everything in a file was deleted, by a range delete that covered the whole chunk.
#[derive(Debug, Clone)]
pub struct Dropped {
    pub version: u64,
    /// The spanning batch that dropped it, or 0.
    pub batch: u64,
    pub cell: Option<CommitCell>,
}

impl Dropped {
    pub fn is_visible(&self, at: u64) -> bool {
        self.version <= at && self.cell.as_ref().is_none_or(CommitCell::is_committed)
    }
}

/// The file of a run.
#[derive(Clone)]
pub enum Source {
    Log(Arc<Segment>),
    Table(Arc<TableHandle>),
}

/// A file that the chunk reads, alone or shared with other chunks.
#[derive(Clone)]
pub struct Run {
    pub source: Source,
    /// Only keys in this span count: files may be shared.
    pub span: Arc<Span>,
    pub dropped: Option<Dropped>,
    /// This chunk's share of a shared file in bytes; `None` for all of it.
    pub share_bytes: Option<u64>,
}

impl Run {
    pub fn log(&self) -> Option<&Arc<Segment>> {
        match &self.source {
            Source::Log(segment) => Some(segment),
            Source::Table(_) => None,
        }
    }

    /// True if the run is this log.
    pub fn is_of(&self, segment: &Segment) -> bool {
        self.log().is_some_and(|log| std::ptr::eq(&**log, segment))
    }

    pub fn file(&self) -> &Arc<StoreFile> {
        match &self.source {
            Source::Log(segment) => &segment.file,
            Source::Table(table) => &table.file,
        }
    }

    /// The same file for a chunk that has a part of its keys, and `share_bytes` of its bytes.
    pub fn part(&self, span: Span, share_bytes: u64) -> Self {
        Self { span: span.into(), share_bytes: Some(share_bytes), ..self.clone() }
    }

    pub fn bytes(&self) -> u64 {
        self.share_bytes.unwrap_or_else(|| match &self.source {
            Source::Log(segment) => segment.len(),
            Source::Table(table) => table.file.bytes(),
        })
    }

    /// Counts a reference of a chunk to the file.
    pub fn retain(&self, totals: &Totals) {
        self.file().retain();
        if let Some(share_bytes) = self.share_bytes {
            let change = self.file().claims.claim(share_bytes, self.file().bytes());
            totals.unclaimed_bytes.fetch_add(change, Relaxed);
        }
    }

    /// Removes a chunk's reference to the file; true if that made the file obsolete.
    pub fn release(&self, totals: &Totals) -> bool {
        let claims = &self.file().claims;
        let mut change = claims.unclaim(self.share_bytes.unwrap_or(0));
        let last = self.file().release();
        if last {
            change += claims.end();
        }
        totals.unclaimed_bytes.fetch_add(change, Relaxed);
        last
    }

    /// The chunk's portion of the file's unclaimed bytes, in proportion to its share of the claimed
    /// ones: its reference keeps these bytes on disk.
    pub fn unclaimed_bytes(&self) -> u64 {
        let Some(share_bytes) = self.share_bytes else { return 0 };
        let unclaimed = self.file().claims.unclaimed_bytes();
        let claimed = self.file().bytes().saturating_sub(unclaimed).max(1);
        (unclaimed as f64 * (share_bytes as f64 / claimed as f64).min(1.0)) as u64
    }

    /// True if one of these snapshots reads from the file; always true if it was not dropped.
    pub fn is_needed(&self, open_versions: &[u64]) -> bool {
        let Some(dropped) = &self.dropped else { return true };
        let base_version = match &self.source {
            Source::Log(segment) => segment.loaded().map_or(0, |parts| parts.header.base_version),
            Source::Table(table) => table.base_version,
        };
        let first = open_versions.partition_point(|&at| at < base_version);
        open_versions.get(first).is_some_and(|&at| at < dropped.version)
    }

    /// True if a read at `at` must search the file for keys of the span.
    pub fn is_visible(&self, at: u64) -> bool {
        self.dropped.as_ref().is_none_or(|dropped| !dropped.is_visible(at))
    }
}
