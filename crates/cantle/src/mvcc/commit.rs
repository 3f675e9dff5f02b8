//! The one moment at which all records of a spanning batch become visible.

use crate::sync::Arc;
use crate::sync::atomic::AtomicBool;
use crate::sync::atomic::Ordering::{Acquire, Release};

/// Shared by the records of one batch. They are in their places before it is set, and invisible until then:
/// a reader that meets one of them asks here.
///
/// A reader that was told `true` is told so ever after, and finds all other records of the batch. A batch that
/// fails drops the cell unset, and its records stay invisible. The writer sets it while it is announced, so that a
/// snapshot, which waits for it, never sees the answer change.
#[derive(Debug, Clone)]
pub struct CommitCell(Arc<AtomicBool>);

impl CommitCell {
    /// Not committed.
    pub fn new() -> Self {
        Self(Arc::new(AtomicBool::new(false)))
    }

    /// Shows the batch. Everything that it writes must be in place.
    pub fn commit(&self) {
        self.0.store(true, Release);
    }

    /// Whether the batch is to be seen.
    pub fn is_committed(&self) -> bool {
        self.0.load(Acquire)
    }

    /// Whether both are of one batch.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Default for CommitCell {
    fn default() -> Self {
        Self::new()
    }
}
