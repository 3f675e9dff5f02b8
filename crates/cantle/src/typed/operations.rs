//! The operations that typed keyspaces and the views of them in snapshots and transactions share,
//! written once.
//!
//! Each type has `types()`, the typed keyspace, and `bytes()`, which has the same operations on
//! bytes.

/// Operations that read.
macro_rules! reads {
    ($type:ident<$($lifetime:lifetime,)? K, V>) => {
        impl<$($lifetime,)? K: $crate::key::FromKey, V: $crate::typed::ValueCodec> $type<$($lifetime,)? K, V> {
            /// The key's value.
            pub fn get<Q>(&self, key: &Q) -> $crate::Result<Option<V::Output>>
            where
                Q: $crate::key::ToKey<Kind: $crate::key::kind::SameAs<K::Kind>> + ?Sized,
            {
                let key = self.types().key_bytes(key)?;
                self.bytes().get_with(&key, |value| self.types().read_value(&key, value))?.transpose()
            }

            /// Returns true if the key has a value.
            pub fn contains_key<Q>(&self, key: &Q) -> $crate::Result<bool>
            where
                Q: $crate::key::ToKey<Kind: $crate::key::kind::SameAs<K::Kind>> + ?Sized,
            {
                self.bytes().contains_key(self.types().key_bytes(key)?)
            }

            /// The pairs of the range, in order: see [`TypedBounds`](crate::typed::TypedBounds).
            pub fn range(
                &self,
                range: impl $crate::typed::TypedBounds<K::Kind>,
            ) -> $crate::Result<$crate::typed::TypedRange<K, V>> {
                Ok(self.types().pairs(self.bytes().range(self.types().bounds(range)?)))
            }

            /// The pairs whose keys begin with these parts, in order: `prefix(&("UA", "EWR"))`.
            pub fn prefix<Q>(&self, parts: &Q) -> $crate::Result<$crate::typed::TypedRange<K, V>>
            where
                Q: $crate::key::ToKey<Kind: $crate::key::kind::LeadingParts<K::Kind>> + ?Sized,
            {
                Ok(self.types().pairs(self.bytes().range($crate::key::try_range_of(parts)?)))
            }

            /// All pairs, in order.
            pub fn iter(&self) -> $crate::typed::TypedRange<K, V> {
                self.types().pairs(self.bytes().range(..))
            }

            /// The pair with the least key.
            pub fn first(&self) -> $crate::Result<Option<(K, V::Output)>> {
                self.iter().next().transpose()
            }

            /// The pair with the greatest key.
            pub fn last(&self) -> $crate::Result<Option<(K, V::Output)>> {
                self.iter().next_back().transpose()
            }
        }
    };
}

/// Operations that write, at once or with the transaction.
macro_rules! writes {
    ($type:ident<$($lifetime:lifetime,)? K, V>) => {
        impl<$($lifetime,)? K: $crate::key::FromKey, V: $crate::typed::ValueCodec> $type<$($lifetime,)? K, V> {
            /// Stores a pair, replacing the key's value.
            pub fn put<Q>(&self, key: &Q, value: &V::Input) -> $crate::Result<()>
            where
                Q: $crate::key::ToKey<Kind: $crate::key::kind::SameAs<K::Kind>> + ?Sized,
            {
                let key = self.types().key_bytes(key)?;
                let value = self.types().encode_value(&key, value)?;
                self.bytes().put(key, value)
            }

            /// Removes the key, if it is there.
            pub fn delete<Q>(&self, key: &Q) -> $crate::Result<()>
            where
                Q: $crate::key::ToKey<Kind: $crate::key::kind::SameAs<K::Kind>> + ?Sized,
            {
                self.bytes().delete(self.types().key_bytes(key)?)
            }

            /// Removes every key of the range, atomically.
            pub fn delete_range(&self, range: impl $crate::typed::TypedBounds<K::Kind>) -> $crate::Result<()> {
                self.bytes().delete_range(self.types().bounds(range)?)
            }

            /// Removes the pair with the least key and returns it, atomically; `None` if there is
            /// no pair. A pair that is not of the types is an error, and stays.
            pub fn pop_first(&self) -> $crate::Result<Option<(K, V::Output)>> {
                self.pop($crate::db::pop::End::First)
            }

            /// The same as [`pop_first`](Self::pop_first), for the pair with the greatest key.
            pub fn pop_last(&self) -> $crate::Result<Option<(K, V::Output)>> {
                self.pop($crate::db::pop::End::Last)
            }

            fn pop(&self, end: $crate::db::pop::End) -> $crate::Result<Option<(K, V::Output)>> {
                self.bytes().pop_as(end, |key, value| self.types().read_pair(&key, &value))
            }

            /// Stores a pair if the key is absent, atomically. Returns true if the key was absent.
            pub fn insert_if_absent<Q>(&self, key: &Q, value: &V::Input) -> $crate::Result<bool>
            where
                Q: $crate::key::ToKey<Kind: $crate::key::kind::SameAs<K::Kind>> + ?Sized,
            {
                self.compare_and_swap(key, None, Some(value))
            }

            /// Replaces the key's value by `new` if the value is `expected`, atomically. `None`
            /// stands for an absent key. Values are compared by their encodings. Returns true if
            /// the value was `expected`.
            pub fn compare_and_swap<Q>(
                &self,
                key: &Q,
                expected: Option<&V::Input>,
                new: Option<&V::Input>,
            ) -> $crate::Result<bool>
            where
                Q: $crate::key::ToKey<Kind: $crate::key::kind::SameAs<K::Kind>> + ?Sized,
            {
                let key = self.types().key_bytes(key)?;
                let encode = |value| self.types().encode_value(&key, value);
                let (expected, new) = (expected.map(encode).transpose()?, new.map(encode).transpose()?);
                self.bytes().compare_and_swap(&key, expected, new)
            }
        }
    };
}
