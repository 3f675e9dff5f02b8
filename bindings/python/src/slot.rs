//! Where an object of Python keeps what it has of the library, so that it can be taken away from it.
//!
//! Closing a store takes everything out of the slots of its snapshots, ranges and so on: the store's lock is gone when `close`
//! returns, whichever objects are still referred to, and these give `ClosedError`. What an operation makes gets its slot before
//! that of what it is made from is free: so nothing is on its way while a store closes.
//!
//! # Locks and the interpreter lock
//!
//! A slot is locked for as long as an operation runs on its content, and only by threads that are detached from the
//! interpreter: who waits for a slot keeps nobody from running Python, which a comparator in another thread may have to.
//! [`Slot::peek`] is the exception, and does not wait.

use crate::comparator;
use cantle_bindings::Process;
use parking_lot::RwLock;
use pyo3::Python;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Why an operation did not happen, or failed.
pub enum Failure {
    /// The slot is empty.
    Empty,
    /// What the library said.
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
    /// Whether the content is no longer given out, though it may not have gone yet.
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

    /// From here on the slot is as if it were empty, for this thread and whoever hears from it. Waits for nobody: what runs on
    /// the content goes on, and the content stays until it is released.
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

    /// The same for a thread that is detached already: from within an operation on another slot. Keyspaces' slots are
    /// used so, and never hold others.
    #[inline]
    pub fn with_detached<R>(&self, read: impl FnOnce(&T) -> Result<R, Failure>) -> Result<R, Failure> {
        match &*self.content.read() {
            Some(content) if self.is_open() => read(content),
            _ => Err(Failure::Empty),
        }
    }

    /// Runs `read`, which must not wait for anything, on the content, attached or not. `None` if there is none, or it is
    /// about to go.
    pub fn peek<R>(&self, read: impl FnOnce(&T) -> R) -> Option<R> {
        self.content.try_read_recursive()?.as_ref().filter(|_| self.is_open()).map(read)
    }

    /// Whether the content has gone. `false` in doubt; does not wait.
    pub fn is_empty(&self) -> bool {
        self.content.try_read_recursive().is_some_and(|content| content.is_none())
    }

    /// Runs `run` on the content, which it uses up. To be called detached.
    pub fn consume<R>(&self, run: impl FnOnce(T) -> Result<R, Failure>) -> Result<R, Failure> {
        let mut content = self.content.write();
        content.take().filter(|_| self.is_open()).map_or(Err(Failure::Empty), run)
    }
}

/// What a store can take back.
pub trait Release: Send + Sync {
    /// Drops the content, once no operation runs on it; it is gone when this returns. To be called detached.
    fn release(&self);
}

impl<T: Send + Sync + 'static> Release for Slot<T> {
    fn release(&self) {
        // Not before it is dropped, lest another who releases believes that it is.
        let mut content = self.content.write();
        *content = None;
    }
}

impl<T: Send + Sync + 'static> Drop for Slot<T> {
    fn drop(&mut self) {
        let Some(content) = self.content.get_mut().take() else { return };
        if !self.process.is_current() {
            // The threads that closing waits for are not in this process, and the files are the parent's.
            std::mem::forget(content);
        } else if comparator::is_running() {
            // The garbage collector came by while the store waits for the comparator: closing would wait for itself.
            std::thread::spawn(move || drop(content));
        } else {
            // Closing may take its time, and comparators need the interpreter meanwhile.
            Python::try_attach(|py| py.detach(move || drop(content)));
        }
    }
}
