//! Sources of a thread's operations: a workload, the analytics trace, or a recorded trace.

use super::filled::Filled;
use super::tally::Kind;
use crate::failure::Result;
use cantle_workloads::analytics::{self, Analytics};
use cantle_workloads::generator::{Chooser, Permutation, Random};
use cantle_workloads::population::Population;
use cantle_workloads::records::{Sizes, Values};
use cantle_workloads::trace::{Entry, Reader};
use cantle_workloads::workload::{Operation, Workload};
use std::fs::File;
use std::io::BufReader;

/// The next operation. Its buffers are reused by the thread.
#[derive(Default)]
pub struct Next {
    pub kind: Option<Kind>,
    pub key: Vec<u8>,
    pub value: Vec<u8>,
    /// The keys that are read at once.
    pub keys: Vec<Vec<u8>>,
    /// The key before which a scan ends.
    pub to: Option<Vec<u8>>,
    /// Maximum number of rows of a scan.
    pub rows: u64,
    /// True if every value begins with its key, so that reads can be checked.
    pub is_checkable: bool,
    /// True if a read must find a record.
    pub must_exist: bool,
    /// The number to report when a new record has been written.
    pub claimed: Option<u64>,
}

/// One thread's operations.
pub enum Source<'a> {
    Workload(Box<FromWorkload<'a>>),
    Fill(Box<FromFill<'a>>),
    Delete(FromDelete<'a>),
    Seek(Box<FromSeek<'a>>),
    GetMany(Box<FromGetMany<'a>>),
    Ingest(FromTrace<'a>),
    Analyse(FromTrace<'a>),
    Replay(Box<FromFile<'a>>),
}

/// Draws operations from a workload's mix and distribution.
pub struct FromWorkload<'a> {
    pub workload: Workload,
    pub chooser: Option<Chooser>,
    pub random: Random,
    pub population: &'a Population,
    /// The number of the first inserted record, and the order of inserts if it is not key order.
    pub first_insert: u64,
    pub insert_order: Option<Permutation>,
    pub filled: &'a Filled,
    pub values: &'a Values,
    pub sizes: Sizes,
}

/// Writes each record once. Numbers of operations are the order, so that threads share no lock.
pub struct FromFill<'a> {
    pub filled: &'a Filled,
    /// The order of a further round, as numbers of the first one.
    pub order: Option<&'a Permutation>,
    pub is_first: bool,
    pub random: Random,
    pub values: &'a Values,
    pub sizes: Sizes,
}

/// Deletes each record, in the order of the numbers of operations.
pub struct FromDelete<'a> {
    pub filled: &'a Filled,
    pub order: Option<&'a Permutation>,
    pub sizes: Sizes,
}

/// Seeks random records.
pub struct FromSeek<'a> {
    pub chooser: Chooser,
    pub rows: u64,
    pub filled: &'a Filled,
    pub random: Random,
    pub sizes: Sizes,
}

/// Gets random records, many at once.
pub struct FromGetMany<'a> {
    pub chooser: Chooser,
    pub at_once: u64,
    pub filled: &'a Filled,
    pub random: Random,
    pub sizes: Sizes,
}

/// Writes events of the analytics trace, or queries them.
pub struct FromTrace<'a> {
    pub trace: &'a Analytics,
    pub events: &'a Population,
    pub random: Random,
    pub filler: &'a [u8],
}

/// Runs those operations of a file whose keys belong to this thread, so that operations on one key
/// keep their order.
pub struct FromFile<'a> {
    pub reader: Reader<BufReader<File>>,
    pub thread: u64,
    pub threads: u64,
    pub filler: &'a [u8],
}

impl Source<'_> {
    /// Writes the next operation, which has this number among those of all threads, to `next`; `false` at
    /// the end.
    pub fn next(&mut self, number: u64, next: &mut Next) -> Result<bool> {
        match self {
            Self::Workload(source) => source.next(next),
            Self::Fill(source) => {
                source.next(number, next);
                Ok(true)
            }
            Self::Delete(source) => {
                source.next(number, next);
                Ok(true)
            }
            Self::Seek(source) => {
                source.next(next);
                Ok(true)
            }
            Self::GetMany(source) => {
                source.next(next);
                Ok(true)
            }
            Self::Ingest(source) => {
                source.event(next);
                Ok(true)
            }
            Self::Analyse(source) => {
                // 95 % scans, 5 % puts (EvenDB §5.2).
                if source.random.below(20) == 0 {
                    source.event(next);
                } else {
                    source.query(next);
                }
                Ok(true)
            }
            Self::Replay(source) => source.next(next),
        }
    }
}

