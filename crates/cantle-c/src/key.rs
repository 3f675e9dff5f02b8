//! Composite keys that sort as their parts do.

use crate::bound::{cantle_bound, cantle_bound_kind, cantle_range, cantle_slice};
use crate::boundary::{quietly, saying, status, value};
use crate::error::cantle_error;
use crate::failure::{Failure, Outcome};
use crate::handle::{self, Object};
use crate::raw::{self, Out};
use crate::status::cantle_status;
use cantle::KEY_BYTES_MAX;
use cantle::key::{self, BigInt, Builder, Part};
use parking_lot::{Mutex, MutexGuard};
use std::ffi::{c_int, c_void};
use std::ptr::null_mut;

/// The type of a part. Types sort in the order null, bytes, text, nested, integers of all sizes,
/// 32-bit float, float, boolean, UUID, versionstamp.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum cantle_part_kind {
    /// Nothing.
    CANTLE_PART_NULL = 0,
    /// A byte string, in `bytes`.
    CANTLE_PART_BYTES = 1,
    /// A text in UTF-8, in `bytes`.
    CANTLE_PART_TEXT = 2,
    /// A sequence within the sequence: see cantle_key_nested.
    CANTLE_PART_NESTED = 3,
    /// An integer, in `integer`.
    CANTLE_PART_INT = 4,
    /// A float, in `number`.
    CANTLE_PART_FLOAT = 5,
    /// False or true: `integer` is 0 or 1.
    CANTLE_PART_BOOL = 6,
    /// An integer that does not fit into 64 bits with its sign. Its absolute value is in `bytes`,
    /// big endian, without leading zeros; `integer` is -1 or 1, as is its sign. An unsigned integer
    /// of 64 bits has 8 bytes.
    CANTLE_PART_BIG_INT = 7,
    /// A float of 32 bits, in `number`.
    CANTLE_PART_FLOAT32 = 8,
    /// A UUID: 16 bytes in network order, in `bytes`.
    CANTLE_PART_UUID = 9,
    /// A versionstamp of FoundationDB: 12 bytes, in `bytes`.
    CANTLE_PART_VERSIONSTAMP = 10,
}

/// One part of a composite key, as cantle_key_part reads it.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct cantle_part {
    /// The type.
    pub kind: cantle_part_kind,
    /// The value of an integer or a boolean, or the sign of an integer beyond 64 bits.
    pub integer: i64,
    /// The value of a float.
    pub number: f64,
    /// The value of a byte string, text, integer beyond 64 bits, UUID or versionstamp.
    pub bytes: cantle_slice,
}

const NULL_PART: cantle_part = cantle_part {
    kind: cantle_part_kind::CANTLE_PART_NULL,
    integer: 0,
    number: 0.0,
    bytes: cantle_slice::NONE,
};

/// A composite key: parts that were appended, or read from a key. Freed by cantle_key_free. For one
/// thread at a time: another one gets CANTLE_INVALID_ARGUMENT.
pub struct cantle_key {
    _opaque: [u8; 0],
}

#[derive(Default)]
struct Key {
    parts: Vec<Part>,
    bytes: Vec<u8>,
    /// End of the range of all keys that begin with the parts. Empty until a caller asks for it.
    /// Then it does not change as long as the parts do not, because it is lent.
    end: Vec<u8>,
    /// Number of levels of sequences within sequences.
    depth: usize,
}

/// Maximum number of levels: as many as cantle_key_parse reads.
const DEPTH_MAX: usize = 32;

fn depth_of(parts: &[Part]) -> usize {
    let depth_of = |part: &Part| match part {
        Part::Nested(parts) => 1 + depth_of(parts),
        _ => 0,
    };
    parts.iter().map(depth_of).max().unwrap_or(0)
}

impl Key {
    /// A key of parts that were read from these bytes, and so do not nest too deep.
    fn of(parts: Vec<Part>, bytes: Vec<u8>) -> Self {
        let depth = depth_of(&parts);
        Self { parts, bytes, end: Vec::new(), depth }
    }
}

struct OpenKey(Mutex<Key>);

impl Object for OpenKey {
    type Opaque = cantle_key;
    const NAME: &'static str = "cantle_key";
    const OF_A_STORE: bool = false;
}

fn alone(key: &OpenKey) -> Outcome<MutexGuard<'_, Key>> {
    key.0.try_lock().ok_or_else(|| Failure::invalid("the cantle_key is in use by another thread"))
}

