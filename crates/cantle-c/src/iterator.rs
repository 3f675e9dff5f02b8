//! A movable position among the pairs of a range.

use crate::bound::{Bounds, Keys, cantle_range, cantle_slice, keys};
use crate::boundary::{quietly, saying, value};
use crate::db::{Target, cantle_db, is_bytewise, on};
use crate::error::cantle_error;
use crate::failure::{Failure, Outcome};
use crate::handle::{self, Object};
use crate::keyspace::{OpenKeyspace, cantle_keyspace};
use crate::raw::{self, Out};
use crate::snapshot::{OpenSnapshot, cantle_snapshot};
use crate::status::*;
use crate::transaction::{OpenTransaction, cantle_transaction};
use cantle::Cursor;
use parking_lot::{Mutex, MutexGuard};
use std::ffi::c_void;
use std::ops::Bound;
use std::ptr::null_mut;

/// A position among the pairs of a range, as of one moment, which moves in both directions. It may
/// stay open for hours without hindering other calls. Freed by cantle_iterator_free. For one thread
/// at a time: another one gets CANTLE_INVALID_ARGUMENT.
pub struct cantle_iterator {
    _opaque: [u8; 0],
}

struct Position {
    cursor: Cursor,
    /// The prefix of the keys to return, in a keyspace with a comparator: its keys with a prefix
    /// may be anywhere, and others are skipped.
    prefix: Option<Vec<u8>>,
    /// True until the first movement: the iterator stands before the first pair and after the last.
    fresh: bool,
    /// Outcome of the last movement.
    status: cantle_status,
}

struct OpenIterator(Mutex<Position>);

impl Object for OpenIterator {
    type Opaque = cantle_iterator;
    const NAME: &'static str = "cantle_iterator";
    const OF_A_STORE: bool = true;
}

#[derive(Clone, Copy)]
enum Move<'a> {
    First,
    Last,
    Next,
    Prev,
    Seek(&'a [u8]),
}

impl Position {
    fn go(&mut self, step: Move<'_>) -> cantle::Result<bool> {
        let step = match step {
            Move::Next if self.fresh => Move::First,
            Move::Prev if self.fresh => Move::Last,
            step => step,
        };
        self.fresh = false;
        let cursor = &mut self.cursor;
        let mut found = match step {
            Move::First => cursor.seek_to_first()?,
            Move::Last => cursor.seek_to_last()?,
            Move::Next => cursor.next()?,
            Move::Prev => cursor.prev()?,
            Move::Seek(key) => cursor.seek(key)?,
        };
        if let Some(prefix) = &self.prefix {
            while found && !cursor.key().is_some_and(|key| key.starts_with(prefix)) {
                found =
                    if matches!(step, Move::Last | Move::Prev) { cursor.prev()? } else { cursor.next()? };
            }
        }
        Ok(found)
    }

    /// The pair under the iterator.
    fn pair(&self) -> Option<(&[u8], &[u8])> {
        let pair = self.cursor.key().zip(self.cursor.value())?;
        // There is none after an error, and if only keys without the prefix were left.
        if self.status != CANTLE_OK || self.prefix.as_ref().is_some_and(|prefix| !pair.0.starts_with(prefix))
        {
            return None;
        }
        Some(pair)
    }
}

fn alone(iterator: &OpenIterator) -> Outcome<MutexGuard<'_, Position>> {
    iterator.0.try_lock().ok_or_else(|| Failure::invalid("the cantle_iterator is in use by another thread"))
}

/// Creates an iterator; `cursor` makes its cursor from bounds.
fn new(
    keys: Keys<'_>,
    bytewise: bool,
    cursor: impl FnOnce(Bounds) -> Outcome<Cursor>,
) -> Outcome<*mut cantle_iterator> {
    let (bounds, prefix) = match keys {
        Keys::Prefix(prefix) if !bytewise => ((Bound::Unbounded, Bound::Unbounded), Some(prefix.to_vec())),
        keys => (keys.bounds(bytewise)?, None),
    };
    let position = Position { cursor: cursor(bounds)?, prefix, fresh: true, status: CANTLE_OK };
    handle::create(OpenIterator(Mutex::new(position)))
}

