//! The output of a rebalance: one sorted table, or several if the chunk is to be split.
//!
//! When a table has reached the length from which it may end, the following keys are held back
//! until the length at which it must end. The table then ends at the best place among them (`cut`).

use crate::files::StoreFile;
use crate::files::space::Room;
use crate::format::header::FileKind;
use crate::records::{Reference, user_bytes};
use crate::run::cut::{BestCut, Cut, least_bytes, most_bytes, separator};
use crate::run::env::RunEnv;
use crate::run::held::{Held, entry_bytes};
use crate::run::referred::ReferredLogs;
use crate::run::sync_together::SyncTogether;
use crate::sync::Arc;
use crate::sync::atomic::Ordering::Relaxed;
use crate::table::{
    DeletedRange, Lineage, Pinned, Referred, Storing, TableBuilder, TableHandle, TableOptions,
};
use crate::types::entry::Content;
use crate::types::entry::Kind;
use crate::types::entry::{LARGE_BYTES, large_part};
use crate::types::error::Result;
use crate::types::gap::Gap;
use crate::types::span::Span;
use bytes::Bytes;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;

/// A version of a key that is kept.
pub struct KeptEntry {
    pub key: Bytes,
    pub version: u64,
    pub kind: Kind,
    pub value: Bytes,
}

impl KeptEntry {
    pub fn content(&self) -> Content<'_> {
        Content { key: &self.key, version: self.version, kind: self.kind, value: &self.value }
    }

    /// Bytes of key and value in a table.
    pub fn bytes(&self) -> u64 {
        (self.key.len() + self.value.len()) as u64
    }

    /// The same with the value that the entry refers to.
    pub fn whole_bytes(&self) -> u64 {
        user_bytes(&self.key, self.kind, &self.value).unwrap_or(0).max(self.bytes())
    }
}

/// A finished table, and the start of its chunk.
pub struct OutputTable {
    /// `None` for the first table: its chunk begins where the rebalanced chunk does.
    pub start: Option<Bytes>,
    /// A span with all of its keys.
    pub keys: Span,
    pub table: Arc<TableHandle>,
    /// True if the table existed before: its keys do not overlap the merged ones, and it is moved
    /// as it is.
    pub reused: bool,
}

impl OutputTable {
    /// Removes a table that is not used.
    pub fn discard(&self, env: &RunEnv) {
        if !self.reused {
            env.files.discard(&self.table.file);
        }
    }
}

/// Step in bytes in which more space is reserved if the estimate was too low.
const ROOM_STEP_BYTES: u64 = 64 << 10;
/// Maximum length in bytes of a table whose space is allocated before it is written.
const ALLOCATED_MAX: u64 = 1 << 30;

pub struct Output<'a> {
    env: &'a RunEnv,
    /// Lower bound of all versions.
    base_version: u64,
    /// Snapshots below this version may see the kept versions besides the newest.
    pinned_below: u64,
    /// Target length of each table.
    target_bytes: u64,
    /// Bytes that all tables together are expected to have at most.
    expected_bytes: u64,
    /// Space that is reserved for the output.
    room: &'a mut dyn Room,
    outputs: Vec<OutputTable>,
    current: Option<Current>,
    /// Start of the next table.
    start: Option<Bytes>,
    last_key: Option<Vec<u8>>,
    /// Bytes of older runs that the present table is estimated to hide.
    hidden_bytes: u64,
    held: Held<'a>,
    /// Range deletes behind those of the tables that are finished, in order.
    deleted: VecDeque<DeletedRange>,
    /// Settings of the tables.
    options: TableOptions,
    /// The lineage of all tables together.
    lineage: Option<Lineage>,
    /// True if there is to be a table even if it has nothing but the lineage.
    is_wanted: bool,
    /// The logs that values may stand in.
    logs: Arc<ReferredLogs>,
    /// The tables of the job that are synced together. `None` syncs each as it is finished.
    synced: Option<&'a SyncTogether>,
}

struct Current {
    file: Arc<StoreFile>,
    builder: TableBuilder,
    bytes: u64,
    stale_bytes: u64,
    large_bytes: u64,
    newest_version: u64,
    growing: i64,
    /// Bytes in the file that the room counts as written.
    redeemed_bytes: u64,
    /// The logs that its values stand in, by their numbers.
    referred: BTreeMap<u64, Referred>,
}

