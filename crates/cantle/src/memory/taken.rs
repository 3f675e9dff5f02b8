//! Memory that is counted for as long as somebody holds it.

use crate::sync::Arc;
use crate::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// So many bytes of an account. They are back in it once this is dropped.
#[derive(Debug)]
pub(crate) struct Taken {
    bytes: u64,
    account: Arc<AtomicU64>,
}

impl Taken {
    /// Takes `bytes` of an account that holds `limit_bytes`; nothing if less is left.
    pub(crate) fn of(account: &Arc<AtomicU64>, bytes: u64, limit_bytes: u64) -> Option<Self> {
        let take = |taken: u64| taken.checked_add(bytes).filter(|taken| *taken <= limit_bytes);
        account.fetch_update(Relaxed, Relaxed, take).ok()?;
        Some(Self { bytes, account: account.clone() })
    }

    /// Gives back what turned out not to be needed.
    pub(crate) fn shrink_to(&mut self, bytes: u64) {
        let spared = self.bytes.saturating_sub(bytes);
        self.account.fetch_sub(spared, Relaxed);
        self.bytes -= spared;
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.account.fetch_sub(self.bytes, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_is_counted_until_it_is_dropped() {
        let account = Arc::default();
        let mut taken = Taken::of(&account, 60, 100).unwrap();
        assert!(Taken::of(&account, 41, 100).is_none());
        assert!(Taken::of(&account, u64::MAX, u64::MAX).is_none());
        assert_eq!(account.load(Relaxed), 60);
        taken.shrink_to(20);
        taken.shrink_to(30);
        let rest = Taken::of(&account, 80, 100).unwrap();
        assert_eq!(account.load(Relaxed), 100);
        drop((taken, rest));
        assert_eq!(account.load(Relaxed), 0);
    }
}
