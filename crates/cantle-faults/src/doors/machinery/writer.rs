//! Threads that write until they are killed and report acknowledgements, and the check of a store
//! after the kill.
//!
//! Each thread writes numbered batches, one after another. A batch has two pairs with the same
//! value, which are overwritten some hundred batches later; a pair that is later removed by a range
//! delete with many others; and `next-THREAD`: the number of the thread's next batch and those of
//! all threads before the batch began. Hence all promises can be checked from the store's contents:
//! batches are complete, nothing that was promised is lost, and if a batch is there, so are all
//! that had returned before it began.

use super::child::{Part, say, say_places};
use crate::history::Death;
use crate::rng::Rng;
use crate::setup::Setup;
use cantle::{Db, Durability, WriteBatch};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;

const THREADS: usize = 3;
/// Number of batches after which a thread overwrites its keys.
const KEYS: u64 = 300;
/// Number of batches after which a thread deletes its range.
const RANGE: u64 = 150;
/// Number of batches after which a thread syncs the store.
const SYNC: u64 = 64;

pub type Numbers = [u64; THREADS];

pub fn setup(seed: u64, durability: Durability) -> Setup {
    let mut setup = Setup::random(&mut Rng::new(seed), durability);
    setup.checkpoint_interval = [Duration::from_millis(40), setup.checkpoint_interval][seed as usize % 2];
    setup
}

fn key(thread: usize, n: u64, half: u64) -> String {
    format!("{:03}-{thread}-{half}", n % KEYS)
}

fn value(n: u64) -> String {
    format!("{n:020}").repeat(20)
}

fn batch(thread: usize, n: u64, before: Numbers) -> WriteBatch {
    let mut batch = WriteBatch::new();
    let value = value(n);
    batch.put(key(thread, n, 0), &value).put(key(thread, n, 1), &value);
    if n.is_multiple_of(RANGE) {
        batch.delete_range(format!("range-{thread}-")..format!("range-{thread}."));
    }
    batch.put(format!("range-{thread}-{n:012}"), &value);
    batch.put(format!("next-{thread}"), format!("{} {}", n + 1, text(before)));
    batch
}

fn text(numbers: Numbers) -> String {
    numbers.map(|n| n.to_string()).join(" ")
}

fn parse(text: &str) -> Option<Numbers> {
    let numbers: Vec<u64> = text.split(' ').map_while(|n| n.parse().ok()).collect();
    numbers.try_into().ok()
}

/// The contents of `next-THREAD`: the number of the next batch, and those of all threads when the
/// last batch began.
fn next(db: &Db, thread: usize) -> Result<(u64, Numbers), String> {
    let found = db.get(format!("next-{thread}")).map_err(|error| format!("cannot read: {error}"))?;
    let Some(found) = found else { return Ok((0, [0; THREADS])) };
    let found = String::from_utf8_lossy(&found);
    let parsed = found.split_once(' ').and_then(|(n, before)| Some((n.parse().ok()?, parse(before)?)));
    parsed.ok_or_else(|| format!("next-{thread} is {found:?}"))
}

/// Reads some of the keys that each thread wrote last, all of a thread together. Returns the number of
/// those that failed; fails if a value is wrong.
pub fn read_many(db: &Db, next: Numbers) -> Result<u64, String> {
    let mut failed = 0;
    for (thread, next) in next.into_iter().enumerate() {
        let numbers: Vec<u64> = (next.saturating_sub(KEYS)..next).rev().step_by(5).collect();
        let found = db.get_many(numbers.iter().map(|&n| key(thread, n, n % 2)));
        for (n, found) in numbers.into_iter().zip(found) {
            match found {
                Ok(found) if found.as_deref() == Some(value(n).as_bytes()) => {}
                Ok(_) => return Err(format!("{} is not of batch {n}", key(thread, n, n % 2))),
                Err(_) => failed += 1,
            }
        }
    }
    Ok(failed)
}

/// The same, for the keys that the store itself says are there. A store that cannot say it fails no key.
pub fn read_what_is_left(db: &Db) -> Result<u64, String> {
    let mut last = [0; THREADS];
    for (thread, last) in last.iter_mut().enumerate() {
        *last = next(db, thread).map_or(0, |(n, _)| n);
    }
    read_many(db, last)
}

/// The work of the child. A thread ends with the first batch that fails.
pub fn play(part: &Part) {
    let db = match part.open() {
        Ok(db) => db,
        Err(error) => return say(format!("failed to open: {error}")),
    };
    let mut first = [0; THREADS];
    for (thread, first) in first.iter_mut().enumerate() {
        match next(&db, thread) {
            Ok((n, _)) => *first = n,
            Err(error) => return say(format!("failed: {error}")),
        }
    }
    // Nothing is cached yet: batches of keys read files.
    match read_many(&db, first) {
        Ok(0) => say_places(&db),
        Ok(failed) => return say(format!("failed: cannot read {failed} keys")),
        Err(wrong) => panic!("{wrong}"),
    }
    say(format!("opened {}", text(first)));
    let done = first.map(AtomicU64::new);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (db, done) = (&db, &done);
            scope.spawn(move || {
                for n in first[thread].. {
                    let before = std::array::from_fn(|other: usize| done[other].load(SeqCst));
                    if let Err(error) = db.write(batch(thread, n, before)) {
                        return say(format!("failed {thread} {n}: {error}"));
                    }
                    done[thread].store(n + 1, SeqCst);
                    say(format!("done {thread} {n}"));
                    if (n + thread as u64).is_multiple_of(SYNC) {
                        let before = std::array::from_fn(|other: usize| done[other].load(SeqCst));
                        if let Err(error) = db.sync() {
                            return say(format!("failed {thread} {n}: sync: {error}"));
                        }
                        say(format!("synced {}", text(before)));
                    }
                }
            });
        }
    });
    // All threads have failed; reads must still work.
    let read = db.range(..).try_for_each(|pair| pair.map(drop));
    say(match read {
        Ok(()) => "read".to_owned(),
        Err(error) => format!("failed to read: {error}"),
    });
    match read_many(&db, done.map(AtomicU64::into_inner)) {
        Ok(failed) => say(format!("keys that failed {failed}")),
        Err(wrong) => panic!("{wrong}"),
    }
    say_places(&db);
    if let Some(reason) = db.stats().read_only {
        say(format!("read-only: {reason}"));
    }
    match db.close() {
        Ok(()) => say("closed"),
        Err(error) => say(format!("failed to close: {error}")),
    }
}

