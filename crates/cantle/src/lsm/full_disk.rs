//! A full disk: deletes go on, and merges free what they hide, though each merge needs space itself.
//!
//! The store keeps a reserve for that (`substrate::reserve`). While space is short, merges
//! that free most, of those that have room, come first ([`Rules::disk_room`](super::shape::Rules::disk_room)); a
//! group that is too long for one merge goes down in several. Range deletes take effect on tables before any merge
//! ([`dropped_early`](super::dropped_early)). Obsolete files go with the next checkpoint, and a
//! generation with deletes is sealed once nobody writes: only its index tells what they hide. Long values are
//! copied from the sparsest logs first, as no space is free before a log is empty.

use super::keyspace::Lsm;
use super::maintain::PAUSE_TICKS;
use super::merge::{Planned, Trigger};
use super::shape::{Piece, Shape, with_overhead};
use super::view::View;
use crate::files::StoreFile;
use crate::log::segment::Segment;
use crate::run::referred::Copying;
use crate::run::retain::Bottom;
use crate::run::run::{Run, Source};
use crate::run::stack::{RunStack, StackSizes};
use crate::substrate::Grant;
use crate::sync::Arc;
use crate::sync::atomic::Ordering::Relaxed;
use crate::types::error::Result;
use std::cmp::Reverse;
use std::collections::HashMap;

/// Ticks after which merges that found no room are tried again: about five seconds.
const RETRY_TICKS: u64 = 256;
/// Bytes that any output takes beside its entries.
const OUTPUT_BYTES: u64 = 16 << 10;

/// Estimated bytes that a merge of runs of these sizes writes. `copied_bytes` are of values that lie in logs.
fn written_bytes(sizes: &StackSizes, copied_bytes: u64, bottom: Bottom) -> u64 {
    let bytes = sizes.table_bytes.saturating_add(sizes.log_bytes.saturating_sub(sizes.referred_bytes));
    // Only the next level knows what the others hide.
    let garbage_bytes = if bottom == Bottom::Reached { sizes.garbage_bytes } else { 0 };
    let gone_bytes = garbage_bytes.saturating_add(sizes.dropped_bytes);
    with_overhead(bytes.saturating_sub(gone_bytes).saturating_add(copied_bytes))
}

/// True if a log has deletes, as far as its operations are known.
fn has_deletes(log: &Segment) -> bool {
    let Some(parts) = log.loaded() else { return false };
    let in_memory = parts.memory.as_ref().map_or(0, |memory| memory.len() as u64);
    let indexed = parts.indexed.first().map_or(0, |newest| newest.operations);
    in_memory + indexed > log.puts.load(Relaxed)
}

/// True if a run of level 0 is known to hide something.
pub(super) fn hides(run: &Run) -> bool {
    match &run.source {
        Source::Log(log) => log.garbage_bytes.load(Relaxed) > 0 || has_deletes(log),
        Source::Table(table) => table.has_deleted || table.stale_bytes > 0,
    }
}

/// The logs that tables refer to, each once: its length, and the part that is unclaimed.
fn referred_logs<S: Shape>(view: &View<S>) -> Vec<(u64, u64)> {
    let logs = view.tables().flat_map(Run::referred).map(|referred| &referred.log);
    let logs: HashMap<u64, &Arc<StoreFile>> = logs.map(|log| (log.id, log)).collect();
    logs.values().map(|log| (log.bytes(), log.claims.unclaimed_bytes())).collect()
}

/// The part of a log, in thousandths, above which logs are so sparse that all that is left of them takes at most
/// half of the room: merges have to write more besides.
fn sparse_least(logs: &[(u64, u64)], room: u64) -> u32 {
    let part = |&(bytes, unclaimed): &(u64, u64)| (unclaimed.saturating_mul(1000) / bytes.max(1)) as u32;
    let mut sparsest: Vec<_> = logs.iter().collect();
    sparsest.sort_by_key(|log| Reverse(part(log)));
    let mut left_bytes = 0;
    let beyond = sparsest.into_iter().find(|(bytes, unclaimed)| {
        left_bytes += bytes.saturating_sub(*unclaimed);
        with_overhead(left_bytes) > room / 2
    });
    beyond.map_or(0, |log| part(log) + 1)
}

impl<S: Shape> Lsm<S> {
    /// Bytes that a merge which frees space may write, if space is short.
    pub(super) fn disk_room(&self) -> Option<u64> {
        canary!(FULL_DISK_UNNOTICED => return None);
        self.substrate.reserve.short_room().map(|room| room.saturating_sub(OUTPUT_BYTES))
    }

