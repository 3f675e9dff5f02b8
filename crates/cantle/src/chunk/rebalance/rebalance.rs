//! Funk rebalance (EvenDB §3.4): merges a chunk's files into new tables, without blocking puts.
//!
//! The log is sealed under the chunk's lock. Puts that come meanwhile open another segment, which
//! the merge does not read. When the new tables are durable, they replace the merged files: the
//! edit is appended to the manifest, the funk is replaced, and only then are the old files
//! released. After a power loss in between, the old files are used; they stay until a checkpoint
//! covers the new ones.

use crate::chunk::Chunks;
use crate::chunk::chunk::Chunk;
use crate::chunk::munk::{Munk, Record};
use crate::chunk::policy;
use crate::mvcc::{Keep, KeySpan, SnapshotGuard};
use crate::run::cut::separate;
use crate::run::merged::Merged;
use crate::run::retain::{Bottom, keep_versions};
use crate::run::run::{Run, Source};
use crate::run::stack::RunStack;
use crate::run::writer::{KeptEntry, Output, OutputTable};
use crate::substrate::Grant;
use crate::sync::Arc;
use crate::table::TableHandle;
use crate::types::entry::Kind;
use crate::types::error::{Error, Result};
use crate::types::span::Span;
use bytes::Bytes;
use std::cmp::Ordering;
use std::collections::HashSet;

/// Inputs of a rebalance.
pub struct Input {
    pub funk: Arc<RunStack>,
    /// Dropped files that a snapshot still reads: they stay unchanged.
    pub kept: Vec<Run>,
    /// True if some dropped files are removed.
    pub purges: bool,
    keep: Keep,
    /// True if the merge goes on while the store is being closed.
    while_closing: bool,
    /// The chunk's munk, and the snapshot of it that is flushed: everything written before the log
    /// was sealed.
    munk: Option<(Arc<Munk>, SnapshotGuard)>,
}

impl Input {
    /// True if there is a file to read: the others are only removed.
    fn merges(&self) -> bool {
        self.funk.files.iter().any(|file| file.dropped.is_none())
    }
}

/// The origin of a rebalance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trigger {
    /// Maintenance. It uses the reserve only if that frees space, or keeps a log from growing too
    /// long.
    Background,
    /// The user.
    Asked,
    /// Closing, which does not interrupt its own rebalances.
    Closing,
}

/// A table whose keys do not overlap those of the chunk's logs.
struct Apart {
    table: Arc<TableHandle>,
    /// True if it is before them.
    before: bool,
    /// The key at which the former ends and the latter begins.
    boundary: Bytes,
}

impl Chunks {
    /// Rebalances a chunk; false if another thread is doing so, or there is nothing to do.
    ///
    /// It begins only if there is space for its output. One that frees something may use the part
    /// of the reserve for that. A failed sync of a new table turns the store read-only (but see
    /// `Error::sync_unreferenced`).
    pub fn rebalance(&self, chunk: &Arc<Chunk>, trigger: Trigger) -> Result<bool> {
        let Some(_change) = chunk.begin_change() else { return Ok(false) };
        let _span = tracing::debug_span!("rebalance", chunk = chunk.id).entered();
        // Before the log is sealed, as the next log takes space, too.
        let mut grant = self.room_for(chunk, trigger)?;
        let Some(mut input) = self.seal(chunk)? else { return Ok(false) };
        input.while_closing = trigger == Trigger::Closing;
        if !input.merges() && !input.purges {
            return Ok(false);
        }
        let merged = self.merge_files(&input, &mut grant);
        let outputs = merged.map_err(|error| self.context.substrate.checked(error))?;
        // The output's space is counted by the file system now.
        drop(grant);
        let cancel = |outputs: &[OutputTable]| {
            outputs.iter().for_each(|output_table| output_table.discard(&self.context))
        };
        let flipped = self.context.substrate.reserve.with(|| {
            if outputs.len() > 1 {
                self.split(chunk, &input, &outputs)
            } else {
                self.flip(chunk, &input, &outputs)
            }
        });
        if !flipped.inspect_err(|_| cancel(&outputs))? {
            cancel(&outputs);
            return Ok(false);
        }
        chunk.forgive_reads();
        self.pins.note_move();
        Ok(true)
    }

