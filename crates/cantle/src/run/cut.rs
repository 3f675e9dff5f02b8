//! The place at which a chunk or a table is cut: where neighbouring keys share the fewest leading
//! bytes, so that chunks tend to hold whole prefixes. A part is between two thirds and four thirds
//! of its target length. If all keys share one prefix, the cut is near the target length, as it is
//! if prefixes do not count.

use crate::types::order::KeyOrder;
use bytes::Bytes;

/// Length from which on a part may end.
pub fn least_bytes(target_bytes: u64) -> u64 {
    target_bytes / 3 * 2
}

/// Length at which a part ends, if it has more than one key.
pub fn most_bytes(target_bytes: u64) -> u64 {
    target_bytes / 3 * 4
}

/// The best of the places between neighbouring keys that were considered so far.
pub struct BestCut<P> {
    target_bytes: u64,
    /// Maximum number of shared leading bytes that count; longer shared prefixes are equal.
    prefix_bytes_max: usize,
    best: Option<Cut<P>>,
}

/// A place between two keys, with the number of leading bytes that they share.
pub struct Cut<P> {
    pub place: P,
    pub shared: usize,
    distance: u64,
}

impl<P> BestCut<P> {
    pub fn new(target_bytes: u64, prefix_bytes_max: usize) -> Self {
        Self { target_bytes, prefix_bytes_max, best: None }
    }

    /// Considers the place between two neighbouring keys. `bytes` lie before it in the part.
    pub fn consider(
        &mut self,
        order: &KeyOrder,
        before: &[u8],
        key: &[u8],
        bytes: u64,
        place: impl FnOnce() -> P,
    ) {
        if bytes == 0 || key.is_empty() {
            return; // the part would be empty
        }
        let (shared, distance) = (shared_prefix(order, before, key), bytes.abs_diff(self.target_bytes));
        let counted = |shared: usize| shared.min(self.prefix_bytes_max);
        let is_better = |best: &Cut<P>| (counted(shared), distance) < (counted(best.shared), best.distance);
        if self.best.as_ref().is_none_or(is_better) {
            self.best = Some(Cut { place: place(), shared, distance });
        }
    }

    pub fn take(&mut self) -> Option<Cut<P>> {
        self.best.take()
    }
}

/// Cuts a sequence of keys that is passed one key at a time.
pub struct Cutter<'a> {
    order: &'a KeyOrder,
    target_bytes: u64,
    /// Bytes of all keys, and of the keys passed so far.
    total_bytes: u64,
    told_bytes: u64,
    last: Vec<u8>,
    best: BestCut<SplitPoint>,
    points: Vec<SplitPoint>,
}

/// The beginning of a part: its smallest possible key, and the bytes before it.
#[derive(Debug, Default, Clone)]
pub struct SplitPoint {
    pub start: Bytes,
    pub from_bytes: u64,
}

impl<'a> Cutter<'a> {
    pub fn new(order: &'a KeyOrder, total_bytes: u64, target_bytes: u64, prefix_bytes_max: usize) -> Self {
        let (last, best) = (Vec::new(), BestCut::new(target_bytes, prefix_bytes_max));
        Self {
            order,
            target_bytes,
            total_bytes,
            told_bytes: 0,
            last,
            best,
            points: vec![SplitPoint::default()],
        }
    }

    /// Passes the next key, which takes `bytes`.
    pub fn tell(&mut self, key: &[u8], bytes: u64) {
        let passed_bytes = self.passed_bytes();
        let least_bytes = least_bytes(self.target_bytes);
        if passed_bytes >= least_bytes && self.total_bytes.saturating_sub(self.told_bytes) >= least_bytes {
            let (order, told_bytes) = (self.order, self.told_bytes);
            let place = || SplitPoint { start: Bytes::copy_from_slice(key), from_bytes: told_bytes };
            self.best.consider(order, &self.last, key, passed_bytes, place);
        }
        self.told_bytes += bytes;
        if self.passed_bytes() >= most_bytes(self.target_bytes)
            && let Some(Cut { place, shared, .. }) = self.best.take()
        {
            // The next part may end only at later keys: it began less than two thirds of its length
            // ago.
            self.points.push(SplitPoint { start: separator(self.order, &place.start, shared), ..place });
        }
        self.last.clear();
        self.last.extend_from_slice(key);
    }

