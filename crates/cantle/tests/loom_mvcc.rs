//! The models of `models/`, in every interleaving and under the weak memory model of loom, with at most the
//! stated number of preemptions (nearly all known concurrency errors need two or fewer; two is also what
//! finishes in seconds).
//!
//! The modules under test are compiled into this crate, so that their `crate::sync` is loom's. For each
//! mechanism, a test that leaves it out shows that the model would notice. What cannot be left out from here was
//! taken out by hand once, and the models failed: BROKEN
#![expect(dead_code, unreachable_pub, reason = "the modules under test serve a library, not this crate")]

#[path = "../src/chunk/index.rs"]
mod index;
#[path = "../src/mvcc/clock.rs"]
mod clock;
#[path = "../src/mvcc/commit.rs"]
mod commit;
mod models;
#[path = "../src/order.rs"]
mod order;
#[path = "../src/mvcc/pending.rs"]
mod pending;

/// What the modules under test use of `cantle::sync`, by loom.
mod sync {
    pub use loom::hint;
    pub use loom::sync::{MutexGuard, atomic};
    pub use std::sync::Arc;

    /// Loom's own does not take `const`.
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

    #[derive(Debug)]
    pub struct Mutex<T>(loom::sync::Mutex<T>);

    impl<T> Mutex<T> {
        pub fn new(value: T) -> Self {
            Self(loom::sync::Mutex::new(value))
        }

        pub fn lock(&self) -> MutexGuard<'_, T> {
            self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
        }
    }

    /// Flips with `Release` and loads with `Acquire`, and like the original may return a stale value to a thread
    /// that has no way to know better. One thread stores at a time.
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

fn check(preemptions: usize, model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(model);
}

#[test]
fn a_snapshot_has_every_put_that_it_must_have() {
    check(3, || models::puts_and_snapshots(2, &[1], &[1], KeySpan::ALL));
}

#[test]
fn two_puts_and_two_snapshots() {
    check(2, || models::puts_and_snapshots(2, &[1, 1], &[1, 1], KeySpan::ALL));
}

#[test]
fn a_thread_that_puts_again_while_a_snapshot_waits() {
    check(2, || models::puts_and_snapshots(2, &[2], &[2], KeySpan::ALL));
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
    check(2, || models::batch_and_readers(true));
}

#[test]
#[should_panic]
fn a_batch_whose_cell_nobody_asks_is_seen_in_part() {
    check(2, || models::batch_and_readers(false));
}

#[test]
fn a_put_finds_its_chunk_across_a_split() {
    check(2, || models::split_and_puts(&[b"a", b"z"], true));
}

#[test]
#[should_panic(expected = "a put was lost")]
fn a_put_into_a_retired_chunk_is_lost() {
    check(2, || models::split_and_puts(&[b"z"], false));
}
