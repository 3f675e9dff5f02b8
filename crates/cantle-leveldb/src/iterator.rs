//! Iterators over a database as it was when they were created.
//!
//! A movement publishes the addresses of key and value, so that reading them takes no lock. They
//! are valid until the next movement.
//!
//! Thread safety: as in LevelDB, one thread at a time uses an iterator; its database may be closed
//! at any time.

use crate::bytes::lent;
use crate::call::{opaque, quietly, save};
use crate::database::{Lending, TakeBack, database, leveldb_t};
use crate::handles::{Handles, Kind};
use crate::read_options::{leveldb_readoptions_t, snapshot_to_read};
use crate::snapshot::with_snapshot;
use crate::status::{Result, Status};
use cantle::Cursor;
use parking_lot::Mutex;
use std::ffi::c_char;
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Weak};

opaque! {
    /// A position among the pairs of a database.
    leveldb_iterator_t,
}

static ITERATORS: Handles<Iterating> = Handles::new(Kind::Iterator);

struct Iterating {
    position: Arc<Position>,
    /// `None` if the cursor could not be created.
    loan: Option<(Arc<Lending>, u64)>,
}

#[derive(Default)]
struct Position {
    state: Mutex<State>,
    view: View,
}

/// The pair at the position, as programs may read it (`leveldb_cantle_view_t`).
#[repr(C)]
#[derive(Default)]
pub struct View {
    key: Place,
    value: Place,
    is_valid: AtomicBool,
}

#[derive(Default)]
struct State {
    cursor: Option<Cursor>,
    error: Option<Status>,
}

/// Address and length of bytes that belong to the cursor.
#[repr(C)]
#[derive(Default)]
struct Place {
    start: AtomicPtr<u8>,
    length: AtomicUsize,
}

impl Place {
    fn publish(&self, bytes: &[u8]) {
        self.start.store(bytes.as_ptr().cast_mut(), Relaxed);
        self.length.store(bytes.len(), Relaxed);
    }
}

impl TakeBack for Position {
    fn take_back(&self) {
        let mut state = self.state.lock();
        self.view.is_valid.store(false, Relaxed);
        state.cursor = None;
        state.error.get_or_insert_with(Status::closed);
    }
}

impl Position {
    fn go(&self, movement: impl FnOnce(&mut Cursor) -> cantle::Result<bool>) {
        let State { cursor, error } = &mut *self.state.lock();
        let Some(cursor) = cursor else { return };
        let moved = match movement(cursor) {
            Ok(true) => cursor.pair(),
            Ok(false) => None,
            Err(failure) => {
                *error = Some(failure.into());
                self.view.is_valid.store(false, Relaxed);
                return;
            }
        };
        *error = None;
        if let Some((key, value)) = moved {
            self.view.key.publish(key);
            self.view.value.publish(value);
        }
        self.view.is_valid.store(moved.is_some(), Relaxed);
    }

    fn fail(&self, status: Status) {
        self.view.is_valid.store(false, Relaxed);
        self.state.lock().error = Some(status);
    }
}

impl Iterating {
    /// Returns an error in a process that was forked from the one that opened the database: a
    /// thread that does not exist there may hold the lock.
    #[inline]
    fn check_process(&self) -> Result<()> {
        self.loan.as_ref().map_or(Ok(()), |(lending, _)| lending.check_process())
    }
}

/// Moves an iterator.
///
/// # Safety
///
/// No thread destroys it during the call.
#[inline]
unsafe fn go(iterator: *mut leveldb_iterator_t, movement: impl FnOnce(&mut Cursor) -> cantle::Result<bool>) {
    quietly((), || {
        // SAFETY: as the caller promises.
        let Some(iterating) = (unsafe { ITERATORS.get(iterator) }) else { return };
        match iterating.check_process() {
            Ok(()) => iterating.position.go(movement),
            Err(_) => iterating.position.view.is_valid.store(false, Relaxed),
        }
    });
}

/// An iterator over all pairs, not positioned yet. If it cannot be created, the iterator holds the
/// error. Null for a database that is not open.
///
/// # Safety
///
/// No thread destroys the options, or releases their snapshot, during the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_create_iterator(
    handle: *mut leveldb_t,
    options: *const leveldb_readoptions_t,
) -> *mut leveldb_iterator_t {
    quietly(null_mut(), || {
        let Ok(database) = database(handle) else { return null_mut() };
        // SAFETY: as the caller promises.
        let cursor = unsafe { snapshot_to_read(options) }.and_then(|snapshot| {
            if snapshot.is_null() {
                return Ok(database.db.cursor(..));
            }
            // SAFETY: the same.
            unsafe { with_snapshot(&database, snapshot, |snapshot| Ok(snapshot.cursor(..))) }
        });
        let lent: Result<Iterating> = cursor.and_then(|cursor| {
            let state = Mutex::new(State { cursor: Some(cursor), error: None });
            let position = Arc::new(Position { state, ..Position::default() });
            let lent: Weak<Position> = Arc::downgrade(&position);
            let number = database.lending.lend(lent)?;
            Ok(Iterating { position, loan: Some((database.lending.clone(), number)) })
        });
        ITERATORS.insert(lent.unwrap_or_else(|status| {
            let position = Arc::<Position>::default();
            position.fail(status);
            Iterating { position, loan: None }
        }))
    })
}

