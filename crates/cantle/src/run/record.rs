//! Runs in the edits of a manifest.

use super::dropped_ranges::{DroppedRange, DroppedRanges, RANGES_MAX};
use super::run::{Dropped, Run, Source};
use crate::files::Files;
use crate::format::codec::{Decoder, Malformed, put_varint};
use crate::format::header::FileKind;
use crate::sync::Arc;
use crate::table::{Pinned, Referred, TableHandle};
use crate::types::span::Span;
use bytes::Bytes;

/// A run of an area: a chunk, a guard.
#[derive(Debug, Clone, PartialEq)]
pub struct FileRecord {
    pub kind: FileKind,
    pub file: u64,
    /// The epoch in which the file was created.
    pub epoch: u64,
    pub bytes: u64,
    pub user_bytes: u64,
    pub stale_bytes: u64,
    pub large_bytes: u64,
    pub entries: u64,
    /// True for a table that has range deletes.
    pub has_deleted: bool,
    /// The keys that count, if they are only a part of its area.
    pub span: Option<Span>,
    pub share_bytes: Option<u64>,
    /// Version and spanning batch of the range delete that dropped the file.
    pub dropped: Option<(u64, u64)>,
    /// Parts of the span that range deletes dropped.
    pub dropped_ranges: Option<Arc<DroppedRanges>>,
    /// The logs that a table refers to for values, by ascending numbers.
    pub referred: Vec<ReferredRecord>,
}

/// A log to which a table refers.
#[derive(Debug, Clone, PartialEq)]
pub struct ReferredRecord {
    pub file: u64,
    pub epoch: u64,
    /// Length of the log.
    pub file_bytes: u64,
    /// Bytes of the records that the table refers to.
    pub bytes: u64,
}

const TABLE: u8 = 1;
const SPAN: u8 = 2;
const SHARE: u8 = 4;
const DROPPED: u8 = 8;
const DELETED: u8 = 16;
const RANGES: u8 = 32;
const REFERRED: u8 = 64;

impl FileRecord {
    /// A log of which all keys count.
    pub fn log(file: u64, epoch: u64) -> Self {
        Self {
            kind: FileKind::Log,
            file,
            epoch,
            bytes: 0,
            user_bytes: 0,
            stale_bytes: 0,
            large_bytes: 0,
            entries: 0,
            has_deleted: false,
            span: None,
            share_bytes: None,
            dropped: None,
            dropped_ranges: None,
            referred: Vec::new(),
        }
    }

    pub fn of(file: &Run, area: &Span) -> Self {
        let (kind, [bytes, user_bytes, stale_bytes, large_bytes, entries]) = match &file.source {
            Source::Log(_) => (FileKind::Log, [0; 5]),
            Source::Table(table) => {
                let TableHandle { user_bytes, stale_bytes, large_bytes, entries, .. } = **table;
                (FileKind::Table, [table.file.bytes(), user_bytes, stale_bytes, large_bytes, entries])
            }
        };
        Self {
            kind,
            file: file.file().id,
            epoch: file.file().epoch,
            bytes,
            user_bytes,
            stale_bytes,
            large_bytes,
            entries,
            has_deleted: matches!(&file.source, Source::Table(table) if table.has_deleted),
            span: (*file.span != *area).then(|| Span::clone(&file.span)),
            share_bytes: file.share_bytes,
            dropped: file.dropped.as_ref().map(|dropped| (dropped.version, dropped.batch)),
            dropped_ranges: file.dropped_ranges.clone(),
            referred: file.referred().iter().map(ReferredRecord::of).collect(),
        }
    }

