//! Key ranges of chunks and of the files that they share.

use crate::types::bounds::Bounds;
use crate::types::order::KeyOrder;
use bytes::Bytes;
use std::cmp::Ordering;
use std::ops::Bound;

/// The keys from `start` (or from the beginning) up to `end` (or to the end); `end` is excluded.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Span {
    pub start: Option<Bytes>,
    pub end: Option<Bytes>,
}

/// Maximum length in bytes of the bounds that [`Span::around`] makes.
const AROUND_BYTES_MAX: usize = 32;

impl Span {
    /// A span with all keys from `first` to `last`, by bounds of at most 32 bytes. Under a user's
    /// comparator, which does not order by prefixes, it has all keys.
    pub fn around(order: &KeyOrder, first: &[u8], last: &[u8]) -> Self {
        let KeyOrder::Bytewise = order else { return Self::default() };
        let start = &first[..first.len().min(AROUND_BYTES_MAX)];
        let end = match last.len() < AROUND_BYTES_MAX {
            true => Some([last, &[0]].concat()),
            false => {
                // The smallest key that is greater than all keys with this prefix.
                let prefix = &last[..AROUND_BYTES_MAX];
                let kept = prefix.iter().rposition(|byte| *byte < u8::MAX);
                kept.map(|at| [&prefix[..at], &[prefix[at] + 1]].concat())
            }
        };
        Self { start: Some(Bytes::copy_from_slice(start)), end: end.map(Bytes::from) }
    }

    pub fn contains(&self, order: &KeyOrder, key: &[u8]) -> bool {
        !self.starts_behind(order, key) && !self.ends_before(order, key)
    }

    /// True if `key` lies before the start of the span.
    pub fn starts_behind(&self, order: &KeyOrder, key: &[u8]) -> bool {
        self.start.as_ref().is_some_and(|start| order.compare(key, start) == Ordering::Less)
    }

    /// True if the span ends at or before `key`.
    pub fn ends_before(&self, order: &KeyOrder, key: &[u8]) -> bool {
        self.end.as_ref().is_some_and(|end| order.compare(key, end) != Ordering::Less)
    }

    /// The intersection; `None` if it is empty.
    pub fn intersect(&self, order: &KeyOrder, other: &Self) -> Option<Self> {
        let later = |a: &Option<Bytes>, b: &Option<Bytes>| match (a, b) {
            (Some(a), Some(b)) => {
                Some(if order.compare(a, b) == Ordering::Less { b.clone() } else { a.clone() })
            }
            (a, b) => a.clone().or_else(|| b.clone()),
        };
        let earlier = |a: &Option<Bytes>, b: &Option<Bytes>| match (a, b) {
            (Some(a), Some(b)) => {
                Some(if order.compare(a, b) == Ordering::Less { a.clone() } else { b.clone() })
            }
            (a, b) => a.clone().or_else(|| b.clone()),
        };
        let span = Self { start: later(&self.start, &other.start), end: earlier(&self.end, &other.end) };
        match (&span.start, &span.end) {
            (Some(start), Some(end)) if order.compare(start, end) != Ordering::Less => None,
            _ => Some(span),
        }
    }

    /// The parts of the span that are not in the other one.
    pub fn without(&self, order: &KeyOrder, other: &Self) -> Vec<Self> {
        if self.intersect(order, other).is_none() {
            return vec![self.clone()];
        }
        let before = other.start.clone().map(|start| Self { start: None, end: Some(start) });
        let after = other.end.clone().map(|end| Self { start: Some(end), end: None });
        [before, after].into_iter().flatten().filter_map(|rest| rest.intersect(order, self)).collect()
    }

    /// The same keys as bounds.
    pub fn bounds(&self) -> Bounds {
        let start = self.start.as_ref().map_or(Bound::Unbounded, |key| Bound::Included(key.to_vec()));
        let end = self.end.as_ref().map_or(Bound::Unbounded, |key| Bound::Excluded(key.to_vec()));
        Bounds { start, end }
    }

    /// True if every key of the span lies within `bounds`.
    pub fn is_within(&self, order: &KeyOrder, bounds: &Bounds) -> bool {
        let from_start = match (&bounds.start, &self.start) {
            (Bound::Unbounded, _) => true,
            (_, None) => false,
            (Bound::Included(key), Some(start)) => order.compare(key, start) != Ordering::Greater,
            (Bound::Excluded(key), Some(start)) => order.compare(key, start) == Ordering::Less,
        };
        let to_end = match (&bounds.end, &self.end) {
            (Bound::Unbounded, _) => true,
            (_, None) => false,
            (Bound::Included(key) | Bound::Excluded(key), Some(end)) => {
                order.compare(key, end) != Ordering::Less
            }
        };
        from_start && to_end
    }

