//! Look-ups in a store, in a snapshot, and in a transaction. All use the same four functions.

use crate::bound::cantle_slice;
use crate::boundary::{give_up, lend_error, status};
use crate::db::{OpenDb, Target, cantle_db, on};
use crate::error::cantle_error;
use crate::failure::{Failure, Outcome};
use crate::handle::{self, Object, OfProcess};
use crate::keyspace::cantle_keyspace;
use crate::memory::copy_of;
use crate::raw::{self, Out};
use crate::snapshot::lend_many_at;
use crate::status::*;
use cantle::Error;
use cantle_bindings::Process;
use std::ffi::{c_char, c_void};
use std::ptr::{null, null_mut};

/// Receives the value of one key of cantle_get_many, cantle_snapshot_get_many or
/// cantle_transaction_get_many. `number` is the place of the key in the array, from 0. If the key
/// was read, `status` is CANTLE_OK and `error` is NULL; `value` has `value_len` bytes, or is NULL if
/// the key is absent. If the read failed, `value` is NULL, and `status` and `error` give the reason.
/// Value and error belong to the library and end with the call of the callback. The callback may
/// read and write stores, but it cannot end the transaction whose read calls it: this gives
/// CANTLE_INVALID_ARGUMENT. It must neither throw nor jump out.
pub type cantle_get_many_fn = Option<
    unsafe extern "C" fn(
        user: *mut c_void,
        number: usize,
        status: cantle_status,
        value: *const c_char,
        value_len: usize,
        error: *const cantle_error,
    ),
>;

/// An object in which values are looked up.
pub(crate) trait Lookup {
    /// The name of the type of its handle.
    const HANDLE: &'static str;

    /// Calls `read` with the key's value; `None` if the key is absent.
    fn lend<T>(&self, key: &[u8], read: impl FnOnce(&[u8]) -> T) -> Outcome<Option<T>>;

    /// Calls `read` with the number of each key and its value, in any order.
    fn lend_many(
        &self,
        keys: &[&[u8]],
        read: impl FnMut(usize, cantle::Result<Option<&[u8]>>),
    ) -> Outcome<()>;
}

impl Lookup for Target {
    const HANDLE: &'static str = OpenDb::NAME;

    #[inline]
    fn lend<T>(&self, key: &[u8], read: impl FnOnce(&[u8]) -> T) -> Outcome<Option<T>> {
        Ok(on!(self, on => on.get_with(key, read))?)
    }

