//! The parts that all files share: the header, and the coding of numbers.

pub mod bounds;
pub mod codec;
#[cfg(test)]
pub(crate) mod documented;
pub mod header;
pub mod limits;
