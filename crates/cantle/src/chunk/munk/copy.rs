//! A copy without garbage, made beside the writer (EvenDB §3.4 copies under the chunk's lock).
//!
//! ```text
//!   arena     ──────────────┬──────────────┬
//!                         mark             │ under the chunk's lock
//!   copy              [ rebalance ]──[ catch up ]  takes the munk's place
//! ```
//!
//! Why nothing is lost: when the mark is set, no batch is undecided; what was written before is in the list then, and
//! stays there or is put out of date by something behind the mark. Everything that changes a munk writes a record to
//! the arena, so what stands behind the mark is all that the copy may lack. What it has of that already is passed by:
//! as versions increase, nothing that is missing is older than the copy's newest record of the key.
//!
//! Why a snapshot finds what it needs: the copy leaves out a version that no open snapshot sees, as a newer one is in
//! view. Whoever wrote the newer one was announced before, so snapshots that are opened later see that, or newer ones.

#![expect(unsafe_code, reason = "looks at records where they lie")]

use super::arena::Mark;
use super::chain::is_decided;
use super::write::Full;
use super::{Munk, Record};

impl Munk {
    /// From where on a [`rebalance`](Self::rebalance) that begins now must [catch up](Self::catch_up). Under the chunk's
    /// lock, while no batch is undecided.
    pub fn mark(&self) -> Mark {
        let mut writer = self.writer.lock();
        writer.decide(None);
        writer.arena.mark()
    }

    /// Writes to this copy what the original got since the mark. Under the chunk's lock, while no batch is undecided.
    pub fn catch_up(
        &self,
        original: &Self,
        mark: &Mark,
        needed: impl Fn(u64, u64) -> bool,
    ) -> Result<(), Full> {
        let writer = original.writer.lock();
        let mut records: Vec<&Record> = Vec::new();
        writer.arena.for_each_since(mark, |record| {
            // SAFETY: in the arena of the original, which outlives this function.
            records.push(unsafe { record.get() });
        });
        // What is undecided has failed, or was withdrawn by its batch for another.
        records.retain(|record| is_decided(record));
        // Records of one batch keep their order, as the sort is stable.
        records.sort_by_key(|record| record.version());
        for record in records {
            if self.find(record.key(), u64::MAX).is_none_or(|newest| newest.version() < record.version()) {
                self.insert(record.content(), None, &needed)?;
            }
        }
        Ok(())
    }
}
