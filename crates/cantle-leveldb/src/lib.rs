//! LevelDB's C interface (`leveldb/c.h`, 1.23) over Cantle, for programs that link it instead of
//! `libleveldb`.
//!
//! ```text
//!   database  iterator  snapshot  manage  property     operations on a store
//!   batch  options  read_options  comparator  …        their arguments
//!        │
//!   call  status  bytes                                 the boundary: panics, errors, memory of the C library
//!   handles                                             table of the live objects
//! ```
//!
//! Every object is a *handle* ([`handles`]): a number that looks like a pointer and is looked up at
//! each use. A null pointer, a destroyed object and an object of another type are thus recognised
//! without being dereferenced. An invalid call returns an error if the function can return one. If
//! not, it has no effect, or its object remembers the error and returns it later.
//!
//! Ownership, as in LevelDB: an object that `create` or `open` returned is released by `destroy`,
//! `release` or `close`, exactly once; an object must not be destroyed while another thread uses
//! it. A database may be closed at any time.
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

/// Frees memory that a function of this library returned.
///
/// # Safety
///
/// `pointer` is null, or came from this library and was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_free(pointer: *mut c_void) {
    // SAFETY: as the caller promises; all memory that is returned to be freed comes from `malloc`.
    unsafe { libc::free(pointer) }
}

/// The major version of LevelDB's interface.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_major_version() -> c_int {
    1
}

/// The minor version of LevelDB's interface.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_minor_version() -> c_int {
    23
}
