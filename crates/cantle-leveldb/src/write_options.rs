//! Options of a write.

use crate::call::{opaque, quietly};
use crate::handles::{Handles, Kind};
use crate::status::{Result, Status};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

opaque! {
    /// Options of a write.
    leveldb_writeoptions_t,
}

static WRITE_OPTIONS: Handles<AtomicBool> = Handles::new(Kind::WriteOptions);

/// True if a write must be durable when it returns.
///
/// # Safety
///
/// No thread destroys the options during the call.
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
/// No other thread uses them at this moment.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_writeoptions_destroy(options: *mut leveldb_writeoptions_t) {
    quietly((), || drop(WRITE_OPTIONS.remove(options)));
}

/// If `on` is not 0, a write is durable (survives a loss of power) when it returns. Default: 0.
///
/// # Safety
///
/// No thread destroys the options during the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_writeoptions_set_sync(options: *mut leveldb_writeoptions_t, on: u8) {
    quietly((), || {
        // SAFETY: as the caller promises.
        if let Some(sync) = unsafe { WRITE_OPTIONS.get(options) } {
            sync.store(on != 0, Relaxed);
        }
    });
}
