//! The change of generations: creating them, rotating, and sealing those that are full.

use super::keyspace::{Changes, Lsm};
use super::shape::Shape;
use super::state::Edit;
use super::view::{LogGeneration, View};
use crate::files::StoreFile;
use crate::maintenance::Class;
use crate::manifest;
use crate::run::run::{Run, Source};
use crate::sync::atomic::Ordering::{AcqRel, Release};
use crate::sync::{Arc, MutexGuard};
use crate::types::error::{Error, Result};
use crate::types::span::Span;

/// Maximum number of entries of a generation: about 20 MB of memory at 16 bytes a key, and some
/// tens of milliseconds of sorting if a later opening has to load it.
const ENTRIES_MAX: usize = 256 << 10;

/// The fill level of a generation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Fill {
    Roomy,
    /// The spare generation is due.
    ThreeQuarters,
    /// The next generation is due.
    Full,
    /// Twice as full: writers no longer wait for a background job to make the next one.
    Overfull,
}

impl Fill {
    fn of(bytes: u64, entries: usize, generation_bytes: u64) -> Self {
        let fraction = bytes as f64 / generation_bytes.max(1) as f64;
        match fraction.max(entries as f64 / ENTRIES_MAX as f64) {
            2.0.. => Self::Overfull,
            1.0.. => Self::Full,
            0.75.. => Self::ThreeQuarters,
            _ => Self::Roomy,
        }
    }
}

impl<S: Shape> Lsm<S> {
    /// Makes sure that there is an active generation.
    pub(super) fn make_active(&self) -> Result<()> {
        while self.view.load().active.is_none() {
            self.make_spare()?;
            let mut changes = self.changes.lock();
            if self.view.load().active.is_none()
                && let Some(spare) = changes.spare.take()
            {
                self.replace_active(&mut changes, Some(spare));
            }
        }
        Ok(())
    }

    fn replace_active(&self, changes: &mut MutexGuard<'_, Changes>, next: Option<Arc<LogGeneration>>) {
        let before = self.view.load_full();
        let mut after = View::clone(&before);
        if let Some(next) = &next {
            let source = Source::Log(next.log.segment.clone());
            let run = Run { source, span: Arc::new(Span::default()), dropped: None, share_bytes: None };
            after.logs.insert(0, run);
        }
        after.active = next;
        let full = before.active.clone();
        self.view.store(Arc::new(after));
        // Only now: a writer that is turned away finds the successor.
        if let Some(full) = full {
            full.seal();
            changes.sealing.push(full);
        }
    }

    /// A generation with a new log, which is in the manifest.
    fn new_generation(&self) -> Result<Arc<LogGeneration>> {
        let publish = |file: &StoreFile| {
            let payload = Edit::Log { file: file.id, epoch: file.epoch }.encode();
            self.env.order.check()?;
            self.substrate.manifest.append(&[manifest::Edit::Layout { keyspace: self.env.keyspace, payload }])
        };
        let log = self.substrate.create_shared_log(&self.env, publish)?;
        Ok(Arc::new(LogGeneration::new(log)))
    }

    fn fill(&self, generation: &LogGeneration) -> Fill {
        let segment = &generation.log.segment;
        let entries = segment.loaded().and_then(|parts| parts.memory.as_ref().map(|memory| memory.len()));
        Fill::of(segment.len(), entries.unwrap_or(0), self.limits().generation_bytes)
    }

    /// Rotates if the active generation is full and the next one is there. Called without locks.
    pub(super) fn rotate_if_full(&self) {
        let Some(active) = self.view.load().active.clone() else { return };
        let fill = self.fill(&active);
        if fill == Fill::Roomy {
            return;
        }
        if fill == Fill::Overfull
            && let Err(error) = self.make_spare()
        {
            // Writes go on in the full generation.
            tracing::warn!(%error, "cannot begin another log");
        }
        let is_rotated = fill >= Fill::Full && {
            let mut changes = self.changes.lock();
            let is_active = self.view.load().active.as_ref().is_some_and(|now| Arc::ptr_eq(now, &active));
            let spare = if is_active { changes.spare.take() } else { None };
            spare.map(|spare| self.replace_active(&mut changes, Some(spare))).is_some()
        };
        if is_rotated {
            self.submit_seal();
        } else if self.changes.lock().spare.is_none() {
            self.submit_spare();
        }
    }

