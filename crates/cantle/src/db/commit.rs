//! Commits prepared writes: gives them a version, appends and commits them, makes them visible
//! together, and makes them as durable as the caller asked for.

use super::store::Store;
use crate::format::bounds::encode_bounds;
use crate::format::limits::{BATCH_BYTES_MAX, BATCH_OP_BYTES, RECORD_BYTES_MAX};
use crate::journal::{Lsn, Reservation, Uncommitted};
use crate::layout::{Op, PreparedWrite, Stamp};
use crate::mvcc::{Announced, CommitCell, KeySpan};
use crate::substrate::Substrate;
use crate::sync::waits::{self, Cause};
use crate::types::durability::Durability;
use crate::types::error::{Error, Result};
use std::borrow::Cow;

/// Maximum number of bytes that an operation takes in a journal record besides its key and value:
/// keyspace, kind, and two lengths.
const JOURNAL_OP_BYTES: usize = 5 + 1 + 10 + 10;
/// Maximum number of bytes of a commit record, or of the head of a record with a write.
pub(super) const JOURNAL_HEAD_BYTES: usize = 1 + 4 * 10;

/// One record of the journal has room for every batch that `Limits::check_batch` accepts.
const _: () = assert!(JOURNAL_OP_BYTES <= BATCH_OP_BYTES);
const _: () = assert!((BATCH_BYTES_MAX + JOURNAL_HEAD_BYTES) as u64 <= RECORD_BYTES_MAX);

impl Store {
    /// True if the journal records the operations of a write, so that one sync of the journal makes
    /// the write durable. A `Sync` store records every write. Another store records a write that
    /// asks for more durability than the store's, if everything written before it is durable: a
    /// crash must leave a prefix. Such a store does not record a batch over several logs. The
    /// journal then has only the batch's commit record, appended at once and not with a group, and
    /// a checkpoint makes the batch durable.
    fn is_journaled(&self, spanning: bool, durability: Option<Durability>) -> bool {
        let substrate = &self.substrate;
        let asks_for_more = durability.is_some_and(|wanted| wanted > substrate.durability);
        substrate.durability == Durability::Sync || (asks_for_more && !spanning && self.is_all_journaled())
    }

    /// True if the journal records every write that no checkpoint covers.
    fn is_all_journaled(&self) -> bool {
        canary!(DURABLE_WITH_A_GAP => return true);
        let durable = self.substrate.checkpoints.durable_version();
        self.substrate.unjournaled.is_none_beyond(durable)
    }

    /// Announces a write. Also returns true if the journal will record the write; in a store that
    /// is not `Sync`, this is certain only now.
    fn announce(&self, span: KeySpan, journaled: bool) -> (Announced<'_>, bool) {
        let Substrate { mvcc, unjournaled, durability, .. } = &*self.substrate;
        if *durability == Durability::Sync {
            return (mvcc.announce(span), true);
        }
        if journaled {
            let announced = mvcc.announce(span);
            if self.is_all_journaled() {
                return (announced, true);
            }
        }
        (unjournaled.announce(mvcc, span), false)
    }

    /// Announces prepared writes, appends and commits them under one version, and makes them
    /// visible.
    pub(super) fn commit(
        &self,
        writes: &mut [Announceable<'_, '_>],
        durability: Option<Durability>,
    ) -> Result<Option<Lsn>> {
        let substrate = &self.substrate;
        let parts: usize = writes.iter().map(|(write, _, _)| write.logs()).sum();
        if parts == 0 {
            return Ok(None); // range deletes that delete nothing
        }
        let spanning = parts > 1;
        // A range delete that drops chunks is one edit, but becomes visible in each of them.
        let ranges = writes.iter().any(|(_, _, ops)| ops.iter().any(|op| op.bounds.is_some()));
        let several = ranges || spanning || writes.iter().map(|(_, _, ops)| ops.len()).sum::<usize>() > 1;
        let journaled = self.is_journaled(spanning, durability);
        let reservation = match (journaled, spanning) {
            (true, _) => Some(journal_bytes(writes)),
            (false, true) => Some(JOURNAL_HEAD_BYTES),
            (false, false) => None,
        };
        let reservation = reservation.map(|bytes| substrate.journal.reserve(bytes)).transpose();
        let reservation = reservation.map_err(|error| substrate.checked(error))?;
        let span = writes.iter().map(|(write, _, _)| write.span()).fold(KeySpan::EMPTY, KeySpan::hull);
        let cell = several.then(CommitCell::new);
        canary!(BATCH_SEEN_IN_HALF => let cell = None);
        let (announced, journaled) = self.announce(span, journaled);
        let reservation = reservation.filter(|_| journaled || spanning);
        // Closing the store waits for writes that were announced before this check.
        substrate.health.check_writable()?;
        let batch = if spanning { substrate.batches.take() } else { 0 };
        let stamp = Stamp { version: announced.version(), batch };
        let lsn = match self.append(writes, stamp, reservation, journaled) {
            Ok(lsn) => lsn,
            Err(Uncommitted::Surely(error)) => {
                writes.iter_mut().for_each(|(write, _, _)| write.revoke());
                return Err(error);
            }
            // Before the locks are released, so that nothing is appended after this batch.
            Err(Uncommitted::Perhaps(error)) => {
                self.doubt_batch(&error);
                return Err(error);
            }
        };
        for (write, _, _) in writes.iter_mut() {
            write.publish(cell.as_ref());
        }
        if let Some(cell) = &cell {
            cell.commit();
        }
        drop(announced);
        writes.iter_mut().for_each(|(write, _, _)| write.index());
        writes.iter_mut().for_each(|(write, _, _)| write.after_unlock());
        Ok(lsn)
    }