/// Moves, and returns the pair that is there.
///
/// # Safety
///
/// The places of the results meet the conditions of [`Out`].
unsafe fn go(
    iterator: *mut cantle_iterator,
    step: Outcome<Move<'_>>,
    key: *mut cantle_slice,
    pair_value: *mut cantle_slice,
    error: *mut *mut cantle_error,
) -> bool {
    // SAFETY: as above.
    unsafe {
        value(error, false, || {
            let key = Out::optional(key, cantle_slice::NONE);
            let pair_value = Out::optional(pair_value, cantle_slice::NONE);
            let iterator = handle::get::<OpenIterator>(iterator)?;
            let mut position = alone(&iterator)?;
            let moved = step.and_then(|step| Ok(position.go(step)?));
            position.status = moved.as_ref().err().map_or(CANTLE_OK, |failure: &Failure| failure.0.status);
            if !moved? {
                return Ok(false);
            }
            let Some((found_key, found_value)) = position.pair() else { return Ok(false) };
            key.set(cantle_slice::of(found_key));
            pair_value.set(cantle_slice::of(found_value));
            Ok(true)
        })
    }
}

/// Creates an iterator over the range (NULL: every key) as of now. `keyspace` may be NULL for the
/// default one. The iterator stands before the first pair and after the last: its first movement
/// decides.
///
/// Ownership: the iterator is the caller's, to be freed by cantle_iterator_free, also after
/// cantle_close; the range is copied. Errors: NULL and CANTLE_INVALID_ARGUMENT for invalid handles
/// and ranges; other errors come with the first movement. Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cantle_iterator_new(
    db: *mut cantle_db,
    keyspace: *mut cantle_keyspace,
    range: *const cantle_range,
    error: *mut *mut cantle_error,
) -> *mut cantle_iterator {
    // SAFETY: the caller keeps to the header (see `raw`).
    unsafe {
        value(error, null_mut(), || {
            let (target, keys) = (Target::of(db, keyspace)?, keys(range)?);
            on!(target, on => new(keys, is_bytewise(on.comparator_name()), |bounds| Ok(on.cursor(bounds))))
        })
    }
}

/// Creates an iterator over the range (NULL: every key) of a snapshot. `keyspace` may be NULL for
/// the default one.
///
/// Ownership: as cantle_iterator_new; the snapshot may be freed before the iterator. Errors: as
/// cantle_iterator_new. Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cantle_snapshot_iterator(
    snapshot: *mut cantle_snapshot,
    keyspace: *mut cantle_keyspace,
    range: *const cantle_range,
    error: *mut *mut cantle_error,
) -> *mut cantle_iterator {
    // SAFETY: the caller keeps to the header (see `raw`).
    unsafe {
        value(error, null_mut(), || {
            let snapshot = handle::get::<OpenSnapshot>(snapshot)?;
            let keyspace = handle::get_or_null::<OpenKeyspace>(keyspace)?;
            let keys = keys(range)?;
            match keyspace {
                None => new(keys, snapshot.bytewise, |bounds| Ok(snapshot.snapshot.cursor(bounds))),
                Some(keyspace) => {
                    let keyspace = &keyspace.keyspace;
                    let bytewise = is_bytewise(keyspace.comparator_name());
                    new(keys, bytewise, |bounds| Ok(snapshot.snapshot.keyspace(keyspace).cursor(bounds)))
                }
            }
        })
    }
}

/// Creates an iterator over the range (NULL: every key) as a transaction sees it, with the writes
/// made up to now. Pairs that it moves across count as read. Once the transaction is over, the
/// iterator returns CANTLE_INVALID_ARGUMENT. `keyspace` may be NULL for the default one.
///
/// Ownership: as cantle_iterator_new; the iterator may be freed before the transaction ends or
/// after. Errors: as cantle_iterator_new. Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cantle_transaction_iterator(
    transaction: *mut cantle_transaction,
    keyspace: *mut cantle_keyspace,
    range: *const cantle_range,
    error: *mut *mut cantle_error,
) -> *mut cantle_iterator {
    // SAFETY: the caller keeps to the header (see `raw`).
    unsafe {
        value(error, null_mut(), || {
            let transaction = handle::get::<OpenTransaction>(transaction)?;
            let keyspace = handle::get_or_null::<OpenKeyspace>(keyspace)?;
            let keyspace = keyspace.as_ref().map(|keyspace| &keyspace.keyspace);
            let keys = keys(range)?;
            new(keys, transaction.is_bytewise(keyspace), |bounds| {
                transaction.with(|transaction| {
                    Ok(match keyspace {
                        None => transaction.cursor(bounds),
                        Some(keyspace) => transaction.keyspace(keyspace).cursor(bounds),
                    })
                })
            })
        })
    }
}

/// Frees an iterator. Does nothing for NULL.
///
/// Ownership: the iterator, its keys and its values are gone afterwards. Errors:
/// CANTLE_INVALID_ARGUMENT for a handle that is no iterator or was freed. Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cantle_iterator_free(iterator: *mut cantle_iterator) -> cantle_status {
    saying(|| handle::free::<OpenIterator>(iterator))
}

