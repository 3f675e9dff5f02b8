//! One part of a composite key, of any type.

use super::big_int::BigInt;
use std::cmp::Ordering;
use std::fmt;

/// One part of a composite key, of whatever type it was written with, in any language. Its order is
/// the order of the encoded keys, types first.
///
/// More types may be added: a `match` needs an arm for them.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Part {
    /// Nothing; sorts first.
    Null,
    /// A byte string.
    Bytes(Vec<u8>),
    /// A text, ordered by its UTF-8 bytes.
    Text(String),
    /// A sequence within the sequence.
    Nested(Vec<Part>),
    /// An integer, or a time in microseconds since 1970-01-01T00:00:00Z.
    Int(i64),
    /// An integer that does not fit into an `i64`. Sorts among the others by its value.
    BigInt(BigInt),
    /// A float of 32 bits, in IEEE 754's total order. Sorts before all floats of 64 bits.
    Float32(f32),
    /// A float of 64 bits, in IEEE 754's total order: `-NaN < -inf < -0.0 < 0.0 < inf < NaN`.
    Float(f64),
    /// False before true.
    Bool(bool),
    /// A UUID, in network byte order.
    Uuid([u8; 16]),
    /// A versionstamp of FoundationDB: 10 bytes of the database's version and 2 of the user's.
    /// Cantle never makes one, but reads, orders and writes those of others.
    Versionstamp([u8; 12]),
}

impl Part {
    /// Where the type stands in the order of types.
    fn rank(&self) -> u8 {
        match self {
            Self::Null => 0,
            Self::Bytes(_) => 1,
            Self::Text(_) => 2,
            Self::Nested(_) => 3,
            Self::Int(_) | Self::BigInt(_) => 4,
            Self::Float32(_) => 5,
            Self::Float(_) => 6,
            Self::Bool(_) => 7,
            Self::Uuid(_) => 8,
            Self::Versionstamp(_) => 9,
        }
    }

    /// The type and the value, as messages show it.
    pub(super) fn shown(&self) -> String {
        /// Messages show this many characters of a text or bytes of a byte string.
        const SHOWN_MAX: usize = 32;
        match self {
            Self::Null => "null".into(),
            Self::Bytes(bytes) => {
                let rest = if bytes.len() > SHOWN_MAX { "…" } else { "" };
                format!("bytes b\"{}{rest}\"", bytes.get(..SHOWN_MAX).unwrap_or(bytes).escape_ascii())
            }
            Self::Text(text) if text.chars().count() > SHOWN_MAX => {
                format!("text \"{}…\"", text.chars().take(SHOWN_MAX).collect::<String>().escape_debug())
            }
            Self::Text(text) => format!("text {text:?}"),
            Self::Nested(parts) => format!("a sequence of {} parts", parts.len()),
            Self::Int(int) => format!("integer {int}"),
            Self::BigInt(int) => format!("integer {int}"),
            Self::Float32(float) => format!("32-bit float {float:?}"),
            Self::Float(float) => format!("float {float:?}"),
            Self::Bool(bool) => format!("boolean {bool}"),
            Self::Uuid(_) => "a UUID".into(),
            Self::Versionstamp(_) => "a versionstamp".into(),
        }
    }
}

/// The order of an `i64` and an integer of any size.
fn compare(int: i64, big: &BigInt) -> Ordering {
    match i64::try_from(big) {
        Ok(big) => int.cmp(&big),
        Err(_) if big.is_negative() => Ordering::Greater,
        Err(_) => Ordering::Less,
    }
}

impl Ord for Part {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Bytes(a), Self::Bytes(b)) => a.cmp(b),
            (Self::Text(a), Self::Text(b)) => a.cmp(b),
            (Self::Nested(a), Self::Nested(b)) => a.cmp(b),
            (Self::Int(a), Self::Int(b)) => a.cmp(b),
            (Self::Int(a), Self::BigInt(b)) => compare(*a, b),
            (Self::BigInt(a), Self::Int(b)) => compare(*b, a).reverse(),
            (Self::BigInt(a), Self::BigInt(b)) => a.cmp(b),
            (Self::Float32(a), Self::Float32(b)) => a.total_cmp(b),
            (Self::Float(a), Self::Float(b)) => a.total_cmp(b),
            (Self::Bool(a), Self::Bool(b)) => a.cmp(b),
            (Self::Uuid(a), Self::Uuid(b)) => a.cmp(b),
            (Self::Versionstamp(a), Self::Versionstamp(b)) => a.cmp(b),
            _ => self.rank().cmp(&other.rank()),
        }
    }
}
impl PartialOrd for Part {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl PartialEq for Part {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}
impl Eq for Part {}

macro_rules! of_integers {
    ($($type:ty)+) => {$(
        impl From<$type> for Part {
            fn from(int: $type) -> Self {
                i64::try_from(int).map_or_else(|_| Self::BigInt(int.into()), Self::Int)
            }
        }
    )+};
}
of_integers! { u64 i128 u128 }

/// An integer part: [`Part::Int`] where it fits.
impl From<BigInt> for Part {
    fn from(int: BigInt) -> Self {
        i64::try_from(&int).map_or_else(|_| Self::BigInt(int), Self::Int)
    }
}
impl From<i64> for Part {
    fn from(int: i64) -> Self {
        Self::Int(int)
    }
}
impl From<&str> for Part {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}
impl From<String> for Part {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

/// As in Rust: `null`, `"text"`, `b"bytes"`, `-1`, `0.5`, `true`, `("nested", 1)`; a float of 32
/// bits as `0.5f32`, a UUID in its usual form.
impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hex = |f: &mut fmt::Formatter<'_>, bytes: &[u8]| {
            bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
        };
        match self {
            Self::Null => f.write_str("null"),
            Self::Bytes(bytes) => write!(f, "b\"{}\"", bytes.escape_ascii()),
            Self::Text(text) => write!(f, "{text:?}"),
            Self::Nested(parts) => f.write_str(&listed(parts)),
            Self::Int(int) => write!(f, "{int}"),
            Self::BigInt(int) => write!(f, "{int}"),
            Self::Float32(float) => write!(f, "{float:?}f32"),
            Self::Float(float) => write!(f, "{float:?}"),
            Self::Bool(bool) => write!(f, "{bool}"),
            Self::Uuid(bytes) => {
                let mut rest = &bytes[..];
                for (index, len) in [4, 2, 2, 2, 6].into_iter().enumerate() {
                    let (group, after) = rest.split_at(len);
                    f.write_str(if index > 0 { "-" } else { "" })?;
                    hex(f, group)?;
                    rest = after;
                }
                Ok(())
            }
            Self::Versionstamp(bytes) => {
                f.write_str("versionstamp ")?;
                hex(f, bytes)
            }
        }
    }
}

/// Parts in parentheses.
pub(super) fn listed(parts: &[Part]) -> String {
    format!("({})", parts.iter().map(Part::to_string).collect::<Vec<_>>().join(", "))
}
