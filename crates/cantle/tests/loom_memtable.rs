//! The list of a log's newest operations (`log/index/memtable`), the library's own, in every
//! interleaving and under the weak memory model of loom, with at most the stated number of
//! preemptions. Loom does not see the bytes of nodes, but it sees that their links are not read
//! before they are published.
//!
//! Verified by hand once: the model fails if a search does not return the node that it has
//! compared, but the node that follows at that time.
//!
//! The wrong twins are made by the atomics: the library's code is the same, and one ordering of it
//! is weakened or one exchange is not checked.
#![expect(dead_code, unreachable_pub, reason = "the modules under test serve a library")]

#[macro_use]
#[path = "../src/canary.rs"]
mod canary;
#[path = "../src/types"]
mod types {
    pub mod entry;
    pub mod order;
    /// The errors of entries.
    pub mod error {
        pub type Result<T> = std::result::Result<T, ()>;
    }
}
#[path = "models"]
mod memory {
    #[path = "lost_pages.rs"]
    pub mod pages;
}
#[path = "../src/log/index/memtable"]
mod memtable {
    mod arena;
    mod list;
    mod node;

    pub use list::{Entry, SkipList};
    pub use node::Item;
}
#[path = "models/memtable.rs"]
mod models;
#[path = "../src/log/index/record_ptr.rs"]
mod record_ptr;
#[path = "../src/mvcc"]
mod mvcc {
    mod commit;
    pub use commit::CommitCell;
}
mod log {
    pub mod index {
        pub(crate) use crate::record_ptr;
    }
}

#[path = "models/loom_mutex.rs"]
mod loom_mutex;
/// Loom's version of the items of `cantle::sync` that the modules under test use.
mod sync {
    pub use loom::sync::Arc;

    pub mod random {
        /// The same as the library's.
        pub fn mix(number: u64) -> u64 {
            let mixed = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            mixed ^ (mixed >> 31)
        }
    }

    pub mod thread {
        pub use loom::thread::spawn;
    }

    pub mod atomic {
        pub use loom::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};
        use std::sync::atomic::AtomicU8;

        loom::lazy_static! {
            static ref TOUCHED: AtomicUsize = AtomicUsize::new(0);
        }

        /// Makes loom try both orders of two accesses, as in `loom_munk.rs`.
        fn touch() {
            TOUCHED.fetch_add(0, Ordering::Relaxed);
        }

        /// The cell of a batch.
        #[derive(Debug)]
        pub struct AtomicBool(loom::sync::atomic::AtomicBool);

        impl AtomicBool {
            pub fn new(value: bool) -> Self {
                Self(loom::sync::atomic::AtomicBool::new(value))
            }

            pub fn load(&self, ordering: Ordering) -> bool {
                touch();
                self.0.load(ordering)
            }

            pub fn store(&self, value: bool, ordering: Ordering) {
                touch();
                self.0.store(value, ordering);
            }
        }

        /// A fault of links.
        #[derive(Clone, Copy, PartialEq, Eq)]
        #[repr(u8)]
        pub enum Fault {
            None,
            /// A node is linked without `Release`.
            LinkedRelaxed,
            /// Links are followed without `Acquire`.
            FollowedRelaxed,
            /// A link is set even if it has changed since.
            NotCompared,
        }

        /// The fault of this process: each test is one process, or sets the fault under a lock.
        static FAULT: AtomicU8 = AtomicU8::new(0);

        pub fn set_fault(fault: Fault) {
            FAULT.store(fault as u8, std::sync::atomic::Ordering::SeqCst);
        }

        fn is(fault: Fault) -> bool {
            FAULT.load(std::sync::atomic::Ordering::SeqCst) == fault as u8
        }

        /// Links, and the next offset of an arena, whose orderings are relaxed anyway.
        #[derive(Debug)]
        pub struct AtomicU32(loom::sync::atomic::AtomicU32);

        impl AtomicU32 {
            pub fn new(value: u32) -> Self {
                Self(loom::sync::atomic::AtomicU32::new(value))
            }

            pub fn load(&self, ordering: Ordering) -> u32 {
                touch();
                self.0.load(if is(Fault::FollowedRelaxed) { Ordering::Relaxed } else { ordering })
            }

            pub fn store(&self, value: u32, ordering: Ordering) {
                self.0.store(value, ordering);
            }

            pub fn compare_exchange(
                &self,
                current: u32,
                new: u32,
                success: Ordering,
                failure: Ordering,
            ) -> Result<u32, u32> {
                touch();
                if is(Fault::NotCompared) {
                    self.0.store(new, success);
                    return Ok(current);
                }
                let success = if is(Fault::LinkedRelaxed) { Ordering::Relaxed } else { success };
                self.0.compare_exchange(current, new, success, failure)
            }

            pub fn compare_exchange_weak(
                &self,
                current: u32,
                new: u32,
                success: Ordering,
                failure: Ordering,
            ) -> Result<u32, u32> {
                self.0.compare_exchange(current, new, success, failure)
            }
        }
    }

    pub use crate::loom_mutex::Mutex;
}

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use sync::atomic::{Fault, set_fault};

/// One test at a time, as the fault is global.
static TURN: std::sync::Mutex<()> = std::sync::Mutex::new(());

fn check(preemptions: usize, fault: Fault, model: impl Fn() + Send + Sync + 'static) {
    let _turn = TURN.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    set_fault(fault);
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
fn two_threads_insert_at_one_place_beside_a_reader() {
    check(2, Fault::None, || models::inserts_and_reads(&[b"b"], &[b"c"]));
}

#[test]
fn two_threads_insert_several_keys_beside_a_reader() {
    check(1, Fault::None, || models::inserts_and_reads(&[b"a", b"c"], &[b"b"]));
}

#[test]
fn two_threads_insert_one_key_beside_a_reader() {
    check(1, Fault::None, || models::inserts_and_reads(&[b"n"], &[b"n"]));
}

#[test]
fn a_batch_shows_whole_or_not_at_all() {
    check(3, Fault::None, models::a_batch_and_reads);
}

#[test]
fn what_was_noted_is_settled_beside_an_insert() {
    check(2, Fault::None, models::settling_beside_an_insert);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn a_node_that_is_linked_without_release() {
    check(2, Fault::LinkedRelaxed, || models::inserts_and_reads(&[b"b"], &[b"c"]));
}

#[test]
#[should_panic(expected = "Causality violation")]
fn a_link_that_is_followed_without_acquire() {
    check(2, Fault::FollowedRelaxed, || models::inserts_and_reads(&[b"b"], &[b"c"]));
}

#[test]
#[should_panic(expected = "an insert is lost")]
fn a_link_that_is_set_whatever_it_has_become() {
    check(2, Fault::NotCompared, || models::inserts_and_reads(&[b"b"], &[b"c"]));
}
