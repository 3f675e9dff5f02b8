//! The store at one moment.

use super::cursor::Cursor;
use super::handle::Handle;
use super::keyspace::{Keyspace, KeyspaceInner};
use super::range::Range;
use crate::mvcc::{KeySpan, SnapshotGuard};
use crate::sync::Arc;
use crate::types::bounds::{Bounds, KeyRange};
use crate::types::error::{Error, Result};
use crate::types::value::Value;

/// The store as it was when the snapshot was taken (EvenDB §3.2). Cheap to clone; usable from any thread. While it
/// lives, the versions that it sees are kept, and no others on its account. Reads fail as [`Db::get`](crate::Db::get)
/// does.
#[derive(Clone)]
pub struct Snapshot {
    pub(super) handle: Arc<Handle>,
    pub(super) guard: SnapshotGuard,
}

impl Snapshot {
    /// Waits only for writers of keys in `span`.
    pub(super) fn take(handle: &Arc<Handle>, span: KeySpan) -> Self {
        canary!(PENDING_WAIT_SKIPPED => let span = KeySpan::EMPTY);
        Self { handle: handle.clone(), guard: handle.store.substrate.mvcc.snapshot(span) }
    }

    fn own(&self) -> &Arc<KeyspaceInner> {
        &self.handle.store.default
    }

    /// The key's value at that moment.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Value>> {
        self.read(self.own(), key.as_ref())
    }

    /// The key's value in a keyspace.
    pub fn get_in(&self, keyspace: &Keyspace, key: impl AsRef<[u8]>) -> Result<Option<Value>> {
        self.read(&keyspace.inner, key.as_ref())
    }

    /// Lends the key's value to `read` without copying it.
    pub fn get_with<T>(&self, key: impl AsRef<[u8]>, read: impl FnOnce(&[u8]) -> T) -> Result<Option<T>> {
        self.read_with(self.own(), key.as_ref(), read)
    }

    /// Lends the key's value in a keyspace to `read` without copying it.
    pub fn get_with_in<T>(
        &self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
        read: impl FnOnce(&[u8]) -> T,
    ) -> Result<Option<T>> {
        self.read_with(&keyspace.inner, key.as_ref(), read)
    }

    /// Whether the key had a value.
    pub fn contains_key(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        Ok(self.get_with(key, |_| ())?.is_some())
    }

    /// Whether the key had a value in a keyspace.
    pub fn contains_key_in(&self, keyspace: &Keyspace, key: impl AsRef<[u8]>) -> Result<bool> {
        Ok(self.get_with_in(keyspace, key, |_| ())?.is_some())
    }

    /// The pairs of the range, in order.
    pub fn range(&self, range: impl KeyRange) -> Range {
        Range::new(self, self.own(), Bounds::of(&range))
    }

    /// The pairs of the range in a keyspace, in order.
    pub fn range_in(&self, keyspace: &Keyspace, range: impl KeyRange) -> Range {
        Range::new(self, &keyspace.inner, Bounds::of(&range))
    }

    /// The pairs whose keys start with `prefix`, in order. Under a comparator every pair is looked at.
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Range {
        Range::with_prefix(self, self.own(), prefix.as_ref())
    }

    /// The pairs of a keyspace whose keys start with `prefix`, in order.
    pub fn prefix_in(&self, keyspace: &Keyspace, prefix: impl AsRef<[u8]>) -> Range {
        Range::with_prefix(self, &keyspace.inner, prefix.as_ref())
    }

    /// A cursor over the range.
    pub fn cursor(&self, range: impl KeyRange) -> Cursor {
        Cursor::new(self, self.own(), Bounds::of(&range))
    }

    /// A cursor over the range in a keyspace.
    pub fn cursor_in(&self, keyspace: &Keyspace, range: impl KeyRange) -> Cursor {
        Cursor::new(self, &keyspace.inner, Bounds::of(&range))
    }

    /// Whether the keyspace may be read at this snapshot: the store is open, and it is this store's.
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

    fn read_with<T>(
        &self,
        keyspace: &Arc<KeyspaceInner>,
        key: &[u8],
        read: impl FnOnce(&[u8]) -> T,
    ) -> Result<Option<T>> {
        self.check(keyspace)?;
        self.handle.store.get_with(keyspace, key, self.guard.version(), read)
    }

    fn read(&self, keyspace: &Arc<KeyspaceInner>, key: &[u8]) -> Result<Option<Value>> {
        self.check(keyspace)?;
        Ok(self.handle.store.get(keyspace, key, self.guard.version())?.map(Value::new))
    }
}

impl std::fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Snapshot").field("version", &self.guard.version()).finish_non_exhaustive()
    }
}
