//! Checks if a concurrent history is linearizable, by the search of Wing and Gong with the memory
//! of Lowe: it tries operations in every order that real time allows, and remembers the states that
//! it has tried.

use crate::shrink::shrink;
use std::collections::HashSet;

/// The values of all keys.
pub type State = Vec<Option<u64>>;

/// The effect of an operation, and the result that its caller got.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// In this order, each key gets the value, or is deleted.
    Write(Vec<(usize, Option<u64>)>),
    Get(usize, Option<u64>),
    Update {
        key: usize,
        old: Option<u64>,
        new: Option<u64>,
    },
    /// All keys at one moment.
    Snapshot(State),
    /// Values that were read of other writes, and the writes that followed.
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
    /// The results that its caller got, by key.
    fn reads(&self) -> impl Iterator<Item = (usize, Option<u64>)> {
        let (one, some, all): (_, &[_], &[_]) = match self {
            Self::Write(_) => (None, &[], &[]),
            Self::Get(key, value) | Self::Update { key, old: value, .. } => (Some((*key, *value)), &[], &[]),
            Self::Transaction { reads, .. } => (None, reads, &[]),
            Self::Snapshot(state) => (None, &[], state),
        };
        one.into_iter().chain(some.iter().copied()).chain(all.iter().copied().enumerate())
    }

    /// Its writes, in this order.
    fn writes(&self) -> impl Iterator<Item = (usize, Option<u64>)> {
        let (one, some): (_, &[_]) = match self {
            Self::Get(..) | Self::Snapshot(_) => (None, &[]),
            Self::Update { key, new, .. } => (Some((*key, *new)), &[]),
            Self::Write(writes) | Self::Transaction { writes, .. } => (None, writes),
        };
        one.into_iter().chain(some.iter().copied())
    }

    /// The state after it, if it is possible in this state.
    fn apply(&self, state: &State) -> Option<State> {
        self.reads().all(|(key, value)| state[key] == value).then(|| {
            let mut after = state.clone();
            self.writes().for_each(|(key, value)| after[key] = value);
            after
        })
    }
}

/// Checks if the operations of each thread (in their order) can have happened one at a time, each
/// between its invocation and its return, from `start`. Returns a possible last state.
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

/// Maximum number of attempts to shrink a contradiction.
const ATTEMPTS: usize = 4000;

/// The fewest operations found of a history that is not linearizable, which contradict each other
/// by themselves.
///
/// An operation may be left out if no remaining operation read its writes: if the history had an
/// order with it, the remaining operations have the same order without it.
pub fn contradiction(start: &State, threads: &[Vec<Operation>]) -> Vec<Vec<Operation>> {
    let places = threads.iter().enumerate().flat_map(|(thread, operations)| {
        operations.iter().enumerate().map(move |(place, _)| (thread, place))
    });
    let places: Vec<(usize, usize)> = places.collect();
    let action = |number: u64| {
        let (thread, place) = places[number as usize];
        &threads[thread][place].action
    };
    let with = |numbers: &[u64]| {
        let mut some = vec![Vec::new(); threads.len()];
        for &number in numbers {
            let (thread, place) = places[number as usize];
            some[thread].push(threads[thread][place].clone());
        }
        some
    };
    let all: Vec<u64> = (0..places.len() as u64).collect();
    let contradicts = |numbers: &[u64]| {
        let read: HashSet<_> = numbers.iter().flat_map(|&number| action(number).reads()).collect();
        let stays: HashSet<u64> = numbers.iter().copied().collect();
        let mut left_out = all.iter().filter(|number| !stays.contains(number));
        let may_go = left_out.all(|&number| !action(number).writes().any(|written| read.contains(&written)));
        // The operation at which a subset fails is unknown, so the failure counts as at the end.
        (may_go && linearize(start, &with(numbers)).is_none()).then_some(u64::MAX)
    };
    with(&shrink(all.clone(), ATTEMPTS, contradicts).unwrap_or(all.clone()))
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

    /// A get after two writes that sees the first, among irrelevant reads and writes of others.
    #[test]
    fn of_a_contradiction_only_what_it_needs_is_told() {
        let put = |at_time: u64, key: usize, value: u64| {
            at(at_time, at_time + 1, Action::Write(vec![(key, Some(value))]))
        };
        let get =
            |at_time: u64, key: usize, value: u64| at(at_time, at_time + 1, Action::Get(key, Some(value)));
        let writer = vec![put(0, 0, 1), put(10, 1, 7), put(20, 0, 2), put(30, 1, 8), put(90, 0, 3)];
        let reader = vec![get(15, 1, 7), get(25, 0, 2), get(35, 1, 8), get(40, 0, 1), get(50, 1, 8)];
        let other = vec![at(60, 70, Action::Snapshot(vec![Some(2), Some(8)]))];
        let start = vec![None, None];
        let found = contradiction(&start, &[writer.clone(), reader.clone(), other]);
        assert!(linearize(&start, &found).is_none());
        let told: Vec<&Operation> = found.iter().flatten().collect();
        assert_eq!(told.len(), 3, "{told:?}");
        assert!(told.iter().any(|operation| operation.action == reader[3].action), "{told:?}");
        // Without the write that it read, the get alone would be a contradiction.
        assert!(told.iter().any(|operation| operation.action == writer[0].action), "{told:?}");
    }

    #[test]
    fn the_checker_refuses_write_skew_and_what_only_a_reader_notices() {
        let transaction = |reads: Vec<_>, writes: Vec<_>| Action::Transaction { reads, writes };
        let one = at(0, 10, transaction(vec![(0, None), (1, None)], vec![(0, Some(1))]));
        let two = at(0, 10, transaction(vec![(0, None), (1, None)], vec![(1, Some(2))]));
        let start = vec![None, None];
        assert!(linearize(&start, &[vec![one.clone()]]).is_some());
        assert!(linearize(&start, &[vec![one.clone()], vec![two.clone()]]).is_none());
        // With one more write than reads there is an order, but not the one that a reader saw.
        let blind = at(0, 10, transaction(vec![(1, None)], vec![(1, Some(2))]));
        assert!(linearize(&start, &[vec![one.clone()], vec![blind.clone()]]).is_some());
        let reader = at(1, 2, transaction(vec![(0, None), (1, Some(2))], Vec::new()));
        assert!(linearize(&start, &[vec![one], vec![blind], vec![reader]]).is_none());
    }
}
