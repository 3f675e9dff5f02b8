//! The shares that users have of a file, and the part that belongs to no share.
//!
//! Chunks that were split share their logs, each with its keys, until each has sorted its own. The
//! bytes that one of them has sorted stay on disk for as long as another refers to the file, but
//! belong to no share: they are *unclaimed*.
//!
//! Thread safety: all methods may be called from any thread. Invariant: the sum of the results of
//! `claim`, `unclaim`, `grow` and `end` is [`unclaimed_bytes`](Claims::unclaimed_bytes) at any
//! time, and 0 in the end.

use crate::sync::atomic::{
    AtomicBool, AtomicI64,
    Ordering::{AcqRel, Acquire, Relaxed},
};

#[derive(Debug, Default)]
pub struct Claims {
    is_shared: AtomicBool,
    unclaimed: AtomicI64,
}

impl Claims {
    /// Adds a share of `share_bytes` of the file, which has `file_bytes`. Returns the change of the
    /// unclaimed bytes: for the first share, all the rest of the file.
    pub fn claim(&self, share_bytes: u64, file_bytes: u64) -> i64 {
        let whole = if self.is_shared.swap(true, AcqRel) { 0 } else { file_bytes as i64 };
        self.add(whole - share_bytes as i64)
    }

    /// Ends a share of `share_bytes`. Called before its user drops its reference to the file, so
    /// that the last user of all finds it when it calls `end`.
    pub fn unclaim(&self, share_bytes: u64) -> i64 {
        self.add(share_bytes as i64)
    }

    /// A shared file turned out to be `bytes` longer, and no share contains these bytes.
    pub fn grow(&self, bytes: i64) -> i64 {
        self.add(bytes)
    }

    /// Called when nothing refers to the file any more.
    pub fn end(&self) -> i64 {
        -self.unclaimed.swap(0, AcqRel)
    }

    /// True if the file ever had a share.
    pub fn is_shared(&self) -> bool {
        self.is_shared.load(Acquire)
    }

    /// Bytes that belong to no share.
    pub fn unclaimed_bytes(&self) -> u64 {
        self.unclaimed.load(Relaxed).max(0) as u64
    }

    fn add(&self, bytes: i64) -> i64 {
        self.unclaimed.fetch_add(bytes, AcqRel);
        bytes
    }
}
