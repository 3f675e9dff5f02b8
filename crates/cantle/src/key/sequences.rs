//! Tuples, arrays and slices: keys of several parts, and nested sequences within keys.

use super::builder::Builder;
use super::error::PartError;
use super::kind::Kind;
use super::part::Part;
use super::parts::Parts;
use super::value::{FromKey, InfallibleKey, ToKey};

macro_rules! slices {
    ($([$($generic:tt)*] $type:ty;)+) => {$(
        impl<T: ToKey $($generic)*> ToKey for $type {
            type Kind = <T::Kind as Kind>::Slice;
            fn append_to(&self, key: Builder) -> Result<Builder, PartError> {
                T::append_slice(self, key, true)
            }
            fn append_all_to(&self, key: Builder) -> Result<Builder, PartError> {
                T::append_slice(self, key, false)
            }
        }
        impl<T: InfallibleKey $($generic)*> InfallibleKey for $type {}
    )+};
}
slices! {
    [] [T];
    [] Vec<T>;
    [, const N: usize] [T; N];
}

impl<T: FromKey> FromKey for Vec<T> {
    fn from_part(part: Part) -> Result<Self, PartError> {
        T::vec_from_part(part)
    }
    fn from_parts(parts: &mut Parts<'_>) -> Result<Self, PartError> {
        T::vec_from_parts(parts)
    }
}

impl<T: FromKey, const N: usize> FromKey for [T; N] {
    fn from_part(part: Part) -> Result<Self, PartError> {
        of_length(T::vec_from_part(part)?)
    }
    fn from_parts(parts: &mut Parts<'_>) -> Result<Self, PartError> {
        of_length(T::vec_from_parts(parts)?)
    }
}

fn of_length<T, const N: usize>(values: Vec<T>) -> Result<[T; N], PartError> {
    values.try_into().map_err(|values: Vec<T>| {
        PartError::new(format!("it has {} elements, and the array has {N}", values.len()))
    })
}

macro_rules! tuples {
    ($([$($index:tt $type:ident)*])+) => {$(
        impl<$($type: ToKey),*> ToKey for ($($type,)*) {
            type Kind = ($($type::Kind,)*);
            fn append_to(&self, key: Builder) -> Result<Builder, PartError> {
                key.nested_with(|key| self.append_all_to(key))
            }
            fn append_all_to(&self, key: Builder) -> Result<Builder, PartError> {
                $(let key = self.$index.append_to(key).map_err(|error| error.at($index))?;)*
                Ok(key)
            }
        }
        impl<$($type: InfallibleKey),*> InfallibleKey for ($($type,)*) {}
        impl<$($type: FromKey),*> FromKey for ($($type,)*) {
            fn from_part(part: Part) -> Result<Self, PartError> {
                match part {
                    Part::Nested(nested) => {
                        let mut parts = Parts::of_nested(nested);
                        let tuple = Self::from_parts(&mut parts)?;
                        parts.finish()?;
                        Ok(tuple)
                    }
                    other => Err(PartError::expected("a sequence", &other)),
                }
            }
            // The tuple without parts reads none.
            fn from_parts(_parts: &mut Parts<'_>) -> Result<Self, PartError> {
                Ok(($(_parts.read::<$type>()?,)*))
            }
        }
    )+};
}
tuples! {
    []
    [0 A]
    [0 A 1 B]
    [0 A 1 B 2 C]
    [0 A 1 B 2 C 3 D]
    [0 A 1 B 2 C 3 D 4 E]
    [0 A 1 B 2 C 3 D 4 E 5 F]
    [0 A 1 B 2 C 3 D 4 E 5 F 6 G]
    [0 A 1 B 2 C 3 D 4 E 5 F 6 G 7 H]
    [0 A 1 B 2 C 3 D 4 E 5 F 6 G 7 H 8 I]
    [0 A 1 B 2 C 3 D 4 E 5 F 6 G 7 H 8 I 9 J]
    [0 A 1 B 2 C 3 D 4 E 5 F 6 G 7 H 8 I 9 J 10 K]
    [0 A 1 B 2 C 3 D 4 E 5 F 6 G 7 H 8 I 9 J 10 K 11 L]
    [0 A 1 B 2 C 3 D 4 E 5 F 6 G 7 H 8 I 9 J 10 K 11 L 12 M]
    [0 A 1 B 2 C 3 D 4 E 5 F 6 G 7 H 8 I 9 J 10 K 11 L 12 M 13 N]
    [0 A 1 B 2 C 3 D 4 E 5 F 6 G 7 H 8 I 9 J 10 K 11 L 12 M 13 N 14 O]
    [0 A 1 B 2 C 3 D 4 E 5 F 6 G 7 H 8 I 9 J 10 K 11 L 12 M 13 N 14 O 15 P]
}
