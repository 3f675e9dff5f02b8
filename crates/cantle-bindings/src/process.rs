//! Identifies the present process, to recognise forks.
//!
//! A forked child has a store's memory, but none of its threads. Locks may be held by threads that
//! do not exist in the child, and the files are its parent's. A child must therefore touch nothing
//! of a store. Asking the system for the process's number in each call would cost a system call.
//! Instead the C library reports forks (`pthread_atfork`), and a call costs a load. A bare `clone`
//! is not noticed.

use std::io;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Number of forks between this process and its first ancestor that watched for forks.
static FORKS: AtomicU32 = AtomicU32::new(0);

/// A process, among those that were forked from one another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Process(u32);

impl Process {
    /// The present process. From the first call on, forks are noticed.
    ///
    /// # Errors
    ///
    /// The C library has no memory to register the handler of forks.
    pub fn watched() -> io::Result<Self> {
        static WATCHED: OnceLock<i32> = OnceLock::new();
        match *WATCHED.get_or_init(watch) {
            0 => Ok(Self::current()),
            code => Err(io::Error::from_raw_os_error(code)),
        }
    }

    /// The present process, if [`watched`](Self::watched) was called before.
    #[inline]
    pub fn current() -> Self {
        Self(FORKS.load(Relaxed))
    }

    /// True if this is the present process.
    #[inline]
    pub fn is_current(self) -> bool {
        self == Self::current()
    }
}

#[expect(unsafe_code, reason = "the C library's word of forks")]
fn watch() -> i32 {
    extern "C" fn count() {
        FORKS.fetch_add(1, Relaxed);
    }
    if cfg!(miri) {
        return 0;
    }
    // SAFETY: the handler adds to a number, which is safe in a child at any moment.
    unsafe { libc::pthread_atfork(None, None, Some(count)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "Miri does not fork")]
    #[expect(unsafe_code, reason = "forks")]
    fn a_child_is_not_the_process_that_it_was_forked_from() {
        let parent = Process::watched().unwrap();
        assert!(parent.is_current());
        // SAFETY: the child makes no other call than to leave.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let is_wrong = parent.is_current() || !Process::watched().is_ok_and(Process::is_current);
            // SAFETY: it ends the child and nothing else.
            unsafe { libc::_exit(i32::from(is_wrong)) }
        }
        let mut status = -1;
        // SAFETY: a child that was just made, and a place for its status.
        assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
        assert_eq!(status, 0, "the child took itself for its parent");
        assert!(parent.is_current());
    }
}
