//! An open store.

use crate::boundary::{status, value};
use crate::callback;
use crate::error::cantle_error;
use crate::failure::{Failure, Outcome};
use crate::handle::{self, Held, Object};
use crate::keyspace::{OpenKeyspace, cantle_keyspace};
use crate::memory::{copy_of, text_of};
use crate::options::{cantle_options, read_options};
use crate::raw;
use crate::status::cantle_status;
use cantle::Db;
use std::ffi::c_char;
use std::os::unix::ffi::OsStrExt;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// An open store. Closed and freed by cantle_close. Every function may be called with it from any thread at any time.
pub struct cantle_db {
    _opaque: [u8; 0],
}

pub(crate) struct OpenDb {
    pub(crate) db: Db,
    /// Tells the stores of this process apart: a keyspace of another one is found out.
    pub(crate) number: u64,
}

impl Object for OpenDb {
    type Opaque = cantle_db;
    const NAME: &'static str = "cantle_db";
    const OF_A_STORE: bool = true;
}

/// The name of the order that has no comparator.
const BYTEWISE: &str = "cantle.bytewise";

/// Whether keys are ordered as their bytes are.
pub(crate) fn is_bytewise(comparator_name: &str) -> bool {
    comparator_name == BYTEWISE
}

/// The store behind a handle, for what measures how much the handle costs.
#[doc(hidden)]
pub fn behind(db: *const cantle_db) -> Option<Db> {
    Some(handle::get::<OpenDb>(db).ok()?.db.clone())
}

/// A store, and the keyspace of it that a call is about; its `default` where none was named.
pub(crate) struct Target {
    pub(crate) db: Held<OpenDb>,
    pub(crate) keyspace: Option<Held<OpenKeyspace>>,
}

impl Target {
    #[inline(always)]
    pub(crate) fn of(db: *const cantle_db, keyspace: *const cantle_keyspace) -> Outcome<Self> {
        let db = handle::get::<OpenDb>(db)?;
        let keyspace = handle::get_or_null::<OpenKeyspace>(keyspace)?;
        if let Some(keyspace) = &keyspace
            && keyspace.store != db.number
        {
            return Err(of_another_store(keyspace));
        }
        Ok(Self { db, keyspace })
    }
}

#[cold]
fn of_another_store(keyspace: &OpenKeyspace) -> Failure {
    Failure::invalid(format!("keyspace {:?} belongs to another store", keyspace.keyspace.name()))
}

/// Does the same with a store's default keyspace or with another: `Db` and `Keyspace` have the same operations, but no type for
/// them.
macro_rules! on {
    ($target:expr, $on:ident => $call:expr) => {
        match &$target.keyspace {
            None => {
                let $on = &$target.db.db;
                $call
            }
            Some(keyspace) => {
                let $on = &keyspace.keyspace;
                $call
            }
        }
    };
}
pub(crate) use on;

/// Opens the store in directory `path`, with `options` or, where they are NULL, the defaults, recovering it if need be. By default
/// it is created if there is none.
///
/// Ownership: the store is the caller's, to be closed by cantle_close; the options stay the caller's. Errors: NULL and CANTLE_LOCKED
/// if it is open elsewhere; CANTLE_NOT_FOUND and CANTLE_ALREADY_EXISTS by the options for that; CANTLE_NOT_A_STORE for something else,
/// which is not touched; CANTLE_OPTION_MISMATCH for a comparator that is not registered; CANTLE_INVALID_ARGUMENT for a path that is NULL,
/// for what are no options, or were freed, and for what is wrong in them; CANTLE_UNSUPPORTED_FORMAT; CANTLE_CORRUPTION if manifest or
/// journal are damaged; CANTLE_IO and CANTLE_NO_SPACE; CANTLE_FORKED for options of the process that this one was forked from;
/// CANTLE_OUT_OF_MEMORY if there are too many handles. Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cantle_open(
    path: *const c_char,
    options: *const cantle_options,
    error: *mut *mut cantle_error,
) -> *mut cantle_db {
    static OPENED: AtomicU64 = AtomicU64::new(0);
    // SAFETY: the caller keeps to the header (see `raw`).
    unsafe {
        value(error, null_mut(), || {
            let path = raw::path(path, "path")?;
            let db = read_options(options)?.open(path)?;
            handle::create(OpenDb { db, number: OPENED.fetch_add(1, Relaxed) })
        })
    }
}

