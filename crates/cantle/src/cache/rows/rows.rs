//! The rows of keyspaces, the stripes that outdate them, and the shards that hold them.

use super::segment::LentRow;
use super::shard::{Probe, Shard};
use crate::sync::atomic::Ordering::{AcqRel, Relaxed, SeqCst};
use crate::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};
use crate::sync::counter::Counter;
use crate::sync::{Arc, Mutex};
use bytes::Bytes;
use crossbeam_utils::CachePadded;
use std::fmt;
use std::ops::Deref;

/// Bytes of capacity for each stripe, and bounds of the number of stripes, which take 256 KiB to 8
/// MiB. Two keys that share a stripe cost each other a miss at each put, so there are more stripes
/// than rows, unless rows have grown to many times their first share.
const STRIPE_ROW_BYTES: u64 = 128;
const STRIPES_MIN: u64 = 32 << 10;
const STRIPES_MAX: u64 = 1 << 20;
/// Bytes of capacity for each shard, and maximum number of shards, each of which has a lock: more
/// than 64 no longer reduce contention.
const SHARD_BYTES: u64 = 1 << 20;
const SHARDS_MAX: u64 = 64;
/// Number of segments that a shard begins with, about: one segment, which is evicted at once, is a
/// small part of it.
const SHARD_SEGMENTS: u64 = 64;
/// Bounds of a segment's length in bytes: a few pages at least, and short enough that a shard's
/// lock is not held for long while a segment is walked.
const SEGMENT_BYTES_MIN: u64 = 16 << 10;
const SEGMENT_BYTES_MAX: u64 = 256 << 10;

/// Number of changes of a key or keyspace; the upper bits are the number of changes in progress.
#[derive(Debug, Default)]
pub(crate) struct Stripe(AtomicU64);

const WRITER: u64 = 1 << 48;

impl Stripe {
    /// Called before a change is visible.
    pub(crate) fn enter(&self) {
        self.0.fetch_add(WRITER, AcqRel);
    }

    /// Called once the change is visible.
    pub(crate) fn leave(&self) {
        self.0.fetch_sub(WRITER - 1, AcqRel);
    }

    /// `None` while a change is in progress.
    fn stamp(&self) -> Option<u64> {
        let stamp = self.0.load(SeqCst);
        (stamp < WRITER).then_some(stamp)
    }
}

/// The moment at which a row was read: the sum of its key's stripe and its keyspace's. Both only
/// grow, so a later sum is equal only if both are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stamp(u64);

/// Rows of every keyspace of every store that shares a memory budget.
pub(crate) struct RowCache {
    pub(super) shards: Box<[CachePadded<Mutex<Shard>>]>,
    capacity_bytes: AtomicU64,
    /// Bytes of segments and indexes, including segments that are freed but still read.
    used_bytes: Arc<AtomicU64>,
    pub(super) stripes: Box<[Stripe]>,
    owners: AtomicU32,
    pub(crate) hits: Counter,
    pub(crate) misses: Counter,
}

impl RowCache {
    /// A cache of at most `capacity_bytes`. With 0 it caches nothing.
    pub(crate) fn new(capacity_bytes: u64) -> Self {
        let stripes = (capacity_bytes / STRIPE_ROW_BYTES).clamp(STRIPES_MIN, STRIPES_MAX);
        Self::with_stripes(capacity_bytes, stripes)
    }

    /// The same with at least this many stripes.
    pub(crate) fn with_stripes(capacity_bytes: u64, stripes: u64) -> Self {
        // A power of two, as the bounds are.
        let stripes = stripes.next_power_of_two();
        let shards = (capacity_bytes / SHARD_BYTES).clamp(1, SHARDS_MAX).next_power_of_two();
        let segment_bytes = (capacity_bytes / shards / SHARD_SEGMENTS)
            .clamp(SEGMENT_BYTES_MIN, SEGMENT_BYTES_MAX)
            .next_power_of_two() as usize;
        let used_bytes = Arc::new(AtomicU64::new(0));
        let shard = || Shard::new(segment_bytes, capacity_bytes / shards, used_bytes.clone());
        Self {
            shards: (0..shards).map(|_| CachePadded::new(Mutex::new(shard()))).collect(),
            capacity_bytes: AtomicU64::new(capacity_bytes),
            used_bytes,
            stripes: (0..stripes).map(|_| Stripe::default()).collect(),
            owners: AtomicU32::new(1),
            hits: Counter::default(),
            misses: Counter::default(),
        }
    }

    pub(crate) fn capacity_bytes(&self) -> u64 {
        self.capacity_bytes.load(Relaxed)
    }

    /// Changes the capacity; rows beyond it are evicted at once. For one caller at a time, or
    /// shards may differ.
    pub(crate) fn set_capacity_bytes(&self, bytes: u64) {
        if self.capacity_bytes.swap(bytes, Relaxed) != bytes {
            let shard_bytes = bytes / self.shards.len() as u64;
            self.shards.iter().for_each(|shard| shard.lock().set_limit_bytes(shard_bytes));
        }
    }

