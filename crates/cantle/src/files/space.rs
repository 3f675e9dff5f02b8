//! Space of the file system: what is free, and what of it is promised to writes to come.

use crate::sync::Arc;
use crate::sync::atomic::{AtomicU64, Ordering::Relaxed};
use crate::types::error::Result;

/// With more than this free there is no need to keep any aside: 32 times both parts of the reserve at their usual most.
pub const PLENTY_BYTES: u64 = 2 << 30;

/// What is free, and what of that is promised.
#[derive(Debug)]
pub struct Space {
    promised_bytes: AtomicU64,
    /// As of the last look, less what was written of promises since.
    available_bytes: AtomicU64,
}

impl Space {
    /// Not looked at yet: taken for plenty.
    pub fn unknown() -> Self {
        Self { promised_bytes: AtomicU64::new(0), available_bytes: AtomicU64::new(u64::MAX) }
    }

    /// Free bytes as of the last look; `u64::MAX` before that.
    pub fn available_bytes(&self) -> u64 {
        self.available_bytes.load(Relaxed)
    }

    /// Notes how much the file system said is free.
    pub fn note_available(&self, bytes: u64) {
        self.available_bytes.store(bytes, Relaxed);
    }

    /// There is so much free that nothing need be kept aside.
    pub fn has_plenty(&self) -> bool {
        self.available_bytes() > PLENTY_BYTES
    }

    /// The bytes that are promised of it.
    pub fn promised_bytes(&self) -> u64 {
        self.promised_bytes.load(Relaxed)
    }

    /// Whether all promises and so many bytes more find room.
    pub fn suffices(&self, bytes: u64) -> bool {
        let promised = self.promised_bytes.load(Relaxed);
        promised.saturating_add(bytes) <= self.available_bytes.load(Relaxed)
    }
}

/// Bytes that will be written: nobody else is promised them. Given back when dropped.
#[derive(Debug)]
pub struct Promise {
    space: Arc<Space>,
    bytes: AtomicU64,
}

impl Promise {
    /// Of nothing yet.
    pub fn none(space: Arc<Space>) -> Self {
        Self { space, bytes: AtomicU64::new(0) }
    }

    /// Promises more, even if it is not there: [`Space::suffices`] tells that.
    pub fn add(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Relaxed);
        self.space.promised_bytes.fetch_add(bytes, Relaxed);
    }

    /// The bytes that are left of it.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Relaxed)
    }

    /// Hands some of it to another.
    pub fn hand_over(&self, bytes: u64, to: &Self) {
        // Never less than nothing, whoever else takes from it.
        let moved = self.take(bytes);
        to.bytes.fetch_add(moved, Relaxed);
    }

    /// So much of it was written: it is in the file system's books now.
    pub fn redeem(&self, bytes: u64) {
        let redeemed = self.take(bytes);
        self.space.promised_bytes.fetch_sub(redeemed, Relaxed);
        let less = |available: u64| (available != u64::MAX).then(|| available.saturating_sub(bytes));
        let _ = self.space.available_bytes.fetch_update(Relaxed, Relaxed, less);
    }

    fn take(&self, bytes: u64) -> u64 {
        let less = |left: u64| Some(left.saturating_sub(bytes));
        let before = self.bytes.fetch_update(Relaxed, Relaxed, less).unwrap_or(0);
        before.min(bytes)
    }
}

impl Drop for Promise {
    fn drop(&mut self) {
        self.space.promised_bytes.fetch_sub(*self.bytes.get_mut(), Relaxed);
    }
}

/// Space that was granted to a job for what it writes.
pub trait Room {
    /// The bytes that are left of it.
    fn left_bytes(&self) -> u64;
    /// Asks for more, as the estimate was too low.
    fn extend(&mut self, bytes: u64) -> Result<()>;
    /// A file of so many bytes was written.
    fn redeem(&self, bytes: u64);
}
