//! Named, ordered sets of pairs within a store.

use crate::boundary::{saying, status, value};
use crate::callback;
use crate::db::{OpenDb, cantle_db};
use crate::error::cantle_error;
use crate::handle::{self, Object};
use crate::keyspace_options::{cantle_keyspace_options, read_keyspace_options};
use crate::memory::{array_of, copy_of, text_of};
use crate::raw::{self, Out};
use crate::status::cantle_status;
use cantle::Keyspace;
use std::ffi::{c_char, c_void};
use std::ptr::null_mut;

/// A named, ordered set of pairs within a store. Functions that take a keyspace take NULL for the
/// one named `default`, which every store has. Freed by cantle_keyspace_free. Every function may be
/// called with it from any thread at any time.
pub struct cantle_keyspace {
    _opaque: [u8; 0],
}

pub(crate) struct OpenKeyspace {
    pub(crate) keyspace: Keyspace,
    /// The number of the store.
    pub(crate) store: u64,
}

impl Object for OpenKeyspace {
    type Opaque = cantle_keyspace;
    const NAME: &'static str = "cantle_keyspace";
    const OF_A_STORE: bool = true;
}

/// Returns the keyspace of this name. If there is none, creates it. If it exists, the layout and
/// the comparator must be the existing ones or not be given. The other options take effect, except
/// in `default`, which keeps those given at opening. `options` may be NULL: an existing keyspace
/// then keeps its settings, and a new one gets the defaults.
///
/// Ownership: the keyspace is the caller's, to be freed by cantle_keyspace_free, also after
/// cantle_close; the options stay the caller's. Errors: NULL and CANTLE_OPTION_MISMATCH for another
/// comparator, CANTLE_INVALID_ARGUMENT for options out of their range and names that are not 1 to
/// 255 bytes of UTF-8, CANTLE_NO_KEYSPACE if the keyspace would have to be created in a read-only
/// store. Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cantle_keyspace_open(
    db: *mut cantle_db,
    name: *const c_char,
    options: *const cantle_keyspace_options,
    error: *mut *mut cantle_error,
) -> *mut cantle_keyspace {
    // SAFETY: the caller keeps to the header (see `raw`).
    unsafe {
        value(error, null_mut(), || {
            callback::check_may_write()?;
            let (db, name) = (handle::get::<OpenDb>(db)?, raw::text(name, "name of the keyspace")?);
            let keyspace = match options.is_null() {
                true => db.db.keyspace(name)?,
                false => db.db.keyspace_with(name, read_keyspace_options(options)?)?,
            };
            handle::create(OpenKeyspace { keyspace, store: db.number })
        })
    }
}

/// Creates a keyspace. `options` may be NULL for the defaults.
///
/// Ownership: as cantle_keyspace_open. Errors: NULL and CANTLE_ALREADY_EXISTS if there is one of this name, which is left as it is;
/// otherwise as cantle_keyspace_open. Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cantle_keyspace_create(
    db: *mut cantle_db,
    name: *const c_char,
    options: *const cantle_keyspace_options,
    error: *mut *mut cantle_error,
) -> *mut cantle_keyspace {
    // SAFETY: the caller keeps to the header (see `raw`).
    unsafe {
        value(error, null_mut(), || {
            callback::check_may_write()?;
            let (db, name) = (handle::get::<OpenDb>(db)?, raw::text(name, "name of the keyspace")?);
            let keyspace = db.db.create_keyspace(name, read_keyspace_options(options)?)?;
            handle::create(OpenKeyspace { keyspace, store: db.number })
        })
    }
}

/// Frees the handle of a keyspace; the keyspace stays. Does nothing for NULL.
///
/// Ownership: the handle is gone afterwards. Errors: CANTLE_INVALID_ARGUMENT for a handle that is
/// no keyspace or was freed. Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cantle_keyspace_free(keyspace: *mut cantle_keyspace) -> cantle_status {
    saying(|| handle::free::<OpenKeyspace>(keyspace))
}

