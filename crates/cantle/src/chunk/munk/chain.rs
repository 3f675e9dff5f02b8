//! A key's records, newest first: which of them a reader sees, and which are still needed.

use super::record::Record;
use crate::entry::Kind;
use crate::mvcc::CommitCell;

/// The newest visible record at or below `at`.
///
/// A record of an undecided batch is passed by, and the batch may be committed a moment later. What lies below is
/// then garbage: writers may already have cut it off. In that case the batch's record is the answer, as if it had
/// been committed before the reader came. One batch is undecided at a time, and its newest record is the topmost.
#[inline]
pub fn visible(newest: Option<&Record>, at: u64) -> Option<&Record> {
    let mut current = newest;
    while let Some(record) = current {
        if record.version() <= at {
            let Some(cell) = record.cell() else { return current };
            return if cell.is_committed() { current } else { visible_below(record, cell, at) };
        }
        current = record.older().get();
    }
    None
}

/// The same below a record whose batch was not committed.
#[cold]
fn visible_below<'a>(passed: &'a Record, cell: &CommitCell, at: u64) -> Option<&'a Record> {
    let mut current = passed.older().get();
    while let Some(record) = current
        && !(record.version() <= at && record.cell().is_none_or(CommitCell::is_committed))
    {
        current = record.older().get();
    }
    if cell.is_committed() { Some(passed) } else { current }
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
/// What is undecided and not of the batch above has failed: batches follow one another.
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
            Some(cell) if !cell.is_committed() => batch.is_some_and(|batch| std::ptr::eq(cell, batch)),
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
