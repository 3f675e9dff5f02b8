//! Operations on databases that are not open: destroying and repairing.
//!
//! The names and the steps of a repair are described in [`RepairInPlace`]. If a repair is
//! interrupted at any point, the next one starts over.

use crate::bytes::{check_parent, path};
use crate::call::with_error;
use crate::options::{Options, leveldb_options_t, options};
use crate::status::{Result, Status};
use cantle::Error;
use cantle_bindings::{Failure, RepairInPlace};
use std::ffi::c_char;
use std::fs;
use std::path::Path;

/// Removes a database's files, and its directory unless it contains other files. No error if there
/// is no database.
///
/// # Safety
///
/// No thread destroys `options` during the call; `name` is a C string; `errptr` points to null or
/// to a text from `malloc`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_destroy_db(
    options_handle: *const leveldb_options_t,
    name: *const c_char,
    errptr: *mut *mut c_char,
) {
    // SAFETY: as the caller promises.
    unsafe {
        with_error(errptr, (), || {
            options(options_handle)?;
            destroy(path(name)?)
        });
    }
}

/// Repairs a damaged database. Data that could not be saved is kept next to it, in `NAME.lost`.
///
/// # Safety
///
/// As for [`leveldb_destroy_db`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_repair_db(
    options_handle: *const leveldb_options_t,
    name: *const c_char,
    errptr: *mut *mut c_char,
) {
    // SAFETY: as the caller promises.
    unsafe { with_error(errptr, (), || repair(&options(options_handle)?, path(name)?)) };
}

fn destroy(path: &Path) -> Result<()> {
    match cantle::Db::destroy(path, cantle::Options::new()) {
        Err(Error::NotAStore { path, what, .. }) if what.contains("LevelDB") => {
            let import = "`cantle import --leveldb DIR DB` copies a LevelDB directory into a database";
            return Err(Status::invalid(format!("{}: {what}; {import}", path.display())));
        }
        done => done?,
    }
    // Fails if the directory contains other files, which must stay.
    let _ = fs::remove_dir(path);
    Ok(())
}

fn repair(options: &Options, path: &Path) -> Result<()> {
    let (cantle, _comparator) = options.to_cantle()?;
    check_parent(path)?;
    let repair = RepairInPlace { options: &cantle, kept_suffix: ".lost", starts_over: true };
    repair.repair(path).map_err(|failure| match failure {
        Failure::Store(error) => error.into(),
        Failure::System(what, path, error) => Status::io(format!("{what} {}: {error}", path.display())),
    })
}
