//! The calls that a checkpoint covers (`substrate/tickets.rs`), and the batches that it marks as
//! complete (`mvcc/batches.rs`), in every interleaving and under the weak memory model of loom,
//! with at most the stated number of preemptions.
//!
//! The wrong twins have the orderings of an earlier version: a ticket is read by a load, a number
//! is taken without any ordering. Processors of the x86 family hide both errors.
#![expect(dead_code, unreachable_pub, reason = "the modules under test serve a library, not this crate")]

#[path = "../src/mvcc/batches.rs"]
mod batches;
#[path = "../src/substrate/tickets.rs"]
mod tickets;

#[path = "models/loom_mutex.rs"]
mod loom_mutex;
/// Loom's version of the items of `cantle::sync` that the modules under test use.
mod sync {
    pub use loom::sync::atomic;

    pub use crate::loom_mutex::Mutex;
}

use loom::thread::{spawn, yield_now};
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use sync::Mutex;
use sync::atomic::AtomicU64;
use sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// A way to share checkpoints.
trait Share: Send + Sync + 'static {
    fn new() -> Self;
    /// Runs `make`, unless a checkpoint of another thread covers this call.
    fn share(&self, make: impl FnOnce());
}

impl Share for tickets::Tickets {
    fn new() -> Self {
        Self::new()
    }

    fn share(&self, make: impl FnOnce()) {
        let Ok(_) = Self::share(self, || {
            make();
            Ok::<_, Infallible>(())
        });
    }
}

/// Reads its ticket by a load.
struct ByLoad {
    running: Mutex<()>,
    begun: AtomicU64,
    finished: AtomicU64,
}

impl Share for ByLoad {
    fn new() -> Self {
        Self { running: Mutex::new(()), begun: AtomicU64::new(0), finished: AtomicU64::new(0) }
    }

    fn share(&self, make: impl FnOnce()) {
        let ticket = self.begun.load(Acquire) + 1;
        let _running = self.running.lock();
        if self.finished.load(Acquire) >= ticket {
            return;
        }
        let number = self.begun.fetch_add(1, Release) + 1;
        make();
        self.finished.store(number, Release);
    }
}

/// `threads` threads each write something and sync it.
///
/// Holds: when a thread returns, a checkpoint has seen its write.
fn syncs<S: Share>(threads: usize) {
    let shared = Arc::new(S::new());
    let written: Arc<Vec<AtomicU64>> = Arc::new((0..threads).map(|_| AtomicU64::new(0)).collect());
    let durable: Arc<Vec<AtomicU64>> = Arc::new((0..threads).map(|_| AtomicU64::new(0)).collect());
    let sync = move |own: usize| {
        written[own].store(1, Release);
        shared.share(|| {
            for (written, durable) in written.iter().zip(&*durable) {
                durable.store(written.load(Acquire), Relaxed);
            }
        });
        assert_eq!(durable[own].load(Relaxed), 1, "a sync returned before what it was to cover was durable");
    };
    let others: Vec<_> = (1..threads)
        .map(|own| {
            let sync = sync.clone();
            spawn(move || sync(own))
        })
        .collect();
    sync(0);
    others
        .into_iter()
        .for_each(|other| other.join().unwrap_or_else(|_| panic!("a thread of the model failed")));
}

/// A way for batches to take their numbers.
trait Numbers: Send + Sync + 'static {
    fn new() -> Self;
    fn take(&self) -> u64;
    fn next(&self) -> u64;
}

impl Numbers for batches::Batches {
    fn new() -> Self {
        Self::new(1)
    }

    fn take(&self) -> u64 {
        Self::take(self)
    }

    fn next(&self) -> u64 {
        Self::next(self)
    }
}

/// Takes numbers without any ordering.
struct Unordered(AtomicU64);

impl Numbers for Unordered {
    fn new() -> Self {
        Self(AtomicU64::new(1))
    }

    fn take(&self) -> u64 {
        self.0.fetch_add(1, Relaxed)
    }

    fn next(&self) -> u64 {
        self.0.load(Acquire)
    }
}

/// Batches are announced, take their numbers, are written and end. A checkpoint reads the next
/// number and waits for announced batches. The announcements are reduced to the order that the
/// numbers alone must establish: their fences are left out (`loom_mvcc` has them).
///
/// Holds: each batch below the number that was read is complete.
fn batches_and_a_checkpoint<N: Numbers>(batches: usize) {
    const PENDING: u64 = 1;
    const COMPLETE: u64 = 2;
    let numbers = Arc::new(N::new());
    let states: Arc<Vec<AtomicU64>> = Arc::new((0..batches).map(|_| AtomicU64::new(0)).collect());
    let taken: Arc<Vec<AtomicU64>> = Arc::new((0..batches).map(|_| AtomicU64::new(0)).collect());
    let writing: Vec<_> = (0..batches)
        .map(|own| {
            let (numbers, states, taken) = (numbers.clone(), states.clone(), taken.clone());
            spawn(move || {
                states[own].store(PENDING, Relaxed);
                taken[own].store(numbers.take(), Relaxed);
                states[own].store(COMPLETE, Release);
            })
        })
        .collect();
    let below = numbers.next();
    let mut complete = vec![false; batches];
    for (state, complete) in states.iter().zip(&mut complete) {
        // As far as the checkpoint can see, the batch is not announced, or it waits for the batch.
        loop {
            match state.load(Acquire) {
                PENDING => yield_now(),
                found => {
                    *complete = found == COMPLETE;
                    break;
                }
            }
        }
    }
    writing
        .into_iter()
        .for_each(|batch| batch.join().unwrap_or_else(|_| panic!("a thread of the model failed")));
    for (own, complete) in complete.into_iter().enumerate() {
        let settled = taken[own].load(Relaxed) < below;
        assert!(complete || !settled, "a checkpoint settles a batch that it did not wait for");
    }
}

fn check(preemptions: usize, model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    let schedules = Arc::new(AtomicUsize::new(0));
    let count = schedules.clone();
    builder.check(move || {
        count.fetch_add(1, Relaxed);
        model();
    });
    let schedules = schedules.load(Relaxed);
    println!("{schedules} schedules");
    assert!(schedules >= 20, "only {schedules} schedules");
}

#[test]
fn a_sync_covers_what_was_written_before_it() {
    check(4, || syncs::<tickets::Tickets>(2));
    check(2, || syncs::<tickets::Tickets>(3));
}

#[test]
#[should_panic(expected = "a sync returned before what it was to cover was durable")]
fn a_ticket_that_is_read_by_a_load() {
    check(4, || syncs::<ByLoad>(2));
}

#[test]
fn a_checkpoint_waits_for_the_batches_that_it_settles() {
    check(4, || batches_and_a_checkpoint::<batches::Batches>(1));
    check(3, || batches_and_a_checkpoint::<batches::Batches>(2));
}

#[test]
#[should_panic(expected = "a checkpoint settles a batch that it did not wait for")]
fn a_number_that_is_taken_without_any_ordering() {
    check(4, || batches_and_a_checkpoint::<Unordered>(1));
}
