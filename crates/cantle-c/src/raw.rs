//! Arguments and results that are passed by pointers.
//!
//! The header states the contract once, all for the time of the call: data given by pointer and
//! length is readable, texts end with a zero byte, and places of results are writable. This module
//! finds `NULL` and impossible lengths. Nothing can find out if another pointer is right, which is
//! why every function of the interface is `unsafe`.

use crate::bound::cantle_slice;
use crate::failure::{Failure, Outcome};
use crate::status::CANTLE_OUT_OF_MEMORY;
use cantle::{KEY_BYTES_MAX, VALUE_BYTES_MAX};
use std::ffi::{CStr, OsStr, c_char, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Maximum length of a bound of a range: one byte more than the longest key, for a bound right
/// after that key.
const BOUND_BYTES_MAX: usize = KEY_BYTES_MAX + 1;

/// Maximum number of keys of one call. The addresses and lengths of 2^24 keys, 16 bytes each, take 256 MiB;
/// a negative number that was converted to a length is larger.
const KEYS_MAX: usize = 1 << 24;

/// At most `max` bytes of the caller. An impossible length is refused before anything is read: the
/// caller gave it by mistake (a negative number, or a variable that was never set).
///
/// # Safety
///
/// `data` is NULL, or `len` bytes are readable there if they are not more than `max`, and do not change while the result is used.
#[inline]
pub(crate) unsafe fn bytes<'a>(data: *const c_void, len: usize, max: usize, what: &str) -> Outcome<&'a [u8]> {
    if len > max {
        return Err(Failure::invalid(format!("the {what} is {len} bytes long, which is more than {max}")));
    }
    if data.is_null() {
        return if len == 0 { Ok(&[]) } else { Err(null(what, len)) };
    }
    // SAFETY: not NULL, of a possible length, and the caller vouches for the rest.
    Ok(unsafe { std::slice::from_raw_parts(data.cast(), len) })
}

#[cold]
fn null(what: &str, len: usize) -> Failure {
    Failure::invalid(format!("the {what} is NULL, but {len} bytes long"))
}

/// A key of the caller.
///
/// # Safety
///
/// As for [`bytes`].
#[inline]
pub(crate) unsafe fn key<'a>(data: *const c_void, len: usize) -> Outcome<&'a [u8]> {
    // SAFETY: as above.
    unsafe { bytes(data, len, KEY_BYTES_MAX, "key") }
}

/// An array of keys of the caller. Nothing of the array is read if its length is impossible.
///
/// # Safety
///
/// `keys` is NULL, or `count` elements are readable there if they are not more than [`KEYS_MAX`]. Each key
/// meets the conditions of [`bytes`].
pub(crate) unsafe fn keys<'a>(keys: *const cantle_slice, count: usize) -> Outcome<Vec<&'a [u8]>> {
    if count > KEYS_MAX {
        return Err(Failure::invalid(format!("there are {count} keys, which is more than {KEYS_MAX}")));
    }
    if keys.is_null() {
        return if count == 0 { Ok(Vec::new()) } else { Err(no_keys(count)) };
    }
    let mut checked = Vec::new();
    checked.try_reserve_exact(count).map_err(|_| no_memory(count))?;
    // SAFETY: not NULL, of a possible length, and the caller vouches for the rest.
    let keys = unsafe { std::slice::from_raw_parts(keys, count) };
    for (number, slice) in keys.iter().enumerate() {
        // SAFETY: as above.
        let key = unsafe { key(slice.data.cast(), slice.len) };
        checked.push(key.map_err(|failure| in_array(failure, number))?);
    }
    Ok(checked)
}

#[cold]
fn no_keys(count: usize) -> Failure {
    Failure::invalid(format!("the array of keys is NULL, but has {count} elements"))
}

#[cold]
fn no_memory(count: usize) -> Failure {
    Failure::new(CANTLE_OUT_OF_MEMORY, format!("there is no memory for the addresses of {count} keys"))
}

/// Adds the place of the key to the message.
#[cold]
fn in_array(mut failure: Failure, number: usize) -> Failure {
    failure.0.message.push_str(&format!(": keys[{number}]"));
    failure
}

/// A bound of a range of the caller, or a key to seek.
///
/// # Safety
///
/// As for [`bytes`].
#[inline]
pub(crate) unsafe fn bound<'a>(data: *const c_void, len: usize, what: &str) -> Outcome<&'a [u8]> {
    // SAFETY: as above.
    unsafe { bytes(data, len, BOUND_BYTES_MAX, what) }
}

/// A value of the caller.
///
/// # Safety
///
/// As for [`bytes`].
#[inline]
pub(crate) unsafe fn value<'a>(data: *const c_void, len: usize, what: &str) -> Outcome<&'a [u8]> {
    // SAFETY: as above.
    unsafe { bytes(data, len, VALUE_BYTES_MAX, what) }
}

/// A text of the caller.
///
/// # Safety
///
/// `text` is NULL, or ends with a zero byte, and does not change while the result is used.
pub(crate) unsafe fn text<'a>(text: *const c_char, what: &str) -> Outcome<&'a str> {
    // SAFETY: as above.
    let text = unsafe { c_str(text, what)? };
    text.to_str().map_err(|_| Failure::invalid(format!("the {what} is not UTF-8")))
}

/// A path of the caller: any bytes.
///
/// # Safety
///
/// As for [`text`].
pub(crate) unsafe fn path<'a>(path: *const c_char, what: &str) -> Outcome<&'a Path> {
    // SAFETY: as above.
    let path = unsafe { c_str(path, what)? };
    Ok(Path::new(OsStr::from_bytes(path.to_bytes())))
}

/// # Safety
///
/// As for [`text`].
unsafe fn c_str<'a>(text: *const c_char, what: &str) -> Outcome<&'a CStr> {
    if text.is_null() {
        return Err(Failure::invalid(format!("the {what} is NULL")));
    }
    // SAFETY: not NULL, and the caller vouches for the zero byte.
    Ok(unsafe { CStr::from_ptr(text) })
}

/// The place of a result.
pub(crate) struct Out<T>(*mut T);

impl<T> Out<T> {
    /// A result that the caller may not want. Its place holds `initially` until the result is set.
    ///
    /// # Safety
    ///
    /// `place` is NULL, or may be written to for as long as the result of this is used.
    #[inline]
    pub(crate) unsafe fn optional(place: *mut T, initially: T) -> Self {
        let out = Self(place);
        out.set(initially);
        out
    }

    /// A result without which the call makes no sense.
    ///
    /// # Safety
    ///
    /// As for [`optional`](Self::optional).
    #[inline]
    pub(crate) unsafe fn required(place: *mut T, initially: T, what: &str) -> Outcome<Self> {
        if place.is_null() {
            return Err(Failure::invalid(format!("the place for the {what} is NULL")));
        }
        // SAFETY: as above.
        Ok(unsafe { Self::optional(place, initially) })
    }

    #[inline]
    pub(crate) fn set(&self, value: T) {
        if !self.0.is_null() {
            // SAFETY: whoever made this vouched for the place. It may hold anything, so nothing is dropped there.
            unsafe { self.0.write(value) }
        }
    }

    pub(crate) fn is_wanted(&self) -> bool {
        !self.0.is_null()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ptr::null;

    /// No byte is read: only one is there.
    #[test]
    fn what_is_too_long_is_refused_before_it_is_read() {
        let data = b"k".as_ptr().cast();
        for len in [KEY_BYTES_MAX + 2, 1 << 40, isize::MAX as usize, usize::MAX] {
            // SAFETY: more than the limits.
            unsafe {
                assert!(key(data, len).is_err() && bound(data, len, "bound").is_err(), "{len}");
                assert!(len <= VALUE_BYTES_MAX || value(data, len, "value").is_err(), "{len}");
            }
        }
        let longest = vec![0; BOUND_BYTES_MAX];
        let data = longest.as_ptr().cast();
        // SAFETY: `longest` has as many bytes as each length says.
        unsafe {
            assert_eq!(key(data, KEY_BYTES_MAX).unwrap().len(), KEY_BYTES_MAX);
            assert!(key(data, KEY_BYTES_MAX + 1).is_err());
            assert_eq!(bound(data, BOUND_BYTES_MAX, "bound").unwrap().len(), BOUND_BYTES_MAX);
        }
    }

    #[test]
    fn null_is_no_bytes_or_a_mistake() {
        // SAFETY: NULL is allowed.
        unsafe {
            assert_eq!(key(null(), 0).unwrap(), b"");
            assert!(key(null(), 1).unwrap_err().0.message.contains("the key is NULL, but 1 bytes long"));
        }
    }

    #[test]
    fn an_array_of_keys_is_refused_if_one_is_wrong() {
        let slice = |data: &'static [u8], len| cantle_slice { data: data.as_ptr().cast(), len };
        let mut array = [slice(b"one", 3), cantle_slice::NONE, slice(b"three", 2)];
        // SAFETY: the array has three elements, and each key the bytes that its length says, up to the limit.
        unsafe {
            assert_eq!(keys(array.as_ptr(), 3).unwrap(), [&b"one"[..], b"", b"th"]);
            assert!(keys(array.as_ptr(), 0).unwrap().is_empty() && keys(null(), 0).unwrap().is_empty());
            for count in [KEYS_MAX + 1, 1 << 40, usize::MAX] {
                assert!(keys(array.as_ptr(), count).is_err() && keys(null(), count).is_err(), "{count}");
            }
            assert!(keys(null(), 2).unwrap_err().0.message.contains("the array of keys is NULL"));
            array[1].len = 1;
            assert!(keys(array.as_ptr(), 3).unwrap_err().0.message.ends_with("keys[1]"));
            array[1] = slice(b"two", KEY_BYTES_MAX + 1);
            assert!(keys(array.as_ptr(), 3).unwrap_err().0.message.ends_with("keys[1]"));
        }
    }
}
