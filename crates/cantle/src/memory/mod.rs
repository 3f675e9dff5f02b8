//! Memory: pages of the operating system's, vectors in them, and who has taken how much.

pub mod account;
pub mod charged;
pub mod paged_vec;
pub mod pages;
