//! The jobs around the change of generations: making the next one in advance, rotating when the
//! active one is full, and indexing those that are sealed. `rotation` has the order of the steps.

use super::keyspace::Lsm;
use super::maintain::PAUSE_TICKS;
use super::rotation::Rotating;
use super::shape::Shape;
use super::state::Edit;
use super::view::{LogGeneration, View};
use crate::files::StoreFile;
use crate::log::shared::SharedLog;
use crate::maintenance::Class;
use crate::manifest;
use crate::run::run::{Run, Source};
use crate::sync::atomic::Ordering::{AcqRel, Relaxed, Release};
use crate::sync::{Arc, thread, waits};
use crate::types::error::{Error, Result};
use crate::types::span::Span;
use std::time::Duration;

/// Number of entries at which a generation is full: about 15 MB of memory at 16 bytes a key.
const ENTRIES_MAX: usize = 192 << 10;
/// Length in bytes and number of entries of the log without an index that an opening may have to load and
/// sort: tens of milliseconds each. Not even a slow background job makes a log longer, only a long write.
const TAIL_BYTES_MAX: u64 = 32 << 20;
const TAIL_ENTRIES_MAX: usize = 256 << 10;

/// The fill level of a generation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Fill {
    Roomy,
    /// The spare generation is due.
    ThreeQuarters,
    /// The next generation is due.
    Full,
    /// Twice as full, or at the maximum of a log without an index: writers no longer wait for a background job
    /// to make the next one.
    Overfull,
}

impl Fill {
    fn of(bytes: u64, entries: usize, generation_bytes: u64) -> Self {
        let fraction = bytes as f64 / generation_bytes.max(1) as f64;
        let is_longest = bytes >= TAIL_BYTES_MAX || entries >= TAIL_ENTRIES_MAX;
        match fraction.max(entries as f64 / ENTRIES_MAX as f64) {
            _ if is_longest => Self::Overfull,
            2.0.. => Self::Overfull,
            1.0.. => Self::Full,
            0.75.. => Self::ThreeQuarters,
            _ => Self::Roomy,
        }
    }
}

impl<S: Shape> Rotating<SharedLog> for View<S> {
    fn active(&self) -> Option<&Arc<LogGeneration>> {
        self.active.as_ref()
    }

    fn with_active(&self, next: Option<Arc<LogGeneration>>) -> Self {
        let mut after = self.clone();
        if let Some(next) = &next {
            let source = Source::Log(next.log.segment.clone());
            let run = Run {
                source,
                span: Arc::new(Span::default()),
                dropped: None,
                dropped_ranges: None,
                share_bytes: None,
            };
            after.level0.insert(0, run);
        }
        after.active = next;
        after
    }
}

impl<S: Shape> Lsm<S> {
    /// Creates a log and tells the manifest.
    pub(super) fn create_log(&self) -> Result<SharedLog> {
        self.substrate.health.check_writable()?;
        let publish = |file: &StoreFile| {
            let payload = Edit::Log { file: file.id, epoch: file.epoch }.encode();
            self.env.order.check()?;
            self.substrate.manifest.append(&[manifest::Edit::Layout { keyspace: self.env.keyspace, payload }])
        };
        let log = self.substrate.create_shared_log(&self.env, publish)?;
        // Its index tells what it hides.
        log.segment.count_later();
        Ok(log)
    }

    fn fill(&self, generation: &LogGeneration) -> Fill {
        let segment = &generation.log.segment;
        let entries = segment.loaded().and_then(|parts| parts.memory.as_ref().map(|memory| memory.len()));
        Fill::of(segment.len(), entries.unwrap_or(0), self.limits().generation_bytes)
    }

    /// Rotates if the active generation is full and the next one is there. Called without locks.
    pub(super) fn rotate_if_full(&self) {
        let Some(active) = self.rotation.view.load().active.clone() else { return };
        let fill = self.fill(&active);
        if fill == Fill::Roomy {
            return;
        }
        let may_create = self.jobs.ticks.load(Relaxed) >= self.jobs.create_pause.load(Relaxed);
        if fill == Fill::Overfull
            && may_create
            && let Err(error) = self.rotation.make_spare(|| self.create_log())
        {
            self.cannot_create(&error);
        }
        if fill >= Fill::Full && self.rotation.rotate(&active) {
            self.submit_seal();
        } else if may_create && waits::lock(&self.rotation.changes).spare.is_none() {
            self.submit_spare();
        }
    }

    /// Writes go on in the full generation, and no log is created for a while.
    fn cannot_create(&self, error: &Error) {
        if !matches!(error, Error::NoKeyspace(_)) {
            tracing::warn!(%error, "cannot begin another log");
        }
        self.jobs.create_pause.store(self.jobs.ticks.load(Relaxed) + PAUSE_TICKS, Relaxed);
    }

