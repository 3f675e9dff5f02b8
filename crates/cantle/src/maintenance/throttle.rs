//! The brake: slows all writers in proportion to the lag of maintenance, so that none is ever
//! stopped while maintenance catches up.
//!
//! A write is delayed before it holds any lock or is announced. Each delay is short relative to the
//! bytes written; the sum of the delays bounds the rate of a writer.
//!
//! Invariant: every nanosecond that writes owe is slept once, by one thread, or is still owed. A
//! write adds to the debt and claims its part of it in one step. Two threads thus never sleep for
//! the same part, and the debt never falls below 0.
//!
//! Thread safety: every method may be called from any thread. `tests/loom_throttle.rs` is the model.

use crate::sync::atomic::{AtomicU64, Ordering::Relaxed};
use crate::sync::thread;
use crate::sync::waits::{self, Cause};
use std::time::Duration;

/// The longest delay of a write of up to a MiB, and of each further MiB: 20 ms, a fifth of the
/// longest stall that Cantle allows itself.
const DELAY_NANOS_MAX: u64 = 20_000_000;
const BYTES_PER_DELAY: u64 = 1 << 20;
/// Shorter delays are accumulated until they reach this value: a thread cannot sleep for less than
/// the timer's slack (50 µs).
const SLEEP_NANOS_MIN: u64 = 200_000;

pub struct Throttle {
    /// Nanoseconds of delay for each KiB written.
    nanos_per_kib: AtomicU64,
    owed_nanos: AtomicU64,
    pub delays: AtomicU64,
    pub delayed_nanos: AtomicU64,
    /// The longest delay of one write.
    pub longest_nanos: AtomicU64,
}

impl Default for Throttle {
    fn default() -> Self {
        Self {
            nanos_per_kib: AtomicU64::new(0),
            owed_nanos: AtomicU64::new(0),
            delays: AtomicU64::new(0),
            delayed_nanos: AtomicU64::new(0),
            longest_nanos: AtomicU64::new(0),
        }
    }
}

/// Delay of a write of a KiB, in nanoseconds. `overload` is 0 if maintenance keeps up, 1 if writers
/// must be as slow as maintenance.
pub fn nanos_per_kib(overload: f64, maintenance_bytes_per_second: f64) -> u64 {
    let overload = overload.clamp(0.0, 8.0);
    (overload * 1024.0 * 1e9 / maintenance_bytes_per_second.max(1e6)) as u64
}

impl Throttle {
    /// Sets the delay for each KiB written from now on.
    pub fn set(&self, nanos_per_kib: u64) {
        self.nanos_per_kib.store(nanos_per_kib, Relaxed);
    }

    /// Delays a write of `bytes`, if the brake is on.
    #[inline]
    pub fn delay(&self, bytes: usize) {
        let nanos_per_kib = self.nanos_per_kib.load(Relaxed);
        if nanos_per_kib > 0 {
            let bytes = bytes as u64;
            let delay_nanos_max = DELAY_NANOS_MAX * bytes.div_ceil(BYTES_PER_DELAY).max(1);
            self.sleep(nanos_per_kib.saturating_mul(bytes.div_ceil(64)) / 16, delay_nanos_max);
        }
    }

    /// Delays a write by this time, independent of the brake's rate.
    pub fn owe(&self, nanos: u64) {
        self.sleep(nanos, DELAY_NANOS_MAX);
    }

    #[cold]
    fn sleep(&self, nanos: u64, delay_nanos_max: u64) {
        let delay = self.claim(nanos, delay_nanos_max);
        if delay == 0 {
            return;
        }
        self.delays.fetch_add(1, Relaxed);
        self.delayed_nanos.fetch_add(delay, Relaxed);
        self.longest_nanos.fetch_max(delay, Relaxed);
        waits::timed(Cause::Brake, || thread::sleep(Duration::from_nanos(delay)));
    }

    /// Adds `nanos` to the debt and returns the part that this thread sleeps: 0 while the debt is
    /// too small for a sleep.
    fn claim(&self, nanos: u64, delay_nanos_max: u64) -> u64 {
        let mut owed = self.owed_nanos.load(Relaxed);
        loop {
            let total = owed.saturating_add(nanos);
            let delay = if total < SLEEP_NANOS_MIN { 0 } else { total.min(delay_nanos_max) };
            match self.owed_nanos.compare_exchange_weak(owed, total - delay, Relaxed, Relaxed) {
                Ok(_) => return delay,
                Err(now) => owed = now,
            }
        }
    }
}
