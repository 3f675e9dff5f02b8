//! Building a key part by part.

use super::big_int::{self, BigInt};
use super::code;
use super::error::PartError;
use super::part::Part;
use super::value::{InfallibleKey, ToKey};
use crate::types::error::Result;

/// Builds a composite key part by part.
///
/// ```
/// use cantle::key::{self, Part};
///
/// let key = key::Builder::new().text("node").int(-5).float(0.5).bytes(b"\0").bool(true).null().finish();
/// assert_eq!(key::parse(&key)?.len(), 6);
/// let nested = key::Builder::new().nested(&[Part::Int(1), Part::Null]).finish();
/// assert_eq!(key::parse(&nested)?, [Part::Nested(vec![Part::Int(1), Part::Null])]);
/// // Any type that can be a part of a key.
/// let key = key::Builder::new().append(&"node").append(&u128::MAX).append(&('x', [1i32, 2])).finish();
/// assert_eq!(key, key::encode(&("node", u128::MAX, ('x', [1i32, 2]))));
/// # Ok::<(), cantle::Error>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct Builder {
    bytes: Vec<u8>,
    /// Number of nested sequences that are open: their ends are not written yet.
    depth: usize,
}

impl Builder {
    /// A key without parts.
    pub fn new() -> Self {
        Self::default()
    }

    fn fixed(mut self, code: u8, bytes: &[u8]) -> Self {
        self.bytes.push(code);
        self.bytes.extend_from_slice(bytes);
        self
    }

    /// Bytes up to a zero that is none of them.
    fn terminated(mut self, code: u8, bytes: &[u8]) -> Self {
        self.bytes.reserve(bytes.len() + 2);
        self.bytes.push(code);
        let mut runs = bytes.split(|&byte| byte == 0);
        self.bytes.extend_from_slice(runs.next().unwrap_or_default());
        for run in runs {
            self.bytes.extend_from_slice(&[0, code::ESCAPE]);
            self.bytes.extend_from_slice(run);
        }
        self.bytes.push(0);
        self
    }

    /// An integer by its sign and the big-endian bytes of its absolute value, at most 255 without
    /// leading zeros.
    fn magnitude(mut self, is_negative: bool, magnitude: &[u8]) -> Self {
        // At most 255: see `BigInt`.
        let len = magnitude.len() as u8;
        match (is_negative, magnitude.len() <= code::SHORT_BYTES_MAX) {
            (false, true) => self.bytes.push(code::ZERO + len),
            (true, true) => self.bytes.push(code::ZERO - len),
            (false, false) => self.bytes.extend_from_slice(&[code::POSITIVE_LONG, len]),
            (true, false) => self.bytes.extend_from_slice(&[code::NEGATIVE_LONG, !len]),
        }
        if is_negative {
            self.bytes.extend(magnitude.iter().map(|byte| !byte));
        } else {
            self.bytes.extend_from_slice(magnitude);
        }
        self
    }

    /// Appends a text.
    pub fn text(self, text: &str) -> Self {
        self.terminated(code::TEXT, text.as_bytes())
    }

    /// Appends an integer.
    pub fn int(self, int: i64) -> Self {
        let absolute = int.unsigned_abs();
        let start = absolute.leading_zeros() as usize / 8;
        self.magnitude(int < 0, &absolute.to_be_bytes()[start..])
    }

    /// Appends an integer of up to 128 bits.
    pub fn int128(self, int: i128) -> Self {
        let (bytes, start) = big_int::significant(int.unsigned_abs());
        self.magnitude(int < 0, &bytes[start..])
    }

    /// Appends an unsigned integer of up to 128 bits.
    pub fn uint128(self, int: u128) -> Self {
        let (bytes, start) = big_int::significant(int);
        self.magnitude(false, &bytes[start..])
    }

    /// Appends an integer of any size.
    pub fn big_int(self, int: &BigInt) -> Self {
        self.magnitude(int.is_negative(), int.magnitude())
    }

    /// Appends a float of 64 bits.
    pub fn float(self, float: f64) -> Self {
        let bits = float.to_bits();
        // The sign turns every bit of a negative number, and the sign bit alone of others.
        let flip = ((bits as i64 >> 63) as u64) | 1 << 63;
        self.fixed(code::FLOAT, &(bits ^ flip).to_be_bytes())
    }

