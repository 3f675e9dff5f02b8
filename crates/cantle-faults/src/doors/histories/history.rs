//! Is a concurrent history linearizable? The search of Wing and Gong with the memory of Lowe: tries operations in
//! every order that real time allows, and remembers what it has tried.

use std::collections::HashSet;

/// The values of all keys.
pub type State = Vec<Option<u64>>;

/// What an operation did, and what its caller was told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Each key, in this order, gets the value or loses its own.
    Write(Vec<(usize, Option<u64>)>),
    Get(usize, Option<u64>),
    Update {
        key: usize,
        old: Option<u64>,
        new: Option<u64>,
    },
    /// Everything at one moment.
    Snapshot(State),
    /// What was read of others' writes, and what was written then.
    Transaction {
        reads: Vec<(usize, Option<u64>)>,
        writes: Vec<(usize, Option<u64>)>,
    },
}

#[derive(Debug, Clone)]
pub struct Operation {
    pub invoked: u64,
    pub returned: u64,
    pub action: Action,
}

impl Action {
    /// The state after it, if it can have happened in this state.
    fn apply(&self, state: &State) -> Option<State> {
        let matches = |key: usize, value: &Option<u64>| state[key] == *value;
        match self {
            Self::Write(writes) => {
                let mut after = state.clone();
                writes.iter().for_each(|(key, value)| after[*key] = *value);
                Some(after)
            }
            Self::Get(key, value) => matches(*key, value).then(|| state.clone()),
            Self::Update { key, old, new } => matches(*key, old).then(|| {
                let mut after = state.clone();
                after[*key] = *new;
                after
            }),
            Self::Transaction { reads, writes } => {
                let holds = reads.iter().all(|(key, value)| matches(*key, value));
                holds.then(|| {
                    let mut after = state.clone();
                    writes.iter().for_each(|(key, value)| after[*key] = *value);
                    after
                })
            }
            Self::Snapshot(seen) => (seen == state).then(|| state.clone()),
        }
    }
}

/// Whether the operations of each thread (in their order) can have happened one at a time, each between its
/// invocation and its return, from `start`; and which states can have been the last then.
pub fn linearize(start: &State, threads: &[Vec<Operation>]) -> Option<State> {
    let mut tried = HashSet::new();
    let mut stack = vec![(vec![0; threads.len()], start.clone())];
    while let Some((done, state)) = stack.pop() {
        let next: Vec<Option<&Operation>> =
            threads.iter().zip(&done).map(|(operations, &done)| operations.get(done)).collect();
        let Some(first_return) = next.iter().flatten().map(|operation| operation.returned).min() else {
            return Some(state);
        };
        for (thread, operation) in next.iter().enumerate() {
            let Some(operation) = operation.filter(|operation| operation.invoked <= first_return) else {
                continue;
            };
            let Some(after) = operation.action.apply(&state) else { continue };
            let mut done = done.clone();
            done[thread] += 1;
            if tried.insert((done.clone(), after.clone())) {
                stack.push((done, after));
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(invoked: u64, returned: u64, action: Action) -> Operation {
        Operation { invoked, returned, action }
    }

    #[test]
    fn the_checker_accepts_what_overlaps_in_either_order() {
        let put = at(0, 10, Action::Write(vec![(0, Some(1))]));
        for seen in [None, Some(1)] {
            let get = at(1, 2, Action::Get(0, seen));
            assert!(linearize(&vec![None], &[vec![put.clone()], vec![get]]).is_some());
        }
    }

    #[test]
    fn the_checker_refuses_stale_reads_lost_updates_and_torn_batches() {
        let put = at(0, 1, Action::Write(vec![(0, Some(1)), (1, Some(1))]));
        let refused = |actions: Vec<Action>| {
            let later = actions
                .into_iter()
                .enumerate()
                .map(|(n, action)| at(2 + 2 * n as u64, 3 + 2 * n as u64, action));
            linearize(&vec![None, None], &[vec![put.clone()], later.collect()]).is_none()
        };
        assert!(refused(vec![Action::Get(0, None)]));
        assert!(refused(vec![Action::Update { key: 0, old: None, new: Some(2) }]));
        assert!(refused(vec![Action::Snapshot(vec![Some(1), None])]));
        assert!(!refused(vec![Action::Get(0, Some(1)), Action::Snapshot(vec![Some(1), Some(1)])]));
        let slow = at(0, 100, Action::Write(vec![(0, Some(1)), (1, Some(1))]));
        let torn = vec![at(1, 2, Action::Get(0, Some(1))), at(3, 4, Action::Get(1, None))];
        assert!(linearize(&vec![None, None], &[vec![slow], torn]).is_none());
    }

    #[test]
    fn the_checker_refuses_write_skew_and_what_only_a_reader_notices() {
        let transaction = |reads: Vec<_>, writes: Vec<_>| Action::Transaction { reads, writes };
        let one = at(0, 10, transaction(vec![(0, None), (1, None)], vec![(0, Some(1))]));
        let two = at(0, 10, transaction(vec![(0, None), (1, None)], vec![(1, Some(2))]));
        let start = vec![None, None];
        assert!(linearize(&start, &[vec![one.clone()]]).is_some());
        assert!(linearize(&start, &[vec![one.clone()], vec![two.clone()]]).is_none());
        // One more write than it read leaves an order, but not the one that a reader saw.
        let blind = at(0, 10, transaction(vec![(1, None)], vec![(1, Some(2))]));
        assert!(linearize(&start, &[vec![one.clone()], vec![blind.clone()]]).is_some());
        let reader = at(1, 2, transaction(vec![(0, None), (1, Some(2))], Vec::new()));
        assert!(linearize(&start, &[vec![one], vec![blind], vec![reader]]).is_none());
    }
}
