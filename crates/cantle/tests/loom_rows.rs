//! The row cache of the library in every interleaving and under the weak memory model of loom, with
//! at most the stated number of preemptions: rows that readers hold do not change, and no get finds
//! an old row. Freed memory is overwritten, so that a later read of it is noticed.
//!
//! Verified by hand once: the model fails if a segment is not checked for readers before a row is
//! overwritten. It does not fail if this check is missing before rows are moved to the segment's
//! front, for which the models are too small; `Segment::shift` asserts it.
#![expect(dead_code, unreachable_pub, reason = "the modules under test serve a library, not this crate")]

#[path = "models/rows.rs"]
mod models;
#[path = "models"]
mod memory {
    #[path = "lost_pages.rs"]
    pub mod pages;
}
#[path = "../src/cache/rows"]
mod rows {
    mod ghost;
    #[expect(clippy::module_inception, reason = "as in the library")]
    mod rows;
    mod segment;
    mod shard;

    pub(crate) use rows::{RowCache, Rows};
}

#[path = "models/loom_mutex.rs"]
mod loom_mutex;
/// Loom's version of the items of `cantle::sync` that the modules under test use.
mod sync {
    pub use loom::sync::{Arc, atomic};

    pub mod thread {
        pub use loom::thread::spawn;

        /// Loom's would let other threads run, and none is waited for here.
        pub fn yield_now() {}
    }

    pub mod counter {
        /// The counts are not used.
        #[derive(Debug, Default)]
        pub struct Counter(());

        impl Counter {
            pub fn add(&self, _: u64) {}
        }
    }

    pub use crate::loom_mutex::Mutex;
}

use models::{Fault, Lending, a_put_and_gets, a_row_is_lent};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

fn check(preemptions: usize, model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.max_branches = 10_000;
    // Counts the schedules that loom tries: a model for which loom finds only one schedule proves
    // nothing.
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
fn what_is_lent_stays_while_its_row_is_overwritten() {
    check(3, || a_row_is_lent(Lending::Overwritten, true));
}

#[test]
#[should_panic(expected = "what is lent changed")]
fn what_was_lent_and_is_not_held_is_overwritten() {
    check(3, || a_row_is_lent(Lending::Overwritten, false));
}

#[test]
fn what_is_lent_stays_while_its_segment_goes() {
    check(3, || a_row_is_lent(Lending::Evicted, true));
}

#[test]
#[should_panic(expected = "what is lent changed")]
fn what_was_lent_and_is_not_held_is_freed() {
    check(3, || a_row_is_lent(Lending::Evicted, false));
}

#[test]
fn no_get_finds_a_row_of_before() {
    check(3, || a_put_and_gets(Fault::None));
}

#[test]
#[should_panic(expected = "a row of before")]
fn a_put_that_does_not_mark_its_stripe() {
    check(3, || a_put_and_gets(Fault::DoesNotMark));
}

#[test]
#[should_panic(expected = "a row of before")]
fn a_stamp_that_is_taken_after_the_file_was_read() {
    check(3, || a_put_and_gets(Fault::StampsLate));
}
