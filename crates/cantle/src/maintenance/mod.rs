//! Work in the background: a pool of threads that stores may share, and the brake on writers when that work
//! falls behind.

mod calls;
#[cfg(test)]
mod calls_tests;
mod gate;
mod pool;
mod throttle;
#[cfg(test)]
mod throttle_tests;

pub use calls::{Call, Calls};
pub use gate::{Gate, Pass};
pub use pool::{Pool, Ticker, WeakPool};
pub use throttle::{Throttle, nanos_per_kib};
