//! Transactions concurrent with all other operations, during maintenance: every history must be
//! strictly serializable.

use super::history::{Action, Operation, State, contradiction, linearize};
use super::linearizability::{listing, views_of};
use super::support::{
    Clock, Course, amid_maintenance, assert_moved, dir, fill, has_moved, keyspace, layout, number, options,
    value,
};
use crate::layouts::Tuned;
use crate::rng::Rng;
use crate::visit::Visit;
use cantle::{Db, Durability, Keyspace, Result, Snapshot, Transaction, Value, WriteBatch};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

/// In key order. The first keys are in the default keyspace, all but two in different chunks; the
/// others are in another keyspace.
const KEYS: [&str; 7] = ["a050", "b050", "b051", "d020", "f099", "a050", "c000"];
const OF_DEFAULT: usize = 5;
const THREADS: usize = 4;
const OPERATIONS: usize = 10;

/// A range of keys of one keyspace.
fn span(rng: &mut Rng) -> (usize, usize) {
    let (first, count) =
        if rng.below(3) > 0 { (0, OF_DEFAULT) } else { (OF_DEFAULT, KEYS.len() - OF_DEFAULT) };
    let mut draw = || first + rng.below(count as u64) as usize;
    let (a, b) = (draw(), draw());
    (a.min(b), a.max(b))
}

fn any_key(rng: &mut Rng) -> usize {
    rng.below(KEYS.len() as u64) as usize
}

/// The test's number of a key that a range returned.
fn known(in_other: bool, key: &[u8]) -> Option<usize> {
    let keys = if in_other { OF_DEFAULT..KEYS.len() } else { 0..OF_DEFAULT };
    keys.into_iter().find(|&known| KEYS[known].as_bytes() == key)
}

struct Round<'a> {
    db: &'a Db,
    other: &'a Keyspace,
    clock: &'a Clock,
    numbers: &'a AtomicU64,
    committed: &'a AtomicU64,
    conflicts: &'a AtomicU64,
    /// Batches of keys that were read together, in transactions and by themselves.
    batches: &'a AtomicU64,
}

/// The values that a transaction read of other writes, and its own writes.
#[derive(Default)]
struct Seen {
    reads: Vec<(usize, Option<u64>)>,
    writes: Vec<(usize, Option<u64>)>,
}

impl Seen {
    fn note(&mut self, key: usize, value: Option<u64>) {
        match self.writes.iter().rev().find(|(written, _)| *written == key) {
            Some((_, own)) => assert_eq!(*own, value, "a transaction reads its own writes"),
            None => self.reads.push((key, value)),
        }
    }
}

