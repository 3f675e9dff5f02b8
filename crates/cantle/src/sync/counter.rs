//! Counters that many threads increment at once, and sampling of events that are too frequent to be
//! counted each time.

use super::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use super::time::Instant;
use crossbeam_utils::CachePadded;
use std::cell::Cell;
use std::sync::OnceLock;
use std::time::Duration;

/// Number of cells. More threads than this share cells.
const CELLS: usize = 8;

static NEXT_CELL: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static CELL: usize = NEXT_CELL.fetch_add(1, Relaxed) % CELLS;
    static TICKS: Cell<u64> = const { Cell::new(0) };
}

/// A small number that is fixed for a thread: threads with different numbers use different cells.
#[inline]
pub fn cell_of_thread() -> usize {
    CELL.with(|cell| *cell)
}

/// Number of counts after which a counter is spread over cells. A counter with fewer is rarely used
/// by two threads at once, and a store may have 20,000 keyspaces with some 40 counters each.
const SPREAD_AFTER: u64 = 1024;

type Cells = [CachePadded<AtomicU64>; CELLS];

/// A sum. After many counts it is spread over cells, so that concurrent threads do not wait for one
/// cache line. It takes 24 bytes at first, and 1 KiB more after that.
#[derive(Debug, Default)]
pub struct Counter {
    /// The sum from before the spread.
    first: AtomicU64,
    cells: OnceLock<Box<Cells>>,
}

impl Counter {
    /// Adds to the sum.
    #[inline]
    pub fn add(&self, count: u64) {
        match self.cells.get() {
            Some(cells) => cells[cell_of_thread()].fetch_add(count, Relaxed),
            None => self.add_first(count),
        };
    }

    #[cold]
    fn add_first(&self, count: u64) -> u64 {
        if sampled(SPREAD_AFTER) {
            self.cells.get_or_init(Box::default);
        }
        self.first.fetch_add(count, Relaxed)
    }

    /// The sum. Concurrent counts may be included or not.
    pub fn get(&self) -> u64 {
        let cells = self.cells.get().into_iter().flat_map(|cells| cells.iter());
        self.first.load(Relaxed) + cells.map(|cell| cell.load(Relaxed)).sum::<u64>()
    }
}

/// True for about one call of `every`, at random. If samples were taken in turns, one of two
/// alternating events, such as the gets and puts of read-modify-writes, would never be sampled.
#[inline]
pub fn sampled(every: u64) -> bool {
    TICKS.with(|ticks| {
        // Knuth's linear congruential generator, whose upper bits are random enough.
        let tick =
            ticks.get().wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ticks.set(tick);
        (tick >> 32).is_multiple_of(every)
    })
}

/// Number and total duration of events.
#[derive(Debug, Default)]
pub struct Timed {
    pub count: Counter,
    nanos: Counter,
}

impl Timed {
    /// Adds an event from `begun` until now.
    pub fn add_since(&self, begun: Instant) {
        self.count.add(1);
        self.nanos.add(begun.elapsed().as_nanos() as u64);
    }

    /// The total duration.
    pub fn total(&self) -> Duration {
        Duration::from_nanos(self.nanos.get())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_many_threads_add_up() {
        let counter = Counter::default();
        std::thread::scope(|scope| {
            for _ in 0..20 {
                scope.spawn(|| (0..1000).for_each(|_| counter.add(2)));
            }
        });
        assert_eq!(counter.get(), 40_000);
        assert!(counter.cells.get().is_some() && size_of::<Counter>() <= 24);
    }

    #[test]
    fn one_of_so_many_is_sampled_of_each_of_two_that_alternate() {
        let mut counts = [0; 2];
        for turn in 0..80_000 {
            counts[turn % 2] += usize::from(sampled(8));
        }
        assert!(counts.iter().all(|count| (4_500..5_500).contains(count)), "{counts:?}");
    }
}
