//! Types of parts, as types: keys of one kind are of one encoding, whatever Rust types they have.
//!
//! `String`, `&str` and `char` are all of the kind [`Text`], and `(&str, i32)` is of the kind `(Text, Int)`, as is
//! `(String, u64)`: a key of the one is found by the other. The names are kept in the metadata of
//! [typed keyspaces](crate::TypedKeyspace). [`ToKey`](super::ToKey) says of which kind a type is.

use std::marker::PhantomData;

mod sealed {
    pub trait Sealed {}
}

/// The kind of a part of a key, or of a sequence of parts. Sealed: these are the types that the encoding has.
pub trait Kind: sealed::Sealed + 'static {
    /// The kind of a slice of such.
    #[doc(hidden)]
    type Slice: Kind;

    /// The name of the kind: `text`, `int`, `text?` where it may be a null, `(text, int)`, `[int]`.
    fn name() -> String;

    /// The names of a key's parts: that of each part of a tuple.
    fn parts() -> Vec<String> {
        vec![Self::name()]
    }
}

/// Parts of this kind begin a key of the kind `Whole`.
pub trait LeadingParts<Whole>: Kind {
    /// Whether they are all of the key's parts.
    #[doc(hidden)]
    const WHOLE: bool;
}

macro_rules! kinds {
    ($($(#[$doc:meta])+ $kind:ident $name:literal, $slice:ty;)+) => {$(
        $(#[$doc])+
        #[derive(Debug)]
        pub enum $kind {}
        impl sealed::Sealed for $kind {}
        impl Kind for $kind {
            type Slice = $slice;
            fn name() -> String {
                $name.to_owned()
            }
        }
        impl LeadingParts<$kind> for $kind {
            const WHOLE: bool = true;
        }
    )+};
}
kinds! {
    /// A part of any type, [`Part`](super::Part).
    Any "any", List<Any>;
    /// Byte strings: `[u8]`, `[u8; N]` and `Vec<u8>`.
    Bytes "bytes", List<Bytes>;
    /// Texts: `str`, `String` and `char`.
    Text "text", List<Text>;
    /// Integers of any width.
    Int "int", List<Int>;
    /// The type `u8`: an integer whose slices are byte strings.
    Byte "int", Bytes;
    /// `f64`.
    Float "float", List<Float>;
    /// `f32`.
    Float32 "float32", List<Float32>;
    /// `bool`.
    Bool "bool", List<Bool>;
    /// UUIDs.
    Uuid "uuid", List<Uuid>;
    /// Times: integers, microseconds since 1970-01-01T00:00:00Z.
    Time "time", List<Time>;
    /// Days: the time at which they begin in UTC.
    Date "date", List<Date>;
}

/// A part that may be a null.
#[derive(Debug)]
pub struct Optional<K>(PhantomData<K>);
impl<K> sealed::Sealed for Optional<K> {}
impl<K: Kind> Kind for Optional<K> {
    type Slice = List<Self>;
    fn name() -> String {
        format!("{}?", K::name())
    }
}
impl<K: Kind> LeadingParts<Self> for Optional<K> {
    const WHOLE: bool = true;
}

/// A sequence of any length.
#[derive(Debug)]
pub struct List<K>(PhantomData<K>);
impl<K> sealed::Sealed for List<K> {}
impl<K: Kind> Kind for List<K> {
    type Slice = List<Self>;
    fn name() -> String {
        format!("[{}]", K::name())
    }
    fn parts() -> Vec<String> {
        vec![format!("{}…", K::name())]
    }
}
impl<K: Kind> LeadingParts<Self> for List<K> {
    const WHOLE: bool = true;
}

macro_rules! sequences {
    ($([$($kind:ident)*])+) => {$(
        impl<$($kind: Kind),*> sealed::Sealed for ($($kind,)*) {}
        impl<$($kind: Kind),*> Kind for ($($kind,)*) {
            type Slice = List<Self>;
            fn name() -> String {
                format!("({})", Self::parts().join(", "))
            }
            fn parts() -> Vec<String> {
                vec![$($kind::name()),*]
            }
        }
        sequences!(@begin [] [$($kind)*]; $($kind)*);
    )+};
    // Each beginning of a sequence leads it.
    (@begin [$($lead:ident)*] [$($whole:ident)*]; $next:ident $($rest:ident)*) => {
        impl<$($whole: Kind),*> LeadingParts<($($whole,)*)> for ($($lead,)*) {
            const WHOLE: bool = false;
        }
        sequences!(@begin [$($lead)* $next] [$($whole)*]; $($rest)*);
    };
    (@begin [$($lead:ident)*] [$($whole:ident)*];) => {
        impl<$($whole: Kind),*> LeadingParts<($($whole,)*)> for ($($whole,)*) {
            const WHOLE: bool = true;
        }
    };
}
sequences! {
    []
    [A]
    [A B]
    [A B C]
    [A B C D]
    [A B C D E]
    [A B C D E F]
    [A B C D E F G]
    [A B C D E F G H]
    [A B C D E F G H I]
    [A B C D E F G H I J]
    [A B C D E F G H I J K]
    [A B C D E F G H I J K L]
    [A B C D E F G H I J K L M]
    [A B C D E F G H I J K L M N]
    [A B C D E F G H I J K L M N O]
    [A B C D E F G H I J K L M N O P]
}
