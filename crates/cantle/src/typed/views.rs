//! Typed keyspaces within snapshots, transactions and batches.

use super::bounds::TypedBounds;
use super::keyspace::TypedKeyspace;
use super::value::ValueCodec;
use crate::db::{BatchView, Snapshot, SnapshotView, Transaction, TransactionView, WriteBatch};
use crate::key::kind::SameAs;
use crate::key::{FromKey, ToKey};
use crate::types::error::Result;

/// A typed keyspace as a snapshot sees it.
#[derive(Debug)]
pub struct TypedSnapshot<'a, K, V> {
    keyspace: &'a TypedKeyspace<K, V>,
    view: SnapshotView<'a>,
}

/// A typed keyspace as a transaction sees and changes it.
#[derive(Debug)]
pub struct TypedTransaction<'a, K, V> {
    keyspace: &'a TypedKeyspace<K, V>,
    view: TransactionView<'a>,
}

/// A typed keyspace as a batch writes to it.
#[derive(Debug)]
pub struct TypedBatch<'a, K, V> {
    keyspace: &'a TypedKeyspace<K, V>,
    view: BatchView<'a>,
}

impl<'a, K, V> TypedSnapshot<'a, K, V> {
    fn types(&self) -> &'a TypedKeyspace<K, V> {
        self.keyspace
    }

    fn bytes(&self) -> &SnapshotView<'a> {
        &self.view
    }
}
reads!(TypedSnapshot<'a, K, V>);

impl<'a, K, V> TypedTransaction<'a, K, V> {
    fn types(&self) -> &'a TypedKeyspace<K, V> {
        self.keyspace
    }

    fn bytes(&self) -> &TransactionView<'a> {
        &self.view
    }
}
reads!(TypedTransaction<'a, K, V>);
writes!(TypedTransaction<'a, K, V>);

impl<K: FromKey, V: ValueCodec> TypedBatch<'_, K, V> {
    /// Stores a pair, replacing the key's value.
    pub fn put<Q: ToKey<Kind: SameAs<K::Kind>> + ?Sized>(
        &mut self,
        key: &Q,
        value: &V::Input,
    ) -> Result<&mut Self> {
        let key = self.keyspace.key_bytes(key)?;
        let value = self.keyspace.encode_value(&key, value)?;
        self.view.put(key, value);
        Ok(self)
    }

    /// Removes the key, if it is there.
    pub fn delete<Q: ToKey<Kind: SameAs<K::Kind>> + ?Sized>(&mut self, key: &Q) -> Result<&mut Self> {
        self.view.delete(self.keyspace.key_bytes(key)?);
        Ok(self)
    }

    /// Removes every key of the range.
    pub fn delete_range(&mut self, range: impl TypedBounds<K::Kind>) -> Result<&mut Self> {
        self.view.delete_range(self.keyspace.bounds(range)?);
        Ok(self)
    }
}

impl Snapshot {
    /// The view of a typed keyspace: [`keyspace`](Self::keyspace) with types.
    pub fn typed<'a, K, V>(&'a self, keyspace: &'a TypedKeyspace<K, V>) -> TypedSnapshot<'a, K, V> {
        TypedSnapshot { keyspace, view: self.keyspace(keyspace.keyspace()) }
    }
}

impl Transaction {
    /// The view of a typed keyspace: [`keyspace`](Self::keyspace) with types.
    ///
    /// ```
    /// # fn main() -> cantle::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = cantle::Db::open(dir.path().join("store"))?;
    /// let accounts = db.typed::<String, u64>("accounts")?;
    /// accounts.put("ada", &100)?;
    /// db.transact(|tx| {
    ///     let accounts = tx.typed(&accounts);
    ///     let [ada, bob] = ["ada", "bob"].map(|name| accounts.get(name));
    ///     accounts.put("ada", &(ada?.unwrap_or(0) - 30))?;
    ///     accounts.put("bob", &(bob?.unwrap_or(0) + 30))
    /// })?;
    /// assert_eq!((accounts.get("ada")?, accounts.get("bob")?), (Some(70), Some(30)));
    /// # Ok(()) }
    /// ```
    pub fn typed<'a, K, V>(&'a self, keyspace: &'a TypedKeyspace<K, V>) -> TypedTransaction<'a, K, V> {
        TypedTransaction { keyspace, view: self.keyspace(keyspace.keyspace()) }
    }
}

impl WriteBatch {
    /// The view of a typed keyspace: [`keyspace`](Self::keyspace) with types.
    pub fn typed<'a, K, V>(&'a mut self, keyspace: &'a TypedKeyspace<K, V>) -> TypedBatch<'a, K, V> {
        TypedBatch { view: self.keyspace(keyspace.keyspace()), keyspace }
    }
}
