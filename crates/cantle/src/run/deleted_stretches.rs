//! The range deletes of one source as a snapshot sees them, cut into stretches that do not overlap.
//!
//! A scan checks for each entry if a later range delete covers it. Only the latest of the deletes
//! that cover a key decides, so a stretch stores the place of that one only, even if many overlap.
//! A scan moves from a stretch to a neighbour: the search begins at the stretch of the last key,
//! and compares about two ends of stretches per key.
//!
//! Deletes whose writes were not committed when the stretches were cut are checked one by one, as
//! they may be committed meanwhile.

use crate::log::op::range_delete::RangeTombstone;
use crate::sync::Arc;
use crate::types::gap::Gap;
use crate::types::order::KeyOrder;
use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// Number of neighbouring stretches that are checked before all stretches are searched.
const STEPS_MAX: usize = 4;

/// The deletes of one source that a snapshot sees.
pub struct DeletedStretches {
    /// The snapshot's version.
    pub at: u64,
    deletes: Vec<Arc<RangeTombstone>>,
    /// In key order; each one ends where the next begins. Keys before the first are not deleted.
    stretches: Vec<Stretch>,
    under_way: Vec<Arc<RangeTombstone>>,
    /// Number of stretches that begin at or before the last key searched for.
    last: usize,
}

struct Stretch {
    from: End,
    /// Entries before this place in the log are deleted; `None` if none are.
    before: Option<u64>,
}

/// The start or the end of the delete with this number.
#[derive(Clone, Copy)]
enum End {
    Start(usize),
    End(usize),
}

fn gap(deletes: &[Arc<RangeTombstone>], end: End) -> Gap<'_> {
    match end {
        End::Start(number) => Gap::start(&deletes[number].bounds),
        End::End(number) => Gap::end(&deletes[number].bounds),
    }
}

impl DeletedStretches {
    /// Cuts the `deletes` that a snapshot of version `at` sees and that recovery has not undone.
    pub fn new<'a>(
        order: &KeyOrder,
        deletes: impl Iterator<Item = &'a Arc<RangeTombstone>>,
        at: u64,
        is_alive: impl Fn(u64) -> bool,
    ) -> Self {
        let counts = deletes.filter(|delete| delete.version <= at && is_alive(delete.version)).cloned();
        let (deletes, under_way): (Vec<_>, Vec<_>) = counts.partition(|delete| delete.is_visible(at));
        let mut ends: Vec<End> =
            (0..deletes.len()).flat_map(|number| [End::Start(number), End::End(number)]).collect();
        let gap_of = |end: &End| gap(&deletes, *end);
        // The ends are often sorted already.
        order.sort_by(&mut ends, |a, b| gap_of(a).compare(order, gap_of(b)));
        // Numbers in place of ends, so that the code below compares no keys.
        let mut starts = vec![0; deletes.len()];
        let mut stops = vec![0; deletes.len()];
        let mut firsts: Vec<End> = Vec::new();
        for end in &ends {
            let is_new = firsts
                .last()
                .is_none_or(|first| gap_of(first).compare(order, gap_of(end)) != Ordering::Equal);
            if is_new {
                firsts.push(*end);
            }
            match *end {
                End::Start(number) => starts[number] = firsts.len() - 1,
                End::End(number) => stops[number] = firsts.len() - 1,
            }
        }
        let mut by_start: Vec<usize> =
            (0..deletes.len()).filter(|&number| starts[number] < stops[number]).collect();
        by_start.sort_unstable_by_key(|&number| starts[number]);
        let mut beginning = by_start.into_iter().peekable();
        let mut open: BinaryHeap<(u64, usize)> = BinaryHeap::new();
        let mut stretches: Vec<Stretch> = Vec::new();
        for (place, from) in firsts.into_iter().enumerate() {
            while let Some(number) = beginning.next_if(|&number| starts[number] == place) {
                open.push((deletes[number].offset, stops[number]));
            }
            while open.peek().is_some_and(|&(_, stop)| stop <= place) {
                open.pop();
            }
            let before = open.peek().map(|&(offset, _)| offset);
            if stretches.last().and_then(|stretch| stretch.before) != before {
                stretches.push(Stretch { from, before });
            }
        }
        Self { at, deletes, stretches, under_way, last: 0 }
    }

    /// True if the entry of `key` at `position` of this source is deleted. `None` stands for an
    /// entry of an older source.
    pub fn covers(&mut self, order: &KeyOrder, key: &[u8], position: Option<u64>) -> bool {
        let is_behind = |offset: u64| position.is_none_or(|position| offset > position);
        self.last = self.find(order, key);
        let before = self.last.checked_sub(1).and_then(|number| self.stretches[number].before);
        before.is_some_and(is_behind)
            || self.under_way.iter().any(|delete| {
                is_behind(delete.offset) && delete.is_visible(self.at) && delete.covers(order, key)
            })
    }

    /// Number of stretches that begin at or before `key`.
    fn find(&self, order: &KeyOrder, key: &[u8]) -> usize {
        let begins = |stretch: &Stretch| gap(&self.deletes, stretch.from).is_before(order, key);
        let mut found = self.last;
        for _ in 0..STEPS_MAX {
            if self.stretches.get(found).is_some_and(begins) {
                found += 1;
            } else if found > 0 && !begins(&self.stretches[found - 1]) {
                found -= 1;
            } else {
                return found;
            }
        }
        self.stretches.partition_point(begins)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::bounds::{Bounds, bound_for_test as bound};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn pieces_cover_what_one_of_the_deletes_covers(
            deletes in prop::collection::vec((0..12u8, 0..3u8, 0..12u8, 0..3u8, 1..6u64), 0..12),
            asked in prop::collection::vec((0..12u8, prop::option::of(0..14u64)), 1..60),
            at in 0..6u64,
        ) {
            let order = KeyOrder::Bytewise;
            let deletes: Vec<Arc<RangeTombstone>> = deletes
                .into_iter()
                .enumerate()
                .map(|(number, (start, from, end, upto, version))| RangeTombstone {
                    bounds: Bounds { start: bound(start, from), end: bound(end, upto) },
                    version,
                    offset: number as u64 + 1,
                    cell: None,
                })
                .map(Arc::new)
                .collect();
            // Recovery undid one version.
            let is_alive = |version| version != 3;
            let mut stretches = DeletedStretches::new(&order, deletes.iter(), at, is_alive);
            for (key, position) in asked {
                let expected = deletes.iter().any(|delete| {
                    delete.is_visible(at)
                        && is_alive(delete.version)
                        && delete.covers(&order, &[key])
                        && position.is_none_or(|position| delete.offset > position)
                });
                prop_assert_eq!(stretches.covers(&order, &[key], position), expected);
            }
        }
    }

    #[test]
    fn a_delete_whose_write_commits_later_counts_from_then_on() {
        let cell = crate::mvcc::CommitCell::default();
        let bounds = Bounds { start: bound(1, 1), end: bound(3, 2) };
        let delete = Arc::new(RangeTombstone { bounds, version: 1, offset: 1, cell: Some(cell.clone()) });
        let order = KeyOrder::Bytewise;
        let mut stretches = DeletedStretches::new(&order, [delete].iter(), u64::MAX, |_| true);
        assert!(!stretches.covers(&order, &[2], Some(0)));
        cell.commit();
        assert!(stretches.covers(&order, &[2], Some(0)) && !stretches.covers(&order, &[3], Some(0)));
        assert!(!stretches.covers(&order, &[2], Some(1)));
    }
}