/// Appends a part that has this depth.
fn append(key: *mut cantle_key, part: Part, depth: usize) -> Outcome<()> {
    let key = handle::get::<OpenKey>(key)?;
    let mut key = alone(&key)?;
    if depth > DEPTH_MAX {
        return Err(Failure::invalid(format!("the key would nest deeper than {DEPTH_MAX} levels")));
    }
    // The bytes of a key are those of its parts, one after another.
    let bytes = Builder::new().part(&part).finish();
    let len = key.bytes.len() + bytes.len();
    if len > KEY_BYTES_MAX {
        return Err(Failure::invalid(format!(
            "the key would be {len} bytes long, which is more than {KEY_BYTES_MAX}"
        )));
    }
    key.bytes.extend_from_slice(&bytes);
    key.parts.push(part);
    key.end = Vec::new();
    key.depth = key.depth.max(depth);
    Ok(())
}

/// Creates a key without parts.
///
/// Ownership: the key is the caller's, to be freed by cantle_key_free. Errors: NULL if there are
/// too many handles. Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cantle_key_new() -> *mut cantle_key {
    quietly(null_mut(), || handle::create(OpenKey(Mutex::default())))
}

/// Reads the parts of an encoded key.
///
/// Ownership: the key is the caller's, to be freed by cantle_key_free; the bytes are copied.
/// Errors: NULL and CANTLE_INVALID_ARGUMENT if `bytes` are no composite key, are longer than 1 MiB,
/// or nest deeper than 32 levels. Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cantle_key_parse(
    bytes: *const c_void,
    len: usize,
    error: *mut *mut cantle_error,
) -> *mut cantle_key {
    // SAFETY: the caller keeps to the header (see `raw`).
    unsafe {
        value(error, null_mut(), || {
            let bytes = raw::key(bytes, len)?;
            let parts = key::parse(bytes)?;
            handle::create(OpenKey(Mutex::new(Key::of(parts, bytes.to_vec()))))
        })
    }
}

/// Frees a key. Does nothing for NULL.
///
/// Ownership: the key and the bytes that it lent are gone afterwards. Errors:
/// CANTLE_INVALID_ARGUMENT for a handle that is no key or was freed. Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cantle_key_free(key: *mut cantle_key) -> cantle_status {
    saying(|| handle::free::<OpenKey>(key))
}

/// Removes all parts from a key.
///
/// Ownership: bytes that the key lent are gone afterwards. Errors: CANTLE_INVALID_ARGUMENT for a
/// handle that is no key, was freed, or is in use. Threads: one at a time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cantle_key_clear(key: *mut cantle_key) -> cantle_status {
    saying(|| {
        let key = handle::get::<OpenKey>(key)?;
        *alone(&key)? = Key::default();
        Ok(())
    })
}

/// Appends a text in UTF-8 of `len` bytes.
///
/// Ownership: the text is copied; bytes that the key lent before are gone. Errors:
/// CANTLE_INVALID_ARGUMENT if the text is not UTF-8, for invalid handles and pointers, and if the
/// key would be longer than 1 MiB, the maximum of a store. Threads: one at a time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cantle_key_text(
    key: *mut cantle_key,
    text: *const c_void,
    len: usize,
    error: *mut *mut cantle_error,
) -> cantle_status {
    // SAFETY: the caller keeps to the header (see `raw`).
    unsafe {
        status(error, || {
            let text = std::str::from_utf8(raw::bytes(text, len, KEY_BYTES_MAX, "text")?)
                .map_err(|_| Failure::invalid("the text is not UTF-8: append it as bytes"))?;
            append(key, Part::Text(text.to_owned()), 0)
        })
    }
}

/// Appends a byte string.
///
/// Ownership: the bytes are copied; bytes that the key lent before are gone. Errors:
/// CANTLE_INVALID_ARGUMENT for invalid handles and pointers, and if the key would be too long.
/// Threads: one at a time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cantle_key_bytes(
    key: *mut cantle_key,
    bytes: *const c_void,
    len: usize,
    error: *mut *mut cantle_error,
) -> cantle_status {
    // SAFETY: the caller keeps to the header (see `raw`).
    unsafe {
        status(error, || {
            let bytes = raw::bytes(bytes, len, KEY_BYTES_MAX, "byte string")?;
            append(key, Part::Bytes(bytes.to_vec()), 0)
        })
    }
}

