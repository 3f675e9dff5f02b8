//! Writes of single keys and ranges, and maintenance of ranges.

use crate::bound::{cantle_range, keys};
use crate::boundary::{give_up, status};
use crate::callback;
use crate::db::{Target, cantle_db, is_bytewise, on};
use crate::error::cantle_error;
use crate::failure::Failure;
use crate::handle;
use crate::keyspace::cantle_keyspace;
use crate::memory::copy_of;
use crate::raw::{self, Out};
use crate::status::cantle_status;
use cantle_bindings::Process;
use std::ffi::{c_char, c_void};
use std::ptr::{null, null_mut};

/// Computes a key's new value from its old one, which is NULL if the key is absent. Returns the
/// address of the new value and writes its length to `new_len` (0 at first); NULL deletes the key.
/// The bytes belong to the callback, and must stay until it is called again or cantle_update
/// returns. The callback may be called several times. It may read the store, but not write to one;
/// it must neither throw nor jump out.
pub type cantle_update_fn = Option<
    unsafe extern "C" fn(
        user: *mut c_void,
        old_value: *const c_char,
        old_len: usize,
        new_len: *mut usize,
    ) -> *const c_char,
>;

/// Stores a pair, and replaces the key's previous value. `keyspace` may be NULL for the default
/// one. Keys have at most 1 MiB, values at most 1 GiB; a key or value of 0 bytes may be NULL. Use
/// cantle_write for more durability than the store's.
///
/// Ownership: key and value are copied. Errors: CANTLE_INVALID_ARGUMENT for a key or value that is
/// too long, CANTLE_NO_SPACE, CANTLE_READ_ONLY, CANTLE_CLOSED, CANTLE_NO_KEYSPACE, CANTLE_IO.
/// Nothing was written then, unless the message says that a sync failed: in this case the next
/// opening shows if the write took effect. Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cantle_put(
    db: *mut cantle_db,
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
            callback::check_may_write()?;
            let target = Target::of(db, keyspace)?;
            let (key, value) = (raw::key(key, key_len)?, raw::value(value, value_len, "value")?);
            Ok(on!(target, on => on.put(key, value))?)
        })
    }
}

/// Removes a key, if it is there. `keyspace` may be NULL for the default one.
///
/// Ownership: the key is copied. Errors: as cantle_put, but deletes succeed for longer on a full
/// disk. Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cantle_delete(
    db: *mut cantle_db,
    keyspace: *mut cantle_keyspace,
    key: *const c_void,
    key_len: usize,
    error: *mut *mut cantle_error,
) -> cantle_status {
    // SAFETY: the caller keeps to the header (see `raw`).
    unsafe {
        status(error, || {
            callback::check_may_write()?;
            let target = Target::of(db, keyspace)?;
            let key = raw::key(key, key_len)?;
            Ok(on!(target, on => on.delete(key))?)
        })
    }
}

/// Removes every key of the range (NULL: every key), atomically. `keyspace` may be NULL for the default one.
///
/// Ownership: the range is copied. Errors: as cantle_delete; CANTLE_INVALID_ARGUMENT for a prefix in a keyspace with a comparator.
/// Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cantle_delete_range(
    db: *mut cantle_db,
    keyspace: *mut cantle_keyspace,
    range: *const cantle_range,
    error: *mut *mut cantle_error,
) -> cantle_status {
    // SAFETY: the caller keeps to the header (see `raw`).
    unsafe {
        status(error, || {
            callback::check_may_write()?;
            let (target, keys) = (Target::of(db, keyspace)?, keys(range)?);
            Ok(on!(target, on => on.delete_range(keys.bounds(is_bytewise(on.comparator_name()))?))?)
        })
    }
}

