//! Writes of the logs in the order of tables, in bounded memory.
//!
//! LevelDB's logs are as large as its write buffer, 4 MiB by default. Most often everything fits
//! and stays in memory; the rest is written as sorted [runs](Run) to files in the directory of the
//! new store. Whenever there are `RUNS_MAX` that were merged equally often, they are merged: at
//! most `RUNS_MAX` files are open for each power of that number.

use super::entry::{Entry, in_order};
use super::merge::Merge;
use super::reading::Reading;
use super::run::Run;
use crate::error::Result;
use std::path::{Path, PathBuf};

/// Memory that an entry takes beside its bytes.
const ENTRY_BYTES: usize = 96;
/// A process may have 1024 files open, most often, and the new store needs some.
const RUNS_MAX: usize = 64;
/// Entries of a merge from one word on the progress to the next.
const PROGRESS_ENTRIES: u64 = 4096;

/// Told now and then; an error ends the work.
pub(crate) type Tick<'a> = dyn FnMut() -> Result<()> + 'a;

#[derive(Debug)]
pub(crate) struct Sorter {
    scratch: PathBuf,
    memory_bytes: usize,
    entries: Vec<Entry>,
    entries_bytes: usize,
    /// Runs by how often they were merged.
    runs: Vec<Vec<Run>>,
}

impl Sorter {
    /// Sorts in so much memory, and in files in `scratch`.
    pub fn new(scratch: &Path, memory_bytes: usize) -> Self {
        Self {
            scratch: scratch.to_path_buf(),
            memory_bytes,
            entries: Vec::new(),
            entries_bytes: 0,
            runs: Vec::new(),
        }
    }

    pub fn push(&mut self, entry: Entry, tick: &mut Tick<'_>) -> Result<()> {
        self.entries_bytes += ENTRY_BYTES + entry.key.len() + entry.value.as_ref().map_or(0, Vec::len);
        self.entries.push(entry);
        if self.entries_bytes > self.memory_bytes { self.spill(tick) } else { Ok(()) }
    }

    pub fn finish(mut self) -> Vec<Run> {
        self.sort();
        let mut runs: Vec<Run> = self.runs.into_iter().flatten().collect();
        runs.push(Run::Memory(self.entries.into_iter()));
        runs
    }

    /// The newest entry of each key is enough.
    fn sort(&mut self) {
        self.entries.sort_unstable_by(|a, b| in_order((&a.key, a.sequence), (&b.key, b.sequence)));
        self.entries.dedup_by(|later, earlier| later.key == earlier.key);
    }

    fn spill(&mut self, tick: &mut Tick<'_>) -> Result<()> {
        self.sort();
        let run = Run::write(&self.scratch, self.entries.drain(..).map(Ok))?;
        self.entries_bytes = 0;
        self.add(run, 0, tick)
    }

    fn add(&mut self, run: Run, merged: usize, tick: &mut Tick<'_>) -> Result<()> {
        if self.runs.len() == merged {
            self.runs.push(Vec::new());
        }
        let runs = &mut self.runs[merged];
        runs.push(run);
        if runs.len() < RUNS_MAX {
            return Ok(());
        }
        let runs = std::mem::take(runs);
        let mut reading = Reading::default();
        let mut merge = Merge::new(Vec::new(), runs, &mut reading)?;
        let entries = std::iter::from_fn(|| {
            loop {
                if merge.entries().is_multiple_of(PROGRESS_ENTRIES)
                    && let Err(error) = tick()
                {
                    return Some(Err(error));
                }
                match merge.next(&mut reading) {
                    Ok(Some(None)) => {}
                    Ok(Some(Some(entry))) => return Some(Ok(entry)),
                    Ok(None) => return None,
                    Err(error) => return Some(Err(error)),
                }
            }
        });
        let run = Run::write(&self.scratch, entries)?;
        self.add(run, merged + 1, tick)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn runs_are_sorted_and_have_the_newest_of_each_key(
            writes in prop::collection::vec((prop::collection::vec(0..4u8, 0..3), any::<Option<Vec<u8>>>()), 0..60),
            memory_bytes in 0..5000usize,
        ) {
            let mut sorter = Sorter::new(&std::env::temp_dir(), memory_bytes);
            let mut newest = std::collections::BTreeMap::new();
            for (sequence, (key, value)) in writes.into_iter().enumerate() {
                let entry = Entry { key: key.clone(), sequence: sequence as u64, value };
                newest.insert(key, entry.clone());
                sorter.push(entry, &mut || Ok(())).unwrap();
            }
            let mut merged: std::collections::BTreeMap<Vec<u8>, Entry> = std::collections::BTreeMap::new();
            for mut run in sorter.finish() {
                let mut before: Option<Vec<u8>> = None;
                while let Some(entry) = run.next().unwrap() {
                    prop_assert!(before.as_ref().is_none_or(|before| *before < entry.key));
                    before = Some(entry.key.clone());
                    let held = merged.entry(entry.key.clone()).or_insert_with(|| entry.clone());
                    if held.sequence < entry.sequence {
                        *held = entry;
                    }
                }
            }
            prop_assert_eq!(merged, newest);
        }
    }

    #[test]
    fn large_logs_leave_memory_and_no_file() {
        let scratch = tempfile::tempdir().unwrap();
        let mut sorter = Sorter::new(scratch.path(), 10_000);
        for sequence in 0..1000u64 {
            let entry = Entry { key: sequence.to_be_bytes().to_vec(), sequence, value: Some(vec![1; 100]) };
            sorter.push(entry, &mut || Ok(())).unwrap();
            assert!(sorter.entries_bytes <= 10_000 + 204);
        }
        assert!(sorter.runs[0].len() > 10);
        assert_eq!(std::fs::read_dir(scratch.path()).unwrap().count(), 0);
        let counts: usize = sorter
            .finish()
            .into_iter()
            .map(|mut run| std::iter::from_fn(|| run.next().unwrap()).count())
            .sum();
        assert_eq!(counts, 1000);
    }

    #[test]
    fn however_many_runs_there_are_few_files_are_open() {
        let scratch = tempfile::tempdir().unwrap();
        let mut sorter = Sorter::new(scratch.path(), 500);
        let mut ticks = 0;
        for sequence in 0..30_000u64 {
            let key = (sequence * 7919 % 10_000).to_be_bytes().to_vec();
            let value = (sequence % 3 > 0).then(|| sequence.to_be_bytes().to_vec());
            let mut tick = || {
                ticks += 1;
                Ok(())
            };
            sorter.push(Entry { key, sequence, value }, &mut tick).unwrap();
            assert!(sorter.runs.iter().map(Vec::len).sum::<usize>() < 2 * RUNS_MAX);
        }
        assert!(sorter.runs.len() > 1 && ticks > 0);
        let mut merge = Merge::new(Vec::new(), sorter.finish(), &mut Reading::default()).unwrap();
        let mut newest = 0;
        while let Some(entry) = merge.next(&mut Reading::default()).unwrap() {
            let Some(entry) = entry else { continue };
            assert!(entry.sequence >= 20_000 && entry.key == (entry.sequence * 7919 % 10_000).to_be_bytes());
            assert_eq!(entry.value.is_some(), entry.sequence % 3 > 0);
            newest += 1;
        }
        assert_eq!(newest, 10_000);
    }
}
