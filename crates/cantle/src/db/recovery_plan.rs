//! What counts of what earlier epochs wrote, decided from the manifest and the journal.

use crate::format::codec::{Malformed, NUMBER_MAX, within};
use crate::journal::JournalRecord;
use crate::manifest::{StartEdit, State};
use crate::mvcc::EpochBatches;
use crate::substrate::VERSIONS_PER_CHECKPOINT;
use std::collections::HashSet;

/// How the next epoch begins.
pub(crate) struct RecoveryPlan {
    pub start: StartEdit,
    /// The next spanning batch's number.
    pub next_batch: u64,
    /// Writes of the journal that must be applied again.
    pub replay: Vec<JournalRecord>,
}

/// `outlived`: the page cache outlived the process, so that everything counts.
pub(crate) fn plan_recovery(
    state: &State,
    outlived: bool,
    records: Vec<JournalRecord>,
) -> Result<RecoveryPlan, Malformed> {
    // Versions of the new epoch lie beyond all that earlier ones may have used.
    let ceiling =
        state.checkpoint.ceiling.max(state.start.first_version.saturating_add(VERSIONS_PER_CHECKPOINT));
    let newest_record = records.iter().map(JournalRecord::version).max().unwrap_or(0);
    let first_version = ceiling.max(newest_record.saturating_add(1));
    canary!(VERSIONS_REUSED => let first_version = state.checkpoint.version + 1);
    let mut start = StartEdit {
        epoch: state.start.epoch.checked_add(1).ok_or(Malformed("ends the last epoch there is"))?,
        first_version,
        recovery_table: state.start.recovery_table.clone(),
        dead_batches: state.start.dead_batches.clone(),
    };
    // What was dead in an epoch is in files of that epoch only: once they are all gone, so is the memory of it.
    let mut file_epochs = HashSet::new();
    for keyspace in state.keyspaces.values() {
        keyspace.layout.files(&mut |_, _, epoch| {
            file_epochs.insert(epoch);
        });
    }
    start.recovery_table.prune(|epoch| file_epochs.contains(&epoch));
    start.dead_batches.prune(|epoch| file_epochs.contains(&epoch));
    let committed: Vec<u64> = records.iter().map(JournalRecord::batch).filter(|&batch| batch != 0).collect();
    let next_batch = committed.iter().map(|id| id.saturating_add(1)).max().unwrap_or(1);
    let next_batch = next_batch.max(state.checkpoint.next_batch);
    // What this opening writes, and all that comes of it, must be possible to the next.
    for number in [start.epoch, start.first_version, next_batch] {
        within(number, NUMBER_MAX - (1 << 40))?;
    }
    let checkpointed = state.checkpoint.version;
    if outlived {
        let batches = EpochBatches::from_committed(state.start.epoch, state.checkpoint.next_batch, committed);
        canary!(DEAD_BATCHES_FORGOTTEN else start.dead_batches.push(batches))?;
    } else {
        let epoch = state.start.epoch;
        canary!(DEAD_VERSIONS_FORGOTTEN else start.recovery_table.push(epoch, checkpointed, first_version))?;
    }
    // What the journal holds beyond the checkpoint is in the logs too, if they outlived the process.
    canary!(JOURNAL_NOT_REPLAYED => let records = Vec::new());
    let replay = if outlived {
        Vec::new()
    } else {
        records.into_iter().filter(|record| record.version() > checkpointed).collect()
    };
    Ok(RecoveryPlan { start, next_batch, replay })
}
