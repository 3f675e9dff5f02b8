//! Several operations that take effect together.

use super::keyspace::{Keyspace, KeyspaceInner};
use crate::layout::Op;
use crate::sync::Arc;
use crate::types::bounds::{Bounds, KeyRange};
use crate::types::entry::Kind;
use crate::types::order::KeyOrder;
use bytes::Bytes;
use std::collections::HashSet;

/// A list of operations that [`Db::write`](crate::Db::write) applies atomically, in their order.
///
/// A batch holds at most [`BATCH_BYTES_MAX`](crate::BATCH_BYTES_MAX) bytes, a little over 1 GiB.
/// This includes keys, values, bounds of range deletes, and 32 bytes for each operation. If several
/// operations are on one key, only the last of them counts. `Db::write` refuses a longer batch with
/// [`InvalidArgument`](crate::Error::InvalidArgument) before anything is written: divide such a
/// batch.
///
/// The batch's own methods add operations on the keyspace named `default`.
/// [`keyspace`](Self::keyspace) returns a view that adds operations on another one:
///
/// ```
/// # fn main() -> cantle::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = cantle::Db::open(dir.path().join("store"))?;
/// let by_time = db.keyspace("by-time")?;
/// let mut batch = cantle::WriteBatch::new();
/// batch.put("ada/7", "hello").keyspace(&by_time).put("7/ada", "");
/// db.write(batch)?;
/// # assert!(by_time.contains_key("7/ada")?);
/// # Ok(()) }
/// ```
#[derive(Clone, Default)]
pub struct WriteBatch {
    /// The operations, each with its keyspace; `None` is the store's default keyspace.
    pub(super) ops: Vec<(Option<Arc<KeyspaceInner>>, OwnedOp)>,
}

impl WriteBatch {
    /// An empty batch.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns a view that adds operations on another keyspace to this batch.
    pub fn keyspace<'a>(&'a mut self, keyspace: &Keyspace) -> BatchView<'a> {
        BatchView { batch: self, keyspace: keyspace.inner.clone() }
    }

    /// Appends the operations of another batch, which keeps them. Keys and values are shared, not
    /// copied.
    pub fn append(&mut self, other: &Self) -> &mut Self {
        self.ops.extend_from_slice(&other.ops);
        self
    }

    /// Number of operations.
    pub fn len(&self) -> usize {
        self.ops.len()
    }

    /// True if there are no operations.
    pub fn is_empty(&self) -> bool {
        self.ops.is_empty()
    }

    /// Removes all operations.
    pub fn clear(&mut self) {
        self.ops.clear();
    }
}

/// A view of a batch that adds operations on one keyspace: see [`WriteBatch::keyspace`].
#[derive(Debug)]
pub struct BatchView<'a> {
    batch: &'a mut WriteBatch,
    keyspace: Arc<KeyspaceInner>,
}

impl BatchView<'_> {
    /// Returns a view that adds operations on another keyspace to the same batch.
    pub fn keyspace(&mut self, keyspace: &Keyspace) -> BatchView<'_> {
        self.batch.keyspace(keyspace)
    }
}

macro_rules! operations {
    ($type:ty, $keyspace:literal) => {
        impl $type {
            #[doc = concat!("Stores a pair in ", $keyspace, ".")]
            pub fn put(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> &mut Self {
                self.push(OwnedOp::new(Kind::Put, key.as_ref(), value.as_ref()))
            }

            #[doc = concat!("Removes a key from ", $keyspace, ".")]
            pub fn delete(&mut self, key: impl AsRef<[u8]>) -> &mut Self {
                self.push(OwnedOp::new(Kind::Delete, key.as_ref(), &[]))
            }

            #[doc = concat!("Removes every key of the range from ", $keyspace, ".")]
            pub fn delete_range(&mut self, range: impl KeyRange) -> &mut Self {
                self.push(OwnedOp::delete_range(Bounds::of(&range)))
            }
        }
    };
}

operations!(WriteBatch, "the default keyspace");
operations!(BatchView<'_>, "the keyspace");

impl WriteBatch {
    fn push(&mut self, op: OwnedOp) -> &mut Self {
        self.ops.push((None, op));
        self
    }
}

impl BatchView<'_> {
    fn push(&mut self, op: OwnedOp) -> &mut Self {
        self.batch.ops.push((Some(self.keyspace.clone()), op));
        self
    }
}

/// An operation that owns its key and its value until it is written.
#[derive(Debug, Clone)]
pub(super) struct OwnedOp {
    pub(super) kind: Kind,
    pub(super) key: Bytes,
    pub(super) value: Bytes,
    /// The range that a range delete deletes; `None` for other operations.
    pub(super) bounds: Option<Bounds>,
}

impl OwnedOp {
    fn new(kind: Kind, key: &[u8], value: &[u8]) -> Self {
        let (key, value) = (Bytes::copy_from_slice(key), Bytes::copy_from_slice(value));
        Self { kind, key, value, bounds: None }
    }

    pub(super) fn delete_range(bounds: Bounds) -> Self {
        Self { kind: Kind::DeleteRange, key: Bytes::new(), value: Bytes::new(), bounds: Some(bounds) }
    }

    pub(super) fn lend(&self) -> Op<'_> {
        Op { kind: self.kind, key: &self.key, value: &self.value, bounds: self.bounds.as_ref() }
    }
}

/// Removes puts and deletes of a key that a later operation of the batch on the same key overrides.
/// A read during the commit of the batch may meet any of the batch's entries of a key: there must
/// be only one.
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
