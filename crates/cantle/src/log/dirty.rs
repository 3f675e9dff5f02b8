//! The interface of logs to a checkpoint.

use crate::manifest::SegmentEdit;
use crate::types::error::Result;

/// A log that a checkpoint must make durable.
pub trait DirtyLog: Send + Sync {
    /// Makes the log durable as it is now, and returns its length and counts.
    fn sync(&self) -> Result<SegmentEdit>;
    /// True if nothing refers to the log any more: the edits that removed it precede the
    /// checkpoint's record.
    fn is_obsolete(&self) -> bool;
}