    /// Appends a float of 32 bits. It is another part than the same number in 64 bits, and sorts
    /// before all of those.
    pub fn float32(self, float: f32) -> Self {
        let bits = float.to_bits();
        let flip = ((bits as i32 >> 31) as u32) | 1 << 31;
        self.fixed(code::FLOAT32, &(bits ^ flip).to_be_bytes())
    }

    /// Appends a byte string.
    pub fn bytes(self, bytes: impl AsRef<[u8]>) -> Self {
        self.terminated(code::BYTES, bytes.as_ref())
    }

    /// Appends a boolean.
    pub fn bool(self, bool: bool) -> Self {
        self.fixed(if bool { code::TRUE } else { code::FALSE }, &[])
    }

    /// Appends a UUID by its bytes in network order.
    pub fn uuid(self, uuid: [u8; 16]) -> Self {
        self.fixed(code::UUID, &uuid)
    }

    /// Appends a versionstamp of FoundationDB: the database's 10 bytes, and 2 of the user's.
    pub fn versionstamp(self, stamp: [u8; 12]) -> Self {
        self.fixed(code::VERSIONSTAMP, &stamp)
    }

    /// Appends a time in microseconds since 1970-01-01T00:00:00Z, as an integer.
    pub fn time_micros(self, micros: i64) -> Self {
        self.int(micros)
    }

    /// Appends a null.
    pub fn null(self) -> Self {
        let escape: &[u8] = if self.depth > 0 { &[code::ESCAPE] } else { &[] };
        self.fixed(code::NULL, escape)
    }

    /// Appends a sequence as one part. [`parse`](super::parse()) reads back at most 32 levels.
    pub fn nested(self, parts: &[Part]) -> Self {
        let mut builder = self.begin();
        for part in parts {
            builder = builder.part(part);
        }
        builder.end()
    }

    /// Appends what `parts` appends, as one part, a sequence.
    ///
    /// ```
    /// use cantle::key;
    ///
    /// let key = key::Builder::new().nested_with(|inner| Ok(inner.text("a").null()))?.int(5).finish();
    /// assert_eq!(key, key::encode(&(("a", None::<&str>), 5)));
    /// # Ok::<(), cantle::key::PartError>(())
    /// ```
    pub fn nested_with(self, parts: impl FnOnce(Self) -> Result<Self, PartError>) -> Result<Self, PartError> {
        Ok(parts(self.begin())?.end())
    }

    fn begin(mut self) -> Self {
        self.bytes.push(code::NESTED);
        self.depth += 1;
        self
    }

    fn end(mut self) -> Self {
        self.bytes.push(0);
        self.depth = self.depth.saturating_sub(1);
        self
    }

    /// Appends a part of any type.
    pub fn part(self, part: &Part) -> Self {
        match part {
            Part::Null => self.null(),
            Part::Bytes(bytes) => self.bytes(bytes),
            Part::Text(text) => self.text(text),
            Part::Nested(parts) => self.nested(parts),
            Part::Int(int) => self.int(*int),
            Part::BigInt(int) => self.big_int(int),
            Part::Float32(float) => self.float32(*float),
            Part::Float(float) => self.float(*float),
            Part::Bool(bool) => self.bool(*bool),
            Part::Uuid(uuid) => self.uuid(*uuid),
            Part::Versionstamp(stamp) => self.versionstamp(*stamp),
        }
    }

    /// Appends a value as one part. A tuple is a nested sequence.
    pub fn append<T: InfallibleKey + ?Sized>(self, value: &T) -> Self {
        super::value::infallible(value.append_to(self))
    }

    /// Appends a value as one part. A tuple is a nested sequence.
    ///
    /// # Errors
    ///
    /// [`InvalidArgument`](crate::Error::InvalidArgument) for a value that no key can hold: a time
    /// that is finer than a microsecond.
    pub fn try_append<T: ToKey + ?Sized>(self, value: &T) -> Result<Self> {
        value.append_to(self).map_err(PartError::refusal)
    }

    /// The key.
    pub fn finish(self) -> Vec<u8> {
        self.bytes
    }
}
