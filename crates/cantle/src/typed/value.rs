//! Encodings of values.

use crate::key::{self, FromKey, Time};
use std::time::SystemTime;

/// Why a value has no bytes, or bytes are no value: any error or message.
pub type CodecError = Box<dyn std::error::Error + Send + Sync>;

/// The values of a [typed keyspace](super::TypedKeyspace): how they become bytes and are read back.
///
/// A type may implement this for itself, or for others, as `Json` does (feature `serde`). The trait
/// is open:
///
/// ```
/// use cantle::typed::{CodecError, ValueCodec};
///
/// struct Point { x: f32, y: f32 }
///
/// impl ValueCodec for Point {
///     type Input = Point;
///     type Output = Point;
///     const CODEC: &'static str = "two floats";
///     fn type_name() -> String {
///         "Point".into()
///     }
///     fn encode(point: &Point) -> Result<Vec<u8>, CodecError> {
///         Ok([point.x.to_le_bytes(), point.y.to_le_bytes()].concat())
///     }
///     fn decode(bytes: &[u8]) -> Result<Point, CodecError> {
///         let (x, y) = bytes.split_at_checked(4).ok_or("a point has 8 bytes")?;
///         Ok(Point { x: f32::from_le_bytes(x.try_into()?), y: f32::from_le_bytes(y.try_into()?) })
///     }
/// }
///
/// # let dir = tempfile::tempdir().unwrap();
/// let db = cantle::Db::open(dir.path().join("points"))?;
/// let points = db.typed::<u64, Point>("points")?;
/// points.put(&7, &Point { x: 1.0, y: -1.0 })?;
/// assert!(points.get(&7)?.is_some_and(|point| point.y == -1.0));
/// # Ok::<(), cantle::Error>(())
/// ```
pub trait ValueCodec {
    /// The type that is written: `str` for `String`.
    type Input: ?Sized;
    /// The type that is read.
    type Output;

    /// The name of the encoding, which the keyspace's metadata keep. Another name for another
    /// encoding.
    const CODEC: &'static str;

    /// The name of the values' type, which the metadata keep.
    fn type_name() -> String;

    /// The bytes of a value.
    ///
    /// # Errors
    ///
    /// The value has no encoding. The operation returns
    /// [`InvalidArgument`](crate::Error::InvalidArgument), which names the key.
    fn encode(value: &Self::Input) -> Result<Vec<u8>, CodecError>;

    /// The value of bytes, which may be any.
    ///
    /// # Errors
    ///
    /// They are not the encoding of such a value. The operation returns
    /// [`WrongType`](crate::Error::WrongType), which names the key.
    fn decode(bytes: &[u8]) -> Result<Self::Output, CodecError>;
}

impl ValueCodec for Vec<u8> {
    type Input = [u8];
    type Output = Self;
    const CODEC: &'static str = "raw";
    fn type_name() -> String {
        "bytes".into()
    }
    fn encode(value: &[u8]) -> Result<Vec<u8>, CodecError> {
        Ok(value.to_vec())
    }
    fn decode(bytes: &[u8]) -> Result<Self, CodecError> {
        Ok(bytes.to_vec())
    }
}

impl ValueCodec for String {
    type Input = str;
    type Output = Self;
    const CODEC: &'static str = "utf-8";
    fn type_name() -> String {
        "text".into()
    }
    fn encode(value: &str) -> Result<Vec<u8>, CodecError> {
        Ok(value.into())
    }
    fn decode(bytes: &[u8]) -> Result<Self, CodecError> {
        Ok(std::str::from_utf8(bytes)?.into())
    }
}

