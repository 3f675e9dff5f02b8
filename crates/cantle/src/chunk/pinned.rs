//! Bytes that open snapshots keep: out of date, but none that a rebalance frees.
//!
//! The space bound is applied to what is live and what is pinned, as nothing else can be done about the latter: to slow writers
//! for it would help nobody. Only snapshots count that were open at two ticks in a row: those of gets and short scans are gone
//! before anything is rebalanced.
//!
//! A log knows how many bytes its operations replaced that such a snapshot saw. A rebalance finds out what is really kept, and
//! its table knows that. Both remember the greatest version that such a snapshot may have had; once none is open below it,
//! nothing is pinned there.
//!
//! Thread safety: `look` is for the thread that ticks; the rest may be called by any thread.

use super::Chunks;
use crate::run::run::{Run, Source};
use crate::run::stack::RunStack;
use crate::sync::atomic::{
    AtomicBool, AtomicI64, AtomicU64,
    Ordering::{AcqRel, Relaxed},
};

/// A keyspace's pinned bytes, and which snapshots pin.
#[derive(Default)]
pub struct Pins {
    bytes: AtomicI64,
    /// The version of the last look: a snapshot below it that is open at the next look pins.
    looked_at: AtomicU64,
    /// Snapshots from `oldest` to below `limit` pin; none, if `limit` is 0.
    oldest: AtomicU64,
    limit: AtomicU64,
    /// A rebalance has moved what is pinned from logs to tables.
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

    /// Whether what snapshots below this version saw is pinned.
    fn is_pinned_by(&self, below: u64) -> bool {
        self.is_pinning() && self.oldest.load(Relaxed) < below
    }
}

impl Chunks {
    /// If an open snapshot sees what was written at `older` and replaced at `newer`: a version that the snapshot is below.
    pub(super) fn pinned_below(&self, older: u64, newer: u64) -> Option<u64> {
        let limit = self.pins.limit.load(Relaxed);
        (limit > 0 && self.context.substrate.mvcc.is_open_between(older, newer.min(limit))).then_some(limit)
    }

    /// Bytes of garbage in a log are pinned by snapshots below this version.
    pub(super) fn add_pinned(&self, segment: &crate::log::segment::Segment, bytes: u64, below: u64) {
        segment.pinned_bytes.fetch_add(bytes, Relaxed);
        segment.pinned_below.fetch_max(below, Relaxed);
        self.pins.bytes.fetch_add(bytes as i64, Relaxed);
    }

    /// Looks which snapshots pin, and now and then how much.
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