/// Destroys an iterator. Its database may be open or closed.
///
/// # Safety
///
/// No other thread uses it at this moment.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_iter_destroy(iterator: *mut leveldb_iterator_t) {
    quietly((), || {
        let Some(iterating) = ITERATORS.remove(iterator) else { return };
        let Some((lending, number)) = &iterating.loan else { return };
        if lending.check_process().is_err() {
            // The store belongs to the parent process and must not be touched here.
            std::mem::forget(iterating);
            return;
        }
        lending.forget(*number);
    });
}

/// Returns 1 if there is a pair at the iterator's position.
///
/// # Safety
///
/// No thread destroys the iterator during the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_iter_valid(iterator: *const leveldb_iterator_t) -> u8 {
    // SAFETY: as the caller promises.
    let iterating = unsafe { ITERATORS.get(iterator) };
    u8::from(iterating.is_some_and(|iterating| iterating.position.view.is_valid.load(Relaxed)))
}

/// Moves to the first pair.
///
/// # Safety
///
/// No thread destroys the iterator during the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_iter_seek_to_first(iterator: *mut leveldb_iterator_t) {
    // SAFETY: as the caller promises.
    unsafe { go(iterator, Cursor::seek_to_first) };
}

/// Moves to the last pair.
///
/// # Safety
///
/// No thread destroys the iterator during the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_iter_seek_to_last(iterator: *mut leveldb_iterator_t) {
    // SAFETY: as the caller promises.
    unsafe { go(iterator, Cursor::seek_to_last) };
}

/// Moves to the first pair whose key is at or after the given key.
///
/// # Safety
///
/// No thread destroys the iterator during the call; the key has the given length.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_iter_seek(
    iterator: *mut leveldb_iterator_t,
    key: *const c_char,
    key_bytes: usize,
) {
    // SAFETY: as the caller promises.
    unsafe {
        match lent(key, key_bytes, "key") {
            Ok(key) => go(iterator, |cursor| cursor.seek(key)),
            Err(status) => {
                if let Some(iterating) = ITERATORS.get(iterator)
                    && iterating.check_process().is_ok()
                {
                    iterating.position.fail(status);
                }
            }
        }
    }
}

/// Moves to the next pair; no effect if there is no pair at the position.
///
/// # Safety
///
/// No thread destroys the iterator during the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_iter_next(iterator: *mut leveldb_iterator_t) {
    // SAFETY: as the caller promises.
    unsafe { go(iterator, Cursor::next) };
}

/// Moves to the pair before; no effect if there is no pair at the position.
///
/// # Safety
///
/// No thread destroys the iterator during the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_iter_prev(iterator: *mut leveldb_iterator_t) {
    // SAFETY: as the caller promises.
    unsafe { go(iterator, Cursor::prev) };
}

/// Returns the address and the length of the key or the value at an iterator's position; null and 0
/// if there is no pair.
///
/// # Safety
///
/// No thread destroys the iterator during the call; `length` is null or can be written to.
#[inline]
unsafe fn tell(
    iterator: *const leveldb_iterator_t,
    length: *mut usize,
    place: impl FnOnce(&View) -> &Place,
) -> *const c_char {
    // SAFETY: as the caller promises.
    unsafe {
        let view = ITERATORS.get(iterator).map(|iterating| &iterating.position.view);
        let place = view.filter(|view| view.is_valid.load(Relaxed)).map(place);
        let (start, bytes) = place.map_or((null(), 0), |place| {
            (place.start.load(Relaxed).cast_const(), place.length.load(Relaxed))
        });
        if !length.is_null() {
            *length = bytes;
        }
        start.cast()
    }
}

/// The key and its length, until the next movement.
///
/// # Safety
///
/// No thread destroys the iterator during the call; `length` is null or can be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_iter_key(
    iterator: *const leveldb_iterator_t,
    length: *mut usize,
) -> *const c_char {
    // SAFETY: as the caller promises.
    unsafe { tell(iterator, length, |view| &view.key) }
}

/// The value and its length, until the next movement.
///
/// # Safety
///
/// No thread destroys the iterator during the call; `length` is null or can be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_iter_value(
    iterator: *const leveldb_iterator_t,
    length: *mut usize,
) -> *const c_char {
    // SAFETY: as the caller promises.
    unsafe { tell(iterator, length, |view| &view.value) }
}

/// An extension: the address of the structure in which the iterator publishes the pair at its
/// position. It is valid for as long as the iterator; null if there is no such iterator.
///
/// # Safety
///
/// No thread destroys the iterator during the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_iter_cantle_view(iterator: *const leveldb_iterator_t) -> *const View {
    // SAFETY: as the caller promises.
    unsafe { ITERATORS.get(iterator) }.map_or(null(), |iterating| &raw const iterating.position.view)
}

/// The iterator's error, if it has no pair because of one.
///
/// # Safety
///
/// No thread destroys the iterator during the call; `errptr` points to null or to a text from
/// `malloc`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_iter_get_error(
    iterator: *const leveldb_iterator_t,
    errptr: *mut *mut c_char,
) {
    quietly((), || {
        // SAFETY: as the caller promises.
        let error = match unsafe { ITERATORS.get(iterator) } {
            Some(iterating) => match iterating.check_process() {
                Ok(()) => iterating.position.state.lock().error.clone(),
                Err(status) => Some(status),
            },
            None => Some(Status::no_object("iterator")),
        };
        if let Some(error) = error {
            // SAFETY: the same.
            unsafe { save(errptr, &error) };
        }
    });
}
