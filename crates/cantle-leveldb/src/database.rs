//! Open databases, and single operations on them.
//!
//! Thread safety: everything may be called from any thread at any time, closing included. A call
//! that is in progress when the database is closed returns an error. The store's lock is released
//! when the last such call returns.

use crate::batch::{leveldb_writebatch_t, to_cantle};
use crate::bytes::{check_parent, given, lent, path};
use crate::call::{opaque, quietly, this_process, with_error};
use crate::comparator::InUse;
use crate::handles::{Kind, SLOTS_MAX, encode, slot_of, to_pointer};
use crate::options::{leveldb_options_t, options};
use crate::read_options::{leveldb_readoptions_t, snapshot_to_read};
use crate::snapshot::with_snapshot;
use crate::status::{Result, Status};
use crate::write_options::{is_sync, leveldb_writeoptions_t};
use arc_swap::{ArcSwapOption, Guard};
use cantle::{Db, Durability, WriteBatch, WriteOptions};
use cantle_bindings::{Process, Slots};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::ffi::{c_char, c_void};
use std::ops::Deref;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Weak};

opaque! {
    /// An open database.
    leveldb_t,
}

static DATABASES: Slots<Slot> = Slots::new(SLOTS_MAX);

#[derive(Default)]
struct Slot {
    uses: AtomicU32,
    database: ArcSwapOption<Database>,
}

/// An open database. Fields are dropped in their order: the comparator after the store, which uses
/// it.
pub struct Database {
    pub handle: u64,
    pub db: Db,
    pub lending: Arc<Lending>,
    pub comparator: Option<InUse>,
}

/// Iterators and snapshots that callers hold. They are invalidated when the database is closed.
pub struct Lending {
    /// The process that opened the database.
    process: Process,
    lent: Mutex<Option<Lent>>,
}

#[derive(Default)]
struct Lent {
    next: u64,
    objects: HashMap<u64, Weak<dyn TakeBack>>,
}

/// An object that keeps the store open until it is invalidated.
pub trait TakeBack: Send + Sync {
    fn take_back(&self);
}

impl Lending {
    fn new() -> Result<Self> {
        Ok(Self { process: this_process()?, lent: Mutex::new(Some(Lent::default())) })
    }

    /// Returns an error in a process that was forked from the one that opened the database.
    #[inline]
    pub fn check_process(&self) -> Result<()> {
        if self.process.is_current() { Ok(()) } else { Err(Status::forked()) }
    }

    /// Registers an object and returns its number. Returns an error if the database is already
    /// closed.
    pub fn lend(&self, object: Weak<dyn TakeBack>) -> Result<u64> {
        let mut lent = self.lent.lock();
        let lent = lent.as_mut().ok_or_else(Status::closed)?;
        lent.next += 1;
        lent.objects.insert(lent.next, object);
        Ok(lent.next)
    }

    /// Removes an object that the caller has destroyed from the list.
    pub fn forget(&self, number: u64) {
        if let Some(lent) = &mut *self.lent.lock() {
            lent.objects.remove(&number);
        }
    }

    fn take_all_back(&self) {
        let lent = self.lent.lock().take();
        for object in lent.into_iter().flat_map(|lent| lent.objects.into_values()) {
            if let Some(object) = object.upgrade() {
                object.take_back();
            }
        }
    }
}

/// A reference to an open database. Closing cannot complete while it lives.
pub struct Using(Guard<Option<Arc<Database>>>);

impl Deref for Using {
    type Target = Database;

    #[inline]
    fn deref(&self) -> &Database {
        match &*self.0 {
            Some(database) => database,
            None => unreachable!("`database` gives out none that is not open"),
        }
    }
}

/// The open database that a handle names.
#[inline]
pub fn database(handle: *const leveldb_t) -> Result<Using> {
    let handle = handle.addr() as u64;
    let slot = slot_of(Kind::Database, handle).and_then(|number| DATABASES.get(number));
    let database = slot.map(|slot| slot.database.load());
    match database {
        Some(guard) if guard.as_ref().is_some_and(|database| database.handle == handle) => {
            let using = Using(guard);
            using.lending.check_process()?;
            Ok(using)
        }
        _ => Err(Status::invalid("the database is null or was closed")),
    }
}

