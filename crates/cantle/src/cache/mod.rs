//! The block cache: decoded blocks and filters of immutable files, bounded in bytes.
//!
//! One cache serves every store that shares a memory budget. An entry is named by the store
//! instance that loaded it (its *owner*), the file and the offset. Files never change once an entry
//! of them is cached, and file ids are never used again, so entries are never invalidated. Those of
//! deleted files are removed, as no caller can ask for them and they would fill a large cache.
//! Eviction is scan-resistant: entries that are read once do not evict those that are read often.
//!
//! Invariants: the weight of an entry is the memory that it keeps alive; an entry heavier than an
//! eighth of the capacity is not admitted, so that a few huge values cannot evict everything else.
//!
//! Thread safety: all methods may be called from any thread; clones share one cache. Threads that
//! need the same entry at the same time read it once ([`flights`]).

mod flights;
#[cfg(test)]
mod flights_tests;
pub(crate) mod rows;

use crate::block::Block;
use crate::sync::Arc;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::counter::Counter;
use bytes::Bytes;
use flights::Flights;
use quick_cache::sync::{Cache, DefaultLifecycle};
use quick_cache::{DefaultHashBuilder, OptionsBuilder, Weighter};
use std::collections::HashSet;
use std::fmt;

/// Bytes of capacity for each shard, and maximum number of shards, each of which has a lock. With 4
/// MiB even the smallest shard can hold the index of a large table. More than 64 shards no longer
/// reduce contention.
const SHARD_BYTES: u64 = 4 << 20;
const SHARDS_MAX: u64 = 64;
/// Expected bytes of an entry, by which the cache sizes its memory of evicted entries.
const ENTRY_BYTES: u64 = 4 << 10;
/// Memory that the cache itself needs for an entry: key (24 bytes), value (40), links and state
/// (32), hash slot (8, at most 7/8 full), and the shared header of the value's allocations (48).
const ENTRY_OVERHEAD_BYTES: u64 = 160;
/// Blocks of all lengths come and go, and leave holes in the allocator's heap that later ones do
/// not fill. Each block is charged with a quarter of its length for these holes.
const HOLES_FRACTION: u64 = 4;
/// Maximum part of the capacity that one entry may take.
const ENTRY_FRACTION: u64 = 8;

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct CacheKey {
    owner: u64,
    file: u64,
    offset: u64,
}

/// A cached entry.
#[derive(Clone)]
pub(crate) enum CacheValue {
    /// A parsed block of entries: data or index.
    Block(Arc<Block>),
    /// Plain bytes: a filter.
    Bytes(Bytes),
}

impl CacheValue {
    fn weight_bytes(&self) -> u64 {
        let heap_bytes = match self {
            Self::Block(block) => block.heap_bytes(),
            Self::Bytes(bytes) => bytes.len(),
        };
        heap_bytes as u64 + heap_bytes as u64 / HOLES_FRACTION + ENTRY_OVERHEAD_BYTES
    }
}

#[derive(Clone)]
struct Weigher;

impl Weighter<CacheKey, CacheValue> for Weigher {
    fn weight(&self, _: &CacheKey, value: &CacheValue) -> u64 {
        value.weight_bytes()
    }
}

struct Shared {
    cache: Cache<CacheKey, CacheValue, Weigher, DefaultHashBuilder>,
    capacity_bytes: AtomicU64,
    owners: AtomicU64,
    hits: Counter,
    misses: Counter,
    /// Entries that are being loaded.
    flights: Flights<CacheKey, CacheValue>,
}

/// A handle to the cache, on behalf of one owner. Cheap to clone.
#[derive(Clone)]
pub(crate) struct BlockCache {
    shared: Arc<Shared>,
    owner: u64,
}

impl BlockCache {
    /// A cache of at most `capacity_bytes`, and a handle for its first owner. With 0 it caches
    /// nothing.
    pub(crate) fn new(capacity_bytes: u64) -> Self {
        let shards = (capacity_bytes / SHARD_BYTES).clamp(1, SHARDS_MAX);
        // The cache needs at least 32 entries in each shard, or it makes fewer shards.
        let entries = (capacity_bytes / ENTRY_BYTES).max(32 * shards);
        let options = OptionsBuilder::new()
            .shards(shards as usize)
            .estimated_items_capacity(usize::try_from(entries).unwrap_or(usize::MAX))
            .weight_capacity(capacity_bytes)
            .build();
        let cache = match options {
            Ok(options) => Cache::with_options(
                options,
                Weigher,
                DefaultHashBuilder::default(),
                DefaultLifecycle::default(),
            ),
            // Unreachable as long as both capacities are set, as above; the same cache, with the
            // default number of shards.
            Err(_) => Cache::with_weighter(1024, capacity_bytes, Weigher),
        };
        let shared = Shared {
            cache,
            capacity_bytes: AtomicU64::new(capacity_bytes),
            owners: AtomicU64::new(1),
            hits: Counter::default(),
            misses: Counter::default(),
            flights: Flights::default(),
        };
        Self { shared: Arc::new(shared), owner: 0 }
    }

