//! Measuring what a store does to this machine: what the kernel counts, how long operations take, how much
//! space the files occupy, and the synthetic access patterns of the papers.
//!
//! Shared by `cantle bench` and `cantle tour`. Nothing here knows a workload; everything that is specific to
//! Linux (`/proc`) answers `None` elsewhere instead of failing.

pub mod disk;
pub mod display;
pub mod generator;
pub mod latency;
pub mod process;
pub mod progress;
pub mod size;
pub mod timeline;
