//! `cantle compact`: sorts logs into tables and drops garbage.

use super::scan::RangeArgs;
use crate::failure::Outcome;
use crate::measure::disk::allocated_bytes;
use crate::merging;
use crate::output::{Output, human_bytes, note};
use crate::progress::Progress;
use crate::store::{Access, KeyArgs, StoreArgs};
use cantle::Keyspace;
use cantle::stats::KeyspaceStats;
use clap::Args;
use serde_json::json;
use std::io;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

/// Interval at which the statistics are looked at while the compaction runs.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);

/// Sort logs into tables and drop garbage, over all keys or a range
///
/// Meanwhile standard error shows the bytes that were written, and in the layout flsm the merges that
/// run, each with the bytes that it has read.
///
/// --json prints one object: bytes_before and bytes_after, of the store's directory (null where they cannot be read).
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Compact {
    #[command(flatten)]
    store: StoreArgs,
    #[command(flatten)]
    range: RangeArgs,
    #[command(flatten)]
    keys: KeyArgs,
    /// The report as JSON
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  cantle compact flights
  cantle compact flights --prefix UA";

impl Compact {
    pub(crate) fn run(self) -> Outcome {
        // An open store sets space aside, so that its files are measured before and after.
        let size = || allocated_bytes(&self.store.db);
        let before = size();
        let opened = self.store.open(Access::Write)?;
        let (codec, _) = opened.codec(&self.keys)?;
        let bounds = self.range.bounds(&codec)?;
        showing_progress(&opened.keyspace, || opened.keyspace.compact_range(bounds))?;
        // Files that were replaced go when a checkpoint covers the change.
        opened.db.sync()?;
        opened.db.close()?;
        let after = size();
        if self.json {
            let mut output = Output::new();
            output.json(&json!({ "bytes_before": before.ok(), "bytes_after": after.ok() }))?;
            return output.finish();
        }
        let told = |bytes: io::Result<u64>| bytes.map_or_else(|_| "unknown size".to_owned(), human_bytes);
        note(format_args!(
            "compacted {}: {} before, {} now",
            self.store.db.display(),
            told(before),
            told(after)
        ));
        Ok(())
    }
}

/// Runs a compaction of the keyspace in another thread, and shows how far it is.
fn showing_progress<T: Send>(keyspace: &Keyspace, compact: impl FnOnce() -> T + Send) -> T {
    let mut progress = Progress::new("compacting", None);
    let begun = keyspace.stats();
    std::thread::scope(|scope| {
        let (end, ended) = channel::<()>();
        let compaction = scope.spawn(move || {
            let _end = end;
            compact()
        });
        while ended.recv_timeout(LOOK_INTERVAL) == Err(RecvTimeoutError::Timeout) {
            progress.show(|| figures(&begun, &keyspace.stats()));
        }
        compaction.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// The bytes written since the compaction began, and the merges that run.
fn figures(begun: &KeyspaceStats, now: &KeyspaceStats) -> String {
    let written = now.table_bytes_written.saturating_sub(begun.table_bytes_written);
    let merges = now.lsm().map_or(&[][..], |lsm| lsm.running_merges);
    let mut text = format!("{} written", human_bytes(written));
    for merge in merges {
        text += "; ";
        text += &merging::line(merge);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use cantle::stats::{FlsmStats, LayoutStats, RunningMerge};
    use std::panic::AssertUnwindSafe;

    #[test]
    fn figures_are_the_bytes_written_and_the_merges_that_run() {
        let mut begun = KeyspaceStats::default();
        begun.table_bytes_written = 1000;
        let mut now = begun.clone();
        now.table_bytes_written = 4000;
        assert_eq!(figures(&begun, &now), "3.0 kB written");
        let (mut merge, mut flsm) = (RunningMerge::default(), FlsmStats::default());
        (merge.from_level, merge.to_level) = (2, 2);
        (merge.bytes_read, merge.bytes) = (500, 2000);
        flsm.running_merges.push(merge);
        now.of_layout = LayoutStats::Flsm(flsm);
        let merges = "merging within level 2: 500 B of 2.0 kB read, 25 %";
        assert_eq!(figures(&begun, &now), format!("3.0 kB written; {merges}"));
    }

    #[test]
    fn the_outcome_of_a_compaction_is_that_of_its_thread() {
        let dir = tempfile::tempdir().unwrap();
        let db = cantle::Db::open(dir.path()).unwrap();
        let keyspace = db.keyspace("k").unwrap();
        assert_eq!(showing_progress(&keyspace, || 7), 7);
        let panics = AssertUnwindSafe(|| showing_progress(&keyspace, || -> u32 { panic!("why") }));
        let panicked = std::panic::catch_unwind(panics);
        assert_eq!(panicked.unwrap_err().downcast_ref::<&str>(), Some(&"why"));
    }
}
