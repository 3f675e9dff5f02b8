//! Classic flush: a sealed generation is written as a table, in the place of an index for its log.
//!
//! *The log is level 0* saves writing a generation a second time: an index makes its log a sorted run. For
//! tiny pairs the index is nearly as long as the records, and reads of the log then cost more than those of a
//! table: an index block and a record, where a table has one block. Such a generation is flushed by itself
//! ([`is_dear`]), and any other one if the option says so.
//!
//! Invariants:
//!
//! * The table takes the place of its log in level 0. Newer generations may be above it, so it does not come
//!   on top.
//! * It is put there while the claims of merges are locked, and the generation counts as sealing until then:
//!   no merge ever takes the log, and one that is planned later takes the table.
//! * The log is held until the next checkpoint, like every input of a merge. After a loss of power before it
//!   the log is used.

use super::keyspace::Lsm;
use super::maintain::SHORT_FRACTION;
use super::merge::{Trigger, Written};
use super::piece::Pass;
use super::shape::{Cuts, Piece, Place, Shape};
use super::state::Edit;
use super::view::View;
use crate::filter::monkey::LOG_BITS;
use crate::log::index::operations::Operations;
use crate::log::shared::SharedLog;
use crate::mvcc::Keep;
use crate::read_ahead::BytesRead;
use crate::run::record::FileRecord;
use crate::run::retain::Bottom;
use crate::run::run::{Run, Source};
use crate::run::stack::RunStack;
use crate::run::sync_together::SyncTogether;
use crate::sync::Arc;
use crate::types::error::Result;
use crate::types::span::Span;

/// A generation is flushed by itself if its index would have more than this part of the bytes of its records,
/// in percent.
const DEAR_PERCENT: u64 = 40;

/// True if the index of a log costs more than it saves. A log in key order has next to no index, and becomes a
/// run of a guard as it is.
fn is_dear(operations: &Operations) -> bool {
    let index_bytes = operations.index_bytes(LOG_BITS);
    !operations.is_in_key_order() && 100 * index_bytes > DEAR_PERCENT * operations.record_bytes
}

impl<S: Shape> Lsm<S> {
    /// True if a sealed generation becomes a table. A short one gets an index unless the option says
    /// otherwise: that costs no file, and closing a store no sync.
    fn is_to_be_flushed(&self, log: &SharedLog) -> bool {
        let Some(parts) = log.segment.loaded().filter(|parts| parts.indexed.is_empty()) else { return false };
        let Some(memory) = parts.memory.as_ref().filter(|memory| !memory.is_empty()) else { return false };
        let limits = self.limits();
        if !limits.rules.log_is_level_0 {
            return true;
        }
        let is_short = log.segment.len() < limits.generation_bytes / SHORT_FRACTION;
        !is_short && is_dear(&Operations::of(memory, log.segment.len()))
    }

    /// Writes a quiet generation as a table if that is due; false if it is to be indexed, which is also the
    /// case if the disk is full: the reserve has space for an index, and logs of deletes become ripe for the
    /// merge that frees space. The caller holds the lock of `settling`.
    pub(super) fn flush_if_due(&self, log: &SharedLog) -> Result<bool> {
        if !self.is_to_be_flushed(log) || self.substrate.health.check_writable().is_err() {
            return Ok(false);
        }
        match self.flush(log) {
            Err(error) if error.is_no_space() => {
                tracing::warn!(%error, "cannot flush a generation: its log gets an index");
                Ok(false)
            }
            Err(_) if self.rotation.changes.lock().retired => Ok(true),
            done => done.map(|()| true),
        }
    }

    fn flush(&self, log: &SharedLog) -> Result<()> {
        let substrate = &self.substrate;
        substrate.health.check_sound()?;
        substrate.journal.wait_durable().map_err(|error| substrate.sync_failed(error))?;
        log.segment.flush().map_err(|error| substrate.checked(error))?;
        let view = self.rotation.view.load_full();
        let is_of = |run: &&Run| run.is_of(&log.segment);
        // Otherwise the keyspace was dropped.
        let Some(run) = view.level0.iter().find(is_of).cloned() else { return Ok(()) };
        // Only now: a snapshot that is opened later needs only the newest version of each key.
        let keep = Keep::new(substrate.mvcc.open_versions());
        let bytes = run.bytes();
        let mut grant = substrate.reserve.grant(bytes + bytes / 8, false)?;
        let piece = Piece {
            span: Span::default(),
            tables: Vec::new(),
            taken: Vec::new(),
            bottom: Bottom::Deeper,
            cuts: Cuts::At(Vec::new()),
            // The merge that brings it down notes the runs that it covers.
            place: Place::BELOW,
            groups: Vec::new(),
        };
        let stack = RunStack { files: vec![run.clone()] };
        let lineage = self.lineage_of(&piece, &stack)?;
        // A closing waits for it, as it does for an index.
        let (read, copying) = (&BytesRead::default(), self.copying(&view));
        let synced = &SyncTogether::new(substrate.files.in_use_max());
        let pass = Pass { keep: &keep, read, copying, trigger: Trigger::Asked, synced };
        let outcome = self.merge_piece((&view, &piece), (&stack, &lineage), pass, &mut grant);
        let outcome = outcome.map_err(|error| substrate.checked(error))?;
        let mut written = Written { lsm: self, pieces: Vec::new(), logs: Vec::new() };
        written.add(outcome, &stack).map_err(|error| substrate.sync_failed(error))?;
        synced.sync().map_err(|error| substrate.checked(error))?;
        drop(grant);
        substrate.reserve.with(|| self.install_flushed(&run, &mut written))
    }

    /// Puts the tables in the place of their log.
    fn install_flushed(&self, log: &Run, written: &mut Written<'_, S>) -> Result<()> {
        // No merge is planned meanwhile.
        let _busy = self.jobs.claims.lock();
        if self.rotation.changes.lock().retired {
            return Ok(());
        }
        let placed = written.pieces.iter().flat_map(|outcome| &outcome.placed);
        let run = |table| Run {
            source: Source::Table(table),
            span: Arc::default(),
            dropped: None,
            dropped_ranges: None,
            share_bytes: None,
        };
        let tables: Vec<Run> = placed.map(|placed| run(placed.output.table.clone())).collect();
        let records = tables.iter().map(|table| FileRecord::of(table, &Span::default())).collect();
        // A comparator that has failed may have sorted them in any way.
        self.env.order.check()?;
        let payload = Edit::Flush { log: Some(log.file().id), tables: records }.encode();
        self.substrate.manifest.append(&written.edits(payload))?;
        written.pieces.clear();
        tables.iter().for_each(|table| table.retain(&self.env.totals));
        let bytes = tables.iter().map(Run::bytes).sum();
        self.rotation.change(|now| {
            let mut level0 = now.level0.clone();
            if let Some(place) = level0.iter().position(|run| run.file().id == log.file().id) {
                level0.remove(place);
                canary!(FLUSHED_ON_TOP => let place = 0);
                level0.splice(place..place, tables);
            }
            View { level0, ..now.clone() }
        });
        self.release_runs(std::iter::once(log));
        // Its memory is in use until nobody refers to it.
        self.substrate.dirty.forget_obsolete();
        self.counters.generations_flushed.add(1);
        self.counters.flushed_bytes.add(bytes);
        self.want_checkpoint();
        Ok(())
    }
}
