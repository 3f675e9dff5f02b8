//! A key's records, newest first: which of them a reader sees, and which are still needed.

use super::record::Record;
use crate::mvcc::CommitCell;
use crate::types::entry::Kind;

/// The newest visible record at or below `at`, of the chain that begins with what `newest` gives.
///
/// A record of an undecided batch is passed by, and the batch may be committed a moment later. What lies below is
/// then garbage, and writers may already have cut it off; nor is the record itself the answer, as the batch may have
/// withdrawn it for another. So the search begins anew, which happens once for each batch of this key that is
/// committed meanwhile. One batch is undecided at a time, and its record is on top.
#[inline]
pub fn visible<'a>(newest: impl Fn() -> Option<&'a Record>, at: u64) -> Option<&'a Record> {
    loop {
        let mut current = newest();
        let mut passed: Option<&CommitCell> = None;
        while let Some(record) = current {
            if record.version() <= at {
                match record.cell() {
                    // Asked again: before the batch was committed, it may have withdrawn the record.
                    Some(cell) if !(cell.is_committed() && is_decided(record)) => {
                        passed = passed.or(Some(cell));
                    }
                    _ => break,
                }
            }
            current = record.older().get();
        }
        if !passed.is_some_and(CommitCell::is_committed) {
            return current;
        }
    }
}

/// Whether the record is of no batch, or of one that is committed.
#[inline]
pub fn is_decided(record: &Record) -> bool {
    record.cell().is_none_or(CommitCell::is_committed)
}

/// What is to be above a chain of records.
#[derive(Debug, Clone, Copy)]
pub enum Above<'a> {
    Nothing,
    /// A visible record with this version.
    Version(u64),
    /// A record of a batch that may fail.
    Batch(&'a CommitCell),
}

/// Visits the records of a chain that stay, newest first, and the others. `needed` is asked as in
/// [`Keep`](crate::mvcc::Keep): by neighbours, whether or not the newer one itself stays.
///
/// What is undecided and not of the batch above has failed, as batches follow one another; or it is written just now, to
/// somebody who copies beside the writer and catches up.
pub fn sift<'a>(
    newest: Option<&'a Record>,
    above: Above<'_>,
    needed: impl Fn(u64, u64) -> bool,
    mut visit: impl FnMut(&'a Record, bool),
) {
    let (mut newer, batch) = match above {
        Above::Nothing => (None, None),
        Above::Version(version) => (Some(version), None),
        Above::Batch(cell) => (None, Some(cell)),
    };
    let mut current = newest;
    while let Some(record) = current {
        // Before the visitor relinks it.
        current = record.older().get();
        let stays = match record.cell() {
            // Asked again, as in `visible`, for those who sift beside a writer.
            Some(cell) if !(cell.is_committed() && is_decided(record)) => {
                batch.is_some_and(|batch| std::ptr::eq(cell, batch))
            }
            _ => {
                let stays = newer.is_none_or(|newer| needed(record.version(), newer));
                newer = Some(record.version());
                stays
            }
        };
        visit(record, stays);
    }
}

/// How many of the records that stay are left without the deletes at the end: beneath the oldest value there is
/// nothing to delete.
pub fn without_last_deletes(records: &[&Record]) -> usize {
    records.iter().rposition(|record| record.kind() == Kind::Put).map_or(0, |last| last + 1)
}