/// The name of a keyspace.
///
/// Ownership: the text is the caller's, to be freed by cantle_free. Errors: NULL and
/// CANTLE_INVALID_ARGUMENT for an invalid handle, and for a name that contains a zero byte (made in
/// another language); CANTLE_OUT_OF_MEMORY. Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cantle_keyspace_name(
    keyspace: *mut cantle_keyspace,
    error: *mut *mut cantle_error,
) -> *mut c_char {
    // SAFETY: the caller keeps to the header (see `raw`).
    unsafe { value(error, null_mut(), || text_of(handle::get::<OpenKeyspace>(keyspace)?.keyspace.name())) }
}

/// The names of all keyspaces, in order: texts, and NULL after the last one. `count` may be NULL.
///
/// Ownership: the array, with its texts, is one block that is the caller's, to be freed by one call
/// of cantle_free. Errors: NULL and CANTLE_INVALID_ARGUMENT for an invalid handle, and if a name
/// contains a zero byte (made in another language); CANTLE_CLOSED, CANTLE_OUT_OF_MEMORY; `*count`
/// is 0 then. Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cantle_keyspaces(
    db: *mut cantle_db,
    count: *mut usize,
    error: *mut *mut cantle_error,
) -> *mut *mut c_char {
    // SAFETY: the caller keeps to the header (see `raw`).
    unsafe {
        value(error, null_mut(), || {
            let count = Out::optional(count, 0);
            let names = handle::get::<OpenDb>(db)?.db.keyspaces()?;
            let array = array_of(&names)?;
            count.set(names.len());
            Ok(array)
        })
    }
}

/// Drops a keyspace and everything in it. Snapshots that were taken before can still read it,
/// through a handle from before; every other use of such a handle returns CANTLE_NO_KEYSPACE.
///
/// Ownership: handles of the keyspace must still be freed. Errors: CANTLE_NO_KEYSPACE if there is
/// none, CANTLE_INVALID_ARGUMENT for `default`; as cantle_put. Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cantle_keyspace_drop(
    db: *mut cantle_db,
    name: *const c_char,
    error: *mut *mut cantle_error,
) -> cantle_status {
    // SAFETY: the caller keeps to the header (see `raw`).
    unsafe {
        status(error, || {
            callback::check_may_write()?;
            let name = raw::text(name, "name of the keyspace")?;
            Ok(handle::get::<OpenDb>(db)?.db.drop_keyspace(name)?)
        })
    }
}

/// The metadata of a keyspace: bytes of the application that are stored with the keyspace. Empty
/// until set. `len` may be NULL.
///
/// Ownership: the bytes, followed by a zero byte that does not count, are the caller's, to be freed
/// by cantle_free. Errors: NULL and CANTLE_INVALID_ARGUMENT for an invalid handle,
/// CANTLE_OUT_OF_MEMORY. Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cantle_keyspace_metadata(
    keyspace: *mut cantle_keyspace,
    len: *mut usize,
    error: *mut *mut cantle_error,
) -> *mut c_char {
    // SAFETY: the caller keeps to the header (see `raw`).
    unsafe {
        value(error, null_mut(), || {
            let len = Out::optional(len, 0);
            let metadata = handle::get::<OpenKeyspace>(keyspace)?.keyspace.metadata();
            let copy = copy_of(&metadata)?;
            len.set(metadata.len());
            Ok(copy)
        })
    }
}

/// Replaces the metadata of a keyspace, which has at most 64 KiB. The metadata is durable when this
/// returns, and everything that was written before is durable before it.
///
/// Ownership: the bytes are copied. Errors: CANTLE_INVALID_ARGUMENT for more than 64 KiB,
/// CANTLE_NO_KEYSPACE, and as cantle_sync: the metadata may have been replaced then. Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cantle_keyspace_set_metadata(
    keyspace: *mut cantle_keyspace,
    metadata: *const c_void,
    len: usize,
    error: *mut *mut cantle_error,
) -> cantle_status {
    // SAFETY: the caller keeps to the header (see `raw`).
    unsafe {
        status(error, || {
            callback::check_may_write()?;
            let metadata = raw::bytes(metadata, len, cantle::METADATA_BYTES_MAX, "metadata")?;
            Ok(handle::get::<OpenKeyspace>(keyspace)?.keyspace.set_metadata(metadata)?)
        })
    }
}
