//! Stalls of writes, by their cause.
//!
//! A write collects its waits from its beginning to its acknowledgement ([`waits`]). Each cause for
//! which the write waited long is counted, once for the write.
//!
//! Thread safety: everything may be called from any thread.

use crate::sync::atomic::{AtomicU64, Ordering::Relaxed};
use crate::sync::waits::{self, Cause};
use std::time::Duration;

/// A write that waits this long for one cause has a stall: a thousand times the usual duration of a
/// write, and half of the time that a disk takes to seek and sync.
const STALL_MIN: Duration = Duration::from_millis(1);

/// Stalls of writes since the store was opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct StallStats {
    /// Number of writes that waited for this cause for a millisecond or longer, in all.
    pub count: u64,
    /// Total time that these writes waited for it.
    pub total: Duration,
    /// The longest time that one of them waited for it.
    pub longest: Duration,
}

/// Stalls of writes by their cause. A write that waited for several causes has a stall for each of
/// them. Waits shorter than a millisecond are not counted. A write that failed is counted like others.
///
/// A wait within another one is a part of it: the time that a writer takes to create a file counts as
/// `allocation`, even if it is the device that is slow.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct WriteStalls {
    /// The brake slowed the write because maintenance was behind, or a put waited for space to become
    /// free on a nearly full disk.
    pub brake: StallStats,
    /// Another thread held a lock: of the same key or chunk, of the log, of the manifest, or of the
    /// creation of the next log.
    pub lock: StallStats,
    /// The write itself created or extended a file, because none was made in advance, or made room in
    /// memory: it evicted chunks, or sorted or copied one.
    pub allocation: StallStats,
    /// The write waited for the device: for an append to a log, a sync of the journal, or a checkpoint
    /// that it needs.
    pub device: StallStats,
}

/// Counters of stalls, by the number of the cause.
#[derive(Default)]
pub(super) struct Stalls([Counters; Cause::ALL.len()]);

#[derive(Default)]
struct Counters {
    count: AtomicU64,
    total_nanos: AtomicU64,
    longest_nanos: AtomicU64,
}

/// A write under way.
#[must_use]
pub(super) struct Watched<'a> {
    stalls: &'a Stalls,
    watch: waits::Watch,
}

impl Stalls {
    /// Collects the waits of this thread until the result is dropped, and counts those that are long.
    #[inline]
    pub(super) fn watch(&self) -> Watched<'_> {
        Watched { stalls: self, watch: waits::Watch::begin() }
    }

    pub(super) fn stats(&self) -> WriteStalls {
        let of = |cause: Cause| {
            let Counters { count, total_nanos, longest_nanos } = &self.0[cause as usize];
            let duration = |nanos: &AtomicU64| Duration::from_nanos(nanos.load(Relaxed));
            StallStats {
                count: count.load(Relaxed),
                total: duration(total_nanos),
                longest: duration(longest_nanos),
            }
        };
        WriteStalls {
            brake: of(Cause::Brake),
            lock: of(Cause::Lock),
            allocation: of(Cause::Allocation),
            device: of(Cause::Device),
        }
    }
}

impl Watched<'_> {
    /// The time waited so far, for each cause with any.
    pub(super) fn waited(&self) -> Vec<(Cause, Duration)> {
        self.watch.waited().collect()
    }
}

impl Drop for Watched<'_> {
    fn drop(&mut self) {
        for (cause, waited) in self.watch.waited().filter(|(_, waited)| *waited >= STALL_MIN) {
            let counters = &self.stalls.0[cause as usize];
            let nanos = waited.as_nanos() as u64;
            counters.count.fetch_add(1, Relaxed);
            counters.total_nanos.fetch_add(nanos, Relaxed);
            counters.longest_nanos.fetch_max(nanos, Relaxed);
        }
    }
}
