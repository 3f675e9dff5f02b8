//! The order of generations: logs are created one at a time, become active one after the other, and
//! are indexed once nobody writes to them.
//!
//! The steps are generic over the log `L` and the view `V`, so that `tests/shuttle_generation.rs`
//! runs this file beside small doubles of both.
//!
//! Invariants:
//!
//! * Logs become active in the order in which they were created.
//! * The view has the successor of a generation before the generation turns a writer away.
//! * A generation that was active is in `sealing` from the moment of its seal until its index is on
//!   disk, or a table in its place, so a merge that asks for [`ripe`](Rotation::ripe) runs never gets a
//!   log that grows or goes.
//!
//! Lock order: `creating` → `changes`. Locks of keys may be held around each of them.
//!
//! Thread safety: everything may be called from any thread.

use super::generation::{Entered, Generation};
use crate::sync::waits::{self, Cause};
use crate::sync::{Arc, ArcSwap, Mutex};
use crate::types::error::{Error, Result};

/// A view whose logs follow each other.
pub trait Rotating<L>: Sized {
    /// The generation that writes enter.
    fn active(&self) -> Option<&Arc<Generation<L>>>;
    /// The same view with another active generation, whose log is above all others.
    fn with_active(&self, next: Option<Arc<Generation<L>>>) -> Self;
}

/// The view of a keyspace, and the generations that are not indexed on disk.
pub struct Rotation<L, V> {
    pub(super) view: ArcSwap<V>,
    pub(super) changes: Mutex<Changes<L>>,
    /// Held while a log is created.
    creating: Mutex<()>,
}

/// State that changes together with the view, and is locked while the view changes.
pub(super) struct Changes<L> {
    /// True once the keyspace was dropped: nothing is written any more.
    pub retired: bool,
    /// Sealed generations that are neither indexed on disk nor flushed yet, oldest first.
    pub sealing: Vec<Arc<Generation<L>>>,
    /// The next generation. Its log is in the manifest already.
    pub spare: Option<Arc<Generation<L>>>,
}

impl<L, V: Rotating<L>> Rotation<L, V> {
    pub fn new(view: V) -> Self {
        let changes = Changes { retired: false, sealing: Vec::new(), spare: None };
        Self { view: ArcSwap::from_pointee(view), changes: Mutex::new(changes), creating: Mutex::new(()) }
    }

    /// Enters the active generation as a writer that holds the locks of its keys. Makes a
    /// generation active if there is none.
    pub fn enter<H>(&self, create: impl Fn() -> Result<L>, lock: impl Fn() -> H) -> Result<(H, Entered<L>)> {
        loop {
            // Before the locks: it may create a file.
            self.make_active(&create)?;
            let held = lock();
            // Looked for under the locks, so the writes of a key enter generations in their order.
            if let Some(entered) = self.view.load().active().and_then(Generation::enter) {
                return Ok((held, entered));
            }
        }
    }

    /// Makes sure that there is an active generation.
    fn make_active(&self, create: impl Fn() -> Result<L>) -> Result<()> {
        while self.view.load().active().is_none() {
            self.make_spare(&create)?;
            let mut changes = waits::lock(&self.changes);
            if changes.retired {
                return Err(Error::NoKeyspace("(dropped)".into()));
            }
            if self.view.load().active().is_none()
                && let Some(spare) = changes.spare.take()
            {
                self.replace_active(&mut changes, Some(spare));
            }
        }
        Ok(())
    }

    /// Makes sure that there is a spare generation. Only here logs are created, one at a time, so
    /// that the manifest has them in the order in which they become active.
    pub fn make_spare(&self, create: impl Fn() -> Result<L>) -> Result<()> {
        let _creating = waits::lock(&self.creating);
        {
            let changes = waits::lock(&self.changes);
            if changes.retired {
                return Err(Error::NoKeyspace("(dropped)".into()));
            }
            if changes.spare.is_some() {
                return Ok(());
            }
        }
        let spare = Arc::new(Generation::new(waits::timed(Cause::Allocation, create)?));
        waits::lock(&self.changes).spare = Some(spare);
        Ok(())
    }

