//! A key's records, newest first: the one that a reader sees, and the ones that are still needed.

use super::record::Record;
use crate::mvcc::CommitCell;
use crate::types::entry::Kind;

/// The newest visible record at or below `at` in the chain that begins with `newest()`.
///
/// A record of an undecided batch is skipped, and the batch may be committed a moment later. The
/// records below are then garbage, and a writer may already have unlinked them. The skipped record
/// is not the answer either, as the batch may have withdrawn it for another. The search therefore
/// starts again, once for each batch of this key that is committed meanwhile. One batch is
/// undecided at a time, and its record is on top.
#[inline]
pub fn visible<'a>(newest: impl Fn() -> Option<&'a Record>, at: u64) -> Option<&'a Record> {
    loop {
        let mut current = newest();
        let mut passed: Option<&CommitCell> = None;
        while let Some(record) = current {
            if record.version() <= at {
                match record.cell() {
                    // Checked again: before the batch was committed, it may have withdrawn the
                    // record.
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

/// True if the record belongs to no batch, or to one that is committed.
#[inline]
pub fn is_decided(record: &Record) -> bool {
    record.cell().is_none_or(CommitCell::is_committed)
}

/// The record above a chain of records.
#[derive(Debug, Clone, Copy)]
pub enum Above<'a> {
    Nothing,
    /// A visible record with this version.
    Version(u64),
    /// A record of a batch that may fail.
    Batch(&'a CommitCell),
}

/// Visits the records of a chain with a flag that is true for those that stay, newest first.
/// `needed` is called as in [`Keep`](crate::mvcc::Keep): with neighbours, whether or not the newer
/// one itself stays.
///
/// An undecided record that does not belong to the batch above has failed, as batches follow one
/// another. Or it is being written now, while another thread copies the munk and will catch up.
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
        // Read before the visitor changes the link.
        current = record.older().get();
        let stays = match record.cell() {
            // Checked again, as in `visible`, as a writer may run at the same time.
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

/// Number of the staying records without the deletes at the end: below the oldest value there is
/// nothing to delete.
pub fn without_last_deletes(records: &[&Record]) -> usize {
    records.iter().rposition(|record| record.kind() == Kind::Put).map_or(0, |last| last + 1)
}
