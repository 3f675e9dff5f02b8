//! The chunk layout (EvenDB).

pub(crate) mod index;

#[cfg(test)]
mod index_tests;
