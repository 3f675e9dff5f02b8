//! Loads in progress (`cache/flights.rs`) in random interleavings; sequentially consistent, as
//! shuttle is. Several readers want one block, and look in a cache first. The block is read once,
//! in every order of arrival; a failed read concerns each of them alone; no reader waits for ever,
//! and no load is left in progress.
//!
//! The wrong twins: a leader that does not look in the cache again reads a block that another has
//! published. A leader that ends its flight before it publishes lets another thread read the block
//! as well.
#![expect(dead_code, unreachable_pub, reason = "the module under test serves a library, not this crate")]

#[path = "../src/cache/flights.rs"]
mod flights;
#[path = "models/schedules.rs"]
mod schedules;

/// Shuttle's version of the items of `cantle::sync` that the module under test uses.
mod sync {
    pub use shuttle::sync::Arc;

    pub mod std_lock {
        pub use shuttle::sync::{Condvar, Mutex, MutexGuard};
    }
}

use flights::Flights;
use schedules::{few_switches, random};
use shuttle::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use shuttle::sync::{Arc, Mutex};
use shuttle::thread;
use std::sync::PoisonError;

const SCHEDULES: usize = 5_000;
const READERS: usize = 3;

/// An omitted mechanism.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fault {
    None,
    /// The leader does not look in the cache again.
    DoesNotLook,
    /// The block is put into the cache after the flight is over.
    PublishesLate,
}

#[derive(Default)]
struct World {
    flights: Flights<u64, usize>,
    cache: Mutex<Option<usize>>,
    reads: AtomicUsize,
}

impl World {
    fn find(&self) -> Option<usize> {
        *self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn publish(&self, value: usize) {
        *self.cache.lock().unwrap_or_else(PoisonError::into_inner) = Some(value);
    }

    /// Reads the block; the first `failing` reads fail.
    fn read(&self, failing: usize) -> Result<usize, usize> {
        let number = self.reads.fetch_add(1, SeqCst);
        // Another thread may run during the disk read.
        thread::yield_now();
        if number < failing { Err(number) } else { Ok(7) }
    }

    fn get(&self, failing: usize, fault: Fault) -> Result<usize, usize> {
        if let Some(value) = self.find() {
            return Ok(value);
        }
        let find = || if fault == Fault::DoesNotLook { None } else { self.find() };
        let publish = |value: &usize| {
            if fault != Fault::PublishesLate {
                self.publish(*value);
            }
        };
        let value = self.flights.load(&3, find, || self.read(failing), publish);
        if let (Ok(value), Fault::PublishesLate) = (value, fault) {
            self.publish(value);
        }
        value
    }
}

fn readers(failing: usize, fault: Fault) {
    let world = Arc::new(World::default());
    let threads: Vec<_> = (0..READERS)
        .map(|_| {
            let world = world.clone();
            thread::spawn(move || world.get(failing, fault))
        })
        .collect();
    let outcomes: Vec<_> = threads
        .into_iter()
        .map(|thread| thread.join().unwrap_or_else(|_| panic!("a thread of the model failed")))
        .collect();
    let reads = world.reads.load(SeqCst);
    let mut failed: Vec<usize> = outcomes.iter().filter_map(|outcome| outcome.err()).collect();
    failed.sort_unstable();
    assert!(failed.iter().copied().eq(0..failing), "each failure is one reader's: {failed:?}");
    if failing == 0 {
        assert_eq!(reads, 1, "one block was read more than once");
    } else {
        assert!(reads <= READERS, "a reader read twice");
    }
    assert!(failing == READERS || world.find() == Some(7), "what was read is in the cache");
    assert_eq!(world.flights.under_way(), 0, "a load is left under way");
}

#[test]
fn several_readers_of_a_block_read_it_once() {
    random(SCHEDULES, || readers(0, Fault::None));
    few_switches(3, SCHEDULES, || readers(0, Fault::None));
}

#[test]
fn a_read_that_fails_is_repeated_by_the_others() {
    for failing in 1..=READERS {
        random(SCHEDULES, move || readers(failing, Fault::None));
    }
}

#[test]
#[should_panic(expected = "one block was read more than once")]
fn who_does_not_look_again_reads_what_is_in_the_cache() {
    random(10 * SCHEDULES, || readers(0, Fault::DoesNotLook));
}

#[test]
#[should_panic(expected = "one block was read more than once")]
fn what_is_published_late_is_read_again() {
    random(10 * SCHEDULES, || readers(0, Fault::PublishesLate));
}

/// Batches of gets that want the same two blocks (`fetch/together.rs`): a batch begins the loads of the
/// blocks that nobody reads, reads them together, and waits for those of others while it leads none.
#[derive(Default)]
struct Blocks {
    flights: Flights<usize, usize>,
    cache: Mutex<[Option<usize>; 2]>,
    reads: [AtomicUsize; 2],
}

impl Blocks {
    fn find(&self, block: usize) -> Option<usize> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)[block]
    }

    /// Reads both blocks, in this order of requests. `waits_early` waits for others while it leads.
    fn batch(&self, order: [usize; 2], waits_early: bool) {
        let mut missing: Vec<usize> = order.to_vec();
        while !missing.is_empty() {
            let (mut led, mut joined) = (Vec::new(), Vec::new());
            for &block in &missing {
                if self.find(block).is_some() {
                    continue;
                }
                if !self.flights.begin(&block) {
                    joined.push(block);
                    if waits_early {
                        self.flights.join(&block);
                    }
                } else if let Some(found) = self.find(block) {
                    // Another thread has published it just before.
                    self.flights.end(&block, Some(found));
                } else {
                    led.push(block);
                }
            }
            led.iter().for_each(|block| {
                self.reads[*block].fetch_add(1, SeqCst);
            });
            thread::yield_now();
            for block in &led {
                self.cache.lock().unwrap_or_else(PoisonError::into_inner)[*block] = Some(*block + 10);
                self.flights.end(block, Some(*block + 10));
            }
            if led.is_empty() {
                for block in joined {
                    let loaded = self.flights.join(&block);
                    assert!(loaded.is_none_or(|loaded| loaded == block + 10));
                }
            }
            missing.retain(|block| self.find(*block).is_none());
        }
    }
}

