//! Long values stay in the log to which they were written, and tables refer to them.
//!
//! ```text
//!   log    │ head, key, 1 MiB │ head, key, 1 MiB │ …        stays as long as a table refers to it
//!               ▲                    ▲
//!   table  │ key → log, place  │ key → log, place │ …       merged as if values were a few bytes
//! ```
//!
//! A value is so written once, whatever the number of levels that its key passes (the idea of WiscKey,
//! FAST '16, without a second log). The records between them that nobody refers to are garbage of the log,
//! which counts in the bound on space. So a merge refers to values only where they are nearly all of the log
//! ([`are_most`]), and copies those that it meets of a log that has become sparse ([`Copying`]).
//!
//! Nothing is read of a value to refer to it: its checksum is checked when it is read.
//!
//! A value is long if its record is longer than [`RunOptions::longest_inline`](super::env::RunOptions).

use crate::fetch::{Fetch, Place};
use crate::files::StoreFile;
use crate::format::header::{FileHeader, FileKind};
use crate::log::index::memory_part::{MemoryCursor, RecordPtr};
use crate::log::op::record::LogRecord;
use crate::log::read::cursor::IndexedCursor;
use crate::log::read::pass::LogWalk;
use crate::log::segment::Segment;
use crate::records::{RecordFile, Reference, record_payload};
use crate::run::env::RunEnv;
use crate::run::run::{ANY_PART, is_sparse};
use crate::sync::Arc;
use crate::sync::atomic::Ordering::Relaxed;
use crate::table::TableHandle;
use crate::types::entry::{EntryCursor, EntryRef, Kind};
use crate::types::error::{Attempt, Error, Result};
use crate::types::order::KeyOrder;
use bytes::Bytes;
use std::path::Path;

/// The index of a log is looked at if its pairs have this part of the length of a long value, on average.
const SHORT_FRACTION: u64 = 64;

/// The parts of logs that may be garbage, at most 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Copying {
    /// A merge refers to the values of a log if everything else is at most this part of it.
    pub rest: f64,
    /// It copies the values of a log of which more than this part is unclaimed.
    pub sparse: f64,
}

impl Copying {
    /// Everything is copied.
    pub const ALL: Self = Self { rest: -1.0, sparse: ANY_PART };

    /// True if values of the log are copied.
    pub fn is_due(self, log: &StoreFile) -> bool {
        is_sparse(log, self.sparse)
    }
}

/// The logs that values of some runs stand in.
#[derive(Default)]
pub struct ReferredLogs {
    tables: Vec<Arc<TableHandle>>,
    /// Logs that nothing refers to yet.
    logs: Vec<Arc<StoreFile>>,
}

impl ReferredLogs {
    pub fn add_table(&mut self, table: &Arc<TableHandle>) {
        if !table.referred.is_empty() {
            self.tables.push(table.clone());
        }
    }

    pub fn add_log(&mut self, log: &Arc<StoreFile>) {
        self.logs.push(log.clone());
    }

    /// The log of this number.
    pub fn find(&self, file: u64) -> Option<&Arc<StoreFile>> {
        let new = self.logs.iter().find(|log| log.id == file);
        new.or_else(|| self.tables.iter().find_map(|table| table.referred_log(file)))
    }

    /// The reference in an entry of this value, with its log.
    pub fn resolve(&self, value: &[u8]) -> Result<(Reference, &Arc<StoreFile>)> {
        let place = || self.tables.first().map(|table| table.file.path.clone()).unwrap_or_default();
        let corrupt = |what: &str| Error::corruption(place(), 0, format!("an entry {what}"));
        let reference = Reference::decode(value).map_err(|what| corrupt(what.0))?;
        let log = self.find(reference.file);
        Ok((reference, log.ok_or_else(|| corrupt("refers to a log that its table does not name"))?))
    }

    /// The value that an entry of `key` refers to.
    pub fn read<F: Fetch>(
        &self,
        env: &RunEnv,
        key: &[u8],
        value: &[u8],
        fetch: &F,
    ) -> Result<Bytes, F::Stop> {
        let (reference, log) = self.resolve(value)?;
        read_value(env, log, &reference, key, fetch)
    }
}

/// The value of `key` that stands at this place of a log of the store. Nothing is cached: such a value would
/// take the place of many blocks.
fn read_value<F: Fetch>(
    env: &RunEnv,
    log: &StoreFile,
    reference: &Reference,
    key: &[u8],
    fetch: &F,
) -> Result<Bytes, F::Stop> {
    // The rest of the header is not part of a record's checksum, and versions are not needed.
    let (keyspace, store, file, epoch) = (log.keyspace, env.files.store, log.id, log.epoch);
    let header = FileHeader { kind: FileKind::Log, keyspace, store, file, epoch, base_version: 0 };
    let records = || Ok::<_, Error>(RecordFile { file: log.handle()?, path: log.path.clone(), header });
    let Reference { offset, len, .. } = *reference;
    let place = Place { file, offset, len: len.into() };
    let bytes = fetch.bytes(place, || log.handle(), || record_bytes(&records()?, reference))?;
    let payload = record_payload(&header, &log.path, offset, bytes, len as usize)?;
    Ok(value_in(&payload, &log.path, reference, &env.order, key)?)
}

/// The same, in a file of records. The key of the record is equal to this one, but under some comparators may
/// have other bytes: a get has those of its caller.
pub fn value_of(records: &RecordFile, reference: &Reference, order: &KeyOrder, key: &[u8]) -> Result<Bytes> {
    let Reference { offset, len, .. } = *reference;
    let bytes = record_bytes(records, reference)?;
    let payload = record_payload(&records.header, &records.path, offset, bytes, len as usize)?;
    value_in(&payload, &records.path, reference, order, key)
}

