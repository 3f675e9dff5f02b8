//! A copy without garbage, made beside the writer (EvenDB §3.4 copies under the chunk's lock).
//!
//! ```text
//!   writes    ──────────────┬──────────────┬
//!                         begun            │ under the chunk's lock
//!   copy              [ rebalance ]──[ catch up ]  takes the munk's place
//! ```
//!
//! Nothing is lost. When the copy begins, no batch is undecided. Everything written before is in
//! the munk's list then, and stays there or is overwritten later. Each change of a munk writes a
//! record, and from then on the writer also keeps all new records in their order. The copy may
//! already have some of them: writing them once more, in order, leads to the same state. They are
//! taken under the chunk's lock, so that no batch among them is undecided. While they are many,
//! they are written to the copy beside the writer; the last ones under the lock.
//!
//! Snapshots find the versions that they need. The copy leaves out a version that no open snapshot
//! sees, because there is a newer one. The writer of the newer one was announced before, so
//! snapshots that are opened later see it, or newer versions.
#![expect(unsafe_code, reason = "looks at records where they lie")]

use super::chain::is_decided;
use super::record::RecordPtr;
use super::write::Full;
use super::{Munk, Record};
use crate::sync::Arc;

impl Munk {
    /// Begins a copy: keeps the records written from now on until [the end](Self::end_copy). Under
    /// the chunk's lock, while no batch is undecided; one copy at a time.
    pub fn begin_copy(&self) {
        let mut writer = self.writer.lock();
        writer.decide(None);
        writer.since = Some(Vec::new());
    }

    /// Ends the copy: no catching up follows.
    pub fn end_copy(&self) {
        self.writer.lock().since = None;
    }

    /// The records written since the copy was begun or since the last call; `None` if no copy is
    /// being made. Under the chunk's lock, while no batch is undecided.
    pub fn take_written(self: &Arc<Self>) -> Option<Written> {
        let records = self.writer.lock().since.replace(Vec::new())?;
        Some(Written { munk: self.clone(), records })
    }

    /// Writes to this copy, a [`rebalance`](Self::rebalance) since the copy was begun, the records
    /// written to the original. Call it in turn with each result of
    /// [`take_written`](Self::take_written).
    pub fn catch_up(&self, written: &Written, needed: impl Fn(u64, u64) -> bool) -> Result<(), Full> {
        // An undecided record has failed, or its batch has withdrawn it for another.
        for record in written.records().filter(|record| is_decided(record)) {
            let is_newer = |newest: &Record| newest.version() > record.version();
            if !self.find(record.key(), u64::MAX).is_some_and(is_newer) {
                self.insert(record.content(), None, &needed)?;
            }
        }
        Ok(())
    }
}

/// Records written to a munk, in order.
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
        // SAFETY: in the arena of the munk, which this holds.
        self.records.iter().map(|record| unsafe { record.get() })
    }
}
