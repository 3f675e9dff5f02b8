//! Error objects.

use crate::boundary::quietly;
use crate::failure::{Details, Failure};
use crate::handle::{self, Object};
use crate::status::*;
use std::ffi::{CString, c_char};
use std::os::unix::ffi::OsStringExt;
use std::ptr::null;

/// The reason why a call failed: a kind, a message for people, and the place. Made by the functions
/// that take a `cantle_error **`; freed by cantle_error_free.
pub struct cantle_error {
    _opaque: [u8; 0],
}

pub(crate) struct OpenError {
    status: cantle_status,
    message: CString,
    path: Option<CString>,
    offset: Option<u64>,
    os_code: i32,
}

impl Object for OpenError {
    type Opaque = cantle_error;
    const NAME: &'static str = "cantle_error";
    const OF_A_STORE: bool = false;
}

impl From<Failure> for OpenError {
    fn from(failure: Failure) -> Self {
        let Details { status, message, path, offset, os_code } = *failure.0;
        let path = path.map(|path| without_zeros(path.into_os_string().into_vec()));
        Self { status, message: without_zeros(message.into_bytes()), path, offset, os_code }
    }
}

/// A text for C, without its zero bytes.
fn without_zeros(mut bytes: Vec<u8>) -> CString {
    bytes.retain(|&byte| byte != 0);
    CString::new(bytes).unwrap_or_default()
}

impl OpenError {
    /// The failure that this error reports, for a caller that continues with it.
    pub(crate) fn to_failure(&self) -> Failure {
        let mut failure = Failure::new(self.status, self.message.to_string_lossy());
        failure.0.path =
            self.path.as_ref().map(|path| std::ffi::OsString::from_vec(path.as_bytes().to_vec()).into());
        failure.0.offset = self.offset;
        failure.0.os_code = self.os_code;
        failure
    }
}

/// The kind of an error.
///
/// Ownership: nothing changes hands. Errors: CANTLE_OK for NULL, CANTLE_INVALID_ARGUMENT for a
/// handle that is no error or was freed. Threads: any, at any time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cantle_error_status(error: *const cantle_error) -> cantle_status {
    quietly(CANTLE_INTERNAL, || {
        if error.is_null() {
            return Ok(CANTLE_OK);
        }
        Ok(handle::get::<OpenError>(error).map_or(CANTLE_INVALID_ARGUMENT, |error| error.status))
    })
}

/// The message: the failed operation, the place, and the remedy, as a sentence in English without a
/// full stop.
///
/// Ownership: the text is the error's, and ends with it. Errors: a text that says so for NULL, and
/// for a handle that is no error or was freed; never NULL. Threads: any, at any time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cantle_error_message(error: *const cantle_error) -> *const c_char {
    let none = c"no error was given";
    quietly(none.as_ptr(), || {
        if error.is_null() {
            return Ok(none.as_ptr());
        }
        let gone = c"this is no error, or one that was freed already";
        Ok(handle::get::<OpenError>(error).map_or(gone.as_ptr(), |error| error.message.as_ptr()))
    })
}

/// The file or directory that an error is about, or NULL if there is none.
///
/// Ownership: the text is the error's, and ends with it. Errors: NULL for a handle that is no error
/// or was freed. Threads: any, at any time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cantle_error_path(error: *const cantle_error) -> *const c_char {
    quietly(null(), || {
        let error = handle::get::<OpenError>(error)?;
        Ok(error.path.as_ref().map_or(null(), |path| path.as_ptr()))
    })
}

/// Offset of the damage in the file, in bytes, or -1 if the error is not CANTLE_CORRUPTION.
///
/// Ownership: nothing changes hands. Errors: -1 for a handle that is no error or was freed.
/// Threads: any, at any time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cantle_error_offset(error: *const cantle_error) -> i64 {
    quietly(-1, || {
        let error = handle::get::<OpenError>(error)?;
        Ok(error.offset.and_then(|offset| i64::try_from(offset).ok()).unwrap_or(-1))
    })
}

/// Error number of the operating system (`errno`), or 0 if there is none.
///
/// Ownership: nothing changes hands. Errors: 0 for a handle that is no error or was freed. Threads:
/// any, at any time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cantle_error_os_code(error: *const cantle_error) -> i32 {
    quietly(0, || Ok(handle::get::<OpenError>(error)?.os_code))
}

/// Frees an error. Does nothing for NULL.
///
/// Ownership: the error and its texts are gone afterwards. Errors: CANTLE_INVALID_ARGUMENT for a
/// handle that is no error or was freed. Threads: any; no thread may read the error's texts
/// meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cantle_error_free(error: *mut cantle_error) -> cantle_status {
    crate::boundary::saying(|| handle::free::<OpenError>(error))
}
