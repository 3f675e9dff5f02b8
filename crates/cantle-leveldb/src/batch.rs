//! Write batches. A batch can be applied several times, and its operations can be iterated.
//!
//! ```text
//!   operation:  kind 1 · key's length 8 · value's length 8 · key · value
//! ```

use crate::bytes::lent;
use crate::call::{opaque, quietly};
use crate::handles::{Handles, Kind};
use crate::status::{Result, Status};
use parking_lot::Mutex;
use std::ffi::{c_char, c_void};
use std::ptr::null_mut;
use std::sync::Arc;

opaque! {
    /// Operations that are applied together.
    leveldb_writebatch_t,
}

static BATCHES: Handles<Mutex<Batch>> = Handles::new(Kind::WriteBatch);

const HEAD_BYTES: usize = 1 + 8 + 8;
const PUT: u8 = 1;
const DELETE: u8 = 0;

/// Operations in the order in which they were added, one after the other.
#[derive(Clone, Default)]
struct Batch {
    /// A reader holds a reference of its own, so a change copies the bytes only if a read is in
    /// progress.
    operations: Arc<Vec<u8>>,
    /// The first call with invalid arguments. Applying the batch returns it as an error.
    misuse: Option<String>,
}

#[derive(Debug, PartialEq, Eq)]
enum Operation<'a> {
    Put(&'a [u8], &'a [u8]),
    Delete(&'a [u8]),
}

impl Batch {
    fn push(&mut self, kind: u8, key: &[u8], value: &[u8]) {
        let operations = Arc::make_mut(&mut self.operations);
        operations.reserve(HEAD_BYTES + key.len() + value.len());
        operations.push(kind);
        operations.extend_from_slice(&key.len().to_le_bytes());
        operations.extend_from_slice(&value.len().to_le_bytes());
        operations.extend_from_slice(key);
        operations.extend_from_slice(value);
    }

    fn note(&mut self, misuse: Status) {
        self.misuse.get_or_insert(misuse.message);
    }

    fn iter(&self) -> impl Iterator<Item = Operation<'_>> {
        let mut rest = &self.operations[..];
        std::iter::from_fn(move || {
            let (head, bytes) = rest.split_first_chunk::<HEAD_BYTES>()?;
            let length =
                |at: usize| head[at..at + 8].iter().rev().fold(0, |sum, &byte| sum << 8 | usize::from(byte));
            let (key, bytes) = bytes.split_at(length(1));
            let (value, bytes) = bytes.split_at(length(9));
            rest = bytes;
            Some(if head[0] == PUT { Operation::Put(key, value) } else { Operation::Delete(key) })
        })
    }
}

/// The Cantle batch with the operations of the batch that the handle names.
///
/// # Safety
///
/// No thread destroys it during the call.
pub unsafe fn to_cantle(handle: *const leveldb_writebatch_t) -> Result<cantle::WriteBatch> {
    // SAFETY: as the caller promises.
    let batch =
        unsafe { BATCHES.get(handle) }.ok_or_else(|| Status::no_object("write batch"))?.lock().clone();
    if let Some(misuse) = &batch.misuse {
        return Err(Status::invalid(misuse));
    }
    let mut converted = cantle::WriteBatch::new();
    for operation in batch.iter() {
        match operation {
            Operation::Put(key, value) => converted.put(key, value),
            Operation::Delete(key) => converted.delete(key),
        };
    }
    Ok(converted)
}

/// An empty batch.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_writebatch_create() -> *mut leveldb_writebatch_t {
    quietly(null_mut(), || BATCHES.insert(Mutex::default()))
}

/// Destroys a batch.
///
/// # Safety
///
/// No other thread uses it at this moment.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_writebatch_destroy(batch: *mut leveldb_writebatch_t) {
    quietly((), || drop(BATCHES.remove(batch)));
}

/// Runs `change` on a batch; no effect if the handle is not a live batch.
///
/// # Safety
///
/// No thread destroys it during the call.
unsafe fn with(handle: *mut leveldb_writebatch_t, change: impl FnOnce(&mut Batch)) {
    quietly((), || {
        // SAFETY: as the caller promises.
        if let Some(batch) = unsafe { BATCHES.get(handle) } {
            change(&mut batch.lock());
        }
    });
}