    /// The table of an earlier opening, which refers to these logs. Nothing is read.
    pub fn adopt_table(&self, files: &Arc<Files>, keyspace: u32, referred: Box<[Referred]>) -> TableHandle {
        TableHandle {
            file: files.adopt(FileKind::Table, self.file, keyspace, self.epoch, self.bytes),
            user_bytes: self.user_bytes,
            stale_bytes: self.stale_bytes,
            large_bytes: self.large_bytes,
            entries: self.entries,
            base_version: 0,
            pinned_below: 0,
            newest_version: 0,
            has_deleted: self.has_deleted,
            referred,
            description: Pinned::default(),
        }
    }

    pub fn encode(&self, out: &mut Vec<u8>) {
        let flag = |on: bool, bit: u8| if on { bit } else { 0 };
        out.push(
            flag(self.kind == FileKind::Table, TABLE)
                | flag(self.span.is_some(), SPAN)
                | flag(self.share_bytes.is_some(), SHARE)
                | flag(self.dropped.is_some(), DROPPED)
                | flag(self.has_deleted, DELETED)
                | flag(self.dropped_ranges.is_some(), RANGES)
                | flag(!self.referred.is_empty(), REFERRED),
        );
        put_varint(out, self.file);
        put_varint(out, self.epoch);
        if self.kind == FileKind::Table {
            for number in [self.bytes, self.user_bytes, self.stale_bytes, self.large_bytes, self.entries] {
                put_varint(out, number);
            }
        }
        if let Some(span) = &self.span {
            put_optional_key(out, span.start.as_ref());
            put_optional_key(out, span.end.as_ref());
        }
        if let Some(share_bytes) = self.share_bytes {
            put_varint(out, share_bytes);
        }
        if let Some((version, batch)) = self.dropped {
            put_varint(out, version);
            put_varint(out, batch);
        }
        if let Some(ranges) = &self.dropped_ranges {
            encode_ranges(out, ranges);
        }
        if !self.referred.is_empty() {
            put_varint(out, self.referred.len() as u64);
            self.referred.iter().for_each(|referred| referred.encode(out));
        }
    }

    pub fn decode(decoder: &mut Decoder<'_>) -> Result<Self, Malformed> {
        let flags = decoder.u8()?;
        if flags & !(TABLE | SPAN | SHARE | DROPPED | DELETED | RANGES | REFERRED) != 0 {
            return Err(Malformed("describes a file in an unknown way"));
        }
        let kind = if flags & TABLE != 0 { FileKind::Table } else { FileKind::Log };
        let mut record = Self { kind, ..Self::log(decoder.number()?, decoder.number()?) };
        if kind == FileKind::Table {
            record.bytes = decoder.size()?;
            record.user_bytes = decoder.size()?;
            record.stale_bytes = decoder.size()?;
            record.large_bytes = decoder.size()?;
            record.entries = decoder.size()?;
            record.has_deleted = flags & DELETED != 0;
        }
        if flags & SPAN != 0 {
            record.span = Some(Span { start: optional_key(decoder)?, end: optional_key(decoder)? });
        }
        if flags & SHARE != 0 {
            record.share_bytes = Some(decoder.size()?);
        }
        if flags & DROPPED != 0 {
            record.dropped = Some((decoder.number()?, decoder.number()?));
        }
        if flags & RANGES != 0 {
            record.dropped_ranges = decode_ranges(decoder)?;
        }
        if flags & REFERRED != 0 {
            record.referred = decode_referred(decoder, &record)?;
        }
        Ok(record)
    }

    /// The mark as readers use it.
    pub fn dropped(&self) -> Option<Box<Dropped>> {
        self.dropped.map(|(version, batch)| Box::new(Dropped { version, batch, cell: None }))
    }

    /// Removes the marks of versions and batches that recovery has undone. The others have committed.
    pub fn resolve(&mut self, dead: &dyn Fn(u64, u64) -> bool) {
        let counts = |&(version, batch): &(u64, u64)| !dead(version, batch);
        self.dropped = self.dropped.filter(counts).map(|(version, _)| (version, 0));
        if let Some(ranges) = self.dropped_ranges.take() {
            let counting = ranges.list().iter().filter(|range| counts(&(range.version, range.batch)));
            let settled = counting.map(|range| DroppedRange { batch: 0, ..range.clone() });
            self.dropped_ranges = DroppedRanges::new(settled.collect());
        }
    }
}

