//! What one record of a log says.

pub mod range_delete;
pub mod record;