impl FromWorkload<'_> {
    fn next(&mut self, next: &mut Next) -> Result<bool> {
        let operation = self.workload.next(&mut self.random);
        next.claimed = None;
        let record = match (operation, self.chooser.as_mut()) {
            (Operation::Insert, _) => {
                let record = self.population.claim();
                next.claimed = Some(record);
                let order = self.insert_order.as_ref();
                order.map_or(record, |order| self.first_insert + order.apply(record - self.first_insert))
            }
            (_, Some(chooser)) => {
                self.filled.record(chooser.next(&mut self.random, self.population.existing()))
            }
            (_, None) => return Err(crate::failure::Failure::new("a workload without records to choose")),
        };
        self.sizes.key(record, &mut next.key);
        let (kind, rows) = match operation {
            Operation::Put => (Kind::Put, 0),
            Operation::Get => (Kind::Get, 0),
            Operation::Insert => (Kind::Insert, 0),
            Operation::Scan(rows) => (Kind::Scan, rows),
            Operation::ReadModifyWrite => (Kind::ReadModifyWrite, 0),
        };
        if !matches!(kind, Kind::Get | Kind::Scan) {
            let value_bytes = self.sizes.next_value_bytes(&mut self.random);
            self.values.fill_for(&next.key, value_bytes, &mut next.value, &mut self.random);
        }
        (next.kind, next.rows, next.to) = (Some(kind), rows, None);
        (next.is_checkable, next.must_exist) = (true, true);
        Ok(true)
    }
}

impl FromFill<'_> {
    fn next(&mut self, number: u64, next: &mut Next) {
        let record = self.filled.record(self.order.map_or(number, |order| order.apply(number)));
        self.sizes.key(record, &mut next.key);
        let value_bytes = self.sizes.next_value_bytes(&mut self.random);
        self.values.fill_for(&next.key, value_bytes, &mut next.value, &mut self.random);
        (next.kind, next.claimed) = (Some(if self.is_first { Kind::Insert } else { Kind::Put }), None);
    }
}

impl FromDelete<'_> {
    fn next(&mut self, number: u64, next: &mut Next) {
        let record = self.filled.record(self.order.map_or(number, |order| order.apply(number)));
        self.sizes.key(record, &mut next.key);
        (next.kind, next.claimed) = (Some(Kind::Delete), None);
    }
}

impl FromSeek<'_> {
    fn next(&mut self, next: &mut Next) {
        let record = self.filled.record(self.chooser.next(&mut self.random, self.filled.records));
        self.sizes.key(record, &mut next.key);
        (next.kind, next.rows, next.to) = (Some(Kind::Scan), self.rows, None);
        (next.is_checkable, next.must_exist, next.claimed) = (true, true, None);
    }
}

impl FromGetMany<'_> {
    fn next(&mut self, next: &mut Next) {
        next.keys.resize_with(self.at_once as usize, Vec::new);
        for key in &mut next.keys {
            let record = self.filled.record(self.chooser.next(&mut self.random, self.filled.records));
            self.sizes.key(record, key);
        }
        (next.kind, next.is_checkable, next.must_exist) = (Some(Kind::GetMany), true, true);
        next.claimed = None;
    }
}

impl FromTrace<'_> {
    fn event(&mut self, next: &mut Next) {
        let number = self.events.claim();
        let key = self.trace.event(number).key();
        next.key.clear();
        next.key.extend_from_slice(&key);
        next.value.clear();
        next.value.extend_from_slice(&key);
        fill(&mut next.value, analytics::VALUE_BYTES, self.filler, &mut self.random);
        (next.kind, next.claimed) = (Some(Kind::Insert), Some(number));
    }

    fn query(&mut self, next: &mut Next) {
        let app = self.trace.app(&mut self.random);
        let (from, to) = self.trace.last_minute(app, self.events.existing());
        next.key.clear();
        next.key.extend_from_slice(&from);
        (next.to, next.rows, next.kind, next.claimed) = (Some(to.to_vec()), u64::MAX, Some(Kind::Scan), None);
        // Many apps have had no event in the last minute.
        (next.is_checkable, next.must_exist) = (true, false);
    }
}

impl FromFile<'_> {
    fn next(&mut self, next: &mut Next) -> Result<bool> {
        for entry in self.reader.by_ref() {
            let entry = entry?;
            if hash(entry.key()) % self.threads != self.thread {
                continue;
            }
            next.key.clear();
            next.key.extend_from_slice(entry.key());
            (next.claimed, next.is_checkable, next.must_exist) = (None, false, false);
            next.kind = Some(match entry {
                Entry::Put { value_bytes, .. } => {
                    next.value.clear();
                    let mut random = Random::new(value_bytes);
                    fill(&mut next.value, usize::try_from(value_bytes)?, self.filler, &mut random);
                    Kind::Put
                }
                Entry::Get { .. } => Kind::Get,
                Entry::Delete { .. } => Kind::Delete,
                Entry::Scan { to, rows, .. } => {
                    (next.to, next.rows) = (to, rows.unwrap_or(u64::MAX));
                    Kind::Scan
                }
            });
            return Ok(true);
        }
        Ok(false)
    }
}

/// Extends `value` to `bytes` with some of the random bytes of `filler`.
fn fill(value: &mut Vec<u8>, bytes: usize, filler: &[u8], random: &mut Random) {
    while value.len() < bytes {
        let part = (bytes - value.len()).min(filler.len() / 2);
        let start = random.below((filler.len() - part) as u64) as usize;
        value.extend_from_slice(&filler[start..start + part]);
    }
}

/// FNV-1a: selects the thread that runs a key's operations.
fn hash(key: &[u8]) -> u64 {
    key.iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}
