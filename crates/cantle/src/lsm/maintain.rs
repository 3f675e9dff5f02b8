//! Maintenance: the work that is due at a tick, its submission, and the brake.

use super::keyspace::Lsm;
use super::merge::Trigger;
use super::shape::Shape;
use super::view::View;
use crate::layout::Pressure;
use crate::maintenance::Class;
use crate::run::run::Run;
use crate::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use crate::sync::thread;
use crate::types::error::{Error, Result};
use std::time::Duration;

/// Level 0 is merged when its logs have the length of this many generations, or a part of the live
/// data ([`LIVE_FRACTION`]), whichever is more: each merge then appends long tables to the groups.
pub const GENERATIONS: u64 = 4;
const LIVE_FRACTION: u64 = 64;
/// Maximum number of logs that level 0 collects: a get may have to search all of them.
const LOGS_MAX: usize = 12;
/// The brake begins when level 0 exceeds its limit by this factor, and makes writers as slow as
/// merges when it exceeds it by one more.
const BRAKE_FROM: f64 = 1.5;
/// Ticks between a merge that failed and the next attempt: about a third of a second.
const PAUSE_TICKS: u64 = 16;
/// Bytes per second that a merge is assumed to read before one was measured.
const SPEED_GUESS: u64 = 100_000_000;

impl<S: Shape> Lsm<S> {
    /// Bytes of level 0 from which on it is merged.
    pub(super) fn level0_limit(&self, live_bytes: u64) -> u64 {
        (GENERATIONS * self.limits().generation_bytes).max(live_bytes / LIVE_FRACTION)
    }

    /// True if a merge is due.
    fn is_merge_due(&self, view: &View<S>) -> bool {
        let ripe = self.ripe_logs(view);
        let bytes: u64 = ripe.iter().map(Run::bytes).sum();
        bytes >= self.level0_limit(self.jobs.told_live_bytes.load(Relaxed).max(0) as u64)
            || ripe.len() >= LOGS_MAX
            || view.shape.pick(&self.env.order, &self.rules()).is_some()
    }

    pub(super) fn maintain(&self) {
        let ticks = self.jobs.ticks.fetch_add(1, Relaxed);
        let view = self.rotation.view.load_full();
        self.tell_live_bytes(view.sizes().live_bytes());
        if self.substrate.read_only || self.rotation.changes.lock().retired {
            return;
        }
        if !self.rotation.changes.lock().sealing.is_empty() {
            self.submit_seal();
        }
        if ticks >= self.jobs.pause.load(Relaxed) && self.is_merge_due(&view) {
            self.submit_merge();
        }
    }

    fn submit_merge(&self) {
        if self.jobs.is_merging.swap(true, AcqRel) {
            return;
        }
        let this = self.this.clone();
        self.substrate.pool.submit(Class::Level0, move || {
            let Some(lsm) = this.upgrade() else { return };
            if let Some(_work) = lsm.substrate.begin_work()
                && let Err(error) = lsm.merge_due()
                && !matches!(error, Error::Closed)
            {
                // The files are as they were.
                tracing::warn!(%error, "merge failed");
                lsm.jobs.pause.store(lsm.jobs.ticks.load(Relaxed) + PAUSE_TICKS, Relaxed);
            }
            lsm.jobs.is_merging.store(false, Release);
        });
    }

    /// Does the most urgent merge.
    fn merge_due(&self) -> Result<()> {
        let view = self.rotation.view.load_full();
        if !self.is_merge_due(&view) {
            return Ok(());
        }
        let bytes: u64 = self.ripe_logs(&view).iter().map(Run::bytes).sum();
        let limit = self.level0_limit(view.sizes().live_bytes());
        if (bytes >= limit || self.ripe_logs(&view).len() >= LOGS_MAX)
            && self.merge_logs(Trigger::Background)?
        {
            return Ok(());
        }
        self.merge_tables(Trigger::Background).map(drop)
    }

    /// True while maintenance runs or is due.
    pub(super) fn has_work(&self) -> bool {
        self.jobs.is_merging.load(Acquire)
            || self.jobs.sealing.load(Acquire)
            || self.jobs.making_spare.load(Acquire)
            || !self.rotation.changes.lock().sealing.is_empty()
            || self.is_merge_due(&self.rotation.view.load_full())
    }

    /// Indexes all sealed generations. Waits for the writers that are still in one.
    pub(super) fn index_all_sealed(&self) -> Result<()> {
        let sealed = self.rotation.changes.lock().sealing.clone();
        for generation in &sealed {
            while !generation.is_quiet() {
                thread::sleep(Duration::from_millis(1));
            }
        }
        self.index_sealed()
    }

    /// Averages the speed of merges.
    pub(super) fn note_speed(&self, bytes: u64, duration: Duration) {
        let speed = (bytes as f64 / duration.as_secs_f64().max(1e-3)) as u64;
        let before = self.jobs.speed.load(Relaxed);
        self.jobs.speed.store(if before == 0 { speed } else { (3 * before + speed) / 4 }, Relaxed);
    }

    pub(super) fn measure_pressure(&self) -> Pressure {
        if self.substrate.read_only {
            return Pressure::default();
        }
        let view = self.rotation.view.load();
        let live_bytes = self.jobs.told_live_bytes.load(Relaxed).max(0) as u64;
        let excess = view.log_bytes() as f64 / self.level0_limit(live_bytes).max(1) as f64;
        let speed = match self.jobs.speed.load(Relaxed) {
            0 => SPEED_GUESS,
            speed => speed,
        };
        Pressure { overload: (excess - BRAKE_FROM).max(0.0), freed_bytes_per_second: speed as f64 }
    }
}
