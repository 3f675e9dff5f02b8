//! Typed pairs of a range.

use super::keyspace::TypedKeyspace;
use super::value::ValueCodec;
use crate::db::Range;
use crate::key::FromKey;
use crate::types::error::Result;
use crate::types::value::{Key, Value};

/// The pairs of a range in order, as of one snapshot; `rev()` for the other direction, or both ends
/// in turn.
///
/// A pair that is not of the types is an error in its place, and the pairs after it follow. After
/// an error of the store it is at its end.
pub struct TypedRange<K, V> {
    range: Range,
    keyspace: TypedKeyspace<K, V>,
}

impl<K, V> TypedRange<K, V> {
    pub(super) fn new(range: Range, keyspace: TypedKeyspace<K, V>) -> Self {
        Self { range, keyspace }
    }
}

impl<K: FromKey, V: ValueCodec> TypedRange<K, V> {
    fn read(&self, pair: Result<(Key, Value)>) -> Result<(K, V::Output)> {
        let (key, value) = pair?;
        self.keyspace.read_pair(&key, &value)
    }
}

impl<K: FromKey, V: ValueCodec> Iterator for TypedRange<K, V> {
    type Item = Result<(K, V::Output)>;
    fn next(&mut self) -> Option<Self::Item> {
        let pair = self.range.next()?;
        Some(self.read(pair))
    }
}

impl<K: FromKey, V: ValueCodec> DoubleEndedIterator for TypedRange<K, V> {
    fn next_back(&mut self) -> Option<Self::Item> {
        let pair = self.range.next_back()?;
        Some(self.read(pair))
    }
}

impl<K, V> std::fmt::Debug for TypedRange<K, V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TypedRange").field("keyspace", &self.keyspace).finish_non_exhaustive()
    }
}
