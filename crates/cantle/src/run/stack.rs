//! A chunk's files (the paper's *funk*): log segments, newest first, and the sorted tables beneath them.
//!
//! A funk is immutable and replaced as a whole (`Chunk::funk`), so readers need no lock. A reader
//! that holds a funk sees everything that the chunk held when the funk was current; its active
//! segment goes on growing meanwhile. The order is that of age: an entry in an earlier source hides
//! the entries of its key in later ones.

use super::run::{Run, Source};
use crate::log::segment::Segment;
use crate::sync::Arc;
use crate::sync::atomic::Ordering::Relaxed;

/// The files of a chunk, newest first: logs, then tables.
#[derive(Clone, Default)]
pub struct RunStack {
    pub files: Vec<Run>,
}

/// Sizes of the contents of a funk's files.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct StackSizes {
    pub log_bytes: u64,
    /// The part of them that tables refer to for values.
    pub referred_bytes: u64,
    pub table_bytes: u64,
    pub tables: u32,
    /// Bytes of keys and values of all puts that were not dropped.
    pub user_bytes: u64,
    /// The part of `user_bytes` that is estimated to be overwritten or deleted.
    pub garbage_bytes: u64,
    /// Bytes of files that were dropped whole, and of dropped ranges.
    pub dropped_bytes: u64,
    /// Bytes of shared files that no chunk claims, divided among the chunks that share them.
    pub unclaimed_bytes: u64,
    /// Bytes of logs beside keys and values that tables would not need: a rebalance frees them.
    pub overhead_bytes: u64,
    /// Approximate number of puts.
    pub entries: u64,
}

/// Approximate bytes of a pair in a table beside its key and value.
const TABLE_PAIR_BYTES: u64 = 12;

impl StackSizes {
    pub fn add(&mut self, other: &Self) {
        self.log_bytes = self.log_bytes.saturating_add(other.log_bytes);
        self.referred_bytes = self.referred_bytes.saturating_add(other.referred_bytes);
        self.table_bytes = self.table_bytes.saturating_add(other.table_bytes);
        self.tables = self.tables.saturating_add(other.tables);
        self.user_bytes = self.user_bytes.saturating_add(other.user_bytes);
        self.garbage_bytes = self.garbage_bytes.saturating_add(other.garbage_bytes);
        self.dropped_bytes = self.dropped_bytes.saturating_add(other.dropped_bytes);
        self.unclaimed_bytes = self.unclaimed_bytes.saturating_add(other.unclaimed_bytes);
        self.entries = self.entries.saturating_add(other.entries);
        self.overhead_bytes = self.overhead_bytes.saturating_add(other.overhead_bytes);
    }
}

impl StackSizes {
    /// Bytes of keys and values that are not known to be garbage.
    pub fn live_bytes(&self) -> u64 {
        self.user_bytes.saturating_sub(self.garbage_bytes)
    }

    /// Average bytes of a put.
    pub fn usual_bytes(&self) -> u64 {
        self.user_bytes / self.entries.max(1)
    }

    /// Estimated number of puts that are not garbage.
    pub fn live_pairs(&self) -> u64 {
        (self.entries as f64 * (self.live_bytes() as f64 / self.user_bytes.max(1) as f64)) as u64
    }
}

impl RunStack {
    pub fn logs(&self) -> impl Iterator<Item = &Arc<Segment>> {
        self.files.iter().filter_map(Run::log)
    }

    /// Sorts in the operations that the newest parts of its logs have only noted, so that readers
    /// find them.
    pub fn merge_deferred(&self) {
        self.logs().for_each(|log| log.merge_deferred());
    }

    pub fn sizes(&self) -> StackSizes {
        let mut sizes = StackSizes::default();
        for file in &self.files {
            let bytes = file.bytes();
            sizes.unclaimed_bytes = sizes.unclaimed_bytes.saturating_add(file.unclaimed_bytes());
            match &file.source {
                Source::Log(segment) => {
                    sizes.log_bytes = sizes.log_bytes.saturating_add(bytes);
                    if file.dropped.is_none() {
                        // The contents of a shared log are assumed to be evenly spread.
                        let (len, kept) = (segment.len().max(1) as f64, file.kept_part());
                        let share = |total: u64| (total as f64 * bytes as f64 / len * kept) as u64;
                        let user_bytes = share(segment.user_bytes.load(Relaxed));
                        let entries = share(segment.puts.load(Relaxed));
                        let garbage_bytes = share(segment.garbage_bytes.load(Relaxed));
                        let sorted_bytes =
                            user_bytes.saturating_add(entries.saturating_mul(TABLE_PAIR_BYTES));
                        sizes.user_bytes = sizes.user_bytes.saturating_add(user_bytes);
                        sizes.garbage_bytes = sizes.garbage_bytes.saturating_add(garbage_bytes);
                        sizes.entries = sizes.entries.saturating_add(entries);
                        sizes.overhead_bytes = sizes
                            .overhead_bytes
                            .saturating_add(((bytes as f64 * kept) as u64).saturating_sub(sorted_bytes));
                    }
                }
                Source::Table(table) => {
                    sizes.table_bytes = sizes.table_bytes.saturating_add(bytes);
                    sizes.tables += 1;
                    let referred_bytes = file.referred_bytes();
                    sizes.referred_bytes = sizes.referred_bytes.saturating_add(referred_bytes);
                    sizes.log_bytes = sizes.log_bytes.saturating_add(referred_bytes);
                    if file.dropped.is_none() {
                        let (len, kept) = (table.file.bytes().max(1) as f64, file.kept_part());
                        let share = |total: u64| (total as f64 * bytes as f64 / len * kept) as u64;
                        sizes.user_bytes = sizes.user_bytes.saturating_add(share(table.user_bytes));
                        sizes.garbage_bytes = sizes.garbage_bytes.saturating_add(share(table.stale_bytes));
                        sizes.entries = sizes.entries.saturating_add(share(table.entries));
                    }
                }
            }
            let dropped_bytes = if file.dropped.is_some() { bytes } else { file.dropped_bytes(u64::MAX) };
            sizes.dropped_bytes = sizes.dropped_bytes.saturating_add(dropped_bytes);
        }
        sizes
    }
}
