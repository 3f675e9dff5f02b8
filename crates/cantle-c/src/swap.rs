//! Writes that depend on what is there: of a store or keyspace, and of a transaction.

use crate::boundary::status;
use crate::callback;
use crate::db::{Target, cantle_db, on};
use crate::error::cantle_error;
use crate::failure::Outcome;
use crate::keyspace::cantle_keyspace;
use crate::memory::{cantle_free, copy_of};
use crate::raw::{self, Out};
use crate::status::cantle_status;
use crate::transaction::{Within, cantle_transaction, within};
use cantle::{Key, Value};
use std::ffi::{c_char, c_void};
use std::ptr::null_mut;

/// Places for a pair that is returned in two blocks.
struct PairOut {
    key: Out<*mut c_char>,
    key_len: Out<usize>,
    value: Out<*mut c_char>,
    value_len: Out<usize>,
}

impl PairOut {
    /// # Safety
    ///
    /// As for [`Out`].
    unsafe fn new(
        (key, key_len): (*mut *mut c_char, *mut usize),
        (value, value_len): (*mut *mut c_char, *mut usize),
    ) -> Outcome<Self> {
        // SAFETY: as above.
        unsafe {
            let (key_len, value_len) = (Out::optional(key_len, 0), Out::optional(value_len, 0));
            let value = Out::optional(value, null_mut());
            Ok(Self { key: Out::required(key, null_mut(), "key")?, key_len, value, value_len })
        }
    }

    fn set(&self, (key, value): &(Key, Value)) -> Outcome<()> {
        let copy = copy_of(key)?;
        if self.value.is_wanted() {
            match copy_of(value) {
                Ok(value) => self.value.set(value),
                Err(failure) => {
                    // SAFETY: the block is new, and the caller knows nothing of it.
                    unsafe { cantle_free(copy.cast()) };
                    return Err(failure);
                }
            }
        }
        self.key.set(copy);
        self.key_len.set(key.len());
        self.value_len.set(value.len());
        Ok(())
    }
}

/// Returns the pair that `find` gives, if there is one.
///
/// # Safety
///
/// As for [`Out`].
unsafe fn give(
    key: (*mut *mut c_char, *mut usize),
    value: (*mut *mut c_char, *mut usize),
    find: impl FnOnce() -> Outcome<Option<(Key, Value)>>,
) -> Outcome<()> {
    // SAFETY: as above.
    let out = unsafe { PairOut::new(key, value)? };
    find()?.iter().try_for_each(|pair| out.set(pair))
}

/// A value that may be absent.
///
/// # Safety
///
/// As for [`raw::bytes`].
unsafe fn optional<'a>(data: *const c_void, len: usize, what: &str) -> Outcome<Option<&'a [u8]>> {
    // SAFETY: as above.
    unsafe { raw::value(data, len, what).map(|value| (!data.is_null()).then_some(value)) }
}

/// The pair with the least key: in blocks of their own, or NULL if there is no pair. `value` may be
/// NULL if it is not wanted. `keyspace` may be NULL for the default one.
///
/// Ownership: the blocks are the caller's, each to be freed by cantle_free. Errors: as cantle_get.
/// Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cantle_first(
    db: *mut cantle_db,
    keyspace: *mut cantle_keyspace,
    key: *mut *mut c_char,
    key_len: *mut usize,
    value: *mut *mut c_char,
    value_len: *mut usize,
    error: *mut *mut cantle_error,
) -> cantle_status {
    // SAFETY: the caller keeps to the header (see `raw`).
    unsafe {
        status(error, || {
            give((key, key_len), (value, value_len), || {
                let target = Target::of(db, keyspace)?;
                Ok(on!(target, on => on.first())?)
            })
        })
    }
}

/// The pair with the greatest key: in blocks of their own, or NULL if there is no pair. `value` may
/// be NULL if it is not wanted. `keyspace` may be NULL for the default one.
///
/// Ownership: the blocks are the caller's, each to be freed by cantle_free. Errors: as cantle_get.
/// Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cantle_last(
    db: *mut cantle_db,
    keyspace: *mut cantle_keyspace,
    key: *mut *mut c_char,
    key_len: *mut usize,
    value: *mut *mut c_char,
    value_len: *mut usize,
    error: *mut *mut cantle_error,
) -> cantle_status {
    // SAFETY: the caller keeps to the header (see `raw`).
    unsafe {
        status(error, || {
            give((key, key_len), (value, value_len), || {
                let target = Target::of(db, keyspace)?;
                Ok(on!(target, on => on.last())?)
            })
        })
    }
}

