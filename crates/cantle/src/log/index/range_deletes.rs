//! The range deletes of a part of a log, found by key.
//!
//! They lie in runs, each in the order of the deletes' starts, as the runs of a log-structured merge tree do: a
//! delete that comes in is a run of one, and runs that are not longer than what comes in are merged with it.
//! Thus `n` deletes are in at most `log2(n)` runs, and each delete was merged as often. Readers keep the runs
//! that they have, and the next delete copies a pointer for each run only.

use crate::log::op::range_delete::RangeTombstone;
use crate::sync::Arc;
use crate::types::gap::Gap;
use crate::types::order::{self, KeyOrder};
use std::cmp::Ordering;

/// Range deletes, in any number. A clone shares them.
#[derive(Debug, Clone, Default)]
pub struct RangeDeletes {
    /// The longest first.
    runs: Vec<Arc<ByStart>>,
}

/// Range deletes in the order of their starts.
#[derive(Debug)]
struct ByStart {
    deletes: Vec<Arc<RangeTombstone>>,
    /// For each delete, the number of the one that ends last among it and all before it.
    last_ending: Vec<usize>,
}

impl RangeDeletes {
    pub fn new(order: &KeyOrder, deletes: impl IntoIterator<Item = RangeTombstone>) -> Self {
        let deletes: Vec<_> = deletes.into_iter().map(Arc::new).collect();
        let runs = if deletes.is_empty() { Vec::new() } else { vec![Arc::new(ByStart::new(order, deletes))] };
        Self { runs }
    }

    /// The deletes of several parts.
    pub fn joined<'a>(parts: impl IntoIterator<Item = &'a Self>) -> Self {
        Self { runs: parts.into_iter().flat_map(|part| part.runs.iter().cloned()).collect() }
    }

    pub fn insert(&mut self, order: &KeyOrder, delete: Arc<RangeTombstone>) {
        let mut deletes = vec![delete];
        while let Some(run) = self.runs.pop_if(|run| run.deletes.len() <= deletes.len()) {
            deletes = order::merge(run.deletes.clone(), deletes, &compare(order));
        }
        self.runs.push(Arc::new(ByStart::of_sorted(order, deletes)));
    }

    pub fn len(&self) -> usize {
        self.runs.iter().map(|run| run.deletes.len()).sum()
    }

    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// Number of the runs, each of which a search by key looks into.
    pub fn runs(&self) -> usize {
        self.runs.len()
    }

    /// All of them, in no order.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<RangeTombstone>> {
        self.runs.iter().flat_map(|run| &run.deletes)
    }

    /// All of them, in the order in which they were written.
    pub fn in_log_order(&self) -> Vec<&Arc<RangeTombstone>> {
        let mut deletes: Vec<_> = self.iter().collect();
        deletes.sort_unstable_by_key(|delete| delete.offset);
        deletes
    }

    /// Those that cover the key, among few others that start before it.
    pub fn near(&self, order: &KeyOrder, key: &[u8]) -> impl Iterator<Item = &RangeTombstone> {
        self.runs.iter().flat_map(move |run| run.near(order, key))
    }

    /// Those that cover the key.
    pub fn covering(&self, order: &KeyOrder, key: &[u8]) -> impl Iterator<Item = &RangeTombstone> {
        self.near(order, key).filter(move |delete| delete.covers(order, key))
    }
}

impl ByStart {
    fn new(order: &KeyOrder, mut deletes: Vec<Arc<RangeTombstone>>) -> Self {
        order.sort_by(&mut deletes, compare(order));
        Self::of_sorted(order, deletes)
    }

    fn of_sorted(order: &KeyOrder, deletes: Vec<Arc<RangeTombstone>>) -> Self {
        let mut last_ending: Vec<usize> = Vec::with_capacity(deletes.len());
        for (number, delete) in deletes.iter().enumerate() {
            let ends_later = |&before: &usize| {
                Gap::end(&deletes[before].bounds).compare(order, Gap::end(&delete.bounds)).is_ge()
            };
            last_ending.push(last_ending.last().copied().filter(ends_later).unwrap_or(number));
        }
        Self { deletes, last_ending }
    }

    /// From the last that starts at or before the key back to where none reaches it.
    fn near(&self, order: &KeyOrder, key: &[u8]) -> impl Iterator<Item = &RangeTombstone> {
        let starts = |delete: &RangeTombstone| Gap::start(&delete.bounds).is_before(order, key);
        let mut upto = self.deletes.partition_point(|delete| starts(delete));
        std::iter::from_fn(move || {
            let last_ending = &self.deletes[self.last_ending[upto.checked_sub(1)?]];
            if Gap::end(&last_ending.bounds).is_before(order, key) {
                return None;
            }
            upto -= 1;
            canary!(NESTED_DELETE_MISSED => if !self.deletes[upto].covers(order, key) { return None });
            Some(&*self.deletes[upto])
        })
    }
}

