//! The order of keys: bytewise, or a comparator named in the keyspace.

use std::any::Any;
use std::cmp::Ordering;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

/// A user-defined order of keys, fixed for the life of a keyspace and checked by name at each open.
///
/// It must be a total order that never changes, because files are sorted by it. It is called from
/// many threads at once, and must not wait for one that uses the store: that one may wait for a block that this
/// call's thread is to load.
///
/// A comparator that fails, by a panic or by an error of [`try_compare`](Self::try_compare), has
/// failed for good: the store becomes read-only, and the keyspaces of this order return
/// [`Error::ReadOnly`](crate::Error::ReadOnly) until the store is opened again. Nothing that may
/// have been sorted by the comparator since then is written or read. Everything acknowledged before
/// the failure is there after the next open.
pub trait Comparator: Send + Sync + 'static {
    /// The name that the keyspace records. Change it whenever the order changes. `cantle.bytewise`
    /// is reserved: it is recorded for the order without a comparator, and options with another
    /// comparator of that name are refused.
    fn name(&self) -> &str;

    /// Orders two keys.
    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering;

    /// Orders two keys, or returns the reason why it cannot. The library calls this method.
    /// Implement it for comparators that call code that can fail.
    fn try_compare(&self, a: &[u8], b: &[u8]) -> std::result::Result<Ordering, String> {
        Ok(self.compare(a, b))
    }

    /// True if keys that compare equal are always identical bytes. If false, hashed structures
    /// (Bloom filters) are switched off for the keyspace.
    fn equal_is_identical(&self) -> bool {
        true
    }

    /// Eight bytes that order as the keys do: `a < b` implies `prefix(a) <= prefix(b)`, and keys
    /// that compare equal have the same prefix. Without prefixes there is no prefix cache. An order
    /// may return `None` for some keys only: after the first such key the keyspace is searched
    /// without prefixes until it is opened again.
    fn prefix(&self, _key: &[u8]) -> Option<u64> {
        None
    }
}

/// The order of one keyspace. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) enum KeyOrder {
    #[default]
    Bytewise,
    Custom(Arc<Custom>),
}

/// A comparator, and its failure since the keyspace was opened, if any.
pub(crate) struct Custom {
    comparator: Arc<dyn Comparator>,
    /// The reason why the comparator's answers are no longer used.
    failed: OnceLock<String>,
    /// Called at the first failure, at once.
    on_failure: Option<OnFailure>,
    /// True once a key without a prefix was met. Set before any structure that holds such a key is
    /// published: a thread that reads false after a search by prefixes has met none of these keys.
    prefixless: AtomicBool,
}

type OnFailure = Box<dyn Fn(&str) + Send + Sync>;

impl Custom {
    /// After a failure any answer is allowed, because nobody uses it.
    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        if self.failed.get().is_some() {
            return a.cmp(b);
        }
        let answer = catch_unwind(AssertUnwindSafe(|| self.comparator.try_compare(a, b)));
        let why = match answer {
            Ok(Ok(order)) => return order,
            Ok(Err(why)) => why,
            Err(panic) => words_of(&*panic),
        };
        self.fail(&why);
        a.cmp(b)
    }

    /// `None` for all keys, from the first key without a prefix on.
    fn prefix(&self, key: &[u8]) -> Option<u64> {
        if self.prefixless.load(Relaxed) {
            return None;
        }
        let prefix = match catch_unwind(AssertUnwindSafe(|| self.comparator.prefix(key))) {
            Ok(prefix) => prefix,
            Err(panic) => {
                self.fail(&words_of(&*panic));
                None
            }
        };
        canary!(PREFIX_OF_SOME => let prefix = prefix.or(Some(0)));
        if prefix.is_none() {
            self.prefixless.store(true, Relaxed);
        }
        prefix
    }

    fn fail(&self, why: &str) {
        self.failed.get_or_init(|| {
            let reason = format!(
                "the comparator {:?} failed ({why}), and no order of keys can be relied on since: mend it and reopen the store",
                self.comparator.name()
            );
            if let Some(tell) = &self.on_failure {
                tell(&reason);
            }
            reason
        });
    }
}