/// The bytes of the record that is referred to.
fn record_bytes(records: &RecordFile, reference: &Reference) -> Result<Bytes> {
    let Reference { offset, len, .. } = *reference;
    let file_bytes = records.file.len().map_err(|e| Error::io(Attempt::Measure, &records.path, e))?;
    // Checked before memory is allocated.
    if offset.saturating_add(len.into()) > file_bytes {
        let what = "a table refers to a value behind the end of the log";
        return Err(Error::corruption(&records.path, offset, what));
    }
    records.read_bytes(offset, len as usize)
}

fn value_in(
    payload: &Bytes,
    path: &Path,
    reference: &Reference,
    order: &KeyOrder,
    key: &[u8],
) -> Result<Bytes> {
    match LogRecord::decode(payload, 0) {
        Ok(LogRecord::Op(op)) if op.kind == Kind::Put && order.compare(op.key, key).is_eq() => {
            Ok(payload.slice(payload.len() - op.value.len()..))
        }
        _ => {
            let what = "a table refers to a record that is no put of its key";
            Err(Error::corruption(path, reference.offset, what))
        }
    }
}

/// True if all but at most the part `rest` of a log of `len` bytes is long values of this length.
pub fn exceeds_rest(long_bytes: u64, len: u64, rest: f64) -> bool {
    long_bytes as f64 >= (1.0 - rest) * len as f64
}

/// True if a merge refers to the long values of this log: everything else is at most the part `rest` of it.
/// Only the index is read.
pub fn are_most(log: &Arc<LogWalk>, longest: u32, rest: f64) -> Result<bool> {
    let is_enough = |bytes| exceeds_rest(bytes, log.segment.len(), rest);
    // Most logs are decided without their index: short pairs fill them.
    let pairs = log.segment.puts.load(Relaxed).max(1);
    let is_short = log.segment.user_bytes.load(Relaxed) / pairs < u64::from(longest) / SHORT_FRACTION;
    if rest < 0.0 || is_short {
        return Ok(false);
    }
    let (mut long_bytes, mut last) = (0, None::<Vec<u8>>);
    let mut add = |key: &[u8], place: RecordPtr| {
        // Older versions of a key, which come behind its newest, are garbage soon, if they are not already.
        if place.len > longest && last.as_deref() != Some(key) {
            long_bytes += u64::from(place.len);
            last = Some(key.to_vec());
        }
    };
    if let Some(memory) = &log.parts.memory {
        memory.for_each(|key, hit| add(key, hit.place));
    }
    for (number, part) in log.parts.indexed.iter().enumerate() {
        if part.root.len == 0 {
            continue;
        }
        let mut cursor = IndexedCursor::of_places(log.clone(), number);
        cursor.seek_to_first()?;
        while let Some(entry) = cursor.entry() {
            cursor.place()?.into_iter().for_each(|place| add(entry.key, place));
            cursor.next()?;
        }
    }
    Ok(is_enough(long_bytes))
}

/// A cursor that knows the places of its entries in their log.
pub trait PlacedCursor: EntryCursor {
    /// The place of the record of the entry under the cursor.
    fn place(&self) -> Result<Option<RecordPtr>>;
}

impl PlacedCursor for IndexedCursor {
    fn place(&self) -> Result<Option<RecordPtr>> {
        self.place()
    }
}

impl<F: FnMut(RecordPtr) -> Result<Bytes> + Send> PlacedCursor for MemoryCursor<F> {
    fn place(&self) -> Result<Option<RecordPtr>> {
        Ok(self.place())
    }
}

/// Shows the long values of a log as references to them.
pub struct ReferringCursor<C> {
    inner: C,
    segment: Arc<Segment>,
    /// Length in bytes of the longest record that is no long one.
    longest: u32,
    /// The place of the present entry, if that is a put with a long value.
    long: Option<RecordPtr>,
}

impl<C: PlacedCursor> ReferringCursor<C> {
    pub fn new(inner: C, segment: Arc<Segment>, longest: u32) -> Self {
        Self { inner, segment, longest, long: None }
    }

    fn step(&mut self, step: impl FnOnce(&mut C) -> Result<()>) -> Result<()> {
        self.long = None;
        step(&mut self.inner)?;
        if self.inner.entry().is_some_and(|entry| entry.kind == Kind::Put) {
            self.long = self.inner.place()?.filter(|place| place.len > self.longest);
        }
        Ok(())
    }
}

impl<C: PlacedCursor> EntryCursor for ReferringCursor<C> {
    fn seek_to_first(&mut self) -> Result<()> {
        self.step(|inner| inner.seek_to_first())
    }

    fn seek_to_last(&mut self) -> Result<()> {
        self.step(|inner| inner.seek_to_last())
    }

    fn seek(&mut self, key: &[u8]) -> Result<()> {
        self.step(|inner| inner.seek(key))
    }

    fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        self.step(|inner| inner.seek_before(key))
    }

    fn next(&mut self) -> Result<()> {
        self.step(|inner| inner.next())
    }

    fn prev(&mut self) -> Result<()> {
        self.step(|inner| inner.prev())
    }

    fn entry(&self) -> Option<EntryRef<'_>> {
        let entry = self.inner.entry()?;
        Some(if self.long.is_some() { EntryRef { kind: Kind::PutApart, ..entry } } else { entry })
    }

    fn position(&self) -> u64 {
        self.inner.position()
    }

    fn value(&mut self) -> Result<Bytes> {
        let Some(RecordPtr { offset, len }) = self.long else { return self.inner.value() };
        Ok(Reference { file: self.segment.file.id, offset, len }.encode().into())
    }
}
