//! Tiered merge: the newest files of a chunk become one table, and the older ones stay as they are.
//!
//! Each opening that writes to a chunk leaves a log there, and a process that lives only for a
//! moment never gets to a rebalance. A rebalance of the whole chunk for every few small logs would
//! write the chunk again and again. Instead, the newest files are merged, up to the first one that
//! is more than twice as long as all newer ones together (`policy::newest_run`). Each merge moves
//! the bytes that it rewrites to a file that is at least half as long again, so a byte is rewritten
//! O(log n) times.
//!
//! ```text
//!   before   [ active log ] [ log ][ log ][ table ]          [ table, longer than twice the three ]
//!   after    [ active log ] [ table of the three ]           [ the same table ]
//! ```
//!
//! A background thread does this as soon as a chunk has more than [`policy::FILES_MAX`] files. A
//! process may end before that, so closing and opening each do a share (`layout::Upkeep`). Closing
//! merges files if they are too many; opening, only the files that a killed process left.
//!
//! Invariants:
//!
//! * The table takes the place of the merged files, so the order of files stays that of age.
//! * The newest entry of each key is kept, even if it is a delete, unless there is nothing older
//!   beneath.
//! * Files with range deletes are left to a rebalance, as a table cannot hold range deletes.

use crate::chunk::Chunks;
use crate::chunk::chunk::Chunk;
use crate::chunk::policy;
use crate::chunk::rebalance::rebalance::{Trigger, table_ref};
use crate::layout::{Moment, Upkeep};
use crate::mvcc::Keep;
use crate::run::merged::Merged;
use crate::run::retain::{Bottom, keep_versions};
use crate::run::run::{Run, Source};
use crate::run::stack::RunStack;
use crate::run::writer::{Output, OutputTable};
use crate::sync::Arc;
use crate::sync::atomic::Ordering::Relaxed;
use crate::table::TableHandle;
use crate::types::error::{Error, Result};
use crate::types::span::Span;
use bytes::Bytes;

/// Maximum number of a chunk's files before an upkeep merges them, within its limit of bytes.
fn files_max(moment: Moment) -> usize {
    match moment {
        Moment::Opening => policy::FILES_MAX + 2,
        Moment::Closing => policy::FILES_MAX,
    }
}

/// Maximum number of a chunk's files before they are merged in any case: this bound must not depend
/// on their lengths.
const FILES_MOST: usize = 2 * policy::FILES_MAX;

impl Chunks {
    /// Does a share of merging files; true if anything was merged. At most a quarter of the chunks
    /// that are due: chunks that every process writes to are due at the same time.
    pub fn do_upkeep(&self, upkeep: &mut Upkeep) -> bool {
        canary!(FILES_LEFT_BEHIND => return false);
        let count = |chunk: &Arc<Chunk>| chunk.funk.load().files.len();
        let view = self.index.view();
        let mut due: Vec<(usize, Arc<Chunk>)> = view
            .iter()
            .map(|(_, chunk)| (count(chunk), chunk))
            .filter(|(files, _)| *files > files_max(upkeep.moment))
            .map(|(files, chunk)| (files, chunk.clone()))
            .collect();
        drop(view);
        due.sort_by_key(|(files, _)| std::cmp::Reverse(*files));
        let at_once = due.len().div_ceil(4);
        let mut merged = false;
        for (number, (files, chunk)) in due.into_iter().enumerate() {
            let is_urgent = files > FILES_MOST;
            if number >= at_once && !is_urgent {
                break;
            }
            let bytes = self.newest_run_bytes(&chunk);
            if bytes > upkeep.bytes && !is_urgent {
                continue;
            }
            upkeep.bytes = upkeep.bytes.saturating_sub(bytes);
            // If background threads have no time for it, a chunk is split when it is urgent.
            let is_oversized = is_urgent && policy::is_oversized(&self.chunk_sizes(&chunk), &self.limits());
            let done = match is_oversized {
                true => Ok(false),
                false => self.merge_newest(&chunk, Trigger::Asked),
            };
            let done = done.and_then(|done| Ok(done || self.rebalance(&chunk, Trigger::Asked)?));
            match done {
                Ok(done) => merged |= done,
                // Closing waits for no rebalance: it is left to the next opening.
                Err(Error::Closed) => {}
                // The files are as they were. Reads of a damaged one fail.
                Err(error) => tracing::warn!(%error, chunk = chunk.id, "cannot merge a chunk's files"),
            }
        }
        merged | self.compress_share(&mut upkeep.compressed_bytes)
    }

