//! Lets closing wait for the background work of a store.
//!
//! The threads are shared and outlive the store, and a job holds references to parts of it. Without
//! the gate a job could go on writing to the store's files after its lock is released.
//!
//! Thread safety: everything may be called from any thread, `close` not from within background work.

use crate::sync::{Condvar, Mutex};

/// Counts background work. After `close`, none begins.
#[derive(Default)]
pub struct Gate {
    state: Mutex<State>,
    idle: Condvar,
}

#[derive(Default)]
struct State {
    running: usize,
    closed: bool,
}

/// Background work under way, until it is dropped.
#[must_use]
pub struct Pass<'a>(&'a Gate);

impl Gate {
    /// Begins background work; `None` once the gate is closed.
    pub fn enter(&self) -> Option<Pass<'_>> {
        let mut state = self.state.lock();
        if state.closed {
            return None;
        }
        state.running += 1;
        Some(Pass(self))
    }

    /// Lets no further work begin, and waits until all is over.
    pub fn close(&self) {
        let mut state = self.state.lock();
        state.closed = true;
        while state.running > 0 {
            self.idle.wait(&mut state);
        }
    }
}

impl Drop for Pass<'_> {
    fn drop(&mut self) {
        self.0.state.lock().running -= 1;
        self.0.idle.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sync::atomic::{AtomicBool, Ordering::SeqCst};
    use crate::sync::{Arc, thread};
    use std::time::Duration;

    #[test]
    fn closing_waits_for_work_under_way_and_lets_none_begin() {
        let gate = Arc::new(Gate::default());
        let done = Arc::new(AtomicBool::new(false));
        let (inside, began) = std::sync::mpsc::channel();
        let working = {
            let (gate, done) = (gate.clone(), done.clone());
            thread::spawn("gate-test", move || {
                let _pass = gate.enter().unwrap();
                inside.send(()).unwrap();
                thread::sleep(Duration::from_millis(20));
                done.store(true, SeqCst);
            })
        };
        began.recv().unwrap();
        gate.close();
        assert!(done.load(SeqCst));
        assert!(gate.enter().is_none());
        working.unwrap().join().unwrap();
    }
}
