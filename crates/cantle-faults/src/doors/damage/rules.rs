//! The states that a damaged store may have instead of the right one: the cases in which the format
//! cannot tell damage from a crash.

use super::harm::Harm;
use super::shapes::{End, Shape};
use crate::files::{Kind, names, read};
use crate::sealed::records;
use crate::workload::State;

/// The allowed results.
pub enum Rule<'a> {
    /// The right state.
    Now,
    /// One of these states, completely.
    Moment(&'a [State]),
    /// For each pair, its value in one of these states.
    Pairs(&'a [State]),
}

impl<'a> Rule<'a> {
    fn weaker(self, other: Self) -> Self {
        let weight = |rule: &Self| match rule {
            Rule::Now => 0,
            Rule::Moment(states) => states.len(),
            Rule::Pairs(states) => 1_000_000 + states.len(),
        };
        if weight(&self) >= weight(&other) { self } else { other }
    }
}

pub fn rule<'a>(shape: &'a Shape, harm: &Harm) -> Rule<'a> {
    let rule = of_file(shape, harm, harm.file());
    match harm {
        Harm::Swap { other, .. } => rule.weaker(of_file(shape, harm, other)),
        // The original file is still there.
        Harm::Doubled { .. } => Rule::Now,
        _ => rule,
    }
}

fn of_file<'a>(shape: &'a Shape, harm: &Harm, file: &str) -> Rule<'a> {
    match (shape.end, Kind::of(file)) {
        (_, Kind::Table | Kind::Other) | (End::Closed | End::Booted, _) => Rule::Now,
        // Only this block determines if writes after the checkpoint are valid.
        (End::Killed, Kind::PageCache) => Rule::Moment(&shape.since),
        // The store opens without the buffered writes; `verify` reports that.
        (End::Killed, Kind::WriteBuffer) => Rule::Pairs(&shape.since),
        // A file that ends too early looks like one whose write was not finished.
        (End::Killed, Kind::Log) if ends_early(shape, harm, file) => Rule::Pairs(&shape.since),
        (End::Killed, Kind::Journal) if ends_early(shape, harm, file) => Rule::Pairs(&shape.since),
        (End::PowerLost, Kind::Journal) if ends_early(shape, harm, file) => Rule::Moment(&shape.since),
        (End::Killed | End::PowerLost, Kind::Manifest) if ends_early(shape, harm, file) => {
            Rule::Pairs(&shape.all)
        }
        _ => Rule::Now,
    }
}

/// True if nothing intact follows the first damage, so that the file seems to end there.
pub fn ends_early(shape: &Shape, harm: &Harm, file: &str) -> bool {
    let before = read(&shape.vfs, file);
    let damaged = harm.inflict(shape);
    if !names(&damaged).iter().any(|name| name == file) {
        return true;
    }
    let after = read(&damaged, file);
    let starts = records(&before);
    let mut whole =
        starts.windows(2).map(|pair| after.get(pair[0]..pair[1]) == Some(&before[pair[0]..pair[1]]));
    whole.by_ref().find(|whole| !whole);
    !whole.any(|whole| whole)
}

/// True if `verify` must at least report data that such a damage loses.
pub fn is_told(shape: &Shape, harm: &Harm) -> bool {
    // The existence of a write buffer is not recorded anywhere; an earlier one reports the losses
    // that this one could have; a slot of zeros was never used.
    let silent = match harm {
        Harm::Missing { .. } | Harm::Older { .. } | Harm::Zero { .. } => true,
        // The lost data may be the other file's.
        Harm::Swap { other, .. } => !matches!(of_file(shape, harm, other), Rule::Now),
        _ => false,
    };
    shape.end == End::Killed && Kind::of(harm.file()) == Kind::WriteBuffer && !silent
}
