//! Transactions that append to lists, during maintenance, checked by their dependencies
//! ([`super::dependencies`]). These histories are longer than those that a search through all
//! orders could check, and a contradiction is reported.

use super::dependencies::{List, Transaction, check};
use super::support::{
    Clock, Course, amid_maintenance, assert_moved, dir, fill, has_moved, keyspace, layout, options,
};
use crate::layouts::Tuned;
use crate::rng::Rng;
use crate::visit::Visit;
use cantle::{Db, Durability, Keyspace, Result};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

/// The first keys are in the default keyspace, all but two in different chunks; the others are in
/// another keyspace.
const KEYS: [&str; 6] = ["a050", "b050", "b051", "f099", "a050", "c000"];
const OF_DEFAULT: usize = 4;
const THREADS: usize = 4;
/// Transactions of each thread in a round.
const TRANSACTIONS: usize = 40;

fn list(value: Option<impl AsRef<[u8]>>) -> List {
    let numbers = |bytes: &[u8]| {
        bytes.chunks_exact(8).map(|number| number.try_into().map(u64::from_le_bytes)).collect()
    };
    value.map_or_else(|| Ok(List::new()), |value| numbers(value.as_ref())).expect("eight bytes each")
}

fn bytes(list: &[u64]) -> Vec<u8> {
    list.iter().flat_map(|number| number.to_le_bytes()).collect()
}

struct Round<'a> {
    db: &'a Db,
    other: &'a Keyspace,
    clock: &'a Clock,
    numbers: &'a AtomicU64,
}

impl Round<'_> {
    fn get(&self, tx: &cantle::Transaction, key: usize) -> Result<List> {
        let name = KEYS[key];
        Ok(list(if key < OF_DEFAULT { tx.get(name)? } else { tx.keyspace(self.other).get(name)? }))
    }

    /// Reads one key, or a whole keyspace by a range.
    fn read(&self, tx: &cantle::Transaction, rng: &mut Rng) -> Result<Vec<(usize, List)>> {
        let key = rng.below(KEYS.len() as u64) as usize;
        if rng.below(4) > 0 {
            return Ok(vec![(key, self.get(tx, key)?)]);
        }
        let (keys, range) = if key < OF_DEFAULT {
            (0..OF_DEFAULT, tx.range("a050"..="f099"))
        } else {
            (OF_DEFAULT..KEYS.len(), tx.keyspace(self.other).range(..))
        };
        let mut lists: Vec<(usize, List)> = keys.map(|key| (key, List::new())).collect();
        for pair in range {
            let (name, value) = pair?;
            // Keys of the background writers are between the test's keys.
            if let Some((_, found)) = lists.iter_mut().find(|(key, _)| KEYS[*key].as_bytes() == &name[..]) {
                *found = list(Some(value));
            }
        }
        Ok(lists)
    }

    /// Some reads and appends. A read of the transaction's own appends must return them; other
    /// reads are recorded.
    fn work(&self, tx: &cantle::Transaction, rng: &mut Rng) -> Result<Transaction> {
        let mut done = Transaction::default();
        // The expected list of each key, with the transaction's own appends.
        let mut known: [Option<List>; KEYS.len()] = [const { None }; KEYS.len()];
        let appends = rng.below(5) > 0;
        for _ in 0..1 + rng.below(4) {
            for (key, found) in self.read(tx, rng)? {
                match &known[key] {
                    Some(list) => assert_eq!(*list, found, "a transaction saw key {key} change"),
                    None => done.reads.push((key, found.clone())),
                }
                known[key] = Some(found);
            }
            if appends && rng.below(2) == 0 {
                let key = rng.below(KEYS.len() as u64) as usize;
                let mut list = self.get(tx, key)?;
                if known[key].is_none() {
                    done.reads.push((key, list.clone()));
                }
                let number = self.numbers.fetch_add(1, SeqCst);
                list.push(number);
                match key < OF_DEFAULT {
                    true => tx.put(KEYS[key], bytes(&list))?,
                    false => tx.keyspace(self.other).put(KEYS[key], bytes(&list))?,
                }
                known[key] = Some(list);
                done.appends.push((key, number));
            }
        }
        Ok(done)
    }

    /// Runs a transaction in one of several ways.
    fn transaction(&self, rng: &mut Rng) -> Transaction {
        let invoked = self.clock.tick();
        let done = match rng.below(10) {
            0 => self.db.transact(|tx| self.work(tx, rng)).unwrap(),
            1 => {
                let snapshot = self.db.snapshot();
                let read = |key: usize| match key < OF_DEFAULT {
                    true => snapshot.get(KEYS[key]).unwrap(),
                    false => snapshot.keyspace(self.other).get(KEYS[key]).unwrap(),
                };
                let reads = (0..KEYS.len()).map(|key| (key, list(read(key)))).collect();
                Transaction { reads, ..Transaction::default() }
            }
            2 => {
                let (key, number) =
                    (rng.below(KEYS.len() as u64) as usize, self.numbers.fetch_add(1, SeqCst));
                let mut before = List::new();
                let append = |old: Option<&[u8]>| {
                    before = list(old);
                    Some(bytes(&[&before[..], &[number]].concat()))
                };
                let updated = match key < OF_DEFAULT {
                    true => self.db.update(KEYS[key], append),
                    false => self.other.update(KEYS[key], append),
                };
                updated.unwrap();
                Transaction {
                    reads: vec![(key, before)],
                    appends: vec![(key, number)],
                    ..Transaction::default()
                }
            }
            _ => {
                let tx = self.db.transaction();
                let mut done = self.work(&tx, rng).unwrap();
                if let Err(error) = tx.commit() {
                    assert!(error.is_conflict() && !done.appends.is_empty(), "{error}");
                    done.is_refused = true;
                }
                done
            }
        };
        Transaction { invoked, returned: self.clock.tick(), ..done }
    }

    fn run(&self, thread: usize, mut rng: Rng) -> Vec<Transaction> {
        let name = |number: usize| format!("{thread}.{number}");
        (0..TRANSACTIONS)
            .map(|number| Transaction { name: name(number), ..self.transaction(&mut rng) })
            .collect()
    }

    /// The final lists, read when nothing else runs.
    fn last(&self) -> Transaction {
        let invoked = self.clock.tick();
        let tx = self.db.transaction();
        let reads = (0..KEYS.len()).map(|key| (key, self.get(&tx, key).unwrap())).collect();
        let name = "what is there in the end".to_owned();
        Transaction { name, invoked, returned: self.clock.tick(), reads, ..Transaction::default() }
    }

    fn clear(&self) {
        for (key, name) in KEYS.iter().enumerate() {
            if key < OF_DEFAULT { self.db.delete(name) } else { self.other.delete(name) }.unwrap();
        }
    }
}

