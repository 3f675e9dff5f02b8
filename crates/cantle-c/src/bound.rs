//! Bytes and ranges of keys as C writes them.

use crate::failure::{Failure, Outcome};
use crate::raw;
use std::ffi::{c_char, c_int, c_void};
use std::ops::Bound;
use std::ptr::null;

/// Bytes that belong to somebody else: `len` bytes at `data`. They need not end with a zero byte.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct cantle_slice {
    /// Address of the bytes; NULL if there is no value, as opposed to an empty one.
    pub data: *const c_char,
    /// Number of bytes.
    pub len: usize,
}

impl cantle_slice {
    pub(crate) const NONE: Self = Self { data: null(), len: 0 };

    pub(crate) fn of(bytes: &[u8]) -> Self {
        Self { data: bytes.as_ptr().cast(), len: bytes.len() }
    }
}

/// Kind of a bound of a range.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub enum cantle_bound_kind {
    /// No bound.
    CANTLE_UNBOUNDED = 0,
    /// The key is the bound, and part of the range.
    CANTLE_INCLUDED = 1,
    /// The key is the bound, and not part of the range.
    CANTLE_EXCLUDED = 2,
    /// As the start of a range: the range has the keys that begin with these bytes, and its end is
    /// ignored.
    CANTLE_PREFIX = 3,
}

/// One side of a range.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct cantle_bound {
    /// A cantle_bound_kind.
    pub kind: c_int,
    /// The key, unless there is no bound.
    pub key: cantle_slice,
}

/// A range of keys. All zeros is the range of every key, and so is NULL in the place of a range. A
/// range whose end is before its start is empty.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct cantle_range {
    /// The bound at the start.
    pub start: cantle_bound,
    /// The bound at the end.
    pub end: cantle_bound,
}

/// A range as the library uses it.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Keys<'a> {
    Between(Bound<&'a [u8]>, Bound<&'a [u8]>),
    Prefix(&'a [u8]),
}

/// The bounds of a range.
pub(crate) type Bounds = (Bound<Vec<u8>>, Bound<Vec<u8>>);

impl Keys<'_> {
    /// Converts the range to bounds. Keys with a prefix are neighbours in bytewise order only.
    pub(crate) fn bounds(self, bytewise: bool) -> Outcome<Bounds> {
        match self {
            Keys::Between(start, end) => Ok((start.map(<[u8]>::to_vec), end.map(<[u8]>::to_vec))),
            Keys::Prefix(prefix) if bytewise => Ok((Bound::Included(prefix.to_vec()), end_of_prefix(prefix))),
            Keys::Prefix(_) => Err(Failure::invalid(
                "in a keyspace with a comparator the keys with one prefix need not be neighbours: give bounds",
            )),
        }
    }
}

/// The bound after all keys with the prefix: the prefix up to its last byte that is not 255, with
/// this byte raised by one.
fn end_of_prefix(prefix: &[u8]) -> Bound<Vec<u8>> {
    let Some(last) = prefix.iter().rposition(|&byte| byte != u8::MAX) else { return Bound::Unbounded };
    let mut end = prefix[..=last].to_vec();
    end[last] += 1;
    Bound::Excluded(end)
}

/// Reads a range of the caller.
///
/// # Safety
///
/// `range` is NULL or readable, and its keys meet the conditions of [`raw::bound`].
pub(crate) unsafe fn keys<'a>(range: *const cantle_range) -> Outcome<Keys<'a>> {
    if range.is_null() {
        return Ok(Keys::Between(Bound::Unbounded, Bound::Unbounded));
    }
    // SAFETY: not NULL, and the caller vouches for the rest.
    unsafe {
        let range = range.read();
        if range.start.kind == cantle_bound_kind::CANTLE_PREFIX as c_int {
            return Ok(Keys::Prefix(key(range.start.key, "prefix")?));
        }
        Ok(Keys::Between(bound(range.start, "start of the range")?, bound(range.end, "end of the range")?))
    }
}

