//! A movable position in a range.

use super::keyspace::KeyspaceInner;
use super::snapshot::Snapshot;
use super::transaction::View;
use crate::layout::PairCursor;
use crate::sync::Arc;
use crate::types::bounds::Bounds;
use crate::types::error::Result;

/// A position among the pairs of a range, as of one snapshot. It may change its direction at any
/// time. Each movement returns true if there is a pair under the cursor afterwards. Movements fail
/// as [`Db::get`](crate::Db::get) does; after an error there is no pair under the cursor.
///
/// A cursor may stay open for hours: rebalances continue, and the store keeps only the versions
/// that the cursor sees.
pub struct Cursor {
    inner: Box<dyn PairCursor>,
    snapshot: Snapshot,
    keyspace: Arc<KeyspaceInner>,
    is_ours: bool,
}

impl Cursor {
    pub(super) fn new(snapshot: &Snapshot, keyspace: &Arc<KeyspaceInner>, bounds: Bounds) -> Self {
        let inner = keyspace.layout.clone().cursor(bounds, snapshot.guard.clone());
        Self { inner, snapshot: snapshot.clone(), keyspace: keyspace.clone(), is_ours: false }
    }

    /// A cursor over the pairs that a transaction sees.
    pub(super) fn within(
        snapshot: &Snapshot,
        keyspace: &Arc<KeyspaceInner>,
        bounds: Bounds,
        transaction: &View,
    ) -> Self {
        let cursor = Self::new(snapshot, keyspace, bounds.clone());
        let inner = transaction.cursor(cursor.inner, keyspace, bounds);
        Self { inner, ..cursor }
    }

    /// Moves to the first pair at or after `key`.
    pub fn seek(&mut self, key: impl AsRef<[u8]>) -> Result<bool> {
        self.check()?;
        let found = self.inner.seek(key.as_ref());
        self.keyspace.order.check().and(found)
    }

    /// Moves to the first pair.
    pub fn seek_to_first(&mut self) -> Result<bool> {
        self.check()?;
        let found = self.inner.seek_to_first();
        self.keyspace.order.check().and(found)
    }

    /// Moves to the last pair.
    pub fn seek_to_last(&mut self) -> Result<bool> {
        self.check()?;
        let found = self.inner.seek_to_last();
        self.keyspace.order.check().and(found)
    }

    /// Moves to the next pair. A cursor without a current pair (a new one, or one past an end) does
    /// not move, and returns false.
    #[expect(clippy::should_implement_trait, reason = "a cursor lends its pair, which an iterator cannot")]
    pub fn next(&mut self) -> Result<bool> {
        self.check()?;
        let found = self.inner.next();
        self.keyspace.order.check().and(found)
    }

    /// Moves to the previous pair. A cursor without a current pair (a new one, or one past an end)
    /// does not move, and returns false.
    pub fn prev(&mut self) -> Result<bool> {
        self.check()?;
        let found = self.inner.prev();
        self.keyspace.order.check().and(found)
    }

    /// The key under the cursor; `None` if there is no pair.
    pub fn key(&self) -> Option<&[u8]> {
        self.pair().map(|(key, _)| key)
    }

    /// The value under the cursor; `None` if there is no pair.
    pub fn value(&self) -> Option<&[u8]> {
        self.pair().map(|(_, value)| value)
    }

    /// The key and the value under the cursor. One call costs less than one for each.
    #[inline]
    pub fn pair(&self) -> Option<(&[u8], &[u8])> {
        self.inner.pair().filter(|_| self.keyspace.order.check().is_ok())
    }

    /// Fails if the store is closed, or if the keyspace was dropped or belongs to another store.
    /// The last is checked only once.
    #[inline]
    fn check(&mut self) -> Result<()> {
        if !self.is_ours {
            self.snapshot.check(&self.keyspace)?;
            self.is_ours = true;
        }
        self.snapshot.check_still(&self.keyspace)
    }
}

impl std::fmt::Debug for Cursor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cursor").field("key", &self.key()).finish_non_exhaustive()
    }
}
