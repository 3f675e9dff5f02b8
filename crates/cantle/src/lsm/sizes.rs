//! Sizes of runs by which layouts choose merges: what is garbage in them, and what a merge writes.

use super::shape::Rules;
use crate::run::retain::Bottom;
use crate::run::run::{Run, Source};
use crate::sync::atomic::Ordering::Relaxed;

/// Number of entries of a run, unless it is dropped. Those of a shared file count by its share.
pub fn entries_of(run: &Run) -> u64 {
    match &run.source {
        _ if run.dropped.is_some() => 0,
        Source::Table(table) => kept_share_of(run, table.entries),
        Source::Log(log) => kept_share_of(run, log.puts.load(Relaxed)),
    }
}

/// The run's share of a total of its file, without that of dropped ranges.
fn kept_share_of(run: &Run, total: u64) -> u64 {
    (share_of(run, total) as f64 * run.kept_part()) as u64
}

/// The run's share of a total of its file.
fn share_of(run: &Run, total: u64) -> u64 {
    let Some(share_bytes) = run.share_bytes else { return total };
    let file_bytes = match &run.source {
        Source::Table(table) => table.file.bytes(),
        Source::Log(log) => log.len(),
    };
    (total as f64 * (share_bytes as f64 / file_bytes.max(1) as f64).min(1.0)) as u64
}

/// Bytes of replaced values that a merge of the run with all that is older would free, those in logs too.
fn replaced_bytes(run: &Run, oldest_snapshot: u64) -> u64 {
    match &run.source {
        Source::Table(table) if table.pinned_below <= oldest_snapshot => {
            kept_share_of(run, table.stale_bytes)
        }
        _ => 0,
    }
}

/// Bytes that a merge writes for a run, without values that it copies.
pub fn written_of(run: &Run, bottom: Bottom, oldest_snapshot: u64) -> u64 {
    let replaced = match bottom {
        Bottom::Reached => (replaced_bytes(run, oldest_snapshot) as f64 / run.whole_per_byte()) as u64,
        Bottom::Deeper => 0,
    };
    run.bytes().saturating_sub(run.dropped_inline_bytes(oldest_snapshot)).saturating_sub(replaced)
}

/// Bytes of the files of runs, of the values in logs that they refer to, and of their portion of what nobody
/// claims any more of both.
pub fn held_bytes(runs: &[Run]) -> u64 {
    runs.iter().map(|run| run.whole_bytes() + run.unclaimed_bytes()).sum()
}

/// Bytes of replaced values, and of dropped ranges, that a merge of these runs with all that is older would free.
pub fn stale_bytes(runs: &[Run], oldest_snapshot: u64) -> u64 {
    let stale = |run: &Run| replaced_bytes(run, oldest_snapshot) + run.dropped_bytes(oldest_snapshot);
    runs.iter().map(stale).sum()
}

/// Bytes of garbage of these runs, and of garbage in older runs of other groups that their entries hide: each
/// entry counts where the next newer one of its key is.
pub fn freeable_bytes(runs: &[Run], oldest_snapshot: u64) -> u64 {
    stale_bytes(runs, oldest_snapshot) + runs.iter().map(Run::unclaimed_bytes).sum::<u64>()
}

/// The part of this garbage that a merge of the runs makes away with, or brings nearer to the last level: it
/// copies the values of sparse logs.
pub fn gain_bytes(runs: &[Run], rules: &Rules) -> u64 {
    let sparse = rules.sparse_part();
    let unclaimed: u64 = runs.iter().map(|run| run.freeable_unclaimed_bytes(sparse)).sum();
    stale_bytes(runs, rules.oldest_snapshot) + unclaimed
}
