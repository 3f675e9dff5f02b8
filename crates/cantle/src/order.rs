//! The order of keys: bytewise, or a comparator named in the keyspace.

use std::cmp::Ordering;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock};

/// A user-defined order of keys, fixed for the life of a keyspace and checked by name at each open.
///
/// It must be a total order that never changes: the bytes on disk are laid out by it. It is called from
/// many threads at once. One that fails, by a panic or by what [`try_compare`](Self::try_compare) says, has failed
/// for good: nothing that may have been arranged by it since is written or read, the store is read-only, and the
/// keyspaces of this order give [`Error::ReadOnly`](crate::Error::ReadOnly) until the store is opened again. What was
/// acknowledged before is there then.
pub trait Comparator: Send + Sync + 'static {
    /// The name that the keyspace records. Change it whenever the order changes. `cantle.bytewise` is taken: so the order without a
    /// comparator is recorded, and options with another of that name are refused.
    fn name(&self) -> &str;

    /// Orders two keys.
    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering;

    /// Orders two keys, or says why it cannot: the library asks this. For comparators that call what may fail.
    fn try_compare(&self, a: &[u8], b: &[u8]) -> std::result::Result<Ordering, String> {
        Ok(self.compare(a, b))
    }

    /// Whether keys that compare equal are always identical bytes. Where not, hashed structures
    /// (Bloom filters) are switched off for the keyspace.
    fn equal_is_identical(&self) -> bool {
        true
    }

    /// Eight bytes that order as the keys do: `a < b` implies `prefix(a) <= prefix(b)`. Without one there
    /// is no prefix cache.
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

/// A comparator, and whether it has failed since the keyspace was opened.
pub(crate) struct Custom {
    comparator: Arc<dyn Comparator>,
    /// Why its answers do not count any more.
    failed: OnceLock<String>,
    /// Told so at once.
    on_failure: Option<OnFailure>,
}

type OnFailure = Box<dyn Fn(&str) + Send + Sync>;

impl Custom {
    /// After a failure any answer does: nobody uses it.
    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        if self.failed.get().is_some() {
            return a.cmp(b);
        }
        let answer = catch_unwind(AssertUnwindSafe(|| self.comparator.try_compare(a, b)));
        let why = match answer {
            Ok(Ok(order)) => return order,
            Ok(Err(why)) => why,
            Err(panic) => {
                let said = panic.downcast_ref::<&str>().copied();
                let said = said.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
                format!("it panicked: {}", said.unwrap_or("(without words)"))
            }
        };
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
        a.cmp(b)
    }
}

/// The name under which the bytewise order is recorded.
pub(crate) const BYTEWISE: &str = "cantle.bytewise";

impl KeyOrder {
    pub(crate) fn custom(comparator: Arc<dyn Comparator>) -> Self {
        Self::Custom(Arc::new(Custom { comparator, failed: OnceLock::new(), on_failure: None }))
    }

    /// The same order for one opening of a store: what befell it before is forgotten, and `tell` hears of its failure.
    pub(crate) fn watched(&self, tell: impl Fn(&str) + Send + Sync + 'static) -> Self {
        match self {
            Self::Bytewise => Self::Bytewise,
            Self::Custom(order) => Self::Custom(Arc::new(Custom {
                comparator: order.comparator.clone(),
                failed: OnceLock::new(),
                on_failure: Some(Box::new(tell)),
            })),
        }
    }

    /// Why what was arranged by this order up to now must not be used, if the comparator has failed.
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

    /// Whether equal keys have equal hashes.
    pub(crate) fn hashable(&self) -> bool {
        match self {
            Self::Bytewise => true,
            Self::Custom(order) => order.comparator.equal_is_identical(),
        }
    }

    /// An order-preserving prefix: the first eight bytes, big endian, padded with zeros.
    #[inline]
    pub(crate) fn prefix(&self, key: &[u8]) -> Option<u64> {
        match self {
            Self::Bytewise => {
                let mut bytes = [0; 8];
                let length = key.len().min(8);
                bytes[..length].copy_from_slice(&key[..length]);
                Some(u64::from_be_bytes(bytes))
            }
            Self::Custom(order) => order.comparator.prefix(key),
        }
    }
}

impl fmt::Debug for KeyOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
