//! The format of operations in a log's records.

pub mod range_delete;
pub mod record;
