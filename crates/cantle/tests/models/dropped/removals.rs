//! Removals of dropped runs, which hand on what the runs say of replaced files (`lsm/marked.rs`, `lsm/lineage.rs`).

use super::state::{GUARDS, KEYS, ORDER, Run, State, Write, keys_of, span};
use super::{Done, FIRST_WRITES, Fault, Store, at_once, store};
use crate::lsm::busy::{Busy, Claim};
use shuttle::rand::{RngCore, thread_rng};
use shuttle::sync::MutexGuard;
use shuttle::thread::yield_now;
use std::sync::atomic::Ordering::Relaxed;

impl Store {
    /// Removes the runs of some guards of which nobody sees anything (`lsm::marked::purge`): at once if all that they
    /// replace has gone, and after it has read what they say if not.
    pub(super) fn purge(&self, asked: &[usize]) {
        let busy: MutexGuard<'_, Busy> = self.claims.lock();
        let state = self.state();
        let oldest = state.snapshots.first().copied().unwrap_or(state.newest());
        let is_gone = move |run: &Run| {
            let by_parts = run.dropped_ranges.as_ref();
            let by_parts = by_parts.and_then(|ranges| ranges.covers_from(&ORDER, &span(run.keys.clone())));
            run.dropped.or(by_parts).is_some_and(|version| version <= oldest)
        };
        let has_gone =
            |guard: &usize| state.guards[*guard].iter().any(is_gone) && busy.is_free(*guard as u64);
        let guards: Vec<usize> = asked.iter().copied().filter(has_gone).collect();
        let gone: Vec<Run> = guards
            .iter()
            .flat_map(|&guard| &state.guards[guard])
            .filter(|run| is_gone(run))
            .cloned()
            .collect();
        let speaking = gone.iter().filter(|run| run.file >= state.settled() && run.replaces());
        let said =
            speaking.fold([0; KEYS], |said, run| std::array::from_fn(|key| said[key].max(run.replaced[key])));
        let is_named = |run: &Run| gone.iter().any(|named| named.file == run.file);
        let remove = |state: &mut State, guards: &[usize], is_removed: &dyn Fn(&Run) -> bool| {
            for &guard in guards {
                let (removed, kept) =
                    std::mem::take(&mut state.guards[guard]).into_iter().partition(is_removed);
                let removed: Vec<Run> = removed;
                self.done.purged.fetch_add(removed.len(), Relaxed);
                state.left.extend(removed);
                state.guards[guard] = kept;
            }
        };
        drop(state);
        if said == [0; KEYS] || self.fault == Fault::PurgesSilently {
            let mut state = self.state();
            remove(&mut state, &guards, &is_named);
            return state.check(&self.done);
        }
        let from: Vec<u64> = guards.iter().map(|&guard| guard as u64).collect();
        let claimed = self.claims.claim(busy, Claim { into: from.clone(), from, logs: false });
        yield_now();
        let file = self.state().new_file();
        yield_now();
        let busy = self.claims.lock();
        let mut state = self.state();
        match self.fault {
            Fault::PurgesWhatIsDroppedSince => remove(&mut state, asked, &is_gone),
            _ => remove(&mut state, &guards, &is_named),
        }
        let statement = Run { file, keys: keys_of(guards[0]), replaced: said, ..Run::default() };
        state.guards[guards[0]].insert(0, statement);
        self.done.handed_on.fetch_add(1, Relaxed);
        state.check(&self.done);
        drop((state, busy));
        drop(claimed);
    }

    /// Removes the tables without entries whose replaced files have gone (`lsm::marked::forget`).
    fn forget(&self) {
        let busy = self.claims.lock();
        let mut state = self.state();
        let settled = state.settled();
        let is_left =
            |run: &Run| !run.is_empty_table() || run.file >= settled && self.fault != Fault::ForgetsEarly;
        for guard in (0..GUARDS).filter(|&guard| busy.is_free(guard as u64)) {
            let before = state.guards[guard].len();
            state.guards[guard].retain(is_left);
            self.done.forgotten.fetch_add(before - state.guards[guard].len(), Relaxed);
        }
        state.check(&self.done);
    }

    /// A replaced file goes from the directory.
    fn unlink(&self) {
        let mut state = self.state();
        if let Some(last) = state.left.len().checked_sub(1) {
            state.left.swap_remove(thread_rng().next_u64() as usize % (last + 1));
        }
        state.check(&self.done);
    }
}

/// Removals of dropped runs that have something to say, while their guards change and replaced files go.
pub fn removals(fault: Fault, done: &std::sync::Arc<Done>) {
    // A delete of a part of what the last level says something about.
    let last = [Write { keys: 2..3, deletes: false }, Write { keys: 1..3, deletes: true }];
    let store = store(last, fault, done);
    store.read_and_close(FIRST_WRITES - 1);
    store.merge(|| store.plan(0));
    at_once(
        &store,
        &[
            |store| {
                store.write(Write { keys: 3..KEYS, deletes: true });
                store.merge(|| store.plan(0));
                store.write(Write::any(false));
            },
            |store| [2, 4, 1, 3].into_iter().for_each(|guard| store.merge(|| store.plan(guard))),
            |store| [&[3, 4][..], &[1, 2, 3, 4]].into_iter().for_each(|guards| store.purge(guards)),
            |store| {
                for _ in 0..3 {
                    store.forget();
                    store.unlink();
                }
            },
        ],
    );
    while !store.state().left.is_empty() {
        store.unlink();
        store.forget();
    }
}
