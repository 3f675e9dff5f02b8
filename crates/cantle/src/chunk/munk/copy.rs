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
//! ends with the same.
//!
//! Why a snapshot finds what it needs: the copy leaves out a version that no open snapshot sees, as a newer one is in
//! view. Whoever wrote the newer one was announced before, so snapshots that are opened later see that, or newer ones.
#![expect(unsafe_code, reason = "looks at records where they lie")]

use super::chain::is_decided;
use super::write::Full;
use super::{Munk, Record};

impl Munk {
    /// A copy is begun: notes what is written until it [catches up](Self::catch_up) or [ends](Self::end_copy). Under the
    /// chunk's lock, while no batch is undecided; one at a time.
    pub fn begin_copy(&self) {
        let mut writer = self.writer.lock();
        writer.decide(None);
        writer.since = Some(Vec::new());
    }

    /// Nobody catches up any more.
    pub fn end_copy(&self) {
        self.writer.lock().since = None;
    }

    /// Writes to this copy, a [`rebalance`](Self::rebalance) since then, what the original has got since it was begun.
    /// Under the chunk's lock, while no batch is undecided.
    pub fn catch_up(&self, original: &Self, needed: impl Fn(u64, u64) -> bool) -> Result<(), Full> {
        let since = original.writer.lock().since.take();
        // SAFETY: in the arena of the original, which outlives this function.
        let records = since.iter().flatten().map(|record| -> &Record { unsafe { record.get() } });
        // What is undecided has failed, or was withdrawn by its batch for another.
        for record in records.filter(|record| is_decided(record)) {
            let is_newer = |newest: &Record| newest.version() > record.version();
            if !self.find(record.key(), u64::MAX).is_some_and(is_newer) {
                self.insert(record.content(), None, &needed)?;
            }
        }
        Ok(())
    }
}
