//! Rounds of concurrent operations on a few keys in different chunks, each checked to be linearizable as a whole:
//! puts, gets, deletes, updates, batches, range deletes and snapshots.

use crate::history::{Action, Operation, State, linearize};
use crate::support::{Clock, Rng, amid_maintenance, assert_moved, number, options, until, value};
use cantle::{Db, Durability, Snapshot, WriteBatch};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Instant;

/// Their neighbours are the churn's; two lie next to each other.
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

    fn run(&self, mut rng: Rng) -> Vec<Operation> {
        let mut operations = Vec::with_capacity(OPERATIONS);
        // Snapshots are read when the thread has done more: what they see must not change.
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
                _ => {
                    let (invoked, returned, snapshot) = self.timed(|| self.db.snapshot());
                    snapshots.push((operations.len(), snapshot));
                    (invoked, returned, Action::Snapshot(State::new()))
                }
            };
            operations.push(Operation { invoked, returned, action });
        }
        for (index, snapshot) in snapshots {
            let read = |key: &&str| snapshot.get(key).unwrap().map(|value| number(&value));
            operations[index].action = Action::Snapshot(KEYS.iter().map(read).collect());
        }
        operations
    }
}

/// Keys from one to another.
fn span(rng: &mut Rng) -> (usize, usize) {
    let (a, b) = (rng.below(KEYS.len() as u64) as usize, rng.below(KEYS.len() as u64) as usize);
    (a.min(b), a.max(b))
}

fn rounds(name: &str, durability: Durability, millis: u64) {
    let mut rng = Rng::for_test(name);
    let dir = tempfile::tempdir().unwrap();
    let db = options(durability, &mut rng).open(dir.path().join("store")).unwrap();
    let (clock, numbers) = (Clock::default(), AtomicU64::new(1));
    let mut state: State = vec![None; KEYS.len()];
    let (mut round_count, end) = (0, until(millis));
    let mut seeds = rng.fork();
    amid_maintenance(&db, &mut rng, || {
        while Instant::now() < end {
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
            // Everything has returned: what is there now is the last state.
            let read = |key: &&str| db.get(key).unwrap().map(|value| number(&value));
            let last: State = KEYS.iter().map(read).collect();
            let moment = clock.tick();
            let mut all = threads.clone();
            all.push(vec![Operation {
                invoked: moment,
                returned: moment,
                action: Action::Snapshot(last.clone()),
            }]);
            if linearize(&state, &all).is_none() {
                let mut operations: Vec<_> = all
                    .iter()
                    .enumerate()
                    .flat_map(|(thread, operations)| {
                        operations.iter().map(move |operation| {
                            (operation.invoked, operation.returned, thread, &operation.action)
                        })
                    })
                    .collect();
                operations.sort_by_key(|(invoked, ..)| *invoked);
                let listing: Vec<String> =
                    operations.iter().map(|operation| format!("{operation:?}")).collect();
                panic!("round {round_count} is not linearizable; from {state:?}:\n{}", listing.join("\n"));
            }
            state = last;
            round_count += 1;
        }
    });
    println!("{round_count} rounds");
    assert_moved(&db);
}

#[test]
fn every_history_is_linearizable() {
    rounds("every_history_is_linearizable", Durability::Process, 5000);
}

#[test]
fn every_history_of_a_buffered_store_is_linearizable() {
    rounds("every_history_of_a_buffered_store_is_linearizable", Durability::Buffered, 3000);
}

#[test]
fn every_history_of_a_sync_store_is_linearizable() {
    rounds("every_history_of_a_sync_store_is_linearizable", Durability::Sync, 2000);
}
