//! What runs in the background for a store, so that closing it can wait for that.
//!
//! A job that went on after its store was closed would write to files that the next opening takes for its own.
//!
//! Thread safety: jobs enter and leave on any thread. Whoever closes must not be inside.

use crate::sync::{Condvar, Mutex};

#[derive(Default)]
pub struct Gate {
    state: Mutex<State>,
    left: Condvar,
}

#[derive(Default)]
struct State {
    closed: bool,
    inside: usize,
}

impl Gate {
    /// Begins a job; `None` once the store is being closed. The job ends when the result is dropped.
    pub fn enter(&self) -> Option<Inside<'_>> {
        let mut state = self.state.lock();
        if state.closed {
            return None;
        }
        state.inside += 1;
        Some(Inside { gate: self })
    }

    /// Lets nobody in any more and waits until everybody has left.
    pub fn close(&self) {
        let mut state = self.state.lock();
        state.closed = true;
        while state.inside > 0 {
            self.left.wait(&mut state);
        }
    }
}

/// A job under way.
#[must_use = "dropping it ends the job"]
pub struct Inside<'a> {
    gate: &'a Gate,
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.gate.state.lock().inside -= 1;
        self.gate.left.notify_all();
    }
}
