//! The outcome of recovery: the versions and batches of earlier epochs that count.

use super::recovery_table::{DeadBatches, RecoveryTable};

/// The outcome of all recoveries so far (EvenDB §3.5), fixed while the store is open.
#[derive(Default)]
pub struct Recovery {
    pub epoch: u64,
    pub first_version: u64,
    pub table: RecoveryTable,
    pub dead_batches: DeadBatches,
}

impl Recovery {
    /// True if an operation of `epoch` counts: the last checkpoint before a power loss covers its
    /// version, and its spanning batch, if any, was committed.
    pub fn counts(&self, epoch: u64, version: u64, batch: u64) -> bool {
        self.is_alive(version) && !(batch != 0 && self.dead_batches.is_dead(epoch, batch))
    }

    /// True if a version counts.
    #[inline]
    pub fn is_alive(&self, version: u64) -> bool {
        version >= self.first_version || !self.table.is_dead(version)
    }
}
