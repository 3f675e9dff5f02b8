//! A named, ordered set of pairs within a store, with a layout of its own.

use super::activity::Activity;
use super::handle::Handle;
use crate::layout::Layout;
use crate::layout::kind::LayoutKind;
use crate::layout::stats::KeyspaceStats;
use crate::manifest::{Edit, KeyspaceEdit};
use crate::mvcc::KeySpan;
use crate::sync::atomic::{
    AtomicBool, AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};
use crate::sync::{Arc, Mutex};
use crate::types::error::{Error, Result};
use crate::types::order::KeyOrder;
use std::sync::Weak;

/// Maximum length of the metadata of a keyspace ([`Keyspace::set_metadata`]) in bytes: 64 KiB.
pub const METADATA_BYTES_MAX: usize = 64 << 10;

pub(crate) struct KeyspaceInner {
    pub(super) id: u32,
    pub(super) name: String,
    pub(super) order: KeyOrder,
    pub(crate) layout: Arc<dyn Layout>,
    pub(super) kind: LayoutKind,
    pub(super) metadata: Mutex<Vec<u8>>,
    /// The version at which the keyspace was dropped; 0 if it was not.
    pub(super) dropped_at: AtomicU64,
    /// True if a checkpoint covers the creation of the keyspace.
    pub(super) is_durable: AtomicBool,
    /// True if maintenance visits the keyspace in each tick.
    pub(super) active: AtomicBool,
    /// Each held while a pair is popped from that end.
    pub(super) pops: [Mutex<()>; 2],
    pub(super) activity: Arc<Activity>,
    pub(super) this: Weak<Self>,
}

impl KeyspaceInner {
    pub(super) fn stats(&self) -> KeyspaceStats {
        KeyspaceStats { name: self.name.clone(), ..self.layout.stats() }
    }

    pub(super) fn check(&self) -> Result<()> {
        self.check_at(u64::MAX)
    }

    /// Fails if the keyspace was dropped at version `at` or before, so that a snapshot of this
    /// version does not see it. Makes an idle keyspace active.
    pub(super) fn check_at(&self, at: u64) -> Result<()> {
        // Every access to the keyspace calls this.
        if !self.is_active() {
            self.wake();
        }
        let dropped_at = self.dropped_at.load(Acquire);
        if dropped_at > 0 && dropped_at <= at { Err(Error::NoKeyspace(self.name.clone())) } else { Ok(()) }
    }

    pub(super) fn is_active(&self) -> bool {
        self.active.load(Relaxed)
    }

    #[cold]
    fn wake(&self) {
        if !self.active.swap(true, AcqRel) {
            self.activity.add(self.this.clone());
        }
    }

    /// Makes the keyspace idle until the next access.
    pub(super) fn set_idle(&self) {
        self.active.store(false, Release);
    }

    /// Makes the creation of the keyspace durable by a checkpoint, unless it is: name and
    /// comparator must be durable before the caller gets the keyspace.
    pub(super) fn publish_creation(&self, substrate: &crate::substrate::Substrate) -> Result<()> {
        if !self.is_durable.load(Acquire) {
            substrate.checkpoint()?;
            self.is_durable.store(true, Release);
        }
        Ok(())
    }

    pub(super) fn mark_dropped(&self, version: u64) {
        self.dropped_at.store(version, Release);
    }

    pub(super) fn edit(&self, metadata: Vec<u8>) -> KeyspaceEdit {
        KeyspaceEdit {
            keyspace: self.id,
            name: self.name.clone(),
            layout: self.kind.code(),
            comparator: self.order.name().to_owned(),
            metadata,
        }
    }

    /// The keys within the bounds as a span, in the form that writers announce.
    pub(super) fn span(&self, bounds: &crate::types::bounds::Bounds) -> KeySpan {
        use std::ops::Bound;
        let prefix = |bound: &Bound<Vec<u8>>, open: u64| match bound {
            Bound::Unbounded => Some(open),
            Bound::Included(key) | Bound::Excluded(key) => self.order.prefix(key),
        };
        match (prefix(&bounds.start, 0), prefix(&bounds.end, u64::MAX)) {
            (Some(lo), Some(hi)) => KeySpan { lo, hi },
            _ => KeySpan::ALL,
        }
    }
}

