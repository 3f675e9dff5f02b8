//! The parts of older runs that the range deletes of a merge cover.
//!
//! A merge carries range deletes to a deeper place, above older runs. A long part of such a run, as its
//! index tells, is noted as dropped by the edit that publishes the merge. A run that is covered as a whole
//! is marked without a look at its file.
//!
//! *Cost.* The places of some range deletes in the index and in a block of each older run, about 20 for
//! each dropped range that there may be: a million short deletes are not looked up one by one.

use super::keyspace::Lsm;
use super::shape::{Group, Narrowed, Piece, Shape};
use super::view::View;
use crate::mvcc::Keep;
use crate::run::approximate::place_in;
use crate::run::dropped_ranges::{DroppedRange, DroppedRanges, joined, longest, span_of};
use crate::run::env::RunEnv;
use crate::run::run::Run;
use crate::table::DeletedRange;
use crate::types::error::Result;
use crate::types::gap::Gap;
use crate::types::order::KeyOrder;
use crate::types::span::Span;

impl<S: Shape> Lsm<S> {
    /// The runs below the output of a piece of which these ranges cover a long part. A file that cannot be
    /// read is reported by those who need it.
    pub(super) fn narrow(
        &self,
        (view, piece): (&View<S>, &Piece),
        deleted: &[DeletedRange],
        keep: &Keep,
    ) -> Vec<Narrowed> {
        if deleted.is_empty() {
            return Vec::new();
        }
        let (order, least) = (&self.env.order, self.limits().rules.dropped_range_bytes.max(1));
        let is_below = |group: &Group<'_>| {
            view.shape.is_older(group, piece) && group.span.intersect(order, &piece.span).is_some()
        };
        let is_input = |run: &&Run| piece.tables.iter().any(|input| input.file().id == run.file().id);
        let groups = view.shape.groups().filter(is_below);
        let runs = groups.flat_map(|group| group.runs).filter(|run| !is_input(run));
        let long = runs.filter(|run| run.dropped.is_none() && run.whole_bytes() >= least);
        let narrow = |run: &Run| {
            // A range of few bytes may refer to long values.
            let least = ((least as f64 / run.whole_per_byte()) as u64).max(1);
            let after = Narrowing { env: &self.env, run, least }.after(deleted, keep).ok()??;
            let (file, span) = (run.file().id, run.span.clone());
            Some(Narrowed {
                file,
                span,
                before: run.dropped_ranges.clone(),
                after: DroppedRanges::new(after),
            })
        };
        long.filter_map(narrow).collect()
    }
}

/// A run of which parts are to be dropped.
struct Narrowing<'a> {
    env: &'a RunEnv,
    run: &'a Run,
    /// Minimum length of a dropped range in bytes.
    least: u64,
}

/// The ranges that overlap the span.
fn within<'a>(order: &KeyOrder, deleted: &'a [DeletedRange], span: &Span) -> &'a [DeletedRange] {
    let start = span.start.as_deref().map_or(Gap::First, Gap::Before);
    let end = span.end.as_deref().map_or(Gap::Last, Gap::Before);
    let from = deleted.partition_point(|range| Gap::end(&range.bounds).compare(order, start).is_le());
    let to = deleted.partition_point(|range| Gap::start(&range.bounds).compare(order, end).is_lt());
    deleted.get(from..to).unwrap_or_default()
}

