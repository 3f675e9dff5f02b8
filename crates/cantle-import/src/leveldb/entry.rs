//! A version of a key.

use std::cmp::Ordering;

/// One version of one key: a value, or that it was deleted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub key: Vec<u8>,
    /// Counts the store's writes: of a key the entry with the largest is what it has.
    pub sequence: u64,
    /// None: deleted.
    pub value: Option<Vec<u8>>,
}

pub(crate) const DELETION: u8 = 0;
pub(crate) const VALUE: u8 = 1;

/// Eight bytes behind the user's key in tables: sequence and type.
pub(crate) const TRAILER_BYTES: usize = 8;

/// The order of tables: by key, then the newest first.
pub(crate) fn in_order(a: (&[u8], u64), b: (&[u8], u64)) -> Ordering {
    a.0.cmp(b.0).then(b.1.cmp(&a.1))
}

/// User key, sequence and type of a table's key.
pub(crate) fn split_key(key: &[u8]) -> Result<(&[u8], u64, u8), String> {
    let (user, trailer) = key
        .split_last_chunk::<TRAILER_BYTES>()
        .ok_or_else(|| format!("a key of {} bytes has no sequence number", key.len()))?;
    let trailer = u64::from_le_bytes(*trailer);
    Ok((user, trailer >> 8, trailer as u8))
}

/// The error for an entry that is no value and no deletion.
pub(crate) fn unknown_type(kind: u8) -> String {
    format!("an entry has the type {kind}, which LevelDB does not know")
}
