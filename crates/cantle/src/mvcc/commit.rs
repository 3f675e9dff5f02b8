//! The one moment at which all records of a spanning batch become visible.

use crate::sync::Arc;
use crate::sync::atomic::AtomicBool;
use crate::sync::atomic::Ordering::{Acquire, Release};

/// Shared by the records of one batch. The records are in place before it is set, and invisible
/// until then: a reader that meets one of them asks the cell.
///
/// A reader that has got `true` gets `true` ever after, and finds all other records of the batch. A
/// batch that fails drops the cell unset, and its records stay invisible. The writer sets the cell
/// while it is announced, so a snapshot, which waits for the announcement, never sees the answer
/// change.
#[derive(Debug, Clone)]
pub struct CommitCell(Arc<AtomicBool>);

impl CommitCell {
    /// An uncommitted batch.
    pub fn new() -> Self {
        Self(Arc::new(AtomicBool::new(false)))
    }

    /// Makes the batch visible. All its records must be in place.
    pub fn commit(&self) {
        self.0.store(true, Release);
    }

    /// True if the batch is visible.
    pub fn is_committed(&self) -> bool {
        self.0.load(Acquire)
    }

    /// True if both belong to the same batch.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Default for CommitCell {
    fn default() -> Self {
        Self::new()
    }
}