/// Appends an integer, or a time in microseconds since 1970-01-01T00:00:00Z.
///
/// Ownership: bytes that the key lent before are gone. Errors: CANTLE_INVALID_ARGUMENT for an
/// invalid handle, and if the key would be too long. Threads: one at a time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cantle_key_int(
    key: *mut cantle_key,
    integer: i64,
    error: *mut *mut cantle_error,
) -> cantle_status {
    // SAFETY: the caller keeps to the header (see `raw`).
    unsafe { status(error, || append(key, Part::Int(integer), 0)) }
}

/// Appends an unsigned integer. It is the same part as the same number of cantle_key_int.
///
/// Ownership: bytes that the key lent before are gone. Errors: CANTLE_INVALID_ARGUMENT for an
/// invalid handle, and if the key would be too long. Threads: one at a time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cantle_key_uint(
    key: *mut cantle_key,
    integer: u64,
    error: *mut *mut cantle_error,
) -> cantle_status {
    // SAFETY: the caller keeps to the header (see `raw`).
    unsafe { status(error, || append(key, Part::from(integer), 0)) }
}

/// Appends an integer of any size by its sign and its absolute value, which is `len` bytes, big
/// endian. It is the same part as the same number of cantle_key_int.
///
/// Ownership: the bytes are copied; bytes that the key lent before are gone. Errors:
/// CANTLE_INVALID_ARGUMENT for invalid handles and pointers, for more than 255 bytes (leading zeros
/// not counted), and if the key would be too long. Threads: one at a time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cantle_key_big_int(
    key: *mut cantle_key,
    is_negative: bool,
    magnitude: *const c_void,
    len: usize,
    error: *mut *mut cantle_error,
) -> cantle_status {
    // SAFETY: the caller keeps to the header (see `raw`).
    unsafe {
        status(error, || {
            let magnitude = raw::bytes(magnitude, len, KEY_BYTES_MAX, "integer")?;
            let int = BigInt::from_magnitude(is_negative, magnitude)
                .ok_or_else(|| Failure::invalid("an integer in a key has at most 255 bytes"))?;
            append(key, Part::from(int), 0)
        })
    }
}

/// Appends a UUID, which is 16 bytes in network order.
///
/// Ownership: the bytes are copied; bytes that the key lent before are gone. Errors:
/// CANTLE_INVALID_ARGUMENT for invalid handles and pointers, if `len` is not 16, and if the key
/// would be too long. Threads: one at a time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cantle_key_uuid(
    key: *mut cantle_key,
    uuid: *const c_void,
    len: usize,
    error: *mut *mut cantle_error,
) -> cantle_status {
    // SAFETY: the caller keeps to the header (see `raw`).
    unsafe { status(error, || append(key, Part::Uuid(sized(uuid, len, "UUID")?), 0)) }
}

/// Appends a versionstamp of FoundationDB, which is 12 bytes: 10 of the database's version and 2 of
/// the user's.
///
/// Ownership: the bytes are copied; bytes that the key lent before are gone. Errors:
/// CANTLE_INVALID_ARGUMENT for invalid handles and pointers, if `len` is not 12, and if the key
/// would be too long. Threads: one at a time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cantle_key_versionstamp(
    key: *mut cantle_key,
    stamp: *const c_void,
    len: usize,
    error: *mut *mut cantle_error,
) -> cantle_status {
    // SAFETY: the caller keeps to the header (see `raw`).
    unsafe { status(error, || append(key, Part::Versionstamp(sized(stamp, len, "versionstamp")?), 0)) }
}

/// Bytes of a fixed number that a caller lends.
///
/// # Safety
///
/// As for [`raw::bytes`].
unsafe fn sized<const N: usize>(data: *const c_void, len: usize, what: &str) -> Outcome<[u8; N]> {
    // SAFETY: as above.
    unsafe { raw::bytes(data, len, N, what)? }
        .try_into()
        .map_err(|_| Failure::invalid(format!("a {what} has {N} bytes, not {len}")))
}

/// Appends a float of 32 bits, which is another part than the same number in 64 bits, and sorts
/// before all of those.
///
/// Ownership: bytes that the key lent before are gone. Errors: CANTLE_INVALID_ARGUMENT for an
/// invalid handle, and if the key would be too long. Threads: one at a time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cantle_key_float32(
    key: *mut cantle_key,
    number: f32,
    error: *mut *mut cantle_error,
) -> cantle_status {
    // SAFETY: the caller keeps to the header (see `raw`).
    unsafe { status(error, || append(key, Part::Float32(number), 0)) }
}

