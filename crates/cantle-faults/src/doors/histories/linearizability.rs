//! Rounds of concurrent operations on a few keys in different chunks, each checked to be
//! linearizable as a whole: puts, gets, deletes, updates, batches, range deletes, snapshots, and batches
//! of keys that are read together.

use super::history::{Action, Operation, State, contradiction, linearize};
use super::support::{
    Clock, Course, amid_maintenance, assert_moved, dir, fill, has_moved, number, options, value,
};
use crate::rng::Rng;
use crate::visit::Visit;
use cantle::{Db, Durability, Result, Snapshot, Value, WriteBatch};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

/// Background writers use the keys around these; two are neighbours.
const KEYS: [&str; 5] = ["a050", "b050", "b051", "d020", "f099"];
const THREADS: usize = 4;
const OPERATIONS: usize = 14;

struct Round<'a> {
    db: &'a Db,
    clock: &'a Clock,
    numbers: &'a AtomicU64,
}

impl Round<'_> {
    fn timed<T>(&self, run: impl FnOnce() -> T) -> (u64, u64, T) {
        let invoked = self.clock.tick();
        let result = run();
        (invoked, self.clock.tick(), result)
    }

    fn fresh(&self, rng: &mut Rng) -> (u64, Vec<u8>) {
        let number = self.numbers.fetch_add(1, SeqCst);
        (number, value(number, rng))
    }

    fn batch(&self, rng: &mut Rng) -> (WriteBatch, Vec<(usize, Option<u64>)>) {
        let mut batch = WriteBatch::new();
        let mut writes = Vec::new();
        for _ in 0..2 + rng.below(2) {
            let key = rng.below(KEYS.len() as u64) as usize;
            match rng.below(8) {
                0 => {
                    batch.delete(KEYS[key]);
                    writes.push((key, None));
                }
                1 => {
                    let (from, to) = span(rng);
                    batch.delete_range(KEYS[from]..=KEYS[to]);
                    writes.extend((from..=to).map(|key| (key, None)));
                }
                _ => {
                    let (number, value) = self.fresh(rng);
                    batch.put(KEYS[key], value);
                    writes.push((key, Some(number)));
                }
            }
        }
        (batch, writes)
    }

    /// Keys in any order, some of them several times: all are of one moment.
    fn get_many(&self, rng: &mut Rng) -> (u64, u64, Action) {
        let count = 1 + rng.below(2 * KEYS.len() as u64);
        let keys: Vec<usize> = (0..count).map(|_| rng.below(KEYS.len() as u64) as usize).collect();
        let names = keys.iter().map(|&key| KEYS[key]);
        let (invoked, returned, found) = self.timed(|| self.db.get_many(names));
        let number_of = |found: Result<Option<Value>>| found.unwrap().map(|value| number(&value));
        let reads = keys.into_iter().zip(found.into_iter().map(number_of)).collect();
        (invoked, returned, Action::Transaction { reads, writes: Vec::new() })
    }

    fn run(&self, mut rng: Rng) -> Vec<Operation> {
        let mut operations = Vec::with_capacity(OPERATIONS);
        // Snapshots are read after more operations of the thread: their contents must not change.
        let mut snapshots: Vec<(usize, Snapshot)> = Vec::new();
        for _ in 0..OPERATIONS {
            let key = rng.below(KEYS.len() as u64) as usize;
            let (invoked, returned, action) = match rng.below(20) {
                0..=3 => {
                    let (number, value) = self.fresh(&mut rng);
                    let (invoked, returned, done) = self.timed(|| self.db.put(KEYS[key], value));
                    done.unwrap();
                    (invoked, returned, Action::Write(vec![(key, Some(number))]))
                }
                4 => {
                    let (invoked, returned, done) = self.timed(|| self.db.delete(KEYS[key]));
                    done.unwrap();
                    (invoked, returned, Action::Write(vec![(key, None)]))
                }
                5..=10 => {
                    let (invoked, returned, got) = self.timed(|| self.db.get(KEYS[key]).unwrap());
                    (invoked, returned, Action::Get(key, got.map(|value| number(&value))))
                }
                11..=12 => {
                    let (new, bytes) = self.fresh(&mut rng);
                    let new = (rng.below(6) > 0).then_some(new);
                    let mut old = None;
                    let (invoked, returned, done) = self.timed(|| {
                        self.db.update(KEYS[key], |before| {
                            old = before.map(number);
                            new.map(|_| bytes.clone())
                        })
                    });
                    done.unwrap();
                    (invoked, returned, Action::Update { key, old, new })
                }
                13..=15 => {
                    let (batch, writes) = self.batch(&mut rng);
                    let (invoked, returned, done) = self.timed(|| self.db.write(batch));
                    done.unwrap();
                    (invoked, returned, Action::Write(writes))
                }
                16 => {
                    let (from, to) = span(&mut rng);
                    let (invoked, returned, done) = self.timed(|| match rng.below(3) {
                        0 if from == 0 && to == KEYS.len() - 1 => self.db.delete_range(..),
                        _ => self.db.delete_range(KEYS[from]..=KEYS[to]),
                    });
                    done.unwrap();
                    (invoked, returned, Action::Write((from..=to).map(|key| (key, None)).collect()))
                }
                17 => {
                    let (invoked, returned, range) = self.timed(|| self.db.range("a"..));
                    let mut state = vec![None; KEYS.len()];
                    for pair in range {
                        let (key, value) = pair.unwrap();
                        if let Some(key) = KEYS.iter().position(|known| known.as_bytes() == &key[..]) {
                            state[key] = Some(number(&value));
                        }
                    }
                    (invoked, returned, Action::Snapshot(state))
                }
                18 => self.get_many(&mut rng),
                _ => {
                    let (invoked, returned, snapshot) = self.timed(|| self.db.snapshot());
                    snapshots.push((operations.len(), snapshot));
                    (invoked, returned, Action::Snapshot(State::new()))
                }
            };
            operations.push(Operation { invoked, returned, action });
        }
        for (index, snapshot) in snapshots {
            let found = match rng.below(2) {
                0 => KEYS.iter().map(|key| snapshot.get(key)).collect(),
                _ => snapshot.get_many(KEYS),
            };
            let state = found.into_iter().map(|found| found.unwrap().map(|value| number(&value)));
            operations[index].action = Action::Snapshot(state.collect());
        }
        operations
    }
}

