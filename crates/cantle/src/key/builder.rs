//! Building a key part by part.

use super::part::Part;
use foundationdb_tuple::{Bytes, TuplePack};

/// Builds a composite key part by part.
///
/// ```
/// use cantle::key::{self, Part};
///
/// let key = key::Builder::new().text("node").int(-5).float(0.5).bytes(b"\0").bool(true).null().finish();
/// assert_eq!(key::parse(&key)?.len(), 6);
/// let nested = key::Builder::new().nested(&[Part::Int(1), Part::Null]).finish();
/// assert_eq!(key::parse(&nested)?, [Part::Nested(vec![Part::Int(1), Part::Null])]);
/// # Ok::<(), cantle::Error>(())
/// ```
///
/// # Panics
///
/// A single text or byte string over 4 GiB panics; a store refuses keys over 1 MiB anyway.
#[derive(Debug, Clone, Default)]
pub struct Builder {
    bytes: Vec<u8>,
}

impl Builder {
    /// A key without parts.
    pub fn new() -> Self {
        Self::default()
    }

    fn append(mut self, part: impl TuplePack) -> Self {
        // A tuple of one at the root is written without delimiters: its part alone.
        (part,).pack_into_vec(&mut self.bytes);
        self
    }

    /// Appends a text.
    pub fn text(self, text: &str) -> Self {
        self.append(text)
    }

    /// Appends an integer.
    pub fn int(self, int: i64) -> Self {
        self.append(int)
    }

    /// Appends a float.
    pub fn float(self, float: f64) -> Self {
        self.append(float)
    }

    /// Appends a byte string.
    pub fn bytes(self, bytes: impl AsRef<[u8]>) -> Self {
        self.append(Bytes::from(bytes.as_ref()))
    }

    /// Appends a boolean.
    pub fn bool(self, bool: bool) -> Self {
        self.append(bool)
    }

    /// Appends a time in microseconds since 1970-01-01T00:00:00Z, as an integer.
    pub fn time_micros(self, micros: i64) -> Self {
        self.int(micros)
    }

    /// Appends a null.
    pub fn null(self) -> Self {
        self.append(None::<bool>)
    }

    /// Appends a sequence as one part. [`parse`](super::parse()) reads back at most 32 levels.
    pub fn nested(self, parts: &[Part]) -> Self {
        let elements: Vec<_> = parts.iter().map(Part::element).collect();
        self.append(elements)
    }

    /// Appends a part of any type.
    pub fn part(self, part: &Part) -> Self {
        match part {
            Part::Nested(parts) => self.nested(parts),
            other => self.append(other.element()),
        }
    }

    /// The key.
    pub fn finish(self) -> Vec<u8> {
        self.bytes
    }
}
