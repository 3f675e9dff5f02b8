//! Key ranges of a run that range deletes have dropped, as metadata beside the file.
//!
//! A table or log of which a range delete covers a long part gets that part noted. Snapshots that see
//! the delete read nothing there, and merges leave the entries out without reading them, once no
//! snapshot needs them. The range delete itself stays in a newer table until the entries that it hides
//! are gone: a dropped range spares reads and counts garbage, and hides nothing by itself.
//!
//! Invariants ([`DroppedRanges::are_within`]): there are 1 to [`RANGES_MAX`] ranges. They ascend, do
//! not overlap, and lie within the span of the run.

use crate::sync::Arc;
use crate::types::bounds::Bounds;
use crate::types::order::KeyOrder;
use crate::types::span::Span;
use bytes::Bytes;
use std::cmp::Ordering;
use std::ops::Bound;

/// Maximum number of dropped ranges of a run: each entry that is read is compared with the nearest
/// one, and an edit of the manifest repeats all of them.
pub const RANGES_MAX: usize = 16;
/// Maximum length in bytes of a key at which a dropped range begins or ends, so that 16 of them take
/// at most 8 KiB in an edit of the manifest.
const KEY_BYTES_MAX: usize = 256;

/// A range of keys of which a run has nothing for snapshots from a version on.
#[derive(Debug, Clone, PartialEq)]
pub struct DroppedRange {
    pub span: Span,
    /// The version of the range delete, and its spanning batch or 0.
    pub version: u64,
    pub batch: u64,
    /// Estimated bytes of the file within the range.
    pub bytes: u64,
}

#[derive(Debug, Clone, PartialEq)]
pub struct DroppedRanges(Vec<DroppedRange>);

/// A range of a list of ranges by its start, or the place before the first key.
fn compare_starts(order: &KeyOrder, a: &Span, b: &Span) -> Ordering {
    match (&a.start, &b.start) {
        (Some(a), Some(b)) => order.compare(a, b),
        (a, b) => a.is_some().cmp(&b.is_some()),
    }
}

/// The place where a span ends, beside the place where a later one begins.
fn compare_end(order: &KeyOrder, before: &Span, after: &Span) -> Ordering {
    match (&before.end, &after.start) {
        (Some(end), Some(start)) => order.compare(end, start),
        _ => Ordering::Greater,
    }
}

/// The bounds as a span, or nearly all of them: under a user's comparator there may be no key directly
/// behind another, so that an included end is left out, and a range with an excluded start has no span.
/// `None` too if a key is long.
pub fn span_of(order: &KeyOrder, bounds: &Bounds) -> Option<Span> {
    let behind = |key: &[u8]| match order {
        KeyOrder::Bytewise => Some(Bytes::from([key, &[0]].concat())),
        _ => None,
    };
    let start = match &bounds.start {
        Bound::Unbounded => None,
        Bound::Included(key) => Some(Bytes::copy_from_slice(key)),
        Bound::Excluded(key) => Some(behind(key)?),
    };
    let end = match &bounds.end {
        Bound::Unbounded => None,
        Bound::Excluded(key) => Some(Bytes::copy_from_slice(key)),
        Bound::Included(key) => Some(behind(key).unwrap_or_else(|| Bytes::copy_from_slice(key))),
    };
    let is_short = |key: &Option<Bytes>| key.as_ref().is_none_or(|key| key.len() <= KEY_BYTES_MAX);
    (is_short(&start) && is_short(&end)).then_some(Span { start, end })
}

impl DroppedRanges {
    /// `None` if there are no ranges.
    pub fn new(ranges: Vec<DroppedRange>) -> Option<Arc<Self>> {
        (!ranges.is_empty()).then(|| Arc::new(Self(ranges)))
    }

    pub fn list(&self) -> &[DroppedRange] {
        &self.0
    }

    /// Estimated bytes of all of them.
    pub fn bytes(&self) -> u64 {
        self.0.iter().fold(0, |sum, range| sum.saturating_add(range.bytes))
    }

    /// The range that has `key`.
    pub fn at(&self, order: &KeyOrder, key: &[u8]) -> Option<&DroppedRange> {
        let begins = |range: &DroppedRange| !range.span.starts_behind(order, key);
        let range = self.0.get(self.0.partition_point(begins).checked_sub(1)?)?;
        (!range.span.ends_before(order, key)).then_some(range)
    }

    /// True if the invariants hold for a run with this span.
    pub fn are_within(&self, order: &KeyOrder, span: &Span) -> bool {
        let is_within =
            |range: &DroppedRange| range.span.intersect(order, span).as_ref() == Some(&range.span);
        (1..=RANGES_MAX).contains(&self.0.len())
            && self.0.iter().all(is_within)
            && self.0.windows(2).all(|pair| compare_end(order, &pair[0].span, &pair[1].span).is_le())
    }

