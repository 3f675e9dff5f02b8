//! Reads of one key, and of many.

use super::keyspace::KeyspaceInner;
use super::store::Store;
use crate::fetch::Many;
use crate::types::error::{Error, Result};
use crate::types::value::Value;
use bytes::Bytes;

/// Logs the error of a read if it is damage.
pub(super) fn note_corruption(error: &Error) {
    if error.is_corruption() {
        tracing::error!(%error, "corruption");
    }
}

/// The values that `read` passes on with their numbers, in the order of the numbers.
pub(super) fn in_order(
    read: impl FnOnce(&mut dyn FnMut(usize, Result<Option<Bytes>>)),
) -> Vec<Result<Option<Value>>> {
    let mut values = Vec::new();
    read(&mut |number, value| {
        if values.len() <= number {
            values.resize_with(number + 1, || Ok(None));
        }
        values[number] = value.map(|value| value.map(Value::new));
    });
    values
}

impl Store {
    pub(super) fn get(&self, keyspace: &KeyspaceInner, key: &[u8], at: u64) -> Result<Option<Bytes>> {
        self.check_open()?;
        keyspace.check_at(at)?;
        let found = keyspace.layout.get(key, at).inspect_err(note_corruption);
        keyspace.order.check().and(found)
    }

    /// Looks up all keys at one version, and calls `answer` with the number of each key and its value.
    pub(super) fn get_many<K: AsRef<[u8]>>(
        &self,
        keyspace: &KeyspaceInner,
        keys: impl IntoIterator<Item = K>,
        at: u64,
        mut answer: impl FnMut(usize, Result<Option<Bytes>>),
    ) {
        let check = || self.check_open().and_then(|()| keyspace.check_at(at));
        let (layout, order) = (&keyspace.layout, &keyspace.order);
        let gets = Many {
            queue: &self.substrate.logs.queue,
            together: |key: &K, fetch: &_| {
                check()?;
                let found = layout.get_together(key.as_ref(), at, fetch);
                order.check()?;
                found
            },
            apart: |key: &K| {
                check()?;
                let found = layout.get(key.as_ref(), at);
                order.check().and(found)
            },
        };
        gets.run(keys, |number, found| {
            canary!(ERROR_OF_A_NEIGHBOUR => let number = number.saturating_sub(usize::from(found.is_err())));
            answer(number, found.inspect_err(note_corruption));
        });
    }

    /// Calls `read` with the value, without copying it.
    pub(super) fn get_with<T>(
        &self,
        keyspace: &KeyspaceInner,
        key: &[u8],
        at: u64,
        read: impl FnOnce(&[u8]) -> T,
    ) -> Result<Option<T>> {
        self.check_open()?;
        keyspace.check_at(at)?;
        let (mut read, mut result) = (Some(read), None);
        let mut lend = |value: &[u8]| result = read.take().map(|read| read(value));
        let found = keyspace.layout.get_with(key, at, &mut lend).inspect_err(note_corruption);
        keyspace.order.check().and(found)?;
        Ok(result)
    }
}
