//! Promises of free space (`files/space`), the library's own, in every interleaving of writers, of one who takes space
//! for the reserve, and of looks at the file system.
//!
//! The wrong twin looks with a report that is older than the look, as a look would that does not heed what is written
//! meanwhile.
#![expect(dead_code, unreachable_pub, reason = "the module under test serves a library")]

#[path = "../src/files/space.rs"]
mod space;
mod types {
    /// The errors of grants.
    pub mod error {
        pub type Result<T> = std::result::Result<T, ()>;
    }
}
#[path = "models/loom_mutex.rs"]
mod loom_mutex;
/// Loom's version of the items of `cantle::sync` that the module under test uses.
mod sync {
    pub use loom::sync::{Arc, atomic};

    pub use crate::loom_mutex::Mutex;
}

use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering::SeqCst};
use loom::thread::spawn;
use space::{Promise, Space};
use std::sync::Arc as Counted;
use std::sync::atomic::AtomicUsize;

/// A file system with this many bytes free.
struct Disk {
    free_bytes: AtomicU64,
    space: Arc<Space>,
    is_stale: bool,
}

impl Disk {
    fn new(free_bytes: u64, is_stale: bool) -> Arc<Self> {
        let disk =
            Self { free_bytes: AtomicU64::new(free_bytes), space: Arc::new(Space::unknown()), is_stale };
        disk.look();
        Arc::new(disk)
    }

    fn look(&self) {
        let early = self.free_bytes.load(SeqCst);
        self.space.look(|| if self.is_stale { early } else { self.free_bytes.load(SeqCst) });
    }

    fn take(&self, bytes: u64) {
        let taken = self.free_bytes.fetch_update(SeqCst, SeqCst, |free| free.checked_sub(bytes));
        assert!(taken.is_ok(), "what was promised is not there");
    }

    /// A write that waits in memory first, or the reserve; false if it was refused.
    fn write(&self, bytes: u64) -> bool {
        let promise = Promise::none(self.space.clone());
        promise.add(bytes);
        if !self.space.suffices(0) {
            self.look();
            if !self.space.suffices(0) {
                return false;
            }
        }
        self.take(bytes);
        promise.redeem(bytes);
        true
    }
}

fn check(model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(2);
    let schedules = Counted::new(AtomicUsize::new(0));
    let count = schedules.clone();
    builder.check(move || {
        count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        model();
    });
    let schedules = schedules.load(std::sync::atomic::Ordering::Relaxed);
    println!("{schedules} schedules");
    assert!(schedules >= 20, "only {schedules} schedules");
}

/// Two write, and a third looks and writes.
fn writes_beside_looks(is_stale: bool) {
    let disk = Disk::new(10, is_stale);
    let writers: Vec<_> = [4, 5]
        .map(|bytes| {
            let disk = disk.clone();
            spawn(move || disk.write(bytes))
        })
        .into();
    disk.look();
    let third = disk.write(3);
    let written: Vec<bool> = writers
        .into_iter()
        .map(|writer| writer.join().unwrap_or_else(|_| panic!("a write failed")))
        .collect();
    assert!(
        written.iter().filter(|is_done| **is_done).count() + usize::from(third) < 3,
        "that is more than 10"
    );
    assert_eq!(disk.space.promised_bytes(), 0);
}

#[test]
fn what_is_promised_is_there() {
    check(|| writes_beside_looks(false));
}

#[test]
#[should_panic(expected = "what was promised is not there")]
fn a_look_that_does_not_heed_what_is_written_meanwhile() {
    check(|| writes_beside_looks(true));
}
