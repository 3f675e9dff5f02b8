//! Threads, locks, clock and randomness: all other modules use them through this one.
//!
//! Models of concurrent code (`tests/loom_*.rs`, `tests/shuttle_*.rs`) include its source beside a `sync` of the
//! same names, in which the scheduler decides.

pub mod counter;
#[cfg(miri)]
mod miri;
pub mod on_use;
pub mod process_wide;
pub mod random;
pub mod std_lock;
pub mod thread;
pub mod time;
pub mod waits;

pub use arc_swap::ArcSwap;
#[cfg(miri)]
pub use miri::{Mutex, RwLock};
pub use parking_lot::{Condvar, MutexGuard};
#[cfg(not(miri))]
pub use parking_lot::{Mutex, RwLock};
pub use std::hint;
pub use std::sync::Arc;
pub use std::sync::atomic;
pub use std::thread_local;
