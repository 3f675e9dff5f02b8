//! Reading the indexed parts of a log in key order, with read-ahead in the order of the file.

pub mod ahead;
pub mod batch;
pub mod cursor;
pub mod learn;
pub mod pass;
pub mod view;
