//! The traits of Rust's types that are keys, or parts of them.

use super::builder::Builder;
use super::error::PartError;
use super::kind::Kind;
use super::part::Part;
use super::parts::Parts;

/// A value that can be a part of a key, or a key of its own.
///
/// Integers of 8 to 128 bits, floats, `bool`, `char`, texts, byte strings, [`Time`](super::Time)
/// and `SystemTime`, [`Part`], `Option`s (whose `None` is a null), tuples of up to 16 values and
/// arrays, slices and `Vec`s are; with the features `uuid` and `jiff` those crates' types as well.
/// A tuple is a key of several parts; within another one it is a nested sequence, and so are
/// slices, except that those of `u8` are byte strings.
///
/// The trait is open: a type of yours is a part of keys by being written as another type is.
///
/// ```
/// use cantle::key::{self, Builder, FromKey, InfallibleKey, Part, PartError, ToKey, kind};
///
/// #[derive(Debug, PartialEq)]
/// struct Airport([u8; 3]);
///
/// impl ToKey for Airport {
///     type Kind = kind::Text;
///     fn append_to(&self, key: Builder) -> Result<Builder, PartError> {
///         String::from_utf8_lossy(&self.0).append_to(key)
///     }
/// }
/// impl InfallibleKey for Airport {}
/// impl FromKey for Airport {
///     fn from_part(part: Part) -> Result<Self, PartError> {
///         match &part {
///             Part::Text(code) => code.as_bytes().try_into().map(Airport).ok(),
///             _ => None,
///         }
///         .ok_or_else(|| PartError::expected("an airport's code of three letters", &part))
///     }
/// }
///
/// let key = key::encode(&(Airport(*b"EWR"), 1545));
/// assert_eq!(key, key::encode(&("EWR", 1545)));
/// assert_eq!(key::decode::<(Airport, u32)>(&key)?, (Airport(*b"EWR"), 1545));
/// let error = key::decode::<(Airport, u32)>(&key::encode(&("Newark", 1545))).unwrap_err();
/// assert!(error.to_string().contains("part 1: text \"Newark\" is not an airport's code of three letters"));
/// # Ok::<(), cantle::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a part of a key",
    note = "implement `cantle::key::ToKey` for it; the crate's features `uuid` and `jiff` do so for types of those crates"
)]
pub trait ToKey {
    /// The kind of the part: types of one kind have the same encoding.
    type Kind: Kind;

    /// Appends the value to `key`, as exactly one part.
    ///
    /// # Errors
    ///
    /// The value has no encoding: a time is finer than a microsecond.
    fn append_to(&self, key: Builder) -> Result<Builder, PartError>;

    /// Appends the value as a key of its own. Types that are more than one part, as tuples are,
    /// append each; others leave this as it is.
    ///
    /// # Errors
    ///
    /// Those of [`append_to`](Self::append_to).
    fn append_all_to(&self, key: Builder) -> Result<Builder, PartError> {
        self.append_to(key)
    }

    /// Appends a slice of such values: within a key as one part, else each value as a part.
    #[doc(hidden)]
    fn append_slice(slice: &[Self], key: Builder, is_nested: bool) -> Result<Builder, PartError>
    where
        Self: Sized,
    {
        let each = |mut key: Builder| {
            for (index, value) in slice.iter().enumerate() {
                key = value.append_to(key).map_err(|error| error.at(index))?;
            }
            Ok(key)
        };
        if is_nested { key.nested_with(each) } else { each(key) }
    }
}

/// A [`ToKey`] whose every value has an encoding, so that [`encode`](super::encode) returns no
/// error: all but times of other crates, which may be finer than a microsecond
/// ([`Time`](super::Time) is not), and sequences with such.
///
/// ```compile_fail
/// cantle::key::encode(&("EWR", std::time::SystemTime::UNIX_EPOCH)); // try_encode, or Time::floor
/// ```
///
/// # Panics
///
/// The encoding of a type panics if it implements this trait and its
/// [`append_to`](ToKey::append_to) fails.
#[diagnostic::on_unimplemented(
    message = "`{Self}` may have no encoding as a part of a key",
    note = "a time that may be finer than a microsecond becomes a part of a key by `cantle::key::Time::floor` (or `exact`, \
            `ceil`, `round`), or by `cantle::key::try_encode`, which returns an error for such"
)]
pub trait InfallibleKey: ToKey {}

/// A type that can be read back from a part of a key, or from a key of its own. [`ToKey`] has an
/// example.
pub trait FromKey: ToKey + Sized {
    /// Reads the value from one part.
    ///
    /// # Errors
    ///
    /// The part is of another type, or outside of the values of this one.
    fn from_part(part: Part) -> Result<Self, PartError>;

    /// Reads the value from a key of its own. Types that are more than one part read each; others
    /// leave this as it is.
    ///
    /// # Errors
    ///
    /// There are too few parts, or one is of another type.
    fn from_parts(parts: &mut Parts<'_>) -> Result<Self, PartError> {
        parts.read()
    }

    /// The name of the type in messages about keys. By default the name of its kind.
    fn type_name() -> String {
        Self::Kind::name()
    }

    /// Reads a slice of such values from one part.
    #[doc(hidden)]
    fn vec_from_part(part: Part) -> Result<Vec<Self>, PartError> {
        match part {
            Part::Nested(parts) => Self::vec_from_parts(&mut Parts::of_nested(parts)),
            other => Err(PartError::expected("a sequence", &other)),
        }
    }

    /// Reads all parts.
    #[doc(hidden)]
    fn vec_from_parts(parts: &mut Parts<'_>) -> Result<Vec<Self>, PartError> {
        let mut values = Vec::new();
        while !parts.is_at_end() {
            values.push(parts.read()?);
        }
        Ok(values)
    }
}

/// The key of a type that implements [`InfallibleKey`]. Panics if it failed all the same.
pub(super) fn infallible(key: Result<Builder, PartError>) -> Builder {
    match key {
        Ok(key) => key,
        Err(error) => panic!("a type that implements InfallibleKey failed: {error}"),
    }
}