/// The parts of a history that must be linearizable. Gets and snapshots together need not be
/// (EvenDB §3.3): a snapshot includes a write that was announced before it and becomes visible
/// after it. Meanwhile a get misses that write, even one by a thread whose own later write the
/// snapshot does not include. Hence the parts are: everything except snapshots, everything except
/// gets, and everything that concerns one key.
pub fn views_of(all: &[Vec<Operation>], keys: &[&str]) -> Vec<(String, Vec<Vec<Operation>>)> {
    let select = |keep: &dyn Fn(&Action) -> Option<Action>| {
        let select_one = |operation: &Operation| {
            keep(&operation.action).map(|action| Operation { action, ..operation.clone() })
        };
        let select_thread = |thread: &Vec<Operation>| thread.iter().filter_map(select_one).collect();
        all.iter().map(select_thread).collect::<Vec<Vec<Operation>>>()
    };
    let last = all.len() - 1;
    // A transaction without writes is a snapshot.
    let is_snapshot = |action: &Action| match action {
        Action::Transaction { writes, .. } => writes.is_empty(),
        other => matches!(other, Action::Snapshot(_)),
    };
    let mut gets = select(&|action| (!is_snapshot(action)).then(|| action.clone()));
    gets[last] = all[last].clone();
    let snapshots = select(&|action| (!matches!(action, Action::Get(..))).then(|| action.clone()));
    let mut views = vec![("without snapshots".into(), gets), ("without gets".into(), snapshots)];
    for key in 0..keys.len() {
        let of_key = select(&|action| match action {
            Action::Write(writes) => {
                let writes: Vec<_> = writes.iter().filter(|(written, _)| *written == key).copied().collect();
                (!writes.is_empty()).then_some(Action::Write(writes))
            }
            Action::Get(read, _) => (*read == key).then(|| action.clone()),
            Action::Update { key: updated, .. } => (*updated == key).then(|| action.clone()),
            Action::Snapshot(state) => Some(Action::Get(key, state[key])),
            Action::Transaction { reads, writes } => {
                let of_key = |all: &[(usize, Option<u64>)]| -> Vec<_> {
                    all.iter().filter(|(touched, _)| *touched == key).copied().collect()
                };
                let (reads, writes) = (of_key(reads), of_key(writes));
                let touched = !reads.is_empty() || !writes.is_empty();
                touched.then_some(Action::Transaction { reads, writes })
            }
        });
        views.push((format!("on {}", keys[key]), of_key));
    }
    views
}

