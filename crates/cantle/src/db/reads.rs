//! The reads that snapshots, transactions and their views share, written once.

use super::cursor::Cursor;
use super::keyspace::{Keyspace, KeyspaceInner};
use super::range::Range;
use super::read::in_order;
use super::snapshot::{Snapshot, SnapshotView};
use super::transaction::{Transaction, TransactionView};
use crate::sync::Arc;
use crate::types::bounds::{Bounds, KeyRange};
use crate::types::error::{Error, Result};
use crate::types::value::{Key, Value};

/// `$seen` describes the state that the reads see, for the documentation.
macro_rules! reads {
    ($type:ty, $seen:literal) => {
        impl $type {
            #[doc = concat!("The key's value ", $seen, ". Fails as [`Db::get`](crate::Db::get) does.")]
            pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Value>> {
                let (source, keyspace) = self.target();
                source.read(keyspace, key.as_ref())
            }

            /// Calls `read` with the key's value, without copying it; `None` if the key is absent. Fails as `get` does.
            pub fn get_with<T>(
                &self,
                key: impl AsRef<[u8]>,
                read: impl FnOnce(&[u8]) -> T,
            ) -> Result<Option<T>> {
                let (source, keyspace) = self.target();
                source.read_with(keyspace, key.as_ref(), read)
            }

            #[doc = concat!("The values of many keys ", $seen, ". As [`Db::get_many`](crate::Db::get_many).")]
            pub fn get_many(
                &self,
                keys: impl IntoIterator<Item = impl AsRef<[u8]>>,
            ) -> Vec<Result<Option<Value>>> {
                let (source, keyspace) = self.target();
                in_order(|answer| source.read_many(keyspace, keys, answer))
            }

            #[doc = concat!("The values of many keys ", $seen, ", as [`Db::get_many_with`](crate::Db::get_many_with) reads them.")]
            pub fn get_many_with(
                &self,
                keys: impl IntoIterator<Item = impl AsRef<[u8]>>,
                mut read: impl FnMut(usize, Result<Option<&[u8]>>),
            ) {
                let (source, keyspace) = self.target();
                source.read_many(keyspace, keys, |number, found| {
                    read(number, found.as_ref().map(Option::as_deref).map_err(Error::clone))
                });
            }

            /// True if the key has a value. Fails as `get` does.
            pub fn contains_key(&self, key: impl AsRef<[u8]>) -> Result<bool> {
                Ok(self.get_with(key, |_| ())?.is_some())
            }

            #[doc = concat!("The pairs of the range ", $seen, ", in order and from either end. Errors come with the pairs.")]
            pub fn range(&self, range: impl KeyRange) -> Range {
                let (source, keyspace) = self.target();
                source.range_of(keyspace, Bounds::of(&range))
            }

            /// The pairs whose keys start with `prefix`, as `range` returns them. In a keyspace
            /// with a comparator, every pair is read.
            pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Range {
                let (source, keyspace) = self.target();
                source.prefix_of(keyspace, prefix.as_ref())
            }

            /// A cursor over the range. It has no position until its first movement.
            pub fn cursor(&self, range: impl KeyRange) -> Cursor {
                let (source, keyspace) = self.target();
                source.cursor_of(keyspace, Bounds::of(&range))
            }

            /// The pair with the least key; `None` if there is no pair. Fails as `get` does.
            pub fn first(&self) -> Result<Option<(Key, Value)>> {
                self.range(..).next().transpose()
            }

            /// The pair with the greatest key; `None` if there is no pair. Fails as `get` does.
            pub fn last(&self) -> Result<Option<(Key, Value)>> {
                self.range(..).next_back().transpose()
            }
        }
    };
}

reads!(Snapshot, "at the moment of the snapshot");
reads!(SnapshotView<'_>, "at the moment of the snapshot");
reads!(Transaction, "when the transaction began, with the transaction's own writes up to now");
reads!(TransactionView<'_>, "when the transaction began, with the transaction's own writes up to now");

impl Snapshot {
    /// A view that reads another keyspace at the same moment. Values, ranges and cursors that the
    /// view returns do not borrow from it.
    pub fn keyspace<'a>(&'a self, keyspace: &'a Keyspace) -> SnapshotView<'a> {
        SnapshotView { snapshot: self, keyspace: &keyspace.inner }
    }

    fn target(&self) -> (&Self, &Arc<KeyspaceInner>) {
        (self, &self.handle.store.default)
    }
}

impl SnapshotView<'_> {
    fn target(&self) -> (&Snapshot, &Arc<KeyspaceInner>) {
        (self.snapshot, self.keyspace)
    }
}

impl Transaction {
    /// A view that reads and writes another keyspace in the same transaction. Values, ranges and
    /// cursors that the view returns do not borrow from it, and several views may be in use at
    /// once.
    pub fn keyspace<'a>(&'a self, keyspace: &'a Keyspace) -> TransactionView<'a> {
        TransactionView { transaction: self, keyspace: &keyspace.inner }
    }

    pub(super) fn target(&self) -> (&Self, &Arc<KeyspaceInner>) {
        (self, self.default_keyspace())
    }
}

impl TransactionView<'_> {
    pub(super) fn target(&self) -> (&Transaction, &Arc<KeyspaceInner>) {
        (self.transaction, self.keyspace)
    }
}
