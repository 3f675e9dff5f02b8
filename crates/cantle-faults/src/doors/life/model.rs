//! The pairs that a store holds after some of a plan's writes, and the number of writes that gives
//! the pairs that were found.

use super::plan::{Change, Plan, write_of};
use cantle::{Db, Value};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

/// A value: the number of the write that put it, and its length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    pub write: u64,
    pub len: usize,
}

pub type Pairs = BTreeMap<Vec<u8>, Stamp>;

/// The contents of a store after some number of writes.
#[derive(Debug, Clone, Default)]
pub struct Model {
    pub pairs: Pairs,
    /// Number of writes.
    pub writes: u64,
}

impl Model {
    /// The model after this number of writes.
    pub fn at(plan: &Plan, writes: u64) -> Self {
        let mut model = Self::default();
        while model.writes < writes {
            model.apply(&plan.write(model.writes), |_| ());
        }
        model
    }

    /// Applies the next write; `touched` is called with every key whose pair may have changed.
    pub fn apply(&mut self, changes: &[Change], mut touched: impl FnMut(&[u8])) {
        for change in changes {
            match change {
                Change::Put(key, len) => {
                    self.pairs.insert(key.clone(), Stamp { write: self.writes, len: (*len).max(8) });
                    touched(key);
                }
                Change::Delete(key) => {
                    self.pairs.remove(key);
                    touched(key);
                }
                Change::DeleteRange(range) => {
                    let doomed: Vec<_> =
                        self.pairs.range(range.clone()).map(|(key, _)| key.clone()).collect();
                    for key in doomed {
                        self.pairs.remove(&key);
                        touched(&key);
                    }
                }
            }
        }
        self.writes += 1;
    }

    /// The model that equals `found`, with the greatest possible number of writes within the range.
    pub fn find(plan: &Plan, found: &Pairs, writes: RangeInclusive<u64>) -> Result<Self, String> {
        let mut model = Self::at(plan, *writes.start());
        let keys = found.keys().chain(model.pairs.keys());
        let differs = |model: &Self, key: &[u8]| found.get(key) != model.pairs.get(key);
        let mut different: BTreeSet<Vec<u8>> = keys.filter(|key| differs(&model, key)).cloned().collect();
        let least = different.clone();
        let mut last = different.is_empty().then_some(model.writes);
        while model.writes < *writes.end() {
            let mut touched = Vec::new();
            model.apply(&plan.write(model.writes), |key| touched.push(key.to_vec()));
            for key in touched {
                match differs(&model, &key) {
                    true => different.insert(key),
                    false => different.remove(&key),
                };
            }
            if different.is_empty() {
                last = Some(model.writes);
            }
        }
        let first = Self::at(plan, *writes.start());
        last.map(|writes| Self::at(plan, writes)).ok_or_else(|| {
            let some = least.iter().take(5).map(|key| {
                let (found, expected) = (found.get(key), first.pairs.get(key));
                format!("\n  {}: found {found:?}, expected {expected:?}", key.escape_ascii())
            });
            let count = least.len();
            format!(
                "found no state of {writes:?} writes; from the first {count} keys differ:{}",
                some.collect::<String>()
            )
        })
    }
}

/// All pairs of a store, read by scans in both directions and by gets, which must agree.
pub fn read_all(db: &Db) -> Result<Pairs, String> {
    let cannot_read = |error| format!("cannot read: {error}");
    let mut pairs = Pairs::new();
    for pair in db.range(..) {
        let (key, value) = pair.map_err(cannot_read)?;
        let stamp = stamp_of(&key, &value)?;
        if pairs.last_key_value().is_some_and(|(last, _)| last[..] >= key[..]) {
            return Err(format!("a scan comes to {} out of order", key.escape_ascii()));
        }
        pairs.insert(key.to_vec(), stamp);
    }
    let mut back = pairs.iter().rev();
    for pair in db.range(..).rev() {
        let (key, value) = pair.map_err(cannot_read)?;
        if back.next() != Some((&key.to_vec(), &stamp_of(&key, &value)?)) {
            return Err(format!("scans in both directions disagree at {}", key.escape_ascii()));
        }
    }
    if let Some((key, _)) = back.next() {
        return Err(format!("a scan down ends before {}", key.escape_ascii()));
    }
    pairs.iter().try_for_each(|(key, stamp)| check_get(db, key, Some(stamp)))?;
    Ok(pairs)
}

/// Checks the result of a get.
pub fn check_get(db: &Db, key: &[u8], expected: Option<&Stamp>) -> Result<(), String> {
    check_found(key, db.get(key), expected)
}

/// The same, of a get that was made.
pub fn check_found(
    key: &[u8],
    found: cantle::Result<Option<Value>>,
    expected: Option<&Stamp>,
) -> Result<(), String> {
    let name = key.escape_ascii();
    let found = found.map_err(|error| format!("cannot get {name}: {error}"))?;
    let found = found.map(|value| stamp_of(key, &value)).transpose()?;
    match found.as_ref() == expected {
        true => Ok(()),
        false => Err(format!("a get of {name} found {found:?}, expected {expected:?}")),
    }
}

/// The stamp of a value that was read.
pub fn stamp_of(key: &[u8], value: &[u8]) -> Result<Stamp, String> {
    let write = write_of(value).ok_or_else(|| {
        format!(
            "{} has {} bytes that nobody put: {:02x?}",
            key.escape_ascii(),
            value.len(),
            &value[..value.len().min(16)]
        )
    })?;
    Ok(Stamp { write, len: value.len() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_writes_follows_from_the_pairs() {
        for seed in 0..20 {
            let plan = Plan::of(seed, 100_000);
            for writes in [0, 3, 1000, 1500] {
                let model = Model::at(&plan, writes);
                let found =
                    Model::find(&plan, &model.pairs, writes.saturating_sub(40)..=writes + 40).unwrap();
                // Deletes of missing keys change nothing.
                assert!(found.writes >= writes && found.pairs == model.pairs);
                let mut other = model.pairs.clone();
                other.insert(b"another".to_vec(), Stamp { write: 1, len: 8 });
                assert!(Model::find(&plan, &other, 0..=writes + 40).is_err());
            }
        }
    }
}
