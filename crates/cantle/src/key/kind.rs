//! Types of parts, as types: keys of one kind are of one encoding, whatever Rust types they have.
//!
//! `String`, `&str` and `char` are all of the kind [`Text`], and `(&str, i32)` is of the kind
//! `(Text, Int)`, as is `(String, u64)`: a key of the one is found by the other. The names are kept
//! in the metadata of [typed keyspaces](crate::TypedKeyspace). [`ToKey`](super::ToKey) says of
//! which kind a type is.

use std::marker::PhantomData;

mod sealed {
    pub trait Sealed {}
}

/// The kind of a part of a key, or of a sequence of parts. Sealed: these are the types that the
/// encoding has.
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

/// A kind of the same encoding as the kind `K`: the same one, but that [`Byte`] and [`Int`] are
/// both integers.
#[diagnostic::on_unimplemented(message = "a key of the kind `{Self}` is not one of the kind `{K}`")]
pub trait SameAs<K>: Kind {}

/// Parts of this kind begin a key of the kind `Whole`.
#[diagnostic::on_unimplemented(
    message = "parts of the kind `{Self}` do not begin a key of the kind `{Whole}`",
    note = "leading parts are a tuple: `(\"UA\",)`"
)]
pub trait LeadingParts<Whole>: Kind {
    /// True if they are all of the key's parts.
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
        impl SameAs<$kind> for $kind {}
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

impl SameAs<Int> for Byte {}
impl SameAs<Byte> for Int {}
impl LeadingParts<Int> for Byte {
    const WHOLE: bool = true;
}
impl LeadingParts<Byte> for Int {
    const WHOLE: bool = true;
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
impl<K: Kind, S: SameAs<K>> SameAs<Optional<K>> for Optional<S> {}
impl<K: Kind, S: SameAs<K>> LeadingParts<Optional<K>> for Optional<S> {
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
impl<K: Kind, S: SameAs<K>> SameAs<List<K>> for List<S> {}
impl<K: Kind, S: SameAs<K>> LeadingParts<List<K>> for List<S> {
    const WHOLE: bool = true;
}

// Each kind of a tuple, and a second one with kinds that are the same as its own.
macro_rules! sequences {
    ($([$($kind:ident $same:ident)*])+) => {$(
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
        impl<$($kind: Kind, $same: SameAs<$kind>),*> SameAs<($($kind,)*)> for ($($same,)*) {}
        sequences!(@begin [] [$($kind)*]; $($kind $same)*);
    )+};
    // Each beginning of a sequence leads it.
    (@begin [$($lead:ident $same:ident)*] [$($whole:ident)*]; $next:ident $next_same:ident $($rest:ident)*) => {
        impl<$($whole: Kind,)* $($same: SameAs<$lead>),*> LeadingParts<($($whole,)*)> for ($($same,)*) {
            const WHOLE: bool = false;
        }
        sequences!(@begin [$($lead $same)* $next $next_same] [$($whole)*]; $($rest)*);
    };
    (@begin [$($lead:ident $same:ident)*] [$($whole:ident)*];) => {
        impl<$($whole: Kind,)* $($same: SameAs<$lead>),*> LeadingParts<($($whole,)*)> for ($($same,)*) {
            const WHOLE: bool = true;
        }
    };
}
sequences! {
    []
    [A A2]
    [A A2 B B2]
    [A A2 B B2 C C2]
    [A A2 B B2 C C2 D D2]
    [A A2 B B2 C C2 D D2 E E2]
    [A A2 B B2 C C2 D D2 E E2 F F2]
    [A A2 B B2 C C2 D D2 E E2 F F2 G G2]
    [A A2 B B2 C C2 D D2 E E2 F F2 G G2 H H2]
    [A A2 B B2 C C2 D D2 E E2 F F2 G G2 H H2 I I2]
    [A A2 B B2 C C2 D D2 E E2 F F2 G G2 H H2 I I2 J J2]
    [A A2 B B2 C C2 D D2 E E2 F F2 G G2 H H2 I I2 J J2 K K2]
    [A A2 B B2 C C2 D D2 E E2 F F2 G G2 H H2 I I2 J J2 K K2 L L2]
    [A A2 B B2 C C2 D D2 E E2 F F2 G G2 H H2 I I2 J J2 K K2 L L2 M M2]
    [A A2 B B2 C C2 D D2 E E2 F F2 G G2 H H2 I I2 J J2 K K2 L L2 M M2 N N2]
    [A A2 B B2 C C2 D D2 E E2 F F2 G G2 H H2 I I2 J J2 K K2 L L2 M M2 N N2 O O2]
    [A A2 B B2 C C2 D D2 E E2 F F2 G G2 H H2 I I2 J J2 K K2 L L2 M M2 N N2 O O2 P P2]
}
