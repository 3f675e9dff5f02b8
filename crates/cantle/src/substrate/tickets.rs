//! Tickets: a caller either makes a checkpoint or shares one of another thread.
//!
//! A checkpoint covers a caller if it begins after the call. Callers that arrive while one runs
//! cannot tell which writes it has seen already, so they share the next one: the first of them
//! makes it, the others find that it is finished.
//!
//! Invariant: a call takes its ticket and a checkpoint takes its number by read-modify-writes of
//! one counter. Each of them finds the newest value and everything done before it. The writes of a
//! call that comes first are covered by the checkpoint, and a call that comes later takes a later
//! ticket. A plain load may find an old value, and with it the ticket of a checkpoint that has
//! begun without the caller's writes.
//!
//! Thread safety: everything may be called from any thread. `tests/loom_checkpoint.rs` is the model.

use crate::sync::Mutex;
use crate::sync::atomic::{
    AtomicU64,
    Ordering::{AcqRel, Acquire, Release},
};

pub struct Tickets {
    running: Mutex<()>,
    begun: AtomicU64,
    finished: AtomicU64,
}

impl Tickets {
    pub fn new() -> Self {
        Self { running: Mutex::new(()), begun: AtomicU64::new(0), finished: AtomicU64::new(0) }
    }

    /// Number of finished checkpoints.
    pub fn count(&self) -> u64 {
        self.finished.load(Acquire)
    }

    /// Makes a checkpoint by `make`; `None` if a checkpoint of another thread, which began after
    /// the call, covers this one. A checkpoint that fails covers no caller.
    pub fn share<T, E>(&self, make: impl FnOnce() -> Result<T, E>) -> Result<Option<T>, E> {
        let ticket = self.begun.fetch_add(0, AcqRel) + 1;
        let _running = self.running.lock();
        if self.finished.load(Acquire) >= ticket {
            return Ok(None);
        }
        let number = self.begun.fetch_add(1, AcqRel) + 1;
        let made = make();
        match &made {
            Ok(_) => self.finished.store(number, Release),
            // The next caller tries again under the same number.
            Err(_) => {
                self.begun.fetch_sub(1, AcqRel);
            }
        }
        made.map(Some)
    }
}
