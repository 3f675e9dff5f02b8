//! The entries of logs that range deletes in tables cover, whatever their versions.
//!
//! A merge joins neighbouring range deletes, and gives the joined one the lowest of their versions
//! (`run/carried.rs`): it covers what is older than the table, and the merged entries that it covered are gone. If
//! there is no manifest, a log that was merged may still be there, with an entry of a higher version. By the lineage of
//! the table it is known that the log is older.

use crate::types::bounds::Bounds;
use crate::types::gap::Gap;
use crate::types::order::KeyOrder;
use std::collections::BTreeMap;

/// Ranges that do not overlap, ascending. Tables that have everything of the logs up to this number have deleted them.
#[derive(Default)]
pub(super) struct Swept(Vec<(Bounds, u64)>);

impl Swept {
    /// From the range deletes of all tables, each with the number of the newest log whose operations its table has
    /// there.
    pub fn new(order: &KeyOrder, deletes: &[(Bounds, u64)]) -> Self {
        let begins = deletes.iter().map(|(bounds, log)| (Gap::start(bounds), true, *log));
        let ends = deletes.iter().map(|(bounds, log)| (Gap::end(bounds), false, *log));
        let mut turns: Vec<(Gap<'_>, bool, u64)> = begins.chain(ends).collect();
        order.sort_by(&mut turns, |(a, ..), (b, ..)| a.compare(order, *b));
        let (mut swept, mut open) = (Vec::new(), BTreeMap::<u64, usize>::new());
        let mut turns = turns.into_iter().peekable();
        while let Some((at, begins, log)) = turns.next() {
            let count = open.entry(log).or_default();
            *count = if begins { *count + 1 } else { count.saturating_sub(1) };
            if *count == 0 {
                open.remove(&log);
            }
            if let (Some((next, ..)), Some((&newest, _))) = (turns.peek(), open.last_key_value())
                && at.compare(order, *next).is_lt()
            {
                swept.push((Gap::between(at, *next), newest));
            }
        }
        Self(swept)
    }

    /// True if a table has deleted a range with the key, and has everything that the log says of the key.
    pub fn covers(&self, order: &KeyOrder, log: u64, key: &[u8]) -> bool {
        let begun = self.0.partition_point(|(bounds, _)| Gap::start(bounds).is_before(order, key));
        let last = begun.checked_sub(1).and_then(|last| self.0.get(last));
        last.is_some_and(|(bounds, newest)| log <= *newest && !Gap::end(bounds).is_before(order, key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::bounds::bound_for_test as bound;
    use crate::types::span::{contains, is_empty_range};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_key_is_covered_as_by_the_newest_range_delete_that_has_it(
            deletes in prop::collection::vec((0..12u8, 0..3u8, 0..12u8, 0..3u8, 1..9u64), 0..12),
        ) {
            let order = KeyOrder::Bytewise;
            let deletes: Vec<(Bounds, u64)> = deletes
                .into_iter()
                .map(|(start, from, end, upto, log)| (Bounds { start: bound(start, from), end: bound(end, upto) }, log))
                .filter(|(bounds, _)| !is_empty_range(&order, bounds))
                .collect();
            let swept = Swept::new(&order, &deletes);
            for key in 0..13u8 {
                let newest = deletes.iter().filter(|(bounds, _)| contains(bounds, &order, &[key]));
                let newest = newest.map(|(_, log)| *log).max().unwrap_or(0);
                for log in 1..10 {
                    prop_assert_eq!(swept.covers(&order, log, &[key]), log <= newest, "key {} of log {}", key, log);
                }
            }
        }
    }
}
