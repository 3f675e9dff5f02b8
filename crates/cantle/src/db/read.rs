//! Reads of one key.

use super::keyspace::KeyspaceInner;
use super::store::Store;
use crate::types::error::{Error, Result};
use bytes::Bytes;

/// Logs the error of a read if it is damage.
pub(super) fn note_corruption(error: &Error) {
    if error.is_corruption() {
        tracing::error!(%error, "corruption");
    }
}

impl Store {
    pub(super) fn get(&self, keyspace: &KeyspaceInner, key: &[u8], at: u64) -> Result<Option<Bytes>> {
        self.check_open()?;
        keyspace.check_at(at)?;
        let found = keyspace.layout.get(key, at).inspect_err(note_corruption);
        keyspace.order.check().and(found)
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
