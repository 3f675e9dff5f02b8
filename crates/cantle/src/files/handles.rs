//! A bounded number of open files, for all stores of the process together.
//!
//! Thread safety: everything may be called from any thread.

use crate::sync::Arc;
use crate::sync::atomic::{
    AtomicU64, AtomicUsize,
    Ordering::{Relaxed, SeqCst},
};
use crate::sync::process_wide::ProcessWide;
use crate::types::error::is_out_of_files;
use crate::vfs::VfsFile;
use quick_cache::sync::Cache;
use std::convert::Infallible;
use std::io;
use std::sync::Weak;

/// Number of files that a store has open besides those counted here: lock, directory, manifest and
/// journal, and the next manifest and journal while they are created.
const FIXED_PER_STORE: usize = 6;
/// Minimum number of handles for all stores together, however many there are: with fewer, each read
/// would open its file.
const HANDLES_MIN: usize = 4;
/// Bounds of the number of open tables for each store, for the same reason.
const TABLES_MIN: usize = 2;
const TABLES_MAX: usize = 32_768;
/// Maximum number of handles for all stores together.
const HANDLES_MAX: usize = 65_536;

/// Open handles by store and file number. If there are too many, the least useful are closed. A
/// handle that is in use stays open until its last user drops it.
struct Shared {
    open: Cache<(u64, u64), Arc<dyn VfsFile>>,
    stores: AtomicUsize,
    next_store: AtomicU64,
}

impl Shared {
    fn new() -> Self {
        Self { open: Cache::new(capacity(0)), stores: AtomicUsize::new(0), next_store: AtomicU64::new(0) }
    }

    fn set_stores(&self, change: impl Fn(usize) -> usize) {
        let _ = self.stores.fetch_update(SeqCst, SeqCst, |stores| Some(change(stores)));
        self.open.set_capacity(capacity(self.stores.load(SeqCst)) as u64);
    }
}

/// Number of files that may be kept open with this number of stores. All files that the stores have
/// open are half of the process's limit, as the other half is the application's. A quarter of the
/// stores' half is for files in use, which stay open although others replace them in the cache.
fn kept_files(stores: usize) -> usize {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current.unwrap_or(1024);
    let half = usize::try_from(limit / 2).unwrap_or(usize::MAX);
    let left = half.saturating_sub(stores.saturating_mul(FIXED_PER_STORE));
    left - left / 4
}

/// Number of handles that may be kept with this number of stores: half of the files, as the other
/// half is for open tables.
fn capacity(stores: usize) -> usize {
    (kept_files(stores) / 2).clamp(HANDLES_MIN, HANDLES_MAX)
}

/// Maxima of a store's tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TablesMax {
    /// Tables that stay open although nothing uses them.
    pub kept: usize,
    /// Tables that hold their files open: these and those in use.
    pub held: usize,
}

/// Number of tables that each store may keep open with this number of stores. Tables in use hold half of the
/// files that are left for files in use.
fn tables_max(stores: usize) -> TablesMax {
    let (files, stores) = (kept_files(stores), stores.max(1));
    let kept = (files / 2 / stores).clamp(TABLES_MIN, TABLES_MAX);
    TablesMax { kept, held: kept + files / 6 / stores }
}

/// Number of files that each store may have in use besides tables, with this number of stores: the other half of
/// what is left for files in use.
fn in_use_max(stores: usize) -> usize {
    (kept_files(stores) / 6 / stores.max(1)).max(1)
}

/// The handles of one store.
pub struct Handles {
    shared: Arc<Shared>,
    store: u64,
}

impl Handles {
    pub fn new() -> Self {
        static SHARED: ProcessWide<Weak<Shared>> = ProcessWide::new();
        let make = || Ok::<_, Infallible>(Arc::new(Shared::new()));
        let shared = match SHARED.get(Weak::upgrade, Arc::downgrade, make) {
            Ok(shared) => shared,
            Err(never) => match never {},
        };
        let store = shared.next_store.fetch_add(1, Relaxed);
        shared.set_stores(|stores| stores + 1);
        Self { shared, store }
    }

    /// Numbers of tables that the store may have open, besides these handles, with the current
    /// number of stores.
    pub fn tables_max(&self) -> TablesMax {
        let stores = self.shared.stores.load(SeqCst);
        canary!(FILES_NOT_SHARED => let stores = 1);
        tables_max(stores)
    }

    /// Number of files that a job of the store may use at the same time, with the current number of stores.
    pub fn in_use_max(&self) -> usize {
        in_use_max(self.shared.stores.load(SeqCst))
    }

    pub fn insert(&self, id: u64, handle: Arc<dyn VfsFile>) {
        self.shared.open.insert((self.store, id), handle);
    }

    pub fn remove(&self, id: u64) {
        self.shared.open.remove(&(self.store, id));
    }

    pub fn clear(&self) {
        self.shared.open.retain(|(store, _), _| *store != self.store);
    }

    pub fn get_or_open(
        &self,
        id: u64,
        open: impl Fn() -> io::Result<Arc<dyn VfsFile>>,
    ) -> io::Result<Arc<dyn VfsFile>> {
        if let Some(handle) = self.shared.open.get(&(self.store, id)) {
            return Ok(handle);
        }
        let handle = self.retrying(open)?;
        self.insert(id, handle.clone());
        Ok(handle)
    }

    /// Opens a file. If the process has too many files open, closes the idle handles of all stores
    /// and tries once more.
    pub fn retrying<T>(&self, open: impl Fn() -> io::Result<T>) -> io::Result<T> {
        open().or_else(|error| {
            if is_out_of_files(&error) {
                self.shared.open.clear();
                open()
            } else {
                Err(error)
            }
        })
    }
}

impl Drop for Handles {
    fn drop(&mut self) {
        self.clear();
        self.shared.set_stores(|stores| stores.saturating_sub(1));
    }
}

impl std::fmt::Debug for Handles {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Handles").field("store", &self.store).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stores_share_what_half_of_the_limit_leaves() {
        let [none, one, many] = [0, 1, 1_000_000].map(capacity);
        assert!(none > one && one > many && many == HANDLES_MIN, "{none} {one} {many}");
        let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current.unwrap_or(1024);
        assert!(none as u64 <= limit / 2);
        assert!(in_use_max(1) > 1 && in_use_max(1_000_000) == 1);
        for stores in [1, 3, 10] {
            let tables = tables_max(stores);
            let all = capacity(stores) + stores * (tables.held + in_use_max(stores) + FIXED_PER_STORE);
            assert!(all as u64 <= limit / 2, "{all} files of {stores} stores");
        }
    }
}
