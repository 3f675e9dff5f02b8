//! Threads. Every thread of the library has a name, and failing to start one is an error, not a panic.
#![expect(clippy::disallowed_methods, reason = "this is the one way to threads")]

pub use std::thread::{JoinHandle, scope, yield_now};

use std::io;
use std::time::Duration;

/// Starts a thread. Linux shows the first 15 bytes of `name`; it must not contain a zero byte.
pub fn spawn<T: Send + 'static>(
    name: &str,
    body: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    if name.contains('\0') {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    std::thread::Builder::new().name(name.to_owned()).spawn(body)
}

/// Blocks this thread for at least `duration`.
pub fn sleep(duration: Duration) {
    std::thread::sleep(duration);
}

/// Number of threads that can run at once on the processors of this process; 1 if that is unknown.
pub fn available_parallelism() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_carries_its_name_and_returns_its_result() {
        let thread = spawn("cantle-test", || std::thread::current().name().map(str::to_owned)).unwrap();
        assert_eq!(thread.join().unwrap().as_deref(), Some("cantle-test"));
        assert!(available_parallelism() >= 1);
    }

    #[test]
    fn an_impossible_name_is_an_error() {
        assert!(spawn("zero\0byte", || ()).is_err());
    }
}
