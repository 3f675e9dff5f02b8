//! Heavy use of an open store: hot gets until chunks are loaded and split, scans, writes, merges,
//! with concurrent readers. All results are compared with the model.

use super::model::{Model, check_found, check_get, stamp_of};
use super::plan::{Plan, batch};
use crate::rng::Rng;
use cantle::{Db, Durability};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

/// Number of readers besides the writer.
const READERS: u64 = 2;
/// Number of hot keys, which are neighbours.
const HOT: u64 = 64;
/// Minimum number of rounds of hot gets, each followed by a pause: maintenance chooses chunks to
/// load every 80 ms.
const ROUNDS: u64 = 10;
/// Slightly longer than a tick of maintenance.
const PAUSE: Duration = Duration::from_millis(25);

/// Receives the progress of the writes.
pub trait Watch: Sync {
    fn begun(&self);
    /// The write returned. If `is_durable`, it and all writes before it are durable.
    fn finished(&self, is_durable: bool);
    /// All writes that have returned are durable.
    fn all_is_durable(&self);
}

/// The use of one store.
pub struct Usage<'a, W> {
    pub db: &'a Db,
    pub plan: &'a Plan,
    pub durability: Durability,
    pub watch: &'a W,
}

impl<W: Watch> Usage<'_, W> {
    /// Makes this number of writes without reads, as a bulk load does.
    pub fn fill(&self, model: &mut Model, writes: u64) -> Result<(), String> {
        self.write_until(model, model.writes + writes)?;
        self.is_sound()
    }

    /// Reads the recovered pairs, then makes this number of writes with concurrent reads.
    pub fn run(&self, model: &mut Model, rng: &mut Rng, writes: u64) -> Result<(), String> {
        self.heat(model, rng)?;
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let readers: Vec<_> = (0..READERS)
                .map(|_| {
                    let (mut rng, is_over) = (rng.fork(), &is_over);
                    let near = model.writes;
                    scope.spawn(move || {
                        while !is_over.load(Relaxed) {
                            self.read_beside(&mut rng, near)?;
                        }
                        Ok::<_, String>(())
                    })
                })
                .collect();
            let written = self.write(model, rng, writes);
            is_over.store(true, Relaxed);
            let read = readers.into_iter().map(|reader| reader.join().map_err(|_| "a reader panicked")?);
            written.and_then(|()| read.collect::<Result<Vec<_>, _>>().map(drop))
        })?;
        self.heat(model, rng)?;
        self.is_sound()
    }

    /// Gets of neighbouring and of random keys, until maintenance has noticed them.
    fn heat(&self, model: &Model, rng: &mut Rng) -> Result<(), String> {
        let number = 4 * model.writes.max(1);
        for round in 0..ROUNDS {
            let hot = rng.below(number);
            for n in 0..400 {
                let number = if n % 2 == 0 { hot + rng.below(HOT) } else { rng.below(number) };
                let key = self.plan.key(number);
                check_get(self.db, &key, model.pairs.get(&key))?;
            }
            let keys: Vec<Vec<u8>> = (0..HOT).map(|_| self.plan.key(rng.below(number))).collect();
            for (key, found) in keys.iter().zip(self.db.get_many(&keys)) {
                check_found(key, found, model.pairs.get(key))?;
            }
            // Includes the greatest keys, in every order of writes.
            for (key, stamp) in model.pairs.iter().rev().take(HOT as usize) {
                check_get(self.db, key, Some(stamp))?;
            }
            if round % 4 == 3 {
                self.scan(model, rng)?;
            }
            std::thread::sleep(PAUSE);
        }
        self.is_sound()
    }

    /// A part of a scan, ascending or descending.
    fn scan(&self, model: &Model, rng: &mut Rng) -> Result<(), String> {
        let from = self.plan.key(rng.below(4 * model.writes.max(1)));
        let is_up = rng.below(2) == 0;
        let expected: Vec<_> = match is_up {
            true => model.pairs.range(from.clone()..).take(200).collect(),
            false => model.pairs.range(..from.clone()).rev().take(200).collect(),
        };
        let range = if is_up { self.db.range(from..) } else { self.db.range(..from) };
        let found: Result<Vec<_>, _> =
            if is_up { range.take(200).collect() } else { range.rev().take(200).collect() };
        let found = found.map_err(|error| format!("cannot scan: {error}"))?;
        if found.len() != expected.len() {
            return Err(format!("a scan has {} pairs, expected {}", found.len(), expected.len()));
        }
        for ((key, value), (wanted, stamp)) in found.iter().zip(expected) {
            if key[..] != wanted[..] || stamp_of(key, value)? != *stamp {
                let (key, wanted) = (key.escape_ascii(), wanted.escape_ascii());
                return Err(format!("a scan found {key}, expected {wanted} with {stamp:?}"));
            }
        }
        Ok(())
    }

    /// Reads concurrent with the writer: every value found must be one that some write put.
    fn read_beside(&self, rng: &mut Rng, near: u64) -> Result<(), String> {
        let hot = 4 * near.saturating_sub(rng.below(HOT));
        let keys: Vec<Vec<u8>> = (0..HOT).map(|_| self.plan.key(hot + rng.below(4 * HOT))).collect();
        let found = match rng.below(2) {
            0 => keys.iter().map(|key| self.db.get(key)).collect(),
            _ => self.db.get_many(&keys),
        };
        for (key, found) in keys.iter().zip(found) {
            let found = found.map_err(|error| format!("cannot get beside writes: {error}"))?;
            found.map(|value| stamp_of(key, &value)).transpose()?;
        }
        let from = self.plan.key(rng.below(4 * near + 1));
        let mut last = None;
        for pair in self.db.range(from..).take(50) {
            let (key, value) = pair.map_err(|error| format!("cannot scan beside writes: {error}"))?;
            stamp_of(&key, &value)?;
            if last.as_ref().is_some_and(|last| *last >= key) {
                return Err(format!("a scan comes to {} out of order", key.escape_ascii()));
            }
            last = Some(key);
        }
        std::thread::sleep(Duration::from_micros(rng.below(500)));
        Ok(())
    }

    fn write(&self, model: &mut Model, rng: &mut Rng, writes: u64) -> Result<(), String> {
        let end = model.writes + writes;
        while model.writes < end {
            let burst = end.min(model.writes + 1 + rng.below(writes / 4 + 1));
            self.write_until(model, burst)?;
            match rng.below(6) {
                0 => {
                    self.db.sync().map_err(|error| format!("cannot sync: {error}"))?;
                    self.watch.all_is_durable();
                }
                1 => {
                    let range = self.plan.key(rng.below(4 * model.writes))..;
                    self.db.compact_range(range).map_err(|error| format!("cannot compact: {error}"))?;
                    self.watch.all_is_durable();
                }
                2 => self.scan(model, rng)?,
                3 => std::thread::sleep(PAUSE),
                _ => {}
            }
        }
        Ok(())
    }

    fn write_until(&self, model: &mut Model, end: u64) -> Result<(), String> {
        while model.writes < end {
            let changes = self.plan.write(model.writes);
            self.watch.begun();
            let written = self.db.write(batch(model.writes, &changes));
            written.map_err(|error| format!("write {}: {error}", model.writes))?;
            self.watch.finished(self.durability == Durability::Sync);
            model.apply(&changes, |_| ());
        }
        Ok(())
    }

    fn is_sound(&self) -> Result<(), String> {
        match self.db.stats().read_only {
            Some(reason) => Err(format!("the store is read-only: {reason}")),
            None => Ok(()),
        }
    }
}
