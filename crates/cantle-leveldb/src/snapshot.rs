//! Snapshots. A snapshot may outlive its database; reading it then returns an error.

use crate::call::{opaque, quietly};
use crate::database::{Database, Lending, TakeBack, database, leveldb_t};
use crate::handles::{Handles, Kind, SLOTS_MAX, encode, to_pointer};
use crate::status::{Result, Status};
use cantle::Snapshot;
use parking_lot::RwLock;
use std::ptr::null;
use std::sync::{Arc, Weak};

opaque! {
    /// The state of a database at one moment.
    leveldb_snapshot_t,
}

static SNAPSHOTS: Handles<Held> = Handles::with_limit(Kind::Snapshot, SNAPSHOTS_MAX);
const SNAPSHOTS_MAX: u32 = if cfg!(test) { 100 } else { SLOTS_MAX };

/// The handle that is returned if a snapshot could not be made. Null instead would mean a read of
/// the current state, which is wrong for a program that asked for a snapshot.
fn not_made() -> *const leveldb_snapshot_t {
    to_pointer::<leveldb_snapshot_t>(encode(Kind::NoSnapshot, 0, 0)).cast_const()
}

struct Held {
    /// The database's handle.
    database: u64,
    lending: Arc<Lending>,
    number: u64,
    shared: Arc<Shared>,
}

/// `None` once the database is closed.
struct Shared(RwLock<Option<Snapshot>>);

impl TakeBack for Shared {
    fn take_back(&self) {
        *self.0.write() = None;
    }
}

/// Reads a database's snapshot.
///
/// # Safety
///
/// No thread releases the snapshot during the call.
pub unsafe fn with_snapshot<T>(
    database: &Database,
    snapshot: *const leveldb_snapshot_t,
    read: impl FnOnce(&Snapshot) -> Result<T>,
) -> Result<T> {
    // SAFETY: as the caller promises.
    let held = unsafe { SNAPSHOTS.get(snapshot) };
    let held = held.ok_or_else(|| {
        if snapshot == not_made() {
            Status::io(format!("the read options' snapshot could not be made: there can be {SNAPSHOTS_MAX}"))
        } else {
            Status::invalid("the read options' snapshot was released")
        }
    })?;
    if held.database != database.handle {
        return Err(Status::invalid("the read options' snapshot is one of another database"));
    }
    match &*held.shared.0.read() {
        Some(snapshot) => read(snapshot),
        None => Err(Status::closed()),
    }
}

/// A snapshot of the database's current state, to be released by the caller. Null if the database
/// is not open, so that it cannot be read either. If there are too many snapshots, the result is a
/// handle whose reads return an error.
///
/// # Safety
///
/// None.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_create_snapshot(handle: *mut leveldb_t) -> *const leveldb_snapshot_t {
    quietly(not_made(), || {
        let Ok(database) = database(handle) else { return null() };
        let lending = database.lending.clone();
        let shared = Arc::new(Shared(RwLock::new(Some(database.db.snapshot()))));
        let lent: Weak<Shared> = Arc::downgrade(&shared);
        let Ok(number) = lending.lend(lent) else { return null() };
        let held = Held { database: database.handle, lending, number, shared };
        match SNAPSHOTS.insert::<leveldb_snapshot_t>(held).cast_const() {
            made if !made.is_null() => made,
            _ => {
                database.lending.forget(number);
                not_made()
            }
        }
    })
}

/// Releases a snapshot. Its database may be open or closed.
///
/// # Safety
///
/// No other thread uses it at this moment.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_release_snapshot(
    _database: *mut leveldb_t,
    snapshot: *const leveldb_snapshot_t,
) {
    quietly((), || {
        let Some(held) = SNAPSHOTS.remove(snapshot) else { return };
        if held.lending.check_process().is_err() {
            // The store belongs to the parent process and must not be touched here.
            std::mem::forget(held);
            return;
        }
        held.lending.forget(held.number);
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::database::{leveldb_close, leveldb_get, leveldb_open};
    use crate::iterator::{leveldb_create_iterator, leveldb_iter_destroy, leveldb_iter_get_error};
    use crate::options::{
        leveldb_options_create, leveldb_options_destroy, leveldb_options_set_create_if_missing,
    };
    use crate::read_options::{
        leveldb_readoptions_create, leveldb_readoptions_destroy, leveldb_readoptions_set_snapshot,
    };
    use std::ffi::{CStr, CString, c_char};
    use std::ptr::null_mut;

    /// True if the error begins with this text. Frees the error.
    fn begins(error: &mut *mut c_char, text: &str) -> bool {
        assert!(!error.is_null());
        // SAFETY: an error is a C string from `malloc`.
        unsafe {
            let begins = CStr::from_ptr(*error).to_string_lossy().starts_with(text);
            libc::free(error.cast());
            *error = null_mut();
            begins
        }
    }

    #[test]
    fn a_snapshot_that_could_not_be_made_is_not_the_present() {
        let dir = tempfile::tempdir().unwrap();
        let name = CString::new(dir.path().join("db").to_str().unwrap()).unwrap();
        let mut error: *mut c_char = null_mut();
        // SAFETY: the objects are alive, the name is a C string, and keys have the given lengths.
        unsafe {
            let options = leveldb_options_create();
            leveldb_options_set_create_if_missing(options, 1);
            let db = leveldb_open(options, name.as_ptr(), &mut error);
            let reading = leveldb_readoptions_create();
            let made: Vec<_> = (0..SNAPSHOTS_MAX).map(|_| leveldb_create_snapshot(db)).collect();
            for snapshot in [made[0], *made.last().unwrap()] {
                leveldb_readoptions_set_snapshot(reading, snapshot);
                assert!(leveldb_get(db, reading, c"k".as_ptr(), 1, null_mut(), &mut error).is_null());
                assert!(error.is_null());
            }
            let none = leveldb_create_snapshot(db);
            assert!(!none.is_null());
            leveldb_readoptions_set_snapshot(reading, none);
            assert!(leveldb_get(db, reading, c"k".as_ptr(), 1, null_mut(), &mut error).is_null());
            assert!(begins(&mut error, "IO error: the read options' snapshot could not be made"));
            let iterator = leveldb_create_iterator(db, reading);
            leveldb_iter_get_error(iterator, &mut error);
            assert!(begins(&mut error, "IO error: the read options' snapshot could not be made"));
            leveldb_iter_destroy(iterator);
            leveldb_release_snapshot(db, none);

            leveldb_release_snapshot(db, made[7]);
            let again = leveldb_create_snapshot(db);
            leveldb_readoptions_set_snapshot(reading, again);
            assert!(leveldb_get(db, reading, c"k".as_ptr(), 1, null_mut(), &mut error).is_null());
            assert!(error.is_null());
            leveldb_release_snapshot(db, again);
            made.into_iter().for_each(|snapshot| leveldb_release_snapshot(db, snapshot));
            leveldb_readoptions_destroy(reading);
            leveldb_close(db);
            leveldb_options_destroy(options);
        }
    }
}
