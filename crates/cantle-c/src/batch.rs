//! Several operations that take effect together.

use crate::bound::{Keys, cantle_range, keys};
use crate::boundary::{quietly, saying, status};
use crate::callback;
use crate::db::{OpenDb, cantle_db, is_bytewise};
use crate::error::cantle_error;
use crate::failure::{Failure, Outcome};
use crate::handle::{self, Object};
use crate::keyspace::{OpenKeyspace, cantle_keyspace};
use crate::options::durability_of;
use crate::raw;
use crate::status::cantle_status;
use cantle::{WriteBatch, WriteOptions};
use parking_lot::Mutex;
use std::ffi::{c_int, c_void};
use std::ptr::null_mut;

/// A list of operations that cantle_write applies atomically. Freed by cantle_batch_free. For one
/// thread at a time: another one gets CANTLE_INVALID_ARGUMENT.
pub struct cantle_batch {
    _opaque: [u8; 0],
}

#[derive(Default)]
struct Pending {
    batch: WriteBatch,
    /// True if the batch deletes a prefix of the default keyspace, whose order is known only when
    /// the batch is written.
    has_prefix: bool,
}

struct OpenBatch(Mutex<Pending>);

impl Object for OpenBatch {
    type Opaque = cantle_batch;
    const NAME: &'static str = "cantle_batch";
    // A batch may hold keyspaces.
    const OF_A_STORE: bool = true;
}

fn with<T>(batch: *const cantle_batch, use_it: impl FnOnce(&mut Pending) -> Outcome<T>) -> Outcome<T> {
    let batch = handle::get::<OpenBatch>(batch)?;
    let mut batch =
        batch.0.try_lock().ok_or_else(|| Failure::invalid("the cantle_batch is in use by another thread"))?;
    use_it(&mut batch)
}

/// Write options that ask for this durability only.
pub(crate) fn write_options(durability: c_int) -> Outcome<WriteOptions> {
    Ok(match durability_of(durability)? {
        None => WriteOptions::new(),
        Some(durability) => WriteOptions::new().durability(durability),
    })
}

/// Creates an empty batch. It belongs to the process that made it, because it may hold keyspaces: a
/// forked child must make its own.
///
/// Ownership: the batch is the caller's, to be freed by cantle_batch_free. Errors: NULL if there
/// are too many handles, or if there is no memory to watch for forks of the process. Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cantle_batch_new() -> *mut cantle_batch {
    quietly(null_mut(), || handle::create(OpenBatch(Mutex::new(Pending::default()))))
}

/// Frees a batch. Does nothing for NULL.
///
/// Ownership: the batch is gone afterwards. Errors: CANTLE_INVALID_ARGUMENT for a handle that is no
/// batch or was freed. Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cantle_batch_free(batch: *mut cantle_batch) -> cantle_status {
    saying(|| handle::free::<OpenBatch>(batch))
}

/// Adds a put. `keyspace` may be NULL for the default one of the store to which the batch is
/// written.
///
/// Ownership: key and value are copied; the keyspace's handle may be freed before the batch is
/// written. Errors: CANTLE_INVALID_ARGUMENT for invalid handles and pointers, and for a key or
/// value that is too long. Threads: one at a time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cantle_batch_put(
    batch: *mut cantle_batch,
    keyspace: *mut cantle_keyspace,
    key: *const c_void,
    key_len: usize,
    value: *const c_void,
    value_len: usize,
    error: *mut *mut cantle_error,
) -> cantle_status {
    // SAFETY: the caller keeps to the header (see `raw`).
    unsafe {
        status(error, || {
            let keyspace = handle::get_or_null::<OpenKeyspace>(keyspace)?;
            let (key, value) = (raw::key(key, key_len)?, raw::value(value, value_len, "value")?);
            with(batch, |Pending { batch, .. }| {
                match keyspace {
                    None => _ = batch.put(key, value),
                    Some(keyspace) => _ = batch.keyspace(&keyspace.keyspace).put(key, value),
                }
                Ok(())
            })
        })
    }
}

/// Adds a delete. `keyspace` may be NULL for the default one of the store to which the batch is
/// written.
///
/// Ownership: the key is copied. Errors: as cantle_batch_put. Threads: one at a time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cantle_batch_delete(
    batch: *mut cantle_batch,
    keyspace: *mut cantle_keyspace,
    key: *const c_void,
    key_len: usize,
    error: *mut *mut cantle_error,
) -> cantle_status {
    // SAFETY: the caller keeps to the header (see `raw`).
    unsafe {
        status(error, || {
            let keyspace = handle::get_or_null::<OpenKeyspace>(keyspace)?;
            let key = raw::key(key, key_len)?;
            with(batch, |Pending { batch, .. }| {
                match keyspace {
                    None => _ = batch.delete(key),
                    Some(keyspace) => _ = batch.keyspace(&keyspace.keyspace).delete(key),
                }
                Ok(())
            })
        })
    }
}

