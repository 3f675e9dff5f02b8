//! Merges: reading the runs of a job, writing the entries that are kept to new tables, and putting
//! these in the place of the inputs.
//!
//! The inputs are sealed, so a merge blocks nobody, and merges of other groups run at the same time
//! ([`busy`](super::busy)). One edit of the manifest replaces them. After a
//! power loss before the next checkpoint the inputs are used; they are held until that checkpoint.

use super::busy::Busy;
use super::keyspace::Lsm;
use super::lineage::LeftOut;
use super::piece::Pass;
use super::shape::{Job, Logs, Move, Outcome, Shape};
use super::state::Edit;
use super::view::View;
use crate::layout::stats::RunningMerge;
use crate::log::shared::SharedLog;
use crate::manifest::{self, SegmentEdit};
use crate::mvcc::Keep;
use crate::run::run::{Run, Source};
use crate::run::stack::RunStack;
use crate::run::sync_together::SyncTogether;
use crate::sync::Arc;
use crate::sync::atomic::Ordering::Relaxed;
use crate::sync::time::now;
use crate::types::bounds::Bounds;
use crate::types::error::{Error, Result};
use std::collections::HashSet;

/// The origin of a merge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trigger {
    /// Maintenance. It ends when the store is closed.
    Background,
    /// The user.
    Asked,
}

/// A job, and the logs and flushed tables of level 0 that it merges above the runs of its pieces, or the log
/// that it adopts.
pub struct Planned {
    pub logs: Vec<Run>,
    pub job: Job,
}

impl<S: Shape> Lsm<S> {
    /// The runs of level 0 that may be merged: sealed logs with an index on disk, those of earlier
    /// openings, and flushed tables. They are the oldest, without a gap.
    pub fn ripe_logs(&self, view: &View<S>) -> Vec<Run> {
        let is_of = |run: &Run, log: &SharedLog| run.is_of(&log.segment);
        self.rotation.ripe(view, &view.level0, is_of).to_vec()
    }

    /// Merges all ripe runs of level 0 into the tables, or as many as maintenance takes at once and a full disk has
    /// room for; false if there are none, or if running merges are in the way of maintenance.
    pub fn merge_logs(&self, trigger: Trigger) -> Result<bool> {
        let has_adopted = self.adopt_logs(trigger)?;
        let merge = |view: &View<S>, busy: &Busy| {
            let mut logs = self.ripe_logs(view);
            // One that has become ripe meanwhile may be adopted, too.
            if trigger == Trigger::Background && self.log_apart(view, &logs, busy).is_some() {
                return None;
            }
            if trigger == Trigger::Background || self.disk_room().is_some() {
                logs = self.oldest_logs(&logs).to_vec();
            }
            canary!(LOG_LEFT_OUT => let logs = [logs.get(..1).unwrap_or_default(), logs.get(2..).unwrap_or_default()].concat());
            let bytes = logs.iter().map(Run::bytes).sum();
            let job = view.shape.take_logs(&self.env.order, &self.rules(), &Logs { bytes }, busy);
            (!logs.is_empty()).then_some(Planned { logs, job })
        };
        Ok(self.run_next(merge, trigger)? || has_adopted)
    }

    /// Merges the tables that are due next; false if none are.
    pub fn merge_tables(&self, trigger: Trigger) -> Result<bool> {
        self.run_next(|view, busy| self.pick(view, busy), trigger)
    }

    /// The next change of tables that is due.
    pub fn pick(&self, view: &View<S>, busy: &Busy) -> Option<Planned> {
        let job = view.shape.pick(&self.env.order, &self.rules(), busy)?;
        Some(Planned { logs: Vec::new(), job })
    }

    /// Merges everything within the bounds, as of now. Later writes stay as they are: somebody may write faster
    /// than this merges.
    pub(super) fn sort(&self, bounds: &Bounds) -> Result<()> {
        self.rotation.seal_active();
        self.index_all_sealed()?;
        let newest = self.substrate.files.peek_id();
        let is_left = |log: &Run| log.file().id < newest;
        // The changes of groups that are due and move no data.
        let rearrange =
            |view: &View<S>, busy: &Busy| self.pick(view, busy).filter(|planned| planned.job.takes_nothing());
        if self.disk_room().is_some() && self.drop_early()? {
            self.run_next(rearrange, Trigger::Asked)?;
        }
        // A full disk has not room for all of them at once.
        while self.ripe_logs(&self.view()).iter().any(is_left)
            && self.with_freed(|| self.merge_logs(Trigger::Asked))?
        {}
        // On a full disk, tables come down a level at a time.
        let levels = self.view().shape.groups().map(|group| group.level).max().unwrap_or(1);
        let rounds = if self.disk_room().is_some() { levels } else { 1 };
        (0..rounds).try_for_each(|_| self.sort_tables(bounds))?;
        let mut groups = self.rotation.view.load().shape.groups().count();
        while groups > 0 && self.run_next(rearrange, Trigger::Asked)? {
            groups -= 1;
        }
        Ok(())
    }

