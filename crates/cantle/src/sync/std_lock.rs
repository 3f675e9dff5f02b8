//! Locks of the standard library, for threads that sleep while a store is not in use or a disk does
//! not answer.
//!
//! The locks of `parking_lot`, which all other threads use, keep their sleepers in one list for the
//! process, in memory of the threads themselves. A forked child has the list but not the threads,
//! and reuses their memory for its own threads. A store that the child opens would follow pointers
//! into that memory.

pub use std::sync::{Condvar, Mutex, MutexGuard};
