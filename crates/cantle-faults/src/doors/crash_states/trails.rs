//! Differences between recoveries: the sequence of the calls that they make.
//!
//! Most recoveries are alike, and failing all of them again takes most of the time for little. A
//! recovery is worth it at the calls that hardly any other recovery made in this order: there a
//! call may be missing, or two may be in the wrong order, in a way that was not tested yet.

use crate::history::Death;
use crate::images::Image;
use cantle::vfs::{Call, FaultVfs, Operation, Verdict};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::Path;
use std::sync::{Arc, Mutex};

/// A call that changes something: its operation, and the kind of its file, by the name without the
/// number.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Step(Operation, String);

impl Step {
    fn of(operation: Operation, path: &Path) -> Self {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        Self(operation, name.chars().filter(|char| !char.is_ascii_digit()).collect())
    }
}

/// The steps before which these images were taken.
pub fn steps(images: &[Image]) -> Vec<Step> {
    images.iter().flat_map(|image| &image.call).map(|(operation, path)| Step::of(*operation, path)).collect()
}

/// Records the steps from now on.
pub fn record(fault: &FaultVfs) -> Arc<Mutex<Vec<Step>>> {
    let steps: Arc<Mutex<Vec<Step>>> = Arc::default();
    let noted = steps.clone();
    fault.set_rule(move |call: &Call<'_>| {
        if call.operation.changes() {
            noted.lock().unwrap().push(Step::of(call.operation, call.path));
        }
        Verdict::Pass
    });
    steps
}

/// Number of failed recoveries for each pair of consecutive steps. After the death of a process
/// alone, much of the data that the next process finds is not yet durable, and such deaths are few:
/// they are counted separately.
#[derive(Debug)]
pub struct Trails {
    /// A pair of steps that was failed this often is not rare any more.
    often: u32,
    pairs: Mutex<HashMap<(Death, Pair), u32>>,
}

/// A missing step becomes visible in the image that a loss of power at a later step leaves: the
/// number of later steps to try.
const BEHIND: usize = 2;

/// Two consecutive steps; the first step of a recovery has none before it.
pub type Pair = [Option<Step>; 2];

impl Trails {
    pub fn new(often: u32) -> Self {
        Self { often, pairs: Mutex::default() }
    }

    /// The pairs of consecutive steps that are rare so far. Counts them.
    pub fn take_rare(&self, death: Death, steps: &[Step]) -> HashSet<Pair> {
        let mut pairs = self.pairs.lock().unwrap();
        let mut rare = HashSet::new();
        for pair in pairs_of(steps).collect::<HashSet<_>>() {
            let count = pairs.entry((death, pair.clone())).or_default();
            if *count < self.often {
                *count += 1;
                rare.insert(pair);
            }
        }
        rare
    }
}

/// The places at which to fail: before the second step of a rare pair, and before the steps after
/// it. The place after the last step counts, too.
pub fn places(steps: &[Step], rare: &HashSet<Pair>) -> BTreeSet<usize> {
    let places = pairs_of(steps).enumerate().filter(|(_, pair)| rare.contains(pair));
    places.flat_map(|(place, _)| place..(steps.len() + 1).min(place + 1 + BEHIND)).collect()
}

/// Each step with the one before it.
fn pairs_of(steps: &[Step]) -> impl Iterator<Item = Pair> {
    let before = std::iter::once(None).chain(steps.iter().cloned().map(Some));
    before.zip(steps.iter().cloned().map(Some)).map(|(before, step)| [before, step])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_follows_as_it_did_before_is_not_rare() {
        let steps = |names: &[&str]| -> Vec<Step> {
            names.iter().map(|name| Step::of(Operation::WriteAt, Path::new(name))).collect()
        };
        let trails = Trails::new(2);
        let rare = |names: &[&str]| places(&steps(names), &trails.take_rare(Death::Power, &steps(names)));
        let usual = ["1.log", "MANIFEST", "2.log", "3.table"];
        assert_eq!(rare(&usual), (0..5).collect());
        assert_eq!(rare(&usual), (0..5).collect());
        assert!(rare(&usual).is_empty());
        assert!(rare(&["7.log", "MANIFEST", "8.log"]).is_empty(), "numbers do not count");
        let more = ["1.log", "MANIFEST", "2.log", "MANIFEST", "2.log", "3.table", "MANIFEST"];
        assert_eq!(rare(&more), BTreeSet::from([6, 7]));
        assert_eq!(rare(&["MANIFEST", "1.log", "3.table", "3.table", "3.table"]), (0..6).collect());
        assert!(!trails.take_rare(Death::Process, &steps(&usual)).is_empty(), "another death");
    }
}
