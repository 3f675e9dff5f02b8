//! Chooses the keyspaces that maintenance visits in a tick: those in use, and a few of the others
//! in turn.
//!
//! A store may have 20,000 keyspaces. A visit takes about a microsecond, and there are fifty ticks
//! per second. An accessed keyspace becomes *active*. It stays active until it has had neither an
//! access nor a job under way for some ten seconds. Idle keyspaces are visited in turn, about 3,000
//! per second: changes in their demand for memory, and the maintenance that is left there, can wait
//! that long.
//!
//! Thread safety: everything may be called from any thread. An access to a keyspace reads one flag,
//! which rarely changes.

use super::keyspace::KeyspaceInner;
use crate::sync::{Arc, Mutex};
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Weak;

/// Number of keyspaces up to which a store visits all of them in each tick, and number of idle ones
/// that a larger store visits in a tick: about 64 µs of the 20 ms between two ticks.
const PER_TICK: usize = 64;
/// Number of ticks without an access after which a keyspace is idle: some ten seconds, in which
/// access counts decay once.
const IDLE_TICKS: u32 = 512;

/// The active keyspaces of a store.
#[derive(Default)]
pub(crate) struct Activity {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    active: Vec<Active>,
    /// Name of the keyspace at which the last turn ended. The next turn begins after it.
    turn: String,
}

struct Active {
    keyspace: Weak<KeyspaceInner>,
    accesses: u64,
    idle_ticks: u32,
}

impl Activity {
    /// Adds a keyspace that was idle and has been accessed.
    pub(super) fn add(&self, keyspace: Weak<KeyspaceInner>) {
        self.state.lock().active.push(Active { keyspace, accesses: 0, idle_ticks: 0 });
    }

    /// Returns the keyspaces to visit in this tick.
    pub(super) fn due(&self, all: &BTreeMap<String, Arc<KeyspaceInner>>) -> Vec<Arc<KeyspaceInner>> {
        if all.len() <= PER_TICK {
            return all.values().cloned().collect();
        }
        let mut state = self.state.lock();
        let mut due = Vec::with_capacity(state.active.len() + PER_TICK);
        state.active.retain_mut(|active| {
            let Some(keyspace) = active.keyspace.upgrade() else { return false };
            let stays = active.is_in_use(&keyspace);
            if stays {
                due.push(keyspace);
            } else {
                // An access from here on makes the keyspace active again. After an access just
                // before, the keyspace is visited in its turn.
                keyspace.set_idle();
            }
            stays
        });
        let after = (Bound::Excluded(std::mem::take(&mut state.turn)), Bound::Unbounded);
        let in_turn = all.range::<String, _>(after).take(PER_TICK);
        let in_turn: Vec<_> = in_turn.map(|(_, keyspace)| keyspace).collect();
        // After the last keyspace, the next turn begins with the first.
        if let Some(last) = in_turn.last().filter(|_| in_turn.len() == PER_TICK) {
            state.turn.clone_from(&last.name);
        }
        due.extend(in_turn.into_iter().filter(|keyspace| !keyspace.is_active()).cloned());
        due
    }
}

impl Active {
    fn is_in_use(&mut self, keyspace: &KeyspaceInner) -> bool {
        let accesses = keyspace.layout.accesses();
        if accesses != self.accesses || keyspace.layout.is_busy() {
            (self.accesses, self.idle_ticks) = (accesses, 0);
        }
        self.idle_ticks += 1;
        self.idle_ticks <= IDLE_TICKS
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::db::Options;
    use crate::vfs::MemVfs;
    use std::collections::BTreeSet;

    #[test]
    fn a_tick_looks_at_active_keyspaces_and_a_few_others() {
        const KEYSPACES: usize = 300;
        let db = Options::new().vfs(Arc::new(MemVfs::without_history())).open("store").unwrap();
        for number in 1..KEYSPACES {
            db.keyspace(&format!("{number:03}")).unwrap();
        }
        let store = &db.handle.store;
        let all = store.keyspaces.read();
        all.values().for_each(|keyspace| keyspace.set_idle());
        let activity = Activity::default();
        let look =
            || activity.due(&all).into_iter().map(|keyspace| keyspace.name.clone()).collect::<Vec<_>>();
        let seen: BTreeSet<String> = (0..KEYSPACES.div_ceil(PER_TICK)).flat_map(|_| look()).collect();
        assert_eq!(seen.len(), KEYSPACES, "each has its turn");
        for name in ["007", "123", "default"] {
            activity.add(Arc::downgrade(&all[name]));
        }
        for _ in 0..IDLE_TICKS {
            let due = look();
            assert!(due.len() <= PER_TICK + 3, "{} in one tick", due.len());
            assert_eq!(due[..3], ["007", "123", "default"]);
        }
        assert!((0..8).all(|_| look().len() <= PER_TICK), "they idle");
    }
}
