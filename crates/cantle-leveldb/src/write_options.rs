//! How a write is done.

use crate::call::{opaque, quietly};
use crate::handles::{Handles, Kind};
use crate::status::{Result, Status};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

opaque! {
    /// How a write is done.
    leveldb_writeoptions_t,
}

static WRITE_OPTIONS: Handles<AtomicBool> = Handles::new(Kind::WriteOptions);

/// Whether a write is to survive the loss of power.
///
/// # Safety
///
/// Nobody destroys the options meanwhile.
#[inline]
pub unsafe fn is_sync(handle: *const leveldb_writeoptions_t) -> Result<bool> {
    // SAFETY: as the caller promises.
    let sync = unsafe { WRITE_OPTIONS.get(handle) };
    sync.map(|sync| sync.load(Relaxed)).ok_or_else(|| Status::no_object("write options object"))
}

/// LevelDB's defaults.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_writeoptions_create() -> *mut leveldb_writeoptions_t {
    quietly(null_mut(), || WRITE_OPTIONS.insert(AtomicBool::new(false)))
}

/// Destroys write options.
///
/// # Safety
///
/// No other thread uses them in this moment.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_writeoptions_destroy(options: *mut leveldb_writeoptions_t) {
    quietly((), || drop(WRITE_OPTIONS.remove(options)));
}

/// Whether a write survives the loss of power before it returns. Default: no.
///
/// # Safety
///
/// Nobody destroys the options meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_writeoptions_set_sync(options: *mut leveldb_writeoptions_t, on: u8) {
    quietly((), || {
        // SAFETY: as the caller promises.
        if let Some(sync) = unsafe { WRITE_OPTIONS.get(options) } {
            sync.store(on != 0, Relaxed);
        }
    });
}
