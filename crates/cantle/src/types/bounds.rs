//! Range arguments: the ranges of the standard library over anything that borrows as bytes.

use std::ops::{Bound, Range, RangeFrom, RangeFull, RangeInclusive, RangeTo, RangeToInclusive};

mod sealed {
    pub trait Sealed {}
}

/// A range of keys: any range of the standard library over byte strings, `..`, or a pair of
/// [`Bound`]s.
///
/// A range whose end lies before its start is empty. The trait is sealed: the store decides which
/// types are ranges.
pub trait KeyRange: sealed::Sealed {
    /// The start and the end of the range.
    fn key_bounds(&self) -> (Bound<&[u8]>, Bound<&[u8]>);
}

impl sealed::Sealed for RangeFull {}
impl KeyRange for RangeFull {
    fn key_bounds(&self) -> (Bound<&[u8]>, Bound<&[u8]>) {
        (Bound::Unbounded, Bound::Unbounded)
    }
}

macro_rules! key_range {
    ($type:ty, $self:ident => $start:expr, $end:expr) => {
        impl<K: AsRef<[u8]>> sealed::Sealed for $type {}
        impl<K: AsRef<[u8]>> KeyRange for $type {
            fn key_bounds(&$self) -> (Bound<&[u8]>, Bound<&[u8]>) {
                ($start, $end)
            }
        }
    };
}
key_range!(Range<K>, self => Bound::Included(self.start.as_ref()), Bound::Excluded(self.end.as_ref()));
key_range!(RangeFrom<K>, self => Bound::Included(self.start.as_ref()), Bound::Unbounded);
key_range!(RangeTo<K>, self => Bound::Unbounded, Bound::Excluded(self.end.as_ref()));
key_range!(RangeInclusive<K>, self => Bound::Included(self.start().as_ref()), Bound::Included(self.end().as_ref()));
key_range!(RangeToInclusive<K>, self => Bound::Unbounded, Bound::Included(self.end.as_ref()));
key_range!((Bound<K>, Bound<K>), self => self.0.as_ref().map(AsRef::as_ref), self.1.as_ref().map(AsRef::as_ref));

/// Owned bounds of a range.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Bounds {
    pub(crate) start: Bound<Vec<u8>>,
    pub(crate) end: Bound<Vec<u8>>,
}

impl Bounds {
    pub(crate) fn of(range: &impl KeyRange) -> Self {
        let (start, end) = range.key_bounds();
        Self { start: start.map(<[u8]>::to_vec), end: end.map(<[u8]>::to_vec) }
    }

    /// The keys at the start and the end, if they are bounded.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &[u8]> {
        [&self.start, &self.end].into_iter().filter_map(|bound| match bound {
            Bound::Included(key) | Bound::Excluded(key) => Some(&key[..]),
            Bound::Unbounded => None,
        })
    }

    /// Every key that starts with `prefix`.
    pub(crate) fn prefix(prefix: &[u8]) -> Self {
        let start = Bound::Included(prefix.to_vec());
        // The end is the prefix, cut after its last byte below 255, with this byte incremented.
        let end = match prefix.iter().rposition(|&byte| byte != u8::MAX) {
            Some(last) => {
                let mut end = prefix[..=last].to_vec();
                end[last] += 1;
                Bound::Excluded(end)
            }
            None => Bound::Unbounded,
        };
        Self { start, end }
    }
}

/// No bound (kind 0), or one that includes the key (1) or excludes it (2).
#[cfg(test)]
pub(crate) fn bound_for_test(key: u8, kind: u8) -> Bound<Vec<u8>> {
    match kind {
        0 => Bound::Unbounded,
        1 => Bound::Included(vec![key]),
        _ => Bound::Excluded(vec![key]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_ends_before_its_successor() {
        let end = |prefix: &[u8]| Bounds::prefix(prefix).end;
        assert_eq!(end(b"ab"), Bound::Excluded(b"ac".to_vec()));
        assert_eq!(end(b"a\xff"), Bound::Excluded(b"b".to_vec()));
        assert_eq!(end(b"\xff\xff"), Bound::Unbounded);
        assert_eq!(end(b""), Bound::Unbounded);
    }
}
