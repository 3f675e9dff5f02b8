//! Snapshots: the store at one moment.

use super::cursor::Cursor;
use super::handle::Handle;
use super::keyspace::KeyspaceInner;
use super::range::Range;
use crate::mvcc::{KeySpan, SnapshotGuard};
use crate::sync::Arc;
use crate::types::bounds::Bounds;
use crate::types::error::{Error, Result};
use crate::types::value::Value;
use bytes::Bytes;

/// A consistent view of the store as it was when the snapshot was taken (EvenDB §3.2). Cheap to
/// clone, and usable from any thread. While a snapshot is open, the store keeps the versions that
/// the snapshot sees, and no others for it. Reads fail as [`Db::get`](crate::Db::get) does.
#[derive(Clone)]
pub struct Snapshot {
    pub(super) handle: Arc<Handle>,
    pub(super) guard: SnapshotGuard,
}

/// A view that reads one keyspace at the moment of a snapshot: see [`Snapshot::keyspace`].
#[derive(Debug, Clone, Copy)]
pub struct SnapshotView<'a> {
    pub(super) snapshot: &'a Snapshot,
    pub(super) keyspace: &'a Arc<KeyspaceInner>,
}

impl Snapshot {
    /// Takes a snapshot for reads within `span`: waits only for writers of keys in it.
    pub(super) fn take(handle: &Arc<Handle>, span: KeySpan) -> Self {
        canary!(PENDING_WAIT_SKIPPED => let span = KeySpan::EMPTY);
        Self { handle: handle.clone(), guard: handle.store.substrate.mvcc.snapshot(span) }
    }

    /// Fails if the store is closed, or if the keyspace is dropped or another store's.
    pub(super) fn check(&self, keyspace: &KeyspaceInner) -> Result<()> {
        let store = &self.handle.store;
        store.check_open()?;
        if Arc::ptr_eq(&store.activity, &keyspace.activity) {
            self.check_still(keyspace)
        } else {
            Err(Error::InvalidArgument(format!("keyspace {:?} belongs to another store", keyspace.name)))
        }
    }

    /// The same for a keyspace that is known to be this store's.
    #[inline]
    pub(super) fn check_still(&self, keyspace: &KeyspaceInner) -> Result<()> {
        self.handle.store.check_open()?;
        keyspace.check_at(self.guard.version())
    }

    pub(super) fn range_of(&self, keyspace: &Arc<KeyspaceInner>, bounds: Bounds) -> Range {
        Range::new(self, keyspace, bounds)
    }

    pub(super) fn prefix_of(&self, keyspace: &Arc<KeyspaceInner>, prefix: &[u8]) -> Range {
        Range::with_prefix(self, keyspace, prefix)
    }

    pub(super) fn cursor_of(&self, keyspace: &Arc<KeyspaceInner>, bounds: Bounds) -> Cursor {
        Cursor::new(self, keyspace, bounds)
    }

    pub(super) fn read_with<T>(
        &self,
        keyspace: &Arc<KeyspaceInner>,
        key: &[u8],
        read: impl FnOnce(&[u8]) -> T,
    ) -> Result<Option<T>> {
        self.check(keyspace)?;
        self.handle.store.get_with(keyspace, key, self.guard.version(), read)
    }

    /// Calls `answer` with the number of each key and its value.
    pub(super) fn read_many(
        &self,
        keyspace: &Arc<KeyspaceInner>,
        keys: impl IntoIterator<Item = impl AsRef<[u8]>>,
        mut answer: impl FnMut(usize, Result<Option<Bytes>>),
    ) {
        match self.check(keyspace) {
            Ok(()) => self.handle.store.get_many(keyspace, keys, self.guard.version(), answer),
            Err(error) => (0..keys.into_iter().count()).for_each(|number| answer(number, Err(error.clone()))),
        }
    }

    pub(super) fn read(&self, keyspace: &Arc<KeyspaceInner>, key: &[u8]) -> Result<Option<Value>> {
        self.check(keyspace)?;
        Ok(self.handle.store.get(keyspace, key, self.guard.version())?.map(Value::new))
    }
}

impl std::fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Snapshot").field("version", &self.guard.version()).finish_non_exhaustive()
    }
}