/// Removes the pair with the least key, atomically, and returns it as cantle_first does. Each pair
/// is returned to one caller. `keyspace` may be NULL for the default one.
///
/// Ownership: the blocks are the caller's, each to be freed by cantle_free. Errors: as cantle_get
/// and cantle_put. Nothing was removed then, except with CANTLE_OUT_OF_MEMORY, which says that
/// there is no memory for the blocks. Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cantle_pop_first(
    db: *mut cantle_db,
    keyspace: *mut cantle_keyspace,
    key: *mut *mut c_char,
    key_len: *mut usize,
    value: *mut *mut c_char,
    value_len: *mut usize,
    error: *mut *mut cantle_error,
) -> cantle_status {
    // SAFETY: the caller keeps to the header (see `raw`).
    unsafe {
        status(error, || {
            callback::check_may_write()?;
            give((key, key_len), (value, value_len), || {
                let target = Target::of(db, keyspace)?;
                Ok(on!(target, on => on.pop_first())?)
            })
        })
    }
}

/// Removes the pair with the greatest key, atomically, and returns it as cantle_first does. Each
/// pair is returned to one caller. `keyspace` may be NULL for the default one.
///
/// Ownership: the blocks are the caller's, each to be freed by cantle_free. Errors: as cantle_get
/// and cantle_put. Nothing was removed then, except with CANTLE_OUT_OF_MEMORY, which says that
/// there is no memory for the blocks. Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cantle_pop_last(
    db: *mut cantle_db,
    keyspace: *mut cantle_keyspace,
    key: *mut *mut c_char,
    key_len: *mut usize,
    value: *mut *mut c_char,
    value_len: *mut usize,
    error: *mut *mut cantle_error,
) -> cantle_status {
    // SAFETY: the caller keeps to the header (see `raw`).
    unsafe {
        status(error, || {
            callback::check_may_write()?;
            give((key, key_len), (value, value_len), || {
                let target = Target::of(db, keyspace)?;
                Ok(on!(target, on => on.pop_last())?)
            })
        })
    }
}

/// Replaces the key's value by `new_value` if the value is `expected`, atomically. An `expected` of
/// NULL is an absent key, a `new_value` of NULL deletes the key: with `expected` NULL this inserts
/// if absent. `*swapped` says if the value was `expected`. `keyspace` may be NULL for the default
/// one.
///
/// Ownership: key and values are copied. Errors: as cantle_get and cantle_put; `*swapped` is false
/// then. Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cantle_compare_and_swap(
    db: *mut cantle_db,
    keyspace: *mut cantle_keyspace,
    key: *const c_void,
    key_len: usize,
    expected: *const c_void,
    expected_len: usize,
    new_value: *const c_void,
    new_len: usize,
    swapped: *mut bool,
    error: *mut *mut cantle_error,
) -> cantle_status {
    // SAFETY: the caller keeps to the header (see `raw`).
    unsafe {
        status(error, || {
            let swapped = Out::required(swapped, false, "answer whether the value was the expected one")?;
            callback::check_may_write()?;
            let (target, key) = (Target::of(db, keyspace)?, raw::key(key, key_len)?);
            let expected = optional(expected, expected_len, "expected value")?;
            let new = optional(new_value, new_len, "new value")?;
            swapped.set(on!(target, on => on.compare_and_swap(key, expected, new))?);
            Ok(())
        })
    }
}

/// The pair with the least key, as the transaction sees it: as cantle_first gives it.
///
/// Ownership: the blocks are the caller's, each to be freed by cantle_free. Errors: as
/// cantle_transaction_get. Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cantle_transaction_first(
    transaction: *mut cantle_transaction,
    keyspace: *mut cantle_keyspace,
    key: *mut *mut c_char,
    key_len: *mut usize,
    value: *mut *mut c_char,
    value_len: *mut usize,
    error: *mut *mut cantle_error,
) -> cantle_status {
    // SAFETY: the caller keeps to the header (see `raw`).
    unsafe {
        status(error, || {
            give((key, key_len), (value, value_len), || {
                let within = Within::of(transaction, keyspace)?;
                within!(within, on => on.first())
            })
        })
    }
}

