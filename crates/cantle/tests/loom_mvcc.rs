//! The models of `models/`, in every interleaving and under the weak memory model of loom, with at
//! most the stated number of preemptions (nearly all known concurrency errors need two or fewer;
//! with more, a model does not finish in seconds).
//!
//! The modules under test are compiled into this crate, so that their `crate::sync` is loom's. For
//! each mechanism, a test that leaves it out shows that the model would notice. Mechanisms that
//! cannot be left out from here were removed by hand once, and models failed each time: the fence
//! of a claim; the fence of a snapshot; the claim before GV is read (the two exchanged); the mark
//! of a used version; the claim's compare-and-exchange (a load and a store instead); the mark of
//! slots ever used; the end of the span; waiting for versions equal to the snapshot's; `Release`
//! when a slot is freed and when a batch commits; registering under the lock that covers the raise.
#![expect(dead_code, unreachable_pub, reason = "the modules under test serve a library, not this crate")]

#[macro_use]
#[path = "../src/canary.rs"]
mod canary;
#[path = "../src/types"]
mod types {
    pub mod order;
}
#[path = "../src/mvcc/clock.rs"]
mod clock;
#[path = "../src/mvcc/commit.rs"]
mod commit;
mod models;
#[path = "../src/mvcc/pending.rs"]
mod pending;
#[path = "../src/mvcc/range_index.rs"]
mod range_index;
#[path = "models/rebalance.rs"]
mod rebalance;
#[path = "../src/mvcc/unjournaled.rs"]
mod unjournaled;
#[path = "models/unjournaled.rs"]
mod unjournaled_model;

#[path = "models/loom_mutex.rs"]
mod loom_mutex;
/// Loom's version of the items of `cantle::sync` that the modules under test use.
mod sync {
    pub use loom::hint;
    pub use std::sync::Arc;

    /// Loom goes back only to the last access of a location before a store. If a writer reads the
    /// location that it is about to overwrite, loom forgets that a reader was there before. A
    /// common location, which every access touches without changing its result, makes loom try all
    /// orders: about 20 times as many schedules. Hence the models are checked in both ways, with
    /// more preemptions if the location is not touched.
    pub mod atomic {
        pub use loom::sync::atomic::{Ordering, fence};

        loom::lazy_static! {
            static ref TOUCHED: loom::sync::atomic::AtomicUsize = loom::sync::atomic::AtomicUsize::new(0);
        }

        std::thread_local! {
            /// Loom runs all threads of a model on the one that checks it.
            pub static TOUCHES: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
        }

        fn touch() {
            if !TOUCHES.get() {
                return;
            }
            TOUCHED.fetch_add(0, Ordering::Relaxed);
        }

        macro_rules! touching {
            ($name:ident, $value:ty) => {
                #[derive(Debug)]
                pub struct $name(loom::sync::atomic::$name);

                impl $name {
                    pub fn new(value: $value) -> Self {
                        Self(loom::sync::atomic::$name::new(value))
                    }

                    pub fn load(&self, ordering: Ordering) -> $value {
                        touch();
                        self.0.load(ordering)
                    }

                    pub fn store(&self, value: $value, ordering: Ordering) {
                        touch();
                        self.0.store(value, ordering);
                    }
                }
            };
        }
        macro_rules! touching_number {
            ($name:ident, $value:ty) => {
                touching!($name, $value);

                impl $name {
                    pub fn fetch_add(&self, value: $value, ordering: Ordering) -> $value {
                        touch();
                        self.0.fetch_add(value, ordering)
                    }

                    pub fn fetch_max(&self, value: $value, ordering: Ordering) -> $value {
                        touch();
                        self.0.fetch_max(value, ordering)
                    }

                    pub fn compare_exchange(
                        &self,
                        current: $value,
                        new: $value,
                        success: Ordering,
                        failure: Ordering,
                    ) -> Result<$value, $value> {
                        touch();
                        self.0.compare_exchange(current, new, success, failure)
                    }
                }
            };
        }
        touching!(AtomicBool, bool);
        touching_number!(AtomicU64, u64);
        touching_number!(AtomicUsize, usize);
    }