fn number_of(found: Result<Option<Value>>) -> Option<u64> {
    found.unwrap().map(|value| number(&value))
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

    /// All keys, one by one or in a batch for each keyspace.
    fn read_all(&self, snapshot: &Snapshot, rng: &mut Rng) -> State {
        let (own, others) = KEYS.split_at(OF_DEFAULT);
        let other = snapshot.keyspace(self.other);
        let (mut found, rest) = match rng.below(2) {
            0 => {
                let own = own.iter().map(|key| snapshot.get(key)).collect();
                (own, others.iter().map(|key| other.get(key)).collect())
            }
            _ => (snapshot.get_many(own), other.get_many(others)),
        };
        found.extend(rest);
        found.into_iter().map(number_of).collect()
    }

    /// Keys of one keyspace in any order, some of them several times.
    fn batch_of_keys(rng: &mut Rng) -> Vec<usize> {
        let in_other = rng.below(3) == 0;
        let (first, count) = if in_other { (OF_DEFAULT, KEYS.len() - OF_DEFAULT) } else { (0, OF_DEFAULT) };
        let keys = 1 + rng.below(2 * count as u64);
        (0..keys).map(|_| first + rng.below(count as u64) as usize).collect()
    }

    fn get_many(&self, rng: &mut Rng) -> (u64, u64, Action) {
        let keys = Self::batch_of_keys(rng);
        let names = keys.iter().map(|&key| KEYS[key]);
        let (invoked, returned, found) = self.timed(|| match keys[0] < OF_DEFAULT {
            true => self.db.get_many(names),
            false => self.other.get_many(names),
        });
        self.batches.fetch_add(1, SeqCst);
        let reads = keys.iter().copied().zip(found.into_iter().map(number_of)).collect();
        (invoked, returned, Action::Transaction { reads, writes: Vec::new() })
    }

    fn get(&self, key: usize) -> Option<u64> {
        let got = if key < OF_DEFAULT { self.db.get(KEYS[key]) } else { self.other.get(KEYS[key]) };
        got.unwrap().map(|value| number(&value))
    }

    /// Reads a range from either end, in some cases not up to its other end. Keys that were passed
    /// without a pair were absent.
    fn read_range(&self, tx: &Transaction, seen: &mut Seen, rng: &mut Rng) {
        let (from, to) = span(rng);
        let in_other = from >= OF_DEFAULT;
        let bounds = KEYS[from]..=KEYS[to];
        let range = if in_other { tx.keyspace(self.other).range(bounds) } else { tx.range(bounds) };
        let mut left: Vec<usize> = (from..=to).collect();
        let backward = rng.below(2) == 0;
        if backward {
            left.reverse();
        }
        // Keys of the background writers are between the test's keys.
        let most = if rng.below(2) == 0 { usize::MAX } else { 1 + rng.below(40) as usize };
        let mut walk = |range: &mut dyn Iterator<Item = Result<(cantle::Key, Value)>>| {
            for _ in 0..most {
                let Some(pair) = range.next() else {
                    left.drain(..).for_each(|key| seen.note(key, None));
                    return;
                };
                let (key, value) = pair.unwrap();
                let passed = |known: usize| {
                    if backward {
                        KEYS[known].as_bytes() > &key[..]
                    } else {
                        KEYS[known].as_bytes() < &key[..]
                    }
                };
                while left.first().is_some_and(|&known| passed(known)) {
                    seen.note(left.remove(0), None);
                }
                if let Some(key) = known(in_other, &key) {
                    assert_eq!(left.remove(0), key);
                    seen.note(key, Some(number(&value)));
                }
            }
        };
        if backward { walk(&mut range.rev()) } else { walk(&mut { range }) }
    }

    /// Some reads and writes.
    fn work(&self, tx: &Transaction, rng: &mut Rng) -> Result<Seen> {
        let mut seen = Seen::default();
        let writes = rng.below(5) > 0;
        for _ in 0..1 + rng.below(5) {
            let key = any_key(rng);
            let (name, in_other) = (KEYS[key], key >= OF_DEFAULT);
            match rng.below(8) {
                0 => {
                    let keys = Self::batch_of_keys(rng);
                    let names = keys.iter().map(|&key| KEYS[key]);
                    let found = match keys[0] < OF_DEFAULT {
                        true => tx.get_many(names),
                        false => tx.keyspace(self.other).get_many(names),
                    };
                    keys.iter().zip(found).for_each(|(&key, found)| seen.note(key, number_of(found)));
                    self.batches.fetch_add(1, SeqCst);
                }
                1..=2 => {
                    let got = if in_other { tx.keyspace(self.other).get(name)? } else { tx.get(name)? };
                    seen.note(key, got.map(|value| number(&value)));
                }
                3 | 4 => self.read_range(tx, &mut seen, rng),
                5 if writes && rng.below(2) == 0 => {
                    let (from, to) = span(rng);
                    let bounds = KEYS[from]..=KEYS[to];
                    if from >= OF_DEFAULT {
                        tx.keyspace(self.other).delete_range(bounds)?
                    } else {
                        tx.delete_range(bounds)?
                    }
                    seen.writes.extend((from..=to).map(|key| (key, None)));
                }
                5 if writes => {
                    if in_other {
                        tx.keyspace(self.other).delete(name)?
                    } else {
                        tx.delete(name)?
                    }
                    seen.writes.push((key, None));
                }
                _ if writes => {
                    let (number, value) = self.fresh(rng);
                    if in_other {
                        tx.keyspace(self.other).put(name, value)?
                    } else {
                        tx.put(name, value)?
                    }
                    seen.writes.push((key, Some(number)));
                }
                _ => std::thread::yield_now(),
            }
        }
        Ok(seen)
    }

    fn transaction(&self, rng: &mut Rng) -> (u64, u64, Action) {
        let (invoked, returned, (seen, done)) = self.timed(|| {
            let tx = self.db.transaction();
            let seen = self.work(&tx, rng).unwrap();
            (seen, tx.commit())
        });
        let Seen { reads, writes } = seen;
        match done {
            Ok(()) => {
                self.committed.fetch_add(1, SeqCst);
                (invoked, returned, Action::Transaction { reads, writes })
            }
            Err(error) => {
                assert!(error.is_conflict(), "{error}");
                assert!(!writes.is_empty(), "a conflict of what only reads");
                self.conflicts.fetch_add(1, SeqCst);
                // Its reads were of one moment all the same.
                (invoked, returned, Action::Transaction { reads, writes: Vec::new() })
            }
        }
    }

    fn transact(&self, rng: &mut Rng) -> (u64, u64, Action) {
        let (invoked, returned, done) = self.timed(|| self.db.transact(|tx| self.work(tx, rng)));
        let Seen { reads, writes } = done.unwrap();
        (invoked, returned, Action::Transaction { reads, writes })
    }

    fn batch(&self, rng: &mut Rng) -> (WriteBatch, Vec<(usize, Option<u64>)>) {
        let mut batch = WriteBatch::new();
        let mut writes = Vec::new();
        for _ in 0..2 {
            let key = any_key(rng);
            let (number, value) = self.fresh(rng);
            if key < OF_DEFAULT {
                batch.put(KEYS[key], value);
            } else {
                batch.keyspace(self.other).put(KEYS[key], value);
            }
            writes.push((key, Some(number)));
        }
        if rng.below(3) == 0 {
            let (from, to) = span(rng);
            let bounds = KEYS[from]..=KEYS[to];
            if from < OF_DEFAULT {
                batch.delete_range(bounds);
            } else {
                batch.keyspace(self.other).delete_range(bounds);
            }
            writes.extend((from..=to).map(|key| (key, None)));
        }
        (batch, writes)
    }

    fn run(&self, mut rng: Rng) -> Vec<Operation> {
        let mut operations = Vec::with_capacity(OPERATIONS);
        for _ in 0..OPERATIONS {
            let key = any_key(&mut rng);
            let (name, in_other) = (KEYS[key], key >= OF_DEFAULT);
            let (invoked, returned, action) = match rng.below(20) {
                0..=7 => self.transaction(&mut rng),
                8 => self.transact(&mut rng),
                9 | 10 => {
                    let (number, value) = self.fresh(&mut rng);
                    let put =
                        || if in_other { self.other.put(name, value) } else { self.db.put(name, value) };
                    let (invoked, returned, done) = self.timed(put);
                    done.unwrap();
                    (invoked, returned, Action::Write(vec![(key, Some(number))]))
                }
                11 => {
                    let delete = || if in_other { self.other.delete(name) } else { self.db.delete(name) };
                    let (invoked, returned, done) = self.timed(delete);
                    done.unwrap();
                    (invoked, returned, Action::Write(vec![(key, None)]))
                }
                13 => self.get_many(&mut rng),
                12 => {
                    let (invoked, returned, got) = self.timed(|| self.get(key));
                    (invoked, returned, Action::Get(key, got))
                }
                14 => {
                    let (new, bytes) = self.fresh(&mut rng);
                    let mut old = None;
                    let change = |before: Option<&[u8]>| {
                        old = before.map(number);
                        Some(bytes.clone())
                    };
                    let (invoked, returned, done) = self.timed(|| {
                        if in_other { self.other.update(name, change) } else { self.db.update(name, change) }
                    });
                    done.unwrap();
                    (invoked, returned, Action::Update { key, old, new: Some(new) })
                }
                15 | 16 => {
                    let (batch, writes) = self.batch(&mut rng);
                    let (invoked, returned, done) = self.timed(|| self.db.write(batch));
                    done.unwrap();
                    (invoked, returned, Action::Write(writes))
                }
                17 => {
                    let (from, to) = span(&mut rng);
                    let bounds = KEYS[from]..=KEYS[to];
                    let (invoked, returned, done) = self.timed(|| match from < OF_DEFAULT {
                        true => self.db.delete_range(bounds),
                        false => self.other.delete_range(bounds),
                    });
                    done.unwrap();
                    (invoked, returned, Action::Write((from..=to).map(|key| (key, None)).collect()))
                }
                _ => {
                    let (invoked, returned, snapshot) = self.timed(|| self.db.snapshot());
                    (invoked, returned, Action::Snapshot(self.read_all(&snapshot, &mut rng)))
                }
            };
            operations.push(Operation { invoked, returned, action });
        }
        operations
    }
}