fn batches(waits_early: bool) {
    let blocks = Arc::new(Blocks::default());
    let threads: Vec<_> = [[0, 1], [1, 0]]
        .into_iter()
        .map(|order| {
            let blocks = blocks.clone();
            thread::spawn(move || blocks.batch(order, waits_early))
        })
        .collect();
    let single = {
        let blocks = blocks.clone();
        thread::spawn(move || {
            let read = || {
                blocks.reads[0].fetch_add(1, SeqCst);
                thread::yield_now();
                Ok::<_, ()>(10)
            };
            let publish = |value: &usize| {
                blocks.cache.lock().unwrap_or_else(PoisonError::into_inner)[0] = Some(*value);
            };
            let found = blocks.find(0);
            found.map_or_else(|| blocks.flights.load(&0, || blocks.find(0), read, publish), Ok)
        })
    };
    threads.into_iter().for_each(|thread| thread.join().unwrap_or_else(|_| panic!("a batch failed")));
    assert_eq!(single.join().unwrap_or_else(|_| panic!("the reader failed")), Ok(10));
    assert!(blocks.reads.iter().all(|reads| reads.load(SeqCst) == 1), "one block was read more than once");
    assert_eq!(blocks.flights.under_way(), 0, "a load is left under way");
}

#[test]
fn batches_and_readers_of_the_same_blocks_read_each_once() {
    random(SCHEDULES, || batches(false));
    few_switches(3, SCHEDULES, || batches(false));
}

#[test]
#[should_panic(expected = "deadlock")]
fn batches_that_wait_while_they_lead_wait_for_each_other() {
    random(10 * SCHEDULES, || batches(true));
}