impl Database {
    fn write(&self, batch: WriteBatch, sync: bool) -> Result<()> {
        let durability = if sync { Durability::Sync } else { Durability::Process };
        Ok(self.db.write_with(batch, WriteOptions::new().durability(durability))?)
    }

    fn close(&self) {
        self.lending.take_all_back();
        if let Err(error) = self.db.close() {
            tracing::error!(%error, path = %self.db.path().display(), "closing the database failed");
        }
    }
}

/// Opens a database. If that is not possible, returns null and stores an error.
///
/// # Safety
///
/// No thread destroys `options` during the call; `name` is a C string; `errptr` points to null or
/// to a text from `malloc`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_open(
    options_handle: *const leveldb_options_t,
    name: *const c_char,
    errptr: *mut *mut c_char,
) -> *mut leveldb_t {
    // SAFETY: as the caller promises.
    unsafe {
        with_error(errptr, null_mut(), || {
            let lending = Arc::new(Lending::new()?);
            let (options, comparator) = options(options_handle)?.to_cantle()?;
            let path = path(name)?;
            check_parent(path)?;
            let db = options.open(path)?;
            let Some((number, slot)) = DATABASES.take() else {
                return Err(Status::io("a million databases are open: close one first"));
            };
            let handle = encode(Kind::Database, number, slot.uses.fetch_add(1, Relaxed));
            slot.database.store(Some(Arc::new(Database { handle, db, lending, comparator })));
            Ok(to_pointer(handle))
        })
    }
}

/// Makes all writes durable and closes the database. Its iterators and snapshots become invalid. No
/// effect in a process that was forked from the one that opened the database.
///
/// # Safety
///
/// None: a handle that was closed before is recognised.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_close(handle: *mut leveldb_t) {
    quietly((), || {
        let Ok(using) = database(handle) else { return };
        let Some(number) = slot_of(Kind::Database, using.handle) else { return };
        let Some(slot) = DATABASES.get(number) else { return };
        let closing = slot.database.compare_and_swap(&*using.0, None);
        let is_ours = closing.as_ref().is_some_and(|closing| closing.handle == using.handle);
        drop(closing);
        if is_ours {
            using.close();
            drop(using);
            DATABASES.give_back(number);
        }
    });
}

/// Stores a pair.
///
/// # Safety
///
/// No thread destroys `options` during the call; key and value have the given lengths; `errptr` as
/// for `leveldb_open`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_put(
    handle: *mut leveldb_t,
    options: *const leveldb_writeoptions_t,
    key: *const c_char,
    key_bytes: usize,
    value: *const c_char,
    value_bytes: usize,
    errptr: *mut *mut c_char,
) {
    // SAFETY: as the caller promises.
    unsafe {
        with_error(errptr, (), || {
            let database = database(handle)?;
            let (key, value) = (lent(key, key_bytes, "key")?, lent(value, value_bytes, "value")?);
            if !is_sync(options)? {
                return Ok(database.db.put(key, value)?);
            }
            let mut batch = WriteBatch::new();
            batch.put(key, value);
            database.write(batch, true)
        });
    }
}

/// Removes a key, if it is present.
///
/// # Safety
///
/// As for [`leveldb_put`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_delete(
    handle: *mut leveldb_t,
    options: *const leveldb_writeoptions_t,
    key: *const c_char,
    key_bytes: usize,
    errptr: *mut *mut c_char,
) {
    // SAFETY: as the caller promises.
    unsafe {
        with_error(errptr, (), || {
            let database = database(handle)?;
            let key = lent(key, key_bytes, "key")?;
            if !is_sync(options)? {
                return Ok(database.db.delete(key)?);
            }
            let mut batch = WriteBatch::new();
            batch.delete(key);
            database.write(batch, true)
        });
    }
}

