//! The keyspace's part of [`Layout`] that does not depend on the shape.

use super::areas::walk;
use super::keyspace::{Limits, Lsm};
use super::open::{log_options, run_options};
use super::shape::Shape;
use super::view::View;
use super::write::Write;
use crate::cache::rows::Row;
use crate::fetch::{Together, Unfetched};
use crate::layout::options::Settings;
use crate::layout::stats::{KeyspaceStats, RegionInfo, Report};
use crate::layout::verify::verify;
use crate::layout::{Layout, Op, PairCursor, PreparedWrite, Pressure, ReadSet, Upkeep, Validated};
use crate::mvcc::SnapshotGuard;
use crate::run::approximate;
use crate::sync::Arc;
use crate::types::bounds::Bounds;
use crate::types::error::Result;
use bytes::Bytes;

/// The parts of the layout's interface that depend on the shape.
pub trait Named: Shape {
    /// The sizes of a keyspace with these settings, under this memory budget.
    fn limits(settings: &Settings, budget_bytes: u64) -> Limits;
    /// Adds the layout's name and its own statistics.
    fn describe(lsm: &Lsm<Self>, stats: &mut KeyspaceStats);
}

impl<S: Named> Layout for Lsm<S> {
    fn get(&self, key: &[u8], at: u64) -> Result<Option<Bytes>> {
        Ok(self.look_up(key, at)?.map(Row::into_bytes))
    }

    fn get_with(&self, key: &[u8], at: u64, read: &mut dyn FnMut(&[u8])) -> Result<bool> {
        Ok(self.look_up(key, at)?.map(|value| read(&value)).is_some())
    }

    fn get_together(&self, key: &[u8], at: u64, fetch: &Together) -> Result<Option<Bytes>, Unfetched> {
        self.look_up_together(key, at, fetch)
    }

    fn cursor(self: Arc<Self>, bounds: Bounds, snapshot: SnapshotGuard) -> Box<dyn PairCursor> {
        self.counters.scans.add(1);
        Box::new(walk(self, bounds, snapshot))
    }

    fn validate(&self, reads: &ReadSet, since: u64) -> Result<Validated> {
        self.validate_unlocked(reads, since)
    }

    fn prepare<'a>(&'a self, ops: &'a [Op<'a>], reads: &'a ReadSet) -> Result<Box<dyn PreparedWrite + 'a>> {
        Ok(Box::new(Write::prepare(self, ops, reads)?))
    }

    fn approximate_bytes(&self, bounds: &Bounds) -> Result<u64> {
        let view = self.rotation.view.load_full();
        let mut bytes = approximate::within(&self.env, &view.level0, bounds)?;
        for group in view.shape.groups().filter(|group| group.span.overlaps(&self.env.order, bounds)) {
            bytes += match group.span.is_within(&self.env.order, bounds) {
                true => approximate::whole(group.runs)?,
                false => approximate::within(&self.env, group.runs, bounds)?,
            };
        }
        Ok(bytes)
    }

    fn compact(&self, bounds: &Bounds) -> Result<()> {
        self.sort(bounds)
    }

    fn set_options(&self, settings: Settings) {
        let limits = S::limits(&settings, self.substrate.budget.total_bytes);
        self.straight_seeks.set_limit(limits.rules.seek_compaction);
        self.limits.store(limits);
        self.rows().into_iter().for_each(|rows| rows.set_used(settings.row_cache));
        self.env.options.store(run_options(settings.compression, &limits));
        self.env.log.options.store(log_options(&limits));
    }

    fn stats(&self) -> KeyspaceStats {
        let mut stats = self.statistics();
        S::describe(self, &mut stats);
        stats
    }

    fn regions(&self) -> Vec<RegionInfo> {
        self.region_infos()
    }

    fn verify(&self, report: &mut Report) {
        let view = self.rotation.view.load_full();
        let mut seen = std::collections::HashSet::new();
        for run in view.level0.iter().chain(view.tables()) {
            if seen.insert(run.file().id) {
                verify(&self.env, run, report);
            }
            // Their values are read with the tables.
            for log in run.referred().iter().map(|referred| &referred.log).filter(|log| seen.insert(log.id)) {
                report.files += 1;
                report.bytes += log.bytes();
            }
        }
    }

    fn tick(&self) {
        self.maintain();
    }

    fn accesses(&self) -> u64 {
        self.uses()
    }

    fn is_busy(&self) -> bool {
        self.has_work()
    }

    fn pressure(&self) -> Pressure {
        self.measure_pressure()
    }

    fn tidy(&self, upkeep: &mut Upkeep) -> bool {
        self.merge_left(upkeep)
    }

    fn before_close(&self) -> Result<()> {
        self.rotation.seal_active();
        self.index_all_sealed()
    }

    fn retire(&self) {
        self.retire_all();
    }

    fn release(&self) {
        self.tell_live_bytes(0);
        let view = self.rotation.view.load_full();
        self.rotation.change(|now| View { active: None, level0: Vec::new(), shape: now.shape.clone() });
        self.release_runs(view.level0.iter().chain(view.tables()));
        if let Some(spare) = self.rotation.changes.lock().spare.take() {
            spare.log.segment.file.release();
        }
    }
}
