//! One part of a composite key.

use foundationdb_tuple::Element;
use std::borrow::Cow;
use std::cmp::Ordering;

/// One part of a composite key. Its order is the order of the encoded keys.
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
    /// A float, in IEEE 754's total order: `-NaN < -inf < -0.0 < 0.0 < inf < NaN`.
    Float(f64),
    /// False before true.
    Bool(bool),
}

impl Part {
    /// Where the type stands in the order of types.
    fn rank(&self) -> u8 {
        match self {
            Self::Null => 0,
            Self::Bytes(_) => 1,
            Self::Text(_) => 2,
            Self::Nested(_) => 3,
            Self::Int(_) => 4,
            Self::Float(_) => 5,
            Self::Bool(_) => 6,
        }
    }

    /// The encoder's view of this part, borrowing its bytes.
    pub(super) fn element(&self) -> Element<'_> {
        match self {
            Self::Null => Element::Nil,
            Self::Bytes(bytes) => Element::Bytes(bytes.as_slice().into()),
            Self::Text(text) => Element::String(Cow::Borrowed(text)),
            Self::Nested(parts) => Element::Tuple(parts.iter().map(Self::element).collect()),
            Self::Int(int) => Element::Int(*int),
            Self::Float(float) => Element::Double(*float),
            Self::Bool(bool) => Element::Bool(*bool),
        }
    }
}

impl Ord for Part {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Bytes(a), Self::Bytes(b)) => a.cmp(b),
            (Self::Text(a), Self::Text(b)) => a.cmp(b),
            (Self::Nested(a), Self::Nested(b)) => a.cmp(b),
            (Self::Int(a), Self::Int(b)) => a.cmp(b),
            (Self::Float(a), Self::Float(b)) => a.total_cmp(b),
            (Self::Bool(a), Self::Bool(b)) => a.cmp(b),
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
