//! The state that all objects of one open store share.

use crate::comparator;
use crate::errors;
use crate::slot::{Failure, Release, Slot};
use cantle_bindings::Process;
use once_cell::race::OnceBox;
use parking_lot::Mutex;
use pyo3::prelude::*;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Weak};

/// Stores of one process that may be open. They are closed before the interpreter ends.
///
/// At a fork another thread may hold the lock, and the child has no thread that would release it.
/// Each process therefore has a list of its own. It is found without a lock: the list of a child is
/// linked to the list of its parent.
struct Registry {
    process: Process,
    /// Held for moments; its holder never waits.
    stores: Mutex<Vec<Weak<Store>>>,
    child: OnceBox<Registry>,
}

static REGISTRIES: OnceBox<Registry> = OnceBox::new();

impl Registry {
    /// The registry of this process.
    fn current() -> &'static Self {
        let mut place = &REGISTRIES;
        loop {
            let registry = place.get_or_init(|| {
                Box::new(Self {
                    process: Process::current(),
                    stores: Mutex::default(),
                    child: OnceBox::new(),
                })
            });
            if registry.process.is_current() {
                return registry;
            }
            place = &registry.child;
        }
    }
}

pub struct Store {
    pub path: PathBuf,
    /// True if Python functions compare keys.
    pub has_comparators: bool,
    db: Slot<cantle::Db>,
    process: Process,
    is_closed: AtomicBool,
    children: Mutex<Children>,
}

/// The slots of a store's objects.
#[derive(Default)]
struct Children {
    next: u64,
    slots: HashMap<u64, Weak<dyn Release>>,
}

impl Store {
    pub fn new(db: cantle::Db, has_comparators: bool) -> Arc<Self> {
        let store = Arc::new(Self {
            path: db.path().to_path_buf(),
            has_comparators,
            db: Slot::new(db),
            process: Process::current(),
            is_closed: AtomicBool::new(false),
            children: Mutex::default(),
        });
        let mut stores = Registry::current().stores.lock();
        stores.retain(|store| store.strong_count() > 0);
        stores.push(Arc::downgrade(&store));
        store
    }

    pub fn is_closed(&self) -> bool {
        self.is_closed.load(Relaxed)
    }

    /// True in a process that was forked from the one that opened the store.
    pub fn is_forked(&self) -> bool {
        !self.process.is_current()
    }

    /// Fails if the store cannot be used now: it is closed, the process was forked, or a comparator
    /// runs.
    #[inline]
    pub fn check(&self) -> PyResult<()> {
        if self.is_forked() {
            return Err(errors::forked(&self.path));
        }
        // The operation that waits for the comparator may hold locks that this operation would wait
        // for.
        if self.has_comparators && comparator::is_running() {
            return Err(errors::invalid(
                "a comparator cannot use a store that has comparators: it may wait for this one",
            ));
        }
        if self.is_closed() { Err(errors::closed("store")) } else { Ok(()) }
    }

    /// Runs an operation of the store itself.
    pub fn with<R: Send>(
        &self,
        py: Python<'_>,
        run: impl FnOnce(&cantle::Db) -> cantle::Result<R> + Send,
    ) -> PyResult<R> {
        self.check()?;
        let _scope = comparator::Scope::enter(self.has_comparators);
        let done = self.db.with(py, |db| Ok(run(db)?));
        self.finish(py, "store", done)
    }

    /// Closes the store and releases the content of all its objects. A second call does nothing.
    pub fn close(&self, py: Python<'_>) -> PyResult<()> {
        if self.is_forked() {
            return Err(errors::forked(&self.path));
        }
        if comparator::is_running() {
            return Err(errors::invalid("a comparator cannot close the store that waits for it"));
        }
        let done = py.detach(|| {
            // Operations of other threads fail soon after this.
            let done = self.db.with_detached(|db| Ok(db.close())).unwrap_or(Ok(()));
            self.is_closed.store(true, Relaxed);
            self.db.release();
            // Repeated, since an operation that was still running may have made a new object.
            loop {
                let slots: Vec<_> = self.children.lock().slots.drain().map(|(_, slot)| slot).collect();
                if slots.is_empty() {
                    return done;
                }
                slots.iter().filter_map(Weak::upgrade).for_each(|slot| slot.release());
            }
        });
        match done {
            Err(cantle::Error::Closed) => Ok(()),
            done => done.map_err(|error| errors::raise(py, &error)),
        }
    }

    /// Converts the result of an operation for Python. `what` names the object in the message of
    /// `ClosedError`.
    #[inline]
    pub fn finish<R>(&self, py: Python<'_>, what: &'static str, done: Result<R, Failure>) -> PyResult<R> {
        if self.has_comparators
            && let Some(raised) = comparator::take_raised()
        {
            return Err(raised);
        }
        done.map_err(|failure| match failure {
            Failure::Empty if self.is_closed() => errors::closed("store"),
            Failure::Empty => errors::closed(what),
            Failure::Cantle(error) => errors::raise(py, &error),
        })
    }
}