/// The promises about a store.
#[derive(Debug, Clone, Default)]
pub struct Promised {
    acknowledged: Numbers,
    synced: Numbers,
    /// Batches that were acknowledged.
    pub batches: u64,
    /// The failures, as text.
    pub failures: Vec<String>,
}

impl Promised {
    /// Reads the output of a child.
    pub fn hear(&mut self, lines: &[String], death: Death, durability: Durability) -> Result<(), String> {
        for line in lines {
            let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
            match word {
                "done" => {
                    let (thread, n) = rest.split_once(' ').ok_or(line)?;
                    let (thread, n) = (thread.parse::<usize>().ok(), n.parse::<u64>().ok());
                    let (Some(thread @ ..THREADS), Some(n)) = (thread, n) else { return Err(line.clone()) };
                    // The store may hold more than was promised: not all acknowledgements are read.
                    let wanted = self.acknowledged[thread];
                    if n < wanted {
                        return Err(format!("thread {thread}: {n} was taken twice, {wanted} was next"));
                    }
                    self.acknowledged[thread] = n + 1;
                    self.batches += 1;
                }
                "synced" => self.raise_synced(parse(rest).ok_or(line)?),
                // The child found this state at its opening.
                "opened" => {
                    let found = parse(rest).ok_or(line)?;
                    self.settle(found, death, durability)?;
                }
                "failed" => self.failures.push(line.clone()),
                _ => {}
            }
        }
        Ok(())
    }

    fn raise_synced(&mut self, numbers: Numbers) {
        for (synced, n) in self.synced.iter_mut().zip(numbers) {
            *synced = n.max(*synced);
        }
    }

    /// The batches that must be there.
    pub fn wanted(&self, death: Death, durability: Durability) -> Numbers {
        match (death, durability) {
            (Death::Power, Durability::Sync) | (Death::Process, Durability::Process | Durability::Sync) => {
                self.acknowledged
            }
            _ => self.synced,
        }
    }

    /// The recovered state is the one that the store continues from.
    fn settle(&mut self, found: Numbers, death: Death, durability: Durability) -> Result<(), String> {
        let wanted = self.wanted(death, durability);
        if (0..THREADS).any(|thread| found[thread] < wanted[thread]) {
            return Err(format!("{found:?} are there, promised were {wanted:?}; {durability:?}, {death:?}"));
        }
        self.acknowledged = found;
        Ok(())
    }

    /// Checks the whole contents of a store.
    pub fn check(&mut self, db: &Db, death: Death, durability: Durability) -> Result<(), String> {
        let mut found = [0; THREADS];
        let mut before = [[0; THREADS]; THREADS];
        for thread in 0..THREADS {
            (found[thread], before[thread]) = next(db, thread)?;
        }
        self.settle(found, death, durability)?;
        for thread in 0..THREADS {
            if let Some(other) = (0..THREADS).find(|&other| found[other] < before[thread][other]) {
                return Err(format!(
                    "no prefix: batch {} of thread {thread} is there, which began after {} of thread {other}; of these \
                     there are {}",
                    found[thread], before[thread][other], found[other]
                ));
            }
        }
        let mut expected = BTreeMap::new();
        for (thread, &next) in found.iter().enumerate() {
            for n in next.saturating_sub(KEYS)..next {
                (0..2).for_each(|half| drop(expected.insert(key(thread, n, half), value(n))));
            }
            if let Some(last) = next.checked_sub(1) {
                let text = format!("{next} {}", text(before[thread]));
                expected.insert(format!("next-{thread}"), text);
                for n in last - last % RANGE..next {
                    expected.insert(format!("range-{thread}-{n:012}"), value(n));
                }
            }
        }
        compare(db, &expected)
    }
}

fn compare(db: &Db, expected: &BTreeMap<String, String>) -> Result<(), String> {
    let mut wanted = expected.iter();
    for pair in db.range(..) {
        let (key, value) = pair.map_err(|error| format!("cannot read: {error}"))?;
        let (key, value) = (String::from_utf8_lossy(&key), String::from_utf8_lossy(&value));
        match wanted.next() {
            Some((k, v)) if *k == key && *v == value => {}
            other => {
                let other = other.map(|(key, value)| (key, &value[..value.len().min(20)]));
                return Err(format!(
                    "found {key:?}: {:?}, expected {other:?}",
                    &value[..value.len().min(20)]
                ));
            }
        }
    }
    match wanted.next() {
        Some((key, _)) => Err(format!("{key:?} is missing")),
        None => Ok(()),
    }
}