fn rounds(visit: &Visit, seed: u64, durability: Durability, millis: u64) {
    let mut rng = Rng::new(seed);
    let dir = dir();
    let db = options(visit, durability, &mut rng).open(dir.path().join("store")).unwrap();
    let other = db.keyspace_with("other", keyspace(layout(visit).with("log_bytes", 8 << 10))).unwrap();
    let (clock, numbers) = (Clock::default(), AtomicU64::new(1));
    let (committed, conflicts, batches) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
    let mut state: State = vec![None; KEYS.len()];
    let (mut round_count, course) = (0, Course::new(visit, millis));
    let mut seeds = rng.fork();
    fill(&db, &mut rng);
    amid_maintenance(&db, &mut rng, || {
        let have_met = || committed.load(SeqCst) > 0 && conflicts.load(SeqCst) > 0;
        while course.goes_on(|| have_met() && has_moved(&db)) {
            let round = Round {
                db: &db,
                other: &other,
                clock: &clock,
                numbers: &numbers,
                committed: &committed,
                conflicts: &conflicts,
                batches: &batches,
            };
            let mut all: Vec<Vec<Operation>> = std::thread::scope(|scope| {
                let running: Vec<_> = (0..THREADS)
                    .map(|_| {
                        let rng = seeds.fork();
                        let round = &round;
                        scope.spawn(move || round.run(rng))
                    })
                    .collect();
                running.into_iter().map(|thread| thread.join().unwrap()).collect()
            });
            let last: State = (0..KEYS.len()).map(|key| round.get(key)).collect();
            let moment = clock.tick();
            let action = Action::Snapshot(last.clone());
            all.push(vec![Operation { invoked: moment, returned: moment, action }]);
            for (what, view) in views_of(&all, &KEYS) {
                if linearize(&state, &view).is_none() {
                    panic!(
                        "round {round_count} is not strictly serializable, {what}; from {state:?} these contradict each other:\n{}\nof all of it:\n{}",
                        listing(&contradiction(&state, &view)),
                        listing(&all)
                    );
                }
            }
            state = last;
            round_count += 1;
        }
    });
    let (committed, conflicts) = (committed.into_inner(), conflicts.into_inner());
    visit.count("rounds checked", round_count);
    visit.count("batches of keys read", batches.into_inner());
    visit.count("transactions", committed);
    visit.count("conflicts", conflicts);
    assert!(committed > 0 && conflicts > 0, "they should meet at times");
    assert_moved(visit, &db);
}

