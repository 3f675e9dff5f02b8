//! Rust's own values and tuples as parts.

use super::builder::Builder;
use super::part::Part;

mod sealed {
    pub trait Sealed {}
}

/// A value that is one part of a key: texts, integers up to `i64`, `f64`, `bool`, byte strings, [`Part`], and
/// `Option`s of these, whose `None` is a null. Sealed.
pub trait ToPart: sealed::Sealed {
    #[doc(hidden)]
    fn append_to(&self, builder: Builder) -> Builder;
}

/// What [`encode`](super::encode) takes: tuples of one to eight [`ToPart`]s, and slices of one type. Sealed.
pub trait Parts: sealed::Sealed {
    #[doc(hidden)]
    fn append_to(&self, builder: Builder) -> Builder;
}

macro_rules! to_part {
    ($($type:ty => |$builder:ident, $value:ident| $append:expr;)+) => {$(
        impl sealed::Sealed for $type {}
        impl ToPart for $type {
            fn append_to(&self, $builder: Builder) -> Builder {
                let $value = self;
                $append
            }
        }
    )+};
}
to_part! {
    str => |builder, value| builder.text(value);
    String => |builder, value| builder.text(value);
    [u8] => |builder, value| builder.bytes(value);
    Vec<u8> => |builder, value| builder.bytes(value);
    i64 => |builder, value| builder.int(*value);
    i32 => |builder, value| builder.int(i64::from(*value));
    i16 => |builder, value| builder.int(i64::from(*value));
    u32 => |builder, value| builder.int(i64::from(*value));
    u16 => |builder, value| builder.int(i64::from(*value));
    f64 => |builder, value| builder.float(*value);
    bool => |builder, value| builder.bool(*value);
    Part => |builder, value| builder.part(value);
}
impl<const N: usize> sealed::Sealed for [u8; N] {}
impl<const N: usize> ToPart for [u8; N] {
    fn append_to(&self, builder: Builder) -> Builder {
        builder.bytes(self)
    }
}
impl<T: ToPart + ?Sized> sealed::Sealed for &T {}
impl<T: ToPart + ?Sized> ToPart for &T {
    fn append_to(&self, builder: Builder) -> Builder {
        (**self).append_to(builder)
    }
}
impl<T: ToPart> sealed::Sealed for Option<T> {}
impl<T: ToPart> ToPart for Option<T> {
    fn append_to(&self, builder: Builder) -> Builder {
        match self {
            Some(part) => part.append_to(builder),
            None => builder.null(),
        }
    }
}

impl sealed::Sealed for [Part] {}
impl Parts for [Part] {
    fn append_to(&self, builder: Builder) -> Builder {
        self.iter().fold(builder, |builder, part| builder.part(part))
    }
}
impl sealed::Sealed for Vec<Part> {}
impl Parts for Vec<Part> {
    fn append_to(&self, builder: Builder) -> Builder {
        Parts::append_to(self.as_slice(), builder)
    }
}

macro_rules! tuples {
    ($(($($index:tt $type:ident),+))+) => {$(
        impl<$($type: ToPart),+> sealed::Sealed for ($($type,)+) {}
        impl<$($type: ToPart),+> Parts for ($($type,)+) {
            fn append_to(&self, builder: Builder) -> Builder {
                $(let builder = self.$index.append_to(builder);)+
                builder
            }
        }
    )+};
}
tuples! {
    (0 A)
    (0 A, 1 B)
    (0 A, 1 B, 2 C)
    (0 A, 1 B, 2 C, 3 D)
    (0 A, 1 B, 2 C, 3 D, 4 E)
    (0 A, 1 B, 2 C, 3 D, 4 E, 5 F)
    (0 A, 1 B, 2 C, 3 D, 4 E, 5 F, 6 G)
    (0 A, 1 B, 2 C, 3 D, 4 E, 5 F, 6 G, 7 H)
}
