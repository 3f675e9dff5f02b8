//! The records that a fill has left in a store.

use crate::job::Order;
use cantle_workloads::generator::Permutation;

/// Records that exist, by their number in the order in which they were written. A fill that ends early
/// leaves the first ones of that order.
#[derive(Debug, Clone)]
pub struct Filled {
    /// Number of records that exist.
    pub records: u64,
    planned: u64,
    /// The number of the first record.
    first: u64,
    order: Option<Permutation>,
}

impl Filled {
    /// The first `records` of `planned` from the record `first`. The seed gives the order, if it is random.
    pub fn new(records: u64, planned: u64, first: u64, order: Order, seed: u64) -> Self {
        let order = (order == Order::Random && planned > 0).then(|| Permutation::new(planned, seed));
        Self { records, planned, first, order }
    }

    /// The same order, of which this number of records exist.
    pub fn of(&self, records: u64) -> Self {
        Self { records, ..self.clone() }
    }

    /// All records of a data set that was loaded.
    pub fn whole(records: u64) -> Self {
        Self::new(records, records, 0, Order::Sequential, 0)
    }

    /// The record of this number in the order of the fill.
    pub fn record(&self, index: u64) -> u64 {
        let number = match &self.order {
            Some(order) if index < self.planned => order.apply(index),
            _ => index,
        };
        self.first + number
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fill_that_ended_early_leaves_the_first_records_of_its_order() {
        let (early, whole) =
            (Filled::new(40, 100, 0, Order::Random, 7), Filled::new(100, 100, 0, Order::Random, 7));
        let records: Vec<u64> = (0..early.records).map(|index| early.record(index)).collect();
        assert_eq!(records, (0..40).map(|index| whole.record(index)).collect::<Vec<_>>());
        assert!(records.iter().any(|record| *record >= 40) && records.iter().all(|record| *record < 100));
        // New records after the fill have numbers of their own.
        assert_eq!((whole.record(100), Filled::whole(5).record(3)), (100, 3));
        assert_eq!(Filled::new(1, 9, 50, Order::Sequential, 7).record(0), 50);
    }
}
