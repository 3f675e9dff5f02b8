//! Memory that crosses the boundary: bytes that the caller passes in, and copies that the caller
//! frees.

use crate::status::{Code, Result, Status};
use std::ffi::{CStr, OsStr, c_char};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The bytes at a pointer with a length. A null pointer with length 0 has no bytes.
///
/// # Safety
///
/// `bytes` is null or points to `length` bytes, which do not change while the slice is in use.
#[inline]
pub unsafe fn lent<'a>(bytes: *const c_char, length: usize, what: &str) -> Result<&'a [u8]> {
    if length == 0 {
        return Ok(&[]);
    }
    if bytes.is_null() {
        return Err(Status::invalid(format!("the {what} is null, and {length} bytes long")));
    }
    if length > isize::MAX as usize {
        return Err(Status::invalid(format!("a {what} of {length} bytes is longer than memory")));
    }
    // SAFETY: as the caller promises.
    Ok(unsafe { std::slice::from_raw_parts(bytes.cast(), length) })
}

/// The path that a C string names.
///
/// # Safety
///
/// `name` is null or a C string that does not change while the path is in use.
pub unsafe fn path<'a>(name: *const c_char) -> Result<&'a Path> {
    if name.is_null() {
        return Err(Status::invalid("the database's name is null"));
    }
    // SAFETY: as the caller promises.
    let name = unsafe { CStr::from_ptr(name) };
    if name.is_empty() {
        return Err(Status::invalid("the database's name is empty: give the path of a directory"));
    }
    Ok(Path::new(OsStr::from_bytes(name.to_bytes())))
}

/// The directory that contains the path's last component.
pub fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// Checks that the parent directory exists. As LevelDB does, a database is only created in an
/// existing directory: a missing one is most often a mistake or not mounted.
pub fn check_parent(path: &Path) -> Result<()> {
    match std::fs::metadata(parent(path)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let lock = path.join("LOCK");
            Err(Status::new(Code::NotFound, format!("{}: No such file or directory", lock.display())))
        }
        // Other errors are reported when the database is opened.
        _ => Ok(()),
    }
}

/// A copy that the caller frees; null if there is no memory.
#[inline]
pub fn copy(bytes: &[u8]) -> *mut c_char {
    // SAFETY: the length is at least one, and the destination was just allocated with enough bytes.
    unsafe {
        let copy: *mut u8 = libc::malloc(bytes.len().max(1)).cast();
        if !copy.is_null() {
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), copy, bytes.len());
        }
        copy.cast()
    }
}

/// A copy as a C string that the caller frees; null if there is no memory. It ends at the first
/// zero byte of the text.
pub fn copy_text(text: &str) -> *mut c_char {
    let text = text.split('\0').next().unwrap_or_default();
    let mut bytes = Vec::with_capacity(text.len() + 1);
    bytes.extend_from_slice(text.as_bytes());
    bytes.push(0);
    copy(&bytes)
}

/// As [`copy`], but returns an error instead of null.
#[inline]
pub fn given(bytes: &[u8]) -> Result<*mut c_char> {
    match copy(bytes) {
        copy if copy.is_null() => Err(Status::io(format!("no memory for {} bytes", bytes.len()))),
        copy => Ok(copy),
    }
}
