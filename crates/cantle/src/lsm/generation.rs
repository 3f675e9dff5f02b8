//! A generation: a log that several writers append to, with its index in memory.
//!
//! A writer enters the active generation, appends, publishes, and leaves. A full generation is
//! sealed: no writer enters any more. Once all writers have left, its index is written to disk.
//!
//! Thread safety: a writer adds itself to `writers` and then reads `sealed`; sealing sets `sealed`
//! and then reads `writers`. All four accesses are sequentially consistent, so either the writer is
//! turned away or the seal waits for it. `tests/shuttle_generation.rs` is the model.

use crate::sync::Arc;
use crate::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};

/// A log, here `L`, and the writers in it.
pub struct Generation<L> {
    pub log: L,
    writers: AtomicUsize,
    sealed: AtomicBool,
}

/// A writer in a generation, until it is dropped.
#[must_use]
pub struct Entered<L>(Arc<Generation<L>>);

impl<L> Generation<L> {
    pub fn new(log: L) -> Self {
        Self { log, writers: AtomicUsize::new(0), sealed: AtomicBool::new(false) }
    }

    /// Enters as a writer; `None` if the generation is sealed.
    pub fn enter(self: &Arc<Self>) -> Option<Entered<L>> {
        self.writers.fetch_add(1, SeqCst);
        let entered = Entered(self.clone());
        (!self.sealed.load(SeqCst)).then_some(entered)
    }

    /// Turns away later writers. The successor is in the view already.
    pub fn seal(&self) {
        self.sealed.store(true, SeqCst);
    }

    /// True if nothing is written any more: the generation is sealed, and all writers have left.
    pub fn is_quiet(&self) -> bool {
        self.sealed.load(SeqCst) && self.writers.load(SeqCst) == 0
    }
}

impl<L> Entered<L> {
    pub fn generation(&self) -> &Arc<Generation<L>> {
        &self.0
    }
}

impl<L> Drop for Entered<L> {
    fn drop(&mut self) {
        self.0.writers.fetch_sub(1, SeqCst);
    }
}