/// The pair with the greatest key, as the transaction sees it: as cantle_first gives it.
///
/// Ownership: the blocks are the caller's, each to be freed by cantle_free. Errors: as
/// cantle_transaction_get. Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cantle_transaction_last(
    transaction: *mut cantle_transaction,
    keyspace: *mut cantle_keyspace,
    key: *mut *mut c_char,
    key_len: *mut usize,
    value: *mut *mut c_char,
    value_len: *mut usize,
    error: *mut *mut cantle_error,
) -> cantle_status {
    // SAFETY: the caller keeps to the header (see `raw`).
    unsafe {
        status(error, || {
            give((key, key_len), (value, value_len), || {
                let within = Within::of(transaction, keyspace)?;
                within!(within, on => on.last())
            })
        })
    }
}

/// Removes the pair with the least key when the transaction is committed, and returns it as
/// cantle_first does.
///
/// Ownership: the blocks are the caller's, each to be freed by cantle_free. Errors: as
/// cantle_transaction_get and cantle_transaction_put. Threads: any; two that pop at the same time
/// may get the same pair.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cantle_transaction_pop_first(
    transaction: *mut cantle_transaction,
    keyspace: *mut cantle_keyspace,
    key: *mut *mut c_char,
    key_len: *mut usize,
    value: *mut *mut c_char,
    value_len: *mut usize,
    error: *mut *mut cantle_error,
) -> cantle_status {
    // SAFETY: the caller keeps to the header (see `raw`).
    unsafe {
        status(error, || {
            give((key, key_len), (value, value_len), || {
                let within = Within::of(transaction, keyspace)?;
                within!(within, on => on.pop_first())
            })
        })
    }
}

/// Removes the pair with the greatest key when the transaction is committed, and returns it as
/// cantle_first does.
///
/// Ownership: the blocks are the caller's, each to be freed by cantle_free. Errors: as
/// cantle_transaction_get and cantle_transaction_put. Threads: any; two that pop at the same time
/// may get the same pair.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cantle_transaction_pop_last(
    transaction: *mut cantle_transaction,
    keyspace: *mut cantle_keyspace,
    key: *mut *mut c_char,
    key_len: *mut usize,
    value: *mut *mut c_char,
    value_len: *mut usize,
    error: *mut *mut cantle_error,
) -> cantle_status {
    // SAFETY: the caller keeps to the header (see `raw`).
    unsafe {
        status(error, || {
            give((key, key_len), (value, value_len), || {
                let within = Within::of(transaction, keyspace)?;
                within!(within, on => on.pop_last())
            })
        })
    }
}

/// Replaces the key's value when the transaction is committed, if it is `expected` as the
/// transaction sees it: as cantle_compare_and_swap.
///
/// Ownership: key and values are copied. Errors: as cantle_transaction_get and
/// cantle_transaction_put; `*swapped` is false then. Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cantle_transaction_compare_and_swap(
    transaction: *mut cantle_transaction,
    keyspace: *mut cantle_keyspace,
    key: *const c_void,
    key_len: usize,
    expected: *const c_void,
    expected_len: usize,
    new_value: *const c_void,
    new_len: usize,
    swapped: *mut bool,
    error: *mut *mut cantle_error,
) -> cantle_status {
    // SAFETY: the caller keeps to the header (see `raw`).
    unsafe {
        status(error, || {
            let swapped = Out::required(swapped, false, "answer whether the value was the expected one")?;
            let (within, key) = (Within::of(transaction, keyspace)?, raw::key(key, key_len)?);
            let expected = optional(expected, expected_len, "expected value")?;
            let new = optional(new_value, new_len, "new value")?;
            swapped.set(within!(within, on => on.compare_and_swap(key, expected, new))?);
            Ok(())
        })
    }
}

/// Estimated number of pairs, from counters that maintenance keeps: overwritten and deleted pairs
/// that are not merged yet may count. `keyspace` may be NULL for the default one.
///
/// Ownership: nothing changes hands. Errors: CANTLE_CLOSED, CANTLE_NO_KEYSPACE,
/// CANTLE_INVALID_ARGUMENT; `*pairs` is 0 then. Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cantle_len_estimate(
    db: *mut cantle_db,
    keyspace: *mut cantle_keyspace,
    pairs: *mut u64,
    error: *mut *mut cantle_error,
) -> cantle_status {
    // SAFETY: the caller keeps to the header (see `raw`).
    unsafe {
        status(error, || {
            let pairs = Out::required(pairs, 0, "number of pairs")?;
            let target = Target::of(db, keyspace)?;
            pairs.set(on!(target, on => on.len_estimate())?);
            Ok(())
        })
    }
}