    fn newest_run_bytes(&self, chunk: &Chunk) -> u64 {
        let funk = chunk.funk.load();
        let bytes: Vec<u64> = funk.files.iter().map(Run::bytes).collect();
        bytes[..policy::newest_run(&bytes)].iter().sum()
    }

    /// Merges the newest files that are not written any more; false if this is not possible, or not
    /// now. `Trigger::Asked` goes on while the store is being closed.
    pub fn merge_newest(&self, chunk: &Arc<Chunk>, trigger: Trigger) -> Result<bool> {
        let context = &self.context;
        let Some(_change) = chunk.begin_change() else { return Ok(false) };
        let _span = tracing::debug_span!("tiered merge", chunk = chunk.id).entered();
        let (funk, newer) = {
            let writer = chunk.writer.lock();
            if writer.retired {
                return Ok(false);
            }
            (chunk.funk.load_full(), usize::from(writer.active.is_some()))
        };
        context.substrate.journal.wait_durable().map_err(|error| context.substrate.sync_failed(error))?;
        // Only now: a snapshot that is opened later needs only the newest entries.
        let keep = Keep::new(context.substrate.mvcc.open_versions());
        let sealed = &funk.files[newer..];
        let whole = sealed.iter().take_while(|file| file.dropped.is_none());
        let bytes: Vec<u64> = whole.map(Run::bytes).collect();
        let count = policy::newest_run(&bytes);
        if count < 2 {
            return Ok(false);
        }
        let run = RunStack { files: sealed[..count].to_vec() };
        // Logs that were written while there was a munk have noted operations, which reads do not
        // find.
        run.merge_deferred();
        let mut merged = Merged::new(&context.run, &run, true, |_| true)?;
        if merged.has_tombstones() {
            return Ok(false);
        }
        let base_version = self.base_version(&run)?;
        let bytes: u64 = bytes[..count].iter().sum();
        let mut grant = context.substrate.reserve.grant(bytes + bytes / 8 + (16 << 10), false)?;
        // One table of any length: a chunk is only split when all of it is rewritten.
        const WHOLE: u64 = 1 << 60;
        let pinned_below = keep.versions.last().map_or(0, |newest| newest + 1);
        let mut output = Output::new(context, (base_version, pinned_below), WHOLE, &mut grant);
        let bottom = if count == sealed.len() { Bottom::Reached } else { Bottom::Deeper };
        merged.cursor.seek_to_first()?;
        while let Some(key) = merged.cursor.entry().map(|entry| Bytes::copy_from_slice(entry.key)) {
            if trigger == Trigger::Background && context.substrate.health.is_closing() {
                return Err(Error::Closed);
            }
            let entries = keep_versions(context, &mut merged, &key, &keep, u64::MAX, bottom)?;
            if !entries.is_empty() {
                // This may start writing the table out. A failure of that counts as that of a sync.
                let added = output.add(entries.iter().map(|entry| entry.content()));
                added.map_err(|error| context.substrate.checked(error))?;
            }
        }
        let outputs = output.finish().map_err(|error| context.substrate.checked(error))?;
        drop(grant);
        let cancel = || outputs.iter().for_each(|output_table| output_table.discard(context));
        let position = StackPosition { newer, run: &run, older: sealed.len() - count };
        let flipped = context.substrate.reserve.with(|| self.flip_run(chunk, &position, &outputs));
        if !flipped.inspect_err(|_| cancel())? {
            cancel();
            return Ok(false);
        }
        tracing::debug!(chunk = chunk.id, count, bytes, "merged the newest files");
        Ok(true)
    }

    fn base_version(&self, run: &RunStack) -> Result<u64> {
        let context = &self.context;
        let mut base_version = u64::MAX;
        for file in &run.files {
            base_version = base_version.min(match &file.source {
                Source::Log(segment) => segment.parts(context)?.header.base_version,
                Source::Table(table) => {
                    table
                        .open(&context.tables, &context.files, &context.order, &context.cache)?
                        .header()
                        .base_version
                }
            });
        }
        Ok(base_version)
    }

