//! The part of a log in a checkpoint.

use crate::manifest::SegmentEdit;
use crate::types::error::Result;

/// A log that a checkpoint must make durable.
pub trait DirtyLog: Send + Sync {
    /// Makes durable what the log holds now and says how long that is.
    fn sync(&self) -> Result<SegmentEdit>;
    /// Whether nothing refers to it any more: the edits that say so precede the checkpoint's record.
    fn is_obsolete(&self) -> bool;
}
