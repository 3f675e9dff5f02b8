//! Wrappers around every call: no panic leaves the library, and errors are stored where the caller
//! asked for them.

use crate::bytes::copy_text;
use crate::status::{Result, Status};
use cantle_bindings::Process;
use std::any::Any;
use std::ffi::c_char;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs a call that cannot return errors. Returns `otherwise` after a panic.
#[inline]
pub fn quietly<T>(otherwise: T, run: impl FnOnce() -> T) -> T {
    // Unwind safety: state that a panic leaves half changed is guarded by locks without poisoning,
    // and by the store's own rules.
    catch_unwind(AssertUnwindSafe(run)).unwrap_or(otherwise)
}

/// Runs a call. An error is stored in `errptr`, and the call then returns `otherwise`.
///
/// # Safety
///
/// `errptr` is null, or points to null or to a text from `malloc`.
#[inline]
pub unsafe fn with_error<T>(errptr: *mut *mut c_char, otherwise: T, run: impl FnOnce() -> Result<T>) -> T {
    match catch_unwind(AssertUnwindSafe(run)) {
        Ok(Ok(value)) => value,
        // SAFETY: as the caller promises.
        Ok(Err(status)) => unsafe {
            save(errptr, &status);
            otherwise
        },
        // SAFETY: the same.
        Err(panic) => unsafe {
            save(errptr, &Status::io(format!("internal error, please report it: {}", said(&*panic))));
            otherwise
        },
    }
}

/// Stores an error, and frees the text of the error before it.
///
/// # Safety
///
/// As for [`with_error`].
pub unsafe fn save(errptr: *mut *mut c_char, status: &Status) {
    if errptr.is_null() {
        tracing::error!(%status, "a call failed, and its caller passed no errptr");
        return;
    }
    // SAFETY: as the caller promises.
    unsafe {
        libc::free((*errptr).cast());
        *errptr = copy_text(&status.to_string());
    }
}

/// The message of a panic.
fn said(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("a panic without words")
}

/// The calling process. Its forks are detected from now on.
pub fn this_process() -> Result<Process> {
    Process::watched().map_err(|error| Status::io(format!("forks of the process cannot be watched: {error}")))
}

/// Defines types that callers know by name only.
macro_rules! opaque {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        $(
            $(#[$doc])*
            #[repr(C)]
            pub struct $name {
                _private: [u8; 0],
            }
        )*
    };
}
pub(crate) use opaque;

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CStr;
    use std::ptr::null_mut;

    #[test]
    fn errors_and_panics_replace_the_text_that_was_there() {
        let mut error: *mut c_char = null_mut();
        // SAFETY: `error` is null at first, then points to the text that was saved there.
        unsafe {
            assert_eq!(with_error(&mut error, 0, || Ok(7)), 7);
            assert!(error.is_null());
            assert_eq!(with_error(&mut error, 0, || Err(Status::invalid("first"))), 0);
            assert_eq!(CStr::from_ptr(error).to_str().unwrap(), "Invalid argument: first");
            assert_eq!(with_error(&mut error, 0, || panic!("second {}", 2)), 0);
            let text = CStr::from_ptr(error).to_str().unwrap();
            assert!(text.starts_with("IO error: ") && text.ends_with("second 2"), "{text}");
            libc::free(error.cast());
            assert_eq!(with_error(null_mut(), 1, || Err(Status::closed())), 1);
        }
        assert_eq!(quietly(3, || panic!("nobody hears")), 3);
    }
}
