//! The boundary to C: no panic crosses it, and every failure becomes a status or an error object.

use crate::error::{OpenError, cantle_error};
use crate::failure::{Failure, Outcome};
use crate::handle;
use crate::raw::Out;
use crate::status::*;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr::null_mut;

/// Runs a function that returns its outcome as a status.
///
/// # Safety
///
/// `error` is NULL or may be written to.
#[inline]
pub(crate) unsafe fn status(
    error: *mut *mut cantle_error,
    body: impl FnOnce() -> Outcome<()>,
) -> cantle_status {
    // SAFETY: as above.
    let error = unsafe { Out::optional(error, null_mut()) };
    match caught(body) {
        Ok(()) => CANTLE_OK,
        Err(failure) => tell(failure, &error),
    }
}

/// Runs a function that returns a value, or `otherwise` if it fails.
///
/// # Safety
///
/// As for [`status`].
#[inline]
pub(crate) unsafe fn value<T>(
    error: *mut *mut cantle_error,
    otherwise: T,
    body: impl FnOnce() -> Outcome<T>,
) -> T {
    // SAFETY: as above.
    let error = unsafe { Out::optional(error, null_mut()) };
    caught(body).unwrap_or_else(|failure| {
        tell(failure, &error);
        otherwise
    })
}

/// Runs a function that does not report why it fails.
#[inline]
pub(crate) fn quietly<T>(otherwise: T, body: impl FnOnce() -> Outcome<T>) -> T {
    caught(body).unwrap_or(otherwise)
}

/// Runs a function that reports its outcome by its status alone.
pub(crate) fn saying(body: impl FnOnce() -> Outcome<()>) -> cantle_status {
    caught(body).map_or_else(|failure| failure.0.status, |()| CANTLE_OK)
}

/// Objects that are unwound over are complete or behind a lock. At worst, an iterator or a batch is
/// in the middle of one step, and memory safety does not depend on that.
#[inline]
fn caught<T>(body: impl FnOnce() -> Outcome<T>) -> Outcome<T> {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|panic| Err(unwound(panic)))
}

/// Unwinds through the store's operation that called a callback, because there is no other way out:
/// nothing is written, and the function of the interface fails with `failure`. This is not a panic:
/// no panic hook runs.
#[cold]
pub(crate) fn give_up(failure: Failure) -> ! {
    resume_unwind(Box::new(failure))
}

#[cold]
fn unwound(panic: Box<dyn Any + Send>) -> Failure {
    panic.downcast::<Failure>().map_or_else(|panic| mistake(&*panic), |failure| *failure)
}

#[cold]
fn mistake(panic: &(dyn Any + Send)) -> Failure {
    let what = panic.downcast_ref::<&str>().copied();
    let what = what
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("it says nothing of why");
    Failure::new(
        CANTLE_INTERNAL,
        format!("the library panicked, which is a mistake in it: please report {what:?}"),
    )
}

#[cold]
fn tell(failure: Failure, error: &Out<*mut cantle_error>) -> cantle_status {
    let status = failure.0.status;
    if error.is_wanted() {
        error.set(object_of(failure));
    }
    status
}

/// Calls `run` with the status of a failure and an error object, which ends with the call.
#[cold]
pub(crate) fn lend_error(failure: Failure, run: impl FnOnce(cantle_status, *const cantle_error)) {
    let status = failure.0.status;
    let error = object_of(failure);
    run(status, error);
    // If the callback freed it against the contract, its handle is unknown, and nothing is left to do.
    let _ = handle::free::<OpenError>(error);
}

/// A new error object. Without memory or slots for one this is NULL, and the status alone is returned.
fn object_of(failure: Failure) -> *mut cantle_error {
    caught(|| handle::create(OpenError::from(failure))).unwrap_or(null_mut())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::*;
    use std::ffi::CStr;

    /// A panic of the library is an error that says what it was.
    #[test]
    fn no_panic_crosses_the_boundary() {
        let mut error = null_mut();
        // SAFETY: `error` is there.
        let status = unsafe { status(&mut error, || panic!("lost at {}", 7)) };
        assert_eq!(status, CANTLE_INTERNAL);
        // SAFETY: an error that was just made.
        unsafe {
            assert_eq!(cantle_error_status(error), CANTLE_INTERNAL);
            let message = CStr::from_ptr(cantle_error_message(error)).to_str().unwrap();
            assert!(message.contains("\"lost at 7\""), "{message}");
            assert_eq!(cantle_error_free(error), CANTLE_OK);
            assert_eq!(cantle_error_free(error), CANTLE_INVALID_ARGUMENT);
        }
        assert_eq!(quietly(3, || panic!("quiet")), 3);
        assert_eq!(saying(|| panic!("loud")), CANTLE_INTERNAL);
        assert_eq!(saying(|| give_up(Failure::new(CANTLE_ABORTED, "enough"))), CANTLE_ABORTED);
        // SAFETY: NULL is allowed.
        assert_eq!(unsafe { value(null_mut(), 4, || Err(Failure::invalid("wrong"))) }, 4);
    }
}
