//! The range deletes that a merge carries on, as ranges that do not overlap.
//!
//! If a range was deleted several times, the deletes stay that some open snapshot or the newest state
//! distinguishes, as of the entries of one key (`mvcc/keep.rs`). Neighbouring ranges are joined if
//! no open snapshot distinguishes their deletes. The joined range gets the lower of their versions:
//! then it does not cover an entry that was written between the two. The covered entries that the
//! merge keeps are older than a snapshot that needs them, and so have lower versions still. Entries
//! of older tables are covered whatever the version.

use super::merged::Merged;
use crate::mvcc::Keep;
use crate::table::DeletedRange;
use crate::types::bounds::Bounds;
use crate::types::gap::Gap;
use crate::types::order::KeyOrder;
use crate::types::span::{Span, intersect_bounds, is_empty_range};
use std::collections::BTreeMap;

impl Merged {
    /// The range deletes of all sources that a merge into a table carries on.
    pub fn carried(&self, keep: &Keep) -> Vec<DeletedRange> {
        let order = self.order();
        let counts = self
            .range_deletes()
            .filter(|(_, delete)| delete.is_visible(u64::MAX) && self.is_alive(delete.version));
        let deletes: Vec<(Bounds, u64)> = counts
            .map(|(span, delete)| (intersect_bounds(order, &delete.bounds, &span.bounds()), delete.version))
            .filter(|(bounds, _)| !is_empty_range(order, bounds))
            .collect();
        carry(order, &deletes, keep)
    }
}

/// The versions of an open range that are kept, newest first. `open` has the number of deletes of
/// each version.
fn kept(open: &BTreeMap<u64, usize>, keep: &Keep) -> Vec<u64> {
    let newest = open.last_key_value().map(|(&version, _)| version);
    let seen = keep.versions.iter().rev().filter_map(|&at| open.range(..=at).next_back().map(|(&v, _)| v));
    let mut kept: Vec<u64> = newest.into_iter().chain(seen).collect();
    kept.dedup();
    kept
}

fn carry(order: &KeyOrder, deletes: &[(Bounds, u64)], keep: &Keep) -> Vec<DeletedRange> {
    /// A place at which a delete begins or ends.
    struct Turn<'a> {
        at: Gap<'a>,
        begins: bool,
        version: u64,
    }
    let mut turns: Vec<Turn<'_>> = Vec::with_capacity(2 * deletes.len());
    for (bounds, version) in deletes {
        turns.push(Turn { at: Gap::start(bounds), begins: true, version: *version });
        turns.push(Turn { at: Gap::end(bounds), begins: false, version: *version });
    }
    order.sort_by(&mut turns, |a, b| a.at.compare(order, b.at));
    // Snapshots do not distinguish versions of one class.
    let class = |version: &u64| keep.versions.partition_point(|at| at < version);
    let mut open: BTreeMap<u64, usize> = BTreeMap::new();
    let mut carried: Vec<DeletedRange> = Vec::new();
    let mut turns = turns.into_iter().peekable();
    while let Some(Turn { at, begins, version }) = turns.next() {
        let count = open.entry(version).or_default();
        *count = if begins { *count + 1 } else { count.saturating_sub(1) };
        if *count == 0 {
            open.remove(&version);
        }
        let Some(next) = turns.peek() else { break };
        if at.compare(order, next.at).is_eq() || open.is_empty() {
            continue;
        }
        let versions = kept(&open, keep);
        if let Some(last) = carried.last_mut()
            && Gap::end(&last.bounds).compare(order, at).is_eq()
            && last.versions.iter().map(class).eq(versions.iter().map(class))
        {
            last.bounds.end = Gap::between(at, next.at).end;
            last.versions.iter_mut().zip(versions).for_each(|(own, other)| *own = (*own).min(other));
        } else {
            carried.push(DeletedRange { bounds: Gap::between(at, next.at), versions });
        }
    }
    carried
}

