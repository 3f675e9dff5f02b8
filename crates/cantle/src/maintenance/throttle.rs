//! The brake: writers are slowed in proportion to how far maintenance is behind, so that nobody is ever stopped
//! while somebody else catches up.
//!
//! Delays are taken before a write holds any lock or is announced. Each is short; what bounds a writer is their
//! sum.

use crate::sync::atomic::{AtomicU64, Ordering::Relaxed};
use crate::sync::thread;
use std::time::Duration;

/// The longest delay of one write: 20 ms, a fifth of the longest stall that we allow ourselves.
const DELAY_NANOS_MAX: u64 = 20_000_000;
/// Delays shorter than this are saved up, as a thread cannot sleep for less than the timer's slack (50 µs).
const SLEEP_NANOS_MIN: u64 = 200_000;

#[derive(Default)]
pub struct Throttle {
    /// Nanoseconds that a write of a KiB owes.
    nanos_per_kib: AtomicU64,
    owed_nanos: AtomicU64,
    pub delays: AtomicU64,
    pub delayed_nanos: AtomicU64,
}

impl Throttle {
    /// `overload`: 0 where maintenance keeps up, 1 where writers must be as slow as it.
    pub fn set(&self, overload: f64, maintenance_bytes_per_second: f64) {
        let overload = overload.clamp(0.0, 8.0);
        let nanos = if overload <= 0.0 {
            0.0
        } else {
            overload * 1024.0 * 1e9 / maintenance_bytes_per_second.max(1e6)
        };
        self.nanos_per_kib.store(nanos as u64, Relaxed);
    }

    /// Delays a write of `bytes`, if need be.
    #[inline]
    pub fn delay(&self, bytes: usize) {
        let nanos_per_kib = self.nanos_per_kib.load(Relaxed);
        if nanos_per_kib > 0 {
            self.owe(nanos_per_kib * (bytes as u64).div_ceil(64) / 16);
        }
    }

    /// Delays a write by so much, for reasons of its own.
    #[cold]
    pub fn owe(&self, nanos: u64) {
        let owed = self.owed_nanos.fetch_add(nanos, Relaxed) + nanos;
        if owed < SLEEP_NANOS_MIN {
            return;
        }
        let delay = owed.min(DELAY_NANOS_MAX);
        self.owed_nanos.fetch_sub(delay.min(self.owed_nanos.load(Relaxed)), Relaxed);
        self.delays.fetch_add(1, Relaxed);
        self.delayed_nanos.fetch_add(delay, Relaxed);
        thread::sleep(Duration::from_nanos(delay));
    }
}
