//! Threads, locks, clock and randomness: the one way to them.

pub mod thread;

pub use arc_swap::ArcSwap;
pub use parking_lot::{Condvar, Mutex, MutexGuard, RwLock};
pub use std::hint;
pub use std::sync::Arc;
pub use std::sync::atomic;
pub use std::thread_local;
