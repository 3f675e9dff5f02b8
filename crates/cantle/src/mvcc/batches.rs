//! Numbers of spanning batches.
//!
//! A checkpoint settles the batches below a number, which it reads before it opens its snapshot.
//! The snapshot waits for the writes that were announced before it was opened.
//!
//! Invariant: a batch takes its number while it is announced, so a thread that reads the next
//! number finds the announcements of all batches below it. Therefore a checkpoint waits for every
//! batch that it settles.
//!
//! Thread safety: everything may be called from any thread. `tests/loom_checkpoint.rs` is the model.

use crate::sync::atomic::{
    AtomicU64,
    Ordering::{AcqRel, Acquire},
};

pub struct Batches {
    next: AtomicU64,
}

impl Batches {
    pub fn new(next: u64) -> Self {
        Self { next: AtomicU64::new(next) }
    }

    /// A number for a batch, whose write is announced.
    pub fn take(&self) -> u64 {
        self.next.fetch_add(1, AcqRel)
    }

    /// A snapshot that is opened from here on waits for all batches below this number.
    pub fn next(&self) -> u64 {
        self.next.load(Acquire)
    }
}