    pub(in crate::chunk) fn room_for(&self, chunk: &Chunk, trigger: Trigger) -> Result<Grant<'_>> {
        let sizes = self.chunk_sizes(chunk);
        let may_use_reserve = trigger == Trigger::Asked
            || policy::gain(&sizes) >= policy::GAIN_MIN
            // If left to grow, it might never find space.
            || policy::due(&sizes, &self.limits(), &self.sizes()) == Some(policy::Reason::LogFull);
        self.context.substrate.reserve.grant(policy::output_bytes(&sizes), may_use_reserve)
    }

    /// Sets the space that the reserve keeps for a rebalance: for a table of one and a half chunks,
    /// and as much for a log.
    pub fn expect_rebalances(&self) {
        self.context.substrate.reserve.expect(3 * self.limits().chunk_bytes);
    }

    /// Diverts puts to a new segment, and collects everything before.
    pub(in crate::chunk) fn seal(&self, chunk: &Arc<Chunk>) -> Result<Option<Input>> {
        let (funk, munk) = {
            let mut writer = chunk.writer.lock();
            if writer.retired {
                return Ok(None);
            }
            writer.active = None;
            // While the lock is held, no write to the chunk is announced: later ones have greater
            // versions.
            let munk = chunk
                .munk
                .load_full()
                .map(|munk| (munk, self.context.substrate.mvcc.own_snapshot(KeySpan::EMPTY)));
            (chunk.funk.load_full(), munk)
        };
        self.context
            .substrate
            .journal
            .wait_durable()
            .map_err(|error| self.context.substrate.sync_failed(error))?;
        // Only now: a snapshot that is opened later needs only the newest version of each key in
        // these files.
        let open = self.context.substrate.mvcc.open_versions();
        let dropped = || funk.files.iter().filter(|file| file.dropped.is_some());
        let kept: Vec<Run> = dropped().filter(|file| file.is_needed(&open)).cloned().collect();
        let purges = dropped().count() > kept.len();
        if munk.is_some() {
            // These logs are not written any more; the code below may search them.
            funk.merge_deferred();
        }
        Ok(Some(Input { funk, kept, purges, keep: Keep::new(open), while_closing: false, munk }))
    }

    pub(in crate::chunk) fn merge_files(
        &self,
        input: &Input,
        grant: &mut Grant<'_>,
    ) -> Result<Vec<OutputTable>> {
        let Some(apart) = self.table_apart(input)? else {
            return match &input.munk {
                Some((munk, snapshot)) => self.flush(input, grant, munk, snapshot.version()),
                None => self.merge_into_tables(input, grant, |file| file.dropped.is_none()),
            };
        };
        // Sequential inserts: the log continues the table, which need not be rewritten.
        let mut outputs = self.merge_into_tables(input, grant, |file| {
            file.dropped.is_none() && matches!(file.source, Source::Log(_))
        })?;
        let output_table =
            OutputTable { start: None, keys: Span::default(), table: apart.table, reused: true };
        if apart.before {
            if let Some(first) = outputs.first_mut() {
                first.start = Some(apart.boundary);
            }
            outputs.insert(0, output_table);
        } else {
            outputs.push(OutputTable { start: Some(apart.boundary), ..output_table });
        }
        Ok(outputs)
    }

    /// The chunk's only table, if it is large and no key of its logs lies within it.
    fn table_apart(&self, input: &Input) -> Result<Option<Apart>> {
        let context = &self.context;
        let mut tables = input.funk.files.iter().filter(|file| file.dropped.is_none()).filter_map(|file| {
            match &file.source {
                Source::Table(table) => Some((file, table)),
                Source::Log(_) => None,
            }
        });
        let (Some((file, handle)), None) = (tables.next(), tables.next()) else { return Ok(None) };
        let logs = |file: &Run| file.dropped.is_none() && matches!(file.source, Source::Log(_));
        let log_bytes: u64 = input.funk.files.iter().filter(|file| logs(file)).map(Run::bytes).sum();
        let large = policy::is_table_kept(handle.file.bytes(), log_bytes, &self.limits());
        if !large || !input.kept.is_empty() {
            return Ok(None);
        }
        let table = handle.open(&context.tables, &context.files, &context.order, &context.cache)?;
        let (smallest, largest) = (&table.meta().smallest, &table.meta().largest);
        if !file.span.contains(&context.order, smallest) || !file.span.contains(&context.order, largest) {
            return Ok(None); // a shared table: only a part of it belongs to this chunk
        }
        let mut merged = Merged::new(&context.run, &input.funk, true, logs)?;
        if merged.has_tombstones() {
            return Ok(None);
        }
        let key = |merged: &Merged| merged.cursor.entry().map(|entry| Bytes::copy_from_slice(entry.key));
        merged.cursor.seek_to_first()?;
        let first = key(&merged);
        merged.cursor.seek_to_last()?;
        let (Some(first), Some(last)) = (first, key(&merged)) else { return Ok(None) };
        let less = |a: &[u8], b: &[u8]| context.order.compare(a, b) == Ordering::Less;
        let apart = if less(largest, &first) {
            let boundary = separate(&context.order, largest, &first);
            Some(Apart { table: handle.clone(), before: true, boundary })
        } else if less(&last, smallest) {
            let boundary = separate(&context.order, &last, &Bytes::copy_from_slice(smallest));
            Some(Apart { table: handle.clone(), before: false, boundary })
        } else {
            None
        };
        // Under some comparators an empty key is not the smallest. It is no boundary (`geometry`).
        Ok(apart.filter(|apart| !apart.boundary.is_empty()))
    }

    fn merge_into_tables(
        &self,
        input: &Input,
        grant: &mut Grant<'_>,
        take: impl Fn(&Run) -> bool,
    ) -> Result<Vec<OutputTable>> {
        let context = &self.context;
        let Some(mut output) = self.output_for(input, grant, &take)? else { return Ok(Vec::new()) };
        let mut merged = Merged::new(&context.run, &input.funk, true, take)?;
        merged.cursor.seek_to_first()?;
        while let Some(key) = merged.cursor.entry().map(|entry| Bytes::copy_from_slice(entry.key)) {
            if context.substrate.health.is_closing() && !input.while_closing {
                return Err(Error::Closed);
            }
            let entries = keep_versions(context, &mut merged, &key, &input.keep, u64::MAX, Bottom::Reached)?;
            if !entries.is_empty() {
                output.add(entries.iter().map(KeptEntry::content))?;
            }
        }
        output.finish()
    }

    /// The same from the munk, without reading a file (EvenDB §3.4).
    fn flush(
        &self,
        input: &Input,
        grant: &mut Grant<'_>,
        munk: &Munk,
        upto: u64,
    ) -> Result<Vec<OutputTable>> {
        let context = &self.context;
        let take = |file: &Run| file.dropped.is_none();
        let Some(mut output) = self.output_for(input, grant, take)? else { return Ok(Vec::new()) };
        context.counters.munk_flushes.add(1);
        let mut versions = munk.versions(upto).peekable();
        let mut entries = Vec::new();
        while let Some(newest) = versions.next() {
            if context.substrate.health.is_closing() && !input.while_closing {
                return Err(Error::Closed);
            }
            entries.clear();
            entries.push(newest.content());
            let mut newer = newest.version();
            let same =
                |record: &&Record| context.order.compare(record.key(), newest.key()) == Ordering::Equal;
            while let Some(older) = versions.next_if(same) {
                let needed = input.keep.needed(Some(newer), older.version());
                canary!(SNAPSHOT_VERSIONS_DROPPED => let needed = false);
                if needed {
                    entries.push(older.content());
                }
                newer = older.version();
            }
            // There is nothing older for these deletes to hide.
            while entries.pop_if(|entry| entry.kind == Kind::Delete).is_some() {}
            if !entries.is_empty() {
                output.add(entries.iter().copied())?;
            }
        }
        output.finish()
    }

    /// The output of a merge of these files; `None` if there are none.
    fn output_for<'a, 'r>(
        &'a self,
        input: &Input,
        grant: &'a mut Grant<'r>,
        take: impl Fn(&Run) -> bool,
    ) -> Result<Option<Output<'a>>> {
        let context = &self.context;
        let mut base_version = u64::MAX;
        let mut bytes = 0;
        for file in input.funk.files.iter().filter(|file| take(file)) {
            bytes += file.bytes();
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
        if base_version == u64::MAX {
            return Ok(None);
        }
        let live_bytes = bytes.saturating_sub(input.funk.sizes().garbage_bytes);
        let limits = self.limits();
        let count = policy::split_count(live_bytes, &limits);
        // The estimate may be wrong: no table becomes much longer than a full chunk.
        let target_bytes =
            if count == 1 { limits.chunk_bytes + limits.chunk_bytes / 2 } else { live_bytes / count };
        let pinned_below = input.keep.versions.last().map_or(0, |newest| newest + 1);
        Ok(Some(Output::new(context, (base_version, pinned_below), target_bytes, grant)))
    }

    /// Replaces the merged files by the new tables; false if the keyspace was dropped meanwhile.
    pub(in crate::chunk) fn flip(
        &self,
        chunk: &Arc<Chunk>,
        input: &Input,
        outputs: &[OutputTable],
    ) -> Result<bool> {
        let writer = chunk.writer.lock();
        if writer.retired {
            return Ok(false);
        }
        let before = chunk.funk.load_full();
        let mut files = newer_files(&before, input);
        let newer = files.len();
        files.extend(outputs.iter().map(|output_table| table_ref(output_table, chunk, &before, newer)));
        files.extend(input.kept.iter().cloned());
        let Some(edit) = self.replacement(&[chunk], &[(chunk, &files)])? else { return Ok(false) };
        canary!(REBALANCE_UNTOLD else self.context.publish(&edit))?;
        for table in &files[newer..newer + outputs.len()] {
            table.retain(&self.context.totals);
        }
        let after = RunStack { files };
        self.account(&before.sizes(), &after.sizes());
        chunk.funk.store(Arc::new(after));
        drop(writer);
        self.count_rebalance(input, outputs);
        self.release(&input.funk.files, &input.kept);
        Ok(true)
    }

    /// Counts a rebalance, and leaves the garbage that it did not find to others (`shared_garbage`). Before the
    /// inputs are released: where statistics have the length without them, they have the rebalance, too.
    pub(super) fn count_rebalance(&self, input: &Input, outputs: &[OutputTable]) {
        self.pass_on_garbage(input, outputs);
        if input.merges() {
            self.context.counters.rebalances.add(1);
        }
    }

    /// Removes the references of the current structures to `files`, except those in `kept`.
    pub fn release(&self, files: &[Run], kept: &[Run]) {
        // If a chunk has several parts of one file, they begin at different keys.
        let name = |file: &Run| (file.file().id, file.span.start.clone());
        let kept: HashSet<_> = kept.iter().map(name).collect();
        for file in files {
            if !kept.contains(&name(file))
                && file.release(&self.context.totals)
                && let Source::Table(table) = &file.source
            {
                // An open table would keep the file's blocks allocated after it is unlinked.
                self.context.tables.forget(table.file.id);
            }
        }
    }
}

/// Files that were added while the rebalance ran: they are before its input in the list.
pub fn newer_files(now: &RunStack, input: &Input) -> Vec<Run> {
    now.files[..now.files.len() - input.funk.files.len()].to_vec()
}

/// The new table as one of the chunk's files. If the chunk was dropped meanwhile, the table is
/// dropped, too: it holds nothing newer.
pub fn table_ref(output_table: &OutputTable, chunk: &Chunk, now: &RunStack, newer: usize) -> Run {
    let dropped = now.files[newer..]
        .iter()
        .filter_map(|file| file.dropped.clone())
        .max_by_key(|dropped| dropped.version);
    // Files that were dropped before the rebalance began are not in the table.
    let dropped = dropped.filter(|_| now.files[newer..].iter().all(|file| file.dropped.is_some()));
    // A reused table may still be shared.
    let file = &output_table.table.file;
    let share_bytes = file.claims.is_shared().then(|| file.bytes());
    Run {
        source: Source::Table(output_table.table.clone()),
        span: chunk.span.clone().into(),
        dropped,
        dropped_ranges: None,
        share_bytes,
    }
}
