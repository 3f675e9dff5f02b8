//! The distribution of a munk's bytes over its keys: an equi-depth histogram, as query planners
//! keep of a column. A split uses it to estimate the parts of a log that belong to each new chunk,
//! from the log's smallest and greatest key, without reading the log.

use crate::types::order::KeyOrder;
use bytes::Bytes;
use std::cmp::Ordering;
use std::ops::Range;

/// Number of buckets. A chunk is split into a few parts, whose starts are then known to less than a
/// hundredth of it.
const BUCKETS: u64 = 128;

/// Built from a sequence of keys that are passed one at a time.
pub struct Histogram<'a> {
    order: &'a KeyOrder,
    bucket_bytes: u64,
    told_bytes: u64,
    /// The first key of each bucket, and the bytes of the keys before it.
    buckets: Vec<(Bytes, u64)>,
}

impl<'a> Histogram<'a> {
    pub fn new(order: &'a KeyOrder, total_bytes: u64) -> Self {
        let bucket_bytes = (total_bytes / BUCKETS).max(1);
        Self { order, bucket_bytes, told_bytes: 0, buckets: Vec::new() }
    }

    /// Passes the next key, which takes `bytes`.
    pub fn tell(&mut self, key: &[u8], bytes: u64) {
        let is_full = |(_, before): &(Bytes, u64)| self.told_bytes >= before + self.bucket_bytes;
        if self.buckets.last().is_none_or(is_full) {
            self.buckets.push((Bytes::copy_from_slice(key), self.told_bytes));
        }
        self.told_bytes += bytes;
    }

    /// With all bytes laid end to end, the range of the buckets that have keys from `first` to
    /// `last`.
    pub fn bytes_from_to(&self, first: &[u8], last: &[u8]) -> Range<u64> {
        let behind = |key: &[u8]| {
            self.buckets.partition_point(|(start, _)| self.order.compare(start, key) != Ordering::Greater)
        };
        let start = self.buckets.get(behind(first).saturating_sub(1)).map_or(0, |(_, before)| *before);
        let end = self.buckets.get(behind(last)).map_or(self.told_bytes, |(_, before)| *before);
        start..end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_found_to_a_hundredth() {
        let order = KeyOrder::default();
        for keys in [1_u64, 2, 100, 1000, 12_345] {
            let mut histogram = Histogram::new(&order, keys * 70);
            (0..keys).for_each(|key| histogram.tell(format!("{key:06}").as_bytes(), 70));
            assert!(histogram.buckets.len() as u64 <= BUCKETS + 1);
            for (first, last) in [(0, keys - 1), (keys / 3, keys / 2), (keys / 2, keys / 2)] {
                let found = histogram
                    .bytes_from_to(format!("{first:06}").as_bytes(), format!("{last:06}").as_bytes());
                let slack = (keys * 70 / 100).max(70);
                assert!(
                    found.start <= first * 70 && found.start + slack >= first * 70,
                    "{found:?} for {first}"
                );
                assert!(
                    found.end >= (last + 1) * 70 && found.end <= (last + 1) * 70 + slack,
                    "{found:?} for {last}"
                );
            }
        }
    }

    #[test]
    fn keys_outside_are_at_its_ends() {
        let order = KeyOrder::default();
        let mut histogram = Histogram::new(&order, 30);
        assert_eq!(histogram.bytes_from_to(b"a", b"z"), 0..0);
        ["d", "e", "f"].iter().for_each(|key| histogram.tell(key.as_bytes(), 10));
        assert_eq!(histogram.bytes_from_to(b"a", b"z"), 0..30);
        assert_eq!(histogram.bytes_from_to(b"a", b"d"), 0..10);
        assert_eq!(histogram.bytes_from_to(b"x", b"z"), 20..30);
    }
}
