//! Bytes that open snapshots keep: overwritten or deleted, but not freed by a rebalance.
//!
//! The space bound applies to the sum of live and pinned bytes. Nothing else can be done about the
//! latter: slowing down writers would not help. Only snapshots count that were open at two
//! consecutive ticks: those of gets and short scans are closed before anything is rebalanced.
//!
//! A log has the number of bytes that its operations replaced and that such a snapshot saw. A
//! rebalance determines the bytes that are really kept, and its table has their number. Both also
//! have the greatest version that such a snapshot may have had. Once no snapshot below it is open,
//! nothing is pinned there.
//!
//! Thread safety: `look_for_pins` is for the ticking thread; the rest may be called by any thread.

use super::Chunks;
use crate::run::run::{Run, Source};
use crate::run::stack::RunStack;
use crate::sync::atomic::{
    AtomicBool, AtomicI64, AtomicU64,
    Ordering::{AcqRel, Relaxed},
};

/// A keyspace's pinned bytes, and the range of snapshots that pin.
#[derive(Default)]
pub struct Pins {
    bytes: AtomicI64,
    /// The version at the last check: a snapshot below it that is open at the next check pins.
    looked_at: AtomicU64,
    /// Snapshots from `oldest` to below `limit` pin; if `limit` is 0, none does.
    oldest: AtomicU64,
    limit: AtomicU64,
    /// A rebalance has moved pinned bytes from logs to tables.
    has_moved: AtomicBool,
}

impl Pins {
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Relaxed).max(0) as u64
    }

    pub fn is_pinning(&self) -> bool {
        self.limit.load(Relaxed) > 0
    }

    pub fn note_move(&self) {
        self.has_moved.store(true, Relaxed);
    }

    /// True if bytes that snapshots below this version saw are pinned.
    fn is_pinned_by(&self, below: u64) -> bool {
        self.is_pinning() && self.oldest.load(Relaxed) < below
    }
}

impl Chunks {
    /// An upper bound of the versions of snapshots that see an entry written at `older` and
    /// replaced at `newer`; `None` if no open snapshot does.
    pub(super) fn pinned_below(&self, older: u64, newer: u64) -> Option<u64> {
        let limit = self.pins.limit.load(Relaxed);
        (limit > 0 && self.context.substrate.mvcc.is_open_between(older, newer.min(limit))).then_some(limit)
    }

    /// Records that bytes of garbage in a log are pinned by snapshots below this version.
    pub(super) fn add_pinned(&self, segment: &crate::log::segment::Segment, bytes: u64, below: u64) {
        segment.pinned_bytes.fetch_add(bytes, Relaxed);
        segment.pinned_below.fetch_max(below, Relaxed);
        self.pins.bytes.fetch_add(bytes as i64, Relaxed);
    }

    /// Checks which snapshots pin, and now and then the number of bytes.
    pub(super) fn look_for_pins(&self, ticks: u64) {
        let pins = &self.pins;
        let oldest = self.context.substrate.mvcc.open_versions().first().copied();
        let before = pins.looked_at.swap(self.context.substrate.mvcc.current(), Relaxed);
        let Some(oldest) = oldest.filter(|&oldest| oldest < before) else {
            pins.limit.store(0, Relaxed);
            pins.bytes.store(0, Relaxed);
            return;
        };
        pins.oldest.store(oldest, Relaxed);
        let was_pinning = pins.limit.swap(before, Relaxed) > 0;
        if !was_pinning || pins.has_moved.swap(false, AcqRel) || ticks.is_multiple_of(16) {
            let view = self.index.view();
            let pinned: u64 = view.iter().map(|(_, chunk)| self.pinned_bytes(&chunk.funk.load())).sum();
            pins.bytes.store(pinned as i64, Relaxed);
        }
    }

    pub(super) fn pinned_bytes(&self, funk: &RunStack) -> u64 {
        if !self.pins.is_pinning() {
            return 0;
        }
        funk.files.iter().map(|file| self.pinned_bytes_of(file)).sum()
    }

    fn pinned_bytes_of(&self, file: &Run) -> u64 {
        let bytes = file.bytes();
        if let Some(dropped) = &file.dropped {
            return if self.pins.is_pinned_by(dropped.version) { bytes } else { 0 };
        }
        let (pinned, below, all) = match &file.source {
            Source::Log(log) => (log.pinned_bytes.load(Relaxed), log.pinned_below.load(Relaxed), log.len()),
            Source::Table(table) => (table.stale_bytes, table.pinned_below, table.file.bytes()),
        };
        let share = || (pinned as f64 * (bytes as f64 / all.max(1) as f64)) as u64;
        if pinned > 0 && self.pins.is_pinned_by(below) { share() } else { 0 }
    }
}
