//! Accounts of the memory that logs take of one budget.
//!
//! Indexes at the ends of logs and views of logs each have a share of their own. What they do not use of it is for merges
//! and for what was appended last; what these leave is lent to whatever of the budget is quick to go.
//!
//! Thread safety: everything may be called from any thread.

use super::recent::Recent;
use crate::memory::account::{Account, Charge};

/// Percent of the budget for the in-memory indexes of logs.
const INDEX_PERCENT: u64 = 8;
/// Percent of the budget for views of logs and for the ends of their parts.
const VIEW_PERCENT: u64 = 2;
/// What views leave of that to the ends, which are small and spare more.
const ENDS_FRACTION: u64 = 4;
/// What the ends of a part with short keys take.
const ENDS_BYTES: u64 = 256;
/// Of the budget, what logs that are being merged may take: of what logs do not use of theirs, else of nobody's.
const MERGE_FRACTION: u64 = 16;
/// Of the budget, what was appended to logs last may take, of what logs do not use of theirs.
const RECENT_FRACTION: u64 = 16;
/// Fraction of the budget for the write buffers of all its stores.
const WRITE_BUFFER_FRACTION: u64 = 64;

/// The accounts of logs.
pub struct LogMemory {
    /// In-memory indexes of logs.
    pub indexes: Account,
    /// Views of logs and the ends of their parts.
    pub views: Account,
    /// Logs that are read at once, to be merged.
    pub merges: Account,
    /// Entries that merges hold back: they take from munks and from the last appends, not from logs.
    pub held: Account,
    /// Slots of write buffers.
    pub write_buffer: Account,
    /// Those slots that were ever used.
    pub write_buffer_used: Account,
    /// What was appended to logs last.
    pub recent: Recent,
    recent_bytes_max: u64,
}

impl LogMemory {
    /// The accounts of a budget of `budget_bytes`.
    pub fn new(budget_bytes: u64) -> Self {
        let write_buffer_bytes = budget_bytes / WRITE_BUFFER_FRACTION;
        Self {
            indexes: Account::new(budget_bytes / 100 * INDEX_PERCENT),
            views: Account::new(budget_bytes / 100 * VIEW_PERCENT),
            merges: Account::new(budget_bytes / MERGE_FRACTION),
            held: Account::new(u64::MAX),
            write_buffer: Account::new(write_buffer_bytes),
            write_buffer_used: Account::new(write_buffer_bytes),
            recent: Recent::default(),
            recent_bytes_max: budget_bytes / RECENT_FRACTION,
        }
    }

    /// The share of logs.
    pub fn share_bytes(&self) -> u64 {
        self.indexes.limit_bytes() + self.views.limit_bytes()
    }

    /// Bytes that logs have taken, in all forms but write buffers.
    pub fn used_bytes(&self) -> u64 {
        self.kept_bytes() + self.merging_bytes() + self.recent.bytes()
    }

    /// Bytes of merges: those that they read, and those that they hold back.
    pub fn merging_bytes(&self) -> u64 {
        self.merges.used_bytes() + self.held.used_bytes()
    }

    fn kept_bytes(&self) -> u64 {
        self.indexes.used_bytes() + self.views.used_bytes()
    }

    /// Takes so many bytes for a view of a log; nothing if there is no room.
    pub fn charge_view(&self, bytes: u64) -> Option<Charge> {
        let limit = self.views.limit_bytes();
        self.views.charge_within(bytes, limit - limit / ENDS_FRACTION)
    }

    /// There is room for the ends of a part whose keys are not known yet, if they are short.
    pub fn has_room_for_ends(&self) -> bool {
        self.views.has_room(ENDS_BYTES)
    }

    /// What may be kept of what was appended last.
    pub fn recent_limit_bytes(&self) -> u64 {
        let used = self.kept_bytes() + self.merging_bytes();
        self.share_bytes().saturating_sub(used).min(self.recent_bytes_max)
    }
}