pub fn no_dependencies_of_appending_transactions_form_a_cycle(visit: &Visit, seed: u64) {
    let mut rng = Rng::new(seed);
    let dir = dir();
    let db = options(visit, Durability::Process, &mut rng).open(dir.path().join("store")).unwrap();
    let other = db.keyspace_with("other", keyspace(layout(visit).with("log_bytes", 8 << 10))).unwrap();
    let (clock, numbers) = (Clock::default(), AtomicU64::new(1));
    let mut seeds = rng.fork();
    fill(&db, &mut rng);
    let course = Course::new(visit, 3000);
    amid_maintenance(&db, &mut rng, || {
        while course.goes_on(|| has_moved(&db)) {
            let round = Round { db: &db, other: &other, clock: &clock, numbers: &numbers };
            round.clear();
            let mut history: Vec<Transaction> = std::thread::scope(|scope| {
                let running: Vec<_> = (0..THREADS)
                    .map(|thread| {
                        let (round, rng) = (&round, seeds.fork());
                        scope.spawn(move || round.run(thread, rng))
                    })
                    .collect();
                running.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
            });
            let last = round.last();
            for transaction in history.iter().filter(|transaction| !transaction.is_refused) {
                for (key, number) in &transaction.appends {
                    assert!(
                        last.reads[*key].1.contains(number),
                        "{number} of key {key} was lost: {transaction:?}"
                    );
                }
            }
            history.push(last);
            if let Err(what) = check(&history) {
                panic!("not serializable: {what}");
            }
            let refused = history.iter().filter(|transaction| transaction.is_refused).count() as u64;
            visit.count("rounds checked", 1);
            visit.count("transactions", history.len() as u64 - refused);
            visit.count("conflicts", refused);
        }
    });
    assert_moved(visit, &db);
}