/// Makes everything durable, closes the store, releases the lock that keeps others out, and frees the handle: the store may be
/// opened again at once. Other handles of the store give CANTLE_CLOSED from now on, and are still to be freed.
///
/// Ownership: `db` is gone afterwards, even if this fails (unless it is no open store, or this is called from a callback that must not
/// write). Errors: CANTLE_INVALID_ARGUMENT for NULL, for what is no store, or was closed; CANTLE_FORKED in a forked child, which leaves
/// the store as it is; otherwise what was written since the last checkpoint may be lost, and CANTLE_READ_ONLY says that the store had
/// turned read-only before that, and why. Threads: any; calls in other threads end with CANTLE_CLOSED.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cantle_close(db: *mut cantle_db, error: *mut *mut cantle_error) -> cantle_status {
    // SAFETY: the caller keeps to the header (see `raw`).
    unsafe {
        status(error, || {
            callback::check_may_write()?;
            Ok(handle::release::<OpenDb>(db)?.db.close()?)
        })
    }
}

/// The store's directory, as it was given.
///
/// Ownership: the text is the caller's, to be freed by cantle_free. Errors: NULL and CANTLE_INVALID_ARGUMENT for a handle that will
/// not do, CANTLE_OUT_OF_MEMORY. Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cantle_path(db: *mut cantle_db, error: *mut *mut cantle_error) -> *mut c_char {
    // SAFETY: the caller keeps to the header (see `raw`).
    unsafe {
        value(error, null_mut(), || copy_of(handle::get::<OpenDb>(db)?.db.path().as_os_str().as_bytes()))
    }
}

/// The name of the order of a keyspace: that of its comparator, or "cantle.bytewise". `keyspace` may be NULL for the default one.
///
/// Ownership: the text is the caller's, to be freed by cantle_free. Errors: NULL and CANTLE_INVALID_ARGUMENT for handles that will not do,
/// and for a name that holds a zero byte (made in another language); CANTLE_OUT_OF_MEMORY. Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cantle_comparator_name(
    db: *mut cantle_db,
    keyspace: *mut cantle_keyspace,
    error: *mut *mut cantle_error,
) -> *mut c_char {
    // SAFETY: the caller keeps to the header (see `raw`).
    unsafe {
        value(error, null_mut(), || {
            let target = Target::of(db, keyspace)?;
            text_of(on!(target, on => on.comparator_name()))
        })
    }
}

/// Makes everything that was acknowledged before durable, by a checkpoint. Callers at the same time share one.
///
/// Ownership: nothing changes hands. Errors: CANTLE_NO_SPACE leaves the store as it was; a sync that fails turns it read-only;
/// CANTLE_READ_ONLY, CANTLE_CLOSED. Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cantle_sync(db: *mut cantle_db, error: *mut *mut cantle_error) -> cantle_status {
    // SAFETY: the caller keeps to the header (see `raw`).
    unsafe {
        status(error, || {
            callback::check_may_write()?;
            Ok(handle::get::<OpenDb>(db)?.db.sync()?)
        })
    }
}

/// Writes a consistent copy of the store into a new or empty directory: a store that opens. Tables are shared by hard links where
/// both are on one file system. The store may be used meanwhile.
///
/// Ownership: nothing changes hands. Errors: CANTLE_ALREADY_EXISTS and CANTLE_NOT_A_STORE if the directory is not empty; what writing
/// there may fail with. Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cantle_backup(
    db: *mut cantle_db,
    directory: *const c_char,
    error: *mut *mut cantle_error,
) -> cantle_status {
    // SAFETY: the caller keeps to the header (see `raw`).
    unsafe {
        status(error, || {
            callback::check_may_write()?;
            let directory = raw::path(directory, "directory of the backup")?;
            Ok(handle::get::<OpenDb>(db)?.db.backup(directory)?)
        })
    }
}
