//! The groups that running merges change, so that merges of other groups run at the same time.
//!
//! A merge is planned, written and installed. It is planned and installed under the lock, from the
//! files of that moment; it is written without it. Between the two it *claims* groups: those that it
//! takes runs from, and those that it puts runs into.
//!
//! Invariants:
//!
//! * No two merges take from the same group, put into the same group, or merge logs. A group may be
//!   taken from and put into at the same time: what is put into it comes above all that it has, so the
//!   runs to take are counted from the oldest.
//! * A change that moves no data is made under the lock, in groups that are not claimed.
//! * While somebody waits for running merges, maintenance begins no other ones.
//!
//! PebblesDB §3.4 says that compactions of different guards can run at the same time; its authors did
//! not build it.
//!
//! Thread safety: everything may be called from any thread.

use crate::sync::std_lock::{Condvar, Mutex, MutexGuard};
use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{PoisonError, TryLockError};

/// The claims of a merge.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Claim {
    /// Numbers of the groups that it takes runs from.
    pub from: Vec<u64>,
    /// Numbers of the groups that it puts runs into.
    pub into: Vec<u64>,
    /// True if it merges logs.
    pub logs: bool,
}

/// The claims of all running merges.
#[derive(Debug, Default)]
pub struct Busy {
    from: HashSet<u64>,
    into: HashSet<u64>,
    logs: bool,
    merges: usize,
    /// Number of threads that wait for merges to end.
    waiting: usize,
}

impl Busy {
    /// True if a merge with this claim may run now.
    pub fn admits(&self, claim: &Claim) -> bool {
        let is_free = |claimed: &HashSet<u64>, groups: &[u64]| !groups.iter().any(|id| claimed.contains(id));
        let admits = is_free(&self.from, &claim.from) && is_free(&self.into, &claim.into);
        canary!(CLAIMS_IGNORED => let admits = true);
        admits && !(self.logs && claim.logs)
    }

    /// True if no merge takes from the group or puts into it.
    pub fn is_free(&self, group: u64) -> bool {
        !self.from.contains(&group) && !self.into.contains(&group)
    }

    /// True if a merge takes from the group.
    pub fn is_taken_from(&self, group: u64) -> bool {
        self.from.contains(&group)
    }

    /// True if a merge puts into the group.
    pub fn is_put_into(&self, group: u64) -> bool {
        self.into.contains(&group)
    }

    /// True if a merge of logs runs.
    pub fn has_logs(&self) -> bool {
        self.logs
    }

    /// Number of merges that run.
    pub fn merges(&self) -> usize {
        self.merges
    }

    /// True if maintenance is to wait.
    pub fn is_awaited(&self) -> bool {
        self.waiting > 0
    }

    fn add(&mut self, claim: &Claim) {
        self.from.extend(&claim.from);
        self.into.extend(&claim.into);
        self.logs |= claim.logs;
        self.merges += 1;
    }

    fn remove(&mut self, claim: &Claim) {
        self.from.retain(|group| !claim.from.contains(group));
        self.into.retain(|group| !claim.into.contains(group));
        self.logs &= !claim.logs;
        self.merges -= 1;
    }
}

/// The claims of a keyspace, under their lock.
#[derive(Default)]
pub struct Claims {
    busy: Mutex<Busy>,
    /// Maximum number of merges that ran at the same time.
    merges_most: AtomicUsize,
    /// Notified when a merge ends.
    ended: Condvar,
}

/// The claim of a merge that runs; given up when it is dropped.
pub struct Claimed<'a> {
    claims: &'a Claims,
    claim: Claim,
}

impl Claims {
    /// Locks the claims. No merge is planned or installed meanwhile.
    pub fn lock(&self) -> MutexGuard<'_, Busy> {
        self.busy.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// As [`Self::lock`]; `None` while somebody else holds the lock, maybe for as long as a disk hangs.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, Busy>> {
        match self.busy.try_lock() {
            Ok(busy) => Some(busy),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Maximum number of merges that ran at the same time.
    pub fn merges_most(&self) -> usize {
        self.merges_most.load(Relaxed)
    }

    /// Claims the groups of a merge that `busy`, locked by the caller, admits.
    pub fn claim(&self, mut busy: MutexGuard<'_, Busy>, claim: Claim) -> Claimed<'_> {
        busy.add(&claim);
        self.merges_most.fetch_max(busy.merges, Relaxed);
        Claimed { claims: self, claim }
    }

    /// Waits until a merge ends. The lock is that of the standard library, as the disk of a merge may
    /// hang. Maintenance begins none meanwhile. Returns at once if none runs.
    pub fn wait(&self, mut busy: MutexGuard<'_, Busy>) {
        if busy.merges > 0 {
            busy.waiting += 1;
            let mut busy = self.ended.wait(busy).unwrap_or_else(PoisonError::into_inner);
            busy.waiting -= 1;
        }
    }

    /// Waits until no merge runs.
    pub fn wait_for_all(&self) {
        loop {
            let busy = self.lock();
            if busy.merges == 0 {
                return;
            }
            self.wait(busy);
        }
    }
}

impl Drop for Claimed<'_> {
    fn drop(&mut self) {
        self.claims.lock().remove(&self.claim);
        self.claims.ended.notify_all();
    }
}