/// Appends a float of 64 bits, which sorts by IEEE 754's total order.
///
/// Ownership: bytes that the key lent before are gone. Errors: CANTLE_INVALID_ARGUMENT for an
/// invalid handle, and if the key would be too long. Threads: one at a time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cantle_key_float(
    key: *mut cantle_key,
    number: f64,
    error: *mut *mut cantle_error,
) -> cantle_status {
    // SAFETY: the caller keeps to the header (see `raw`).
    unsafe { status(error, || append(key, Part::Float(number), 0)) }
}

/// Appends a boolean.
///
/// Ownership: bytes that the key lent before are gone. Errors: CANTLE_INVALID_ARGUMENT for an
/// invalid handle, and if the key would be too long. Threads: one at a time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cantle_key_bool(
    key: *mut cantle_key,
    boolean: bool,
    error: *mut *mut cantle_error,
) -> cantle_status {
    // SAFETY: the caller keeps to the header (see `raw`).
    unsafe { status(error, || append(key, Part::Bool(boolean), 0)) }
}

/// Appends a null, which sorts before everything else.
///
/// Ownership: bytes that the key lent before are gone. Errors: CANTLE_INVALID_ARGUMENT for an
/// invalid handle, and if the key would be too long. Threads: one at a time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cantle_key_null(
    key: *mut cantle_key,
    error: *mut *mut cantle_error,
) -> cantle_status {
    // SAFETY: the caller keeps to the header (see `raw`).
    unsafe { status(error, || append(key, Part::Null, 0)) }
}

/// Appends all parts of another key as one part, a sequence within the sequence.
///
/// Ownership: the other key's parts are copied; bytes that the key lent before are gone. Errors:
/// CANTLE_INVALID_ARGUMENT for invalid handles, if both are the same, and if the key would be too
/// long or nest deeper than 32 levels, which is as deep as cantle_key_parse reads. Threads: one at
/// a time, for both.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cantle_key_append_nested(
    key: *mut cantle_key,
    nested: *const cantle_key,
    error: *mut *mut cantle_error,
) -> cantle_status {
    // SAFETY: the caller keeps to the header (see `raw`).
    unsafe {
        status(error, || {
            if std::ptr::eq(key, nested) {
                return Err(Failure::invalid("a key cannot be a part of itself"));
            }
            let nested = handle::get::<OpenKey>(nested)?;
            let (parts, depth) = {
                let nested = alone(&nested)?;
                (nested.parts.clone(), nested.depth)
            };
            append(key, Part::Nested(parts), depth + 1)
        })
    }
}

/// The bytes of a key, which sort as the parts do.
///
/// Ownership: the bytes are the key's, until a part is appended or it is cleared or freed. Errors:
/// a slice of NULL for an invalid handle. Threads: one at a time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cantle_key_data(key: *const cantle_key) -> cantle_slice {
    quietly(cantle_slice::NONE, || {
        let key = handle::get::<OpenKey>(key)?;
        let key = alone(&key)?;
        Ok(cantle_slice::of(&key.bytes))
    })
}

/// The range of every key that begins with these parts, including the key itself.
///
/// Ownership: the range points to the key's memory, until a part is appended or it is cleared or
/// freed. Errors: CANTLE_INVALID_ARGUMENT for an invalid handle. Threads: one at a time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cantle_key_range(
    key: *mut cantle_key,
    range: *mut cantle_range,
    error: *mut *mut cantle_error,
) -> cantle_status {
    // SAFETY: the caller keeps to the header (see `raw`).
    unsafe {
        status(error, || {
            let nothing =
                cantle_bound { kind: cantle_bound_kind::CANTLE_UNBOUNDED as c_int, key: cantle_slice::NONE };
            let out = Out::required(range, cantle_range { start: nothing, end: nothing }, "range")?;
            let key = handle::get::<OpenKey>(key)?;
            let mut key = alone(&key)?;
            let key = &mut *key;
            if key.end.is_empty() {
                key.end = key::range_of(&key.parts).end;
            }
            let side = |kind: cantle_bound_kind, bytes: &[u8]| cantle_bound {
                kind: kind as c_int,
                key: cantle_slice::of(bytes),
            };
            out.set(cantle_range {
                start: side(cantle_bound_kind::CANTLE_INCLUDED, &key.bytes),
                end: side(cantle_bound_kind::CANTLE_EXCLUDED, &key.end),
            });
            Ok(())
        })
    }
}

