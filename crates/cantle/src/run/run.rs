//! One run: a sorted table or an indexed log, limited to a span of keys.

use super::dropped_ranges::{DroppedRange, DroppedRanges};
use crate::files::{StoreFile, Totals};
use crate::log::segment::Segment;
use crate::mvcc::CommitCell;
use crate::sync::Arc;
use crate::sync::atomic::Ordering::Relaxed;
use crate::table::{Referred, TableHandle};
use crate::types::order::KeyOrder;
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
    /// Boxed, as the next field is: few runs have either.
    pub dropped: Option<Box<Dropped>>,
    /// Parts of the span that are dropped.
    pub dropped_ranges: Option<Arc<DroppedRanges>>,
    /// This chunk's share of a shared file in bytes; `None` for all of it.
    pub share_bytes: Option<u64>,
}

/// A part of which every log has more unclaimed.
pub const ANY_PART: f64 = -1.0;

/// True if more than this part of a log belongs to no share: the merges that meet its other values copy them.
pub fn is_sparse(log: &StoreFile, part: f64) -> bool {
    log.claims.unclaimed_bytes() as f64 > part * log.bytes() as f64
}

/// The portion of a file's unclaimed bytes that one with this share of it keeps on disk: in proportion to its
/// share of the claimed ones.
fn portion_of_unclaimed(file: &StoreFile, share_bytes: u64) -> u64 {
    let unclaimed = file.claims.unclaimed_bytes();
    let claimed = file.bytes().saturating_sub(unclaimed).max(1);
    (unclaimed as f64 * (share_bytes as f64 / claimed as f64).min(1.0)) as u64
}

/// Removes a reference with a share of the file; true if that made the file obsolete.
fn release_share(file: &Arc<StoreFile>, share_bytes: u64, totals: &Totals) -> bool {
    let mut change = file.claims.unclaim(share_bytes);
    let last = file.release();
    if last {
        change += file.claims.end();
    }
    totals.unclaimed_bytes.fetch_add(change, Relaxed);
    last
}

impl Run {
    pub fn log(&self) -> Option<&Arc<Segment>> {
        match &self.source {
            Source::Log(segment) => Some(segment),
            Source::Table(_) => None,
        }
    }

