//! Measuring what a store does to this machine: what the kernel counts, how long operations take,
//! how much space the files occupy. The synthetic access patterns of the papers are
//! `cantle-workloads`.
//!
//! Shared by `cantle bench` and `cantle tour`. Nothing here knows a workload; everything that is
//! specific to Linux (`/proc`) answers `None` elsewhere instead of failing.

pub(crate) mod device;
pub(crate) mod disk;
pub(crate) mod display;
pub(crate) mod latency;
pub(crate) mod process;
pub(crate) mod timeline;

pub(crate) use cantle_workloads::generator;

use crate::failure::Failure;
use std::io;
use std::path::Path;

/// Names the operation and the file of an error of the operating system.
pub(crate) fn failed(operation: &str, path: &Path) -> impl Fn(io::Error) -> Failure {
    move |error| Failure::Failed(format!("cannot {operation} {}: {error}", path.display()))
}
