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
