//! Threads.

use std::time::Duration;

/// Lets another thread run.
pub fn yield_now() {
    std::thread::yield_now();
}

/// Blocks this thread for at least `duration`.
pub fn sleep(duration: Duration) {
    std::thread::sleep(duration);
}
