//! The terms of all other folders: keys, their order and ranges, entries, values, choices, errors.

pub mod bounds;
pub mod compression;
pub mod durability;
pub mod entry;
pub mod error;
pub mod order;
pub mod prefix;
pub mod span;
pub mod value;
