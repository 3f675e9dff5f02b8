//! Bounds the time that maintenance spends on looking at all groups of a keyspace.
//!
//! A tick looks for what is due, fifty times a second. Each group takes it some time, so a large store would keep a
//! processor busy, for nothing if nobody uses the keyspace. A look that has taken long is therefore repeated later:
//! after ten times its duration if something has changed meanwhile, and after 200 times if not.

use super::keyspace::Lsm;
use super::shape::Shape;
use super::view::View;
use crate::sync::Arc;
use crate::sync::time::{Instant, now};
use std::time::Duration;

/// A look that takes less is repeated at each tick.
const SHORT: Duration = Duration::from_millis(1);
/// The time until the next look, in durations of the last one.
const AFTER_CHANGE: u32 = 10;
const WITHOUT_CHANGE: u32 = 200;
/// Maximum of that time. Some jobs become due with time alone.
const LONGEST: Duration = Duration::from_secs(10);

/// The state that decides about the jobs that are due. Jobs in progress are not in it: their end is a change.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Seen {
    /// The address of the view.
    view: usize,
    uses: u64,
    oldest_snapshot: u64,
    is_disk_full: bool,
}

/// A look that took long.
#[derive(Debug, Clone, Copy)]
pub struct Look {
    ended: Instant,
    took: Duration,
    seen: Seen,
    /// The most runs of a group, and [`Lsm::space_overload`].
    pub runs_most: usize,
    pub space_overload: f64,
}

impl Look {
    /// True if it is time for the next one.
    fn is_over(&self, now: Instant, seen: &Seen) -> bool {
        let times = if *seen == self.seen { WITHOUT_CHANGE } else { AFTER_CHANGE };
        now.saturating_duration_since(self.ended) >= self.took.saturating_mul(times).min(LONGEST)
    }
}

impl<S: Shape> Lsm<S> {
    fn seen(&self, view: &Arc<View<S>>) -> Seen {
        Seen {
            view: Arc::as_ptr(view) as usize,
            uses: self.uses(),
            oldest_snapshot: self.substrate.mvcc.open_versions().first().copied().unwrap_or(u64::MAX),
            is_disk_full: self.substrate.reserve.is_full(),
        }
    }

    /// The last look, if it took long.
    pub(super) fn last_look(&self) -> Option<Look> {
        self.jobs.look.peek().and_then(|look| *look.lock())
    }

    /// Looks at all groups, unless that takes long and was done a short time ago.
    pub fn look(&self, view: &Arc<View<S>>, look: impl FnOnce()) {
        canary!(LOOKED_ONCE => if self.jobs.ticks.load(crate::sync::atomic::Ordering::Relaxed) > 8 { return });
        let begun = now();
        let last = self.last_look();
        let seen = self.seen(view);
        if last.is_some_and(|last| !last.is_over(begun, &seen)) {
            return;
        }
        look();
        if last.is_none() && begun.elapsed() < SHORT {
            return;
        }
        let (runs_most, space_overload) = (self.runs_most(view), self.space_overload(view));
        let ended = now();
        let took = ended.saturating_duration_since(begun);
        let look = Look { ended, took, seen, runs_most, space_overload };
        *self.jobs.look.lock() = Some(look).filter(|look| look.took >= SHORT);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_looks_take_a_tenth_of_the_time_and_a_two_hundredth_if_nothing_changes() {
        let (ended, seen) = (now(), Seen { uses: 1, ..Seen::default() });
        let look = |took| Look { ended, took, seen, runs_most: 0, space_overload: 0.0 };
        let after = |took, millis, seen| look(took).is_over(ended + Duration::from_millis(millis), &seen);
        let took = Duration::from_millis(7);
        let changed = Seen { uses: 2, ..seen };
        assert!(!after(took, 69, changed) && after(took, 70, changed));
        assert!(!after(took, 1399, seen) && after(took, 1400, seen));
        assert!(after(Duration::from_secs(1), 10_000, seen), "some are due with time");
        assert!(after(Duration::MAX, 10_000, changed));
    }
}
