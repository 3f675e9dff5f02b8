//! A copy without garbage, made beside the writer (EvenDB §3.4 copies under the chunk's lock).
//!
//! ```text
//!   writes    ──────────────┬──────────────┬
//!                         begun            │ under the chunk's lock
//!   copy              [ rebalance ]──[ catch up ]  takes the munk's place
//! ```
//!
//! Why nothing is lost: when the copy is begun, no batch is undecided; what was written before is in the list then, and
//! stays there or is put out of date by something that was written since. Whatever changes a munk writes a record, and all
//! of these are noted from then on, in their order. Some of them the copy has already: to write them once more, in order,
//! ends with the same. They are taken under the chunk's lock, so that no batch among them is undecided; written to the copy
//! beside the writer, as long as they are many; and the last under the lock.
//!
//! Why a snapshot finds what it needs: the copy leaves out a version that no open snapshot sees, as a newer one is in
//! view. Whoever wrote the newer one was announced before, so snapshots that are opened later see that, or newer ones.
#![expect(unsafe_code, reason = "looks at records where they lie")]

use super::chain::is_decided;
use super::record::RecordPtr;
use super::write::Full;
use super::{Munk, Record};
use crate::sync::Arc;

impl Munk {
    /// A copy is begun: notes what is written until it [ends](Self::end_copy). Under the chunk's lock, while no batch is
    /// undecided; one at a time.
    pub fn begin_copy(&self) {
        let mut writer = self.writer.lock();
        writer.decide(None);
        writer.since = Some(Vec::new());
    }

    /// Nobody catches up any more.
    pub fn end_copy(&self) {
        self.writer.lock().since = None;
    }

    /// What was written since the copy was begun or since this was asked last; `None` if no copy is being made. Under the
    /// chunk's lock, while no batch is undecided.
    pub fn take_written(self: &Arc<Self>) -> Option<Written> {
        let records = self.writer.lock().since.replace(Vec::new())?;
        Some(Written { munk: self.clone(), records })
    }

    /// Writes to this copy, a [`rebalance`](Self::rebalance) since it was begun, what the original was written: in turn
    /// whatever was [taken](Self::take_written).
    pub fn catch_up(&self, written: &Written, needed: impl Fn(u64, u64) -> bool) -> Result<(), Full> {
        // What was undecided has failed, or was withdrawn by its batch for another.
        for record in written.records().filter(|record| is_decided(record)) {
            let is_newer = |newest: &Record| newest.version() > record.version();
            if !self.find(record.key(), u64::MAX).is_some_and(is_newer) {
                self.insert(record.content(), None, &needed)?;
            }
        }
        Ok(())
    }
}

/// What a munk was written, in order.
pub struct Written {
    munk: Arc<Munk>,
    records: Vec<RecordPtr>,
}

impl Written {
    pub fn len(&self) -> usize {
        self.records.len()
    }

    fn records(&self) -> impl Iterator<Item = &Record> {
        let _kept = &self.munk;
        // SAFETY: in the arena of the munk, which this keeps.
        self.records.iter().map(|record| unsafe { record.get() })
    }
}