pub fn every_history_with_transactions_is_strictly_serializable(visit: &Visit, seed: u64) {
    rounds(visit, seed, Durability::Process, 5000);
}

pub fn every_history_with_transactions_of_a_buffered_store_is_strictly_serializable(
    visit: &Visit,
    seed: u64,
) {
    rounds(visit, seed, Durability::Buffered, 2000);
}

pub fn transact_loses_no_increment_and_keeps_what_two_keyspaces_have_in_common(visit: &Visit, seed: u64) {
    const THREADS: u64 = 4;
    let mut rng = Rng::new(seed);
    let dir = dir();
    let db = options(visit, Durability::Process, &mut rng).open(dir.path().join("store")).unwrap();
    let other = db.keyspace_with("other", keyspace(layout(visit))).unwrap();
    let increments = 800;
    amid_maintenance(&db, &mut rng.fork(), || {
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let (db, other) = (&db, &other);
                scope.spawn(move || {
                    for count in 0..increments {
                        let key = ["a050", "c010", "f000"][(count % 3) as usize];
                        db.transact(|tx| {
                            let here = tx.get(key)?.map_or(0, |value| number(&value));
                            let there = tx.keyspace(other).get("sum")?.map_or(0, |value| number(&value));
                            let all = ["a050", "c010", "f000"].iter().try_fold(0, |sum, key| {
                                tx.get(key).map(|value| sum + value.map_or(0, |value| number(&value)))
                            })?;
                            assert_eq!(all, there, "thread {thread} sees half of a transaction");
                            tx.put(key, [&(here + 1).to_le_bytes()[..], &[b'.'; 500]].concat())?;
                            tx.keyspace(other).put("sum", (there + 1).to_le_bytes())
                        })
                        .unwrap();
                    }
                });
            }
        });
    });
    assert_eq!(number(&other.get("sum").unwrap().unwrap()), THREADS * increments);
    let stats = db.stats();
    visit.count("conflicts", stats.transaction_conflicts);
    visit.count("transactions", stats.transactions_committed);
    assert_eq!(stats.transactions_committed, THREADS * increments);
    assert_moved(visit, &db);
}