impl Narrowing<'_> {
    /// The dropped ranges of the run from now on; `None` if they do not change.
    fn after(&self, deleted: &[DeletedRange], keep: &Keep) -> Result<Option<Vec<DroppedRange>>> {
        let (order, old) = (&self.env.order, self.run.dropped_ranges.as_ref());
        let old = old.map_or(&[][..], |ranges| ranges.list());
        let deleted = within(order, deleted, &self.run.span);
        let mut found = Vec::new();
        self.find_long(deleted, &mut found)?;
        // Short ones make a dropped range longer that they touch.
        for range in old {
            let ends = [&range.span.start, &range.span.end].into_iter().flatten();
            found.extend(ends.flat_map(|key| {
                let ends_before =
                    |range: &DeletedRange| Gap::end(&range.bounds).compare(order, Gap::Before(key)).is_lt();
                // One that ends at the key, and one that begins there.
                deleted.iter().skip(deleted.partition_point(ends_before)).take(2)
            }));
        }
        order.sort_by(&mut found, |a, b| Gap::start(&a.bounds).compare(order, Gap::start(&b.bounds)));
        found.dedup_by(|a, b| std::ptr::eq(*a, *b));
        let new = found.into_iter().filter_map(|range| {
            let span = span_of(order, &range.bounds)?;
            // All of its versions are newer than the run.
            Some((span.intersect(order, &self.run.span)?, *range.versions.last()?))
        });
        // Snapshots do not distinguish versions of one class.
        let class = |version: u64| keep.versions.partition_point(|at| *at < version);
        let mut ranges = joined(order, old, new, |a, b| class(a) == class(b));
        canary!(DROPPED_TOO_FAR => self.lengthen_last(old, &mut ranges));
        for range in &mut ranges {
            range.bytes = self.bytes_of(&range.span)?;
        }
        ranges.retain(|range| range.bytes >= self.least);
        let ranges = longest(ranges);
        let is_same = ranges.len() == old.len() && ranges.iter().zip(old).all(|(a, b)| a.span == b.span);
        Ok((!is_same && !ranges.is_empty()).then_some(ranges))
    }

    /// The wrong behaviour of a planted bug. No other range follows, so that none overlaps.
    #[cfg(feature = "canaries")]
    fn lengthen_last(&self, old: &[DroppedRange], ranges: &mut [DroppedRange]) {
        let is_new = |last: &&mut DroppedRange| old.iter().all(|old| old.span.end != last.span.end);
        let Some(last) = ranges.last_mut().filter(is_new) else { return };
        let end = last.span.end.as_ref().map(|end| [&end[..], &[0]].concat().into());
        let further = Span { end, ..last.span.clone() };
        if let Some(within) = further.intersect(&self.env.order, &self.run.span) {
            last.span = within;
        }
    }

    /// The ranges that have the minimum length. Those of a part that is shorter as a whole are not looked up.
    fn find_long<'d>(&self, ranges: &'d [DeletedRange], found: &mut Vec<&'d DeletedRange>) -> Result<()> {
        let (Some(first), Some(last)) = (ranges.first(), ranges.last()) else { return Ok(()) };
        if self.bytes_between(Gap::start(&first.bounds), Gap::end(&last.bounds))? < self.least {
            return Ok(());
        }
        if ranges.len() == 1 {
            found.push(first);
            return Ok(());
        }
        let (lower, upper) = ranges.split_at(ranges.len() / 2);
        self.find_long(lower, found)?;
        self.find_long(upper, found)
    }

    fn bytes_of(&self, span: &Span) -> Result<u64> {
        let start = span.start.as_deref().map_or(Gap::First, Gap::Before);
        self.bytes_between(start, span.end.as_deref().map_or(Gap::Last, Gap::Before))
    }

    /// Bytes of the run between two places.
    fn bytes_between(&self, start: Gap<'_>, end: Gap<'_>) -> Result<u64> {
        let order = &self.env.order;
        let first = self.run.span.start.as_deref().map_or(Gap::First, Gap::Before);
        let last = self.run.span.end.as_deref().map_or(Gap::Last, Gap::Before);
        let start = if start.compare(order, first).is_lt() { first } else { start };
        let end = if end.compare(order, last).is_gt() { last } else { end };
        let (Some(from), Some(to)) =
            (place_in(self.env, self.run, start)?, place_in(self.env, self.run, end)?)
        else {
            return Ok(0);
        };
        Ok(to.saturating_sub(from))
    }
}