    pub(super) fn doubt_batch(&self, error: &Error) {
        self.substrate.health.fail(format!(
            "a batch that failed may be found after all ({error}): find out what is wrong with the disk, then reopen the store"
        ));
    }

    fn append(
        &self,
        writes: &mut [Announceable<'_, '_>],
        stamp: Stamp,
        reservation: Option<Reservation<'_>>,
        journaled: bool,
    ) -> std::result::Result<Option<Lsn>, Uncommitted> {
        let appended = writes.iter_mut().try_for_each(|(write, _, _)| write.append(stamp));
        // An append may include a sync, if nothing else would record a failed write-back by the
        // kernel (`files::unsynced`).
        appended.map_err(|error| Uncommitted::Surely(self.substrate.checked(error)))?;
        let Some(reservation) = reservation else { return Ok(None) };
        let journal = &self.substrate.journal;
        // The journal has room already: a failure here is one of the device.
        if journaled {
            let ops = writes.iter().flat_map(|(_, keyspace, ops)| ops.iter().map(move |op| (*keyspace, op)));
            let ops: Vec<_> = ops.map(|(keyspace, op)| (keyspace, op, journal_value(op))).collect();
            let encoded = ops.iter().map(|(keyspace, op, value)| (*keyspace, op.kind, op.key, &value[..]));
            let enqueued = journal.enqueue(reservation, stamp.batch, stamp.version, encoded);
            enqueued.map(Some).map_err(Uncommitted::Surely)
        } else {
            canary!(COMMIT_LEFT_OUT => return Ok(None));
            let commit = || journal.commit(reservation, stamp.batch, stamp.version);
            waits::timed(Cause::Device, commit).map(|()| None)
        }
    }

    /// Waits until the write is as durable as the caller asked for.
    pub(super) fn acknowledge(&self, lsn: Option<Lsn>, durability: Option<Durability>) -> Result<()> {
        let substrate = &self.substrate;
        if let Some(lsn) = lsn {
            return substrate.journal.wait(lsn).map_err(|error| substrate.sync_failed(error));
        }
        // A checkpoint makes a write durable that the journal does not record.
        match durability {
            Some(wanted) if wanted > substrate.durability => {
                waits::timed(Cause::Device, || substrate.checkpoint())
            }
            _ => Ok(()),
        }
    }
}

/// A prepared write, its keyspace's number, and its operations.
pub(super) type Announceable<'a, 'b> = (&'a mut (dyn PreparedWrite + 'b), u32, &'b [Op<'b>]);

fn journal_value<'a>(op: &Op<'a>) -> Cow<'a, [u8]> {
    op.bounds.map_or(Cow::Borrowed(op.value), |bounds| Cow::Owned(encode_bounds(bounds)))
}

/// Bytes of an operation's key, value and bounds.
pub(super) fn op_bytes(op: &Op<'_>) -> usize {
    let bounds = op.bounds.map_or(0, |bounds| encode_bounds(bounds).len());
    op.user_bytes() as usize + bounds
}

fn journal_bytes(writes: &[Announceable<'_, '_>]) -> usize {
    let ops = writes.iter().flat_map(|(_, _, ops)| ops.iter());
    JOURNAL_HEAD_BYTES + ops.map(|op| JOURNAL_OP_BYTES + op_bytes(op)).sum::<usize>()
}