/// # Safety
///
/// As for [`keys`].
unsafe fn bound<'a>(bound: cantle_bound, what: &str) -> Outcome<Bound<&'a [u8]>> {
    const UNBOUNDED: c_int = cantle_bound_kind::CANTLE_UNBOUNDED as c_int;
    const INCLUDED: c_int = cantle_bound_kind::CANTLE_INCLUDED as c_int;
    const EXCLUDED: c_int = cantle_bound_kind::CANTLE_EXCLUDED as c_int;
    // SAFETY: as for `keys`.
    unsafe {
        match bound.kind {
            UNBOUNDED => Ok(Bound::Unbounded),
            INCLUDED => Ok(Bound::Included(key(bound.key, what)?)),
            EXCLUDED => Ok(Bound::Excluded(key(bound.key, what)?)),
            other => Err(Failure::invalid(format!(
                "the {what} has kind {other}, which is no cantle_bound_kind for it"
            ))),
        }
    }
}

/// # Safety
///
/// As for [`keys`].
unsafe fn key<'a>(key: cantle_slice, what: &str) -> Outcome<&'a [u8]> {
    // SAFETY: as for `keys`.
    unsafe { raw::bound(key.data.cast::<c_void>(), key.len, what) }
}

/// The keys from `start` up to, not including, `end`. If `start` or `end` is NULL with a length of
/// 0, the range has no bound on that side. (For an empty key as a bound, give any other address
/// with a length of 0, or a cantle_bound.)
///
/// Ownership: the range points to the caller's bytes, which must stay while the range is used.
/// Errors: none here. The function that uses the range returns CANTLE_INVALID_ARGUMENT for NULL
/// with another length, and for a bound that is more than one byte longer than 1 MiB. Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cantle_range_between(
    start: *const c_void,
    start_len: usize,
    end: *const c_void,
    end_len: usize,
) -> cantle_range {
    let side = |kind: cantle_bound_kind, data: *const c_void, len| {
        let unbounded = data.is_null() && len == 0;
        let kind = if unbounded { cantle_bound_kind::CANTLE_UNBOUNDED } else { kind };
        cantle_bound { kind: kind as c_int, key: cantle_slice { data: data.cast(), len } }
    };
    cantle_range {
        start: side(cantle_bound_kind::CANTLE_INCLUDED, start, start_len),
        end: side(cantle_bound_kind::CANTLE_EXCLUDED, end, end_len),
    }
}

/// The keys that begin with `prefix`. In a keyspace with a comparator, an iterator reads every pair
/// to find them, and other functions refuse such a range.
///
/// Ownership: the range points to the caller's bytes, which must stay while the range is used.
/// Errors: none here; as cantle_range_between where the range is used. Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cantle_range_prefix(prefix: *const c_void, prefix_len: usize) -> cantle_range {
    let key = cantle_slice { data: prefix.cast(), len: prefix_len };
    let nothing =
        cantle_bound { kind: cantle_bound_kind::CANTLE_UNBOUNDED as c_int, key: cantle_slice::NONE };
    cantle_range {
        start: cantle_bound { kind: cantle_bound_kind::CANTLE_PREFIX as c_int, key },
        end: nothing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Otherwise a delete of the keys up to a bound that some function failed to return would
    /// delete all keys.
    #[test]
    fn null_is_no_bound_only_if_it_is_of_no_length() {
        let read = |range: cantle_range| {
            // SAFETY: the range is there, and its bounds are static or NULL.
            unsafe { keys(&range) }
                .map(|keys| keys.bounds(true).unwrap())
                .map_err(|failure| failure.0.message)
        };
        // SAFETY: nothing is read.
        let (start, end, none, both) = unsafe {
            (
                cantle_range_between(null(), 5, null(), 0),
                cantle_range_between(null(), 0, null(), 7),
                cantle_range_between(null(), 0, null(), 0),
                cantle_range_between(b"a".as_ptr().cast(), 1, b"".as_ptr().cast(), 0),
            )
        };
        assert!(read(start).unwrap_err().contains("the start of the range is NULL, but 5 bytes long"));
        assert!(read(end).unwrap_err().contains("the end of the range is NULL, but 7 bytes long"));
        assert_eq!(read(none).unwrap(), (Bound::Unbounded, Bound::Unbounded));
        assert_eq!(read(both).unwrap(), (Bound::Included(b"a".to_vec()), Bound::Excluded(Vec::new())));
    }

    #[test]
    fn a_prefix_is_a_range_in_bytewise_order_only() {
        assert_eq!(
            Keys::Prefix(b"a\xff").bounds(true).unwrap(),
            (Bound::Included(b"a\xff".to_vec()), Bound::Excluded(b"b".to_vec()))
        );
        assert_eq!(Keys::Prefix(b"\xff").bounds(true).unwrap().1, Bound::Unbounded);
        assert!(Keys::Prefix(b"a").bounds(false).is_err());
    }
}