impl ReferredRecord {
    fn of(referred: &Referred) -> Self {
        let Referred { log, bytes } = referred;
        Self { file: log.id, epoch: log.epoch, file_bytes: log.bytes(), bytes: *bytes }
    }

    fn encode(&self, out: &mut Vec<u8>) {
        for number in [self.file, self.epoch, self.file_bytes, self.bytes] {
            put_varint(out, number);
        }
    }
}

/// At least one log, each once, for a table.
fn decode_referred(decoder: &mut Decoder<'_>, table: &FileRecord) -> Result<Vec<ReferredRecord>, Malformed> {
    let count = decoder.varint()?;
    if count == 0 || table.kind != FileKind::Table {
        return Err(Malformed("has references that cannot be"));
    }
    let mut referred: Vec<ReferredRecord> = Vec::new();
    for _ in 0..count {
        let (file, epoch) = (decoder.number()?, decoder.number()?);
        let (file_bytes, bytes) = (decoder.size()?, decoder.size()?);
        if file == table.file || referred.last().is_some_and(|last| last.file >= file) {
            return Err(Malformed("refers to logs out of order, or to itself"));
        }
        if bytes > file_bytes {
            return Err(Malformed("refers to more bytes than a log has"));
        }
        referred.push(ReferredRecord { file, epoch, file_bytes, bytes });
    }
    Ok(referred)
}

fn encode_ranges(out: &mut Vec<u8>, ranges: &DroppedRanges) {
    put_varint(out, ranges.list().len() as u64);
    for DroppedRange { span, version, batch, bytes } in ranges.list() {
        put_optional_key(out, span.start.as_ref());
        put_optional_key(out, span.end.as_ref());
        put_varint(out, *version);
        put_varint(out, *batch);
        put_varint(out, *bytes);
    }
}

/// The ranges as they are, at least one. An opening, which knows the order of keys, checks them
/// ([`DroppedRanges::are_within`]).
fn decode_ranges(decoder: &mut Decoder<'_>) -> Result<Option<Arc<DroppedRanges>>, Malformed> {
    let count = decoder.varint()?;
    if !(1..=RANGES_MAX as u64).contains(&count) {
        return Err(Malformed("has a number of dropped ranges that cannot be"));
    }
    let mut ranges = Vec::with_capacity(count as usize);
    for _ in 0..count {
        let span = Span { start: optional_key(decoder)?, end: optional_key(decoder)? };
        let (version, batch) = (decoder.number()?, decoder.number()?);
        ranges.push(DroppedRange { span, version, batch, bytes: decoder.size()? });
    }
    Ok(DroppedRanges::new(ranges))
}

/// Encodes a key, or that there is none.
pub fn put_optional_key(out: &mut Vec<u8>, key: Option<&Bytes>) {
    match key {
        None => out.push(0),
        Some(key) => {
            put_varint(out, key.len() as u64 + 1);
            out.extend_from_slice(key);
        }
    }
}

pub fn optional_key(decoder: &mut Decoder<'_>) -> Result<Option<Bytes>, Malformed> {
    match decoder.length()? {
        0 => Ok(None),
        len => decoder.take(len - 1).map(|key| Some(Bytes::copy_from_slice(key))),
    }
}

/// Encodes the numbers of areas.
pub fn encode_ids(out: &mut Vec<u8>, ids: &[u64]) {
    put_varint(out, ids.len() as u64);
    for id in ids {
        put_varint(out, *id);
    }
}

pub fn decode_ids(decoder: &mut Decoder<'_>) -> Result<Vec<u64>, Malformed> {
    let mut ids = Vec::new();
    for _ in 0..decoder.varint()? {
        ids.push(decoder.number()?);
    }
    Ok(ids)
}
