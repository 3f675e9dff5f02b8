//! The records that can still be read from the journals.

use super::area::Area;
use super::merge::{Newness, RangeDelete};
use super::plan::{Origin, Plan};
use super::report::Findings;
use super::sorter::Entry;
use crate::format::bounds::decode_bounds;
use crate::format::codec::Decoder;
use crate::format::header::FileKind;
use crate::format::limits::KEY_BYTES_MAX;
use crate::journal::{JournalOp, JournalRecord};
use crate::records::{RecordFile, Salvage, Salvaged};
use crate::types::entry::Kind;
use crate::types::error::{Error, Result};
use crate::types::span::Span;
use crate::vfs::OpenMode;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::Path;

/// The records of some journals, in order.
#[derive(Default)]
pub(super) struct JournalRemains {
    pub records: Vec<JournalRecord>,
    /// The epochs of these records.
    pub epochs: HashSet<u64>,
    /// The batches that each epoch's journals commit.
    pub committed: HashMap<u64, BTreeSet<u64>>,
    /// True if records may be missing.
    pub damaged: bool,
}

impl JournalRemains {
    /// Reads the journals that are `wanted`. If the page cache `outlived` the process of an epoch,
    /// its records were written without gaps, so reading goes on after damage. Otherwise the first
    /// bad record ends a journal, unless a later record proves that the bad one had been durable.
    pub fn read(
        origin: &Origin<'_>,
        outlived: impl Fn(u64) -> bool,
        wanted: impl Fn(u64) -> bool,
        findings: &mut Findings,
    ) -> Result<Self> {
        let mut remains = Self::default();
        for (id, file) in origin.survey.of_kind(FileKind::Journal).filter(|&(id, _)| wanted(id)) {
            // A journal always has a header once it has its final name.
            let Some(header) = file.header else {
                remains.damaged = true;
                findings.damage(Error::corruption(&file.path, 0, "the journal's header is damaged"));
                findings.leave_out(&file.path, "its header is lost", true);
                continue;
            };
            debug_assert_eq!(header.file, id, "files are found by the number in their header");
            let handle = match origin.vfs.open(&file.path, OpenMode::Read) {
                Ok(handle) => handle,
                Err(error) => {
                    remains.damaged = true;
                    findings.leave_out(&file.path, format!("it cannot be opened: {error}"), true);
                    continue;
                }
            };
            remains.epochs.insert(header.epoch);
            let records = RecordFile { file: handle, path: file.path.clone(), header };
            remains.read_one(&records, file.bytes, outlived(header.epoch), findings)?;
        }
        Ok(remains)
    }

    fn read_one(
        &mut self,
        records: &RecordFile,
        bytes: u64,
        outlived: bool,
        findings: &mut Findings,
    ) -> Result<()> {
        let mut salvage = Salvage::new(records, bytes, JournalRecord::may_begin);
        // Damage, and the records after it. These records count once one of them proves that the
        // damaged place was durable.
        let mut holes: Vec<(u64, Error)> = Vec::new();
        let mut behind = Vec::new();
        let mut proven = 0;
        while let Some(found) = salvage.next()? {
            match found {
                Salvaged::Record { offset, payload, .. } => match JournalRecord::decode(&payload) {
                    Ok(record) => {
                        if let JournalRecord::Write { durable_bytes, .. } = &record {
                            proven = proven.max(*durable_bytes);
                        }
                        behind.push(record);
                    }
                    Err(what) => {
                        holes.push((offset, Error::corruption(&records.path, offset, what.0)));
                    }
                },
                Salvaged::Hole { offset, error, .. } | Salvaged::Damaged { offset, error, .. } => {
                    holes.push((offset, error));
                }
            }
            // If the last hole is proven, all are, since its offset is the greatest.
            let proves = |offset: u64| (outlived && !behind.is_empty()) || proven > offset;
            if holes.last().is_none_or(|&(offset, _)| proves(offset)) {
                for (_, error) in holes.drain(..) {
                    self.damaged = true;
                    findings.damage(error);
                }
                for record in behind.drain(..) {
                    if record.batch() != 0 {
                        self.committed.entry(records.header.epoch).or_default().insert(record.batch());
                    }
                    self.records.push(record);
                }
            }
        }
        Ok(())
    }
}

/// Adds the writes to apply again to the areas that they concern. They apply after everything else.
/// In areas without a manifest, where their place in that order is unknown, their versions decide.
pub(super) fn replay(plan: &mut Plan, path: &Path, findings: &mut Findings) {
    for (place, record) in std::mem::take(&mut plan.replay).into_iter().enumerate() {
        let JournalRecord::Write { version, ops, .. } = record else { continue };
        for (index, JournalOp { keyspace, kind, key, value }) in ops.into_iter().enumerate() {
            let newness = |area: &Area| {
                let (place, index) = (place as u64, index as u64);
                // For equal versions the journal's entry wins, as it is complete.
                let by_version = [version, u64::MAX, place << 32 | index];
                Newness(if area.by_version { by_version } else { [u64::MAX, place, index] })
            };
            let Some(planned) = plan.keyspaces.get(&keyspace).filter(|_| key.len() <= KEY_BYTES_MAX) else {
                continue;
            };
            let order = &planned.order;
            // The areas of a keyspace are in key order.
            let from = plan.areas.partition_point(|area| {
                area.keyspace < keyspace
                    || (area.keyspace == keyspace
                        && kind != Kind::DeleteRange
                        && area.span.ends_before(order, &key))
            });
            let areas = plan.areas[from..].iter_mut().take_while(|area| area.keyspace == keyspace);
            if kind != Kind::DeleteRange {
                if let Some(area) = { areas }.next() {
                    let newness = newness(area);
                    area.replayed.push(Entry { key: key.into(), newness, kind, value: value.into() });
                }
                continue;
            }
            match decode_bounds(&mut Decoder::new(&value)) {
                Ok(bounds) => {
                    for area in areas {
                        if area.span.overlaps(order, &bounds) {
                            let (newness, bounds, span) = (newness(area), bounds.clone(), Span::default());
                            area.replayed_deletes.push(RangeDelete { newness, bounds, span });
                        }
                    }
                }
                Err(what) => {
                    let what = format!("a range delete of version {version} in the journal {}", what.0);
                    findings.damage(Error::corruption(path, 0, what));
                }
            }
        }
    }
}
