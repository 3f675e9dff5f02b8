//! Options of a read.

use crate::call::{opaque, quietly};
use crate::handles::{Handles, Kind};
use crate::snapshot::leveldb_snapshot_t;
use crate::status::{Result, Status};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering::Relaxed};

opaque! {
    /// Options of a read.
    leveldb_readoptions_t,
}

/// For each options object the handle of the snapshot to read, or null.
static READ_OPTIONS: Handles<AtomicPtr<leveldb_snapshot_t>> = Handles::new(Kind::ReadOptions);

/// The handle of the snapshot to read, which may have been released since; null for the current
/// state.
///
/// # Safety
///
/// No thread destroys the options during the call.
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
/// No other thread uses them at this moment.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_readoptions_destroy(options: *mut leveldb_readoptions_t) {
    quietly((), || drop(READ_OPTIONS.remove(options)));
}

/// No effect: checksums are always verified when a file is read.
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

/// No effect: a scan does not evict popular data.
///
/// # Safety
///
/// None.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_readoptions_set_fill_cache(_options: *mut leveldb_readoptions_t, _on: u8) {}

/// Sets the snapshot to read; null for the state at the time of the read. Default: null.
///
/// # Safety
///
/// No thread destroys the options during the call.
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