    /// True for a table that only says which files it replaces.
    pub fn is_empty_table(&self) -> bool {
        matches!(&self.source, Source::Table(table) if table.is_empty())
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

    /// True for the same keys of the same file, whatever of them is dropped.
    pub fn is_same(&self, other: &Self) -> bool {
        self.file().id == other.file().id && self.span == other.span
    }

    /// The same file for a chunk that has a part of its keys, and `share_bytes` of its bytes.
    pub fn part(&self, span: Span, share_bytes: u64) -> Self {
        Self { span: span.into(), share_bytes: Some(share_bytes), ..self.clone() }
    }

    /// The same run, marked as a whole if one dropped range covers it.
    pub fn dropped_whole(self, order: &KeyOrder) -> Self {
        let only = self.dropped_ranges.as_ref().filter(|ranges| ranges.list().len() == 1);
        let whole = only.filter(|ranges| ranges.covers_from(order, &self.span).is_some());
        let Some(range) = whole.and_then(|ranges| ranges.list().first()) else { return self };
        let dropped = Dropped { version: range.version, batch: range.batch, cell: None };
        Self { dropped: Some(Box::new(dropped)), dropped_ranges: None, ..self }
    }

    /// The same run with the parts of its dropped ranges that lie within its span.
    pub fn clip_dropped_ranges(self, order: &KeyOrder) -> Self {
        let ranges = self.dropped_ranges.as_ref();
        Self { dropped_ranges: ranges.and_then(|ranges| ranges.clipped(order, &self.span)), ..self }
    }

    pub fn bytes(&self) -> u64 {
        self.share_bytes.unwrap_or_else(|| match &self.source {
            Source::Log(segment) => segment.len(),
            Source::Table(table) => table.file.bytes(),
        })
    }

    /// The logs that the run's table refers to for values.
    pub fn referred(&self) -> &[Referred] {
        match &self.source {
            Source::Table(table) => &table.referred,
            Source::Log(_) => &[],
        }
    }

    /// The least number of its files that stay although other keys than its own are replaced: a shared one, and
    /// the logs that it refers to.
    pub fn least_left(&self) -> Option<u64> {
        let shared = self.share_bytes.map(|_| self.file().id);
        shared.into_iter().chain(self.referred().iter().map(|referred| referred.log.id)).min()
    }

    /// The part of its file that is its own, at most 1.
    fn part_of_file(&self) -> f64 {
        let of = |share_bytes: u64| (share_bytes as f64 / self.file().bytes().max(1) as f64).min(1.0);
        self.share_bytes.map_or(1.0, of)
    }

    /// The run's share of each log that its table refers to, in bytes.
    fn shares_of_logs(&self) -> impl Iterator<Item = (&Arc<StoreFile>, u64)> {
        let part = self.part_of_file();
        // At least one byte, so that somebody has a portion of what is unclaimed.
        self.referred()
            .iter()
            .map(move |Referred { log, bytes }| (log, ((*bytes as f64 * part) as u64).max(1)))
    }

    /// Bytes of the values that a merge copies from logs of which more than this part is garbage.
    pub fn copied_bytes(&self, sparse: f64) -> u64 {
        self.shares_of_logs().filter(|(log, _)| is_sparse(log, sparse)).map(|(_, bytes)| bytes).sum()
    }

    /// Bytes of the records in logs that the run refers to for values.
    pub fn referred_bytes(&self) -> u64 {
        self.shares_of_logs().map(|(_, bytes)| bytes).sum()
    }

    /// Bytes of the run and of the values that it refers to, for each of its own, at least 1.
    pub fn whole_per_byte(&self) -> f64 {
        let file_bytes = self.file().bytes().max(1) as f64;
        1.0 + self.referred().iter().map(|log| log.bytes as f64).sum::<f64>() / file_bytes
    }

    /// Bytes of the run and of the values that it refers to.
    pub fn whole_bytes(&self) -> u64 {
        self.bytes() + self.referred_bytes()
    }

    /// Counts a reference of a chunk to the file, and to the logs that its table refers to.
    pub fn retain(&self, totals: &Totals) {
        for (log, bytes) in self.shares_of_logs() {
            canary!(REFERRED_LOG_UNCOUNTED => continue);
            log.retain();
            totals.unclaimed_bytes.fetch_add(log.claims.claim(bytes, log.bytes()), Relaxed);
        }
        self.file().retain();
        if let Some(share_bytes) = self.share_bytes {
            let change = self.file().claims.claim(share_bytes, self.file().bytes());
            totals.unclaimed_bytes.fetch_add(change, Relaxed);
        }
    }

    /// Removes a chunk's reference to the file, and to the logs that its table refers to; true if that made
    /// the file obsolete.
    pub fn release(&self, totals: &Totals) -> bool {
        for (log, bytes) in self.shares_of_logs() {
            canary!(REFERRED_LOG_UNCOUNTED => continue);
            release_share(log, bytes, totals);
        }
        release_share(self.file(), self.share_bytes.unwrap_or(0), totals)
    }

    /// The chunk's portion of the unclaimed bytes of its file and of the logs that it refers to.
    pub fn unclaimed_bytes(&self) -> u64 {
        self.freeable_unclaimed_bytes(ANY_PART)
    }

    /// The part of them that merges free which copy values from logs that are sparse by this measure.
    pub fn freeable_unclaimed_bytes(&self, sparse: f64) -> u64 {
        let own = self.share_bytes.map_or(0, |share_bytes| portion_of_unclaimed(self.file(), share_bytes));
        let logs = self.shares_of_logs().filter(|(log, _)| is_sparse(log, sparse));
        own + logs.map(|(log, bytes)| portion_of_unclaimed(log, bytes)).sum::<u64>()
    }

    /// True if one of these snapshots reads from the file; always true if it was not dropped.
    pub fn is_needed(&self, open_versions: &[u64]) -> bool {
        let Some(dropped) = &self.dropped else { return true };
        self.is_seen_before(dropped.version, open_versions)
    }

    /// True if one of these snapshots reads a dropped range of the file.
    pub fn is_range_needed(&self, range: &DroppedRange, open_versions: &[u64]) -> bool {
        self.is_seen_before(range.version, open_versions)
    }

    /// True if one of these snapshots is older than `version`, and may see entries of the file.
    fn is_seen_before(&self, version: u64, open_versions: &[u64]) -> bool {
        let base_version = match &self.source {
            Source::Log(segment) => segment.loaded().map_or(0, |parts| parts.header.base_version),
            Source::Table(table) => table.base_version,
        };
        let first = open_versions.partition_point(|&at| at < base_version);
        open_versions.get(first).is_some_and(|&at| at < version)
    }

    /// True if a read at `at` finds nothing of the key, because it is in a dropped range.
    pub fn is_dropped_at(&self, order: &KeyOrder, key: &[u8], at: u64) -> bool {
        let range = self.dropped_ranges.as_ref().and_then(|ranges| ranges.at(order, key));
        range.is_some_and(|range| range.version <= at)
    }

    /// The part of its bytes that is in no dropped range, at most 1.
    pub fn kept_part(&self) -> f64 {
        let Some(ranges) = &self.dropped_ranges else { return 1.0 };
        1.0 - (ranges.bytes() as f64 / self.bytes().max(1) as f64).min(1.0)
    }

    /// Estimated bytes in dropped ranges that no snapshot from this version on sees, with the values that they
    /// refer to.
    pub fn dropped_bytes(&self, oldest_snapshot: u64) -> u64 {
        (self.dropped_inline_bytes(oldest_snapshot) as f64 * self.whole_per_byte()) as u64
    }

    /// The part of them that is in the run's own file.
    pub fn dropped_inline_bytes(&self, oldest_snapshot: u64) -> u64 {
        let ranges = self.dropped_ranges.iter().flat_map(|ranges| ranges.list());
        let bytes = ranges.filter(|range| range.version <= oldest_snapshot).map(|range| range.bytes);
        bytes.fold(0, u64::saturating_add).min(self.bytes())
    }

    /// True if a read at `at` must search the file for keys of the span.
    pub fn is_visible(&self, at: u64) -> bool {
        self.dropped.as_ref().is_none_or(|dropped| !dropped.is_visible(at))
    }
}
