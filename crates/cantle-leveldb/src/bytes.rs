//! Memory of callers: what they lend, and what they are given.

use crate::status::{Code, Result, Status};
use std::ffi::{CStr, OsStr, c_char};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// What a pointer and a length lend; a null pointer lends no bytes.
///
/// # Safety
///
/// `bytes` is null or has `length` bytes, and they stay as they are while the slice is in use.
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
/// `name` is null or a C string that stays as it is while the path is in use.
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

/// The directory that a path's last name is in.
pub fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// A database is made in a directory that is there: as LevelDB does, since a missing one is most often a mistake or not mounted.
pub fn check_parent(path: &Path) -> Result<()> {
    match std::fs::metadata(parent(path)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let lock = path.join("LOCK");
            Err(Status::new(Code::NotFound, format!("{}: No such file or directory", lock.display())))
        }
        // What else is wrong opening finds out.
        _ => Ok(()),
    }
}

/// A copy that the caller frees; null if there is no memory.
#[inline]
pub fn copy(bytes: &[u8]) -> *mut c_char {
    // SAFETY: a length of at least one, and what is copied to was just allocated with as many bytes.
    unsafe {
        let copy: *mut u8 = libc::malloc(bytes.len().max(1)).cast();
        if !copy.is_null() {
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), copy, bytes.len());
        }
        copy.cast()
    }
}

/// A copy as a C string that the caller frees; null if there is no memory. It ends where the text has a zero byte.
pub fn copy_text(text: &str) -> *mut c_char {
    let text = text.split('\0').next().unwrap_or_default();
    let mut bytes = Vec::with_capacity(text.len() + 1);
    bytes.extend_from_slice(text.as_bytes());
    bytes.push(0);
    copy(&bytes)
}

/// As [`copy`], with an error in the place of null.
#[inline]
pub fn given(bytes: &[u8]) -> Result<*mut c_char> {
    match copy(bytes) {
        copy if copy.is_null() => Err(Status::io(format!("no memory for {} bytes", bytes.len()))),
        copy => Ok(copy),
    }
}
