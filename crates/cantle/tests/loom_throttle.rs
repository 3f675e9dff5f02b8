//! The throttle of writers (`maintenance/throttle.rs`) in every interleaving and under the weak
//! memory model of loom, with at most the stated number of preemptions: the delay that writes owe
//! is slept once, or is still owed.
//!
//! The wrong twin takes its part of the debt in a second step after it has added to the debt: two
//! threads take the same part, and the debt falls below 0.
#![expect(dead_code, unreachable_pub, reason = "the module under test serves a library, not this crate")]

#[path = "../src/maintenance/throttle.rs"]
mod throttle;

/// Loom's version of the items of `cantle::sync` that the module under test uses.
mod sync {
    pub use loom::sync::atomic;

    pub mod thread {
        use std::time::Duration;

        std::thread_local! {
            /// Loom runs all threads of a model on the one that checks it.
            pub static SLEPT_NANOS: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
        }

        /// Only adds up durations: no result depends on the time that a thread sleeps.
        pub fn sleep(duration: Duration) {
            SLEPT_NANOS.set(SLEPT_NANOS.get() + duration.as_nanos() as u64);
        }
    }

    /// No wait is measured.
    pub mod waits {
        pub enum Cause {
            Brake,
        }

        pub fn timed<T>(_: Cause, act: impl FnOnce() -> T) -> T {
            act()
        }
    }
}

use loom::sync::atomic::{AtomicU64, Ordering::Relaxed};
use loom::thread::spawn;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use throttle::Throttle;

/// As in the module under test.
const SLEEP_NANOS_MIN: u64 = 200_000;
const DELAY_NANOS_MAX: u64 = 20_000_000;

/// An earlier version: a thread takes a part of the debt that may have changed since it was read.
#[derive(Default)]
struct InTwoSteps(AtomicU64);

impl InTwoSteps {
    fn owe(&self, nanos: u64) {
        let owed = self.0.fetch_add(nanos, Relaxed).wrapping_add(nanos);
        if owed < SLEEP_NANOS_MIN {
            return;
        }
        let delay = owed.min(DELAY_NANOS_MAX);
        self.0.fetch_sub(delay.min(self.0.load(Relaxed)), Relaxed);
        sync::thread::sleep(std::time::Duration::from_nanos(delay));
    }
}

trait Brake: Default + Send + Sync + 'static {
    fn owe(&self, nanos: u64);
}

impl Brake for Throttle {
    fn owe(&self, nanos: u64) {
        Self::owe(self, nanos);
    }
}

impl Brake for InTwoSteps {
    fn owe(&self, nanos: u64) {
        Self::owe(self, nanos);
    }
}

/// Two threads write, and then one pays the rest.
///
/// Holds: exactly the debt was slept.
fn writes<B: Brake>(debts: [u64; 2]) {
    sync::thread::SLEPT_NANOS.set(0);
    let brake = Arc::new(B::default());
    let threads = debts.map(|debt| {
        let brake = brake.clone();
        spawn(move || brake.owe(debt))
    });
    for thread in threads {
        thread.join().unwrap_or_else(|_| panic!("a thread of the model failed"));
    }
    // Enough writes to pay everything: at most four of the longest delays are owed.
    (0..4).for_each(|_| brake.owe(SLEEP_NANOS_MIN));
    let owed = debts.iter().sum::<u64>() + 4 * SLEEP_NANOS_MIN;
    assert_eq!(sync::thread::SLEPT_NANOS.get(), owed, "what was slept is not what was owed");
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
    assert!(schedules >= 3, "only {schedules} schedules");
}

#[test]
fn a_debt_is_paid_once() {
    for debts in [[SLEEP_NANOS_MIN; 2], [SLEEP_NANOS_MIN / 2; 2], [DELAY_NANOS_MAX + 1, SLEEP_NANOS_MIN]] {
        check(3, move || writes::<Throttle>(debts));
    }
}

#[test]
#[should_panic(expected = "what was slept is not what was owed")]
fn a_debt_that_is_taken_in_two_steps() {
    check(3, || writes::<InTwoSteps>([SLEEP_NANOS_MIN; 2]));
}
