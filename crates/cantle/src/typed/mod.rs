//! Keyspaces whose keys and values are Rust's types.
//!
//! [`Db::typed`] opens one, or makes it. Keys are any type that [`key`](crate::key) can read back,
//! values any that implements [`ValueCodec`]:
//!
//! ```
//! use cantle::{Db, key::Time};
//!
//! # fn main() -> cantle::Result<()> {
//! # let dir = tempfile::tempdir().unwrap();
//! # let path = dir.path().join("messages");
//! let db = Db::open(path)?;
//! let messages = db.typed::<(String, Time, u32), String>("messages")?;
//!
//! let at = |second: i64| Time::from_micros(second * 1_000_000);
//! messages.put(&("ada", at(10), 1), "hello")?;
//! messages.put(&("ada", at(20), 2), "good night")?;
//! messages.put(&("adam", at(15), 3), "hi")?;
//! assert_eq!(messages.get(&("ada", at(10), 1))?.as_deref(), Some("hello"));
//!
//! // Whole keys or leading parts bound a range, and it goes in both directions.
//! for pair in messages.range(("ada", at(15))..=("ada", at(20)))?.rev() {
//!     let ((user, time, number), text) = pair?;
//!     assert_eq!((user.as_str(), time, number, text.as_str()), ("ada", at(20), 2, "good night"));
//! }
//! assert_eq!(messages.prefix(&("ada",))?.count(), 2);
//! assert!(messages.last()?.is_some_and(|(key, _)| key.0 == "adam"));
//!
//! // The types stay with the keyspace.
//! let error = db.typed::<(String, u64), String>("messages").unwrap_err();
//! assert!(error.to_string().contains("was created with key types \"text, time, int\", not \"text, int\""));
//! # Ok(())
//! # }
//! ```
//!
//! Keys to look for may be of other types of the same [kind](crate::key::kind), as `&str` and
//! integer literals are above.
//!
//! # Values
//!
//! | type | bytes of a value |
//! | --- | --- |
//! | `Vec<u8>` | as they are |
//! | `String` | UTF-8 |
//! | integers, floats, `bool`, `char`, times, tuples of parts of keys, … | the [key](crate::key::encode) of the value |
//! | `Json<T>` (feature `serde`) | `T` as JSON |
//! | yours | see [`ValueCodec`] |
//!
//! # Metadata
//!
//! The names of the keys' types, of the values' type and of their encoding are kept in the
//! keyspace's metadata: see `schema.rs`. A keyspace opens with the same ones only, and
//! [`Error::OptionMismatch`](crate::Error::OptionMismatch) names both. The command understands such
//! keyspaces, and one that `cantle load` made opens here if its columns are of the key's types and
//! its values JSON. A pair that is of other types all the same is
//! [`Error::WrongType`](crate::Error::WrongType), which names its key.
//!
//! # Other operations
//!
//! `snapshot.typed(&keyspace)`, `tx.typed(&keyspace)` and `batch.typed(&keyspace)` have the same
//! operations within a snapshot, a transaction or a batch. [`TypedKeyspace::keyspace`] is the
//! keyspace itself, in bytes.
//!
//! Thread safety: a typed keyspace is a keyspace and two types; it keeps no state of its own.

// First: the files below use its macros.
#[macro_use]
mod operations;

mod bounds;
mod json;
mod keyspace;
mod range;
mod schema;
mod value;
mod views;

pub use bounds::{ByteBounds, TypedBounds};
pub use keyspace::TypedKeyspace;
pub use range::TypedRange;
#[cfg(feature = "serde")]
pub use value::Json;
pub use value::{CodecError, ValueCodec};
pub use views::{TypedBatch, TypedSnapshot, TypedTransaction};

use crate::db::{Db, KeyspaceOptions};
use crate::key::FromKey;
use crate::types::error::Result;

impl Db {
    /// The keyspace of this name with keys of type `K` and values of type `V`, which is made if
    /// there is none. See [`typed`](crate::typed).
    ///
    /// # Errors
    ///
    /// [`OptionMismatch`](crate::Error::OptionMismatch) if it has other types;
    /// [`InvalidArgument`](crate::Error::InvalidArgument) if it has pairs but no types; those of
    /// opening and making a keyspace.
    pub fn typed<K: FromKey, V: ValueCodec>(&self, name: &str) -> Result<TypedKeyspace<K, V>> {
        TypedKeyspace::new(self.keyspace(name)?)
    }

    /// The same, made with these options. Their comparator is that of bytes, in which typed keys
    /// sort as their values do.
    pub fn typed_with<K: FromKey, V: ValueCodec>(
        &self,
        name: &str,
        options: KeyspaceOptions,
    ) -> Result<TypedKeyspace<K, V>> {
        TypedKeyspace::new(self.keyspace_with(name, options)?)
    }
}
