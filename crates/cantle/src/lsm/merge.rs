//! Merges: reading the runs of a job, writing the entries that are kept to new tables, and putting
//! these in the place of the inputs.
//!
//! The inputs are sealed, so a merge blocks nobody. One edit of the manifest replaces them. After a
//! power loss before the next checkpoint the inputs are used; they are held until that checkpoint.

use super::keyspace::Lsm;
use super::shape::{Job, Logs, Move, Outcome, Shape};
use super::state::Edit;
use super::view::View;
use crate::log::shared::SharedLog;
use crate::manifest;
use crate::mvcc::Keep;
use crate::run::run::{Run, Source};
use crate::run::stack::RunStack;
use crate::sync::Arc;
use crate::sync::atomic::Ordering::Relaxed;
use crate::sync::time::now;
use crate::types::bounds::Bounds;
use crate::types::error::{Error, Result};

/// The origin of a merge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trigger {
    /// Maintenance. It ends when the store is closed.
    Background,
    /// The user.
    Asked,
}

impl<S: Shape> Lsm<S> {
    /// The logs that may be merged: sealed ones with an index on disk, and those of earlier
    /// openings. They are the oldest, without a gap.
    pub(super) fn ripe_logs(&self, view: &View<S>) -> Vec<Run> {
        let is_of = |run: &Run, log: &SharedLog| run.is_of(&log.segment);
        self.rotation.ripe(view, &view.logs, is_of).to_vec()
    }

    /// Merges all ripe logs into the tables; false if there are none.
    pub(super) fn merge_logs(&self, trigger: Trigger) -> Result<bool> {
        let has_adopted = self.adopt_logs(trigger)?;
        let _merging = self.jobs.merging.lock();
        let view = self.rotation.view.load_full();
        let logs = self.ripe_logs(&view);
        if logs.is_empty() {
            return Ok(has_adopted);
        }
        canary!(LOG_LEFT_OUT => let logs = [&logs[..1], logs.get(2..).unwrap_or_default()].concat());
        let bytes = logs.iter().map(Run::bytes).sum();
        let order = &self.env.order;
        let job = view.shape.take_logs(order, &self.rules(), &Logs { bytes });
        self.run(&view, &logs, &job, trigger)
    }

    /// Merges the tables that are due next; false if none are.
    pub(super) fn merge_tables(&self, trigger: Trigger) -> Result<bool> {
        let _merging = self.jobs.merging.lock();
        let view = self.rotation.view.load_full();
        let Some(job) = view.shape.pick(&self.env.order, &self.rules()) else { return Ok(false) };
        self.run(&view, &[], &job, trigger)
    }

    /// Merges everything within the bounds, as of now.
    pub(super) fn sort(&self, bounds: &Bounds) -> Result<()> {
        self.rotation.seal_active();
        self.index_all_sealed()?;
        self.merge_logs(Trigger::Asked)?;
        loop {
            // Registered for each job, so that closing the store waits for one only.
            let Some(_work) = self.substrate.begin_work() else { return Err(Error::Closed) };
            let _merging = self.jobs.merging.lock();
            let view = self.rotation.view.load_full();
            let job = view.shape.sort_within(&self.env.order, &self.rules(), bounds);
            let Some(job) = job else { break };
            if !self.run(&view, &[], &job, Trigger::Asked)? {
                return Ok(());
            }
        }
        self.rearrange()
    }

    /// Makes the changes of groups that are due and move no data.
    fn rearrange(&self) -> Result<()> {
        loop {
            let _merging = self.jobs.merging.lock();
            let view = self.rotation.view.load_full();
            let job = view.shape.pick(&self.env.order, &self.rules()).filter(|job| job.pieces.is_empty());
            let Some(job) = job else { return Ok(()) };
            if !self.run(&view, &[], &job, Trigger::Asked)? {
                return Ok(());
            }
        }
    }

    /// Executes a job; false if the keyspace was dropped meanwhile, or the change was refused. The
    /// caller holds `merging`.
    pub(super) fn run(&self, view: &View<S>, logs: &[Run], job: &Job, trigger: Trigger) -> Result<bool> {
        let _span = tracing::debug_span!("merge", logs = logs.len(), pieces = job.pieces.len()).entered();
        let begun = now();
        let substrate = &self.substrate;
        substrate.health.check_writable()?;
        substrate.journal.wait_durable().map_err(|error| substrate.sync_failed(error))?;
        // Only now: a snapshot that is opened later needs only the newest version of each key.
        let keep = Keep::new(substrate.mvcc.open_versions());
        let tables = || job.pieces.iter().flat_map(|piece| &piece.tables);
        let merged_logs = if job.pieces.is_empty() { &[] } else { logs };
        let bytes: u64 = merged_logs.iter().chain(tables()).map(Run::bytes).sum();
        // A merge that the user asks for may have little to write, after a range delete for example:
        // it takes space as it needs it.
        let (is_asked, output_bytes) = (trigger == Trigger::Asked, bytes + bytes / 8);
        let mut grant = substrate.reserve.grant(if is_asked { 0 } else { output_bytes }, is_asked)?;
        let mut written = Written { lsm: self, pieces: Vec::with_capacity(job.pieces.len()) };
        for piece in &job.pieces {
            let share = |log: &Run| match job.pieces.len() {
                1 => Run { span: Arc::new(piece.span.clone()), ..log.clone() },
                // Not read as a whole for each piece.
                pieces => log.part(piece.span.clone(), log.bytes() / pieces as u64),
            };
            let files: Vec<Run> = logs.iter().map(share).chain(piece.tables.iter().cloned()).collect();
            let stack = RunStack { files };
            let outcome = self.merge_piece((view, piece), &stack, &keep, &mut grant, trigger);
            written.pieces.push(outcome.map_err(|error| substrate.checked(error))?);
        }
        // The output's space is counted by the file system now.
        drop(grant);
        let is_done = substrate.reserve.with(|| self.install(view, logs, job, &mut written))?;
        let sinks = job.moves.iter().filter(|change| matches!(change, Move::Sink { .. })).count();
        if is_done {
            self.counters.tables_moved.add(sinks as u64);
        }
        if is_done && !job.pieces.is_empty() {
            self.counters.merges.add(1);
            self.counters.merged_bytes.add(bytes);
            self.note_speed(bytes, begun.elapsed());
        }
        Ok(is_done)
    }

