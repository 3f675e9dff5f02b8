//! The wait until a store has nothing left to do.

use crate::engine::Engine;
use crate::failure::Result;
use crate::measure::process::Counters;
use std::time::{Duration, Instant};

/// Interval of the looks at the store and at the bytes that the process has written.
const TICK: Duration = Duration::from_millis(50);

/// Bytes that are no work: a checkpoint of an idle store, lines of its own log.
const SILENCE_BYTES: u64 = 1 << 20;

/// The end of a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settled {
    /// The time until the last background work that wrote.
    pub after: Duration,
    /// True if the store was silent for as long as it should.
    pub is_settled: bool,
}

/// Waits until no background work waits or runs and the process has written less than a MiB for `quiet`,
/// at most `longest`. Calls `look` at every look at the store.
pub fn wait(
    engine: &dyn Engine,
    quiet: Duration,
    longest: Duration,
    look: &mut dyn FnMut(),
) -> Result<Settled> {
    let start = Instant::now();
    engine.wait_for_background(longest)?;
    let written = || {
        let counters = Counters::now();
        counters.dirtied_bytes.max(counters.write_call_bytes)
    };
    let (mut after, mut before) = (start.elapsed(), written());
    loop {
        look();
        let (is_idle, now) = (engine.is_idle(), written());
        let elapsed = start.elapsed();
        if now - before >= SILENCE_BYTES {
            (after, before) = (elapsed, now);
        }
        let is_settled = is_idle && elapsed - after >= quiet;
        if is_settled || elapsed >= longest {
            return Ok(Settled { after, is_settled });
        }
        std::thread::sleep(TICK.min(quiet));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{Figures, Pair};
    use std::sync::atomic::{AtomicU64, Ordering};

    /// A store that is busy for a number of looks.
    struct Busy(AtomicU64);

    impl Engine for Busy {
        fn put(&self, _: &[u8], _: &[u8]) -> Result {
            Ok(())
        }

        fn delete(&self, _: &[u8]) -> Result {
            Ok(())
        }

        fn put_all(&self, _: &[Pair]) -> Result {
            Ok(())
        }

        fn get(&self, _: &[u8], _: &mut dyn FnMut(&[u8])) -> Result<bool> {
            Ok(false)
        }

        fn scan(&self, _: &[u8], _: Option<&[u8]>, _: u64, _: &mut dyn FnMut(&[u8], &[u8])) -> Result {
            Ok(())
        }

        fn sync(&self) -> Result {
            Ok(())
        }

        fn is_idle(&self) -> bool {
            let left = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
            left.is_err()
        }

        fn figures(&self) -> Figures {
            Figures::new()
        }

        fn close(self: Box<Self>) -> Result {
            Ok(())
        }
    }

    #[test]
    fn a_store_is_settled_when_it_has_been_silent_long_enough() {
        let (quiet, longest) = (Duration::from_millis(1), Duration::from_secs(600));
        let store = Busy(AtomicU64::new(20));
        let mut looks = 0;
        let settled = wait(&store, quiet, longest, &mut || looks += 1).unwrap();
        assert!(settled.is_settled && looks > 20, "{looks} looks");
    }

    #[test]
    fn a_store_that_never_rests_is_not_waited_for_longer_than_asked() {
        let store = Busy(AtomicU64::new(u64::MAX));
        let settled = wait(&store, Duration::from_secs(5), Duration::from_millis(20), &mut || ()).unwrap();
        assert!(!settled.is_settled, "{settled:?}");
    }
}
