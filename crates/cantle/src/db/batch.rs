//! Several operations that take effect together.

use super::keyspace::{Keyspace, KeyspaceInner};
use crate::bounds::{Bounds, KeyRange};
use crate::entry::Kind;
use crate::layout::Op;
use crate::sync::Arc;
use bytes::Bytes;

/// Operations to be applied by [`Db::write`](crate::Db::write) as one: all or nothing, in their order.
#[derive(Clone, Default)]
pub struct WriteBatch {
    /// `None` is the store's default keyspace.
    pub(super) ops: Vec<(Option<Arc<KeyspaceInner>>, Op)>,
}

impl WriteBatch {
    /// An empty batch.
    pub fn new() -> Self {
        Self::default()
    }

    /// Stores a pair in the default keyspace.
    pub fn put(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> &mut Self {
        self.push(None, Kind::Put, key.as_ref(), value.as_ref())
    }

    /// Removes a key from the default keyspace.
    pub fn delete(&mut self, key: impl AsRef<[u8]>) -> &mut Self {
        self.push(None, Kind::Delete, key.as_ref(), &[])
    }

    /// Removes every key of the range from the default keyspace.
    pub fn delete_range(&mut self, range: impl KeyRange) -> &mut Self {
        self.push_range(None, Bounds::of(&range))
    }

    /// Stores a pair in a keyspace.
    pub fn put_in(
        &mut self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> &mut Self {
        self.push(Some(keyspace), Kind::Put, key.as_ref(), value.as_ref())
    }

    /// Removes a key from a keyspace.
    pub fn delete_in(&mut self, keyspace: &Keyspace, key: impl AsRef<[u8]>) -> &mut Self {
        self.push(Some(keyspace), Kind::Delete, key.as_ref(), &[])
    }

    /// Removes every key of the range from a keyspace.
    pub fn delete_range_in(&mut self, keyspace: &Keyspace, range: impl KeyRange) -> &mut Self {
        self.push_range(Some(keyspace), Bounds::of(&range))
    }

    /// How many operations it holds.
    pub fn len(&self) -> usize {
        self.ops.len()
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.ops.is_empty()
    }

    /// Removes all operations.
    pub fn clear(&mut self) {
        self.ops.clear();
    }

    fn push(&mut self, keyspace: Option<&Keyspace>, kind: Kind, key: &[u8], value: &[u8]) -> &mut Self {
        let op =
            Op { kind, key: Bytes::copy_from_slice(key), value: Bytes::copy_from_slice(value), bounds: None };
        self.ops.push((keyspace.map(|keyspace| keyspace.inner.clone()), op));
        self
    }

    fn push_range(&mut self, keyspace: Option<&Keyspace>, bounds: Bounds) -> &mut Self {
        self.ops.push((keyspace.map(|keyspace| keyspace.inner.clone()), range_op(bounds)));
        self
    }
}

/// A range delete as an operation.
pub(super) fn range_op(bounds: Bounds) -> Op {
    Op { kind: Kind::DeleteRange, key: Bytes::new(), value: Bytes::new(), bounds: Some(bounds) }
}

impl std::fmt::Debug for WriteBatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WriteBatch").field("operations", &self.ops.len()).finish()
    }
}
