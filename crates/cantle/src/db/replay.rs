//! Replay: applies the writes again that the journal kept from before a power failure.

use super::batch::OwnedOp;
use super::commit::JOURNAL_HEAD_BYTES;
use super::store::Store;
use super::write::KeyspaceWrite;
use crate::journal::{JournalOp, JournalRecord, Uncommitted};
use crate::layout::{ReadSet, Stamp};
use crate::mvcc::KeySpan;
use crate::types::bounds::Bounds;
use crate::types::entry::Kind;
use crate::types::error::{Error, Result};
use bytes::Bytes;

impl Store {
    /// Applies the writes that the journal kept from before a power failure. The old journal stays
    /// until a checkpoint covers them. On a full disk, uses the space set aside, and that of the
    /// files that the crash left behind.
    pub(super) fn replay(
        &self,
        records: Vec<JournalRecord>,
        orphans: &mut Vec<std::path::PathBuf>,
    ) -> Result<()> {
        for record in records {
            let JournalRecord::Write { ops, .. } = record else { continue };
            let parts = self.replayed_writes(ops)?;
            self.replay_with_room(&parts, orphans)?;
        }
        Ok(())
    }

    /// Applies a write, and repeats it with more space if it found none. It is not repeated if the
    /// failed attempt could not be revoked: the edits of that attempt would hide those of the next,
    /// and its buffered records would be in the way.
    fn replay_with_room(&self, parts: &[KeyspaceWrite], orphans: &mut Vec<std::path::PathBuf>) -> Result<()> {
        loop {
            let Err(error) = self.replay_write(parts) else { return Ok(()) };
            if !error.is_no_space() || self.substrate.health.check_sound().is_err() {
                return Err(error);
            }
            if self.substrate.reserve.give_back() {
                continue;
            }
            if orphans.is_empty() {
                return Err(error);
            }
            self.remove_orphans_now(orphans)?;
        }
    }

    fn replayed_writes(&self, ops: Vec<JournalOp>) -> Result<Vec<KeyspaceWrite>> {
        let mut parts: Vec<KeyspaceWrite> = Vec::new();
        for op in ops {
            // Writes to a dropped keyspace are not needed.
            let Some(keyspace) = self.all_keyspaces().into_iter().find(|keyspace| keyspace.id == op.keyspace)
            else {
                continue;
            };
            let bounds = match op.kind {
                Kind::DeleteRange => Some(decode_journal_bounds(&op.value)?),
                _ => None,
            };
            let value = if bounds.is_some() { Bytes::new() } else { Bytes::from(op.value) };
            let op = OwnedOp { kind: op.kind, key: Bytes::from(op.key), value, bounds };
            match parts.iter_mut().find(|part| part.keyspace.id == keyspace.id) {
                Some(part) => part.ops.push(op),
                None => parts.push(KeyspaceWrite { keyspace, ops: vec![op], reads: ReadSet::default() }),
            }
        }
        parts.sort_by_key(|part| part.keyspace.id);
        Ok(parts)
    }

    fn replay_write(&self, parts: &[KeyspaceWrite]) -> Result<()> {
        let ops: Vec<_> = parts.iter().map(KeyspaceWrite::lend).collect();
        let mut prepared = Vec::with_capacity(parts.len());
        for (part, ops) in parts.iter().zip(&ops) {
            prepared.push(part.keyspace.layout.prepare(ops, &part.reads)?);
        }
        let spanning = prepared.iter().map(|write| write.logs()).sum::<usize>() > 1;
        // The write is a batch of this epoch, and needs a commit record in case the process dies.
        let journal = &self.substrate.journal;
        let reservation = spanning.then(|| journal.reserve(JOURNAL_HEAD_BYTES)).transpose()?;
        let announced = self.substrate.unjournaled.announce(&self.substrate.mvcc, KeySpan::ALL);
        let batch = if spanning { self.substrate.batches.take() } else { 0 };
        let stamp = Stamp { version: announced.version(), batch };
        let appended = prepared.iter_mut().try_for_each(|write| write.append(stamp));
        let appended = appended.map_err(|error| Uncommitted::Surely(self.substrate.checked(error)));
        let appended = appended.and_then(|()| {
            reservation.map_or(Ok(()), |room| journal.commit(room, stamp.batch, stamp.version))
        });
        match appended {
            Ok(()) => {}
            Err(Uncommitted::Surely(error)) => {
                prepared.iter_mut().for_each(|write| write.revoke());
                return Err(error);
            }
            // The next opening replays the write again.
            Err(Uncommitted::Perhaps(error)) => {
                self.doubt_batch(&error);
                return Err(error);
            }
        }
        for write in &mut prepared {
            write.publish(None);
        }
        drop(announced);
        prepared.iter_mut().for_each(|write| write.index());
        prepared.iter_mut().for_each(|write| write.after_unlock());
        Ok(())
    }
}

fn decode_journal_bounds(value: &[u8]) -> Result<Bounds> {
    crate::format::bounds::decode_bounds(&mut crate::format::codec::Decoder::new(value))
        .map_err(|what| Error::corruption("journal", 0, format!("a range delete {}", what.0)))
}
