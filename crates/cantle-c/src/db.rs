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
    /// Distinguishes the stores of this process, so that a keyspace of another store is refused.
    pub(crate) number: u64,
}

impl Object for OpenDb {
    type Opaque = cantle_db;
    const NAME: &'static str = "cantle_db";
    const OF_A_STORE: bool = true;
}

/// The name of the order that has no comparator.
const BYTEWISE: &str = "cantle.bytewise";

/// True if keys are ordered as their bytes are.
pub(crate) fn is_bytewise(comparator_name: &str) -> bool {
    comparator_name == BYTEWISE
}

/// The store of a handle, for benchmarks that measure the cost of handles.
#[doc(hidden)]
pub fn behind(db: *const cantle_db) -> Option<Db> {
    Some(handle::get::<OpenDb>(db).ok()?.db.clone())
}

/// A store, and the keyspace in it that a call is about: `default` if none was named.
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

/// Evaluates the same expression for a store's default keyspace or for another one: `Db` and
/// `Keyspace` have the same operations, but no common type.
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

/// Opens the store in directory `path`, and recovers it if necessary. `options` may be NULL for the
/// defaults. By default the store is created if there is none.
///
/// Ownership: the store is the caller's, to be closed by cantle_close; the options stay the
/// caller's. Errors: NULL and CANTLE_LOCKED if the store is open elsewhere; CANTLE_NOT_FOUND if
/// there is no store, and the options do not allow creating one; CANTLE_ALREADY_EXISTS if there is
/// a store, and the options forbid that; CANTLE_NOT_A_STORE if the path holds something else, which
/// is not touched; CANTLE_OPTION_MISMATCH for a comparator that is not registered;
/// CANTLE_INVALID_ARGUMENT if `path` is NULL, if `options` are no options or were freed, and if one
/// of them is wrong; CANTLE_UNSUPPORTED_FORMAT; CANTLE_CORRUPTION if the manifest or the journal is
/// damaged; CANTLE_IO and CANTLE_NO_SPACE; CANTLE_FORKED for options of the process that this one
/// was forked from; CANTLE_OUT_OF_MEMORY if there are too many handles. Threads: any.
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

/// Makes everything durable, closes the store, releases its lock, and frees the handle: the store
/// may be opened again at once. Other handles of the store return CANTLE_CLOSED from now on, and
/// must still be freed.
///
/// Ownership: `db` is gone afterwards, even if this fails (unless it is no open store, or this is
/// called from a callback that must not write). Errors: CANTLE_INVALID_ARGUMENT if `db` is NULL, is
/// no store, or was closed; CANTLE_FORKED in a forked child, which leaves the store as it is. After
/// any other error, writes since the last checkpoint may be lost; CANTLE_READ_ONLY says that the
/// store had turned read-only before, and why. Threads: any; calls in other threads end with
/// CANTLE_CLOSED.
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

/// The store's directory, as the caller gave it.
///
/// Ownership: the text is the caller's, to be freed by cantle_free. Errors: NULL and
/// CANTLE_INVALID_ARGUMENT for an invalid handle, CANTLE_OUT_OF_MEMORY. Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cantle_path(db: *mut cantle_db, error: *mut *mut cantle_error) -> *mut c_char {
    // SAFETY: the caller keeps to the header (see `raw`).
    unsafe {
        value(error, null_mut(), || copy_of(handle::get::<OpenDb>(db)?.db.path().as_os_str().as_bytes()))
    }
}

/// The name of the order of a keyspace: that of its comparator, or "cantle.bytewise". `keyspace` may be NULL for the default one.
///
/// Ownership: the text is the caller's, to be freed by cantle_free. Errors: NULL and
/// CANTLE_INVALID_ARGUMENT for invalid handles, and for a name that contains a zero byte (made in
/// another language); CANTLE_OUT_OF_MEMORY. Threads: any.
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

/// Makes all writes durable that were acknowledged before this call, by a checkpoint. Concurrent
/// callers share one checkpoint.
///
/// Ownership: nothing changes hands. Errors: after CANTLE_NO_SPACE the store is as before; a failed
/// sync turns it read-only; CANTLE_READ_ONLY, CANTLE_CLOSED. Threads: any.
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

/// Writes a consistent copy of the store into a new or empty directory. The copy is a complete
/// store. If both directories are on one file system, the two stores share the files of tables by
/// hard links. The store may be used meanwhile.
///
/// Ownership: nothing changes hands. Errors: CANTLE_ALREADY_EXISTS if the directory holds a store,
/// CANTLE_NOT_A_STORE if it holds anything else; errors of writing there. Threads: any.
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
