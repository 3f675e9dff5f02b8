//! Decides, from the manifest and the journal, which writes of earlier epochs count.

use crate::format::codec::{Malformed, NUMBER_MAX, within};
use crate::journal::JournalRecord;
use crate::manifest::{StartEdit, State};
use crate::mvcc::EpochBatches;
use crate::substrate::VERSIONS_PER_CHECKPOINT;
use std::collections::HashSet;

/// The beginning of the next epoch.
pub(crate) struct RecoveryPlan {
    pub start: StartEdit,
    /// The number of the next spanning batch.
    pub next_batch: u64,
    /// Writes of the journal that must be applied again.
    pub replay: Vec<JournalRecord>,
}

/// `outlived` is true if the page cache outlived the process that wrote last, so that everything
/// counts.
pub(crate) fn plan_recovery(
    state: &State,
    outlived: bool,
    records: Vec<JournalRecord>,
) -> Result<RecoveryPlan, Malformed> {
    // Versions of the new epoch are above all that earlier epochs may have used.
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
    // Dead writes of an epoch are in files of that epoch only. Once all of these files are gone,
    // the plan no longer needs to know which writes were dead.
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
    // The next opening must be able to represent all numbers that follow from these.
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
    // If the logs outlived the process, they contain the writes that the journal has beyond the
    // checkpoint.
    canary!(JOURNAL_NOT_REPLAYED => let records = Vec::new());
    let replay = if outlived {
        Vec::new()
    } else {
        records.into_iter().filter(|record| record.version() > checkpointed).collect()
    };
    Ok(RecoveryPlan { start, next_batch, replay })
}