/// Values that are encoded as keys are.
macro_rules! as_keys {
    ($([$($generic:ident)*] $type:ty;)+) => {$(
        impl<$($generic: FromKey),*> ValueCodec for $type {
            type Input = Self;
            type Output = Self;
            const CODEC: &'static str = "key";
            fn type_name() -> String {
                <<Self as key::ToKey>::Kind as key::kind::Kind>::name()
            }
            fn encode(value: &Self) -> Result<Vec<u8>, CodecError> {
                Ok(key::try_encode(value)?)
            }
            fn decode(bytes: &[u8]) -> Result<Self, CodecError> {
                Ok(key::decode(bytes)?)
            }
        }
    )+};
}
as_keys! {
    [] i8; [] i16; [] i32; [] i64; [] i128; [] isize;
    [] u8; [] u16; [] u32; [] u64; [] u128; [] usize;
    [] f32; [] f64; [] bool; [] char; [] Time; [] SystemTime; [] key::BigInt; [] key::Part; [] Vec<key::Part>;
    [T] Option<T>;
    [] ();
    [A] (A,);
    [A B] (A, B);
    [A B C] (A, B, C);
    [A B C D] (A, B, C, D);
    [A B C D E] (A, B, C, D, E);
    [A B C D E F] (A, B, C, D, E, F);
    [A B C D E F G] (A, B, C, D, E, F, G);
    [A B C D E F G H] (A, B, C, D, E, F, G, H);
    [A B C D E F G H I] (A, B, C, D, E, F, G, H, I);
    [A B C D E F G H I J] (A, B, C, D, E, F, G, H, I, J);
    [A B C D E F G H I J K] (A, B, C, D, E, F, G, H, I, J, K);
    [A B C D E F G H I J K L] (A, B, C, D, E, F, G, H, I, J, K, L);
    [A B C D E F G H I J K L M] (A, B, C, D, E, F, G, H, I, J, K, L, M);
    [A B C D E F G H I J K L M N] (A, B, C, D, E, F, G, H, I, J, K, L, M, N);
    [A B C D E F G H I J K L M N O] (A, B, C, D, E, F, G, H, I, J, K, L, M, N, O);
    [A B C D E F G H I J K L M N O P] (A, B, C, D, E, F, G, H, I, J, K, L, M, N, O, P);
}
#[cfg(feature = "uuid")]
as_keys! { [] uuid::Uuid; }
#[cfg(feature = "jiff")]
as_keys! { [] jiff::Timestamp; [] jiff::civil::Date; [] jiff::civil::DateTime; }

#[cfg(feature = "serde")]
pub use of_serde::Json;

#[cfg(feature = "serde")]
mod of_serde {
    use super::{CodecError, ValueCodec};
    use serde::{Serialize, de::DeserializeOwned};
    use std::marker::PhantomData;

    /// Values of any type that serde knows, as JSON: the command and other languages read them, and
    /// a type may get another field later that has a default.
    ///
    /// ```
    /// use cantle::{Db, typed::Json};
    ///
    /// #[derive(serde::Serialize, serde::Deserialize)]
    /// struct Flight {
    ///     dest: String,
    ///     delay: Option<i32>,
    /// }
    ///
    /// # let dir = tempfile::tempdir().unwrap();
    /// let db = Db::open(dir.path().join("flights"))?;
    /// let flights = db.typed::<(String, u32), Json<Flight>>("flights")?;
    /// flights.put(&("UA", 1545), &Flight { dest: "IAH".into(), delay: Some(11) })?;
    /// assert_eq!(flights.get(&("UA", 1545))?.map(|flight| flight.dest), Some("IAH".into()));
    /// # Ok::<(), cantle::Error>(())
    /// ```
    ///
    /// The metadata have the type's name without its module: `Flight`.
    #[derive(Debug)]
    pub struct Json<T>(PhantomData<fn() -> T>);

    impl<T: Serialize + DeserializeOwned> ValueCodec for Json<T> {
        type Input = T;
        type Output = T;
        const CODEC: &'static str = "json";
        fn type_name() -> String {
            without_modules(std::any::type_name::<T>())
        }
        fn encode(value: &T) -> Result<Vec<u8>, CodecError> {
            Ok(serde_json::to_vec(value)?)
        }
        fn decode(bytes: &[u8]) -> Result<T, CodecError> {
            Ok(serde_json::from_slice(bytes)?)
        }
    }

    /// A type's name as it is where the type is imported, so that a module may be renamed.
    fn without_modules(name: &str) -> String {
        let mut short = String::new();
        let mut word = 0;
        for char in name.chars() {
            if char == ':' {
                short.truncate(word);
                continue;
            }
            short.push(char);
            if !(char.is_alphanumeric() || char == '_') {
                word = short.len();
            }
        }
        short
    }

    #[test]
    fn names_of_types_have_no_modules() {
        for (name, short) in [
            ("alloc::vec::Vec<my_crate::model::Flight>", "Vec<Flight>"),
            ("(alloc::string::String, core::option::Option<u8>)", "(String, Option<u8>)"),
            ("&[x::Y]", "&[Y]"),
            ("u64", "u64"),
        ] {
            assert_eq!(without_modules(name), short);
        }
    }
}