    /// A number that no other store instance has in this cache.
    pub(crate) fn next_owner(&self) -> u64 {
        self.shared.owners.fetch_add(1, Ordering::Relaxed)
    }

    /// A handle to the same cache for the store instance with this number from `next_owner`.
    pub(crate) fn for_owner(&self, owner: u64) -> Self {
        Self { shared: self.shared.clone(), owner }
    }

    /// The entry at `offset` of `file`.
    #[inline]
    pub(crate) fn get(&self, file: u64, offset: u64) -> Option<CacheValue> {
        let found = self.shared.cache.get(&CacheKey { owner: self.owner, file, offset });
        let counter = if found.is_some() { &self.shared.hits } else { &self.shared.misses };
        counter.add(1);
        found
    }

    /// As `get`, if there is an entry that `suits`. Otherwise the caller asks again by `get`, which counts.
    #[inline]
    pub(crate) fn get_if(
        &self,
        file: u64,
        offset: u64,
        suits: impl FnOnce(&CacheValue) -> bool,
    ) -> Option<CacheValue> {
        let found = self.shared.cache.get(&CacheKey { owner: self.owner, file, offset }).filter(suits)?;
        self.shared.hits.add(1);
        Some(found)
    }

    /// The entry at `offset` of `file`, which `load` reads if it is not cached. If several threads
    /// miss it at once, one reads and the others wait for it: `load` must not ask for another entry
    /// in this way. If the read fails, the threads that waited read for themselves.
    pub(crate) fn get_or_load<E>(
        &self,
        file: u64,
        offset: u64,
        load: impl FnOnce() -> Result<CacheValue, E>,
    ) -> Result<CacheValue, E> {
        if let Some(found) = self.get(file, offset) {
            return Ok(found);
        }
        let key = CacheKey { owner: self.owner, file, offset };
        let publish = |value: &CacheValue| self.insert(file, offset, value.clone());
        self.shared.flights.load(&key, || self.peek(file, offset), load, publish)
    }

    /// Begins to load the entry at `offset` of `file` for all threads that need it; `None` if another thread
    /// loads it. Whoever holds the result must not wait for a load.
    pub(crate) fn begin_load(&self, file: u64, offset: u64) -> Option<Loading> {
        let key = CacheKey { owner: self.owner, file, offset };
        self.shared.flights.begin(&key).then(|| Loading { cache: self.clone(), key, loaded: None })
    }

    /// Waits for the load of an entry by another thread; `None` if no thread loads it, or if the load fails.
    pub(crate) fn join_load(&self, file: u64, offset: u64) -> Option<CacheValue> {
        self.shared.flights.join(&CacheKey { owner: self.owner, file, offset })
    }

    /// As `get`, without any effect on the cache's statistics or eviction: for readers that pass
    /// once.
    pub(crate) fn peek(&self, file: u64, offset: u64) -> Option<CacheValue> {
        self.shared.cache.peek(&CacheKey { owner: self.owner, file, offset })
    }

    /// Caches an entry, unless it is too large.
    pub(crate) fn insert(&self, file: u64, offset: u64, value: CacheValue) {
        if value.weight_bytes() <= self.capacity_bytes() / ENTRY_FRACTION {
            self.shared.cache.insert(CacheKey { owner: self.owner, file, offset }, value);
        }
    }

    /// Removes all entries of these files of this owner. Walks the whole cache, shard by shard: the
    /// caller should collect many files for one call.
    pub(crate) fn forget(&self, files: &[u64]) {
        if !files.is_empty() {
            let files: HashSet<u64> = files.iter().copied().collect();
            self.shared.cache.retain(|key, _| key.owner != self.owner || !files.contains(&key.file));
        }
    }

    /// The capacity in bytes.
    pub(crate) fn capacity_bytes(&self) -> u64 {
        self.shared.capacity_bytes.load(Ordering::Relaxed)
    }

