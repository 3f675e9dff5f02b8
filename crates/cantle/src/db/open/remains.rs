//! Files of before a crash that nothing refers to.

use crate::db::foreign::is_foreign;
use crate::db::store::Store;
use crate::maintenance::Class;
use crate::sync::Arc;
use crate::types::error::Result;
use std::path::{Path, PathBuf};

/// Files of before a crash that nothing refers to go in the background, and what is left of them when the store is closed; many at
/// once, as processes that were killed too soon for that left them. Logs of what the last process left behind go once that is
/// counted.
pub(super) fn remove_remains(store: &Arc<Store>, mut orphans: Vec<PathBuf>) {
    /// A few are not worth two syncs, and after a loss of power some are usual.
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
            let Some(orphan) = store.orphans.lock().pop() else { return };
            store.remove_orphan(&orphan);
        }
    });
}

impl Store {
    /// The last checkpoint, which does without these files, may be one that nobody has synced yet.
    fn sync_orphans_unreferenced(&self) -> Result<()> {
        canary!(UNSETTLED_ORPHANS => return Ok(()));
        self.substrate.manifest.sync().map_err(|error| self.substrate.sync_failed(error))
    }

    fn remove_orphan(&self, orphan: &Path) {
        if is_foreign(&*self.substrate.files.vfs, orphan) {
            tracing::warn!(path = %orphan.display(), "a file of somebody else, under a name that a store may give, stays");
            return;
        }
        if let Err(error) = self.substrate.files.vfs.remove(orphan) {
            tracing::warn!(path = %orphan.display(), %error, "cannot remove what a crash left behind");
        }
    }

    /// Removes what a crash left behind and the background has not come to. A checkpoint was made since.
    pub(in crate::db) fn remove_orphans_left(&self) {
        let left = std::mem::take(&mut *self.orphans.lock());
        left.iter().for_each(|orphan| self.remove_orphan(orphan));
    }

    /// Removes what a crash left behind now, as its space is needed.
    pub(in crate::db) fn remove_orphans_now(&self, orphans: &mut Vec<std::path::PathBuf>) -> Result<()> {
        self.sync_orphans_unreferenced()?;
        orphans.drain(..).for_each(|orphan| self.remove_orphan(&orphan));
        Ok(())
    }
}
