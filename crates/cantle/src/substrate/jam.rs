//! Jams: on a disk that is nearly full, puts wait until the rebalances of a keyspace are done.
//!
//! Each keyspace has at most one jam and ends it by dropping it, so the rebalances of one keyspace never end the jam of
//! another. A put that has waited as long as it may waives the jams that it waited for: others do not wait for these
//! either.
//!
//! Thread safety: everything may be called from any thread.

use crate::sync::atomic::{
    AtomicU64,
    Ordering::{Acquire, Release},
};
use crate::sync::{Arc, Mutex};
use std::collections::BTreeSet;

/// The jams of one store.
#[derive(Debug)]
pub struct Jams {
    state: Mutex<State>,
    /// The greatest number of a jam that is neither over nor waived; 0 if there is none.
    newest: AtomicU64,
}

#[derive(Debug, Default)]
struct State {
    /// Numbers of jams given out so far.
    last: u64,
    /// Neither over nor waived.
    waited_for: BTreeSet<u64>,
}

/// Puts wait until this is dropped, or waived.
#[derive(Debug)]
#[must_use]
pub struct Jam {
    jams: Arc<Jams>,
    number: u64,
}

impl Jams {
    pub fn new() -> Arc<Self> {
        Arc::new(Self { state: Mutex::new(State::default()), newest: AtomicU64::new(0) })
    }

    /// Has puts wait.
    pub fn begin(self: &Arc<Self>) -> Jam {
        let mut state = self.state.lock();
        state.last += 1;
        let number = state.last;
        state.waited_for.insert(number);
        self.newest.store(number, Release);
        Jam { jams: self.clone(), number }
    }

    /// The newest jam that puts wait for.
    pub fn newest(&self) -> Option<u64> {
        Some(self.newest.load(Acquire)).filter(|number| *number > 0)
    }

    /// No put waits any more for this jam and those before.
    pub fn waive(&self, newest: u64) {
        self.change(|waited_for| waited_for.retain(|number| *number > newest));
    }

    fn change(&self, change: impl FnOnce(&mut BTreeSet<u64>)) {
        let mut state = self.state.lock();
        change(&mut state.waited_for);
        self.newest.store(state.waited_for.last().copied().unwrap_or(0), Release);
    }
}

impl Drop for Jam {
    fn drop(&mut self) {
        self.jams.change(|waited_for| {
            waited_for.remove(&self.number);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_jam_ends_with_its_own_keyspace() {
        let jams = Jams::new();
        assert_eq!(jams.newest(), None);
        let (a, b) = (jams.begin(), jams.begin());
        drop(b);
        assert!(jams.newest().is_some(), "the other keyspace is not done");
        drop(a);
        assert_eq!(jams.newest(), None);
    }

    #[test]
    fn who_has_waited_long_enough_waives_what_he_waited_for() {
        let jams = Jams::new();
        let first = jams.begin();
        let waited_for = jams.newest().unwrap();
        let second = jams.begin();
        jams.waive(waited_for);
        assert!(jams.newest().is_some(), "the second began later");
        drop(second);
        assert_eq!(jams.newest(), None, "the first is waived, though not over");
        drop(first);
        assert_eq!(jams.newest(), None);
    }
}
