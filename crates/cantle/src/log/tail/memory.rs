//! The accounts of the memory that logs use of one budget.
//!
//! Indexes at the ends of logs and views of logs each have a share of their own. The unused rest of
//! it is for merges and for the last appends. Memory that these do not use is lent to parts of the
//! budget that can release it quickly.
//!
//! Thread safety: everything may be called from any thread.

use super::recent::Recent;
use crate::memory::account::{Account, Charge};

/// Percent of the budget for the in-memory indexes of logs.
const INDEX_PERCENT: u64 = 8;
/// Part of the budget that memtables may take, as a divisor.
pub const MEMTABLE_FRACTION: u64 = 4;
/// Percent of the budget for views of logs and for the ends of their parts.
const VIEW_PERCENT: u64 = 2;
/// Fraction of the share of views that is reserved for the ends of parts, which are small and save
/// more reads.
const ENDS_FRACTION: u64 = 4;
/// Memory of the ends of a part with short keys, in bytes.
const ENDS_BYTES: u64 = 256;
/// Fraction of the budget for logs that are being merged. It comes from the unused share of logs,
/// or else from unused memory of the budget.
const MERGE_FRACTION: u64 = 16;
/// Maximum fraction of the budget for the last appends to logs. It comes from the unused share of
/// logs.
const RECENT_FRACTION: u64 = 16;
/// Fraction of the budget for the write buffers of all its stores.
const WRITE_BUFFER_FRACTION: u64 = 64;

/// The accounts of logs.
pub struct LogMemory {
    /// In-memory indexes of logs.
    pub indexes: Account,
    /// In-memory indexes of logs that have values, too, in layouts without regions in memory.
    pub memtables: Account,
    /// Views of logs and the ends of their parts.
    pub views: Account,
    /// Logs that are read at once by merges.
    pub merges: Account,
    /// Entries that merges hold back. Their memory comes from munks and the last appends, not from
    /// logs.
    pub held: Account,
    /// Slots of write buffers.
    pub write_buffer: Account,
    /// Slots that were used at least once.
    pub write_buffer_used: Account,
    /// The last appends to logs.
    pub recent: Recent,
    recent_bytes_max: u64,
}

impl LogMemory {
    /// The accounts of a budget of `budget_bytes`.
    pub fn new(budget_bytes: u64) -> Self {
        let write_buffer_bytes = budget_bytes / WRITE_BUFFER_FRACTION;
        Self {
            indexes: Account::new(budget_bytes / 100 * INDEX_PERCENT),
            memtables: Account::new(budget_bytes / MEMTABLE_FRACTION),
            views: Account::new(budget_bytes / 100 * VIEW_PERCENT),
            merges: Account::new(budget_bytes / MERGE_FRACTION),
            held: Account::new(u64::MAX),
            write_buffer: Account::new(write_buffer_bytes),
            write_buffer_used: Account::new(write_buffer_bytes),
            recent: Recent::default(),
            recent_bytes_max: budget_bytes / RECENT_FRACTION,
        }
    }

    /// Limit of the indexes and views of logs, in bytes.
    pub fn share_bytes(&self) -> u64 {
        self.indexes.limit_bytes() + self.views.limit_bytes()
    }

    /// Bytes that logs use, except for write buffers.
    pub fn used_bytes(&self) -> u64 {
        self.kept_bytes() + self.merging_bytes() + self.recent.bytes()
    }

    /// Bytes of merges: logs that they read, and entries that they hold back.
    pub fn merging_bytes(&self) -> u64 {
        self.merges.used_bytes() + self.held.used_bytes()
    }

    fn kept_bytes(&self) -> u64 {
        self.indexes.used_bytes() + self.views.used_bytes()
    }

    /// Charges `bytes` for a view of a log; `None` if there is no room.
    pub fn charge_view(&self, bytes: u64) -> Option<Charge> {
        let limit = self.views.limit_bytes();
        self.views.charge_within(bytes, limit - limit / ENDS_FRACTION)
    }

    /// True if there is room for the ends of a part whose keys are not known yet, provided that
    /// they are short.
    pub fn has_room_for_ends(&self) -> bool {
        self.views.has_room(ENDS_BYTES)
    }

    /// Limit of the memory for the last appends, in bytes.
    pub fn recent_limit_bytes(&self) -> u64 {
        let used = self.kept_bytes() + self.merging_bytes();
        self.share_bytes().saturating_sub(used).min(self.recent_bytes_max)
    }
}
