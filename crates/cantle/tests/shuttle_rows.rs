//! The row cache of the library in 10,000 random interleavings; sequentially consistent, as shuttle is. Where a part of
//! the mechanism is left out, the model fails.
#![expect(dead_code, unreachable_pub, reason = "the modules under test serve a library, not this crate")]

#[path = "models/rows.rs"]
mod models;
#[path = "../src/pages.rs"]
mod pages;
#[path = "../src/cache/rows"]
mod rows {
    mod ghost;
    #[expect(clippy::module_inception, reason = "as in the library")]
    mod rows;
    mod segment;
    mod shard;

    pub(crate) use rows::{RowCache, Rows};
}

/// What the modules under test use of `cantle::sync`, by shuttle.
mod sync {
    pub use shuttle::sync::{Arc, MutexGuard, atomic};

    pub mod thread {
        pub use shuttle::thread::{spawn, yield_now};
    }

    pub mod counter {
        /// Nothing depends on what it counts.
        #[derive(Debug, Default)]
        pub struct Counter(());

        impl Counter {
            pub fn add(&self, _: u64) {}
        }
    }

    #[derive(Debug)]
    pub struct Mutex<T>(shuttle::sync::Mutex<T>);

    impl<T> Mutex<T> {
        pub fn new(value: T) -> Self {
            Self(shuttle::sync::Mutex::new(value))
        }

        pub fn lock(&self) -> MutexGuard<'_, T> {
            self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
        }
    }
}

use models::{Fault, puts_gets_and_evictions};

const SCHEDULES: usize = 10_000;

#[test]
fn no_get_finds_a_row_of_before() {
    shuttle::check_random(|| puts_gets_and_evictions(4, 8, Fault::None), SCHEDULES);
}

#[test]
fn no_get_finds_a_row_of_before_with_few_switches_in_the_worst_places() {
    shuttle::check_pct(|| puts_gets_and_evictions(4, 8, Fault::None), SCHEDULES, 3);
}

#[test]
#[should_panic(expected = "a row of before")]
fn puts_that_do_not_mark_their_stripe_leave_a_row_of_before() {
    shuttle::check_random(|| puts_gets_and_evictions(4, 8, Fault::DoesNotMark), SCHEDULES);
}

#[test]
#[should_panic(expected = "a row of before")]
fn stamps_taken_after_the_file_was_read_keep_a_row_of_before() {
    shuttle::check_random(|| puts_gets_and_evictions(4, 8, Fault::StampsLate), SCHEDULES);
}

#[test]
#[should_panic(expected = "a row of before")]
fn rows_that_are_updated_without_the_lock_go_back() {
    shuttle::check_random(|| puts_gets_and_evictions(4, 8, Fault::UpdatesUnlocked), SCHEDULES);
}
