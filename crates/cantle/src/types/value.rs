//! Owned bytes that are handed to callers.

use bytes::Bytes;
use std::fmt;
use std::ops::Deref;

macro_rules! owned_bytes {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Eq, PartialOrd, Ord, Hash, Default)]
        pub struct $name(Bytes);

        impl $name {
            pub(crate) fn new(bytes: Bytes) -> Self {
                Self(bytes)
            }
            /// A copy as a vector.
            pub fn to_vec(&self) -> Vec<u8> {
                self.0.to_vec()
            }
        }
        impl Deref for $name {
            type Target = [u8];
            fn deref(&self) -> &[u8] {
                &self.0
            }
        }
        impl AsRef<[u8]> for $name {
            fn as_ref(&self) -> &[u8] {
                &self.0
            }
        }
        impl std::borrow::Borrow<[u8]> for $name {
            fn borrow(&self) -> &[u8] {
                &self.0
            }
        }
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "b\"{}\"", self.0.escape_ascii())
            }
        }
        impl From<Vec<u8>> for $name {
            fn from(bytes: Vec<u8>) -> Self {
                Self(Bytes::from(bytes))
            }
        }
        impl From<&[u8]> for $name {
            fn from(bytes: &[u8]) -> Self {
                Self(Bytes::copy_from_slice(bytes))
            }
        }
        impl From<$name> for Vec<u8> {
            fn from(bytes: $name) -> Self {
                bytes.0.into()
            }
        }
        impl<T: AsRef<[u8]> + ?Sized> PartialEq<T> for $name {
            fn eq(&self, other: &T) -> bool {
                self.0.as_ref() == other.as_ref()
            }
        }
    };
}

owned_bytes! {
    /// A key that a scan returned. Cheap to clone; holds at most its own record or block in memory.
    Key
}
owned_bytes! {
    /// A value that a read returned. Cheap to clone; holds at most its own record or block in memory.
    Value
}
