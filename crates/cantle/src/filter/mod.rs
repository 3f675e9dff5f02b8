//! Filters: small summaries of key sets that answer "certainly not there" without touching the data.
//!
//! A filter is built once over the 64-bit hashes of the keys of a sealed table or log part, and lives in the
//! file beside them. It is advice: a reader that finds it damaged or missing reads the data instead.
//!
//! Thread safety: filters are immutable bytes; builders belong to one thread.

pub(crate) mod bloom;
pub(crate) mod monkey;