    /// True if a key may lie within both.
    pub fn overlaps(&self, order: &KeyOrder, bounds: &Bounds) -> bool {
        let before_end = match (&bounds.end, &self.start) {
            (Bound::Unbounded, _) | (_, None) => true,
            (Bound::Included(end), Some(start)) => order.compare(end, start) != Ordering::Less,
            (Bound::Excluded(end), Some(start)) => order.compare(end, start) == Ordering::Greater,
        };
        let after_start = match (&bounds.start, &self.end) {
            (Bound::Unbounded, _) | (_, None) => true,
            (Bound::Included(start) | Bound::Excluded(start), Some(end)) => {
                order.compare(start, end) == Ordering::Less
            }
        };
        before_end && after_start
    }
}

/// The intersection of two bounds, which may be empty.
pub fn intersect_bounds(order: &KeyOrder, a: &Bounds, b: &Bounds) -> Bounds {
    let start = if is_later_start(order, &b.start, &a.start) { &b.start } else { &a.start };
    let end = if is_later_end(order, &a.end, &b.end) { &b.end } else { &a.end };
    Bounds { start: start.clone(), end: end.clone() }
}

/// True if a range that starts at `a` excludes keys that a range that starts at `b` includes.
pub fn is_later_start<K: AsRef<[u8]>>(order: &KeyOrder, a: &Bound<K>, b: &Bound<K>) -> bool {
    match (a, b) {
        (Bound::Unbounded, _) => false,
        (_, Bound::Unbounded) => true,
        (Bound::Included(a) | Bound::Excluded(a), Bound::Included(b) | Bound::Excluded(b))
            if order.compare(a.as_ref(), b.as_ref()) != Ordering::Equal =>
        {
            order.compare(a.as_ref(), b.as_ref()) == Ordering::Greater
        }
        (a, b) => matches!((a, b), (Bound::Excluded(_), Bound::Included(_))),
    }
}

/// True if a range that ends at `a` includes keys that a range that ends at `b` excludes.
pub fn is_later_end<K: AsRef<[u8]>>(order: &KeyOrder, a: &Bound<K>, b: &Bound<K>) -> bool {
    match (a, b) {
        (_, Bound::Unbounded) => false,
        (Bound::Unbounded, _) => true,
        (Bound::Included(a) | Bound::Excluded(a), Bound::Included(b) | Bound::Excluded(b))
            if order.compare(a.as_ref(), b.as_ref()) != Ordering::Equal =>
        {
            order.compare(a.as_ref(), b.as_ref()) == Ordering::Greater
        }
        (a, b) => matches!((a, b), (Bound::Included(_), Bound::Excluded(_))),
    }
}

/// True if `key` lies within `bounds`.
pub fn contains(bounds: &Bounds, order: &KeyOrder, key: &[u8]) -> bool {
    let after_start = match &bounds.start {
        Bound::Included(start) => order.compare(key, start) != Ordering::Less,
        Bound::Excluded(start) => order.compare(key, start) == Ordering::Greater,
        Bound::Unbounded => true,
    };
    after_start
        && match &bounds.end {
            Bound::Included(end) => order.compare(key, end) != Ordering::Greater,
            Bound::Excluded(end) => order.compare(key, end) == Ordering::Less,
            Bound::Unbounded => true,
        }
}

/// True if no key can lie within the bounds.
pub fn is_empty_range(order: &KeyOrder, bounds: &Bounds) -> bool {
    match (&bounds.start, &bounds.end) {
        (Bound::Unbounded, _) | (_, Bound::Unbounded) => false,
        (Bound::Included(start), Bound::Included(end)) => order.compare(start, end) == Ordering::Greater,
        (Bound::Included(start) | Bound::Excluded(start), Bound::Included(end) | Bound::Excluded(end)) => {
            order.compare(start, end) != Ordering::Less
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_around_keys_has_them_and_short_bounds() {
        let order = KeyOrder::Bytewise;
        let long = [b'k'; 100];
        let edge = [&[b'k'; 31][..], &[0xff; 40]].concat();
        let highest = [0xff; 50];
        for (first, last) in [
            (&b""[..], &b""[..]),
            (b"a", b"a"),
            (b"a", &[0xff; 31]),
            (b"abc", &long),
            (&long, &long),
            (&long[..40], &edge),
            (b"", &highest),
        ] {
            let span = Span::around(&order, first, last);
            assert!(span.contains(&order, first) && span.contains(&order, last), "{first:?} {last:?}");
            let is_short = |bound: &Option<Bytes>| bound.as_ref().is_none_or(|key| key.len() <= 32);
            assert!(is_short(&span.start) && is_short(&span.end));
            assert!(
                last.len() > 32 || !span.contains(&order, &[last, &[0]].concat()),
                "no wider than it need be"
            );
        }
        assert_eq!(Span::around(&order, b"", &highest).end, None);
    }
}