    /// The parts of the ranges within a span. Half of the bytes of a range that is cut is a guess.
    pub fn clipped(&self, order: &KeyOrder, span: &Span) -> Option<Arc<Self>> {
        let clipped = |range: &DroppedRange| {
            let within = range.span.intersect(order, span)?;
            let bytes = if within == range.span { range.bytes } else { range.bytes / 2 };
            Some(DroppedRange { span: within, bytes, ..range.clone() })
        };
        Self::new(self.0.iter().filter_map(clipped).collect())
    }

    /// The version from which on nothing is left of a run with this span: the ranges cover all of it.
    pub fn covers_from(&self, order: &KeyOrder, span: &Span) -> Option<u64> {
        let begins = self.0.first().is_some_and(|first| compare_starts(order, &first.span, span).is_le());
        let ends = self.0.last().is_some_and(|last| match (&last.span.end, &span.end) {
            (None, _) => true,
            (Some(end), Some(other)) => order.compare(end, other).is_ge(),
            (Some(_), None) => false,
        });
        let touch = |pair: &[DroppedRange]| compare_end(order, &pair[0].span, &pair[1].span).is_eq();
        let covers = begins && ends && self.0.windows(2).all(touch);
        self.0.iter().map(|range| range.version).max().filter(|_| covers)
    }
}

/// Adds ranges to those that a run has. Both ascend and do not overlap. Where they overlap, the older delete
/// stays: more snapshots see it. Neighbours are joined if no snapshot distinguishes them, by `is_alike`,
/// which gets their versions. The joined range has the lower version, as ranges that are carried have
/// (`run/carried.rs`). The bytes are not estimated yet.
pub fn joined(
    order: &KeyOrder,
    old: &[DroppedRange],
    new: impl IntoIterator<Item = (Span, u64)>,
    is_alike: impl Fn(u64, u64) -> bool,
) -> Vec<DroppedRange> {
    let range = |span, version| DroppedRange { span, version, batch: 0, bytes: 0 };
    let mut all: Vec<DroppedRange> = old.to_vec();
    for (span, version) in new {
        let from = old.partition_point(|old| compare_end(order, &old.span, &span).is_le());
        let mut rest = vec![span];
        for old in &old[from..] {
            rest = rest.iter().flat_map(|part| part.without(order, &old.span)).collect();
        }
        all.extend(rest.into_iter().map(|part| range(part, version)));
    }
    order.sort_by(&mut all, |a, b| compare_starts(order, &a.span, &b.span));
    let mut joined: Vec<DroppedRange> = Vec::with_capacity(all.len());
    for range in all {
        match joined.last_mut() {
            Some(last)
                if compare_end(order, &last.span, &range.span).is_eq()
                    && last.batch == range.batch
                    && is_alike(last.version, range.version) =>
            {
                last.span.end = range.span.end;
                last.version = last.version.min(range.version);
            }
            _ => joined.push(range),
        }
    }
    joined
}

