//! Flights: one load for all threads that need the same entry at the same time.
//!
//! The first thread that misses a key in a cache *leads*: it loads. A thread that comes during the
//! load waits for its outcome, and gets the value even if the cache does not keep it. A failure or
//! panic of a load is an outcome, too: each thread that waited then loads for itself, in parallel
//! with the others, and reports its own error.
//!
//! Invariants: while a load of a key is in progress, no other thread leads for that key. The leader
//! gives its value to the cache (`publish`) before the flight is over, and looks in the cache once
//! more (`find`) after its flight has begun. Therefore a published value is not loaded again by a
//! thread that missed it just before.
//!
//! Thread safety: all methods may be called from any thread. No lock is held during a load. A load
//! may wait for a disk, but not for another load by the same flights. `tests/shuttle_flights.rs` is
//! the model.

use crate::sync::Arc;
use crate::sync::std_lock::{Condvar, Mutex, MutexGuard};
use quick_cache::DefaultHashBuilder;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{BuildHasher, Hash};
use std::sync::PoisonError;

/// Number of locks. Few threads miss at once, so with this many they rarely meet at one lock.
const SHARDS: usize = 16;

/// A load has a flight once another thread waits for it.
type UnderWay<K, V> = HashMap<K, Option<Arc<Flight<V>>>, DefaultHashBuilder>;

/// Loads in progress.
#[derive(Debug)]
pub(crate) struct Flights<K, V> {
    shards: [Mutex<UnderWay<K, V>>; SHARDS],
    hasher: DefaultHashBuilder,
}

#[derive(Debug)]
enum Outcome<V> {
    UnderWay,
    Loaded(V),
    Failed,
}

#[derive(Debug)]
struct Flight<V> {
    outcome: Mutex<Outcome<V>>,
    over: Condvar,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // No code that could panic halfway runs under these locks.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<V: Clone> Flight<V> {
    fn new() -> Arc<Self> {
        Arc::new(Self { outcome: Mutex::new(Outcome::UnderWay), over: Condvar::new() })
    }

    fn end(&self, outcome: Outcome<V>) {
        *lock(&self.outcome) = outcome;
        self.over.notify_all();
    }

    /// Waits for the value; `None` if the load failed.
    fn wait(&self) -> Option<V> {
        let mut outcome = lock(&self.outcome);
        loop {
            match &*outcome {
                Outcome::UnderWay => {
                    outcome = self.over.wait(outcome).unwrap_or_else(PoisonError::into_inner);
                }
                Outcome::Loaded(value) => return Some(value.clone()),
                Outcome::Failed => return None,
            }
        }
    }
}

/// The leader's part of a load. Dropping it ends the load, however it ends.
struct Lead<'a, K: Eq + Hash + Clone, V: Clone> {
    flights: &'a Flights<K, V>,
    key: &'a K,
    loaded: Option<V>,
}

impl<K: Eq + Hash + Clone, V: Clone> Drop for Lead<'_, K, V> {
    fn drop(&mut self) {
        self.flights.end(self.key, self.loaded.take());
    }
}

impl<K: Eq + Hash + Clone, V: Clone> Flights<K, V> {
    fn shard(&self, key: &K) -> &Mutex<UnderWay<K, V>> {
        &self.shards[self.hasher.hash_one(key) as usize % SHARDS]
    }

    /// Begins a load, which [`Self::end`] ends. False if one is in progress.
    pub(crate) fn begin(&self, key: &K) -> bool {
        match lock(self.shard(key)).entry(key.clone()) {
            Entry::Occupied(_) => false,
            Entry::Vacant(none) => {
                none.insert(None);
                true
            }
        }
    }

    /// Ends a load that the caller has begun. From here on no thread joins, and those that have joined get
    /// the outcome. Usually none has.
    pub(crate) fn end(&self, key: &K, loaded: Option<V>) {
        let flight = lock(self.shard(key)).remove(key).flatten();
        if let Some(flight) = flight {
            flight.end(loaded.map_or(Outcome::Failed, Outcome::Loaded));
        }
    }

    /// Waits for the load of the key that is in progress; `None` if none is, or if it fails. The caller
    /// leads no load.
    pub(crate) fn join(&self, key: &K) -> Option<V> {
        let flight = lock(self.shard(key)).get_mut(key)?.get_or_insert_with(Flight::new).clone();
        flight.wait()
    }

    /// The value of a key that was not in the cache. `find` looks in the cache, `publish` inserts a
    /// value there.
    pub(crate) fn load<E>(
        &self,
        key: &K,
        find: impl FnOnce() -> Option<V>,
        load: impl FnOnce() -> Result<V, E>,
        publish: impl FnOnce(&V),
    ) -> Result<V, E> {
        let joined = match lock(self.shard(key)).entry(key.clone()) {
            Entry::Occupied(mut flight) => Some(flight.get_mut().get_or_insert_with(Flight::new).clone()),
            Entry::Vacant(none) => {
                none.insert(None);
                None
            }
        };
        if let Some(flight) = joined {
            return match flight.wait() {
                Some(value) => Ok(value),
                None => load().inspect(publish),
            };
        }
        let mut lead = Lead { flights: self, key, loaded: None };
        let value = match find() {
            Some(value) => value,
            None => load().inspect(publish)?,
        };
        lead.loaded = Some(value.clone());
        Ok(value)
    }

    /// Keys that are being loaded.
    #[cfg(test)]
    pub(crate) fn under_way(&self) -> usize {
        self.shards.iter().map(|shard| lock(shard).len()).sum()
    }

    /// Threads that wait for the load of a key, which is in progress.
    #[cfg(test)]
    pub(crate) fn waiting(&self, key: &K) -> usize {
        let flight = self.shards.iter().find_map(|shard| lock(shard).get(key).cloned().flatten());
        // The map and this function hold a reference each.
        flight.map_or(0, |flight| Arc::strong_count(&flight).saturating_sub(2))
    }
}

impl<K, V> Default for Flights<K, V> {
    fn default() -> Self {
        Self {
            shards: std::array::from_fn(|_| Mutex::new(HashMap::default())),
            hasher: DefaultHashBuilder::default(),
        }
    }
}