impl<'a> Output<'a> {
    pub fn new(
        env: &'a RunEnv,
        (base_version, pinned_below): (u64, u64),
        target_bytes: u64,
        room: &'a mut dyn Room,
    ) -> Self {
        Self {
            env,
            base_version,
            pinned_below,
            target_bytes,
            expected_bytes: 0,
            room,
            outputs: Vec::new(),
            current: None,
            start: None,
            last_key: None,
            hidden_bytes: 0,
            held: Held::new(&env.memory.held),
            deleted: VecDeque::new(),
            options: env.table_options(),
            lineage: None,
            is_wanted: false,
            logs: Arc::default(),
            synced: None,
        }
    }

    /// The tables are finished without a sync, and added to these.
    pub fn synced_with(mut self, others: &'a SyncTogether) -> Self {
        self.synced = Some(others);
        self
    }

    /// Entries may refer to values in these logs.
    pub fn with_logs(mut self, logs: Arc<ReferredLogs>) -> Self {
        self.logs = logs;
        self
    }

    /// The tables are expected to have at most this length, all together.
    pub fn with_expected_bytes(mut self, bytes: u64) -> Self {
        self.expected_bytes = bytes;
        self
    }

    /// Gives the tables filters of this length.
    pub fn with_filter_bits(mut self, bits_per_key: u32) -> Self {
        self.options.filter_bits_per_key = bits_per_key;
        self
    }

    /// Each table gets its part of the lineage, up to the start of the next one.
    pub fn with_lineage(mut self, lineage: Lineage) -> Self {
        self.lineage = Some(lineage);
        self
    }

    /// Writes a table even if it has nothing but the lineage.
    pub fn wanted(mut self) -> Self {
        self.is_wanted = true;
        self
    }

    /// Adds range deletes, which are in order and do not overlap. Each table gets its part of them, up
    /// to the start of the next one, and is written even if it has nothing else.
    pub fn with_deleted(mut self, deleted: Vec<DeletedRange>) -> Self {
        self.deleted = deleted.into();
        self
    }

    /// Adds range deletes behind those that were added before.
    pub fn add_deleted(&mut self, deleted: Vec<DeletedRange>) {
        self.deleted.extend(deleted);
    }

    /// Bytes of the entries of the table that is being written.
    pub fn written_bytes(&self) -> u64 {
        self.current.as_ref().map_or(0, |current| current.bytes)
    }

    /// True if the next entries are written to the table without being held back.
    fn is_direct(&self) -> bool {
        self.held.is_empty() && self.written_bytes() < least_bytes(self.target_bytes)
    }

