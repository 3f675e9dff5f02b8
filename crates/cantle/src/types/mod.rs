//! The terms that all other folders use: keys, their order and ranges, entries, values, options,
//! errors.

pub mod bounds;
pub mod compression;
pub mod durability;
pub mod entry;
pub mod error;
pub mod gap;
pub mod order;
pub mod prefix;
pub mod span;
pub mod value;
