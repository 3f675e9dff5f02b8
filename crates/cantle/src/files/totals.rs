//! Sums over the files of one keyspace.

use super::Files;
use crate::sync::Arc;
use crate::sync::atomic::{AtomicI64, AtomicU64};

/// Sums over all files of a keyspace. Each change of the files updates them under its lock.
#[derive(Default)]
pub struct Totals {
    pub log_bytes: AtomicI64,
    pub table_bytes: AtomicI64,
    pub user_bytes: AtomicI64,
    pub garbage_bytes: AtomicI64,
    /// Puts in files that were not dropped, including replaced puts.
    pub puts: AtomicI64,
    /// Bytes of tables that are being written.
    pub growing_bytes: AtomicI64,
    /// Bytes of shared files that belong to no share.
    pub unclaimed_bytes: AtomicI64,
    /// Obsolete files that wait for a checkpoint; counted by `Files`.
    pub held_bytes: Arc<AtomicU64>,
}

impl Totals {
    /// The sums of a keyspace that is being opened: only held files are counted so far.
    pub fn of(files: &Files, keyspace: u32) -> Self {
        Self { held_bytes: files.held_bytes_of(keyspace), ..Self::default() }
    }
}