    /// Adds the versions of one key, newest first. They are copied only if they are held back.
    pub fn add<'e>(&mut self, entries: impl Iterator<Item = Content<'e>>) -> Result<()> {
        let written = self.written_bytes();
        if self.is_direct() {
            return self.write(entries);
        }
        self.held.push(entries);
        if written + self.held.bytes() >= most_bytes(self.target_bytes) { self.cut(written) } else { Ok(()) }
    }

    /// Notes that entries which were added hide this many bytes of older runs, by an estimate. They
    /// count as garbage of the table.
    pub fn note_hidden(&mut self, bytes: u64) {
        self.hidden_bytes = self.hidden_bytes.saturating_add(bytes);
    }

    /// Writes what is held back and ends the last table.
    pub fn finish(mut self) -> Result<Vec<OutputTable>> {
        let held = self.held.take();
        held.keys().try_for_each(|entries| self.write(entries))?;
        self.end_table(None)?;
        Ok(std::mem::take(&mut self.outputs))
    }

    /// Ends the table at the best place among the keys held back.
    fn cut(&mut self, written: u64) -> Result<()> {
        let held = self.held.take();
        let mut best = BestCut::new(self.target_bytes, self.env.options().cut_prefix_bytes);
        let mut bytes = written;
        let mut previous = self.last_key.as_deref();
        for (index, entries) in held.keys().enumerate() {
            let key = entries.clone().next().map_or(&[][..], |newest| newest.key);
            if let Some(previous) = previous {
                best.consider(&self.env.order, previous, key, bytes, || index);
            }
            bytes += entries.map(|entry| entry_bytes(&entry)).sum::<u64>();
            previous = Some(key);
        }
        let Some(Cut { place: index, shared, .. }) = best.take() else {
            // The table has a single key: it continues until there is another.
            return held.keys().try_for_each(|entries| self.write(entries));
        };
        held.keys().take(index).try_for_each(|entries| self.write(entries))?;
        let mut rest = held.keys().skip(index).peekable();
        let first = rest.peek().and_then(|entries| entries.clone().next());
        let start = first.map(|first| separator(&self.env.order, &Bytes::copy_from_slice(first.key), shared));
        self.end_table(start.as_ref())?;
        self.start = start;
        rest.try_for_each(|entries| self.add(entries))
    }

    /// The way in which the bytes of the next table get into its file.
    fn storing(&self) -> Storing {
        let options = self.env.options();
        let is_refused = self.env.counters.peek().is_some_and(|counters| counters.direct_refused.get() > 0);
        let expected_bytes = self.target_bytes.min(self.expected_bytes);
        let allocates = options.allocates && expected_bytes <= ALLOCATED_MAX && self.room.has(expected_bytes);
        Storing {
            allocated_bytes: if allocates { expected_bytes } else { 0 },
            is_direct: options.direct_io && !is_refused,
        }
    }

    /// Begins a table.
    fn begin(&self) -> Result<Current> {
        let (file, handle, header) =
            self.env.files.create(FileKind::Table, self.env.keyspace, self.base_version)?;
        let options = TableOptions { storing: self.storing(), ..self.options.clone() };
        let builder = TableBuilder::new(handle, file.path.clone(), header, options);
        let builder = builder.inspect_err(|_| self.env.files.discard(&file))?;
        Ok(Current {
            file,
            builder,
            bytes: 0,
            stale_bytes: 0,
            large_bytes: 0,
            newest_version: 0,
            growing: 0,
            redeemed_bytes: 0,
            referred: BTreeMap::new(),
        })
    }

    /// Writes the versions of one key, newest first.
    fn write<'e>(&mut self, entries: impl Iterator<Item = Content<'e>>) -> Result<()> {
        if self.current.is_none() {
            self.current = Some(self.begin()?);
        }
        let Some(current) = &mut self.current else { return Ok(()) };
        let last_key = self.last_key.get_or_insert_default();
        for (index, entry) in entries.enumerate() {
            current.builder.add(entry.key, entry.version, entry.kind, entry.value)?;
            current.newest_version = current.newest_version.max(entry.version);
            let user_bytes = match entry.kind {
                Kind::PutApart => {
                    let (Reference { file, len, .. }, log) = self.logs.resolve(entry.value)?;
                    let new = || Referred { log: log.clone(), bytes: 0 };
                    current.referred.entry(file).or_insert_with(new).bytes += u64::from(len);
                    u64::from(len)
                }
                Kind::Put => (entry.key.len() + entry.value.len()) as u64,
                Kind::Delete | Kind::DeleteRange => 0,
            };
            current.stale_bytes += if index > 0 { user_bytes } else { 0 };
            current.large_bytes += large_part(user_bytes, LARGE_BYTES);
            current.bytes += entry_bytes(&entry);
            if index == 0 {
                last_key.clear();
                last_key.extend_from_slice(entry.key);
            }
        }
        self.make_room()
    }

    /// Reserves space for what the current table will take.
    fn make_room(&mut self) -> Result<()> {
        let Some(current) = &mut self.current else { return Ok(()) };
        let grown = current.builder.bytes_estimate() as i64 - current.growing;
        current.growing += grown;
        let growing_bytes = current.growing as u64;
        self.env.totals.growing_bytes.fetch_add(grown, Relaxed);
        let missing = |redeemed: u64, left: u64| growing_bytes.saturating_sub(redeemed).saturating_sub(left);
        if missing(current.redeemed_bytes, self.room.left_bytes()) > 0 {
            // The file system counts what is in the file: it must not be reserved a second time.
            let occupied_bytes = current.builder.occupied_bytes();
            self.room.redeem(occupied_bytes - current.redeemed_bytes);
            current.redeemed_bytes = occupied_bytes;
            let missing_bytes = missing(occupied_bytes, self.room.left_bytes());
            self.room.extend(missing_bytes.next_multiple_of(ROOM_STEP_BYTES))?;
        }
        Ok(())
    }

    /// Counts what a finished table was spared. A file system that has refused direct writes is not asked again.
    fn note_storing(&self, builder: &TableBuilder) {
        self.env.counters.tables_allocated.add(builder.is_allocated().into());
        self.env.counters.direct_bytes_written.add(builder.direct_bytes());
        if builder.is_direct_refused() {
            tracing::info!(path = %builder.path().display(), "the file system has no direct writes: tables go through its cache");
            self.env.counters.direct_refused.add(1);
        }
    }

    /// The range deletes before the start of the next table.
    fn take_deleted(&mut self, next: Option<&Bytes>) -> Vec<DeletedRange> {
        let Some(next) = next else { return std::mem::take(&mut self.deleted).into() };
        let (order, place) = (&self.env.order, Gap::Before(next));
        let mut taken = Vec::new();
        while let Some(range) = self.deleted.front_mut() {
            if Gap::start(&range.bounds).compare(order, place).is_ge() {
                break;
            }
            if Gap::end(&range.bounds).compare(order, place).is_gt() {
                // A part of it belongs to the next table.
                let bounds = Gap::between(Gap::start(&range.bounds), place);
                range.bounds.start = Bound::Included(next.to_vec());
                taken.push(DeletedRange { bounds, versions: range.versions.clone() });
                break;
            }
            taken.extend(self.deleted.pop_front());
        }
        taken
    }

    /// The lineage of the present table.
    fn part_of(&self, whole: &Lineage, next: Option<&Bytes>) -> Lineage {
        if self.start.is_none() && next.is_none() {
            return whole.clone();
        }
        let first = whole.steps.first().and_then(|first| first.start.clone());
        let (start, end) = (self.start.clone().or(first), next.cloned().or(whole.end.clone()));
        whole.within(&self.env.order, &Span { start, end })
    }

    /// Ends the table. The next one begins at `next`, if there is one.
    fn end_table(&mut self, next: Option<&Bytes>) -> Result<()> {
        let deleted = self.take_deleted(next);
        if self.current.is_none() && (!deleted.is_empty() || self.is_wanted) {
            self.current = Some(self.begin()?);
        }
        self.is_wanted = false;
        let Some(current) = &mut self.current else { return Ok(()) };
        for range in &deleted {
            current.builder.add_deleted(range);
            let newest = range.versions.first().copied().unwrap_or_default();
            current.newest_version = current.newest_version.max(newest);
        }
        if !deleted.is_empty() {
            self.make_room()?;
        }
        let lineage = self.lineage.as_ref().map(|whole| self.part_of(whole, next));
        let Some(mut current) = self.current.take() else { return Ok(()) };
        if let Some(lineage) = lineage {
            current.builder.set_lineage(lineage);
        }
        let Current {
            file, mut builder, stale_bytes, large_bytes, newest_version, growing, referred, ..
        } = current;
        let redeemed_bytes = current.redeemed_bytes;
        let stale_bytes = stale_bytes.saturating_add(std::mem::take(&mut self.hidden_bytes));
        let finished = builder.finish(self.synced.is_none());
        self.env.totals.growing_bytes.fetch_sub(growing, Relaxed);
        let finished = finished.and_then(|meta| match self.synced {
            Some(others) => others.add(builder.file().clone(), builder.path().to_path_buf()).map(|()| meta),
            None => Ok(meta),
        });
        let meta = finished.inspect_err(|_| self.env.files.discard(&file))?;
        file.set_bytes(meta.file_bytes);
        self.room.redeem(meta.file_bytes.saturating_sub(redeemed_bytes));
        self.env.counters.table_bytes_written.add(meta.file_bytes);
        self.note_storing(&builder);
        let table = Arc::new(TableHandle {
            file,
            user_bytes: meta.user_bytes,
            stale_bytes,
            large_bytes,
            entries: meta.entries,
            pinned_below: if stale_bytes > 0 { self.pinned_below } else { 0 },
            base_version: self.base_version,
            newest_version,
            has_deleted: !deleted.is_empty(),
            referred: referred.into_values().collect(),
            description: Pinned::default(),
        });
        let keys = Span::around(&self.env.order, &meta.smallest, &meta.largest);
        self.outputs.push(OutputTable { start: self.start.take(), keys, table, reused: false });
        Ok(())
    }
}

impl Drop for Output<'_> {
    fn drop(&mut self) {
        // After an error: the output is not used.
        if let Some(current) = self.current.take() {
            self.env.totals.growing_bytes.fetch_sub(current.growing, Relaxed);
            self.env.files.discard(&current.file);
        }
        for output_table in self.outputs.drain(..) {
            output_table.discard(self.env);
        }
    }
}
