//! Measurements of a store from outside of it.

pub mod cycles;
pub mod group;
pub mod latency;
pub mod process;
pub mod space;
pub mod timeline;
