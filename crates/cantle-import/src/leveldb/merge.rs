//! The newest version of every key, from all lanes and runs.

use super::entry::{Entry, in_order};
use super::lane::Lane;
use super::reading::Reading;
use super::run::Run;
use crate::error::Result;
use std::cmp::Ordering;
use std::collections::BinaryHeap;

enum Input {
    Lane(Box<Lane>),
    Run(Run),
}

impl Input {
    fn next(&mut self, reading: &mut Reading) -> Result<Option<Entry>> {
        match self {
            Self::Lane(lane) => lane.next(reading),
            Self::Run(run) => run.next(),
        }
    }
}

/// The next entry of an input. The largest is the one that comes first.
struct Head {
    entry: Entry,
    input: usize,
}

impl Ord for Head {
    fn cmp(&self, other: &Self) -> Ordering {
        let (a, b) = (&self.entry, &other.entry);
        in_order((&b.key, b.sequence), (&a.key, a.sequence)).then(other.input.cmp(&self.input))
    }
}

impl PartialOrd for Head {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Head {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Head {}

/// Entries in order of key, of each key the newest first.
pub(crate) struct Merge {
    inputs: Vec<Input>,
    heads: BinaryHeap<Head>,
    entries: u64,
    /// The last key.
    last: Option<Vec<u8>>,
}

impl Merge {
    pub fn new(lanes: Vec<Lane>, runs: Vec<Run>, reading: &mut Reading) -> Result<Self> {
        let lanes = lanes.into_iter().map(|lane| Input::Lane(Box::new(lane)));
        let inputs: Vec<Input> = lanes.chain(runs.into_iter().map(Input::Run)).collect();
        let mut merge =
            Self { heads: BinaryHeap::with_capacity(inputs.len()), inputs, entries: 0, last: None };
        for input in 0..merge.inputs.len() {
            merge.advance(input, reading)?;
        }
        Ok(merge)
    }

    fn advance(&mut self, input: usize, reading: &mut Reading) -> Result<()> {
        if let Some(entry) = self.inputs[input].next(reading)? {
            self.heads.push(Head { entry, input });
        }
        Ok(())
    }

    /// Number of entries taken from the inputs.
    pub fn entries(&self) -> u64 {
        self.entries
    }

    /// The next entry, or nothing in its place where it is an older version of the key before. None
    /// at the end. The caller therefore never waits long, whatever the source is made of.
    pub fn next(&mut self, reading: &mut Reading) -> Result<Option<Option<Entry>>> {
        let Some(Head { entry, input }) = self.heads.pop() else { return Ok(None) };
        self.entries += 1;
        self.advance(input, reading)?;
        if self.last.as_ref() == Some(&entry.key) {
            return Ok(Some(None));
        }
        let last = self.last.get_or_insert_default();
        last.clear();
        last.extend_from_slice(&entry.key);
        Ok(Some(Some(entry)))
    }
}
