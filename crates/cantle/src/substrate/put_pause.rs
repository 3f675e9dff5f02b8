//! Pauses of puts: on a nearly full disk, puts wait until the rebalances of a keyspace are done.
//!
//! Each keyspace has at most one pause and ends it by dropping it, so the rebalances of one
//! keyspace never end the pause of another. A put that has waited for the maximum time waives the
//! pauses that it waited for, and other puts do not wait for them either.
//!
//! Thread safety: everything may be called from any thread.

use crate::sync::atomic::{
    AtomicU64,
    Ordering::{Acquire, Release},
};
use crate::sync::{Arc, Mutex};
use std::collections::BTreeSet;

/// The pauses of one store.
#[derive(Debug)]
pub struct PutPauses {
    state: Mutex<State>,
    /// The greatest number of a pause that is neither over nor waived; 0 if there is none.
    newest: AtomicU64,
}

#[derive(Debug, Default)]
struct State {
    /// The number of the last pause begun.
    last: u64,
    /// Numbers of the pauses that are neither over nor waived.
    waited_for: BTreeSet<u64>,
}

/// Puts wait until this is dropped, or waived.
#[derive(Debug)]
#[must_use]
pub struct PutPause {
    pauses: Arc<PutPauses>,
    number: u64,
}

impl PutPauses {
    pub fn new() -> Arc<Self> {
        Arc::new(Self { state: Mutex::new(State::default()), newest: AtomicU64::new(0) })
    }

    /// Begins a pause: puts wait.
    pub fn begin(self: &Arc<Self>) -> PutPause {
        let mut state = self.state.lock();
        state.last += 1;
        let number = state.last;
        state.waited_for.insert(number);
        self.newest.store(number, Release);
        PutPause { pauses: self.clone(), number }
    }

    /// The newest pause that puts wait for.
    pub fn newest(&self) -> Option<u64> {
        Some(self.newest.load(Acquire)).filter(|number| *number > 0)
    }

    /// Ends the waiting of puts for this pause and all earlier ones.
    pub fn waive(&self, newest: u64) {
        self.change(|waited_for| waited_for.retain(|number| *number > newest));
    }

    fn change(&self, change: impl FnOnce(&mut BTreeSet<u64>)) {
        let mut state = self.state.lock();
        change(&mut state.waited_for);
        self.newest.store(state.waited_for.last().copied().unwrap_or(0), Release);
    }
}

impl Drop for PutPause {
    fn drop(&mut self) {
        self.pauses.change(|waited_for| {
            waited_for.remove(&self.number);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_ends_with_its_own_keyspace() {
        let pauses = PutPauses::new();
        assert_eq!(pauses.newest(), None);
        let (a, b) = (pauses.begin(), pauses.begin());
        drop(b);
        assert!(pauses.newest().is_some(), "the other keyspace is not done");
        drop(a);
        assert_eq!(pauses.newest(), None);
    }

    #[test]
    fn who_has_waited_long_enough_waives_what_he_waited_for() {
        let pauses = PutPauses::new();
        let first = pauses.begin();
        let waited_for = pauses.newest().unwrap();
        let second = pauses.begin();
        pauses.waive(waited_for);
        assert!(pauses.newest().is_some(), "the second began later");
        drop(second);
        assert_eq!(pauses.newest(), None, "the first is waived, though not over");
        drop(first);
        assert_eq!(pauses.newest(), None);
    }
}
