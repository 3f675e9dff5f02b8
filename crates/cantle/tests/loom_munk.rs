//! The models of `models/munk.rs`, in every interleaving and under the weak memory model of loom,
//! with at most the stated number of preemptions. Loom does not see a record's bytes, but it sees
//! that a record's links are not read before they are published. Freed memory is overwritten, so
//! that a later read of it is noticed.
//!
//! Verified by hand once: the model fails if the blocks that are used when a munk is sorted or
//! split are not shared.
#![expect(dead_code, unreachable_pub, reason = "the modules under test serve a library")]

#[macro_use]
#[path = "../src/canary.rs"]
mod canary;
#[path = "../src/types"]
mod types {
    pub mod entry;
    pub mod order;
    pub mod prefix;
    /// The errors of entries.
    pub mod error {
        pub type Result<T> = std::result::Result<T, ()>;
    }
}
#[path = "models/munk.rs"]
mod models;
#[path = "../src/chunk/munk"]
mod munk {
    mod arena;
    mod array;
    mod build;
    mod chain;
    mod copy;
    mod cursor;
    mod fetch;
    #[expect(clippy::module_inception, reason = "as in the library")]
    mod munk;
    mod rebalance;
    mod record;
    mod search;
    mod towers;
    mod versions;
    mod write;

    pub use build::MunkBuilder;
    pub use munk::Munk;
    use munk::{Counts, Writer};
    pub use record::Record;
    pub use towers::Towers;
}
#[path = "../src/memory"]
mod memory {
    pub mod paged_vec;
    #[path = "../../tests/models/lost_pages.rs"]
    pub mod pages;
}

#[path = "../src/mvcc"]
mod mvcc {
    mod commit;
    pub use commit::CommitCell;
}

#[path = "models/loom_mutex.rs"]
mod loom_mutex;
/// Loom's version of the items of `cantle::sync` that the modules under test use.
mod sync {
    pub use std::sync::Arc;

    /// Loom goes back only to the last access of a location before a store. If the writer reads the
    /// location that it is about to overwrite, loom forgets that a reader was there before. A
    /// common location, which every access touches without changing its result, makes loom try all
    /// orders.
    pub mod atomic {
        pub use loom::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

        loom::lazy_static! {
            static ref TOUCHED: AtomicUsize = AtomicUsize::new(0);
        }

        fn touch() {
            TOUCHED.fetch_add(0, Ordering::Relaxed);
        }

        macro_rules! touching {
            ($name:ident $(<$parameter:ident>)?, $value:ty) => {
                #[derive(Debug)]
                pub struct $name$(<$parameter>)?(loom::sync::atomic::$name$(<$parameter>)?);

                impl$(<$parameter>)? $name$(<$parameter>)? {
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
        touching!(AtomicBool, bool);
        touching!(AtomicU32, u32);
        touching!(AtomicPtr<T>, *mut T);

        impl Default for AtomicU32 {
            fn default() -> Self {
                Self::new(0)
            }
        }
    }

    pub mod thread {
        pub use loom::thread::{JoinHandle, spawn};
    }

    pub use crate::loom_mutex::Mutex;

    /// Replaces with `Release` and loads with `Acquire`. One thread stores at a time.
    pub struct ArcSwap<T> {
        values: std::sync::Mutex<Vec<Arc<T>>>,
        newest: atomic::AtomicU32,
    }

    impl<T> ArcSwap<T> {
        pub fn from_pointee(value: T) -> Self {
            Self { values: std::sync::Mutex::new(vec![Arc::new(value)]), newest: atomic::AtomicU32::new(0) }
        }

        pub fn load_full(&self) -> Arc<T> {
            let newest = self.newest.load(atomic::Ordering::Acquire);
            self.values()[newest as usize].clone()
        }

        pub fn store(&self, value: Arc<T>) {
            let newest = {
                let mut values = self.values();
                values.push(value);
                values.len() as u32 - 1
            };
            self.newest.store(newest, atomic::Ordering::Release);
        }

        fn values(&self) -> std::sync::MutexGuard<'_, Vec<Arc<T>>> {
            self.values.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
        }
    }
}

use models::Replacement;

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
fn gets_beside_inserts_into_a_bypass() {
    check(2, || models::inserts_and_gets(&[b"c", b"bb"]));
}

#[test]
fn gets_beside_inserts_behind_all_others() {
    check(2, || models::inserts_and_gets(&[b"e", b"f"]));
}

#[test]
fn scans_beside_inserts_into_a_bypass() {
    check(2, || models::inserts_and_scans(&[b"c", b"a"]));
}

#[test]
fn scans_beside_inserts_behind_all_others() {
    check(2, || models::inserts_and_scans(&[b"e"]));
}

#[test]
fn searches_beside_towers_that_are_built() {
    check(3, models::searches_beside_towers);
}

#[test]
fn a_snapshot_keeps_its_value_beside_overwrites() {
    check(3, || models::overwrites_and_gets(true));
}

#[test]
#[should_panic(expected = "what a snapshot sees changed")]
fn a_snapshot_that_nobody_heeds_loses_its_value() {
    check(2, || models::overwrites_and_gets(false));
}

#[test]
fn a_batch_is_seen_whole_or_not_at_all() {
    check(3, || models::batch_and_gets(false));
}

#[test]
fn a_batch_with_a_range_delete_is_seen_whole_or_not_at_all() {
    check(2, || models::batch_and_gets(true));
}

#[test]
fn readers_of_a_munk_that_is_sorted_anew() {
    check(2, || models::replacement_and_gets(Replacement::Sorted));
}

#[test]
fn readers_of_a_munk_that_is_rebalanced() {
    check(2, || models::replacement_and_gets(Replacement::Rebalanced));
}

#[test]
fn readers_of_a_munk_that_is_split() {
    check(2, || models::replacement_and_gets(Replacement::Split));
}

#[test]
fn readers_of_a_munk_that_is_evicted() {
    check(2, || models::replacement_and_gets(Replacement::Evicted));
}

#[test]
fn a_copy_beside_overwrites_and_inserts() {
    check(2, || models::writes_and_a_copy(models::Writes::Single, true));
}

#[test]
fn a_copy_beside_a_batch_that_writes_a_key_twice() {
    check(2, || models::writes_and_a_copy(models::Writes::Batch, true));
}

#[test]
#[should_panic(expected = "the copy lacks a put")]
fn a_copy_that_does_not_catch_up() {
    check(2, || models::writes_and_a_copy(models::Writes::Single, false));
}

#[test]
fn what_a_munk_lends_stays_while_the_munk_is_held() {
    for replacement in
        [Replacement::Sorted, Replacement::Rebalanced, Replacement::Split, Replacement::Evicted]
    {
        check(3, move || models::what_is_lent(replacement, true));
    }
}

#[test]
#[should_panic(expected = "what is lent changed")]
fn what_a_munk_lent_goes_when_nobody_holds_it() {
    check(2, || models::what_is_lent(Replacement::Rebalanced, false));
}