/// Closes all stores that this process has open. `atexit` calls it, while threads can still run
/// Python.
#[pyfunction]
pub fn close_all(py: Python<'_>) {
    let stores: Vec<_> =
        Registry::current().stores.lock().drain(..).filter_map(|store| store.upgrade()).collect();
    for store in stores.iter().filter(|store| store.process.is_current()) {
        if let Err(error) = store.close(py) {
            error.write_unraisable(py, None);
        }
    }
}

/// A part of a store that a Python object holds until the object releases it or the store is
/// closed.
pub struct Part<T: Send + Sync + 'static> {
    pub store: Arc<Store>,
    what: &'static str,
    slot: Arc<Slot<T>>,
    number: u64,
}

impl<T: Send + Sync + 'static> Part<T> {
    /// The caller is within the operation that made the content.
    pub fn new(store: &Arc<Store>, what: &'static str, content: T) -> Self {
        let slot = Arc::new(Slot::new(content));
        let mut children = store.children.lock();
        let number = children.next;
        children.next += 1;
        let weak: Weak<dyn Release> = Arc::downgrade(&slot) as Weak<dyn Release>;
        children.slots.insert(number, weak);
        drop(children);
        Self { store: store.clone(), what, slot, number }
    }

    /// Runs an operation, detached from the interpreter.
    #[inline]
    pub fn with<R: Send>(
        &self,
        py: Python<'_>,
        run: impl FnOnce(&T) -> cantle::Result<R> + Send,
    ) -> PyResult<R> {
        self.store.check()?;
        let _scope = comparator::Scope::enter(self.store.has_comparators);
        let done = self.slot.with(py, |content| Ok(run(content)?));
        self.store.finish(py, self.what, done)
    }

    /// Runs an operation that also needs a keyspace.
    pub fn with_in<R: Send>(
        &self,
        py: Python<'_>,
        keyspace: &Part<cantle::Keyspace>,
        run: impl FnOnce(&T, &cantle::Keyspace) -> cantle::Result<R> + Send,
    ) -> PyResult<R> {
        self.store.check()?;
        keyspace.store.check()?;
        let _scope = comparator::Scope::enter(self.store.has_comparators);
        let done =
            self.slot.with(py, |content| keyspace.slot.with_detached(|keyspace| Ok(run(content, keyspace)?)));
        self.store.finish(py, self.what, done)
    }

    /// Runs `read`, which must be short and must not wait.
    pub fn peek<R>(&self, read: impl FnOnce(&T) -> R) -> PyResult<R> {
        self.store.check()?;
        self.slot.peek(read).ok_or_else(|| errors::closed(self.what))
    }

    /// Runs an operation that consumes the content.
    pub fn consume<R: Send>(
        &self,
        py: Python<'_>,
        run: impl FnOnce(T) -> cantle::Result<R> + Send,
    ) -> PyResult<R> {
        self.store.check()?;
        let _scope = comparator::Scope::enter(self.store.has_comparators);
        let done = py.detach(|| self.slot.consume(|content| Ok(run(content)?)));
        self.store.finish(py, self.what, done)
    }

    /// Releases the content, if there is any.
    pub fn release(&self, py: Python<'_>) {
        if !self.store.process.is_current() {
            return;
        }
        let slot = self.slot.clone();
        if comparator::is_running() {
            // As in `drop`. Later operations of the comparator's thread find the slot closed.
            slot.close();
            std::thread::spawn(move || slot.release());
        } else {
            py.detach(|| slot.release());
        }
    }

    /// True if the content was released or the store closed.
    pub fn is_released(&self) -> bool {
        self.store.is_closed() || self.slot.peek(|_| ()).is_none()
    }
}

impl<T: Send + Sync + 'static> Drop for Part<T> {
    fn drop(&mut self) {
        // In a forked child, locks may be held by threads that it does not have. The slot handles
        // its content.
        if !self.store.process.is_current() {
            return;
        }
        let (store, slot, number) = (self.store.clone(), self.slot.clone(), self.number);
        // The slot stays in the store's list until it is empty, so that closing the store finds it.
        let forget = move || {
            slot.release();
            store.children.lock().slots.remove(&number);
        };
        if self.slot.is_empty() {
            self.store.children.lock().slots.remove(&self.number);
        } else if comparator::is_running() {
            // The garbage collector ran while the store waits for the comparator. Releasing here
            // could wait for this very thread.
            std::thread::spawn(forget);
        } else {
            Python::try_attach(|py| py.detach(forget));
        }
    }
}