/// The parts of these ranges that lie within the span.
pub fn clip(order: &KeyOrder, ranges: &[DeletedRange], span: &Span) -> Vec<DeletedRange> {
    let bounds = span.bounds();
    let from =
        ranges.partition_point(|range| Gap::end(&range.bounds).compare(order, Gap::start(&bounds)).is_le());
    let overlapping = ranges.get(from..).unwrap_or_default().iter();
    overlapping
        .take_while(|range| Gap::start(&range.bounds).compare(order, Gap::end(&bounds)).is_lt())
        .map(|range| DeletedRange {
            bounds: intersect_bounds(order, &range.bounds, &bounds),
            versions: range.versions.clone(),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::bounds::bound_for_test as bound;
    use crate::types::span::contains;
    use proptest::prelude::*;
    use std::ops::Bound;

    fn range(from: u8, to: u8) -> Bounds {
        Bounds { start: Bound::Included(vec![from]), end: Bound::Excluded(vec![to]) }
    }

    fn carried(deletes: &[(u8, u8, u64)], snapshots: &[u64]) -> Vec<(Bounds, Vec<u64>)> {
        let deletes: Vec<_> = deletes.iter().map(|&(from, to, at)| (range(from, to), at)).collect();
        let carried = carry(&KeyOrder::Bytewise, &deletes, &Keep::new(snapshots.to_vec()));
        carried.into_iter().map(|range| (range.bounds, range.versions)).collect()
    }

    #[test]
    fn neighbours_that_no_snapshot_distinguishes_are_joined() {
        let deletes = [(1, 3, 5), (3, 6, 7), (5, 9, 6), (20, 22, 6)];
        let both = |from, to| (range(from, to), vec![5]);
        assert_eq!(carried(&deletes, &[]), [both(1, 9), (range(20, 22), vec![6])]);
        assert_eq!(carried(&deletes, &[3, 8]), [both(1, 9), (range(20, 22), vec![6])]);
        // A snapshot sees the first delete only.
        assert_eq!(carried(&deletes, &[5]), [both(1, 3), (range(3, 9), vec![6]), (range(20, 22), vec![6])]);
    }

    #[test]
    fn deletes_of_one_range_stay_if_snapshots_see_them() {
        let deletes = [(1, 9, 2), (1, 9, 4), (1, 9, 6), (1, 9, 8)];
        assert_eq!(carried(&deletes, &[]), [(range(1, 9), vec![8])]);
        assert_eq!(carried(&deletes, &[5, 9]), [(range(1, 9), vec![8, 4])]);
    }

    #[test]
    fn many_neighbours_become_one() {
        let deletes: Vec<_> = (0..10_000u32)
            .map(|number| {
                let key = |number: u32| number.to_be_bytes().to_vec();
                let bounds =
                    Bounds { start: Bound::Included(key(number)), end: Bound::Excluded(key(number + 1)) };
                (bounds, u64::from(number))
            })
            .collect();
        assert_eq!(carry(&KeyOrder::Bytewise, &deletes, &Keep::default()).len(), 1);
        assert_eq!(carry(&KeyOrder::Bytewise, &deletes, &Keep::new(vec![4000])).len(), 2);
    }

    proptest! {
        /// Every reader finds the same keys deleted, and the ranges ascend.
        #[test]
        fn carried_ranges_delete_what_the_deletes_did(
            deletes in prop::collection::vec((0..12u8, 0..3u8, 0..12u8, 0..3u8, 1..20u64), 0..12),
            snapshots in prop::collection::btree_set(0..20u64, 0..4),
            span in (0..12u8, 0..12u8),
        ) {
            let order = KeyOrder::Bytewise;
            let deletes: Vec<(Bounds, u64)> = deletes
                .into_iter()
                .map(|(start, from, end, upto, version)| {
                    (Bounds { start: bound(start, from), end: bound(end, upto) }, version)
                })
                .filter(|(bounds, _)| !is_empty_range(&order, bounds))
                .collect();
            let keep = Keep::new(snapshots.into_iter().collect());
            let carried = carry(&order, &deletes, &keep);
            for pair in carried.windows(2) {
                prop_assert!(
                    Gap::end(&pair[0].bounds).compare(&order, Gap::start(&pair[1].bounds)).is_le()
                );
            }
            let span = Span { start: Some(vec![span.0].into()), end: Some(vec![span.1].into()) };
            let clipped = clip(&order, &carried, &span);
            for key in 0..13u8 {
                for &at in keep.versions.iter().chain([&u64::MAX]) {
                    let covers = |(bounds, version): &&(Bounds, u64)| {
                        contains(bounds, &order, &[key]) && *version <= at
                    };
                    let expected = deletes.iter().filter(covers).map(|(_, version)| *version).max();
                    let found = |ranges: &[DeletedRange]| {
                        let range = ranges.iter().find(|range| contains(&range.bounds, &order, &[key]));
                        range.and_then(|range| range.versions.iter().copied().find(|version| *version <= at))
                    };
                    let class = |version: u64| keep.versions.partition_point(|at| *at < version);
                    let of_carried = found(&carried);
                    prop_assert_eq!(of_carried.map(class), expected.map(class), "key {} at {}", key, at);
                    prop_assert!(of_carried <= expected);
                    let within = if span.contains(&order, &[key]) { of_carried } else { None };
                    prop_assert_eq!(found(&clipped), within, "key {} at {} in a part", key, at);
                }
            }
        }
    }
}