    /// Sorts the tables that there are now.
    fn sort_tables(&self, bounds: &Bounds) -> Result<()> {
        let upto = self.substrate.files.peek_id();
        let sort = |view: &View<S>, busy: &Busy| {
            let job = view.shape.sort_within(&self.env.order, &self.rules(), bounds, upto, busy)?;
            Some(Planned { logs: Vec::new(), job })
        };
        loop {
            // Registered for each job, so that closing the store waits for one only.
            let Some(_work) = self.substrate.begin_work() else { return Err(Error::Closed) };
            if !self.with_freed(|| self.run_next(sort, Trigger::Asked))? {
                return Ok(());
            }
        }
    }

    /// Plans a job and executes it; false if there is none, if the keyspace was dropped meanwhile, or
    /// if the change was refused. If running merges are in the way, maintenance does without the job,
    /// and others wait.
    pub fn run_next(
        &self,
        plan: impl Fn(&View<S>, &Busy) -> Option<Planned>,
        trigger: Trigger,
    ) -> Result<bool> {
        let substrate = &self.substrate;
        let mut is_durable = false;
        loop {
            substrate.health.check_writable()?;
            let mut busy = self.jobs.claims.lock();
            if trigger == Trigger::Background && busy.is_awaited() {
                return Ok(false);
            }
            let view = self.rotation.view.load_full();
            let Some(planned) = plan(&view, &busy) else {
                if trigger == Trigger::Asked && busy.merges() > 0 {
                    // They may be all that is in the way.
                    self.jobs.claims.wait(busy);
                    continue;
                }
                return Ok(false);
            };
            if planned.job.pieces.is_empty() {
                if is_durable {
                    return self.rearrange(&mut busy, &planned);
                }
                // Not under the lock: a disk may hang.
                drop(busy);
                substrate.journal.wait_durable().map_err(|error| substrate.sync_failed(error))?;
                is_durable = true;
                continue;
            }
            let claim = planned.job.claim(!planned.logs.is_empty());
            if busy.admits(&claim) {
                let _claimed = self.jobs.claims.claim(busy, claim);
                return self.merge(&view, &planned, trigger);
            }
            if trigger == Trigger::Background {
                return Ok(false);
            }
            self.jobs.claims.wait(busy);
        }
    }

    /// Makes a change that moves no data.
    fn rearrange(&self, busy: &mut Busy, planned: &Planned) -> Result<bool> {
        let mut written = Written { lsm: self, pieces: Vec::new(), logs: Vec::new() };
        self.substrate.reserve.with(|| self.install(busy, planned, &mut written))
    }