    /// An error if a merge is of no use any more, or keeps a closing from its end.
    pub(super) fn check_wanted(&self, trigger: Trigger) -> Result<()> {
        if self.jobs.is_retiring.load(Relaxed) {
            return Err(Error::NoKeyspace("(dropped)".into()));
        }
        match trigger == Trigger::Background && self.substrate.health.is_closing() {
            true => Err(Error::Closed),
            false => Ok(()),
        }
    }

    /// The greatest version that no entry of these runs is below.
    pub(super) fn base_version(&self, stack: &RunStack) -> Result<u64> {
        let env = &self.env;
        let mut base_version = self.substrate.mvcc.current();
        for run in &stack.files {
            base_version = base_version.min(match &run.source {
                Source::Log(segment) => segment.parts(env)?.header.base_version,
                Source::Table(table) => {
                    table.open(&env.tables, &env.files, &env.order, &env.cache)?.header().base_version
                }
            });
        }
        Ok(base_version)
    }

    /// Puts the output in the place of the inputs. Only merges change the shape, so it is that of
    /// the view at the start of the merge.
    fn install(&self, view: &View<S>, logs: &[Run], job: &Job, written: &mut Written<'_, S>) -> Result<bool> {
        let order = &self.env.order;
        if self.rotation.changes.lock().retired {
            return Ok(false);
        }
        canary!(LOGS_GONE_EARLY => self.rotation.change(|now| View {
            logs: now.logs.iter().filter(|log| !logs.iter().any(|old| old.file().id == log.file().id)).cloned().collect(),
            ..now.clone()
        }));
        let change = view.shape.after(order, job, &written.pieces);
        let fault = change.shape.fault(order);
        // A comparator that has failed may have placed tables anywhere.
        order.check()?;
        if let Some(fault) = fault {
            debug_assert!(false, "{fault}");
            tracing::error!(fault, keyspace = self.env.keyspace, "a change of files was refused");
            self.counters.edits_refused.add(1);
            return Ok(false);
        }
        let void = self.jobs.void_logs.lock().clone();
        let merged = logs.iter().map(|log| log.file().id).chain(void.iter().copied()).collect();
        let removed: Vec<u64> = change.removed.iter().map(|(id, _)| *id).collect();
        self.note_written(&written.pieces, &change.added);
        let (added, new): (Vec<_>, Vec<_>) = change.added.into_iter().unzip();
        let payload = Edit::Merge { logs: merged, removed, added }.encode();
        let edit = manifest::Edit::Layout { keyspace: self.env.keyspace, payload };
        canary!(MERGE_UNTOLD_OF_LEVELS else self.substrate.manifest.append(&[edit]))?;
        written.pieces.clear();
        // The next opening removes their files, which nothing names any more.
        self.jobs.void_logs.lock().retain(|log| !void.contains(log));
        let shape = Arc::new(change.shape);
        // Before the references of the groups that go: some tables are in both.
        new.iter().flatten().for_each(|run| run.retain(&self.env.totals));
        self.rotation.change(|now| {
            let merged = |log: &Run| logs.iter().any(|merged| log.file().id == merged.file().id);
            let left = now.logs.iter().filter(|log| !merged(log)).cloned().collect();
            View { active: now.active.clone(), logs: left, shape }
        });
        self.release_runs(logs.iter().chain(change.removed.iter().flat_map(|(_, runs)| runs)));
        if self.substrate.files.held_bytes() > HELD_BYTES_MAX {
            self.substrate.checkpoints.want();
            self.substrate.pool.wake();
        }
        Ok(true)
    }
}

/// Obsolete files of this many bytes, which only the last checkpoint needs, bring the next one
/// forward.
const HELD_BYTES_MAX: u64 = 256 << 20;

/// Tables that were written and are not in use yet. Those that are left when this is dropped are
/// removed.
pub(super) struct Written<'a, S: Shape> {
    pub lsm: &'a Lsm<S>,
    pub pieces: Vec<Outcome>,
}

impl<S: Shape> Drop for Written<'_, S> {
    fn drop(&mut self) {
        for placed in self.pieces.iter().flat_map(|outcome| &outcome.placed) {
            placed.output.discard(&self.lsm.env);
        }
    }
}

#[cfg(test)]
impl<S: Shape> Lsm<S> {
    /// Seals and merges all logs, in this thread, and then the tables that are due.
    pub fn settle_for_test(&self) -> Result<()> {
        self.merge_logs_for_test()?;
        while self.merge_tables(Trigger::Asked)? {}
        Ok(())
    }

    /// Seals and merges all logs, in this thread.
    pub fn merge_logs_for_test(&self) -> Result<()> {
        self.rotation.seal_active();
        self.index_all_sealed()?;
        self.merge_logs(Trigger::Asked).map(drop)
    }
}
