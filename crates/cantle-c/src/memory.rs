//! Memory that the caller frees: from C's own `malloc`, so that tools that watch it know of it.

use crate::boundary::quietly;
use crate::failure::{Failure, Outcome};
use crate::handle;
use crate::status::CANTLE_OUT_OF_MEMORY;
use std::ffi::{c_char, c_void};
use std::ptr::null_mut;

/// A copy for the caller, followed by a zero byte.
#[inline]
pub(crate) fn copy_of(bytes: &[u8]) -> Outcome<*mut c_char> {
    let block = allocate(bytes.len().saturating_add(1))?;
    // SAFETY: the block is new, and one byte longer than `bytes`.
    unsafe {
        block.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
        block.add(bytes.len()).write(0);
    }
    Ok(block.cast())
}

/// The same for a text.
pub(crate) fn text_of(text: &str) -> Outcome<*mut c_char> {
    check_text(text)?;
    copy_of(text.as_bytes())
}

fn check_text(text: &str) -> Outcome<()> {
    if text.contains('\0') {
        return Err(Failure::invalid(format!("{text:?} holds a zero byte, which no text of C can")));
    }
    Ok(())
}

/// Texts as an array that ends with NULL, in one block.
pub(crate) fn array_of(texts: &[String]) -> Outcome<*mut *mut c_char> {
    texts.iter().try_for_each(|text| check_text(text))?;
    let pointers = (texts.len() + 1) * size_of::<*mut c_char>();
    let total: usize = pointers + texts.iter().map(|text| text.len() + 1).sum::<usize>();
    let block = allocate(total)?;
    let array = block.cast::<*mut c_char>();
    let mut at = pointers;
    for (index, text) in texts.iter().enumerate() {
        // SAFETY: `total` counts the pointers, one more, and every text with its zero byte; malloc aligns for pointers.
        unsafe {
            let place = block.add(at);
            place.copy_from_nonoverlapping(text.as_ptr(), text.len());
            place.add(text.len()).write(0);
            array.add(index).write(place.cast());
        }
        at += text.len() + 1;
    }
    // SAFETY: the last of the pointers.
    unsafe { array.add(texts.len()).write(null_mut()) };
    Ok(array)
}

#[inline]
fn allocate(bytes: usize) -> Outcome<*mut u8> {
    // SAFETY: any size will do; what comes back is checked.
    let block: *mut c_void = unsafe { libc::malloc(bytes) };
    if block.is_null() {
        return Err(Failure::new(CANTLE_OUT_OF_MEMORY, format!("there is no memory for {bytes} bytes")));
    }
    Ok(block.cast())
}

/// Number of handles of any kind that this process has not freed yet. For tests that look for
/// forgotten handles, which no tool that watches memory can find. Looks at as many slots as there
/// ever were handles at one time.
///
/// Ownership: nothing changes hands. Errors: none. Threads: any; handles that other threads create
/// or free meanwhile may be counted or not.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cantle_handle_count() -> usize {
    quietly(0, || Ok(handle::count()))
}

/// Frees memory that a function of this header says is to be freed by cantle_free. Does nothing for
/// NULL.
///
/// Ownership: `data` is gone afterwards. Errors: none; memory that did not come from this library,
/// or was freed already, must not be given. A handle is not freed by this, and stays as it is.
/// Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cantle_free(data: *mut c_void) {
    if handle::may_be_one(data) {
        return;
    }
    // SAFETY: it is NULL or of `allocate`, by the contract above.
    unsafe { libc::free(data) }
}
