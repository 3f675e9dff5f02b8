//! The progress of running merges, in words.

use crate::output::human_bytes;
use cantle::stats::RunningMerge;

/// The progress of a merge, as one line.
pub(crate) fn line(merge: &RunningMerge) -> String {
    let levels = match (merge.from_level, merge.to_level) {
        (0, to) => format!("logs into level {to}"),
        (from, to) if from == to => format!("within level {to}"),
        (from, to) => format!("levels {from} to {to}"),
    };
    let asked = if merge.is_asked { ", as asked for" } else { "" };
    let percent = merge.bytes_read.saturating_mul(100).checked_div(merge.bytes).unwrap_or(100);
    let (read, bytes) = (human_bytes(merge.bytes_read), human_bytes(merge.bytes));
    format!("merging {levels}{asked}: {read} of {bytes} read, {percent} %")
}
