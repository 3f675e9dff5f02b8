//! Removes files from before a crash that nothing refers to.

use crate::db::foreign::is_foreign;
use crate::db::store::Store;
use crate::maintenance::Class;
use crate::sync::Arc;
use crate::types::error::Result;
use std::path::{Path, PathBuf};

/// Removes orphans: files from before a crash that nothing refers to. Many are removed at once,
/// because processes that were killed too early for the background left them. A few are removed in
/// the background, or when the store is closed. Logs with writes that the last process left behind
/// are removed after the writes are counted.
pub(super) fn remove_remains(store: &Arc<Store>, mut orphans: Vec<PathBuf>) {
    /// Number of orphans that are left to the background: as few are not worth two syncs, and after
    /// a power failure some are usual.
    const LEFT_MAX: usize = 2;
    if orphans.len() > LEFT_MAX && store.sync_orphans_unreferenced().is_ok() {
        orphans.drain(..).for_each(|orphan| store.remove_orphan(&orphan));
    }
    let counts = match &*store.uncounted.lock() {
        Some(uncounted) => {
            orphans.extend(uncounted.orphans().filter(|_| !store.options.read_only));
            true
        }
        None => false,
    };
    if orphans.is_empty() && !counts {
        return;
    }
    if !orphans.is_empty() {
        store.substrate.files.note_orphans(true);
    }
    *store.orphans.lock() = orphans;
    let this = store.this.clone();
    store.substrate.pool.submit(Class::Asked, move || {
        {
            let Some(store) = this.upgrade() else { return };
            let Some(_work) = store.substrate.begin_work() else { return };
            store.count_left_behind();
            if store.orphans.lock().is_empty() || store.sync_orphans_unreferenced().is_err() {
                return;
            }
        }
        loop {
            let Some(store) = this.upgrade() else { return };
            let Some(_work) = store.substrate.begin_work() else { return };
            let Some(orphan) = store.orphans.lock().pop() else {
                store.substrate.files.note_orphans(false);
                return;
            };
            store.remove_orphan(&orphan);
        }
    });
}

impl Store {
    /// Syncs the manifest: the last checkpoint, which does not need the orphans, may not be synced
    /// yet.
    fn sync_orphans_unreferenced(&self) -> Result<()> {
        canary!(UNSETTLED_ORPHANS => return Ok(()));
        self.substrate.manifest.sync().map_err(|error| self.substrate.sync_failed(error))
    }

    fn remove_orphan(&self, orphan: &Path) {
        if is_foreign(&*self.substrate.files.vfs, orphan) {
            tracing::warn!(path = %orphan.display(), "kept a file that is not the store's, but has a name that a store may give");
            return;
        }
        if let Err(error) = self.substrate.files.vfs.remove(orphan) {
            tracing::warn!(path = %orphan.display(), %error, "cannot remove a file that a crash left behind");
        }
    }

    /// Removes the orphans that the background has not removed yet. A checkpoint was made since
    /// opening.
    pub(in crate::db) fn remove_orphans_left(&self) {
        let left = std::mem::take(&mut *self.orphans.lock());
        left.iter().for_each(|orphan| self.remove_orphan(orphan));
    }

    /// Removes orphans now, because their space is needed.
    pub(in crate::db) fn remove_orphans_now(&self, orphans: &mut Vec<std::path::PathBuf>) -> Result<()> {
        self.sync_orphans_unreferenced()?;
        orphans.drain(..).for_each(|orphan| self.remove_orphan(&orphan));
        Ok(())
    }
}
