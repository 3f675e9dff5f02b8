//! The environment of the logs of one keyspace.

use super::LogMemory;
use crate::cache::BlockCache;
use crate::files::{Files, Space, Totals};
use crate::log::index::indexed_part::LogSearch;
use crate::log::index::memory_part::MemoryPart;
use crate::log::tail::write_buffer::WriteBuffer;
use crate::memory::account::Charge;
use crate::mvcc::Recovery;
use crate::sync::Arc;
use crate::sync::counter::Counter;
use crate::sync::on_use::OnUse;
use crate::types::order::KeyOrder;
use crate::vfs::ReadQueue;
use crossbeam_utils::atomic::AtomicCell;
use std::ops::Deref;

/// Counters of the logs of one keyspace since opening.
#[derive(Debug, Default)]
pub struct LogCounters {
    pub log_bytes_written: Counter,
    pub log_batches: Counter,
    pub log_batch_bytes: Counter,
    pub scans_log_view: Counter,
    pub parts_passed_over: Counter,
}

/// Settings of logs that may change while a keyspace is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogOptions {
    /// Keeps the last appends in memory.
    pub recent_appends: bool,
    /// Strategy for finding operations in older parts.
    pub search: LogSearch,
    /// True if in-memory indexes are memtables: they have values too, and an account of their own.
    pub memtables: bool,
    /// Bits per key of the filters of indexed parts; 0 for none.
    pub filter_bits_per_key: u32,
}

/// The parts of a store that the logs of all its keyspaces share.
pub struct LogShared {
    pub files: Arc<Files>,
    pub space: Arc<Space>,
    pub cache: BlockCache,
    pub recovery: Arc<Recovery>,
    pub memory: Arc<LogMemory>,
    /// For reads of many places at once.
    pub queue: Arc<ReadQueue>,
    /// `None` if appends do not wait.
    pub write_buffer: Option<Arc<WriteBuffer>>,
}

/// The shared parts, and those of one keyspace.
pub struct LogEnv {
    pub shared: Arc<LogShared>,
    pub keyspace: u32,
    pub order: KeyOrder,
    /// Size in bytes from which a key with its value counts as large, for as long as the keyspace is open.
    pub large_from: u32,
    pub options: AtomicCell<LogOptions>,
    pub totals: Totals,
    /// Allocated at first access.
    pub counters: OnUse<LogCounters>,
}

impl LogEnv {
    pub fn options(&self) -> LogOptions {
        self.options.load()
    }

    /// The write buffer in which appends wait now, if any. Only while plenty of disk space is free,
    /// so that drains find room.
    pub fn write_buffer(&self) -> Option<&Arc<WriteBuffer>> {
        self.write_buffer.as_ref().filter(|_| self.space.has_plenty())
    }

    /// An in-memory index, charged to the logs' memory.
    pub fn memory_part(&self) -> MemoryPart {
        let account = if self.options().memtables { &self.memory.memtables } else { &self.memory.indexes };
        MemoryPart::new(self.order.clone(), account.counter().clone())
    }

    /// Charges the memory of a log that a merge reads at once; `None` if there is no room. Logs
    /// that were memtables may take what those leave.
    pub fn charge_merged_log(&self, bytes: u64) -> Option<Charge> {
        let of_merges = self.memory.merges.charge(bytes);
        of_merges.or_else(|| self.memory.memtables.charge(bytes).filter(|_| self.options().memtables))
    }

    pub fn epoch(&self) -> u64 {
        self.recovery.epoch
    }
}

impl Deref for LogEnv {
    type Target = LogShared;
    fn deref(&self) -> &LogShared {
        &self.shared
    }
}
