//! Reads a damaged log: every operation whose record is intact, in the order in which they were
//! written.
//!
//! In an undamaged log the operations that `Segment::load` finds count. After damage, reading
//! continues with the next certain record. The operations of a write that is cut by damage count,
//! as a later record proves that it had been written whole. Range deletes are also recorded in the
//! ends of the log's parts.

use crate::format::bounds::decode_bounds;
use crate::format::codec::Decoder;
use crate::format::header::HEADER_BYTES;
use crate::log::index::indexed_part::IndexedPart;
use crate::log::index::memory_part::RecordPtr;
use crate::log::op::record::{LogRecord, Revoke, may_begin};
use crate::records::{RecordFile, Salvage, Salvaged};
use crate::types::bounds::Bounds;
use crate::types::entry::Kind;
use crate::types::error::{Attempt, Error, Result};
use crate::types::order::KeyOrder;
use std::collections::HashSet;
use std::ops::Range;

/// The length of a log that counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// Up to this length, which was durable.
    Vouched(u64),
    /// As far as there are records; the length `durable` was durable.
    OpenEnded {
        durable: u64,
        /// True if the page cache outlived the writer, so that records are contiguous up to the
        /// last. Otherwise power may have failed since and left gaps: records after a gap do not
        /// count.
        gapless: bool,
    },
    /// As far as there are records. Bytes at the end that are no record may be damage, or where the
    /// writer died.
    Unknown,
}

/// A finding in a log.
#[derive(Debug)]
pub enum LogFound<'a> {
    Op {
        version: u64,
        /// The spanning batch, or 0.
        batch: u64,
        kind: Kind,
        offset: u64,
        key: &'a [u8],
        value: &'a [u8],
    },
    RangeDelete {
        version: u64,
        batch: u64,
        offset: u64,
        bounds: Bounds,
    },
    /// The operation on this key is damaged.
    Lost {
        version: u64,
        batch: u64,
        key: &'a [u8],
        error: Error,
    },
    /// Operations may be missing here.
    Damage(Error),
}

/// An operation of a write whose end has not been seen yet.
type Pending = (u64, Vec<u8>);

/// Reads a log from its first record to its end, except for the bytes in `gap`. `visit` returns
/// true if the finding counts.
pub fn salvage_log(
    records: &RecordFile,
    extent: Extent,
    gap: Range<u64>,
    visit: &mut dyn FnMut(LogFound<'_>) -> Result<bool>,
) -> Result<()> {
    let file_bytes = records.file.len().map_err(|e| Error::io(Attempt::Measure, &records.path, e))?;
    let (vouched, end) = match extent {
        Extent::Vouched(len) => (len, len),
        Extent::OpenEnded { durable, .. } => (durable, file_bytes),
        Extent::Unknown => (0, file_bytes),
    };
    let revoked = revoked(records, end.min(file_bytes), gap.clone())?;
    let mut reading = Reading {
        records,
        range_deletes: HashSet::new(),
        told: Vec::new(),
        gaps: Vec::new(),
        visit,
        revoked,
    };
    let mut salvage = Salvage::new(records, end.min(file_bytes), may_begin).across(gap);
    let mut write: Vec<Pending> = Vec::new();
    while let Some(found) = salvage.next()? {
        match found {
            Salvaged::Record { offset, len, payload } => {
                match LogRecord::decode(&payload, records.header.base_version) {
                    Ok(LogRecord::Op(op)) => {
                        let more = op.more;
                        write.push((offset, payload));
                        if !more {
                            reading.take(&mut write)?;
                        }
                    }
                    Ok(LogRecord::Block(_) | LogRecord::Revoke(_)) => {}
                    Ok(LogRecord::PartEnd(bytes)) => {
                        reading.part_end(bytes, RecordPtr { offset, len: len as u32 })?;
                    }
                    Err(what) => reading.damage(offset, format!("a log record {}", what.0))?,
                }
            }
            Salvaged::Damaged { offset, head, resumed, error } if resumed || offset < vouched => {
                reading.take(&mut write)?;
                let op = match LogRecord::decode(&head, records.header.base_version) {
                    Ok(LogRecord::Op(op)) if op.kind != Kind::DeleteRange => op,
                    _ => {
                        (reading.visit)(LogFound::Damage(error))?;
                        continue;
                    }
                };
                let (version, batch, key) = (op.version, op.batch, op.key);
                (reading.visit)(LogFound::Lost { version, batch, key, error })?;
            }
            Salvaged::Hole { offset, resumed, error } | Salvaged::Damaged { offset, resumed, error, .. } => {
                let is_end = !resumed && offset >= vouched;
                if is_end && extent != Extent::Unknown {
                    // Here the writer died: an incomplete write does not count.
                    break;
                }
                if !is_end {
                    reading.take(&mut write)?;
                }
                let may_be_gap =
                    offset >= vouched && matches!(extent, Extent::OpenEnded { gapless: false, .. });
                if may_be_gap {
                    reading.gaps.push(error);
                } else {
                    (reading.visit)(LogFound::Damage(error))?;
                }
            }
        }
    }
    if vouched > file_bytes && vouched > HEADER_BYTES {
        reading.take(&mut write)?;
        reading.damage(file_bytes, format!("the log ends {} bytes too early", vouched - file_bytes))?;
    }
    reading.tell_lost_range_deletes()
}

struct Reading<'a> {
    records: &'a RecordFile,
    /// Offsets of the range deletes that were read.
    range_deletes: HashSet<u64>,
    /// Versions, offsets and bounds of the range deletes that are recorded in part ends.
    told: Vec<(u64, u64, Bounds)>,
    /// Gaps, which are damage if anything after them counts.
    gaps: Vec<Error>,
    visit: &'a mut dyn FnMut(LogFound<'_>) -> Result<bool>,
    /// Revokes whose writes do not count.
    revoked: Vec<Revoke>,
}

