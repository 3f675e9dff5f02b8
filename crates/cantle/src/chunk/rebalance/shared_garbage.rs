//! Garbage of logs that chunks share since a split.
//!
//! The garbage of such a log is divided among its chunks by the bytes of their records, but the
//! entries that these records replaced may be of any length: a chunk with a few large records has
//! most of the log's garbage, and the chunks whose large entries were replaced by short ones have
//! almost none. When one of them is rebalanced, it is known how much was garbage. Bytes that were counted
//! and not found there are garbage of the others, and stay in the log's count for them. Otherwise
//! they would appear to have none, and the keyspace could exceed its space bound for good.
//!
//! Thread safety: any thread may call it, once for each rebalance.

use super::rebalance::Input;
use crate::chunk::Chunks;
use crate::log::segment::Segment;
use crate::run::run::Source;
use crate::run::writer::OutputTable;
use crate::sync::Arc;
use crate::sync::atomic::Ordering::Relaxed;
use std::collections::BTreeMap;

/// A log that other chunks share, and the rebalanced chunk's part of it.
struct Shared<'a> {
    segment: &'a Arc<Segment>,
    /// Bytes of the chunk's share.
    share_bytes: u64,
    /// Garbage that was counted for it.
    counted_bytes: u64,
}

impl Chunks {
    /// Leaves the garbage that a rebalance did not find to the chunks that still share its logs. Before
    /// the inputs are released.
    pub(super) fn pass_on_garbage(&self, input: &Input, outputs: &[OutputTable]) {
        let counted = input.funk.sizes();
        let tables = outputs.iter().map(|output| &output.table);
        let live_bytes: u64 = tables.map(|table| table.user_bytes.saturating_sub(table.stale_bytes)).sum();
        let found_bytes = counted.user_bytes.saturating_sub(live_bytes);
        let missed_bytes = counted.garbage_bytes.saturating_sub(found_bytes).min(self.sizes().live_bytes);
        // The shares are estimates, too.
        if missed_bytes <= counted.user_bytes / 16 {
            return;
        }
        let mut logs: BTreeMap<u64, Shared<'_>> = BTreeMap::new();
        for file in &input.funk.files {
            let (Source::Log(segment), Some(share_bytes), None) =
                (&file.source, file.share_bytes, &file.dropped)
            else {
                continue;
            };
            let garbage_bytes = segment.garbage_bytes.load(Relaxed) as f64;
            let part = share_bytes as f64 / segment.len().max(1) as f64 * file.kept_part();
            let log =
                logs.entry(segment.file.id).or_insert(Shared { segment, share_bytes: 0, counted_bytes: 0 });
            log.share_bytes += share_bytes;
            log.counted_bytes += (garbage_bytes * part) as u64;
        }
        let mut left_bytes = missed_bytes;
        for log in logs.values() {
            let moved_bytes = log.counted_bytes.min(left_bytes);
            left_bytes -= moved_bytes;
            self.leave_garbage(log, moved_bytes);
        }
    }

    /// Adds to the garbage of a log so much that the chunks which go on sharing it have this much more.
    fn leave_garbage(&self, log: &Shared<'_>, bytes: u64) {
        let (segment, whole_bytes) = (log.segment, log.segment.len());
        let gone_bytes = segment.file.claims.unclaimed_bytes().saturating_add(log.share_bytes);
        let others_bytes = whole_bytes.saturating_sub(gone_bytes);
        if bytes == 0 || others_bytes == 0 {
            return;
        }
        let more = bytes as f64 * (whole_bytes as f64 / others_bytes as f64);
        segment.garbage_bytes.fetch_add(more as u64, Relaxed);
        self.context.totals.garbage_bytes.fetch_add(bytes as i64, Relaxed);
        if segment.mark_dirty() {
            self.context.substrate.dirty.add(segment.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::chunk::rebalance::rebalance::Trigger;
    use crate::chunk::test_support::chunks_of;
    use crate::sync::Arc;
    use crate::vfs::MemVfs;
    use crate::{ChunkOptions, KeyspaceOptions, Options};
    use std::cmp::Reverse;
    use std::time::Duration;

    /// While large values are sorted into several chunks, most are replaced by short ones, in the log
    /// that these chunks share then. Its last records are large, and of one chunk.
    #[test]
    fn a_chunk_takes_no_garbage_of_others_along() {
        const VALUE_BYTES: usize = 8 << 10;
        let layout = ChunkOptions::new().munks(false).chunk_bytes(64 << 10).log_bytes(u64::MAX);
        let options = Options::new().default_keyspace(KeyspaceOptions::new().layout(layout));
        let options = options.checkpoint_interval(Duration::from_secs(3600)).write_buffer(false);
        let db = options.vfs(Arc::new(MemVfs::new())).open("store").unwrap();
        let put = |number: u64, bytes: usize| db.put(number.to_be_bytes(), vec![1; bytes]).unwrap();
        (0..80).for_each(|number| put(number, VALUE_BYTES));
        let chunks = chunks_of(&db);
        let parent = chunks.index.find(b"");
        let input = chunks.seal(&parent).unwrap().unwrap();
        (0..80).for_each(|number| put(number, 12));
        (80..100).for_each(|number| put(number, VALUE_BYTES));
        let live_bytes = 20 * (8 + VALUE_BYTES as u64) + 80 * 20;
        let mut grant = chunks.room_for(&parent, Trigger::Asked).unwrap();
        let outputs = chunks.merge_files(&input, &mut grant).unwrap();
        assert!(chunks.split(&parent, &input, &outputs).unwrap());

        let mut children: Vec<_> = chunks.index.view().iter().map(|(_, chunk)| chunk.clone()).collect();
        assert!(children.len() > 4, "{}", children.len());
        // Those first that appear to have the most garbage, like maintenance.
        children.sort_by_key(|child| Reverse(child.funk.load().sizes().garbage_bytes));
        let last = children.pop().unwrap();
        for child in children {
            assert!(chunks.rebalance(&child, Trigger::Asked).unwrap());
            let counted = chunks.sizes().live_bytes;
            assert!(
                counted.abs_diff(live_bytes) < live_bytes / 8,
                "{counted} live bytes, in truth {live_bytes}"
            );
        }
        assert!(chunks.rebalance(&last, Trigger::Asked).unwrap());
        assert_eq!(chunks.sizes().live_bytes, live_bytes);
    }
}