fn compare(order: &KeyOrder) -> impl Fn(&Arc<RangeTombstone>, &Arc<RangeTombstone>) -> Ordering {
    |a, b| Gap::start(&a.bounds).compare(order, Gap::start(&b.bounds))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::bounds::{Bounds, bound_for_test as bound};
    use crate::types::order::{Comparator, KeyOrder};
    use proptest::prelude::*;
    use std::cmp::Ordering;
    use std::ops::Bound;
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

    fn offsets<'a>(deletes: impl IntoIterator<Item = &'a RangeTombstone>) -> Vec<u64> {
        let mut offsets: Vec<_> = deletes.into_iter().map(|delete| delete.offset).collect();
        offsets.sort_unstable();
        offsets
    }

    proptest! {
        #[test]
        fn those_that_cover_a_key_are_found_in_runs_of_any_length(
            deletes in prop::collection::vec((0..12u8, 0..3u8, 0..12u8, 0..3u8), 0..40),
            read in 0..40usize,
        ) {
            let order = KeyOrder::Bytewise;
            let deletes: Vec<RangeTombstone> = deletes
                .into_iter()
                .enumerate()
                .map(|(number, (start, from, end, upto))| RangeTombstone {
                    bounds: Bounds { start: bound(start, from), end: bound(end, upto) },
                    version: 1,
                    offset: number as u64,
                    cell: None,
                })
                .collect();
            // Some are read from a file, and others come in later.
            let (old, new) = deletes.split_at(read.min(deletes.len()));
            let of_file = RangeDeletes::new(&order, old.iter().cloned());
            let mut found = of_file.clone();
            new.iter().for_each(|delete| found.insert(&order, Arc::new(delete.clone())));
            prop_assert_eq!((found.len(), found.is_empty()), (deletes.len(), deletes.is_empty()));
            prop_assert_eq!(of_file.len(), old.len());
            prop_assert_eq!(offsets(found.in_log_order().into_iter().map(|delete| &**delete)), offsets(&deletes));
            let mut of_writes = RangeDeletes::default();
            new.iter().for_each(|delete| of_writes.insert(&order, Arc::new(delete.clone())));
            let joined = RangeDeletes::joined([&of_file, &of_writes]);
            for key in 0..13u8 {
                let expected = offsets(deletes.iter().filter(|delete| delete.covers(&order, &[key])));
                prop_assert_eq!(offsets(found.covering(&order, &[key])), expected.clone());
                prop_assert_eq!(offsets(joined.covering(&order, &[key])), expected);
            }
        }
    }

    static COMPARED: AtomicU64 = AtomicU64::new(0);

    struct Counting;

    impl Comparator for Counting {
        fn name(&self) -> &str {
            "counting"
        }
        fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
            COMPARED.fetch_add(1, Relaxed);
            a.cmp(b)
        }
    }

    /// Neither a write nor a search pays for the deletes before it.
    #[test]
    fn a_delete_among_many_is_written_and_found_with_few_comparisons() {
        const COUNT: u32 = 1 << 14;
        let order = KeyOrder::custom(Arc::new(Counting));
        let key = |number: u32| number.to_be_bytes().to_vec();
        let mut deletes = RangeDeletes::default();
        for number in 0..COUNT {
            let first = number.wrapping_mul(0x9E37_79B1) % COUNT * 16;
            let bounds = Bounds { start: Bound::Included(key(first)), end: Bound::Excluded(key(first + 10)) };
            let offset = u64::from(number);
            deletes.insert(&order, Arc::new(RangeTombstone { bounds, version: 1, offset, cell: None }));
        }
        assert_eq!(deletes.len(), COUNT as usize);
        let per_write = COMPARED.swap(0, Relaxed) / u64::from(COUNT);
        assert!(per_write < 100, "{per_write} comparisons for each write");
        let covered =
            (0..COUNT).filter(|number| deletes.covering(&order, &key(number * 16 + 9)).count() == 1);
        assert_eq!(covered.count(), COUNT as usize);
        assert_eq!(deletes.covering(&order, &key(16 + 10)).count(), 0);
        let per_search = COMPARED.swap(0, Relaxed) / u64::from(COUNT);
        assert!(per_search < 40, "{per_search} comparisons for each search");
    }
}