/// The revokes in the log. They stand after the writes that they revoke.
fn revoked(records: &RecordFile, end: u64, gap: Range<u64>) -> Result<Vec<Revoke>> {
    let mut revoked = Vec::new();
    let mut salvage = Salvage::new(records, end, may_begin).across(gap);
    while let Some(found) = salvage.next()? {
        if let Salvaged::Record { payload, .. } = found
            && let Ok(LogRecord::Revoke(revoke)) = LogRecord::decode(&payload, records.header.base_version)
        {
            revoked.push(revoke);
        }
    }
    Ok(revoked)
}

impl Reading<'_> {
    fn damage(&mut self, offset: u64, what: String) -> Result<()> {
        (self.visit)(LogFound::Damage(Error::corruption(&self.records.path, offset, what))).map(drop)
    }

    fn tell(&mut self, found: LogFound<'_>) -> Result<()> {
        if (self.visit)(found)? {
            for error in self.gaps.drain(..) {
                (self.visit)(LogFound::Damage(error))?;
            }
        }
        Ok(())
    }

    /// Reports the operations of a complete write.
    fn take(&mut self, write: &mut Vec<Pending>) -> Result<()> {
        if let Some((offset, payload)) = write.first() {
            self.revoked.retain(|revoke| !revoke.contradicts(*offset, payload));
        }
        write.retain(|(offset, _)| !self.revoked.iter().any(|revoke| revoke.covers(*offset)));
        for (offset, payload) in write.drain(..) {
            let decoded = LogRecord::decode(&payload, self.records.header.base_version);
            let Ok(LogRecord::Op(op)) = decoded else { continue };
            if op.kind != Kind::DeleteRange {
                let (version, batch, kind) = (op.version, op.batch, op.kind);
                self.tell(LogFound::Op { version, batch, kind, offset, key: op.key, value: op.value })?;
                continue;
            }
            match decode_bounds(&mut Decoder::new(op.value)) {
                Ok(bounds) => {
                    self.range_deletes.insert(offset);
                    let (version, batch) = (op.version, op.batch);
                    self.tell(LogFound::RangeDelete { version, batch, offset, bounds })?;
                }
                Err(what) => {
                    let what = format!("a range delete {}", what.0);
                    (self.visit)(LogFound::Damage(Error::corruption(&self.records.path, offset, what)))?;
                }
            }
        }
        Ok(())
    }

    fn part_end(&mut self, bytes: &[u8], at: RecordPtr) -> Result<()> {
        // Nothing is searched for.
        match IndexedPart::decode(bytes, at, &KeyOrder::Bytewise) {
            Ok(part) => {
                let told = part.tombstones.in_log_order().into_iter();
                let told = told.map(|t| (t.version, t.offset, t.bounds.clone()));
                self.told.extend(told.filter(|(_, offset, _)| !self.range_deletes.contains(offset)));
                Ok(())
            }
            Err(what) => self.damage(at.offset, format!("the end of a log part {}", what.0)),
        }
    }

    /// Reports range deletes whose own records are damaged. They were indexed, and so had been
    /// committed.
    fn tell_lost_range_deletes(&mut self) -> Result<()> {
        for (version, offset, bounds) in std::mem::take(&mut self.told) {
            if self.range_deletes.insert(offset) {
                self.tell(LogFound::RangeDelete { version, batch: 0, offset, bounds })?;
            }
        }
        Ok(())
    }
}
