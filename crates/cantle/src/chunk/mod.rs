//! The chunk layout (EvenDB).

pub mod index;
