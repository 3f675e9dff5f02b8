//! The chunk layout (EvenDB).

pub(crate) mod index;