    /// Space for the output of a merge. One that the user asks for may have little to write, after a range delete
    /// for example: it takes space as it needs it.
    pub(super) fn room_for(
        &self,
        Planned { logs, job }: &Planned,
        copying: Copying,
        trigger: Trigger,
    ) -> Result<Grant<'_>> {
        let reserve = &self.substrate.reserve;
        if trigger == Trigger::Asked {
            return reserve.grant(0, true);
        }
        let written = |piece: &Piece| {
            let copied_bytes = piece.tables.iter().map(|run| run.copied_bytes(copying.sparse)).sum();
            written_bytes(&RunStack { files: piece.tables.clone() }.sizes(), copied_bytes, piece.bottom)
        };
        let bytes = job.pieces.iter().map(written).sum::<u64>()
            + with_overhead(self.merged_bytes(logs))
            + OUTPUT_BYTES;
        canary!(FULL_DISK_UNNOTICED => return reserve.grant(bytes, false));
        // Merges further down free what the deletes of level 0 hide.
        let leads_to_gain = reserve.is_full() && !logs.is_empty() && self.view().level0.iter().any(hides);
        if job.frees_space || reserve.is_full() {
            self.jobs.merging.without_room.fetch_or(job.groups_mask(), Relaxed);
        }
        reserve.grant(bytes, job.frees_space || leads_to_gain)
    }

    /// Runs a merge, and if it finds no space, again after a checkpoint that frees obsolete files. The caller must
    /// hold no lock.
    pub(super) fn with_freed(&self, merge: impl Fn() -> Result<bool>) -> Result<bool> {
        match merge() {
            Err(error) if error.is_no_space() && self.substrate.files.held_bytes() > 0 => {
                self.substrate.checkpoint()?;
                merge()
            }
            done => done,
        }
    }

    /// Called at each tick.
    pub(super) fn free_full_disk(&self, view: &View<S>) {
        let substrate = &self.substrate;
        substrate.reserve.expect(view.shape.least_merge_bytes(&self.limits().rules));
        let room = self.disk_room();
        let sparse_least = room.map_or(0, |room| sparse_least(&referred_logs(view), room));
        let Some(merging) = self.jobs.merging.peek().or_else(|| room.map(|_| &*self.jobs.merging)) else {
            return;
        };
        merging.sparse_least.store(sparse_least, Relaxed);
        if room.is_none() || self.jobs.ticks.load(Relaxed).is_multiple_of(RETRY_TICKS) {
            merging.without_room.store(0, Relaxed);
        }
        if room.is_none() {
            return;
        }
        if substrate.files.held_bytes() > 0 {
            substrate.checkpoints.want();
        }
        let Some(active) = &view.active else { return };
        if has_deletes(&active.log.segment) && self.jobs.idle_ticks.load(Relaxed) >= PAUSE_TICKS {
            self.rotation.seal_if_active(active);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merges_copy_from_the_sparsest_logs_that_have_room() {
        let logs = [(1000, 500), (1000, 900), (1000, 100), (1000, 0)];
        assert_eq!(sparse_least(&logs, 1 << 20), 0, "there is room for all");
        assert_eq!(sparse_least(&logs, 4000), 1, "all but the last");
        assert_eq!(sparse_least(&logs, 1400), 101, "600 bytes and an eighth");
        assert_eq!(sparse_least(&logs, 1300), 501);
        assert_eq!(sparse_least(&logs, 0), 901, "none");
        assert_eq!(sparse_least(&[(0, 0), (u64::MAX, u64::MAX)], 0), 0, "nothing is left of it");
        assert_eq!(sparse_least(&[], 0), 0);
    }

    #[test]
    fn only_a_merge_into_the_last_level_writes_less_than_it_reads() {
        let sizes = StackSizes {
            table_bytes: 1 << 20,
            garbage_bytes: 1 << 19,
            dropped_bytes: 1 << 18,
            ..StackSizes::default()
        };
        assert_eq!(written_bytes(&sizes, 0, Bottom::Reached), with_overhead(1 << 18));
        assert_eq!(written_bytes(&sizes, 0, Bottom::Deeper), with_overhead(3 << 18));
        let more = StackSizes { garbage_bytes: u64::MAX, ..sizes };
        assert_eq!(written_bytes(&more, 0, Bottom::Reached), 0);
    }

    #[test]
    fn values_that_are_copied_from_logs_take_space() {
        let referred = StackSizes { referred_bytes: 1 << 20, log_bytes: 1 << 20, ..StackSizes::default() };
        let written = |copied_bytes| written_bytes(&referred, copied_bytes, Bottom::Reached);
        assert_eq!(written(0), 0);
        assert_eq!(written(1 << 20), with_overhead(1 << 20));
    }
}