/// The longest ranges, as many as a run may have, in order.
pub fn longest(mut ranges: Vec<DroppedRange>) -> Vec<DroppedRange> {
    while ranges.len() > RANGES_MAX {
        let shortest = ranges.iter().enumerate().min_by_key(|(_, range)| range.bytes);
        let Some((place, _)) = shortest else { break };
        ranges.remove(place);
    }
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn span(from: u8, to: u8) -> Span {
        Span { start: Some(vec![from].into()), end: Some(vec![to].into()) }
    }

    fn range(from: u8, to: u8, version: u64) -> DroppedRange {
        DroppedRange { span: span(from, to), version, batch: 0, bytes: u64::from(to - from) }
    }

    /// Ranges that ascend and do not overlap, from any numbers.
    fn ascending(numbers: &std::collections::BTreeSet<u8>, versions: &[u64]) -> Vec<(Span, u64)> {
        let ends: Vec<u8> = numbers.iter().copied().collect();
        let pairs = ends.windows(2).zip(versions);
        pairs.filter(|(_, version)| **version > 0).map(|(ends, &at)| (span(ends[0], ends[1]), at)).collect()
    }

    proptest! {
        /// Each snapshot finds the keys dropped that it found dropped before, and those of the new ranges.
        #[test]
        fn joined_ranges_drop_what_old_and_new_ones_do(
            old in (prop::collection::btree_set(0..30u8, 0..10), prop::collection::vec(0..6u64, 9)),
            new in (prop::collection::btree_set(0..30u8, 0..10), prop::collection::vec(0..12u64, 9)),
            snapshots in prop::collection::btree_set(0..14u64, 0..4),
        ) {
            let order = KeyOrder::Bytewise;
            let old: Vec<DroppedRange> = ascending(&old.0, &old.1)
                .into_iter()
                .map(|(span, version)| DroppedRange { span, version, batch: 0, bytes: 1 })
                .collect();
            // Newer than those before.
            let new: Vec<(Span, u64)> =
                ascending(&new.0, &new.1).into_iter().map(|(span, at)| (span, at + 6)).collect();
            let class = |version: u64| snapshots.iter().filter(|at| **at < version).count();
            let ranges = joined(&order, &old, new.clone(), |a, b| class(a) == class(b));
            let found = DroppedRanges(ranges.clone());
            for pair in ranges.windows(2) {
                prop_assert!(compare_end(&order, &pair[0].span, &pair[1].span).is_le());
            }
            for key in 0..31u8 {
                for &at in snapshots.iter().chain([&u64::MAX]) {
                    let is_old = old.iter().any(|range| range.version <= at && range.span.contains(&order, &[key]));
                    let is_new = new.iter().any(|(span, version)| *version <= at && span.contains(&order, &[key]));
                    let is_found = found.at(&order, &[key]).is_some_and(|range| range.version <= at);
                    prop_assert_eq!(is_found, is_old || is_new, "key {} at {}", key, at);
                }
            }
            let whole = span(3, 20);
            if let Some(clipped) = found.clipped(&order, &whole) {
                prop_assert!(clipped.list().len() > RANGES_MAX || clipped.are_within(&order, &whole));
                for key in 0..31u8 {
                    let expected = found.at(&order, &[key]).filter(|_| whole.contains(&order, &[key]));
                    let clipped = clipped.at(&order, &[key]);
                    prop_assert_eq!(clipped.map(|range| range.version), expected.map(|range| range.version));
                }
                let gone = (3..20u8).all(|key| found.at(&order, &[key]).is_some());
                prop_assert_eq!(clipped.covers_from(&order, &whole).is_some(), gone);
            }
        }
    }

    #[test]
    fn a_run_keeps_its_longest_ranges() {
        let ranges: Vec<DroppedRange> = (0..20).map(|at| range(10 * at, 10 * at + 1 + at % 7, 5)).collect();
        let kept = longest(ranges.clone());
        assert_eq!(kept.len(), RANGES_MAX);
        let left_out = ranges.iter().filter(|range| !kept.contains(range));
        assert!(left_out.clone().all(|out| kept.iter().all(|kept| kept.bytes >= out.bytes)));
        assert!(DroppedRanges(kept).are_within(&KeyOrder::Bytewise, &Span::default()));
    }

    #[test]
    fn ranges_that_are_no_list_of_a_run_are_found() {
        let order = KeyOrder::Bytewise;
        let are_within = |ranges: Vec<DroppedRange>| DroppedRanges(ranges).are_within(&order, &span(10, 90));
        assert!(are_within(vec![range(10, 20, 1), range(20, 30, 2), range(80, 90, 1)]));
        assert!(!are_within(vec![]));
        assert!(!are_within(vec![range(20, 30, 1), range(10, 20, 1)]), "unordered");
        assert!(!are_within(vec![range(10, 21, 1), range(20, 30, 1)]), "overlapping");
        assert!(!are_within(vec![range(9, 20, 1)]) && !are_within(vec![range(80, 91, 1)]), "outside");
        assert!(!are_within(vec![range(80, 80, 1)]), "empty");
        let many = (0..=RANGES_MAX as u8).map(|number| range(10 + 2 * number, 11 + 2 * number, 1)).collect();
        assert!(!are_within(many), "too many");
        let unbounded = Span { start: None, end: Some(vec![20].into()) };
        assert!(!are_within(vec![DroppedRange { span: unbounded, ..range(0, 1, 1) }]), "outside");
    }

    #[test]
    fn bounds_become_spans_where_that_is_possible() {
        let of = |order: &KeyOrder, start, end| span_of(order, &Bounds { start, end });
        let (a, b) = (|| vec![1], || vec![9]);
        let bytewise = &KeyOrder::Bytewise;
        let span = |start: &[u8], end: &[u8]| {
            Some(Span { start: Some(Bytes::copy_from_slice(start)), end: Some(Bytes::copy_from_slice(end)) })
        };
        assert_eq!(of(bytewise, Bound::Included(a()), Bound::Excluded(b())), span(&[1], &[9]));
        assert_eq!(of(bytewise, Bound::Excluded(a()), Bound::Included(b())), span(&[1, 0], &[9, 0]));
        assert_eq!(of(bytewise, Bound::Unbounded, Bound::Unbounded), Some(Span::default()));
        let long = vec![1; KEY_BYTES_MAX + 1];
        assert_eq!(of(bytewise, Bound::Included(long), Bound::Unbounded), None);
    }
}
