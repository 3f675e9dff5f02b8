//! The keyspace's implementation of [`Layout`].

use super::cursor::Cursor;
use super::keyspace::Keyspace;
use super::write::{Write, changed};
use crate::layout::kind::LayoutKind;
use crate::layout::options::Settings;
use crate::layout::stats::{KeyspaceStats, LayoutStats, RegionInfo, Report};
use crate::layout::{Layout, Op, PairCursor, PreparedWrite, Pressure, ReadSet, Validated};
use crate::mvcc::{KeySpan, SnapshotGuard};
use crate::sync::Arc;
use crate::sync::atomic::Ordering::{Relaxed, Release};
use crate::types::bounds::Bounds;
use crate::types::error::Result;
use bytes::Bytes;
use std::ops::Bound;

impl Keyspace {
    fn log_bytes(&self) -> u64 {
        self.logs.lock().iter().map(|log| log.len()).sum()
    }
}

impl Layout for Keyspace {
    fn get(&self, key: &[u8], at: u64) -> Result<Option<Bytes>> {
        self.gets.fetch_add(1, Relaxed);
        Ok(self.map()?.read().get(key, at))
    }

    fn cursor(self: Arc<Self>, bounds: Bounds, snapshot: SnapshotGuard) -> Box<dyn PairCursor> {
        self.scans.fetch_add(1, Relaxed);
        Box::new(Cursor::new(self, bounds, snapshot))
    }

    fn validate(&self, reads: &ReadSet, since: u64) -> Result<Validated> {
        let snapshot = self.substrate.mvcc.own_snapshot(KeySpan::ALL);
        let until = snapshot.version();
        let conflict = changed(self, reads, (since, until))?;
        Ok(Validated { conflict, since: until, _snapshot: Some(snapshot) })
    }

    fn prepare<'a>(&'a self, ops: &'a [Op<'a>], reads: &'a ReadSet) -> Result<Box<dyn PreparedWrite + 'a>> {
        Ok(Box::new(Write::prepare(self, ops, reads)?))
    }

    fn approximate_bytes(&self, bounds: &Bounds) -> Result<u64> {
        Ok(self.map()?.read().bytes(bounds))
    }

    /// Does nothing: this layout sorts nothing and drops no old version.
    fn compact(&self, _bounds: &Bounds) -> Result<()> {
        Ok(())
    }

    fn set_options(&self, _settings: Settings) {}

    fn stats(&self) -> KeyspaceStats {
        let writes = self.writes.load(Relaxed);
        let all = Bounds { start: Bound::Unbounded, end: Bound::Unbounded };
        let live_pairs = self.map().map_or(0, |map| map.read().pairs(&all, u64::MAX).len() as u64);
        KeyspaceStats {
            live_pairs,
            layout: LayoutKind::Tiny,
            regions: 1,
            log_bytes: self.log_bytes(),
            log_bytes_written: self
                .env
                .counters
                .peek()
                .map_or(0, |counters| counters.log_bytes_written.get()),
            writes,
            gets: self.gets.load(Relaxed),
            scans: self.scans.load(Relaxed),
            of_layout: LayoutStats::Tiny,
            ..KeyspaceStats::default()
        }
    }

    fn regions(&self) -> Vec<RegionInfo> {
        let segments = self.logs.lock().len() as u32;
        vec![RegionInfo { log_bytes: self.log_bytes(), segments, ..RegionInfo::default() }]
    }

    fn verify(&self, report: &mut Report) {
        let mut operations = 0;
        for log in self.logs.lock().iter() {
            report.files += 1;
            report.bytes += log.len();
            match log.parts(&self.env).and_then(|parts| parts.check_whole().map(|()| parts)) {
                Ok(parts) => {
                    let indexed: u64 = parts.indexed.iter().map(|part| part.entries).sum();
                    operations += indexed + parts.memory.as_ref().map_or(0, |memory| memory.len() as u64);
                }
                Err(error) => report.damage.push(error),
            }
        }
        report.entries += operations;
    }

    fn tick(&self) {}

    fn accesses(&self) -> u64 {
        [&self.gets, &self.scans, &self.writes].map(|counter| counter.load(Relaxed)).iter().sum()
    }

    fn is_busy(&self) -> bool {
        false
    }

    fn pressure(&self) -> Pressure {
        Pressure::default()
    }

    fn before_close(&self) -> Result<()> {
        match &*self.active.lock() {
            Some(log) => self.substrate.seal_shared_log(&self.env, log),
            None => Ok(()),
        }
    }

    fn retire(&self) {
        self.retired.store(true, Release);
        drop(self.locks.lock_all());
        self.active.lock().take();
    }

    fn release(&self) {
        for log in self.logs.lock().drain(..) {
            log.file.release();
        }
    }
}
