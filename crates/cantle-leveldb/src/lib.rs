//! LevelDB's C interface (`leveldb/c.h`, 1.23) over Cantle, for programs that link it instead of `libleveldb`.
//!
//! ```text
//!   database  iterator  snapshot  manage  property     what works on a store
//!   batch  options  read_options  comparator  …        what it is given
//!        │
//!   call  status  bytes                                 the boundary: panics, errors, memory of the C library
//!   handles                                             which objects live
//! ```
//!
//! Every object is a *handle* ([`handles`]): a number in the shape of a pointer, looked up at each use. So a null pointer, an
//! object that was destroyed and one of another type are recognised without being touched. A bad call gives an error where
//! the function can return one; else it has no effect, or the object that it was made on remembers it and gives the error later.
//!
//! Ownership, as in LevelDB: what `create` or `open` returned goes by `destroy`, `release` or `close`, never by both;
//! an object must not be destroyed while another thread uses it. A database may be closed at any time.
#![expect(unsafe_code, reason = "a C interface: pointers, callbacks, exported names")]

mod batch;
mod bytes;
mod cache;
mod call;
mod comparator;
mod database;
mod env;
mod filter_policy;
mod handles;
mod iterator;
mod manage;
mod memory;
mod options;
mod property;
mod read_options;
mod snapshot;
mod status;
mod write_options;

use std::ffi::{c_int, c_void};

/// Releases what a function of this library returned.
///
/// # Safety
///
/// `pointer` is null, or came from this library and was not released.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_free(pointer: *mut c_void) {
    // SAFETY: as the caller promises; everything that is returned to be freed comes from `malloc`.
    unsafe { libc::free(pointer) }
}

/// Of LevelDB's interface.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_major_version() -> c_int {
    1
}

/// Of LevelDB's interface.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_minor_version() -> c_int {
    23
}