    /// Changes the capacity; takes effect with the next insertions.
    pub(crate) fn set_capacity_bytes(&self, bytes: u64) {
        self.shared.capacity_bytes.store(bytes, Ordering::Relaxed);
        self.shared.cache.set_capacity(bytes);
    }

    /// Memory that the entries keep alive, in bytes.
    pub(crate) fn used_bytes(&self) -> u64 {
        self.shared.cache.weight()
    }

    /// Reads that found their block cached.
    pub(crate) fn hits(&self) -> u64 {
        self.shared.hits.get()
    }

    /// Reads that did not find their block cached.
    pub(crate) fn misses(&self) -> u64 {
        self.shared.misses.get()
    }
}

/// The load of an entry, which other threads wait for. Without [`Loading::end`] it has failed: they load for
/// themselves.
pub(crate) struct Loading {
    cache: BlockCache,
    key: CacheKey,
    loaded: Option<CacheValue>,
}

impl Loading {
    /// Publishes the entry.
    pub(crate) fn end(self, value: &CacheValue) {
        self.cache.insert(self.key.file, self.key.offset, value.clone());
        self.pass_on(value.clone());
    }

    /// Gives an entry that was found in the cache to whoever waits.
    pub(crate) fn pass_on(mut self, value: CacheValue) {
        self.loaded = Some(value);
    }
}

impl Drop for Loading {
    fn drop(&mut self) {
        self.cache.shared.flights.end(&self.key, self.loaded.take());
    }
}

impl fmt::Debug for BlockCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BlockCache")
            .field("owner", &self.owner)
            .field("capacity_bytes", &self.capacity_bytes())
            .field("used_bytes", &self.used_bytes())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(len: usize) -> CacheValue {
        CacheValue::Bytes(Bytes::from(vec![7; len]))
    }

    #[test]
    fn forgotten_files_leave_the_cache_and_others_stay() {
        let cache = BlockCache::new(1 << 20);
        let other = cache.for_owner(cache.next_owner());
        for file in 1..=4 {
            cache.insert(file, 0, filter(1000));
        }
        other.insert(2, 0, filter(1000));
        let used_bytes = cache.used_bytes();
        cache.forget(&[]);
        assert_eq!(cache.used_bytes(), used_bytes);
        cache.forget(&[2, 3, 9]);
        assert_eq!([1, 2, 3, 4].map(|file| cache.peek(file, 0).is_some()), [true, false, false, true]);
        assert!(other.peek(2, 0).is_some(), "files of another store are its own");
        assert_eq!(cache.used_bytes() * 5, used_bytes * 3);
    }

    #[test]
    fn the_capacity_bounds_what_is_kept() {
        let cache = BlockCache::new(1 << 20);
        for offset in 0..1_000 {
            cache.insert(1, offset, filter(4096));
            assert!(cache.used_bytes() <= 1 << 20);
        }
        assert!(cache.used_bytes() > 900 << 10, "most of the capacity is used");
    }

    #[test]
    fn an_entry_beyond_an_eighth_is_not_cached() {
        let cache = BlockCache::new(80 << 10);
        let longest = ((10 << 10) - ENTRY_OVERHEAD_BYTES as usize) / 5 * 4;
        cache.insert(1, 0, filter(longest));
        cache.insert(1, 1, filter(longest + 4));
        assert!(cache.get(1, 0).is_some());
        assert!(cache.get(1, 1).is_none());
        assert_eq!((cache.hits(), cache.misses()), (1, 1));
    }

    #[test]
    fn owners_do_not_see_one_anothers_entries() {
        let cache = BlockCache::new(1 << 20);
        let (one, two) = (cache.for_owner(cache.next_owner()), cache.for_owner(cache.next_owner()));
        one.insert(1, 0, filter(10));
        assert!(one.get(1, 0).is_some() && one.clone().peek(1, 0).is_some());
        assert!(two.get(1, 0).is_none() && cache.get(1, 0).is_none());
    }

    #[test]
    fn no_capacity_caches_nothing() {
        let cache = BlockCache::new(0);
        cache.insert(1, 0, filter(0));
        assert!(cache.get(1, 0).is_none());
        assert_eq!(cache.used_bytes(), 0);
    }

    #[test]
    fn a_passing_reader_leaves_no_trace() {
        let cache = BlockCache::new(1 << 20);
        assert!(cache.peek(1, 0).is_none());
        assert_eq!((cache.hits(), cache.misses()), (0, 0));
    }
}
