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

/// The longest metadata of a keyspace ([`Keyspace::set_metadata`]), in bytes: 64 KiB.
pub const METADATA_BYTES_MAX: usize = 64 << 10;

pub(crate) struct KeyspaceInner {
    pub(super) id: u32,
    pub(super) name: String,
    pub(super) order: KeyOrder,
    pub(crate) layout: Arc<dyn Layout>,
    pub(super) kind: LayoutKind,
    pub(super) metadata: Mutex<Vec<u8>>,
    /// The version at which it was dropped, or 0.
    pub(super) dropped_at: AtomicU64,
    /// Whether a checkpoint covers its creation.
    pub(super) is_durable: AtomicBool,
    /// Whether it is among those that maintenance looks at in each tick.
    pub(super) active: AtomicBool,
    /// Held while a pair is popped.
    pub(super) pops: Mutex<()>,
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

    /// Whether a snapshot of version `at` sees the keyspace.
    pub(super) fn check_at(&self, at: u64) -> Result<()> {
        // Every access comes by here.
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

    /// The next access makes it active again.
    pub(super) fn set_idle(&self) {
        self.active.store(false, Release);
    }

    /// Has a checkpoint cover the keyspace's creation: its name and comparator are durable before it is handed out.
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

    /// The keys from one bound to another as a span that writers announce.
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

/// A handle to a keyspace: the same operations as [`Db`](crate::Db), on its pairs. Cheap to clone, usable from
/// any thread.
///
/// After [`drop_keyspace`](crate::Db::drop_keyspace) every operation gives [`Error::NoKeyspace`], but snapshots
/// taken before go on reading.
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

    /// Its name.
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// Its counters and sizes. Takes microseconds.
    pub fn stats(&self) -> KeyspaceStats {
        self.inner.stats()
    }

    /// Bytes of the application's own that are kept with the keyspace (the command keeps the names and types of
    /// key columns there). Empty until set.
    pub fn metadata(&self) -> Vec<u8> {
        self.inner.metadata.lock().clone()
    }

    /// Replaces the metadata; at most 64 KiB. Durable when this returns, and what was written before it is durable before it. If a
    /// checkpoint that makes it so fails, the error is returned, and the metadata may be replaced.
    pub fn set_metadata(&self, bytes: &[u8]) -> Result<()> {
        if bytes.len() > METADATA_BYTES_MAX {
            return Err(Error::InvalidArgument(format!("metadata of {} bytes exceeds 64 KiB", bytes.len())));
        }
        let store = &self.handle.store;
        let _call = store.begin_call()?;
        store.check_writable()?;
        // Else a checkpoint that has begun could take it up without what was written meanwhile.
        store.substrate.checkpoint()?;
        // Until the edit is told: one that followed the keyspace's drop would bring it back, without chunks.
        let keyspaces = store.keyspaces.read();
        self.inner.check()?;
        let mut metadata = self.inner.metadata.lock();
        store.substrate.manifest.append(&[Edit::Keyspace(self.inner.edit(bytes.to_vec()))])?;
        *metadata = bytes.to_vec();
        drop(metadata);
        drop(keyspaces);
        store.substrate.checkpoint()
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