    /// Replaces the merged files by the new table, if there is one.
    fn flip_run(
        &self,
        chunk: &Arc<Chunk>,
        position: &StackPosition<'_>,
        outputs: &[OutputTable],
    ) -> Result<bool> {
        let writer = chunk.writer.lock();
        if writer.retired {
            return Ok(false);
        }
        let before = chunk.funk.load_full();
        // Meanwhile other threads can only have added logs before all other files, or dropped
        // everything.
        let Some(start) = before.files.len().checked_sub(position.older + position.run.files.len()) else {
            return Ok(false);
        };
        debug_assert!(start >= position.newer, "a file went during a change");
        let (newer, rest) = before.files.split_at(start);
        let (run, older) = rest.split_at(position.run.files.len());
        let run = RunStack { files: run.to_vec() };
        let tables: Vec<Run> = outputs
            .iter()
            .map(|output_table| {
                let table = self.with_garbage_of(output_table, &position.run.files);
                table_ref(
                    &OutputTable { start: None, keys: Span::default(), table, reused: false },
                    chunk,
                    &run,
                    0,
                )
            })
            .collect();
        let files: Vec<Run> = newer.iter().chain(&tables).chain(older).cloned().collect();
        let Some(edit) = self.replacement(&[chunk], &[(chunk, &files)])? else { return Ok(false) };
        self.context.publish(&edit)?;
        tables.iter().for_each(|table| table.retain(&self.context.totals));
        let after = RunStack { files };
        self.account(&before.sizes(), &after.sizes());
        chunk.funk.store(Arc::new(after));
        drop(writer);
        self.pins.note_move();
        self.release(&run.files, &[]);
        Ok(true)
    }

    /// The table with the estimates of garbage: its own, and the garbage that the merged files made
    /// of older ones.
    fn with_garbage_of(&self, output_table: &OutputTable, run: &[Run]) -> Arc<TableHandle> {
        let table = &output_table.table;
        let (mut garbage_bytes, mut user_bytes) = (0, 0);
        for file in run {
            let (garbage, user, whole) = match &file.source {
                Source::Log(log) => {
                    (log.garbage_bytes.load(Relaxed), log.user_bytes.load(Relaxed), log.len())
                }
                Source::Table(table) => (table.stale_bytes, table.user_bytes, table.file.bytes()),
            };
            let share = file.bytes() as f64 / whole.max(1) as f64;
            garbage_bytes += (garbage as f64 * share) as u64;
            user_bytes += (user as f64 * share) as u64;
        }
        let gone_bytes = user_bytes.saturating_sub(table.user_bytes);
        let elsewhere_bytes = garbage_bytes.saturating_sub(gone_bytes).min(self.sizes().live_bytes);
        Arc::new(TableHandle {
            file: table.file.clone(),
            user_bytes: table.user_bytes,
            stale_bytes: table.stale_bytes + elsewhere_bytes,
            large_bytes: table.large_bytes,
            entries: table.entries,
            pinned_below: table.pinned_below,
            base_version: table.base_version,
            newest_version: table.newest_version,
            has_deleted: table.has_deleted,
            referred: Box::default(),
            description: table.description.clone(),
        })
    }
}

/// Position of the merged files in their chunk.
struct StackPosition<'a> {
    /// Number of files before them when the merge began.
    newer: usize,
    run: &'a RunStack,
    /// Number of files after them, which does not change during the merge.
    older: usize,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chunk::test_support::chunks_of;
    use crate::vfs::{Failure, FaultVfs, MemVfs, Operation, Verdict};
    use crate::{ChunkOptions, KeyspaceOptions, Options};
    use std::time::Duration;

    /// A table of more than a MiB is partly written out before it is synced. A failure of that
    /// counts as that of a sync.
    #[test]
    fn a_merge_whose_table_cannot_be_written_out_makes_the_store_read_only() {
        let disk = MemVfs::new();
        let vfs = FaultVfs::over_memory(disk.clone());
        let open = || {
            let keyspace =
                KeyspaceOptions::new().layout(ChunkOptions::new().munks(false).log_bytes(u64::MAX));
            let options = Options::new().default_keyspace(keyspace).write_buffer(false);
            options
                .checkpoint_interval(Duration::from_secs(3600))
                .vfs(Arc::new(vfs.clone()))
                .open("store")
                .unwrap()
        };
        for opening in 0..4u8 {
            open().put([opening], vec![opening; 800_000]).unwrap();
        }
        let db = open();
        let chunks = chunks_of(&db);
        vfs.set_rule(|call| match call.operation {
            Operation::StartWriteback => Verdict::Fail(Failure::EIO),
            _ => Verdict::Pass,
        });
        let merged = chunks.merge_newest(&chunks.index.find(b""), Trigger::Asked);
        vfs.clear_rule();
        assert!(merged.is_err_and(|error| error.is_sync()));
        assert!(db.stats().read_only.is_some());
    }
}
