//! A slot holds the library's object for a Python object, so that closing the store can take it
//! out.
//!
//! Closing a store empties the slots of its snapshots, ranges, cursors and transactions. The
//! store's lock file is free when `close` returns, even if Python objects remain; their operations
//! raise
//! `ClosedError`. An operation that makes a new object registers its slot before it unlocks the
//! slot it was made from, so closing a store misses no object.
//!
//! # Locks and the interpreter lock
//!
//! A slot is locked while an operation runs on its content, and only by threads that are detached
//! from the interpreter. A thread that waits for a slot therefore never holds the interpreter lock,
//! which a comparator in another thread may need. [`Slot::peek`] is the exception; it does not
//! wait.

use crate::comparator;
use cantle_bindings::Process;
use parking_lot::RwLock;
use pyo3::Python;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Reason why an operation failed.
pub enum Failure {
    /// The slot is empty.
    Empty,
    /// An error of the library.
    Cantle(cantle::Error),
}

impl From<cantle::Error> for Failure {
    fn from(error: cantle::Error) -> Self {
        Self::Cantle(error)
    }
}

/// Holds a value until it is released, in the process that made it.
pub struct Slot<T: Send + Sync + 'static> {
    content: RwLock<Option<T>>,
    /// True once no operation may start on the content; the content may still be there.
    is_closed: AtomicBool,
    process: Process,
}

impl<T: Send + Sync + 'static> Slot<T> {
    pub fn new(content: T) -> Self {
        Self {
            content: RwLock::new(Some(content)),
            is_closed: AtomicBool::new(false),
            process: Process::current(),
        }
    }

    /// Makes the slot appear empty to this thread and to threads that synchronise with it. Does not
    /// wait: running operations go on, and the content stays until it is released.
    pub fn close(&self) {
        self.is_closed.store(true, Relaxed);
    }

    fn is_open(&self) -> bool {
        !self.is_closed.load(Relaxed)
    }

    /// Runs `read` on the content, detached from the interpreter.
    #[inline]
    pub fn with<R: Send>(
        &self,
        py: Python<'_>,
        read: impl FnOnce(&T) -> Result<R, Failure> + Send,
    ) -> Result<R, Failure> {
        py.detach(|| self.with_detached(read))
    }

    /// As `with`, for a thread that is detached already, within an operation on another slot. Only
    /// slots of keyspaces are used like this, and no slot is locked within them.
    #[inline]
    pub fn with_detached<R>(&self, read: impl FnOnce(&T) -> Result<R, Failure>) -> Result<R, Failure> {
        match &*self.content.read() {
            Some(content) if self.is_open() => read(content),
            _ => Err(Failure::Empty),
        }
    }

    /// Runs `read`, which must not wait, on the content, attached or detached. `None` if the slot
    /// is empty or is being emptied.
    pub fn peek<R>(&self, read: impl FnOnce(&T) -> R) -> Option<R> {
        self.content.try_read_recursive()?.as_ref().filter(|_| self.is_open()).map(read)
    }

    /// True if the slot is empty. `false` while the slot is locked for writing; does not wait.
    pub fn is_empty(&self) -> bool {
        self.content.try_read_recursive().is_some_and(|content| content.is_none())
    }

    /// Takes the content and runs `run` on it. The caller is detached.
    pub fn consume<R>(&self, run: impl FnOnce(T) -> Result<R, Failure>) -> Result<R, Failure> {
        let mut content = self.content.write();
        content.take().filter(|_| self.is_open()).map_or(Err(Failure::Empty), run)
    }
}

/// A slot as a store sees it: it can be emptied.
pub trait Release: Send + Sync {
    /// Waits until no operation runs on the content, and drops it. The caller is detached.
    fn release(&self);
}

impl<T: Send + Sync + 'static> Release for Slot<T> {
    fn release(&self) {
        // Dropped under the lock: another `release` must not return before the content is gone.
        let mut content = self.content.write();
        *content = None;
    }
}

impl<T: Send + Sync + 'static> Drop for Slot<T> {
    fn drop(&mut self) {
        let Some(content) = self.content.get_mut().take() else { return };
        if !self.process.is_current() {
            // This forked process lacks the threads that closing waits for, and the files belong to
            // the parent.
            std::mem::forget(content);
        } else if comparator::is_running() {
            // The garbage collector ran while the store waits for the comparator. Closing here
            // would wait for this very thread.
            std::thread::spawn(move || drop(content));
        } else {
            // Closing may take long, and comparators need the interpreter meanwhile.
            Python::try_attach(|py| py.detach(move || drop(content)));
        }
    }
}
