//! Space of the file system: the free bytes, and those of them that are promised to later writes.

use crate::sync::atomic::{
    AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};
use crate::sync::{Arc, Mutex};
use crate::types::error::Result;

/// Free bytes above which nothing is kept aside: 32 times both parts of the reserve at their usual
/// maximum.
pub const PLENTY_BYTES: u64 = 2 << 30;

/// The free bytes, and those of them that are promised.
#[derive(Debug)]
pub struct Space {
    promised_bytes: AtomicU64,
    /// As of the last look, minus the promised bytes that were written since. Changes with `redeemed_bytes` locked.
    available_bytes: AtomicU64,
    /// All promised bytes that were written.
    redeemed_bytes: Mutex<u64>,
}

impl Space {
    /// Before the first look: space counts as plentiful.
    pub fn unknown() -> Self {
        Self {
            promised_bytes: AtomicU64::new(0),
            available_bytes: AtomicU64::new(u64::MAX),
            redeemed_bytes: Mutex::new(0),
        }
    }

    /// Free bytes as of the last look; `u64::MAX` before that.
    pub fn available_bytes(&self) -> u64 {
        self.available_bytes.load(Relaxed)
    }

    /// Records the free bytes that the file system reports, and returns them. Bytes that are written meanwhile may be
    /// among them or not: they count as written.
    pub fn look(&self, report: impl FnOnce() -> u64) -> u64 {
        let before = *self.redeemed_bytes.lock();
        let bytes = report();
        let redeemed = self.redeemed_bytes.lock();
        self.set_available(bytes, redeemed.wrapping_sub(before));
        bytes
    }

    fn set_available(&self, bytes: u64, less: u64) {
        let left = if bytes == u64::MAX { bytes } else { bytes.saturating_sub(less) };
        self.available_bytes.store(left, Relaxed);
    }

    /// True if so much is free that nothing need be kept aside.
    pub fn has_plenty(&self) -> bool {
        self.available_bytes() > PLENTY_BYTES
    }

    /// The free bytes that are promised.
    pub fn promised_bytes(&self) -> u64 {
        self.promised_bytes.load(Relaxed)
    }

    /// True if all promises and `bytes` more fit in the free space.
    pub fn suffices(&self, bytes: u64) -> bool {
        self.would_suffice(bytes, 0)
    }

    /// The same once `kept_bytes` more are free.
    pub fn would_suffice(&self, bytes: u64, kept_bytes: u64) -> bool {
        // Read first: a promise ends after its bytes are taken from those that are available.
        let promised = self.promised_bytes.load(Acquire);
        promised.saturating_add(bytes) <= self.available_bytes.load(Relaxed).saturating_add(kept_bytes)
    }
}

/// Free bytes that are promised to one later write, and to no other. Dropping it ends the promise.
#[derive(Debug)]
pub struct Promise {
    space: Arc<Space>,
    bytes: AtomicU64,
}

impl Promise {
    /// A promise of 0 bytes.
    pub fn none(space: Arc<Space>) -> Self {
        Self { space, bytes: AtomicU64::new(0) }
    }

    /// Promises more, even if it is not free: the caller checks with [`Space::suffices`].
    pub fn add(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Relaxed);
        self.space.promised_bytes.fetch_add(bytes, Relaxed);
    }

    /// The promised bytes that are left.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Relaxed)
    }

    /// Moves bytes of this promise to another one.
    pub fn hand_over(&self, bytes: u64, to: &Self) {
        // Never below 0, even if another thread takes from it.
        let moved = self.take(bytes);
        to.bytes.fetch_add(moved, Relaxed);
    }

    /// Records that `bytes` of it were written: the file system accounts for them now.
    pub fn redeem(&self, bytes: u64) {
        let redeemed = self.take(bytes);
        let mut all = self.space.redeemed_bytes.lock();
        *all = all.wrapping_add(bytes);
        self.space.set_available(self.space.available_bytes(), bytes);
        drop(all);
        // Last: others find too little free meanwhile, never too much.
        self.space.promised_bytes.fetch_sub(redeemed, Release);
    }

    fn take(&self, bytes: u64) -> u64 {
        let less = |left: u64| Some(left.saturating_sub(bytes));
        let before = self.bytes.fetch_update(Relaxed, Relaxed, less).unwrap_or(0);
        before.min(bytes)
    }
}

impl Drop for Promise {
    fn drop(&mut self) {
        self.space.promised_bytes.fetch_sub(self.bytes.load(Relaxed), Relaxed);
    }
}

/// Space that was granted to a job for its output.
pub trait Room {
    /// The granted bytes that are left.
    fn left_bytes(&self) -> u64;
    /// True if the file system has place for a file of `bytes`, which was granted or is a small part of what is free.
    fn has(&self, bytes: u64) -> bool;
    /// Asks for more bytes, as the estimate was too low.
    fn extend(&mut self, bytes: u64) -> Result<()>;
    /// Records that a file of `bytes` was written.
    fn redeem(&self, bytes: u64);
}
