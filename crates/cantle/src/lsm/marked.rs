//! Tables that range deletes have dropped as a whole. A mark says so, and moves no data. The tables go
//! once no snapshot reads them. A mark on a part of a table works alike (`run/dropped_ranges.rs`).
//! Also tables that hold nothing, and only say which files they replace: they go once these files have
//! gone.

use super::busy::Busy;
use super::shape::{Cuts, Group, Job, Move, Outcome, Piece, Place, Rules, Shape};
use crate::run::retain::Bottom;
use crate::run::run::{Dropped, Run};
use crate::table::DeletedRange;
use crate::types::gap::Gap;
use crate::types::order::KeyOrder;

/// Number of tables that one job asks what they have replaced.
const ASKED_MAX: usize = 64;

/// The version of the range delete that covers the whole run, if one of these does. A snapshot from
/// this version on sees nothing of the run.
fn covered_at(order: &KeyOrder, run: &Run, deleted: &[DeletedRange]) -> Option<u64> {
    let bounds = run.span.bounds();
    let begins = |range: &DeletedRange| Gap::start(&range.bounds).compare(order, Gap::start(&bounds)).is_le();
    let range = deleted.get(deleted.partition_point(begins).checked_sub(1)?)?;
    let is_covered = Gap::end(&range.bounds).compare(order, Gap::end(&bounds)).is_ge();
    // All of its versions are newer than the run.
    range.versions.last().copied().filter(|_| is_covered)
}

/// True for a table that no snapshot from this version on needs.
fn is_gone(order: &KeyOrder, run: &Run, oldest_snapshot: u64) -> bool {
    let ranges = run.dropped_ranges.as_ref();
    let by_parts = || ranges.and_then(|ranges| ranges.covers_from(order, &run.span));
    let version = run.dropped.as_ref().map(|dropped| dropped.version).or_else(by_parts);
    version.is_some_and(|version| version <= oldest_snapshot)
}

/// A run below the output of a piece with the marks of its range deletes; `None` if they cover nothing new of it.
pub fn marked(order: &KeyOrder, run: &Run, outcome: &Outcome) -> Option<Run> {
    if let Some(version) = covered_at(order, run, &outcome.deleted).filter(|_| run.dropped.is_none()) {
        let dropped = Some(Box::new(Dropped { version, batch: 0, cell: None }));
        return Some(Run { dropped, dropped_ranges: None, ..run.clone() });
    }
    let narrowed = outcome.narrowed.iter().find(|narrowed| narrowed.is_of(run))?;
    Some(Run { dropped_ranges: narrowed.after.clone(), ..run.clone() }.dropped_whole(order))
}

/// The removal of tables that are dropped and that nobody reads, if there are any.
///
/// A table may say that older files count no more (`lineage`), also for keys that no range delete covers. If such a
/// file may still be there, the removal is a job that hands it on, and reads the table for that; the other tables go
/// before, by metadata alone. On a full disk all do: a repair without a manifest may then bring back deleted pairs,
/// but a removal that had to write could fail.
pub fn purge(shape: &impl Shape, order: &KeyOrder, rules: &Rules, busy: &Busy) -> Option<Job> {
    let is_gone = |run: &&Run| is_gone(order, run, rules.oldest_snapshot);
    let has_gone = |group: &Group<'_>| group.runs.iter().any(|run| is_gone(&run));
    let groups: Vec<Group<'_>> =
        shape.groups().filter(|group| has_gone(group) && busy.is_free(group.id)).collect();
    let first = groups.first()?;
    let settled = if rules.disk_room.is_some() { u64::MAX } else { settled(shape, rules) };
    canary!(PURGED_SILENTLY => let settled = u64::MAX);
    let is_silent = |run: &Run| run.log().is_some() || run.file().id < settled;
    let purge = |group: u64, run: &Run| Move::Purge { group, run: run.clone() };
    let (silent, speaking): (Vec<_>, Vec<_>) = groups
        .iter()
        .flat_map(|group| group.runs.iter().filter(is_gone).map(|run| (group.id, run)))
        .partition(|(_, run)| is_silent(run));
    if !silent.is_empty() {
        return Some(Job::of_moves(silent.into_iter().map(|(group, run)| purge(group, run)).collect()));
    }
    let speaking = &speaking[..speaking.len().min(ASKED_MAX)];
    let mut changed: Vec<u64> = speaking.iter().map(|(group, _)| *group).collect();
    changed.dedup();
    let moves = speaking.iter().map(|(group, run)| purge(*group, run)).collect();
    Some(Job { pieces: vec![nothing_of(first)], moves, changed, frees_space: true, window: None })
}

/// A piece that takes nothing, and whose output belongs to this group.
fn nothing_of(group: &Group<'_>) -> Piece {
    Piece {
        span: group.span.clone(),
        tables: Vec::new(),
        taken: Vec::new(),
        bottom: Bottom::Deeper,
        cuts: Cuts::At(Vec::new()),
        place: Place { level: group.level, tree: group.tree },
        groups: vec![group.id],
    }
}

/// All files with a lower number that were replaced count no more: they have gone. A file that was shared still has
/// the keys that its other groups do not read any more, and a log to which tables refer has everything that was
/// written to it.
fn settled(shape: &impl Shape, rules: &Rules) -> u64 {
    let left = shape.groups().flat_map(|group| group.runs).filter_map(Run::least_left).min();
    left.map_or(rules.settled, |left| left.min(rules.settled))
}

/// The removal of tables that hold nothing, if the files that they replace have gone.
pub fn forget(shape: &impl Shape, rules: &Rules, busy: &Busy) -> Option<Job> {
    let settled = settled(shape, rules);
    let may_go = |run: &Run| run.is_empty_table() && run.file().id < settled;
    let groups = shape.groups().filter(|group| group.runs.iter().any(may_go) && busy.is_free(group.id));
    let moves: Vec<Move> = groups.map(|group| Move::Forget { group: group.id, settled }).collect();
    (!moves.is_empty()).then(|| Job::of_moves(moves))
}