/// Moves to the next pair; a new iterator moves to the first. Returns true if there is a pair, with
/// its key and value; `key` and `value` may be NULL. After the last pair the iterator stays there;
/// cantle_iterator_last leads back.
///
/// Ownership: key and value are the iterator's, until it moves again or is freed. Errors: false, as
/// at the end; then `*error` is set, and cantle_iterator_status returns the same status:
/// CANTLE_CORRUPTION, CANTLE_IO, CANTLE_CLOSED, CANTLE_NO_KEYSPACE, CANTLE_INVALID_ARGUMENT.
/// Threads: one at a time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cantle_iterator_next(
    iterator: *mut cantle_iterator,
    key: *mut cantle_slice,
    value: *mut cantle_slice,
    error: *mut *mut cantle_error,
) -> bool {
    // SAFETY: the caller keeps to the header (see `raw`).
    unsafe { go(iterator, Ok(Move::Next), key, value, error) }
}

/// Moves to the previous pair; a new iterator moves to the last.
///
/// Ownership: as cantle_iterator_next. Errors: as cantle_iterator_next. Threads: one at a time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cantle_iterator_prev(
    iterator: *mut cantle_iterator,
    key: *mut cantle_slice,
    value: *mut cantle_slice,
    error: *mut *mut cantle_error,
) -> bool {
    // SAFETY: the caller keeps to the header (see `raw`).
    unsafe { go(iterator, Ok(Move::Prev), key, value, error) }
}

/// Moves to the first pair.
///
/// Ownership: as cantle_iterator_next. Errors: as cantle_iterator_next. Threads: one at a time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cantle_iterator_first(
    iterator: *mut cantle_iterator,
    key: *mut cantle_slice,
    value: *mut cantle_slice,
    error: *mut *mut cantle_error,
) -> bool {
    // SAFETY: the caller keeps to the header (see `raw`).
    unsafe { go(iterator, Ok(Move::First), key, value, error) }
}

/// Moves to the last pair.
///
/// Ownership: as cantle_iterator_next. Errors: as cantle_iterator_next. Threads: one at a time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cantle_iterator_last(
    iterator: *mut cantle_iterator,
    key: *mut cantle_slice,
    value: *mut cantle_slice,
    error: *mut *mut cantle_error,
) -> bool {
    // SAFETY: the caller keeps to the header (see `raw`).
    unsafe { go(iterator, Ok(Move::Last), key, value, error) }
}

/// Moves to the first pair at or after `target`.
///
/// Ownership: as cantle_iterator_next; the target stays the caller's. Errors: as cantle_iterator_next. Threads: one at a time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cantle_iterator_seek(
    iterator: *mut cantle_iterator,
    target: *const c_void,
    target_len: usize,
    key: *mut cantle_slice,
    value: *mut cantle_slice,
    error: *mut *mut cantle_error,
) -> bool {
    // SAFETY: the caller keeps to the header (see `raw`).
    unsafe { go(iterator, raw::bound(target, target_len, "key").map(Move::Seek), key, value, error) }
}

/// The pair under the iterator, as of its last movement. Returns true if there is a pair, with its
/// key and value; `key` and `value` may be NULL.
///
/// Ownership: key and value are the iterator's, until it moves again or is freed. Errors: false for
/// a handle that is no iterator, was freed, or is in use. Threads: one at a time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cantle_iterator_pair(
    iterator: *mut cantle_iterator,
    key: *mut cantle_slice,
    value: *mut cantle_slice,
) -> bool {
    // SAFETY: the caller keeps to the header (see `raw`).
    let (key, value) =
        unsafe { (Out::optional(key, cantle_slice::NONE), Out::optional(value, cantle_slice::NONE)) };
    quietly(false, || {
        let iterator = handle::get::<OpenIterator>(iterator)?;
        let position = alone(&iterator)?;
        let Some((found_key, found_value)) = position.pair() else { return Ok(false) };
        key.set(cantle_slice::of(found_key));
        value.set(cantle_slice::of(found_value));
        Ok(true)
    })
}

/// Status of the last movement: CANTLE_OK, also if there was no pair any more, or the reason why it
/// failed.
///
/// Ownership: nothing changes hands. Errors: CANTLE_INVALID_ARGUMENT for a handle that is no
/// iterator, was freed, or is in use; CANTLE_FORKED. Threads: one at a time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cantle_iterator_status(iterator: *mut cantle_iterator) -> cantle_status {
    quietly(CANTLE_INTERNAL, || {
        let status = handle::get::<OpenIterator>(iterator).and_then(|iterator| Ok(alone(&iterator)?.status));
        Ok(status.unwrap_or_else(|failure| failure.0.status))
    })
}
