//! The row cache: popular single pairs of chunks that are not in memory (EvenDB §4).
//!
//! The paper keeps rows in a queue of hash tables. Here a scan-resistant cache holds them, and whether a row is
//! current does not depend on its being updated: a put marks its key's *stripe*, one of many counters, and
//! a row counts only while its stripe stands where it stood when the row was read.
//!
//! ```text
//!   get, not cached            put                        get, cached
//!   ───────────────            ───                        ───────────
//!   stamp = stripe             enter the stripe           row = lookup
//!   read the files             show the entry             stamp == stripe, nobody in it?
//!   insert (stamp, value)      leave it: stripe + 1         then it is the newest value
//!                              cached? then stamp = stripe,
//!                                replace (stamp, value)
//! ```
//!
//! *Why a row is never stale.* Let a put have shown its entry. A row of an older value was read, at least in part,
//! before that, so its stamp was taken before the put left the stripe: from then on it does not count. Between
//! entering and leaving no row of the stripe counts, so nobody reads an old row after somebody else has read the
//! new entry. Range deletes and dropped chunks mark the whole keyspace in the same way.
//!
//! *Why a put may replace the row.* It holds the lock of the key's chunk until it has: its value is the newest when it
//! takes the stamp, and whoever writes the key after it enters the stripe. As in the paper, a put makes no row of what
//! nobody has read.
//!
//! Thread safety: all methods may be called from any thread; puts and gets wait for nobody here but a cache
//! shard's lock.

use crate::sync::Arc;
use crate::sync::atomic::AtomicU64;
use crate::sync::atomic::Ordering::{AcqRel, SeqCst};
use crate::sync::counter::Counter;
use bytes::Bytes;
use quick_cache::sync::Cache;
use quick_cache::{Equivalent, Weighter};
use std::fmt;
use std::hash::{Hash, Hasher};

/// Two keys that share a stripe cost one another a miss at each put: there are more stripes than rows, as long as
/// rows have not grown to many times their first share. One for so many bytes of it; 256 KiB to 8 MiB.
const STRIPE_ROW_BYTES: u64 = 128;
const STRIPES_MIN: u64 = 32 << 10;
const STRIPES_MAX: u64 = 1 << 20;
/// What the cache keeps for a row beside its bytes: two handles with their allocations, stamps, links, hash slot.
const ROW_OVERHEAD_BYTES: u64 = 224;
/// A row takes at most this fraction of the capacity.
const ROW_FRACTION: u64 = 64;
/// Expected bytes of a row.
const ROW_BYTES: u64 = 1 << 10;

/// How often something was changed, and in the upper bits by how many at this moment.
#[derive(Debug, Default)]
pub(crate) struct Stripe(AtomicU64);

const WRITER: u64 = 1 << 48;

impl Stripe {
    /// Before a change shows.
    pub(crate) fn enter(&self) {
        self.0.fetch_add(WRITER, AcqRel);
    }

    /// Once it shows.
    pub(crate) fn leave(&self) {
        self.0.fetch_sub(WRITER - 1, AcqRel);
    }

    /// `None` while somebody changes it.
    fn stamp(&self) -> Option<u64> {
        let stamp = self.0.load(SeqCst);
        (stamp < WRITER).then_some(stamp)
    }
}

/// Which moment a row is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stamp {
    stripe: u64,
    keyspace: u64,
}

#[derive(Clone)]
struct Row {
    stamp: Stamp,
    value: Bytes,
}

struct RowKey {
    owner: u64,
    key: Box<[u8]>,
}

/// A key to look up.
struct Probe<'a> {
    owner: u64,
    key: &'a [u8],
}

impl Hash for RowKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        Probe { owner: self.owner, key: &self.key }.hash(state);
    }
}

impl Hash for Probe<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.owner);
        state.write(self.key);
    }
}

impl PartialEq for RowKey {
    fn eq(&self, other: &Self) -> bool {
        self.owner == other.owner && self.key == other.key
    }
}

impl Eq for RowKey {}

impl Equivalent<RowKey> for Probe<'_> {
    fn equivalent(&self, other: &RowKey) -> bool {
        self.owner == other.owner && *self.key == *other.key
    }
}

#[derive(Clone)]
struct Weigher;

impl Weighter<RowKey, Row> for Weigher {
    fn weight(&self, key: &RowKey, row: &Row) -> u64 {
        row_bytes(&key.key, &row.value)
    }
}

fn row_bytes(key: &[u8], value: &[u8]) -> u64 {
    (key.len() + value.len()) as u64 + ROW_OVERHEAD_BYTES
}