/// Adds the delete of every key of the range (NULL: every key). `keyspace` may be NULL for the
/// default one of the store to which the batch is written.
///
/// Ownership: the range is copied. Errors: as cantle_batch_put; CANTLE_INVALID_ARGUMENT for a
/// prefix in a keyspace with a comparator (for the default keyspace, cantle_write returns this
/// error). Threads: one at a time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cantle_batch_delete_range(
    batch: *mut cantle_batch,
    keyspace: *mut cantle_keyspace,
    range: *const cantle_range,
    error: *mut *mut cantle_error,
) -> cantle_status {
    // SAFETY: the caller keeps to the header (see `raw`).
    unsafe {
        status(error, || {
            let keyspace = handle::get_or_null::<OpenKeyspace>(keyspace)?;
            let keys = keys(range)?;
            with(batch, |Pending { batch, has_prefix }| {
                match keyspace {
                    None => {
                        *has_prefix |= matches!(keys, Keys::Prefix(_));
                        batch.delete_range(keys.bounds(true)?);
                    }
                    Some(keyspace) => {
                        let keyspace = &keyspace.keyspace;
                        let bounds = keys.bounds(is_bytewise(keyspace.comparator_name()))?;
                        batch.keyspace(keyspace).delete_range(bounds);
                    }
                }
                Ok(())
            })
        })
    }
}

/// Appends the operations of `other`, which keeps them. Keys and values are shared, not copied.
///
/// Ownership: both stay the caller's. Errors: CANTLE_INVALID_ARGUMENT for a handle that is no
/// batch, was freed, or is in use by another thread. Threads: one at a time for both.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cantle_batch_append(
    batch: *mut cantle_batch,
    other: *const cantle_batch,
    error: *mut *mut cantle_error,
) -> cantle_status {
    // SAFETY: the caller keeps to the header (see `raw`).
    unsafe {
        status(error, || {
            // Not both at once: they may be the same batch.
            let (added, brings_prefix) = with(other, |other| Ok((other.batch.clone(), other.has_prefix)))?;
            with(batch, |Pending { batch, has_prefix }| {
                batch.append(&added);
                *has_prefix |= brings_prefix;
                Ok(())
            })
        })
    }
}

/// Number of operations in a batch.
///
/// Ownership: nothing changes hands. Errors: 0 for a handle that is no batch, was freed, or is in
/// use. Threads: one at a time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cantle_batch_count(batch: *mut cantle_batch) -> usize {
    quietly(0, || with(batch, |pending| Ok(pending.batch.len())))
}

/// Removes all operations from a batch.
///
/// Ownership: nothing changes hands. Errors: CANTLE_INVALID_ARGUMENT for a handle that is no batch,
/// was freed, or is in use. Threads: one at a time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cantle_batch_clear(batch: *mut cantle_batch) -> cantle_status {
    saying(|| {
        with(batch, |pending| {
            pending.batch.clear();
            pending.has_prefix = false;
            Ok(())
        })
    })
}

/// Applies a batch atomically, over any keys and keyspaces: either all of its operations take
/// effect or none, and readers see all of them or none. `durability` is the least durability of the
/// batch: a cantle_durability, CANTLE_DEFAULT for that of the store. The batch keeps its
/// operations.
///
/// Ownership: the batch stays the caller's. Errors: as cantle_put, and CANTLE_INVALID_ARGUMENT for
/// keyspaces of another store; nothing was written then. An exception is a batch that asks for more
/// durability than the store's: if the checkpoint that follows fails, the batch has taken effect,
/// and is as durable as any other write. Threads: any for the store, one at a time for the batch.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cantle_write(
    db: *mut cantle_db,
    batch: *const cantle_batch,
    durability: c_int,
    error: *mut *mut cantle_error,
) -> cantle_status {
    // SAFETY: the caller keeps to the header (see `raw`).
    unsafe {
        status(error, || {
            callback::check_may_write()?;
            let db = handle::get::<OpenDb>(db)?;
            let options = write_options(durability)?;
            let (batch, has_prefix) = with(batch, |pending| Ok((pending.batch.clone(), pending.has_prefix)))?;
            if has_prefix {
                Keys::Prefix(&[]).bounds(is_bytewise(db.db.comparator_name()))?;
            }
            Ok(db.db.write_with(batch, options)?)
        })
    }
}
