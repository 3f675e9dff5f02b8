//! A keyspace with types of keys and values.

use super::bounds::{ByteBounds, TypedBounds};
use super::range::TypedRange;
use super::schema;
use super::value::{CodecError, ValueCodec};
use crate::db::{Keyspace, Range};
use crate::key::kind::SameAs;
use crate::key::{self, FromKey, ToKey};
use crate::types::error::{Error, Result};
use std::borrow::Borrow;
use std::fmt;
use std::marker::PhantomData;

/// A keyspace with keys of type `K` and values of type `V`: see [`typed`](crate::typed). Cheap to
/// clone, usable from any thread.
///
/// Operations fail as those of [`Keyspace`] do, and with [`WrongType`](Error::WrongType) for a pair
/// that is not of these types. A key with a time that is finer than a microsecond, or a value that
/// has no encoding, is [`InvalidArgument`](Error::InvalidArgument).
pub struct TypedKeyspace<K, V> {
    keyspace: Keyspace,
    types: PhantomData<fn() -> (K, V)>,
}

impl<K, V> TypedKeyspace<K, V> {
    /// The keyspace itself, with keys and values in bytes.
    pub fn keyspace(&self) -> &Keyspace {
        &self.keyspace
    }

    /// Its name.
    pub fn name(&self) -> &str {
        self.keyspace.name()
    }
}

impl<K: FromKey, V: ValueCodec> TypedKeyspace<K, V> {
    /// A keyspace with these types. Fails as [`Db::typed`](crate::Db::typed) does.
    pub fn new(keyspace: Keyspace) -> Result<Self> {
        schema::agree::<K::Kind, V>(&keyspace)?;
        Ok(Self { keyspace, types: PhantomData })
    }

    /// Replaces the key's value by what `change` makes of it, atomically; `None` deletes it.
    /// Returns the new value. `change` may run several times and may read the store, but not write
    /// to it. If the old value is not of the type, or the new one has no encoding, the value stays.
    pub fn update<Q, N>(
        &self,
        key: &Q,
        mut change: impl FnMut(Option<V::Output>) -> Option<N>,
    ) -> Result<Option<V::Output>>
    where
        Q: ToKey<Kind: SameAs<K::Kind>> + ?Sized,
        N: Borrow<V::Input>,
    {
        let key = self.key_bytes(key)?;
        let mut failed = None;
        let new = self.keyspace.update(&key, |old| {
            let encode = |new: N| self.encode_value(&key, new.borrow());
            let value = old.map(|old| self.read_value(&key, old)).transpose();
            match value.and_then(|value| change(value).map(encode).transpose()) {
                Ok(new) => {
                    failed = None;
                    new
                }
                Err(error) => {
                    failed = Some(error);
                    old.map(<[u8]>::to_vec)
                }
            }
        })?;
        match failed {
            Some(error) => Err(error),
            None => new.map(|new| self.read_value(&key, &new)).transpose(),
        }
    }

    /// Estimated number of pairs: see [`Keyspace::len_estimate`].
    pub fn len_estimate(&self) -> Result<u64> {
        self.keyspace.len_estimate()
    }

    /// Reads the pairs of a range of this keyspace, which may be that of a snapshot or a
    /// transaction.
    pub fn pairs(&self, range: Range) -> TypedRange<K, V> {
        TypedRange::new(range, self.clone())
    }

    /// The bytes of a key.
    pub fn key_bytes<Q: ToKey<Kind: SameAs<K::Kind>> + ?Sized>(&self, key: &Q) -> Result<Vec<u8>> {
        key::try_encode(key)
    }

    /// The bytes of the value of a key, which the error names.
    pub(super) fn encode_value(&self, key: &[u8], value: &V::Input) -> Result<Vec<u8>> {
        V::encode(value).map_err(|error| self.no_encoding(key, &error))
    }

    /// The bytes of a value.
    pub fn value_bytes(&self, value: &V::Input) -> Result<Vec<u8>> {
        V::encode(value).map_err(|error| {
            Error::InvalidArgument(format!(
                "keyspace {:?}: a value of the type {} has no encoding: {error}",
                self.name(),
                V::type_name()
            ))
        })
    }

    /// The bounds of a range in bytes, for the ranges of snapshots and transactions.
    pub fn bounds(&self, range: impl TypedBounds<K::Kind>) -> Result<ByteBounds> {
        range.to_bytes()
    }

    /// The types' view of a pair.
    pub fn read_pair(&self, key: &[u8], value: &[u8]) -> Result<(K, V::Output)> {
        let typed = key::decode(key).map_err(|error| {
            let message = match &error {
                Error::InvalidArgument(message) => message.clone(),
                other => other.to_string(),
            };
            self.wrong_type(key, format!("the key {}: {message}", key::describe(key)))
        })?;
        Ok((typed, self.read_value(key, value)?))
    }

    /// The type's view of the value of `key`, which the error names.
    pub fn read_value(&self, key: &[u8], value: &[u8]) -> Result<V::Output> {
        V::decode(value).map_err(|error| {
            let name = V::type_name();
            let message =
                format!("the value of the key {} is not of the type {name}: {error}", key::describe(key));
            self.wrong_type(key, message)
        })
    }

    fn wrong_type(&self, key: &[u8], what: String) -> Error {
        Error::WrongType { keyspace: self.name().to_owned(), key: key.to_vec(), what }
    }

    pub(super) fn no_encoding(&self, key: &[u8], error: &CodecError) -> Error {
        Error::InvalidArgument(format!(
            "keyspace {:?}: the value for the key {} has no encoding: {error}",
            self.name(),
            key::describe(key)
        ))
    }
}

impl<K: FromKey, V: ValueCodec> TypedKeyspace<K, V> {
    fn types(&self) -> &Self {
        self
    }

    fn bytes(&self) -> &Keyspace {
        &self.keyspace
    }
}
reads!(TypedKeyspace<K, V>);
writes!(TypedKeyspace<K, V>);

impl<K, V> Clone for TypedKeyspace<K, V> {
    fn clone(&self) -> Self {
        Self { keyspace: self.keyspace.clone(), types: PhantomData }
    }
}

impl<K, V> fmt::Debug for TypedKeyspace<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TypedKeyspace").field("name", &self.name()).finish_non_exhaustive()
    }
}
