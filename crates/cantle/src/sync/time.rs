//! Clocks. [`now`] measures durations and never goes back; [`unix_micros`] dates things for people and may
//! jump either way, so nothing may depend on it for correctness.
#![expect(clippy::disallowed_methods, reason = "this is the one way to the clocks")]

pub use std::time::Instant;

use std::time::SystemTime;

/// The monotonic clock.
pub fn now() -> Instant {
    Instant::now()
}

/// Microseconds since 1970-01-01 UTC by the wall clock; 0 if it shows an earlier time.
pub fn unix_micros() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_monotonic_clock_does_not_go_back() {
        let before = now();
        assert!(now() >= before);
    }

    #[test]
    fn the_wall_clock_counts_from_1970_in_microseconds() {
        let year_2020_micros = 50 * 365 * 86_400 * 1_000_000;
        assert!(unix_micros() > year_2020_micros);
    }
}
