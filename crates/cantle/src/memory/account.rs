//! Memory that is counted in an account for as long as it is held.
//!
//! Thread safety: everything may be called from any thread.

use crate::sync::Arc;
use crate::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The bytes charged for one use of memory, and their limit. Clones are the same account.
#[derive(Debug, Clone)]
pub struct Account {
    used_bytes: Arc<AtomicU64>,
    limit_bytes: Arc<AtomicU64>,
}

impl Account {
    /// An empty account.
    pub fn new(limit_bytes: u64) -> Self {
        Self { used_bytes: Arc::default(), limit_bytes: Arc::new(AtomicU64::new(limit_bytes)) }
    }

    /// Bytes that are charged now.
    pub fn used_bytes(&self) -> u64 {
        self.used_bytes.load(Relaxed)
    }

    /// Maximum of the bytes charged.
    pub fn limit_bytes(&self) -> u64 {
        self.limit_bytes.load(Relaxed)
    }

    /// Changes the limit. Existing charges stay, even if they exceed it.
    pub fn set_limit_bytes(&self, limit_bytes: u64) {
        self.limit_bytes.store(limit_bytes, Relaxed);
    }

    /// The counter of the charged bytes, for structures that grow in small steps and count
    /// themselves, whatever the limit.
    pub fn counter(&self) -> &Arc<AtomicU64> {
        &self.used_bytes
    }

    /// True if `bytes` more bytes can be charged.
    pub fn has_room(&self, bytes: u64) -> bool {
        self.used_bytes().checked_add(bytes).is_some_and(|used| used <= self.limit_bytes())
    }

    /// Charges `bytes`; `None` if fewer are left.
    pub fn charge(&self, bytes: u64) -> Option<Charge> {
        self.charge_within(bytes, self.limit_bytes())
    }

    /// Charges `bytes` under the caller's limit instead of the account's.
    pub fn charge_within(&self, bytes: u64, limit_bytes: u64) -> Option<Charge> {
        let take = |used: u64| used.checked_add(bytes).filter(|used| *used <= limit_bytes);
        self.used_bytes.fetch_update(Relaxed, Relaxed, take).ok()?;
        Some(Charge { bytes, account: self.used_bytes.clone() })
    }

    /// Charges `bytes` whatever the limit: for small amounts without which work could not go on.
    pub fn charge_anyway(&self, bytes: u64) -> Option<Charge> {
        self.charge_within(bytes, u64::MAX)
    }

    /// Charges as much as is left, at most `wanted` bytes, and returns that amount. The caller
    /// [gives it back](Self::give_back).
    pub fn take_up_to(&self, wanted: u64) -> u64 {
        let limit = self.limit_bytes();
        let left = |used: u64| limit.saturating_sub(used).min(wanted);
        let used = self.used_bytes.fetch_update(Relaxed, Relaxed, |used| Some(used + left(used)));
        used.map_or(0, left)
    }

    /// Releases bytes that [`take_up_to`](Self::take_up_to) has charged.
    pub fn give_back(&self, bytes: u64) {
        self.used_bytes.fetch_sub(bytes, Relaxed);
    }
}

impl Default for Account {
    /// An account without a limit.
    fn default() -> Self {
        Self::new(u64::MAX)
    }
}

/// Bytes charged to an account, released when this is dropped.
#[derive(Debug)]
pub struct Charge {
    bytes: u64,
    account: Arc<AtomicU64>,
}

impl Charge {
    /// Releases the bytes above `bytes`.
    pub fn shrink_to(&mut self, bytes: u64) {
        let spared = self.bytes.saturating_sub(bytes);
        self.account.fetch_sub(spared, Relaxed);
        self.bytes -= spared;
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.account.fetch_sub(self.bytes, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_is_counted_until_it_is_dropped() {
        let account = Account::new(100);
        let mut charge = account.charge(60).unwrap();
        assert!(account.charge(41).is_none() && !account.has_room(41) && account.has_room(40));
        assert!(account.charge_anyway(u64::MAX).is_none(), "no sum wraps around");
        assert_eq!(account.used_bytes(), 60);
        charge.shrink_to(20);
        charge.shrink_to(30);
        let rest = account.charge(80).unwrap();
        assert_eq!(account.used_bytes(), 100);
        drop((charge, rest));
        assert_eq!(account.used_bytes(), 0);
    }

    #[test]
    fn a_limit_that_changes_is_that_of_all_clones() {
        let account = Account::new(100);
        let _charge = account.clone().charge(60).unwrap();
        account.clone().set_limit_bytes(50);
        assert_eq!((account.used_bytes(), account.limit_bytes()), (60, 50));
        assert!(account.charge(1).is_none() && !account.has_room(0));
        account.set_limit_bytes(70);
        assert!(account.charge(10).is_some());
    }

    #[test]
    fn what_is_left_is_taken_and_given_back() {
        let account = Account::new(100);
        let all = account.charge_anyway(70);
        assert_eq!([60, 60].map(|wanted| account.take_up_to(wanted)), [30, 0]);
        let more = account.charge_anyway(50);
        assert_eq!(account.take_up_to(1), 0, "more is taken than there is");
        drop((all, more));
        account.give_back(30);
        assert_eq!(account.used_bytes(), 0);
    }
}
