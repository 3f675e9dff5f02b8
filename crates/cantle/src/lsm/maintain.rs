//! Maintenance: the work that is due at a tick, its submission, and the brake.

use super::busy::Busy;
use super::full_disk::hides;
use super::hidden::may_hide_more;
use super::keyspace::Lsm;
use super::merge::{Planned, Trigger};
use super::shape::{Shape, rewrite_cost, with_overhead};
use super::view::View;
use crate::layout::{Moment, Pressure, Upkeep};
use crate::log::segment::Segment;
use crate::maintenance::Class;
use crate::run::run::{Run, Source};
use crate::run::stack::StackSizes;
use crate::sync::Arc;
use crate::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use crate::types::compression::Compression;
use crate::types::error::{Error, Result};
use std::time::Duration;

/// Level 0 is merged when its logs have the length of this many generations, or a part of the live
/// data ([`LIVE_FRACTION`]), whichever is more: each merge then appends long tables to the groups.
pub const GENERATIONS: u64 = 4;
const LIVE_FRACTION: u64 = 64;
/// Maximum number of logs and tables that level 0 collects, and that a merge takes: a get may have to search
/// all of them.
const LOGS_MAX: usize = 12;
/// Maximum number of sealed generations that wait for their index or their flush, before writers are slowed
/// down.
const SEALING_MAX: usize = 4;
/// The brake begins when level 0, the number of its runs, the runs of a group or the generations
/// without an index exceed their limit by this factor. It makes writers as slow as merges when they
/// exceed it by one more.
const BRAKE_FROM: f64 = 1.5;
/// Maximum number of merges of a job, before others in the queue have their turn.
const MERGES_AT_ONCE: usize = 8;
/// Level 0 waits while a group has this many times the runs that it may have: reads depend on them.
const CROWDED: usize = 2;
/// A log is short below this part of a generation.
pub(super) const SHORT_FRACTION: u64 = 4;
/// Number of logs beyond which an opening or closing merges those of a keyspace that is rarely open
/// for long, and the number beyond which it does so whatever their length.
const LOGS_KEPT: usize = 8;
const LOGS_MOST: usize = 64;
/// Cost of a fragment of level 1, in entries that a scan passes over: its file, and its part in later merges.
const FRAGMENT_COST: u64 = 4000;
/// Nothing is owed below this number of entries: no scan feels it.
const OWED_MIN: u64 = 10_000;
/// Ticks between a job that failed and the next attempt: about a third of a second.
pub(super) const PAUSE_TICKS: u64 = 16;
/// Ticks without a write after which a keyspace counts as idle: about two seconds.
const IDLE_TICKS: u64 = 100;
/// An idle keyspace merges its logs if they are at least this part of its live data, and at least this long: each
/// get searches them, and reads a value by a system call. A keyspace that is written in bursts writes each byte
/// once more for that.
const IDLE_FRACTION: u64 = 8;
const IDLE_BYTES_MIN: u64 = 1 << 20;
/// Bytes per second that a merge is assumed to read before one was measured.
const SPEED_GUESS: u64 = 100_000_000;

/// Bytes that a run of level 0 hides, as far as they were counted.
fn hidden_bytes(run: &Run) -> u64 {
    match &run.source {
        Source::Log(log) => log.garbage_bytes.load(Relaxed),
        Source::Table(table) => table.stale_bytes,
    }
}

impl<S: Shape> Lsm<S> {
    /// Bytes of level 0 from which on it is merged.
    pub(super) fn level0_limit(&self, live_bytes: u64) -> u64 {
        (GENERATIONS * self.limits().generation_bytes).max(live_bytes / LIVE_FRACTION)
    }

