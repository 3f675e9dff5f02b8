//! Locks of the standard library, for threads that sleep for as long as a store is not in use or a disk does not answer.
//!
//! Those of `parking_lot`, which all others use, keep their sleepers in one list for the process, in memory of the threads
//! themselves. A forked child has the list but not the threads, and gives their memory to its own: a store that it opens
//! would follow pointers into that.

pub use std::sync::{Condvar, Mutex, MutexGuard};