    /// Seals the active generation, whatever is in it. The next write begins another.
    pub(super) fn seal_active(&self) {
        let mut changes = self.changes.lock();
        if self.view.load().active.is_some() {
            self.replace_active(&mut changes, None);
        }
    }

    /// Lets later writes go to another log than this one, which may end in a broken record.
    pub(super) fn abandon(&self, generation: &Arc<LogGeneration>) {
        let mut changes = self.changes.lock();
        if self.view.load().active.as_ref().is_some_and(|active| Arc::ptr_eq(active, generation)) {
            self.replace_active(&mut changes, None);
        }
    }

    fn submit_spare(&self) {
        if self.substrate.read_only || self.jobs.making_spare.swap(true, AcqRel) {
            return;
        }
        let this = self.this.clone();
        self.substrate.pool.submit(Class::Seal, move || {
            let Some(lsm) = this.upgrade() else { return };
            if let Some(_work) = lsm.substrate.begin_work()
                && let Err(error) = lsm.make_spare()
            {
                tracing::warn!(%error, "cannot make a log in advance");
            }
            lsm.jobs.making_spare.store(false, Release);
            lsm.rotate_if_full();
        });
    }

    /// Makes sure that there is a spare generation. Only here logs are created, one at a time, so
    /// that the manifest has them in the order in which they become active.
    fn make_spare(&self) -> Result<()> {
        let _creating = self.jobs.creating.lock();
        {
            let changes = self.changes.lock();
            if changes.retired {
                return Err(Error::NoKeyspace("(dropped)".into()));
            }
            if changes.spare.is_some() {
                return Ok(());
            }
        }
        self.substrate.health.check_writable()?;
        let spare = self.new_generation()?;
        self.changes.lock().spare = Some(spare);
        Ok(())
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
                tracing::warn!(%error, "cannot index a log");
            }
            lsm.jobs.sealing.store(false, Release);
        });
    }

    /// Writes the indexes of sealed generations that nobody writes to any more. The oldest comes
    /// first.
    pub(super) fn index_sealed(&self) -> Result<()> {
        loop {
            let oldest = self.changes.lock().sealing.first().cloned();
            let Some(oldest) = oldest else { return Ok(()) };
            let is_quiet = oldest.is_quiet();
            canary!(INDEXED_UNDER_WRITERS => let is_quiet = true);
            if !is_quiet {
                return Ok(());
            }
            self.index(&oldest)?;
        }
    }

    fn index(&self, generation: &Arc<LogGeneration>) -> Result<()> {
        let log = &generation.log;
        if !log.is_broken() {
            self.substrate.seal_shared_log(&self.env, log)?;
        }
        log.segment.end_appends();
        let mut changes = self.changes.lock();
        let before = changes.sealing.len();
        changes.sealing.retain(|sealing| !Arc::ptr_eq(sealing, generation));
        if changes.sealing.len() < before {
            self.counters.generations_sealed.add(1);
        }
        Ok(())
    }

    /// Memory of generations in bytes: the logs that are not indexed on disk yet.
    pub fn generation_bytes(&self) -> u64 {
        let changes = self.changes.lock();
        let bytes = |generation: &Arc<LogGeneration>| generation.log.segment.len();
        changes.sealing.iter().map(bytes).sum::<u64>() + self.view.load().active.as_ref().map_or(0, bytes)
    }

    /// Ends all writes for good.
    pub(super) fn retire_all(&self) {
        self.changes.lock().retired = true;
        // Writers that hold stripes finish first.
        drop(self.locks.lock_all());
        self.seal_active();
        // Jobs that began before finish first; later ones find the keyspace retired.
        drop(self.jobs.creating.lock());
        drop(self.jobs.merging.lock());
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
        assert_eq!(fill(0, 3 * ENTRIES_MAX), Fill::Overfull);
    }
}
