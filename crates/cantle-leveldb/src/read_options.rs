//! How a read is done.

use crate::call::{opaque, quietly};
use crate::handles::{Handles, Kind};
use crate::snapshot::leveldb_snapshot_t;
use crate::status::{Result, Status};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering::Relaxed};

opaque! {
    /// How a read is done.
    leveldb_readoptions_t,
}

/// Of each the handle of the snapshot to read, or null.
static READ_OPTIONS: Handles<AtomicPtr<leveldb_snapshot_t>> = Handles::new(Kind::ReadOptions);

/// The handle of the snapshot that is to be read, which may have been released since; null for what is there now.
///
/// # Safety
///
/// Nobody destroys the options meanwhile.
#[inline]
pub unsafe fn snapshot_to_read(handle: *const leveldb_readoptions_t) -> Result<*const leveldb_snapshot_t> {
    // SAFETY: as the caller promises.
    let snapshot = unsafe { READ_OPTIONS.get(handle) };
    let snapshot = snapshot.map(|snapshot| snapshot.load(Relaxed).cast_const());
    snapshot.ok_or_else(|| Status::no_object("read options object"))
}

/// LevelDB's defaults.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_readoptions_create() -> *mut leveldb_readoptions_t {
    quietly(null_mut(), || READ_OPTIONS.insert(AtomicPtr::new(null_mut())))
}

/// Destroys read options.
///
/// # Safety
///
/// No other thread uses them in this moment.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_readoptions_destroy(options: *mut leveldb_readoptions_t) {
    quietly((), || drop(READ_OPTIONS.remove(options)));
}

/// No effect: checksums are verified whenever a file is read.
///
/// # Safety
///
/// None.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_readoptions_set_verify_checksums(
    _options: *mut leveldb_readoptions_t,
    _on: u8,
) {
}

/// No effect: a scan does not drive out what is popular.
///
/// # Safety
///
/// None.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_readoptions_set_fill_cache(_options: *mut leveldb_readoptions_t, _on: u8) {}

/// The snapshot to read; null for what is there when it is read. Default: null.
///
/// # Safety
///
/// Nobody destroys the options meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_readoptions_set_snapshot(
    options: *mut leveldb_readoptions_t,
    snapshot: *const leveldb_snapshot_t,
) {
    quietly((), || {
        // SAFETY: as the caller promises.
        if let Some(kept) = unsafe { READ_OPTIONS.get(options) } {
            kept.store(snapshot.cast_mut(), Relaxed);
        }
    });
}