    /// Merges what a job names, and installs the output. The job's groups are claimed.
    fn merge(&self, view: &View<S>, planned: &Planned, trigger: Trigger) -> Result<bool> {
        let Planned { logs, job } = planned;
        let _span = tracing::debug_span!("merge", logs = logs.len(), pieces = job.pieces.len()).entered();
        let begun = now();
        let substrate = &self.substrate;
        substrate.journal.wait_durable().map_err(|error| substrate.sync_failed(error))?;
        // Only now: a snapshot that is opened later needs only the newest version of each key.
        let keep = Keep::new(substrate.mvcc.open_versions());
        let tables = job.pieces.iter().flat_map(|piece| &piece.tables);
        let bytes: u64 = logs.iter().chain(tables).map(Run::bytes).sum();
        let copying = self.copying(view);
        let mut grant = self.room_for(planned, copying, trigger)?;
        let mut written =
            Written { lsm: self, pieces: Vec::with_capacity(job.pieces.len()), logs: Vec::new() };
        let is_asked = trigger == Trigger::Asked;
        let progress = self.jobs.merging.running.register(RunningMerge {
            is_asked,
            bytes,
            ..self.levels_of(view, planned)
        });
        let synced = &SyncTogether::new(substrate.files.in_use_max());
        let mut reached = 0;
        let mut left_out = LeftOut::new(self);
        for piece in &job.pieces {
            let share = |log: &Run| match job.pieces.len() {
                1 => Run { span: Arc::new(piece.span.clone()), ..log.clone() },
                // Not read as a whole for each piece.
                pieces => log.part(piece.span.clone(), log.bytes() / pieces as u64),
            };
            let files: Vec<Run> = logs.iter().map(share).chain(piece.tables.iter().cloned()).collect();
            let stack = RunStack { files };
            let lineage = self.lineage_of(piece, &stack)?;
            let pass = Pass { keep: &keep, read: progress.read(), copying, trigger, synced };
            let outcome = self.merge_piece((view, piece), (&stack, &lineage), pass, &mut grant);
            let outcome = outcome.map_err(|error| substrate.checked(error))?;
            reached += stack.files.iter().map(Run::bytes).sum::<u64>();
            progress.reached(reached);
            left_out.add(piece, &stack, &lineage, &outcome)?;
            written.add(outcome, &stack).map_err(|error| substrate.sync_failed(error))?;
        }
        for change in &job.moves {
            if let Move::Purge { run, .. } = change {
                left_out.add_purged(run);
            }
        }
        if let Some(outcome) = written.pieces.last_mut() {
            left_out.place(outcome, &mut grant).map_err(|error| substrate.checked(error))?;
        }
        synced.sync().map_err(|error| substrate.checked(error))?;
        // The output's space is counted by the file system now.
        drop(grant);
        let is_done = substrate.reserve.with(|| {
            let mut busy = self.jobs.claims.lock();
            self.install(&mut busy, planned, &mut written)
        })?;
        // A removal of dropped tables merges nothing.
        if is_done && bytes > 0 {
            self.jobs.merging.without_room.fetch_and(!job.groups_mask(), Relaxed);
            self.counters.merges.add(1);
            self.counters.merged_bytes.add(bytes);
            self.counters.merges_for_space.add(job.frees_space.into());
            self.note_speed(bytes, begun.elapsed());
        }
        Ok(is_done)
    }