/// A handle to a keyspace, with the same operations as [`Db`](crate::Db). Cheap to clone, and
/// usable from any thread.
///
/// After [`drop_keyspace`](crate::Db::drop_keyspace) every operation returns [`Error::NoKeyspace`].
/// Snapshots that were taken before can still read the keyspace.
#[derive(Clone)]
pub struct Keyspace {
    pub(super) handle: Arc<Handle>,
    pub(crate) inner: Arc<KeyspaceInner>,
}

impl Keyspace {
    /// The keyspace that the operations work on.
    pub(super) fn own(&self) -> &Arc<KeyspaceInner> {
        &self.inner
    }

    /// The name of the keyspace.
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// Counters and sizes of the keyspace. Takes microseconds.
    pub fn stats(&self) -> KeyspaceStats {
        self.inner.stats()
    }

    /// Bytes of the application that are stored with the keyspace. Empty until
    /// [`set_metadata`](Self::set_metadata) is called. (The command `cantle` stores the names and
    /// types of key columns there.)
    pub fn metadata(&self) -> Vec<u8> {
        self.inner.metadata.lock().clone()
    }

    /// Replaces the metadata, which has at most 64 KiB. The metadata is durable when this returns,
    /// and everything that was written before is durable before it. If one of the checkpoints for
    /// this fails, its error is returned, and the metadata may have been replaced.
    pub fn set_metadata(&self, bytes: &[u8]) -> Result<()> {
        self.replace_metadata(None, bytes).map(|_| ())
    }

    /// Replaces the metadata by `new` as [`set_metadata`](Self::set_metadata) does if the metadata is
    /// `expected`, atomically. Returns true if it was. Programs that change the metadata in several
    /// threads lose no change this way:
    ///
    /// ```
    /// # fn main() -> cantle::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = cantle::Db::open(dir.path().join("store"))?;
    /// let flights = db.keyspace("flights")?;
    /// loop {
    ///     let old = flights.metadata();
    ///     let new = [&old[..], b"delayed;"].concat();
    ///     if flights.compare_and_swap_metadata(&old, &new)? {
    ///         break;
    ///     }
    /// }
    /// assert_eq!(flights.metadata(), b"delayed;");
    /// # Ok(()) }
    /// ```
    pub fn compare_and_swap_metadata(&self, expected: &[u8], new: &[u8]) -> Result<bool> {
        self.replace_metadata(Some(expected), new)
    }

    /// Replaces the metadata, unless they are other than `expected`. Returns whether it did.
    fn replace_metadata(&self, expected: Option<&[u8]>, bytes: &[u8]) -> Result<bool> {
        if bytes.len() > METADATA_BYTES_MAX {
            return Err(Error::InvalidArgument(format!("metadata of {} bytes exceeds 64 KiB", bytes.len())));
        }
        let store = &self.handle.store;
        let _call = store.begin_call()?;
        store.check_writable()?;
        // Otherwise a checkpoint that has begun already could cover the edit below without the
        // writes made meanwhile.
        store.substrate.checkpoint()?;
        // Held until the edit is appended: an edit after the keyspace's drop would bring the
        // keyspace back, without chunks.
        let keyspaces = store.keyspaces.read();
        self.inner.check()?;
        let mut metadata = self.inner.metadata.lock();
        if expected.is_some_and(|expected| *metadata != expected) {
            return Ok(false);
        }
        store.substrate.manifest.append(&[Edit::Keyspace(self.inner.edit(bytes.to_vec()))])?;
        *metadata = bytes.to_vec();
        drop(metadata);
        drop(keyspaces);
        store.substrate.checkpoint().map(|()| true)
    }
}

impl std::fmt::Debug for KeyspaceInner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Keyspace").field("name", &self.name).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Keyspace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.inner.fmt(f)
    }
}