    /// Bytes since the last cut.
    fn passed_bytes(&self) -> u64 {
        self.told_bytes - self.points.last().map_or(0, |part| part.from_bytes)
    }

    /// The beginnings of the parts; the first is the empty key.
    pub fn finish(self) -> Vec<SplitPoint> {
        self.points
    }
}

/// The shortest key that separates two neighbouring keys: greater than `before`, not greater than `key`.
pub fn separate(order: &KeyOrder, before: &[u8], key: &Bytes) -> Bytes {
    separator(order, key, shared_prefix(order, before, key))
}

/// Number of leading bytes that two neighbouring keys share; 0 under a user's comparator, which
/// does not order by prefixes.
pub fn shared_prefix(order: &KeyOrder, a: &[u8], b: &[u8]) -> usize {
    match order {
        KeyOrder::Bytewise => a.iter().zip(b).take_while(|(a, b)| a == b).count(),
        KeyOrder::Custom(_) => 0,
    }
}

/// The shortest key that is not greater than `key` and greater than the key before it, with which
/// it shares `shared` bytes.
pub fn separator(order: &KeyOrder, key: &Bytes, shared: usize) -> Bytes {
    match order {
        KeyOrder::Bytewise => Bytes::copy_from_slice(&key[..(shared + 1).min(key.len())]),
        KeyOrder::Custom(_) => key.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(keys: &[String], bytes: u64, target_bytes: u64) -> Vec<SplitPoint> {
        parts_by(usize::MAX, keys, bytes, target_bytes)
    }

    fn parts_by(prefix_bytes_max: usize, keys: &[String], bytes: u64, target_bytes: u64) -> Vec<SplitPoint> {
        let order = KeyOrder::default();
        let mut cutter = Cutter::new(&order, bytes * keys.len() as u64, target_bytes, prefix_bytes_max);
        keys.iter().for_each(|key| cutter.tell(key.as_bytes(), bytes));
        cutter.finish()
    }

    #[test]
    fn prefixes_stay_whole_where_they_can() {
        let keys: Vec<String> =
            (0..12).flat_map(|a| (0..70).map(move |b| format!("{a:02}/{b:02}"))).collect();
        let parts = parts(&keys, 10, 1000);
        assert!(parts.len() > 6);
        let starts: Vec<&[u8]> = parts[1..].iter().map(|part| &part.start[..]).collect();
        assert!(starts.iter().all(|start| start.len() <= 2), "{starts:?}");
    }

    #[test]
    fn where_prefixes_do_not_count_parts_are_equal() {
        let keys: Vec<String> = (0..200).map(|key| format!("{}/{key:03}", key / 90)).collect();
        let middle = |prefix_bytes_max| parts_by(prefix_bytes_max, &keys, 10, 1000)[1].from_bytes;
        assert_eq!([usize::MAX, 1, 0].map(middle), [900, 900, 1000]);
    }

    #[test]
    fn parts_are_as_long_as_they_should_be() {
        let keys: Vec<String> = (0..1000).map(|number| format!("{number:04}")).collect();
        let starts: Vec<u64> = parts(&keys, 10, 1000).iter().map(|part| part.from_bytes).collect();
        let ends = starts[1..].iter().copied().chain([10_000]);
        for (start, end) in starts.iter().zip(ends) {
            assert!((660..=1340).contains(&(end - start)), "{starts:?}");
        }
    }

    #[test]
    fn a_few_long_keys_are_cut_or_left() {
        let keys = |count| (0..count).map(|number| format!("{number}")).collect::<Vec<_>>();
        assert_eq!(parts(&keys(1), 5000, 1000).len(), 1);
        assert_eq!(parts(&keys(2), 5000, 1000).len(), 2);
        assert_eq!(parts(&[], 1, 1000).len(), 1);
    }
}
