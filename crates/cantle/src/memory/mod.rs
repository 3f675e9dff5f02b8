//! Memory: pages of the operating system, vectors in them, and accounts of the bytes taken.

pub mod account;
pub mod charged;
pub mod paged_vec;
pub mod pages;
