//! LRU caches. Here a cache's capacity is a share of the memory budget, and databases with the same
//! cache share memory and threads (see [`crate::memory`]).

use crate::call::{opaque, quietly};
use crate::handles::{Handles, Kind};
use crate::memory::Budget;
use arc_swap::ArcSwap;
use cantle::Resources;
use cantle_bindings::Process;
use std::mem::ManuallyDrop;
use std::ptr::null_mut;
use std::sync::Arc;

opaque! {
    /// A cache.
    leveldb_cache_t,
}

pub static CACHES: Handles<Arc<Cache>> = Handles::new(Kind::Cache);

pub struct Cache {
    pub capacity_bytes: u64,
    /// Resources made so far, one entry per chosen budget and process. There is no lock, as another
    /// thread could hold it when the process forks.
    shared: ArcSwap<Vec<Arc<Shared>>>,
}

/// Budget and threads of all databases with this cache for which the same budget was chosen, if
/// any.
struct Shared {
    chosen: Option<Budget>,
    /// The process in which the threads run.
    process: Process,
    resources: ManuallyDrop<Resources>,
}

impl Drop for Shared {
    fn drop(&mut self) {
        // A forked process has the memory, but not the threads that dropping the resources would
        // wait for.
        if self.process.is_current() {
            // SAFETY: the resources are not used after this.
            unsafe { ManuallyDrop::drop(&mut self.resources) };
        }
    }
}

impl Cache {
    pub fn new(capacity_bytes: u64) -> Self {
        Self { capacity_bytes, shared: ArcSwap::default() }
    }

    /// The resources that this process's databases with the given budget share. `make` creates them
    /// for the first database.
    pub fn resources(
        &self,
        process: Process,
        chosen: Option<Budget>,
        make: impl FnOnce() -> Resources,
    ) -> Resources {
        let of_these = |shared: &&Arc<Shared>| shared.chosen == chosen && shared.process == process;
        if let Some(shared) = self.shared.load().iter().find(of_these) {
            return Resources::clone(&shared.resources);
        }
        let made = Arc::new(Shared { chosen, process, resources: ManuallyDrop::new(make()) });
        // If two threads make resources at the same time, both use the ones that were stored first.
        self.shared.rcu(|shared| {
            let mut shared = Vec::clone(shared);
            if !shared.iter().any(|shared| of_these(&shared)) {
                shared.push(made.clone());
            }
            shared
        });
        let shared = self.shared.load();
        let resources = shared.iter().find(of_these).map_or(&made.resources, |shared| &shared.resources);
        Resources::clone(resources)
    }
}

/// A cache of `capacity` bytes.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_cache_create_lru(capacity: usize) -> *mut leveldb_cache_t {
    quietly(null_mut(), || CACHES.insert(Arc::new(Cache::new(capacity as u64))))
}

/// Destroys a cache. Databases that were opened with it continue to share its resources.
///
/// # Safety
///
/// No other thread uses it at this moment.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_cache_destroy(cache: *mut leveldb_cache_t) {
    quietly((), || drop(CACHES.remove(cache)));
}
