//! The keyspace's implementation of [`Layout`].

use crate::layout::options;
use crate::layout::stats::{KeyspaceStats, RegionInfo, Report};
use crate::layout::{Layout, Op, PairCursor, PreparedWrite, Pressure, ReadSet, Upkeep};
use crate::mvcc::SnapshotGuard;
use crate::sync::Arc;
use crate::types::bounds::Bounds;
use crate::types::error::Result;

use super::Chunks;
use super::chunk::Chunk;
use super::keyspace::Lent;
use super::settings::Settings;
use super::walk::walk;
use super::write::Write;
use crate::fetch::{Together, Unfetched};
use crate::run::approximate;
use crate::run::run::Source;
use bytes::Bytes;

impl Layout for Chunks {
    fn get(&self, key: &[u8], at: u64) -> Result<Option<Bytes>> {
        self.look_up(key, at, |value| {
            value.map(|value| match value {
                Lent::Munk(value) => Bytes::copy_from_slice(value),
                Lent::Row(row) => row.into_bytes(),
            })
        })
    }

    fn get_with(&self, key: &[u8], at: u64, read: &mut dyn FnMut(&[u8])) -> Result<bool> {
        self.look_up(key, at, |value| value.as_deref().map(read).is_some())
    }

    fn get_together(&self, key: &[u8], at: u64, fetch: &Together) -> Result<Option<Bytes>, Unfetched> {
        self.look_up_together(key, at, fetch)
    }

    fn cursor(self: Arc<Self>, bounds: Bounds, snapshot: SnapshotGuard) -> Box<dyn PairCursor> {
        self.context.counters.scans.add(1);
        Box::new(walk(self, bounds, snapshot))
    }

    fn prepare<'a>(&'a self, ops: &'a [Op<'a>], reads: &'a ReadSet) -> Result<Box<dyn PreparedWrite + 'a>> {
        Ok(Box::new(Write::prepare(self, ops, reads)?))
    }

    fn approximate_bytes(&self, bounds: &Bounds) -> Result<u64> {
        let mut bytes = 0;
        for chunk in self.overlapping(bounds) {
            let funk = chunk.funk.load_full();
            bytes += match chunk.span.is_within(&self.context.order, bounds) {
                true => approximate::whole(&funk.files)?,
                false => approximate::within(&self.context, &funk.files, bounds)?,
            };
        }
        Ok(bytes)
    }

    fn compact(&self, bounds: &Bounds) -> Result<()> {
        self.compact_chunks(bounds)
    }

    fn stats(&self) -> KeyspaceStats {
        self.statistics()
    }

    fn set_options(&self, settings: options::Settings) {
        self.context.set_options(Settings::of(settings));
    }

    fn regions(&self) -> Vec<RegionInfo> {
        let view = self.index.view();
        let info = |chunk: &Arc<Chunk>| {
            let funk = chunk.funk.load();
            let sizes = funk.sizes();
            RegionInfo {
                start: chunk.span.start.as_ref().map(|key| key.to_vec()).unwrap_or_default(),
                level: 0,
                tree: 0,
                grows: false,
                table_bytes: sizes.table_bytes,
                log_bytes: sizes.log_bytes + funk.logs().map(|segment| segment.unread_bytes()).sum::<u64>(),
                referred_bytes: 0,
                garbage_bytes: sizes.garbage_bytes + sizes.dropped_bytes,
                tables: sizes.tables,
                tables_max: 0,
                dropped_ranges: 0,
                segments: funk.files.iter().filter(|file| matches!(file.source, Source::Log(_))).count()
                    as u32,
                resident_bytes: chunk.munk.load().as_ref().map_or(0, |munk| munk.bytes()),
                heat: chunk.heat() as f64,
                read_debt: chunk.read_debt(),
            }
        };
        view.iter().map(|(_, chunk)| info(chunk)).collect()
    }

    fn verify(&self, report: &mut Report) {
        self.verify_files(report);
    }

    fn tick(&self) {
        self.maintain();
    }

    fn accesses(&self) -> u64 {
        self.count_accesses()
    }

    fn is_busy(&self) -> bool {
        self.has_work()
    }

    fn pressure(&self) -> Pressure {
        self.measure_pressure()
    }

    fn tidy(&self, upkeep: &mut Upkeep) -> bool {
        self.do_upkeep(upkeep)
    }

    fn before_close(&self) -> Result<()> {
        self.index_all_parts()
    }

    fn retire(&self) {
        self.retire_chunks();
    }

    fn release(&self) {
        self.release_files();
    }
}
