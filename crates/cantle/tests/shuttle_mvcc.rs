//! The models of `models/`, larger than in `loom_mvcc.rs`, in 10,000 random interleavings each; sequentially
//! consistent, as shuttle is. Where a mechanism is left out, the models fail here as well.
#![expect(dead_code, unreachable_pub, reason = "the modules under test serve a library, not this crate")]

#[path = "../src/mvcc/clock.rs"]
mod clock;
#[path = "../src/mvcc/commit.rs"]
mod commit;
#[path = "../src/chunk/index.rs"]
mod index;
mod models;
#[path = "models/munk_life.rs"]
mod munk_life;
#[path = "../src/order.rs"]
mod order;
#[path = "../src/mvcc/pending.rs"]
mod pending;
#[path = "models/rebalance.rs"]
mod rebalance;

/// What the modules under test use of `cantle::sync`, by shuttle.
mod sync {
    pub use shuttle::sync::{Arc, MutexGuard, atomic};
    pub use shuttle::{hint, thread_local};

    pub mod thread {
        pub use shuttle::thread::{JoinHandle, sleep, spawn, yield_now};
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

    /// A pointer behind a lock: each load and store is one step.
    pub struct ArcSwap<T>(Mutex<Arc<T>>);

    impl<T> ArcSwap<T> {
        pub fn from_pointee(value: T) -> Self {
            Self(Mutex::new(Arc::new(value)))
        }

        pub fn load(&self) -> Loaded<T> {
            Loaded(self.load_full())
        }

        pub fn load_full(&self) -> Arc<T> {
            self.0.lock().clone()
        }

        pub fn store(&self, value: Arc<T>) {
            *self.0.lock() = value;
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
use rebalance::{Fault, puts_snapshots_and_rebalances};

const SCHEDULES: usize = 10_000;

#[test]
fn many_puts_and_many_snapshots() {
    shuttle::check_random(|| models::puts_and_snapshots(4, &[3, 2, 2], &[2, 2, 1], KeySpan::ALL), SCHEDULES);
}

#[test]
fn more_writers_than_slots() {
    shuttle::check_random(|| models::puts_and_snapshots(2, &[2, 2, 2, 2], &[2], KeySpan::ALL), SCHEDULES);
}

#[test]
fn puts_and_snapshots_with_few_switches_in_the_worst_places() {
    shuttle::check_pct(|| models::puts_and_snapshots(4, &[2, 2], &[2, 2], KeySpan::ALL), SCHEDULES, 3);
}

#[test]
#[should_panic(expected = "what a snapshot sees changed")]
fn snapshots_that_do_not_wait_miss_a_put() {
    shuttle::check_random(
        || models::puts_and_snapshots(4, &[3, 2, 2], &[2, 2, 1], KeySpan::EMPTY),
        SCHEDULES,
    );
}

#[test]
fn a_merge_keeps_what_any_snapshot_reads() {
    shuttle::check_random(|| models::merge_and_snapshots(4, true), SCHEDULES);
}

#[test]
#[should_panic(expected = "a merge dropped what a snapshot reads")]
fn a_merge_that_asks_nobody_drops_what_a_snapshot_reads() {
    shuttle::check_random(|| models::merge_and_snapshots(4, false), SCHEDULES);
}

#[test]
fn a_batch_is_seen_whole_or_not_at_all() {
    shuttle::check_random(|| models::batch_and_readers(true), SCHEDULES);
}

#[test]
fn puts_find_their_chunk_across_a_split() {
    shuttle::check_random(|| models::split_and_puts(&[b"a", b"b", b"m", b"z"], true), SCHEDULES);
}

#[test]
#[should_panic(expected = "a put was lost")]
fn a_put_into_a_retired_chunk_is_lost() {
    shuttle::check_random(|| models::split_and_puts(&[b"a", b"b", b"m", b"z"], false), SCHEDULES);
}

#[test]
fn rebalances_and_splits_lose_no_put_and_disturb_no_snapshot() {
    shuttle::check_random(|| puts_snapshots_and_rebalances(3, 3, Fault::None), SCHEDULES);
}

#[test]
fn rebalances_and_splits_with_few_switches_in_the_worst_places() {
    shuttle::check_pct(|| puts_snapshots_and_rebalances(3, 3, Fault::None), SCHEDULES, 4);
}

#[test]
#[should_panic(expected = "a put was lost")]
fn a_flip_of_a_log_that_was_not_sealed_loses_puts() {
    shuttle::check_random(|| puts_snapshots_and_rebalances(3, 0, Fault::FlipsUnsealed), SCHEDULES);
}

#[test]
#[should_panic(expected = "a snapshot")]
fn asking_for_snapshots_before_the_log_is_sealed_drops_what_one_reads() {
    shuttle::check_random(|| puts_snapshots_and_rebalances(3, 3, Fault::AsksBeforeSealing), SCHEDULES);
}

#[test]
#[should_panic(expected = "a put was lost")]
fn puts_that_were_diverted_must_not_be_forgotten() {
    shuttle::check_random(|| puts_snapshots_and_rebalances(3, 0, Fault::ForgetsDiverted), SCHEDULES);
}

#[test]
#[should_panic(expected = "a put was lost")]
fn a_chunk_that_is_split_and_not_retired_loses_puts() {
    shuttle::check_random(|| puts_snapshots_and_rebalances(3, 0, Fault::DoesNotRetire), SCHEDULES);
}

fn munks(fault: munk_life::Fault) {
    // Without snapshots, so that what fails is what a fault is named for.
    let snapshots = if fault == munk_life::Fault::None { 2 } else { 0 };
    shuttle::check_random(move || munk_life::puts_gets_and_munks(3, snapshots, fault), SCHEDULES);
}

#[test]
fn munks_and_rows_come_and_go_beside_puts_gets_and_snapshots() {
    munks(munk_life::Fault::None);
}

#[test]
fn munks_and_rows_with_few_switches_in_the_worst_places() {
    shuttle::check_pct(|| munk_life::puts_gets_and_munks(3, 2, munk_life::Fault::None), SCHEDULES, 4);
}

#[test]
#[should_panic(expected = "a put was lost")]
fn a_load_that_does_not_catch_up_loses_puts() {
    munks(munk_life::Fault::DoesNotCatchUp);
}

#[test]
#[should_panic(expected = "a put was lost")]
fn a_load_at_a_snapshot_from_before_the_lock_loses_puts() {
    munks(munk_life::Fault::LoadsAtAnEarlierSnapshot);
}

#[test]
#[should_panic(expected = "a put was lost")]
fn an_eviction_that_leaves_notes_behind_loses_puts() {
    munks(munk_life::Fault::EvictsUnsettled);
}

#[test]
#[should_panic(expected = "a flush lacks what only the old files have")]
fn a_flush_without_a_snapshot_lacks_what_is_overwritten_meanwhile() {
    munks(munk_life::Fault::FlushesWithoutSnapshot);
}

#[test]
#[should_panic(expected = "a put was lost")]
fn a_row_without_a_stamp_is_stale() {
    munks(munk_life::Fault::IgnoresStamps);
}

#[test]
#[should_panic(expected = "a put was lost")]
fn a_row_that_is_stamped_late_is_stale() {
    munks(munk_life::Fault::StampsLate);
}
