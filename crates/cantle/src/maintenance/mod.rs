//! Background work: a pool of threads that stores may share, and the brake that slows writers when
//! that work falls behind.

mod calls;
#[cfg(test)]
mod calls_tests;
mod gate;
mod lanes;
#[cfg(test)]
mod lanes_tests;
mod pool;
#[cfg(test)]
mod pool_tests;
mod stats;
mod throttle;
#[cfg(test)]
mod throttle_tests;

pub use calls::{Call, Calls};
pub use gate::{Gate, Pass};
pub use lanes::Class;
pub use pool::{Pool, Ticker, WeakPool};
pub use stats::{JobStats, MaintenanceStats};
pub use throttle::{Throttle, nanos_per_kib};
