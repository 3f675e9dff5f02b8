//! Reading what is indexed of a log: in the order of keys, or ahead in the order of places.

pub mod ahead;
pub mod batch;
pub mod cursor;
pub mod learn;
pub mod pass;
pub mod view;
