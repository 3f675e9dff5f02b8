//! Threads, locks, clock and randomness: the one way to them.

pub mod random;
pub mod thread;
pub mod time;

pub use parking_lot::{Condvar, Mutex, MutexGuard, RwLock};
pub use std::sync::Arc;
pub use std::sync::atomic;