    /// Puts the spare generation in the place of `full`; false if that is not active any more, or
    /// if there is no spare one.
    pub fn rotate(&self, full: &Arc<Generation<L>>) -> bool {
        let mut changes = waits::lock(&self.changes);
        let spare = if self.is_active(full) { changes.spare.take() } else { None };
        spare.map(|spare| self.replace_active(&mut changes, Some(spare))).is_some()
    }

    /// Seals the active generation, whatever is in it. The next write begins another.
    pub fn seal_active(&self) {
        let mut changes = self.changes.lock();
        if self.view.load().active().is_some() {
            self.replace_active(&mut changes, None);
        }
    }

    /// The same if the active generation is this one.
    pub fn seal_if_active(&self, generation: &Arc<Generation<L>>) {
        let mut changes = self.changes.lock();
        if self.is_active(generation) {
            self.replace_active(&mut changes, None);
        }
    }

    fn is_active(&self, generation: &Arc<Generation<L>>) -> bool {
        self.view.load().active().is_some_and(|active| Arc::ptr_eq(active, generation))
    }

    fn replace_active(&self, changes: &mut Changes<L>, next: Option<Arc<Generation<L>>>) {
        let before = self.view.load_full();
        self.view.store(Arc::new(before.with_active(next)));
        // Only now: a writer that is turned away finds the successor at once, and need not wait.
        if let Some(full) = before.active() {
            full.seal();
            changes.sealing.push(full.clone());
        }
    }

    /// Replaces the view by one with the same active generation.
    pub fn change(&self, change: impl FnOnce(&V) -> V) {
        let _changes = self.changes.lock();
        let now = self.view.load_full();
        self.view.store(Arc::new(change(&now)));
    }

    /// Calls `index`, which may flush in place of that, for the logs of sealed generations that nobody writes
    /// to any more, the oldest first, and returns their number. Ends at the first one that has a writer.
    /// Another thread may do the same at the same time, and may pass the same log.
    pub fn index_sealed(&self, index: impl Fn(&L) -> Result<()>) -> Result<u64> {
        let mut indexed = 0;
        loop {
            let oldest = self.changes.lock().sealing.first().cloned();
            let Some(oldest) = oldest else { return Ok(indexed) };
            let is_quiet = oldest.is_quiet();
            canary!(INDEXED_UNDER_WRITERS => let is_quiet = true);
            if !is_quiet {
                return Ok(indexed);
            }
            index(&oldest.log)?;
            let mut changes = self.changes.lock();
            let before = changes.sealing.len();
            changes.sealing.retain(|sealing| !Arc::ptr_eq(sealing, &oldest));
            indexed += (before - changes.sealing.len()) as u64;
        }
    }

    /// Indexes all generations that are sealed now. `wait` is called while one has a writer.
    pub fn index_all_sealed(&self, index: impl Fn(&L) -> Result<()>, wait: impl Fn()) -> Result<u64> {
        let sealed = self.changes.lock().sealing.clone();
        let mut indexed = 0;
        loop {
            indexed += self.index_sealed(&index)?;
            let changes = self.changes.lock();
            if !sealed.iter().any(|sealed| changes.sealing.iter().any(|left| Arc::ptr_eq(left, sealed))) {
                return Ok(indexed);
            }
            drop(changes);
            wait();
        }
    }

    /// The runs of `level0`, the logs and flushed tables of `view` from the newest to the oldest, that may
    /// be merged: the oldest ones, without a gap, that neither grow nor wait for their index or their
    /// flush. `is_of` is true for a run of this log.
    pub fn ripe<'a, R>(&self, view: &V, level0: &'a [R], is_of: impl Fn(&R, &L) -> bool) -> &'a [R] {
        let changes = self.changes.lock();
        let is_unripe = |run: &R| {
            let mut growing = view.active().into_iter().chain(&changes.sealing);
            growing.any(|generation| is_of(run, &generation.log))
        };
        &level0[level0.iter().rposition(is_unripe).map_or(0, |last| last + 1)..]
    }

    /// Ends all writes for good. `lock_all` locks all keys, and so waits for writers.
    pub fn retire<H>(&self, lock_all: impl FnOnce() -> H) {
        self.changes.lock().retired = true;
        // Writers that hold locks finish first. Later ones find no active generation, and that the
        // keyspace is retired.
        let held = lock_all();
        self.seal_active();
        drop(held);
        // A log that is being created comes first; later ones find the keyspace retired.
        drop(self.creating.lock());
    }
}