/// Rows of every keyspace of every store that shares a memory budget.
pub(crate) struct RowCache {
    cache: Cache<RowKey, Row, Weigher>,
    stripes: Box<[Stripe]>,
    owners: AtomicU64,
    pub(crate) hits: Counter,
    pub(crate) misses: Counter,
}

impl RowCache {
    /// A cache of at most this many bytes. 0 caches nothing.
    pub(crate) fn new(capacity_bytes: u64) -> Self {
        // A power of two, as both bounds are.
        let stripes = (capacity_bytes / STRIPE_ROW_BYTES).clamp(STRIPES_MIN, STRIPES_MAX).next_power_of_two();
        let rows = usize::try_from(capacity_bytes / ROW_BYTES).unwrap_or(usize::MAX).max(1024);
        Self {
            cache: Cache::with_weighter(rows, capacity_bytes, Weigher),
            stripes: (0..stripes).map(|_| Stripe::default()).collect(),
            owners: AtomicU64::new(1),
            hits: Counter::default(),
            misses: Counter::default(),
        }
    }

    pub(crate) fn capacity_bytes(&self) -> u64 {
        self.cache.capacity()
    }

    /// Takes effect with the next insertions.
    pub(crate) fn set_capacity_bytes(&self, bytes: u64) {
        self.cache.set_capacity(bytes);
    }

    /// Memory that rows take.
    pub(crate) fn used_bytes(&self) -> u64 {
        self.cache.weight()
    }
}

impl fmt::Debug for RowCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RowCache").field("used_bytes", &self.used_bytes()).finish_non_exhaustive()
    }
}

/// The rows of one keyspace.
#[derive(Debug)]
pub(crate) struct Rows {
    shared: Arc<RowCache>,
    owner: u64,
    /// Marked by what concerns many keys.
    keyspace: Stripe,
}

impl Rows {
    pub(crate) fn new(shared: Arc<RowCache>) -> Self {
        let owner = shared.owners.fetch_add(1, AcqRel);
        Self { shared, owner, keyspace: Stripe::default() }
    }

    fn stripe(&self, hash: u64) -> &Stripe {
        // The hash is the filters'; its lower bits choose a place there.
        let stripes = &self.shared.stripes;
        &stripes[((hash >> 40) ^ self.owner.wrapping_mul(0x9e37)) as usize & (stripes.len() - 1)]
    }

    /// The counters to enter before a put of a key with this hash shows, and to leave when it does.
    pub(crate) fn of_key(&self, hash: u64) -> &Stripe {
        self.stripe(hash)
    }

    /// The same for what changes many keys.
    pub(crate) fn of_all(&self) -> &Stripe {
        &self.keyspace
    }

    /// To be asked for before the files are read; `None` if what they say may be old already.
    pub(crate) fn stamp(&self, hash: u64) -> Option<Stamp> {
        Some(Stamp { stripe: self.stripe(hash).stamp()?, keyspace: self.keyspace.stamp()? })
    }

    /// The newest value of `key`, if it is cached.
    pub(crate) fn get(&self, key: &[u8], hash: u64) -> Option<Bytes> {
        let row = self.shared.cache.get(&Probe { owner: self.owner, key });
        let value = row.filter(|row| self.stamp(hash) == Some(row.stamp)).map(|row| row.value);
        let counter = if value.is_some() { &self.shared.hits } else { &self.shared.misses };
        counter.add(1);
        value
    }

    /// For who has put `key` to `value`, has left its stripe, and still holds the lock of its chunk: if the key is
    /// cached, its row goes on with the new value. Not for a write that deletes ranges too: which of them comes last
    /// is not known here.
    pub(crate) fn update(&self, key: &[u8], hash: u64, value: &[u8]) {
        if !self.shared.cache.contains_key(&Probe { owner: self.owner, key }) {
            return;
        }
        let Some(stamp) = self.stamp(hash) else { return };
        if row_bytes(key, value) <= self.shared.capacity_bytes() / ROW_FRACTION {
            let row = Row { stamp, value: Bytes::copy_from_slice(value) };
            // Popular is what is read, so being written counts for nothing; gone meanwhile is gone.
            let _ = self.shared.cache.replace(RowKey { owner: self.owner, key: key.into() }, row, true);
        }
    }

