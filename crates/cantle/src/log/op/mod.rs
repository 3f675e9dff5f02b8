//! The operations that records of a log hold.

pub mod range_delete;
pub mod record;
