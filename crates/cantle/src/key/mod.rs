//! Composite keys that sort as their parts do.
//!
//! A store orders keys bytewise. This module writes a sequence of parts (text, integers, floats, bytes,
//! booleans, nulls, nested sequences) as one byte string, in the encoding of FoundationDB's tuple layer, so
//! that the order of the bytes is the order of the parts, first part first, and a sequence sorts directly
//! before those that it begins:
//!
//! ```
//! use cantle::key::{self, Part};
//!
//! let key = key::Builder::new().text("UA").text("EWR").time_micros(1_372_928_400_000_000).int(1545).finish();
//! assert_eq!(key, key::encode(&("UA", "EWR", 1_372_928_400_000_000i64, 1545i64)));
//! assert_eq!(key::parse(&key)?[3], Part::Int(1545));
//! assert!(key::encode(&("UA", -2i64)) < key::encode(&("UA", 10i64)));
//! assert!(key::encode(&("UA", 10i64)) < key::encode(&("UAL", -2i64)));
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
//! Times are integers: microseconds since 1970-01-01T00:00:00Z. Types sort in the order null, bytes, text,
//! nested, integer, float, boolean; floats by IEEE 754's total order. Nothing here keeps state.

mod builder;
mod parse;
mod part;
mod tuple;

pub use builder::Builder;
pub use parse::parse;
pub use part::Part;
pub use tuple::{Parts, ToPart};

use std::ops::Range;

/// The key of a tuple (or slice) of parts.
///
/// ```
/// use cantle::key;
///
/// let key = key::encode(&("app", 7i64, None::<&str>));
/// assert_eq!(key, key::Builder::new().text("app").int(7).null().finish());
/// ```
pub fn encode(parts: &(impl Parts + ?Sized)) -> Vec<u8> {
    parts.append_to(Builder::new()).finish()
}

/// The range of every key that begins with `parts`, the key of `parts` itself included.
///
/// Unlike a range by the bare bytes, it leaves out longer texts that go on with a zero byte.
pub fn range_of(parts: &(impl Parts + ?Sized)) -> Range<Vec<u8>> {
    let start = encode(parts);
    // No part begins with 0xff; only an escaped zero inside a text or byte string goes on with it.
    let mut end = start.clone();
    end.push(u8::MAX);
    start..end
}

#[cfg(test)]
mod tests;