    /// The levels that a merge reads from and writes into.
    fn levels_of(&self, view: &View<S>, Planned { logs, job }: &Planned) -> RunningMerge {
        let taken: HashSet<u64> =
            job.pieces.iter().flat_map(|piece| &piece.taken).map(|(id, _)| *id).collect();
        let from =
            view.shape.groups().filter(|group| taken.contains(&group.id)).map(|group| group.level).min();
        let into = job.pieces.iter().map(|piece| piece.place.level).max();
        let from_level = if logs.is_empty() { from.unwrap_or(0) } else { 0 };
        RunningMerge { from_level, to_level: into.unwrap_or(from_level), ..RunningMerge::default() }
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

    /// Puts the output in the place of the inputs. The lock of the claims keeps other changes of the
    /// shape out.
    pub(super) fn install(
        &self,
        _: &mut Busy,
        planned: &Planned,
        written: &mut Written<'_, S>,
    ) -> Result<bool> {
        let (order, Planned { logs, job }) = (&self.env.order, planned);
        let view = self.rotation.view.load_full();
        if self.rotation.changes.lock().retired {
            return Ok(false);
        }
        canary!(LOGS_GONE_EARLY => self.rotation.change(|now| View {
            level0: now.level0.iter().filter(|log| !logs.iter().any(|old| old.file().id == log.file().id)).cloned().collect(),
            ..now.clone()
        }));
        let change = view.shape.after(order, job, &written.pieces);
        let missed =
            change.missed.map(|id| format!("group {id} is not as it was when a merge took runs from it"));
        let fault = missed.or_else(|| change.shape.fault(order));
        // A comparator that has failed may have placed tables anywhere.
        order.check()?;
        if let Some(fault) = fault {
            debug_assert!(false, "{fault}");
            tracing::error!(fault, keyspace = self.env.keyspace, "a change of files was refused");
            self.counters.edits_refused.add(1);
            return Ok(false);
        }
        // Range deletes of level 0 have covered nothing new.
        if logs.is_empty() && change.removed.is_empty() && change.added.is_empty() {
            return Ok(false);
        }
        let void = self.jobs.void_logs.peek().map(|void| void.lock().clone()).unwrap_or_default();
        let merged = logs.iter().map(|log| log.file().id).chain(void.iter().copied()).collect();
        let removed: Vec<u64> = change.removed.iter().map(|(id, _)| *id).collect();
        self.note_written(&written.pieces, &change.added);
        self.note_dropped(&written.pieces);
        self.note_moves(&job.moves);
        let (added, new): (Vec<_>, Vec<_>) = change.added.into_iter().unzip();
        let payload = Edit::Merge { logs: merged, removed, added }.encode();
        let edits = written.edits(payload);
        canary!(MERGE_UNTOLD_OF_LEVELS else self.substrate.manifest.append(&edits))?;
        written.pieces.clear();
        // The next opening removes their files, which nothing names any more.
        if let Some(voids) = self.jobs.void_logs.peek() {
            voids.lock().retain(|log| !void.contains(log));
        }
        let shape = Arc::new(change.shape);
        // Before the references of the groups that go: some tables are in both.
        new.iter().flatten().for_each(|run| run.retain(&self.env.totals));
        self.rotation.change(|now| {
            let merged = |log: &Run| logs.iter().any(|merged| log.file().id == merged.file().id);
            let left = now.level0.iter().filter(|log| !merged(log)).cloned().collect();
            View { active: now.active.clone(), level0: left, shape }
        });
        let gone = logs.iter().chain(change.removed.iter().flat_map(|(_, runs)| runs));
        canary!(INPUTS_UNLINKED => logs.iter().for_each(|log| self.env.files.discard(log.file())));
        self.release_runs(gone);
        if !logs.is_empty() {
            self.jobs.level0_debt.store(0, Relaxed);
        }
        self.want_checkpoint();
        Ok(true)
    }
}

/// Tables that were written and are not in use yet. Those that are left when this is dropped are
/// removed.
pub(super) struct Written<'a, S: Shape> {
    pub lsm: &'a Lsm<S>,
    pub pieces: Vec<Outcome>,
    /// The state of the logs that were merged and whose long values tables refer to.
    pub logs: Vec<SegmentEdit>,
}

impl<S: Shape> Written<'_, S> {
    /// Adds what a merge of these runs wrote. Logs to which tables refer now are made durable before the edit
    /// that names these tables: a checkpoint knows no log that was merged.
    pub fn add(&mut self, outcome: Outcome, stack: &RunStack) -> Result<()> {
        let tables = outcome.placed.iter().map(|placed| &placed.output.table);
        let referred: HashSet<u64> =
            tables.flat_map(|table| &table.referred).map(|referred| referred.log.id).collect();
        self.pieces.push(outcome);
        for log in stack.logs().filter(|log| referred.contains(&log.file.id)) {
            canary!(REFERRED_LOG_UNSYNCED => continue);
            if self.logs.iter().all(|synced| synced.file != log.file.id) {
                self.logs.push(log.sync()?);
            }
        }
        Ok(())
    }

    /// The edits that put it in its place: the change of the layout, and the lengths of logs, by which backups
    /// copy them.
    pub fn edits(&self, payload: Vec<u8>) -> Vec<manifest::Edit> {
        let layout = manifest::Edit::Layout { keyspace: self.lsm.env.keyspace, payload };
        self.logs.iter().copied().map(manifest::Edit::Segment).chain([layout]).collect()
    }
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
        self.seal_for_test()?;
        self.merge_logs(Trigger::Asked).map(drop)
    }

    /// Seals and indexes all logs, in this thread.
    pub fn seal_for_test(&self) -> Result<()> {
        self.rotation.seal_active();
        self.index_all_sealed()
    }

    /// Seals the active generation, and leaves it without an index.
    pub fn rotation_for_test(&self) {
        self.rotation.seal_active();
    }

    /// Indexes or flushes the sealed generations, in this thread.
    pub fn index_sealed_for_test(&self) -> Result<()> {
        self.index_sealed()
    }

    /// Does something without a merge that nobody asks for.
    pub fn without_merges_for_test<T>(&self, act: impl FnOnce() -> T) -> T {
        self.jobs.pause.store(u64::MAX, Relaxed);
        self.jobs.claims.wait_for_all();
        let done = act();
        self.jobs.pause.store(0, Relaxed);
        done
    }
}