    /// The oldest of the logs and flushed tables that are ripe, as many as a merge takes: it has them in memory,
    /// and their copies in a table have to find room on the disk. At least one.
    pub fn oldest_logs<'a>(&self, ripe: &'a [Run]) -> &'a [Run] {
        let limit = 2 * self.level0_limit(self.jobs.told_live_bytes.load(Relaxed).max(0) as u64);
        let room = self.disk_room().unwrap_or(u64::MAX);
        let mut bytes = 0;
        let is_taken = |log: &&Run| {
            let more = self.merged_bytes(std::slice::from_ref(log));
            let is_within = bytes < limit && (bytes == 0 || with_overhead(bytes + more) <= room);
            bytes += more;
            is_within
        };
        let count = ripe.iter().rev().take(LOGS_MAX).take_while(is_taken).count();
        &ripe[ripe.len() - count..]
    }

    /// True if level 0 is to be merged.
    pub fn are_logs_due(&self, view: &View<S>, ripe: &[Run]) -> bool {
        // Their whole length: what is garbage in them may not be known after a kill.
        let bytes: u64 = ripe.iter().map(Run::bytes).sum();
        let live_bytes = self.jobs.told_live_bytes.load(Relaxed).max(0) as u64;
        // Flushed tables are sorted, and compressed.
        let is_to_be_sorted = ripe.iter().any(|run| run.log().is_some())
            && self.is_to_be_sorted(view)
            // The last log goes with the others.
            && view.active.is_none()
            && self.rotation.changes.lock().sealing.is_empty();
        let is_left = is_to_be_sorted || (!ripe.is_empty() && self.owes_level0(view));
        let hidden_bytes = ripe.iter().map(hidden_bytes).sum();
        // Merges further down free what they hide.
        let is_for_space = self.substrate.reserve.is_full() && ripe.iter().any(hides);
        bytes.max(hidden_bytes) >= self.level0_limit(live_bytes)
            || ripe.len() >= LOGS_MAX
            || is_left
            || is_for_space
    }

    /// True if a merge is due that running ones admit; `None` if that cannot be told now.
    fn is_merge_due(&self, view: &View<S>) -> Option<bool> {
        let busy = self.jobs.claims.try_lock()?;
        if busy.is_awaited() {
            return Some(false);
        }
        let ripe = self.ripe_logs(view);
        let is_due = (!busy.has_logs() && self.are_logs_due(view, &ripe))
            || self.log_apart(view, &ripe, &busy).is_some()
            || view.shape.pick(&self.env.order, &self.rules(), &busy).is_some();
        Some(is_due)
    }

    pub(super) fn maintain(&self) {
        let ticks = self.jobs.ticks.fetch_add(1, Relaxed);
        let view = self.rotation.view.load_full();
        if self.substrate.read_only || self.rotation.changes.lock().retired {
            return self.look(&view, || self.tell_live_bytes(view.sizes().live_bytes()));
        }
        self.count_idle_ticks();
        self.seal_for_memory(&view);
        if ticks >= self.jobs.seal_pause.load(Relaxed) && !self.rotation.changes.lock().sealing.is_empty() {
            self.submit_seal();
        }
        self.look(&view, || {
            let sizes = view.sizes();
            self.tell_live_bytes(sizes.live_bytes());
            let is_last_to_be_sorted = self.is_to_be_sorted(&view) && view.active.is_some();
            // Older logs are merged first: they may be what scans pass over.
            let owes_only = view.level0.len() == 1 && self.owes_level0(&view);
            if is_last_to_be_sorted || owes_only || self.may_hide_much(&view, &sizes) {
                self.rotation.seal_active();
            }
            self.free_full_disk(&view);
            self.count_left(&view, &sizes);
            if ticks >= self.jobs.pause.load(Relaxed) && self.is_merge_due(&view) == Some(true) {
                self.submit_merge();
            }
        });
    }

    /// True if the short entries of the active generation exceed the space bound, should each of them hide a long
    /// value. Only an index tells which keys they have in common with older runs.
    fn may_hide_much(&self, view: &View<S>, sizes: &StackSizes) -> bool {
        let Some(active) = &view.active else { return false };
        let segment = &active.log.segment;
        let entries = segment.loaded().and_then(|parts| parts.memory.as_ref().map(|memory| memory.len()));
        let (entries, live_bytes) = (entries.unwrap_or(0) as u64, sizes.live_bytes());
        let spare_bytes = (self.limits().rules.space_amplification - 1.0) * live_bytes as f64 / 2.0;
        may_hide_more(entries, sizes, segment.len())
            && entries.saturating_mul(sizes.usual_bytes())
                > self.level0_limit(live_bytes).max(spare_bytes as u64)
    }

    fn count_idle_ticks(&self) {
        let writes = self.counters.peek().map_or(0, |counters| counters.writes.get());
        match self.jobs.writes.swap(writes, Relaxed) == writes {
            true => self.jobs.idle_ticks.fetch_add(1, Relaxed),
            false => self.jobs.idle_ticks.swap(0, Relaxed),
        };
    }

    /// True if nobody writes, and what is in logs takes more space than it need, as logs are not compressed, or is
    /// a large part of the data.
    fn is_to_be_sorted(&self, view: &View<S>) -> bool {
        self.jobs.idle_ticks.load(Relaxed) >= IDLE_TICKS
            && (self.env.options().compression != Compression::None || self.is_level0_large(view))
    }

    /// True if the logs are so large a part of the data that reads are worth a merge once nobody writes.
    pub fn is_level0_large(&self, view: &View<S>) -> bool {
        let live_bytes = self.jobs.told_live_bytes.load(Relaxed).max(0) as u64;
        view.level0_bytes() >= IDLE_BYTES_MIN.max(live_bytes / IDLE_FRACTION)
    }

    /// True if seeks of sealed logs, and entries of logs that scans passed over, have cost more than a
    /// merge of level 0. The first keys of a queue are of this kind: everything before the first pair is
    /// deleted.
    fn owes_level0(&self, view: &View<S>) -> bool {
        let debt = self.jobs.level0_debt.load(Relaxed);
        let fragments = || view.shape.groups().filter(|group| group.level == 1).count() as u64;
        let of_log = |log: &Arc<Segment>| {
            let parts = log.loaded()?;
            let in_memory = parts.memory.as_ref().map_or(0, |memory| memory.len() as u64);
            Some(in_memory + parts.indexed.iter().map(|part| part.entries).sum::<u64>())
        };
        let entries_of = |run: &Run| match &run.source {
            Source::Log(log) => of_log(log).unwrap_or(0),
            Source::Table(table) => table.entries,
        };
        let entries = || view.level0.iter().map(entries_of).sum::<u64>();
        debt > OWED_MIN
            && debt > rewrite_cost(entries(), self.merged_bytes(&view.level0)) + FRAGMENT_COST * fragments()
    }

    /// Seals the active generation if memtables take more memory than they may: a log that is indexed
    /// on disk takes none. A short log stays for a while, as each one costs reads.
    fn seal_for_memory(&self, view: &View<S>) {
        let memtables = &self.substrate.budget.logs.memtables;
        let (used, limit) = (memtables.used_bytes(), memtables.limit_bytes());
        let Some(active) = view.active.as_ref().filter(|_| used > limit) else { return };
        let is_short = active.log.segment.len() < self.limits().generation_bytes / SHORT_FRACTION;
        if !is_short || used > limit + limit / 4 {
            self.rotation.seal_if_active(active);
        }
    }

    fn submit_merge(&self) {
        let workers = self.substrate.pool.workers();
        let more = |mergers| (mergers < workers).then_some(mergers + 1);
        if self.jobs.mergers.fetch_update(AcqRel, Relaxed, more).is_err() {
            return;
        }
        let this = self.this.clone();
        self.substrate.pool.submit(Class::Level0, move || {
            let Some(lsm) = this.upgrade() else { return };
            if let Some(_work) = lsm.substrate.begin_work()
                && let Err(error) = lsm.merge_due()
                && !matches!(error, Error::Closed | Error::NoKeyspace(_))
            {
                // The files are as they were.
                tracing::warn!(%error, "merge failed");
                lsm.jobs.pause.store(lsm.jobs.ticks.load(Relaxed) + PAUSE_TICKS, Relaxed);
            }
            lsm.jobs.mergers.fetch_sub(1, Release);
        });
    }

    /// Does the most urgent merges.
    fn merge_due(&self) -> Result<()> {
        if self.disk_room().is_some() {
            self.drop_early()?;
        }
        for _ in 0..MERGES_AT_ONCE {
            self.adopt_logs(Trigger::Background)?;
            let view = self.rotation.view.load_full();
            let (most, runs_max) = (self.runs_most(&view), self.limits().rules.runs_max);
            let is_crowded = most > runs_max && most + 1 >= CROWDED * runs_max;
            let are_logs_due = !is_crowded && self.are_logs_due(&view, &self.ripe_logs(&view));
            let (has_merged_logs, without_room) =
                match are_logs_due.then(|| self.merge_logs(Trigger::Background)) {
                    // A merge that frees space may find some.
                    Some(Err(error)) if error.is_no_space() => (false, Err(error)),
                    done => (done.transpose()?.unwrap_or(false), Ok(())),
                };
            if !has_merged_logs && !self.merge_tables(Trigger::Background)? {
                return without_room;
            }
        }
        Ok(())
    }

    /// Number of runs that a read of a key has to search at most ([`Shape::runs_most`]).
    pub fn runs_most(&self, view: &View<S>) -> usize {
        view.shape.runs_most(&self.env.order)
    }

    /// Merges the logs that many short openings have left, and the tables that these merges have left; true if it
    /// did.
    pub(super) fn merge_left(&self, upkeep: &mut Upkeep) -> bool {
        let merged =
            self.merge_left_logs(upkeep).and_then(|logs| Ok(self.merge_left_tables(upkeep)? || logs));
        merged.unwrap_or_else(|error| {
            // The files are as they were. Reads of a damaged one fail.
            tracing::warn!(%error, "cannot merge what openings have left");
            false
        })
    }

    fn merge_left_logs(&self, upkeep: &mut Upkeep) -> Result<bool> {
        let ripe = self.ripe_logs(&self.rotation.view.load_full());
        let bytes = self.merged_bytes(&ripe);
        let is_urgent = ripe.len() > LOGS_MOST;
        if ripe.len() <= LOGS_KEPT || (bytes > upkeep.bytes && !is_urgent) {
            return Ok(false);
        }
        upkeep.bytes = upkeep.bytes.saturating_sub(bytes);
        self.merge_logs(Trigger::Asked)
    }

    /// One merge of a group that has more runs than it may have, if it is short. An opening does not wait for
    /// running merges, and a closing leaves it to the next opening.
    fn merge_left_tables(&self, upkeep: &Upkeep) -> Result<bool> {
        let runs_most = self.runs_most(&self.rotation.view.load_full());
        if upkeep.moment == Moment::Closing || runs_most <= self.limits().rules.runs_max {
            return Ok(false);
        }
        let left_bytes = upkeep.bytes;
        let short = |view: &View<S>, busy: &Busy| {
            let runs_of = |planned: &Planned| -> u64 {
                let runs = planned.job.pieces.iter().flat_map(|piece| &piece.tables);
                runs.map(Run::bytes).sum()
            };
            self.pick(view, busy).filter(|planned| runs_of(planned) <= left_bytes)
        };
        self.run_next(short, Trigger::Background)
    }

    /// True while maintenance runs or is due.
    pub(super) fn has_work(&self) -> bool {
        self.jobs.mergers.load(Acquire) > 0
            || self.jobs.sealing.load(Acquire)
            || self.jobs.making_spare.load(Acquire)
            || !self.rotation.changes.lock().sealing.is_empty()
            // A keyspace in which that takes long is looked at in its turn.
            || (self.last_look().is_none()
                && self.is_merge_due(&self.rotation.view.load_full()) != Some(false))
    }

    /// Averages the speed of merges.
    pub(super) fn note_speed(&self, bytes: u64, duration: Duration) {
        let speed = (bytes as f64 / duration.as_secs_f64().max(1e-3)) as u64;
        let average = &self.jobs.merging.speed;
        let before = average.load(Relaxed);
        average.store(if before == 0 { speed } else { (3 * before + speed) / 4 }, Relaxed);
    }

    pub fn measure_pressure(&self) -> Pressure {
        if self.substrate.read_only {
            return Pressure::default();
        }
        let view = self.rotation.view.load();
        let live_bytes = self.jobs.told_live_bytes.load(Relaxed).max(0) as u64;
        let (runs_most, space_overload) = match self.last_look() {
            Some(look) => (look.runs_most, look.space_overload),
            None => (self.runs_most(&view), self.space_overload(&view)),
        };
        let part = |count: usize, limit: usize| count as f64 / limit.max(1) as f64;
        let excess = [
            view.level0_bytes() as f64 / self.level0_limit(live_bytes).max(1) as f64,
            part(view.level0.len(), LOGS_MAX),
            part(runs_most, CROWDED * self.limits().rules.runs_max),
            part(self.rotation.changes.lock().sealing.len(), SEALING_MAX),
        ]
        .into_iter()
        .fold(0.0, f64::max);
        let speed = match self.jobs.merging.peek().map_or(0, |merging| merging.speed.load(Relaxed)) {
            0 => SPEED_GUESS,
            speed => speed,
        };
        let overload = (excess - BRAKE_FROM).max(0.0).max(space_overload);
        Pressure { overload, freed_bytes_per_second: speed as f64 }
    }
}