    /// Memory that rows take: mapped segments and the index.
    pub(crate) fn used_bytes(&self) -> u64 {
        self.used_bytes.load(Relaxed)
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
    pub(super) shared: Arc<RowCache>,
    owner: u32,
    /// False while the keyspace's `row_cache` is off.
    is_used: AtomicBool,
    /// True once a row was cached: before, puts have none to update.
    has_rows: AtomicBool,
    /// Marked by changes that concern many keys.
    keyspace: Stripe,
}

/// A value, and where it was found.
pub(crate) enum Row {
    Cached(LentRow),
    Read(Bytes),
}

impl Row {
    /// The value, copied if it is cached.
    pub(crate) fn into_bytes(self) -> Bytes {
        match self {
            Self::Cached(value) => Bytes::copy_from_slice(&value),
            Self::Read(value) => value,
        }
    }
}

impl Deref for Row {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        match self {
            Self::Cached(value) => value,
            Self::Read(value) => value,
        }
    }
}

impl Rows {
    pub(crate) fn new(shared: Arc<RowCache>) -> Self {
        let owner = shared.owners.fetch_add(1, AcqRel);
        let (is_used, has_rows) = (AtomicBool::new(true), AtomicBool::new(false));
        Self { shared, owner, is_used, has_rows, keyspace: Stripe::default() }
    }

    /// Sets whether gets look for rows. Changes outdate them in any case.
    pub(crate) fn set_used(&self, is_used: bool) {
        self.is_used.store(is_used, Relaxed);
    }

    /// The same at the beginning.
    pub(crate) fn used(self, is_used: bool) -> Self {
        self.set_used(is_used);
        self
    }

    /// The newest value of `key`: its row, or what `read` finds, which is cached then.
    pub(crate) fn get_or_read<E>(
        &self,
        key: &[u8],
        hash: u64,
        read: impl FnOnce() -> Result<Option<Bytes>, E>,
    ) -> Result<Option<Row>, E> {
        if !self.is_used.load(Relaxed) {
            return Ok(read()?.map(Row::Read));
        }
        if let Some(value) = self.get(key, hash) {
            return Ok(Some(Row::Cached(value)));
        }
        // Taken before anything is read: a later write outdates the row, wherever it goes.
        let stamp = self.stamp(hash);
        let value = read()?;
        if let (Some(stamp), Some(value)) = (stamp, &value) {
            self.insert(key, hash, stamp, value);
        }
        Ok(value.map(Row::Read))
    }

    fn stripe(&self, hash: u64) -> &Stripe {
        // The hash is the one used for filters, whose lower bits choose a place there.
        let stripes = &self.shared.stripes;
        &stripes[((hash >> 40) ^ u64::from(self.owner).wrapping_mul(0x9e37)) as usize & (stripes.len() - 1)]
    }

    /// The counter to enter before a put of a key with this hash is visible, and to leave once it
    /// is.
    pub(crate) fn of_key(&self, hash: u64) -> &Stripe {
        self.stripe(hash)
    }

    /// The counter for changes of many keys.
    pub(crate) fn of_all(&self) -> &Stripe {
        &self.keyspace
    }

    /// Taken before the files are read; `None` if their contents may be outdated already.
    pub(crate) fn stamp(&self, hash: u64) -> Option<Stamp> {
        Some(Stamp(self.stripe(hash).stamp()? + self.keyspace.stamp()?))
    }

    /// The key's shard, and the probe to look for there.
    fn shard<'a>(&self, key: &'a [u8], hash: u64) -> (&Mutex<Shard>, Probe<'a>) {
        let hash = hash ^ u64::from(self.owner).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let shards = &self.shared.shards;
        let probe = Probe { hash: (hash >> 16) as u32, owner: self.owner, key };
        (&shards[hash as usize & (shards.len() - 1)], probe)
    }

    /// The newest value of `key`, if it is cached.
    pub(crate) fn get(&self, key: &[u8], hash: u64) -> Option<LentRow> {
        let (shard, probe) = self.shard(key, hash);
        let row = shard.lock().get(probe);
        let value = row.filter(|(stamp, _)| self.stamp(hash) == Some(Stamp(*stamp))).map(|(_, value)| value);
        let counter = if value.is_some() { &self.shared.hits } else { &self.shared.misses };
        counter.add(1);
        value
    }

    /// Called by a writer that has put `key` to `value`, has left its stripe, and still holds the
    /// lock of its key: if the key is cached, its row gets the new value. Not for a write that
    /// also deletes ranges, because the order of its operations is not known here.
    pub(crate) fn update(&self, key: &[u8], hash: u64, value: &[u8]) {
        if !self.has_rows.load(Relaxed) {
            return;
        }
        let Some(stamp) = self.stamp(hash) else { return };
        let (shard, probe) = self.shard(key, hash);
        shard.lock().update(probe, stamp.0, value);
    }

    /// Caches the value of `key` that the files had after `stamp` was taken.
    pub(crate) fn insert(&self, key: &[u8], hash: u64, stamp: Stamp, value: &[u8]) {
        // A put that does not see this yet leaves an outdated row, as a put of another key of its stripe does.
        self.has_rows.store(true, Relaxed);
        let (shard, probe) = self.shard(key, hash);
        shard.lock().insert(probe, stamp.0, value);
    }
}
