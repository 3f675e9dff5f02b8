//! Several operations that take effect together.

use super::keyspace::{Keyspace, KeyspaceInner};
use crate::layout::Op;
use crate::sync::Arc;
use crate::types::bounds::{Bounds, KeyRange};
use crate::types::entry::Kind;
use crate::types::order::KeyOrder;
use bytes::Bytes;
use std::collections::HashSet;

/// Operations to be applied by [`Db::write`](crate::Db::write) as one: all or nothing, in their order.
///
/// A batch holds at most [`BATCH_BYTES_MAX`](crate::BATCH_BYTES_MAX) bytes, a little over 1 GiB: keys, values, bounds of range
/// deletes, and 32 bytes for each operation; of several operations on one key only the last counts. `Db::write` refuses
/// a longer one with [`InvalidArgument`](crate::Error::InvalidArgument) before anything is written: divide it.
#[derive(Clone, Default)]
pub struct WriteBatch {
    /// `None` is the store's default keyspace.
    pub(super) ops: Vec<(Option<Arc<KeyspaceInner>>, OwnedOp)>,
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

    /// Adds the operations of another batch, which stay there; keys and values are shared.
    pub fn append(&mut self, other: &Self) -> &mut Self {
        self.ops.extend_from_slice(&other.ops);
        self
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
        let (key, value) = (Bytes::copy_from_slice(key), Bytes::copy_from_slice(value));
        let op = OwnedOp { kind, key, value, bounds: None };
        self.ops.push((keyspace.map(|keyspace| keyspace.inner.clone()), op));
        self
    }

    fn push_range(&mut self, keyspace: Option<&Keyspace>, bounds: Bounds) -> &mut Self {
        self.ops.push((keyspace.map(|keyspace| keyspace.inner.clone()), OwnedOp::delete_range(bounds)));
        self
    }
}

/// An operation that waits to be written with others.
#[derive(Debug, Clone)]
pub(super) struct OwnedOp {
    pub(super) kind: Kind,
    pub(super) key: Bytes,
    pub(super) value: Bytes,
    /// Of a range delete.
    pub(super) bounds: Option<Bounds>,
}

impl OwnedOp {
    pub(super) fn delete_range(bounds: Bounds) -> Self {
        Self { kind: Kind::DeleteRange, key: Bytes::new(), value: Bytes::new(), bounds: Some(bounds) }
    }

    pub(super) fn lend(&self) -> Op<'_> {
        Op { kind: self.kind, key: &self.key, value: &self.value, bounds: self.bounds.as_ref() }
    }
}

/// Takes out operations on keys that a later one of the same keys overrides: whoever reads while a batch is being
/// committed may meet any entry of a key, so there must be only one.
pub(super) fn keep_last(order: &KeyOrder, ops: &mut Vec<OwnedOp>) {
    let mut points: Vec<usize> = (0..ops.len()).filter(|&op| ops[op].bounds.is_none()).collect();
    order.sort_by(&mut points, |&a, &b| order.compare(&ops[a].key, &ops[b].key).then(a.cmp(&b)));
    let overridden: HashSet<usize> = points
        .windows(2)
        .filter(|pair| order.compare(&ops[pair[0]].key, &ops[pair[1]].key).is_eq())
        .map(|pair| pair[0])
        .collect();
    if !overridden.is_empty() {
        let mut index = 0..;
        ops.retain(|_| index.next().is_none_or(|index| !overridden.contains(&index)));
    }
}

impl std::fmt::Debug for WriteBatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WriteBatch").field("operations", &self.ops.len()).finish()
    }
}
