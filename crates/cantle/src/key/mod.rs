//! Composite keys that sort as their parts do.
//!
//! A store orders keys bytewise. This module writes a sequence of parts (texts, integers, floats,
//! byte strings, booleans, UUIDs, times, nulls, nested sequences) as one byte string, in the
//! encoding of FoundationDB's tuple layer, so that the order of the bytes is the order of the
//! parts, first part first, and a sequence sorts directly before those that it begins:
//!
//! ```
//! use cantle::key::{self, Part};
//!
//! let key = key::Builder::new().text("UA").text("EWR").time_micros(1_372_928_400_000_000).int(1545).finish();
//! assert_eq!(key, key::encode(&("UA", "EWR", 1_372_928_400_000_000i64, 1545)));
//! assert_eq!(key::parse(&key)?[3], Part::Int(1545));
//! assert!(key::encode(&("UA", -2)) < key::encode(&("UA", 10)));
//! assert!(key::encode(&("UA", 10)) < key::encode(&("UAL", -2)));
//! # Ok::<(), cantle::Error>(())
//! ```
//!
//! [`decode`] reads a key back into Rust's types, [`parse`] into [`Part`]s of whatever type they
//! are, in whatever language they were written. [`ToKey`] lists the types and shows how to add one.
//! [`TypedKeyspace`](crate::TypedKeyspace) has keys and values of fixed types, and encodes and
//! decodes by itself.
//!
//! ```
//! use cantle::key;
//!
//! let key = key::encode(&("UA", Some(-7i128), [1.5, 2.5], true));
//! let back: (String, Option<i64>, Vec<f64>, bool) = key::decode(&key)?;
//! assert_eq!(back, ("UA".into(), Some(-7), vec![1.5, 2.5], true));
//! # Ok::<(), cantle::Error>(())
//! ```
//!
//! Every key that begins with given parts, and no other, lies in [`range_of`] them:
//!
//! ```
//! use cantle::key;
//!
//! let united = key::range_of(&("UA",));
//! assert!(united.contains(&key::encode(&("UA", "EWR"))));
//! assert!(!united.contains(&key::encode(&("UAL", "EWR"))));
//! ```
//!
//! # Order
//!
//! Types sort in the order null, bytes, text, nested, integer, 32-bit float, float, boolean, UUID;
//! integers by value, whatever their width; floats by IEEE 754's total order; texts and byte
//! strings by their bytes. All integers have one encoding: a key that was written with a `u16` is
//! found with an `i64`. The two widths of floats do not: `1.0f32` and `1.0f64` are different parts.
//!
//! # Times
//!
//! A time is an integer: microseconds since 1970-01-01T00:00:00Z. [`Time`] is that by its type;
//! `SystemTime` and the types of the crate `jiff` (with the feature of that name) are parts of keys
//! by [`try_encode`], which returns an error for one that is finer than a microsecond.
//! [`Time::floor`], [`Time::ceil`] and [`Time::round`] round it.
//!
//! Nothing here keeps state.

mod big_int;
mod builder;
mod code;
mod error;
pub mod kind;
mod part;
mod parts;
mod scalars;
mod sequences;
mod time;
#[cfg(feature = "uuid")]
mod uuid;
mod value;

pub use big_int::{BigInt, OutOfRange};
pub use builder::Builder;
pub use error::PartError;
pub use part::Part;
pub use parts::{Parts, describe, parse};
pub use time::{Moment, Time};
pub use value::{FromKey, InfallibleKey, ToKey};

use crate::types::error::{Error, Result};
use std::ops::Range;

/// The key of a value: of a tuple or slice, whose values are its parts, or of one part.
///
/// ```
/// use cantle::key;
///
/// let key = key::encode(&("app", 7, None::<&str>));
/// assert_eq!(key, key::Builder::new().text("app").int(7).null().finish());
/// assert_eq!(key::encode("app"), key::encode(&("app",)));
/// ```
///
/// # Panics
///
/// A type of the caller's that implements [`InfallibleKey`] fails.
pub fn encode<T: InfallibleKey + ?Sized>(value: &T) -> Vec<u8> {
    value::infallible(value.append_all_to(Builder::new())).finish()
}

/// The key of a value that may have none: see [`Time`].
///
/// # Errors
///
/// [`Error::InvalidArgument`] for a time that is finer than a microsecond, which names it and its
/// part of the key.
pub fn try_encode<T: ToKey + ?Sized>(value: &T) -> Result<Vec<u8>> {
    Ok(value.append_all_to(Builder::new()).map_err(PartError::refusal)?.finish())
}

/// The value of a key.
///
/// # Errors
///
/// [`Error::InvalidArgument`] if `key` is not the key of a `T`, with the part that is something
/// else.
pub fn decode<T: FromKey>(key: &[u8]) -> Result<T> {
    let mut parts = Parts::of_key(key);
    T::from_parts(&mut parts).and_then(|value| parts.finish().map(|()| value)).map_err(|error| {
        Error::InvalidArgument(format!(
            "{} is not a key of the type {}: {error}",
            parts::shown(key),
            T::type_name()
        ))
    })
}

/// The range of every key that begins with `parts`, the key of `parts` itself included.
///
/// Unlike a range by the bare bytes, it leaves out longer texts that go on with a zero byte.
///
/// # Panics
///
/// As [`encode`] does.
pub fn range_of<T: InfallibleKey + ?Sized>(parts: &T) -> Range<Vec<u8>> {
    of_beginning(encode(parts))
}

/// The range of every key that begins with `parts`, which may have no encoding. Fails as
/// [`try_encode`] does.
pub fn try_range_of<T: ToKey + ?Sized>(parts: &T) -> Result<Range<Vec<u8>>> {
    Ok(of_beginning(try_encode(parts)?))
}

fn of_beginning(start: Vec<u8>) -> Range<Vec<u8>> {
    // No part begins with 0xff; only an escaped zero inside a text or byte string goes on with it.
    let mut end = start.clone();
    end.push(code::ESCAPE);
    start..end
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod value_tests;
