//! Sums over the files of one keyspace.

use super::Files;
use crate::sync::Arc;
use crate::sync::atomic::{AtomicI64, AtomicU64};

/// Sums over all files of a keyspace, kept up to date under the locks of what changes them.
#[derive(Default)]
pub struct Totals {
    pub log_bytes: AtomicI64,
    pub table_bytes: AtomicI64,
    pub user_bytes: AtomicI64,
    pub garbage_bytes: AtomicI64,
    /// Puts in files that were not dropped, replaced ones too.
    pub puts: AtomicI64,
    /// Tables that are being written.
    pub growing_bytes: AtomicI64,
    /// Of files that chunks share, what is in nobody's share any more.
    pub unclaimed_bytes: AtomicI64,
    /// Obsolete files that wait for a checkpoint; counted by `Files`.
    pub held_bytes: Arc<AtomicU64>,
}

impl Totals {
    /// The sums of a keyspace that is being opened: only held files are counted yet.
    pub fn of(files: &Files, keyspace: u32) -> Self {
        Self { held_bytes: files.held_bytes_of(keyspace), ..Self::default() }
    }
}