    fn submit_spare(&self) {
        if self.substrate.read_only || self.jobs.making_spare.swap(true, AcqRel) {
            return;
        }
        let this = self.this.clone();
        self.substrate.pool.submit(Class::Seal, move || {
            let Some(lsm) = this.upgrade() else { return };
            let work = lsm.substrate.begin_work();
            let made = work.as_ref().map(|_| lsm.rotation.make_spare(|| lsm.create_log()));
            lsm.jobs.making_spare.store(false, Release);
            match made {
                Some(Ok(())) => lsm.rotate_if_full(),
                Some(Err(error)) => lsm.cannot_create(&error),
                None => {}
            }
        });
    }

    pub(super) fn submit_seal(&self) {
        if self.substrate.read_only || self.jobs.sealing.swap(true, AcqRel) {
            return;
        }
        let this = self.this.clone();
        self.substrate.pool.submit(Class::Seal, move || {
            let Some(lsm) = this.upgrade() else { return };
            if let Some(_work) = lsm.substrate.begin_work()
                && let Err(error) = lsm.index_sealed()
            {
                // Readers find the operations in memory. Maintenance tries again.
                tracing::warn!(%error, "cannot index a log");
                lsm.jobs.seal_pause.store(lsm.jobs.ticks.load(Relaxed) + PAUSE_TICKS, Relaxed);
            }
            lsm.jobs.sealing.store(false, Release);
        });
    }

    /// Writes the indexes of sealed generations that nobody writes to any more, or flushes them. The oldest
    /// comes first.
    pub(super) fn index_sealed(&self) -> Result<()> {
        let indexed = self.rotation.index_sealed(|log| self.index_log(log))?;
        self.counters.generations_sealed.add(indexed);
        Ok(())
    }

    /// Indexes or flushes all sealed generations. Waits for the writers that are still in one.
    pub(super) fn index_all_sealed(&self) -> Result<()> {
        let wait = || thread::sleep(Duration::from_millis(1));
        let indexed = self.rotation.index_all_sealed(|log| self.index_log(log), wait)?;
        self.counters.generations_sealed.add(indexed);
        Ok(())
    }

    fn index_log(&self, log: &SharedLog) -> Result<()> {
        // Another thread may do the same: a log that is indexed may be merged, and not flushed any more.
        let _settling = self.jobs.settling.lock();
        if !log.is_broken() && !self.flush_if_due(log)? {
            // On a full disk too: the logs of deletes must become ripe for the merge that frees space.
            self.substrate.reserve.with(|| self.substrate.seal_shared_log(&self.env, log))?;
            if let Err(error) = self.count_hidden(&log.segment) {
                tracing::debug!(%error, "cannot estimate what a log hides");
            }
        }
        self.substrate.try_later(log.segment.end_appends(), "drain a log");
        Ok(())
    }

    /// Memory of generations in bytes: the logs that are not indexed on disk yet.
    pub fn generation_bytes(&self) -> u64 {
        let changes = self.rotation.changes.lock();
        let bytes = |generation: &Arc<LogGeneration>| generation.log.segment.len();
        changes.sealing.iter().map(bytes).sum::<u64>()
            + self.rotation.view.load().active.as_ref().map_or(0, bytes)
    }

    /// Ends all writes and merges for good.
    pub(super) fn retire_all(&self) {
        self.jobs.is_retiring.store(true, Release);
        self.rotation.retire(|| self.locks.lock_all());
        // Merges under way end soon; later ones find the keyspace retired.
        self.jobs.claims.wait_for_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_generation_is_full_by_bytes_or_by_entries() {
        let fill = |bytes, entries| Fill::of(bytes, entries, 1000);
        assert_eq!(fill(0, 0), Fill::Roomy);
        assert_eq!(fill(749, 100), Fill::Roomy);
        assert_eq!(fill(750, 0), Fill::ThreeQuarters);
        assert_eq!(fill(1000, 0), Fill::Full);
        assert_eq!(fill(0, ENTRIES_MAX), Fill::Full);
        assert_eq!(fill(2000, 0), Fill::Overfull);
        assert_eq!(fill(0, TAIL_ENTRIES_MAX - 1), Fill::Full);
        assert_eq!(fill(0, TAIL_ENTRIES_MAX), Fill::Overfull);
        assert_eq!(Fill::of(TAIL_BYTES_MAX - 1, 0, TAIL_BYTES_MAX - 1), Fill::Full);
        assert_eq!(Fill::of(TAIL_BYTES_MAX, 0, TAIL_BYTES_MAX - 1), Fill::Overfull);
    }
}