/// The message of a comparator's panic.
fn words_of(panic: &(dyn Any + Send)) -> String {
    let said = panic.downcast_ref::<&str>().copied();
    let said = said.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    format!("it panicked: {}", said.unwrap_or("(without words)"))
}

/// The name under which the bytewise order is recorded.
pub(crate) const BYTEWISE: &str = "cantle.bytewise";

impl KeyOrder {
    pub(crate) fn custom(comparator: Arc<dyn Comparator>) -> Self {
        Self::Custom(Arc::new(Custom {
            comparator,
            failed: OnceLock::new(),
            on_failure: None,
            prefixless: AtomicBool::new(false),
        }))
    }

    /// The same order for one opening of a store: earlier failures are forgotten, and `tell` is
    /// called at a failure.
    pub(crate) fn watched(&self, tell: impl Fn(&str) + Send + Sync + 'static) -> Self {
        match self {
            Self::Bytewise => Self::Bytewise,
            Self::Custom(order) => Self::Custom(Arc::new(Custom {
                comparator: order.comparator.clone(),
                failed: OnceLock::new(),
                on_failure: Some(Box::new(tell)),
                prefixless: AtomicBool::new(false),
            })),
        }
    }

    /// If the comparator has failed, the reason why nothing that it has sorted until now may be
    /// used.
    #[inline]
    pub(crate) fn failure(&self) -> Option<&str> {
        match self {
            Self::Bytewise => None,
            Self::Custom(order) => order.failed.get().map(String::as_str),
        }
    }

    #[inline]
    pub(crate) fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        match self {
            Self::Bytewise => a.cmp(b),
            Self::Custom(order) => order.compare(a, b),
        }
    }

    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Bytewise => BYTEWISE,
            Self::Custom(order) => order.comparator.name(),
        }
    }

    /// True if equal keys have equal hashes.
    pub(crate) fn hashable(&self) -> bool {
        match self {
            Self::Bytewise => true,
            Self::Custom(order) => order.comparator.equal_is_identical(),
        }
    }

    /// An order-preserving prefix. In bytewise order: the first eight bytes, big endian, padded
    /// with zeros. Otherwise the comparator's, or `None` if some key has none.
    #[inline]
    pub(crate) fn prefix(&self, key: &[u8]) -> Option<u64> {
        match self {
            Self::Bytewise => {
                if let Some(first) = key.first_chunk() {
                    return Some(u64::from_be_bytes(*first));
                }
                let mut bytes = [0; 8];
                bytes[..key.len()].copy_from_slice(key);
                Some(u64::from_be_bytes(bytes))
            }
            Self::Custom(order) => order.prefix(key),
        }
    }
}

impl KeyOrder {
    /// True if every key met until now has a prefix. See [`Custom::prefixless`].
    #[inline]
    pub(crate) fn has_prefixes(&self) -> bool {
        match self {
            Self::Bytewise => true,
            Self::Custom(order) => !order.prefixless.load(Relaxed),
        }
    }

    /// Sorts by the answers of the order; stable. A comparator that fails during the sort
    /// contradicts itself, and then the elements are in any order. (The sort of the standard
    /// library may panic in this case.)
    pub(crate) fn sort_by<T>(&self, elements: &mut Vec<T>, compare: impl Fn(&T, &T) -> Ordering) {
        match self {
            Self::Bytewise => elements.sort_by(compare),
            Self::Custom(_) => *elements = merge_sorted(std::mem::take(elements), &compare),
        }
    }
}

/// Vectors of at most this many elements are sorted by insertion, which is faster than a merge for
/// so few.
const RUN_MIN: usize = 16;