/// Replaces the key's value by the result of `change`, atomically; `change` is called with `user`.
/// If `value` is not NULL it gets the new value in a new block, or NULL if the key was deleted, and
/// `value_len` (which may be NULL) its length. `keyspace` may be NULL for the default one.
///
/// Ownership: the key is copied, and so is the result of `change`; `user` stays the caller's; the
/// block is the caller's, to be freed by cantle_free. Errors: as cantle_get and cantle_put;
/// CANTLE_INVALID_ARGUMENT without `change`, for a new value that is too long, and from within
/// another callback of cantle_update; CANTLE_FORKED in a child that was forked by `change`. Nothing
/// was written then, except with CANTLE_OUT_OF_MEMORY, which says that there is no memory for the
/// block: the new value is in the store. Threads: any; `change` is called in this thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cantle_update(
    db: *mut cantle_db,
    keyspace: *mut cantle_keyspace,
    key: *const c_void,
    key_len: usize,
    change: cantle_update_fn,
    user: *mut c_void,
    value: *mut *mut c_char,
    value_len: *mut usize,
    error: *mut *mut cantle_error,
) -> cantle_status {
    // SAFETY: the caller keeps to the header (see `raw`); `change` keeps to its type's contract.
    unsafe {
        status(error, || {
            let (value, value_len) = (Out::optional(value, null_mut()), Out::optional(value_len, 0));
            callback::check_may_write()?;
            let target = Target::of(db, keyspace)?;
            let key = raw::key(key, key_len)?;
            let change =
                change.ok_or_else(|| Failure::invalid("the function that changes the value is NULL"))?;
            let process = Process::current();
            let changed = |old: Option<&[u8]>| {
                let (data, len) = old.map_or((null(), 0), |old| (old.as_ptr().cast(), old.len()));
                let mut new_len = 0;
                let new = callback::without_writes(|| change(user, data, len, &mut new_len));
                if !process.is_current() {
                    give_up(handle::forked("cantle_db"));
                }
                if new.is_null() {
                    return None;
                }
                match raw::value(new.cast(), new_len, "new value") {
                    Ok(new) => Some(new.to_vec()),
                    Err(failure) => give_up(failure),
                }
            };
            let new = on!(target, on => on.update(key, changed))?;
            if let (Some(new), true) = (new, value.is_wanted() || value_len.is_wanted()) {
                if value.is_wanted() {
                    value.set(copy_of(&new)?);
                }
                value_len.set(new.len());
            }
            Ok(())
        })
    }
}

/// Approximate number of bytes on disk that the keys of the range (NULL: every key) take, garbage
/// included. Reads indexes, and at most two blocks of pairs for each table.
///
/// Ownership: nothing changes hands. Errors: CANTLE_CLOSED, CANTLE_NO_KEYSPACE, CANTLE_INVALID_ARGUMENT; `*bytes` is 0 then. Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cantle_approximate_bytes(
    db: *mut cantle_db,
    keyspace: *mut cantle_keyspace,
    range: *const cantle_range,
    bytes: *mut u64,
    error: *mut *mut cantle_error,
) -> cantle_status {
    // SAFETY: the caller keeps to the header (see `raw`).
    unsafe {
        status(error, || {
            let bytes = Out::required(bytes, 0, "number of bytes")?;
            let (target, keys) = (Target::of(db, keyspace)?, keys(range)?);
            let found =
                on!(target, on => on.approximate_bytes(keys.bounds(is_bytewise(on.comparator_name()))?))?;
            bytes.set(found);
            Ok(())
        })
    }
}

/// Sorts everything within the range (NULL: every key) and removes garbage, now, in the calling
/// thread. Never necessary. Afterwards the range takes as little disk space as possible.
///
/// Ownership: nothing changes hands. Errors: as cantle_put and cantle_sync. Threads: any; other
/// calls continue meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cantle_compact_range(
    db: *mut cantle_db,
    keyspace: *mut cantle_keyspace,
    range: *const cantle_range,
    error: *mut *mut cantle_error,
) -> cantle_status {
    // SAFETY: the caller keeps to the header (see `raw`).
    unsafe {
        status(error, || {
            callback::check_may_write()?;
            let (target, keys) = (Target::of(db, keyspace)?, keys(range)?);
            Ok(on!(target, on => on.compact_range(keys.bounds(is_bytewise(on.comparator_name()))?))?)
        })
    }
}
