//! Numbers, booleans, texts, nulls and references as parts of keys.

use super::big_int::BigInt;
use super::builder::Builder;
use super::error::PartError;
use super::kind;
use super::part::Part;
use super::parts::Parts;
use super::value::{FromKey, InfallibleKey, ToKey};
use std::borrow::Cow;

/// Types of which each value is one part.
macro_rules! to_key {
    ($($type:ty: $kind:ident, |$value:ident, $key:ident| $append:expr;)+) => {$(
        impl ToKey for $type {
            type Kind = kind::$kind;
            fn append_to(&self, $key: Builder) -> Result<Builder, PartError> {
                let $value = self;
                Ok($append)
            }
        }
        impl InfallibleKey for $type {}
    )+};
}
to_key! {
    str: Text, |value, key| key.text(value);
    String: Text, |value, key| key.text(value);
    char: Text, |value, key| key.text(value.encode_utf8(&mut [0; 4]));
    i8: Int, |value, key| key.int(i64::from(*value));
    i16: Int, |value, key| key.int(i64::from(*value));
    u16: Int, |value, key| key.int(i64::from(*value));
    i32: Int, |value, key| key.int(i64::from(*value));
    u32: Int, |value, key| key.int(i64::from(*value));
    i64: Int, |value, key| key.int(*value);
    u64: Int, |value, key| key.uint128(u128::from(*value));
    i128: Int, |value, key| key.int128(*value);
    u128: Int, |value, key| key.uint128(*value);
    isize: Int, |value, key| key.int128(*value as i128);
    usize: Int, |value, key| key.uint128(*value as u128);
    BigInt: Int, |value, key| key.big_int(value);
    f32: Float32, |value, key| key.float32(*value);
    f64: Float, |value, key| key.float(*value);
    bool: Bool, |value, key| key.bool(*value);
    Part: Any, |value, key| key.part(value);
}

impl ToKey for u8 {
    type Kind = kind::Byte;
    fn append_to(&self, key: Builder) -> Result<Builder, PartError> {
        Ok(key.int(i64::from(*self)))
    }
    fn append_slice(slice: &[Self], key: Builder, _: bool) -> Result<Builder, PartError> {
        Ok(key.bytes(slice))
    }
}
impl InfallibleKey for u8 {}

macro_rules! integers_from_key {
    ($($type:ident)+) => {$(
        impl FromKey for $type {
            fn from_part(part: Part) -> Result<Self, PartError> {
                integer(part, stringify!($type))
            }
            fn type_name() -> String {
                stringify!($type).to_owned()
            }
        }
    )+};
}
integers_from_key! { i8 i16 u16 i32 u32 i64 u64 i128 u128 isize usize }

fn integer<T: TryFrom<i128> + TryFrom<u128>>(part: Part, name: &str) -> Result<T, PartError> {
    let int = match &part {
        Part::Int(int) => i128::from(*int).try_into().ok(),
        Part::BigInt(int) => match (i128::try_from(int), u128::try_from(int)) {
            (Ok(int), _) => int.try_into().ok(),
            (_, Ok(int)) => int.try_into().ok(),
            _ => None,
        },
        other => return Err(PartError::expected("an integer", other)),
    };
    int.ok_or_else(|| PartError::new(format!("{} does not fit into {name}", part.shown())))
}

impl FromKey for u8 {
    fn from_part(part: Part) -> Result<Self, PartError> {
        integer(part, "u8")
    }
    fn type_name() -> String {
        "u8".into()
    }
    fn vec_from_part(part: Part) -> Result<Vec<Self>, PartError> {
        match part {
            Part::Bytes(bytes) => Ok(bytes),
            other => Err(PartError::expected("a byte string", &other)),
        }
    }
    fn vec_from_parts(parts: &mut Parts<'_>) -> Result<Vec<Self>, PartError> {
        parts.read()
    }
}

/// Types that are one of the variants of [`Part`].
macro_rules! from_key {
    ($($type:ty: $expected:literal, $pattern:pat => $value:expr;)+) => {$(
        impl FromKey for $type {
            fn from_part(part: Part) -> Result<Self, PartError> {
                match part {
                    $pattern => Ok($value),
                    other => Err(PartError::expected($expected, &other)),
                }
            }
        }
    )+};
}
from_key! {
    String: "a text", Part::Text(text) => text;
    f32: "a float of 32 bits", Part::Float32(float) => float;
    f64: "a float of 64 bits", Part::Float(float) => float;
    bool: "a boolean", Part::Bool(bool) => bool;
}

impl FromKey for Part {
    fn from_part(part: Part) -> Result<Self, PartError> {
        Ok(part)
    }
}

impl FromKey for BigInt {
    fn from_part(part: Part) -> Result<Self, PartError> {
        match part {
            Part::Int(int) => Ok(int.into()),
            Part::BigInt(int) => Ok(int),
            other => Err(PartError::expected("an integer", &other)),
        }
    }
}

impl FromKey for char {
    fn from_part(part: Part) -> Result<Self, PartError> {
        if let Part::Text(text) = &part {
            let mut chars = text.chars();
            if let (Some(char), None) = (chars.next(), chars.next()) {
                return Ok(char);
            }
        }
        Err(PartError::expected("a single character", &part))
    }
}

/// A null, or the value.
impl<T: ToKey> ToKey for Option<T> {
    type Kind = kind::Optional<T::Kind>;
    fn append_to(&self, key: Builder) -> Result<Builder, PartError> {
        match self {
            Some(value) => value.append_to(key),
            None => Ok(key.null()),
        }
    }
}
impl<T: InfallibleKey> InfallibleKey for Option<T> {}
impl<T: FromKey> FromKey for Option<T> {
    fn from_part(part: Part) -> Result<Self, PartError> {
        match part {
            Part::Null => Ok(None),
            part => T::from_part(part).map(Some),
        }
    }
}

impl<T: ToKey + ?Sized> ToKey for &T {
    type Kind = T::Kind;
    fn append_to(&self, key: Builder) -> Result<Builder, PartError> {
        (**self).append_to(key)
    }
    fn append_all_to(&self, key: Builder) -> Result<Builder, PartError> {
        (**self).append_all_to(key)
    }
}
impl<T: InfallibleKey + ?Sized> InfallibleKey for &T {}

impl<T: ToKey + ToOwned + ?Sized> ToKey for Cow<'_, T> {
    type Kind = T::Kind;
    fn append_to(&self, key: Builder) -> Result<Builder, PartError> {
        (**self).append_to(key)
    }
    fn append_all_to(&self, key: Builder) -> Result<Builder, PartError> {
        (**self).append_all_to(key)
    }
}
impl<T: InfallibleKey + ToOwned + ?Sized> InfallibleKey for Cow<'_, T> {}