/// Number of parts of a key.
///
/// Ownership: nothing changes hands. Errors: 0 for a handle that is no key, was freed, or is in
/// use. Threads: one at a time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cantle_key_count(key: *const cantle_key) -> usize {
    quietly(0, || {
        let key = handle::get::<OpenKey>(key)?;
        let key = alone(&key)?;
        Ok(key.parts.len())
    })
}

/// A part of a key; the first is number 0.
///
/// Ownership: its bytes are the key's, until a part is appended or it is cleared or freed. Errors:
/// CANTLE_INVALID_ARGUMENT if there is no such part, and for an invalid handle; `*part` is a null
/// then. Threads: one at a time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cantle_key_part(
    key: *const cantle_key,
    index: usize,
    part: *mut cantle_part,
    error: *mut *mut cantle_error,
) -> cantle_status {
    // SAFETY: the caller keeps to the header (see `raw`).
    unsafe {
        status(error, || {
            use cantle_part_kind::*;
            let out = Out::required(part, NULL_PART, "part")?;
            let key = handle::get::<OpenKey>(key)?;
            let key = alone(&key)?;
            let of_kind = |kind| cantle_part { kind, ..NULL_PART };
            out.set(match part_at(&key.parts, index)? {
                Part::Null => NULL_PART,
                Part::Bytes(bytes) => {
                    cantle_part { bytes: cantle_slice::of(bytes), ..of_kind(CANTLE_PART_BYTES) }
                }
                Part::Text(text) => {
                    cantle_part { bytes: cantle_slice::of(text.as_bytes()), ..of_kind(CANTLE_PART_TEXT) }
                }
                Part::Nested(_) => of_kind(CANTLE_PART_NESTED),
                Part::Int(integer) => cantle_part { integer: *integer, ..of_kind(CANTLE_PART_INT) },
                Part::BigInt(int) => cantle_part {
                    integer: if int.is_negative() { -1 } else { 1 },
                    bytes: cantle_slice::of(int.magnitude()),
                    ..of_kind(CANTLE_PART_BIG_INT)
                },
                Part::Float32(number) => {
                    cantle_part { number: f64::from(*number), ..of_kind(CANTLE_PART_FLOAT32) }
                }
                Part::Uuid(uuid) => {
                    cantle_part { bytes: cantle_slice::of(uuid), ..of_kind(CANTLE_PART_UUID) }
                }
                Part::Versionstamp(stamp) => {
                    cantle_part { bytes: cantle_slice::of(stamp), ..of_kind(CANTLE_PART_VERSIONSTAMP) }
                }
                Part::Float(number) => cantle_part { number: *number, ..of_kind(CANTLE_PART_FLOAT) },
                Part::Bool(boolean) => {
                    cantle_part { integer: i64::from(*boolean), ..of_kind(CANTLE_PART_BOOL) }
                }
                other => {
                    return Err(Failure::invalid(format!(
                        "part {index} is of a type that C does not know: {other:?}"
                    )));
                }
            });
            Ok(())
        })
    }
}

/// The parts of a part that is a sequence, as a key of their own.
///
/// Ownership: the key is the caller's, to be freed by cantle_key_free. Errors: NULL and
/// CANTLE_INVALID_ARGUMENT if there is no such part, or it is no sequence, and for an invalid
/// handle. Threads: one at a time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cantle_key_nested(
    key: *const cantle_key,
    index: usize,
    error: *mut *mut cantle_error,
) -> *mut cantle_key {
    // SAFETY: the caller keeps to the header (see `raw`).
    unsafe {
        value(error, null_mut(), || {
            let key = handle::get::<OpenKey>(key)?;
            let key = alone(&key)?;
            let Part::Nested(parts) = part_at(&key.parts, index)? else {
                return Err(Failure::invalid(format!("part {index} of the key is no sequence")));
            };
            let nested = Key::of(parts.clone(), key::encode(parts));
            handle::create(OpenKey(Mutex::new(nested)))
        })
    }
}

fn part_at(parts: &[Part], index: usize) -> Outcome<&Part> {
    let count = parts.len();
    parts
        .get(index)
        .ok_or_else(|| Failure::invalid(format!("the key has {count} parts, and none of number {index}")))
}