    /// As `Db::get_many_with`, with a snapshot that a forked child does not drop.
    fn lend_many(
        &self,
        keys: &[&[u8]],
        read: impl FnMut(usize, cantle::Result<Option<&[u8]>>),
    ) -> Outcome<()> {
        let now = OfProcess::new(self.db.db.snapshot());
        lend_many_at(&now, self.keyspace.as_deref(), keys, read);
        Ok(())
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

/// Calls `receive` with each key's value. Returns the error of the failed key with the lowest number.
///
/// # Safety
///
/// `keys` meets the conditions of [`raw::keys`], and `receive` keeps to its type's contract.
pub(crate) unsafe fn get_many<S: Lookup>(
    source: Outcome<S>,
    keys: *const cantle_slice,
    count: usize,
    receive: cantle_get_many_fn,
    user: *mut c_void,
) -> Outcome<()> {
    let source = source?;
    // SAFETY: as above.
    let keys = unsafe { raw::keys(keys, count)? };
    let receive = receive.ok_or_else(|| Failure::invalid("the function that receives the values is NULL"))?;
    let process = Process::current();
    let mut failed: Option<(usize, Error)> = None;
    source.lend_many(&keys, |number, found| {
        match found {
            Ok(value) => {
                let (data, len) = value.map_or((null(), 0), |value| (value.as_ptr().cast(), value.len()));
                // SAFETY: as above.
                unsafe { receive(user, number, CANTLE_OK, data, len, null()) }
            }
            Err(error) => {
                lend_error(error.clone().into(), |status, error| {
                    // SAFETY: as above.
                    unsafe { receive(user, number, status, null(), 0, error) }
                });
                if failed.as_ref().is_none_or(|(first, _)| number < *first) {
                    failed = Some((number, error));
                }
            }
        }
        if !process.is_current() {
            give_up(handle::forked(S::HANDLE));
        }
    })?;
    failed.map_or(Ok(()), |(_, error)| Err(error.into()))
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

/// Reads the values of `count` keys, all as of one moment, and calls `receive` with `user` and the
/// value of each key: once for each key, in any order. The device reads for many keys at the same
/// time: keys that are in no cache take a fraction of the time that as many calls of cantle_get
/// take. This call does not see what `receive` writes. `count` is at most 16,777,216; `keys` may be
/// NULL if it is 0. `keyspace` may be NULL for the default one.
///
/// Ownership: the keys stay the caller's, and must not change during the call; values and errors are
/// the library's, and `receive` has them for its call only; `user` stays the caller's. Errors:
/// CANTLE_INVALID_ARGUMENT for invalid handles, without `receive`, and if there are too many keys or
/// one of them is too long or NULL, and CANTLE_OUT_OF_MEMORY: `receive` was not called then.
/// Otherwise each key fails by itself, as cantle_get does, and `receive` is called for all of them.
/// If keys failed, the call returns the error of the one with the lowest number. CANTLE_FORKED in a
/// child that was forked by `receive`. Threads: any; `receive` is called in this thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cantle_get_many(
    db: *mut cantle_db,
    keyspace: *mut cantle_keyspace,
    keys: *const cantle_slice,
    count: usize,
    receive: cantle_get_many_fn,
    user: *mut c_void,
    error: *mut *mut cantle_error,
) -> cantle_status {
    // SAFETY: the caller keeps to the header (see `raw`); `receive` keeps to its type's contract.
    unsafe { status(error, || get_many(Target::of(db, keyspace), keys, count, receive, user)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fails for each key that begins with `!`, with the key as the message. Passes on the keys in reverse
    /// order.
    struct Failing;

    impl Lookup for Failing {
        const HANDLE: &'static str = "failing";

        fn lend<T>(&self, _: &[u8], _: impl FnOnce(&[u8]) -> T) -> Outcome<Option<T>> {
            Ok(None)
        }

        fn lend_many(
            &self,
            keys: &[&[u8]],
            mut read: impl FnMut(usize, cantle::Result<Option<&[u8]>>),
        ) -> Outcome<()> {
            for (number, key) in keys.iter().enumerate().rev() {
                read(
                    number,
                    match key.first() {
                        Some(b'!') => Err(Error::InvalidArgument(String::from_utf8_lossy(key).into_owned())),
                        _ => Ok(Some(key)),
                    },
                );
            }
            Ok(())
        }
    }

    /// Numbers of the keys, each with the text of its value or the message of its error.
    type Received = Vec<(usize, String)>;

    unsafe extern "C" fn receive(
        user: *mut c_void,
        number: usize,
        status: cantle_status,
        value: *const c_char,
        value_len: usize,
        error: *const cantle_error,
    ) {
        // SAFETY: `user` is a `Received`, the value has this length, and the error is there.
        unsafe {
            let text = match status {
                CANTLE_OK => String::from_utf8_lossy(std::slice::from_raw_parts(value.cast(), value_len)),
                _ => std::ffi::CStr::from_ptr(crate::error::cantle_error_message(error)).to_string_lossy(),
            };
            (*user.cast::<Received>()).push((number, text.into_owned()));
        }
    }

    /// The keys of one block have the same error, so that programs cannot see whose error it is.
    #[test]
    fn the_error_of_many_keys_is_that_of_the_failed_key_with_the_lowest_number() {
        let keys = [&b"a"[..], b"!b", b"c", b"!d"].map(cantle_slice::of);
        let mut received = Received::new();
        // SAFETY: the keys are there, and `receive` has the type of `user`.
        let outcome = unsafe {
            let user = (&raw mut received).cast();
            get_many(Ok(Failing), keys.as_ptr(), keys.len(), Some(receive), user)
        };
        assert_eq!(outcome.unwrap_err().0.message, "invalid argument: !b");
        let texts = ["invalid argument: !d", "c", "invalid argument: !b", "a"].map(String::from);
        assert_eq!(received, [3, 2, 1, 0].into_iter().zip(texts).collect::<Received>());
    }
}