/// Removes all operations.
///
/// # Safety
///
/// No thread destroys the batch during the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_writebatch_clear(batch: *mut leveldb_writebatch_t) {
    // SAFETY: as the caller promises.
    unsafe { with(batch, |batch| *batch = Batch::default()) };
}

/// Adds a pair.
///
/// # Safety
///
/// No thread destroys the batch during the call; key and value have the given lengths.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_writebatch_put(
    batch: *mut leveldb_writebatch_t,
    key: *const c_char,
    key_bytes: usize,
    value: *const c_char,
    value_bytes: usize,
) {
    // SAFETY: as the caller promises.
    unsafe {
        with(batch, |batch| match (lent(key, key_bytes, "key"), lent(value, value_bytes, "value")) {
            (Ok(key), Ok(value)) => batch.push(PUT, key, value),
            (Err(misuse), _) | (_, Err(misuse)) => batch.note(misuse),
        });
    }
}

/// Adds the removal of a key.
///
/// # Safety
///
/// No thread destroys the batch during the call; the key has the given length.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_writebatch_delete(
    batch: *mut leveldb_writebatch_t,
    key: *const c_char,
    key_bytes: usize,
) {
    // SAFETY: as the caller promises.
    unsafe {
        with(batch, |batch| match lent(key, key_bytes, "key") {
            Ok(key) => batch.push(DELETE, key, &[]),
            Err(misuse) => batch.note(misuse),
        });
    }
}

/// Calls `put` and `deleted` for each operation, in their order. They may change the batch; the
/// changes are visible to the next iteration.
///
/// # Safety
///
/// No thread destroys the batch during the call; the functions may be called with `state`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_writebatch_iterate(
    batch: *const leveldb_writebatch_t,
    state: *mut c_void,
    put: Option<unsafe extern "C" fn(*mut c_void, *const c_char, usize, *const c_char, usize)>,
    deleted: Option<unsafe extern "C" fn(*mut c_void, *const c_char, usize)>,
) {
    quietly((), || {
        // SAFETY: as the caller promises.
        let Some(batch) = (unsafe { BATCHES.get(batch) }) else { return };
        let batch = batch.lock().clone();
        for operation in batch.iter() {
            match (operation, put, deleted) {
                // SAFETY: as the caller promises; the bytes live until the callback returns.
                (Operation::Put(key, value), Some(put), _) => unsafe {
                    put(state, key.as_ptr().cast(), key.len(), value.as_ptr().cast(), value.len());
                },
                // SAFETY: the same.
                (Operation::Delete(key), _, Some(deleted)) => unsafe {
                    deleted(state, key.as_ptr().cast(), key.len());
                },
                _ => {}
            }
        }
    });
}

/// Adds the operations of `source` to those of `destination`; they may be the same.
///
/// # Safety
///
/// No thread destroys the batches during the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_writebatch_append(
    destination: *mut leveldb_writebatch_t,
    source: *const leveldb_writebatch_t,
) {
    // SAFETY: as the caller promises.
    let source = quietly(None, || unsafe { BATCHES.get(source) }.map(|batch| batch.lock().clone()));
    // SAFETY: the same.
    unsafe {
        with(destination, |batch| match source {
            Some(source) => {
                Arc::make_mut(&mut batch.operations).extend_from_slice(&source.operations);
                if batch.misuse.is_none() {
                    batch.misuse = source.misuse;
                }
            }
            None => batch.note(Status::no_object("write batch")),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_gives_back_what_it_was_given() {
        let mut batch = Batch::default();
        let long = vec![7; 70_000];
        batch.push(PUT, b"key", b"value");
        batch.push(DELETE, b"", b"");
        batch.push(PUT, b"", &long);
        batch.push(PUT, &long, b"");
        let expected = [
            Operation::Put(b"key", b"value"),
            Operation::Delete(b""),
            Operation::Put(b"", &long),
            Operation::Put(&long, b""),
        ];
        assert!(batch.iter().eq(expected));
    }
}
