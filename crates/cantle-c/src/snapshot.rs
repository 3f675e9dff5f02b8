//! The store at one moment.

use crate::bound::cantle_slice;
use crate::boundary::{saying, status, value};
use crate::db::{OpenDb, cantle_db, is_bytewise};
use crate::error::cantle_error;
use crate::failure::Outcome;
use crate::handle::{self, Held, Object};
use crate::keyspace::{OpenKeyspace, cantle_keyspace};
use crate::read::{Lookup, cantle_get_many_fn, contains, get, get_into, get_many};
use crate::status::cantle_status;
use cantle::Snapshot;
use std::ffi::{c_char, c_void};
use std::ptr::null_mut;

/// A consistent view of a store, with all its keyspaces, as it was when the snapshot was taken.
/// While a snapshot is open, the store keeps the versions that it sees. Freed by
/// cantle_snapshot_free. Every function may be called with it from any thread at any time.
pub struct cantle_snapshot {
    _opaque: [u8; 0],
}

pub(crate) struct OpenSnapshot {
    pub(crate) snapshot: Snapshot,
    /// True if the default keyspace is in bytewise order.
    pub(crate) bytewise: bool,
}

impl Object for OpenSnapshot {
    type Opaque = cantle_snapshot;
    const NAME: &'static str = "cantle_snapshot";
    const OF_A_STORE: bool = true;
}

/// A keyspace at a snapshot.
struct At {
    snapshot: Held<OpenSnapshot>,
    keyspace: Option<Held<OpenKeyspace>>,
}

impl At {
    fn of(snapshot: *const cantle_snapshot, keyspace: *const cantle_keyspace) -> Outcome<Self> {
        Ok(Self { snapshot: handle::get(snapshot)?, keyspace: handle::get_or_null(keyspace)? })
    }
}

impl Lookup for At {
    const HANDLE: &'static str = OpenSnapshot::NAME;

    fn lend<T>(&self, key: &[u8], read: impl FnOnce(&[u8]) -> T) -> Outcome<Option<T>> {
        let snapshot = &self.snapshot.snapshot;
        Ok(match &self.keyspace {
            None => snapshot.get_with(key, read)?,
            Some(keyspace) => snapshot.keyspace(&keyspace.keyspace).get_with(key, read)?,
        })
    }

    fn lend_many(
        &self,
        keys: &[&[u8]],
        read: impl FnMut(usize, cantle::Result<Option<&[u8]>>),
    ) -> Outcome<()> {
        lend_many_at(&self.snapshot.snapshot, self.keyspace.as_deref(), keys, read);
        Ok(())
    }
}

/// Calls `read` with the number of each key and its value at the moment of the snapshot.
pub(crate) fn lend_many_at(
    snapshot: &Snapshot,
    keyspace: Option<&OpenKeyspace>,
    keys: &[&[u8]],
    read: impl FnMut(usize, cantle::Result<Option<&[u8]>>),
) {
    match keyspace {
        None => snapshot.get_many_with(keys, read),
        Some(keyspace) => snapshot.keyspace(&keyspace.keyspace).get_many_with(keys, read),
    }
}

/// Takes a snapshot of the store as it is now. Waits some microseconds for the writes that are
/// under way.
///
/// Ownership: the snapshot is the caller's, to be freed by cantle_snapshot_free, also after
/// cantle_close. Errors: NULL and CANTLE_INVALID_ARGUMENT for an invalid handle. Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cantle_snapshot_new(
    db: *mut cantle_db,
    error: *mut *mut cantle_error,
) -> *mut cantle_snapshot {
    // SAFETY: the caller keeps to the header (see `raw`).
    unsafe {
        value(error, null_mut(), || {
            let db = handle::get::<OpenDb>(db)?;
            let bytewise = is_bytewise(db.db.comparator_name());
            handle::create(OpenSnapshot { snapshot: db.db.snapshot(), bytewise })
        })
    }
}

/// Frees a snapshot. Iterators over it stay valid. Does nothing for NULL.
///
/// Ownership: the snapshot is gone afterwards. Errors: CANTLE_INVALID_ARGUMENT for a handle that is
/// no snapshot or was freed. Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cantle_snapshot_free(snapshot: *mut cantle_snapshot) -> cantle_status {
    saying(|| handle::free::<OpenSnapshot>(snapshot))
}

/// The key's value at the moment of the snapshot, as cantle_get returns it. `keyspace` may be NULL
/// for the default one.
///
/// Ownership: the block is the caller's, to be freed by cantle_free. Errors: as cantle_get, and CANTLE_INVALID_ARGUMENT for a keyspace
/// of another store. Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cantle_snapshot_get(
    snapshot: *mut cantle_snapshot,
    keyspace: *mut cantle_keyspace,
    key: *const c_void,
    key_len: usize,
    value: *mut *mut c_char,
    value_len: *mut usize,
    error: *mut *mut cantle_error,
) -> cantle_status {
    // SAFETY: the caller keeps to the header (see `raw`).
    unsafe { status(error, || get(At::of(snapshot, keyspace), key, key_len, value, value_len)) }
}

/// Copies the key's value at the moment of the snapshot into the caller's buffer, as
/// cantle_get_into does.
///
/// Ownership: the buffer stays the caller's. Errors: as cantle_snapshot_get. Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cantle_snapshot_get_into(
    snapshot: *mut cantle_snapshot,
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
        status(error, || {
            get_into(At::of(snapshot, keyspace), key, key_len, buffer, capacity, value_len, found)
        })
    }
}

/// Tests if the key had a value at the moment of the snapshot: `*found` is true then.
///
/// Ownership: nothing changes hands. Errors: as cantle_snapshot_get; `*found` is false then. Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cantle_snapshot_contains(
    snapshot: *mut cantle_snapshot,
    keyspace: *mut cantle_keyspace,
    key: *const c_void,
    key_len: usize,
    found: *mut bool,
    error: *mut *mut cantle_error,
) -> cantle_status {
    // SAFETY: the caller keeps to the header (see `raw`).
    unsafe { status(error, || contains(At::of(snapshot, keyspace), key, key_len, found)) }
}

/// Reads the values of `count` keys at the moment of the snapshot, and calls `receive` with `user`
/// and the value of each key, as cantle_get_many does. `keyspace` may be NULL for the default one.
///
/// Ownership: as cantle_get_many. Errors: as cantle_get_many; for a keyspace of another store, each
/// key fails with CANTLE_INVALID_ARGUMENT. Threads: any; `receive` is called in this thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cantle_snapshot_get_many(
    snapshot: *mut cantle_snapshot,
    keyspace: *mut cantle_keyspace,
    keys: *const cantle_slice,
    count: usize,
    receive: cantle_get_many_fn,
    user: *mut c_void,
    error: *mut *mut cantle_error,
) -> cantle_status {
    // SAFETY: the caller keeps to the header (see `raw`); `receive` keeps to its type's contract.
    unsafe { status(error, || get_many(At::of(snapshot, keyspace), keys, count, receive, user)) }
}