/// All operations in the order of their invocation.
pub fn listing(all: &[Vec<Operation>]) -> String {
    let mut lines = Vec::new();
    for (thread, operations) in all.iter().enumerate() {
        for Operation { invoked, returned, action } in operations {
            lines.push((*invoked, format!("{invoked}..{returned} thread {thread}: {action:?}")));
        }
    }
    lines.sort();
    lines.into_iter().map(|(_, line)| line).collect::<Vec<_>>().join("\n")
}

/// A range of keys.
fn span(rng: &mut Rng) -> (usize, usize) {
    let (a, b) = (rng.below(KEYS.len() as u64) as usize, rng.below(KEYS.len() as u64) as usize);
    (a.min(b), a.max(b))
}

fn rounds(visit: &Visit, seed: u64, durability: Durability, millis: u64) {
    let mut rng = Rng::new(seed);
    let dir = dir();
    let db = options(visit, durability, &mut rng).open(dir.path().join("store")).unwrap();
    let (clock, numbers) = (Clock::default(), AtomicU64::new(1));
    let mut state: State = vec![None; KEYS.len()];
    let (mut round_count, mut batches, course) = (0, 0, Course::new(visit, millis));
    let mut seeds = rng.fork();
    fill(&db, &mut rng);
    amid_maintenance(&db, &mut rng, || {
        while course.goes_on(|| has_moved(&db) && were_munks_used(&db)) {
            let round = Round { db: &db, clock: &clock, numbers: &numbers };
            let threads: Vec<Vec<Operation>> = std::thread::scope(|scope| {
                let running: Vec<_> = (0..THREADS)
                    .map(|_| {
                        let rng = seeds.fork();
                        let round = &round;
                        scope.spawn(move || round.run(rng))
                    })
                    .collect();
                running.into_iter().map(|thread| thread.join().unwrap()).collect()
            });
            let actions = threads.iter().flatten().map(|operation| &operation.action);
            batches += actions.filter(|action| matches!(action, Action::Transaction { .. })).count() as u64;
            // All operations have returned: the present contents are the last state.
            let read = |key: &&str| db.get(key).unwrap().map(|value| number(&value));
            let last: State = KEYS.iter().map(read).collect();
            let moment = clock.tick();
            let mut all = threads.clone();
            all.push(vec![Operation {
                invoked: moment,
                returned: moment,
                action: Action::Snapshot(last.clone()),
            }]);
            for (what, view) in views_of(&all, &KEYS) {
                if linearize(&state, &view).is_none() {
                    panic!(
                        "round {round_count} is not linearizable, {what}; from {state:?} these contradict each other:\n{}\nof all of it:\n{}",
                        listing(&contradiction(&state, &view)),
                        listing(&all)
                    );
                }
            }
            state = last;
            round_count += 1;
        }
    });
    visit.count("rounds checked", round_count);
    visit.count("batches of keys read", batches);
    assert_moved(visit, &db);
    assert!(were_munks_used(&db), "munks had no part in it: {:?}", db.stats().keyspaces[0]);
}

fn were_munks_used(db: &Db) -> bool {
    let keyspace = &db.stats().keyspaces[0];
    let served = keyspace.gets_served.resident > 0;
    keyspace.chunk().is_none_or(|chunk| served && chunk.scans_munk > 0 && chunk.munk_flushes > 0)
}

pub fn every_history_is_linearizable(visit: &Visit, seed: u64) {
    rounds(visit, seed, Durability::Process, 5000);
}

pub fn every_history_of_a_buffered_store_is_linearizable(visit: &Visit, seed: u64) {
    rounds(visit, seed, Durability::Buffered, 3000);
}

pub fn every_history_of_a_sync_store_is_linearizable(visit: &Visit, seed: u64) {
    rounds(visit, seed, Durability::Sync, 2000);
}