fn merge_sorted<T>(mut low: Vec<T>, compare: &impl Fn(&T, &T) -> Ordering) -> Vec<T> {
    if low.len() <= RUN_MIN {
        for end in 1..low.len() {
            let mut at = end;
            while at > 0 && compare(&low[at - 1], &low[at]) == Ordering::Greater {
                low.swap(at - 1, at);
                at -= 1;
            }
        }
        return low;
    }
    let high = merge_sorted(low.split_off(low.len() / 2), compare);
    merge(merge_sorted(low, compare), high, compare)
}

/// Sorted elements of both, those of `low` before equal ones of `high`.
pub(crate) fn merge<T>(low: Vec<T>, high: Vec<T>, compare: &impl Fn(&T, &T) -> Ordering) -> Vec<T> {
    let mut sorted = Vec::with_capacity(low.len() + high.len());
    let mut high = high.into_iter().peekable();
    for element in low {
        while let Some(first) = high.next_if(|other| compare(&element, other) == Ordering::Greater) {
            sorted.push(first);
        }
        sorted.push(element);
    }
    sorted.extend(high);
    sorted
}

impl fmt::Debug for KeyOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;

    /// The reverse order. Keys of more than two bytes have no prefix, and those of five bytes make
    /// it panic.
    struct Odd(AtomicUsize);

    impl Comparator for Odd {
        fn name(&self) -> &str {
            "odd"
        }
        fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
            b.cmp(a)
        }
        fn try_compare(&self, a: &[u8], b: &[u8]) -> Result<Ordering, String> {
            match self.0.fetch_sub(1, Relaxed) {
                0 => Err("enough".into()),
                _ => Ok(b.cmp(a)),
            }
        }
        fn prefix(&self, key: &[u8]) -> Option<u64> {
            assert!(key.len() != 5, "five");
            (key.len() <= 2).then(|| !key.first().map_or(0, |&byte| 1 + u64::from(byte)))
        }
    }

    fn odd(comparisons: usize) -> KeyOrder {
        KeyOrder::custom(Arc::new(Odd(AtomicUsize::new(comparisons))))
    }

    #[test]
    fn from_the_first_key_without_a_prefix_on_there_is_none() {
        let order = odd(usize::MAX);
        assert!(order.prefix(b"a") < order.prefix(b"") && order.has_prefixes());
        assert_eq!(order.prefix(b"abc"), None);
        assert!(order.prefix(b"a").is_none() && !order.has_prefixes() && order.failure().is_none());
    }

    #[test]
    fn a_prefix_that_panics_is_a_comparator_that_fails() {
        let order = odd(usize::MAX);
        assert_eq!(order.prefix(b"abcde"), None);
        assert!(order.failure().is_some_and(|why| why.contains("five")) && !order.has_prefixes());
    }

    #[test]
    fn what_is_sorted_while_the_comparator_fails_is_all_there() {
        for comparisons in [0, 1, 7, 50, 400, 3000, usize::MAX] {
            let order = odd(comparisons);
            let mut numbers: Vec<u32> = (0..1000).map(|number| number * 7919 % 1000).collect();
            order.sort_by(&mut numbers, |a, b| order.compare(&a.to_be_bytes(), &b.to_be_bytes()));
            assert_eq!(order.failure().is_some(), comparisons < 4000);
            if comparisons == usize::MAX {
                assert!(numbers.is_sorted_by(|a, b| a > b));
            }
            numbers.sort_unstable();
            assert!(numbers.into_iter().eq(0..1000));
        }
    }

    #[test]
    fn equal_elements_stay_as_they_are() {
        let order = odd(usize::MAX);
        let mut pairs: Vec<(u8, usize)> = (0..300).map(|place| ((place * 31 % 7) as u8, place)).collect();
        order.sort_by(&mut pairs, |a, b| order.compare(&[a.0], &[b.0]));
        assert!(pairs.is_sorted_by(|a, b| a.0 > b.0 || a.0 == b.0 && a.1 < b.1));
    }
}
