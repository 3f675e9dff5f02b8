//! What its users have of a file that several share.
//!
//! Chunks that were split share their logs, each with its keys, until each was sorted. What one of them has sorted stays on
//! disk for as long as another refers to the file, in nobody's share: it is *unclaimed*.
//!
//! Thread safety: all methods may be called from any thread. Invariant: what `claim`, `unclaim`, `grow` and `end` return adds up to
//! [`unclaimed_bytes`](Claims::unclaimed_bytes) at any time, and to 0 in the end.

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
    /// Somebody has so many bytes of the file, which has `file_bytes`. Returns by how much more is unclaimed: of the first
    /// share, all that is left.
    pub fn claim(&self, share_bytes: u64, file_bytes: u64) -> i64 {
        let whole = if self.is_shared.swap(true, AcqRel) { 0 } else { file_bytes as i64 };
        self.add(whole - share_bytes as i64)
    }

    /// Somebody who has so many bytes of the file will let go of it. To be called before he does, for the last of all to
    /// find it when he calls `end`.
    pub fn unclaim(&self, share_bytes: u64) -> i64 {
        self.add(share_bytes as i64)
    }

    /// A file that is shared turned out to be so much longer; nobody has more of it for that.
    pub fn grow(&self, bytes: i64) -> i64 {
        self.add(bytes)
    }

    /// Nobody refers to the file any more.
    pub fn end(&self) -> i64 {
        -self.unclaimed.swap(0, AcqRel)
    }

    /// Whether anybody ever had a share of it.
    pub fn is_shared(&self) -> bool {
        self.is_shared.load(Acquire)
    }

    /// What is in nobody's share.
    pub fn unclaimed_bytes(&self) -> u64 {
        self.unclaimed.load(Relaxed).max(0) as u64
    }

    fn add(&self, bytes: i64) -> i64 {
        self.unclaimed.fetch_add(bytes, AcqRel);
        bytes
    }
}
