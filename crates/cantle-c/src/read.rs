//! Look-ups in a store, in a snapshot, and in a transaction. All use the same three functions.

use crate::boundary::status;
use crate::db::{Target, cantle_db, on};
use crate::error::cantle_error;
use crate::failure::Outcome;
use crate::keyspace::cantle_keyspace;
use crate::memory::copy_of;
use crate::raw::{self, Out};
use crate::status::cantle_status;
use std::ffi::{c_char, c_void};
use std::ptr::null_mut;

/// An object in which values are looked up.
pub(crate) trait Lookup {
    /// Calls `read` with the key's value; `None` if the key is absent.
    fn lend<T>(&self, key: &[u8], read: impl FnOnce(&[u8]) -> T) -> Outcome<Option<T>>;
}

impl Lookup for Target {
    #[inline]
    fn lend<T>(&self, key: &[u8], read: impl FnOnce(&[u8]) -> T) -> Outcome<Option<T>> {
        Ok(on!(self, on => on.get_with(key, read))?)
    }
}

/// Returns the value as a new block.
///
/// # Safety
///
/// `key` meets the conditions of [`raw::key`], the other pointers those of [`Out`].
#[inline]
pub(crate) unsafe fn get(
    source: Outcome<impl Lookup>,
    key: *const c_void,
    key_len: usize,
    value: *mut *mut c_char,
    value_len: *mut usize,
) -> Outcome<()> {
    // SAFETY: as above.
    let (value, value_len, key) = unsafe {
        let value_len = Out::optional(value_len, 0);
        (Out::required(value, null_mut(), "value")?, value_len, raw::key(key, key_len)?)
    };
    if let Some(found) = source?.lend(key, |bytes| copy_of(bytes).map(|copy| (copy, bytes.len())))? {
        let (copy, len) = found?;
        value.set(copy);
        value_len.set(len);
    }
    Ok(())
}

/// Copies as much of the value as there is room for, and returns the length of the value.
///
/// # Safety
///
/// As for [`get`], and `buffer` is NULL or has room for `capacity` bytes.
#[inline]
pub(crate) unsafe fn get_into(
    source: Outcome<impl Lookup>,
    key: *const c_void,
    key_len: usize,
    buffer: *mut c_void,
    capacity: usize,
    value_len: *mut usize,
    found: *mut bool,
) -> Outcome<()> {
    // SAFETY: as above.
    let (value_len, found, key) = unsafe {
        let value_len = Out::optional(value_len, 0);
        (value_len, Out::required(found, false, "answer whether the key is there")?, raw::key(key, key_len)?)
    };
    let room = if buffer.is_null() { 0 } else { capacity };
    let len = source?.lend(key, |bytes| {
        let shown = bytes.len().min(room);
        if shown > 0 {
            // SAFETY: `buffer` has room for `shown` bytes, and the value is the library's own memory.
            unsafe { buffer.cast::<u8>().copy_from_nonoverlapping(bytes.as_ptr(), shown) }
        }
        bytes.len()
    })?;
    if let Some(len) = len {
        value_len.set(len);
        found.set(true);
    }
    Ok(())
}

/// Tests if the key has a value.
///
/// # Safety
///
/// As for [`get`].
pub(crate) unsafe fn contains(
    source: Outcome<impl Lookup>,
    key: *const c_void,
    key_len: usize,
    found: *mut bool,
) -> Outcome<()> {
    // SAFETY: as above.
    unsafe { get_into(source, key, key_len, null_mut(), 0, null_mut(), found) }
}

/// Returns the key's value, in a new block and followed by a zero byte that does not count.
/// `*value` is NULL if the key is absent, which is no error. Never waits for writers. `keyspace`
/// may be NULL for the default one, and `value_len` may be NULL.
///
/// Ownership: the block is the caller's, to be freed by cantle_free. Errors: CANTLE_CORRUPTION if
/// the read needs damaged bytes; other keys stay readable; CANTLE_IO, CANTLE_CLOSED,
/// CANTLE_NO_KEYSPACE, CANTLE_INVALID_ARGUMENT, CANTLE_OUT_OF_MEMORY. `*value` is NULL then.
/// Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cantle_get(
    db: *mut cantle_db,
    keyspace: *mut cantle_keyspace,
    key: *const c_void,
    key_len: usize,
    value: *mut *mut c_char,
    value_len: *mut usize,
    error: *mut *mut cantle_error,
) -> cantle_status {
    // SAFETY: the caller keeps to the header (see `raw`).
    unsafe { status(error, || get(Target::of(db, keyspace), key, key_len, value, value_len)) }
}

/// Copies the key's value into the caller's buffer. `*found` is true if the key has a value, and
/// `*value_len` is the length of the value; `value_len` may be NULL. If the length is more than
/// `capacity`, the buffer has the first `capacity` bytes. `buffer` may be NULL, to ask for the
/// length.
///
/// Ownership: the buffer stays the caller's. Errors: as cantle_get. Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cantle_get_into(
    db: *mut cantle_db,
    keyspace: *mut cantle_keyspace,
    key: *const c_void,
    key_len: usize,
    buffer: *mut c_void,
    capacity: usize,
    value_len: *mut usize,
    found: *mut bool,
    error: *mut *mut cantle_error,
) -> cantle_status {
    // SAFETY: the caller keeps to the header (see `raw`).
    unsafe {
        status(error, || get_into(Target::of(db, keyspace), key, key_len, buffer, capacity, value_len, found))
    }
}

/// Tests if the key has a value: `*found` is true then.
///
/// Ownership: nothing changes hands. Errors: as cantle_get; `*found` is false then. Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cantle_contains(
    db: *mut cantle_db,
    keyspace: *mut cantle_keyspace,
    key: *const c_void,
    key_len: usize,
    found: *mut bool,
    error: *mut *mut cantle_error,
) -> cantle_status {
    // SAFETY: the caller keeps to the header (see `raw`).
    unsafe { status(error, || contains(Target::of(db, keyspace), key, key_len, found)) }
}
