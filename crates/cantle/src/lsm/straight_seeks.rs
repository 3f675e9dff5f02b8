//! Seeks without a write between them, for the rule that many of them make a merge (PebblesDB §4.2).
//!
//! Writers do nothing for it: a seek compares the number of writes with that at the seek before.
//! Threads that seek at once may count a seek too few or too many.

use crate::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

/// The number of seeks since the last write to a keyspace.
#[derive(Default)]
pub struct StraightSeeks {
    /// Number of seeks from which on each further one tells the shape; 0 if the rule is off.
    limit: AtomicU32,
    /// Number of writes at the last seek.
    writes: AtomicU64,
    seeks: AtomicU64,
}

impl StraightSeeks {
    /// Changes the limit; `None` turns the rule off.
    pub fn set_limit(&self, limit: Option<u32>) {
        self.limit.store(limit.unwrap_or(0), Relaxed);
    }

    /// True if the rule is on. The only step of a seek if it is off.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.limit.load(Relaxed) > 0
    }

    /// Counts a seek, after this number of writes to the keyspace. True if there were more seeks than
    /// the limit, this one included, since the last write.
    pub fn count(&self, writes: u64) -> bool {
        if self.writes.swap(writes, Relaxed) != writes {
            self.seeks.store(0, Relaxed);
        }
        self.seeks.fetch_add(1, Relaxed) >= u64::from(self.limit.load(Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_seeks_without_a_write_between_them_exceed_the_limit() {
        let seeks = StraightSeeks::default();
        assert!(!seeks.is_on());
        seeks.set_limit(Some(3));
        assert!(seeks.is_on());
        assert_eq!([7; 5].map(|writes| seeks.count(writes)), [false, false, false, true, true]);
        assert_eq!([8; 4].map(|writes| seeks.count(writes)), [false, false, false, true]);
        assert!((9..100).all(|writes| !seeks.count(writes)));
        seeks.set_limit(None);
        assert!(!seeks.is_on());
    }
}