    /// Caches what the files said of `key` after `stamp` was taken.
    pub(crate) fn insert(&self, key: &[u8], stamp: Stamp, value: &[u8]) {
        if row_bytes(key, value) <= self.shared.capacity_bytes() / ROW_FRACTION {
            // A copy: the value may be a slice of a block.
            let row = Row { stamp, value: Bytes::copy_from_slice(value) };
            self.shared.cache.insert(RowKey { owner: self.owner, key: key.into() }, row);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::bloom::hash;

    fn rows() -> Rows {
        Rows::new(Arc::new(RowCache::new(1 << 20)))
    }

    fn fill(rows: &Rows, key: &[u8], value: &[u8]) {
        if let Some(stamp) = rows.stamp(hash(key)) {
            rows.insert(key, stamp, value);
        }
    }

    #[test]
    fn a_put_outdates_its_row_and_a_fill_that_began_before_it() {
        let rows = rows();
        fill(&rows, b"a", b"old");
        assert_eq!(rows.get(b"a", hash(b"a")).as_deref(), Some(&b"old"[..]));
        let began_before = rows.stamp(hash(b"a")).unwrap();
        rows.of_key(hash(b"a")).enter();
        assert!(rows.get(b"a", hash(b"a")).is_none() && rows.stamp(hash(b"a")).is_none());
        rows.of_key(hash(b"a")).leave();
        rows.insert(b"a", began_before, b"old");
        assert!(rows.get(b"a", hash(b"a")).is_none(), "a fill that began before the put hides it");
        fill(&rows, b"a", b"new");
        assert_eq!(rows.get(b"a", hash(b"a")).as_deref(), Some(&b"new"[..]));
    }

    #[test]
    fn a_put_updates_the_row_that_is_there_and_makes_none() {
        let rows = rows();
        let put = |value: &[u8]| {
            rows.of_key(hash(b"a")).enter();
            rows.of_key(hash(b"a")).leave();
            rows.update(b"a", hash(b"a"), value);
        };
        put(b"not read");
        assert!(rows.get(b"a", hash(b"a")).is_none() && rows.shared.used_bytes() == 0);
        fill(&rows, b"a", b"old");
        put(b"new");
        assert_eq!(rows.get(b"a", hash(b"a")).as_deref(), Some(&b"new"[..]));
        // Of another key in the same stripe somebody is writing: what he leaves may be newer.
        rows.of_key(hash(b"a")).enter();
        rows.update(b"a", hash(b"a"), b"newer");
        assert!(rows.get(b"a", hash(b"a")).is_none());
        rows.of_key(hash(b"a")).leave();
        assert!(rows.get(b"a", hash(b"a")).is_none(), "the row was outdated");
        put(&[0; 20_000]);
        assert!(
            rows.get(b"a", hash(b"a")).is_none(),
            "what is too long for a row leaves the old one outdated"
        );
    }

    #[test]
    fn a_range_delete_outdates_all_rows_of_its_keyspace_only() {
        let shared = Arc::new(RowCache::new(1 << 20));
        let (one, two) = (Rows::new(shared.clone()), Rows::new(shared));
        fill(&one, b"a", b"1");
        fill(&two, b"a", b"2");
        one.of_all().enter();
        one.of_all().leave();
        assert!(one.get(b"a", hash(b"a")).is_none());
        assert_eq!(two.get(b"a", hash(b"a")).as_deref(), Some(&b"2"[..]));
    }

    #[test]
    fn there_are_more_stripes_than_rows() {
        for (capacity_bytes, stripes) in [(0, 32 << 10), (24 << 20, 256 << 10), (1 << 40, 1 << 20)] {
            let cache = Arc::new(RowCache::new(capacity_bytes));
            assert_eq!(cache.stripes.len(), stripes);
            let rows = Rows::new(cache);
            rows.of_key(u64::MAX).enter();
            assert!(rows.stamp(u64::MAX).is_none() && rows.stamp(0).is_some());
        }
    }

    #[test]
    fn puts_of_several_threads_in_one_stripe_are_waited_for() {
        let rows = rows();
        let stripe = rows.of_key(hash(b"a"));
        stripe.enter();
        stripe.enter();
        stripe.leave();
        assert!(rows.stamp(hash(b"a")).is_none(), "one of them is at it");
        stripe.leave();
        assert!(rows.stamp(hash(b"a")).is_some());
    }

    #[test]
    fn the_capacity_bounds_what_is_kept_and_can_be_moved() {
        let rows = rows();
        for n in 0..10_000u32 {
            fill(&rows, &n.to_be_bytes(), &[7; 500]);
        }
        let used_bytes = rows.shared.used_bytes();
        assert!(used_bytes <= 1 << 20 && used_bytes > 800 << 10, "{used_bytes}");
        rows.shared.set_capacity_bytes(256 << 10);
        fill(&rows, b"one more", b"row");
        assert!(rows.shared.used_bytes() <= 256 << 10, "{}", rows.shared.used_bytes());
    }
}
