//! The life of files (`files/files.rs`) in every interleaving, with at most the stated number of
//! preemptions: files that are read or referred to exist, and unneeded files are removed, once.
//!
//! Methods are called on `Arc`s of files, which only those of `std` allow. Loom does not see that
//! the thread which drops the last `Arc` sees the writes of the others, so flags are in locks here.
//! Hence the order of operations is checked, but memory orderings are not.
#![expect(dead_code, unreachable_pub, reason = "the modules under test serve a library")]

#[macro_use]
#[path = "../src/canary.rs"]
mod canary;
#[path = "../src/types"]
mod types {
    pub mod bounds;
    pub mod error;
    pub mod order;
}
#[path = "../src/files"]
mod files {
    mod claims;
    #[expect(clippy::module_inception, reason = "as in the library")]
    mod files;
    #[path = "../../tests/models/no_handles.rs"]
    mod handles;
    mod unsynced;

    pub use files::{Files, StoreFile, parse_file_name};
}
#[path = "../src/format"]
mod format {
    pub mod codec;
    pub mod header;
}
#[path = "models/files.rs"]
mod models;
#[path = "models/small_vfs.rs"]
mod vfs;

#[path = "models/loom_mutex.rs"]
mod loom_mutex;
/// Loom's version of the items of `cantle::sync` that the modules under test use.
mod sync {
    pub use loom::sync::{RwLockReadGuard, RwLockWriteGuard};
    pub use std::sync::Arc;

    pub mod atomic {
        pub use loom::sync::atomic::{AtomicI64, AtomicU64, AtomicUsize, Ordering};

        #[derive(Debug)]
        pub struct AtomicBool(loom::sync::Mutex<bool>);

        impl Default for AtomicBool {
            fn default() -> Self {
                Self::new(false)
            }
        }

        impl AtomicBool {
            pub fn new(value: bool) -> Self {
                Self(loom::sync::Mutex::new(value))
            }

            pub fn load(&self, _: Ordering) -> bool {
                *self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
            }

            pub fn store(&self, value: bool, ordering: Ordering) {
                self.swap(value, ordering);
            }

            pub fn swap(&self, value: bool, _: Ordering) -> bool {
                std::mem::replace(&mut *self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner()), value)
            }
        }
    }

    pub mod thread {
        pub use loom::thread::{JoinHandle, spawn};
    }

    pub use crate::loom_mutex::Mutex;

    #[derive(Debug)]
    pub struct RwLock<T>(loom::sync::RwLock<T>);

    impl<T> RwLock<T> {
        pub fn new(value: T) -> Self {
            Self(loom::sync::RwLock::new(value))
        }

        pub fn read(&self) -> RwLockReadGuard<'_, T> {
            self.0.read().unwrap_or_else(|poisoned| poisoned.into_inner())
        }

        pub fn write(&self) -> RwLockWriteGuard<'_, T> {
            self.0.write().unwrap_or_else(|poisoned| poisoned.into_inner())
        }
    }
}

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
fn a_file_goes_with_its_last_reader() {
    check(3, || models::a_reader_and_a_checkpoint(true));
}

#[test]
#[should_panic(expected = "a file went while it was read")]
fn a_reader_that_holds_nothing() {
    check(3, || models::a_reader_and_a_checkpoint(false));
}

#[test]
fn a_file_of_two_chunks_goes_with_the_second() {
    check(3, || models::two_references(true));
}

#[test]
#[should_panic(expected = "the last checkpoint lacks a file")]
fn a_checkpoint_that_lets_go_before_it_is_durable() {
    check(3, || models::two_references(false));
}

#[test]
fn shares_of_a_file_are_nobodys_until_the_last_lets_go() {
    check(3, || models::shares(true));
}

#[test]
#[should_panic(expected = "what is gone counts")]
fn a_share_that_is_given_up_too_late() {
    check(3, || models::shares(false));
}

#[test]
fn what_is_pinned_stays_and_goes_afterwards() {
    check(4, || models::a_backup(true));
}

#[test]
#[should_panic(expected = "a backup lacks a file")]
fn a_backup_that_pins_nothing() {
    check(3, || models::a_backup(false));
}

#[test]
fn none_goes_once_others_may_open_the_store() {
    check(4, || models::late_jobs(true));
}

#[test]
#[should_panic(expected = "a file went that another opening had found")]
fn jobs_that_let_go_of_files_of_a_store_that_is_closed() {
    check(3, || models::late_jobs(false));
}

#[test]
fn a_checkpoint_covers_the_names_of_the_files_that_it_knows() {
    check(4, || models::names(true));
}

#[test]
#[should_panic(expected = "a name is not durable")]
fn a_checkpoint_that_looks_at_the_directory_too_early() {
    check(3, || models::names(false));
}