    /// Loom's own macro does not accept `const`.
    macro_rules! thread_local_const {
        ($(#[$attribute:meta])* static $name:ident: $type:ty = const { $init:expr };) => {
            loom::thread_local! { $(#[$attribute])* static $name: $type = $init; }
        };
    }
    pub(crate) use thread_local_const as thread_local;

    pub mod thread {
        pub use loom::thread::{JoinHandle, spawn, yield_now};

        pub fn sleep(_: std::time::Duration) {
            yield_now();
        }
    }

    pub use crate::loom_mutex::Mutex;

    /// Replaces with `Release` and loads with `Acquire`. Like the original it may return a stale
    /// value to a thread that is not synchronised with the store. One thread stores at a time.
    pub struct ArcSwap<T> {
        values: std::sync::Mutex<Vec<Arc<T>>>,
        newest: atomic::AtomicUsize,
    }

    impl<T> ArcSwap<T> {
        pub fn from_pointee(value: T) -> Self {
            Self { values: std::sync::Mutex::new(vec![Arc::new(value)]), newest: atomic::AtomicUsize::new(0) }
        }

        pub fn load(&self) -> Loaded<T> {
            let newest = self.newest.load(atomic::Ordering::Acquire);
            Loaded(self.values()[newest].clone())
        }

        pub fn load_full(&self) -> Arc<T> {
            self.load().0
        }

        pub fn store(&self, value: Arc<T>) {
            let newest = {
                let mut values = self.values();
                values.push(value);
                values.len() - 1
            };
            self.newest.store(newest, atomic::Ordering::Release);
        }

        fn values(&self) -> std::sync::MutexGuard<'_, Vec<Arc<T>>> {
            self.values.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
        }
    }

    pub struct Loaded<T>(Arc<T>);

    impl<T> std::ops::Deref for Loaded<T> {
        type Target = Arc<T>;
        fn deref(&self) -> &Arc<T> {
            &self.0
        }
    }
}

use pending::KeySpan;
use rebalance::{Fault, a_snapshot_and_a_rebalance, puts_and_a_rebalance};

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

/// As `check`, with orders that loom would leave out (`sync::atomic`).
fn check_touching(preemptions: usize, model: impl Fn() + Send + Sync + 'static) {
    sync::atomic::TOUCHES.set(true);
    check(preemptions, model);
    sync::atomic::TOUCHES.set(false);
}

#[test]
fn a_snapshot_has_every_put_that_it_must_have() {
    check(4, || models::puts_and_snapshots(2, &[1], &[1], KeySpan::ALL));
}

#[test]
fn two_puts_and_two_snapshots() {
    check(1, || models::puts_and_snapshots(2, &[1, 1], &[1, 1], KeySpan::ALL));
}

#[test]
fn two_puts_and_a_snapshot() {
    check(2, || models::puts_and_snapshots(2, &[1, 1], &[1], KeySpan::ALL));
}

#[test]
fn a_put_and_two_snapshots() {
    // With three slots, loom finds schedules in which the two waiters pass the turn to each other
    // for ever.
    check(2, || models::puts_and_snapshots(2, &[1], &[1, 1], KeySpan::ALL));
}

#[test]
fn a_thread_that_puts_again_while_a_snapshot_waits() {
    check(3, || models::puts_and_snapshots(2, &[2], &[2], KeySpan::ALL));
}

#[test]
fn writers_that_share_one_slot() {
    check(2, || models::puts_and_snapshots(1, &[2, 1], &[1], KeySpan::ALL));
}

#[test]
#[should_panic(expected = "what a snapshot sees changed")]
fn a_snapshot_that_does_not_wait_misses_a_put() {
    check(2, || models::puts_and_snapshots(2, &[1], &[1], KeySpan::EMPTY));
}

#[test]
fn what_is_durable_by_the_journal_alone_has_no_gap_before_it() {
    check_touching(2, unjournaled_model::a_durable_write_and_another::<unjournaled::Unjournaled>);
}

#[test]
#[should_panic(expected = "what is durable has a gap before it")]
fn a_write_that_is_marked_once_it_has_its_version() {
    check_touching(2, unjournaled_model::a_durable_write_and_another::<unjournaled_model::MarksLate>);
}

#[test]
fn a_merge_keeps_what_a_snapshot_reads() {
    check(3, || models::merge_and_snapshots(2, true));
}

#[test]
#[should_panic(expected = "a merge dropped what a snapshot reads")]
fn a_merge_that_asks_nobody_drops_what_a_snapshot_reads() {
    check(2, || models::merge_and_snapshots(1, false));
}

#[test]
fn a_batch_is_seen_whole_or_not_at_all() {
    check(4, || models::batch_and_readers(true));
}

#[test]
#[should_panic(expected = "half a batch")]
fn a_batch_whose_cell_nobody_asks_is_seen_in_part() {
    check(2, || models::batch_and_readers(false));
}

#[test]
fn a_put_finds_its_chunk_across_a_split() {
    check(3, || models::split_and_puts(&[b"a", b"z"], true));
}

#[test]
#[should_panic(expected = "a put was lost")]
fn a_put_into_a_retired_chunk_is_lost() {
    check(2, || models::split_and_puts(&[b"z"], false));
}

#[test]
fn a_walk_beside_a_merge_and_a_split() {
    check_touching(4, || models::walk_and_flips(true));
}

#[test]
#[should_panic(expected = "a walk lost a key or found one twice")]
fn a_walk_that_counts_chunks() {
    check_touching(2, || models::walk_and_flips(false));
}

#[test]
fn puts_beside_the_flip_of_a_funk() {
    check_touching(3, || puts_and_a_rebalance(false, Fault::None));
}

#[test]
fn puts_beside_the_flip_of_a_funk_and_of_the_index() {
    check_touching(3, || puts_and_a_rebalance(true, Fault::None));
}

#[test]
#[should_panic(expected = "a put was lost")]
fn a_flip_that_forgets_what_was_diverted() {
    check(2, || puts_and_a_rebalance(false, Fault::ForgetsDiverted));
}

#[test]
#[should_panic(expected = "a put was lost")]
fn a_flip_of_a_log_that_is_not_sealed() {
    check(2, || puts_and_a_rebalance(false, Fault::FlipsUnsealed));
}

#[test]
#[should_panic(expected = "a put was lost")]
fn a_flip_of_the_index_that_retires_nothing() {
    check(2, || puts_and_a_rebalance(true, Fault::DoesNotRetire));
}

#[test]
fn a_snapshot_beside_the_flip_of_a_funk() {
    check_touching(3, || a_snapshot_and_a_rebalance(false, Fault::None));
    check_touching(2, || a_snapshot_and_a_rebalance(true, Fault::None));
}

#[test]
#[should_panic(expected = "a snapshot")]
fn a_flip_for_snapshots_of_before_the_log_was_sealed() {
    check(2, || a_snapshot_and_a_rebalance(false, Fault::AsksBeforeSealing));
}

#[test]
fn puts_and_snapshots_in_all_orders() {
    check_touching(4, || models::puts_and_snapshots(2, &[1], &[1], KeySpan::ALL));
    check_touching(1, || models::puts_and_snapshots(2, &[1, 1], &[1], KeySpan::ALL));
    check_touching(2, || models::puts_and_snapshots(2, &[1], &[1, 1], KeySpan::ALL));
    check_touching(1, || models::puts_and_snapshots(1, &[2, 1], &[1], KeySpan::ALL));
    check_touching(2, || models::puts_and_snapshots(2, &[2], &[2], KeySpan::ALL));
}

#[test]
fn merges_batches_and_splits_in_all_orders() {
    check_touching(2, || models::merge_and_snapshots(1, true));
    check_touching(2, || models::batch_and_readers(true));
    check_touching(3, || models::split_and_puts(&[b"a", b"z"], true));
}