/// Applies a batch atomically. The batch is not changed.
///
/// # Safety
///
/// No thread destroys the objects during the call; `errptr` as for `leveldb_open`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_write(
    handle: *mut leveldb_t,
    options: *const leveldb_writeoptions_t,
    batch: *mut leveldb_writebatch_t,
    errptr: *mut *mut c_char,
) {
    // SAFETY: as the caller promises.
    unsafe {
        with_error(errptr, (), || {
            let database = database(handle)?;
            database.write(to_cantle(batch)?, is_sync(options)?)
        });
    }
}

/// The key's value and its length, to be freed by the caller; null and 0 if the key is absent or
/// there is an error.
///
/// # Safety
///
/// No thread destroys the objects during the call; the key has the given length; `value_bytes` is
/// null or can be written to; `errptr` as for `leveldb_open`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_get(
    handle: *mut leveldb_t,
    options: *const leveldb_readoptions_t,
    key: *const c_char,
    key_bytes: usize,
    value_bytes: *mut usize,
    errptr: *mut *mut c_char,
) -> *mut c_char {
    // SAFETY: as the caller promises.
    unsafe {
        if !value_bytes.is_null() {
            *value_bytes = 0;
        }
        with_error(errptr, null_mut(), || {
            let read = |value: &[u8]| given(value).map(|copy| (copy, value.len()));
            let found = get_with(handle, options, key, key_bytes, read)?;
            let Some((copy, length)) = found.transpose()? else { return Ok(null_mut()) };
            if !value_bytes.is_null() {
                *value_bytes = length;
            }
            Ok(copy)
        })
    }
}

/// An extension: passes the key's value to `found`, without a copy. `found` is called with `state`
/// at most once. Returns 1 if the key is present.
///
/// # Safety
///
/// As for [`leveldb_get`]; `found` may be called, does not keep the bytes, and calls no function of
/// this library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_cantle_get(
    handle: *mut leveldb_t,
    options: *const leveldb_readoptions_t,
    key: *const c_char,
    key_bytes: usize,
    state: *mut c_void,
    found: Option<unsafe extern "C" fn(*mut c_void, *const c_char, usize)>,
    errptr: *mut *mut c_char,
) -> u8 {
    // SAFETY: as the caller promises.
    unsafe {
        with_error(errptr, 0, || {
            let lend = |value: &[u8]| {
                if let Some(found) = found {
                    // SAFETY: the same.
                    found(state, value.as_ptr().cast(), value.len());
                }
            };
            Ok(u8::from(get_with(handle, options, key, key_bytes, lend)?.is_some()))
        })
    }
}

/// An extension: writes a consistent copy of the database into a new or empty directory. The copy
/// is a database that can be opened.
///
/// # Safety
///
/// No thread destroys the database during the call; `name` is a C string; `errptr` points to null
/// or to a text from `malloc`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_cantle_backup(
    handle: *mut leveldb_t,
    name: *const c_char,
    errptr: *mut *mut c_char,
) {
    // SAFETY: as the caller promises.
    unsafe {
        with_error(errptr, (), || {
            let (database, path) = (database(handle)?, path(name)?);
            database.db.backup(path).map_err(|error| match error {
                // The usual message for an existing database is about the options of
                // `leveldb_open`, which do not apply here.
                cantle::Error::AlreadyExists { path, .. } => Status::invalid(format!(
                    "{}: a backup goes into a new or an empty directory, and there is a database",
                    path.display()
                )),
                error => error.into(),
            })
        });
    }
}

/// Passes a key's value to `read`, without a copy.
///
/// # Safety
///
/// No thread destroys the objects during the call; the key has the given length.
#[inline]
unsafe fn get_with<T>(
    handle: *const leveldb_t,
    options: *const leveldb_readoptions_t,
    key: *const c_char,
    key_bytes: usize,
    read: impl FnOnce(&[u8]) -> T,
) -> Result<Option<T>> {
    let database = database(handle)?;
    // SAFETY: as the caller promises.
    unsafe {
        let key = lent(key, key_bytes, "key")?;
        let snapshot = snapshot_to_read(options)?;
        if snapshot.is_null() {
            return Ok(database.db.get_with(key, read)?);
        }
        with_snapshot(&database, snapshot, |snapshot| Ok(snapshot.get_with(key, read)?))
    }
}
