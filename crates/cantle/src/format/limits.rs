//! The limits of writes, in one place. Readers must accept everything that a writer accepts:
//! `const` assertions below derive the readers' limits from the writers'.

use crate::types::error::{Error, Result};

/// Maximum length of a key in bytes: 1 MiB.
pub const KEY_BYTES_MAX: usize = 1 << 20;
/// Maximum length of a value in bytes: 1 GiB.
pub const VALUE_BYTES_MAX: usize = 1 << 30;
/// Maximum size of a write in bytes: a batch or a transaction, over all keyspaces. It is the sum of
/// its keys, values, and bounds of range deletes, plus [`BATCH_OP_BYTES`] for each operation. One
/// operation with the longest key and the longest value fits.
pub const BATCH_BYTES_MAX: usize = VALUE_BYTES_MAX + 4 * KEY_BYTES_MAX;
/// Bytes that each operation of a batch counts besides its key and value: no record needs more for
/// one.
pub const BATCH_OP_BYTES: usize = 32;
/// Maximum length in bytes of a record's payload: a batch, in the journal of a `Sync` store, and
/// its head.
pub(crate) const RECORD_BYTES_MAX: u64 = BATCH_BYTES_MAX as u64 + 4096;
/// Maximum length in bytes of a table's block before compression: a value, a key, and room for the
/// previous entries.
pub(crate) const BLOCK_BYTES_MAX: usize = VALUE_BYTES_MAX + 2 * KEY_BYTES_MAX;

/// A range delete has two keys, each at most one byte too long, and counts as an operation.
const _: () = assert!(VALUE_BYTES_MAX + KEY_BYTES_MAX + BATCH_OP_BYTES <= BATCH_BYTES_MAX);
/// Lengths of records, including the frame, are 32-bit numbers in memory and in indexes.
const _: () = assert!(RECORD_BYTES_MAX + 64 < u32::MAX as u64);

/// The limits that a store applies. Smaller in tests, so that these need no GiB.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    pub key_bytes: usize,
    pub value_bytes: usize,
    pub batch_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { key_bytes: KEY_BYTES_MAX, value_bytes: VALUE_BYTES_MAX, batch_bytes: BATCH_BYTES_MAX }
    }
}

fn exceeds(what: &str, bytes: usize, limit: usize) -> Error {
    Error::InvalidArgument(format!("{what} of {bytes} bytes exceeds the limit of {limit} bytes"))
}

impl Limits {
    pub fn check_key(&self, key: &[u8]) -> Result<()> {
        let within = key.len() <= self.key_bytes;
        if within { Ok(()) } else { Err(exceeds("a key", key.len(), self.key_bytes)) }
    }

    /// The bound of a range may be a key with one more byte.
    pub fn check_bound(&self, key: &[u8]) -> Result<()> {
        let within = key.len() <= self.key_bytes + 1;
        if within { Ok(()) } else { Err(exceeds("the bound of a range", key.len(), self.key_bytes + 1)) }
    }

    pub fn check_value(&self, value: &[u8]) -> Result<()> {
        let within = value.len() <= self.value_bytes;
        if within { Ok(()) } else { Err(exceeds("a value", value.len(), self.value_bytes)) }
    }

    /// Checks a write of `operations` with `bytes` of keys, values and bounds.
    pub fn check_batch(&self, bytes: usize, operations: usize) -> Result<()> {
        let counted = bytes.saturating_add(operations.saturating_mul(BATCH_OP_BYTES));
        if counted <= self.batch_bytes {
            return Ok(());
        }
        Err(Error::InvalidArgument(format!(
            "a write of {operations} operations counts {counted} bytes, which exceeds the limit of {} bytes for one batch or \
             transaction: divide it",
            self.batch_bytes
        )))
    }
}

/// Fails if a record cannot hold this payload.
pub(crate) fn check_record(what: &str, payload_bytes: usize, limit: u64) -> Result<()> {
    if payload_bytes as u64 <= limit {
        return Ok(());
    }
    Err(Error::InvalidArgument(format!(
        "{what} of {payload_bytes} bytes exceeds the limit of {limit} bytes for one record"
    )))
}
