//! Shuttle's version of the items of `cantle::sync` that the modules under test use. It replaces
//! that module in a test crate that includes them.

pub use shuttle::sync::{Arc, MutexGuard, RwLockReadGuard, RwLockWriteGuard, atomic};
#[allow(unused_imports, reason = "not every test crate includes who uses them")]
pub use shuttle::{hint, thread, thread_local};

/// No time passes.
pub mod time {
    use std::time::Duration;

    pub struct Instant(());

    impl Instant {
        pub fn elapsed(&self) -> Duration {
            Duration::ZERO
        }
    }

    pub fn now() -> Instant {
        Instant(())
    }
}

/// No wait is measured.
pub mod waits {
    use super::{Mutex, MutexGuard};

    pub enum Cause {
        Allocation,
        Device,
    }

    pub fn timed<T>(_: Cause, act: impl FnOnce() -> T) -> T {
        act()
    }

    pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
        mutex.lock()
    }
}

pub mod counter {
    /// The counts are not used.
    #[derive(Debug, Default)]
    pub struct Counter(());

    impl Counter {
        pub fn add(&self, _: u64) {}
    }
}

#[derive(Debug, Default)]
pub struct Mutex<T>(shuttle::sync::Mutex<T>);

impl<T> Mutex<T> {
    pub fn new(value: T) -> Self {
        Self(shuttle::sync::Mutex::new(value))
    }

    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

#[derive(Debug, Default)]
pub struct RwLock<T>(shuttle::sync::RwLock<T>);

impl<T> RwLock<T> {
    pub fn new(value: T) -> Self {
        Self(shuttle::sync::RwLock::new(value))
    }

    pub fn read(&self) -> RwLockReadGuard<'_, T> {
        self.0.read().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    pub fn write(&self) -> RwLockWriteGuard<'_, T> {
        self.0.write().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// A pointer in a lock: each load and store is one step.
pub struct ArcSwap<T>(Mutex<Arc<T>>);

impl<T> ArcSwap<T> {
    pub fn from_pointee(value: T) -> Self {
        Self(Mutex::new(Arc::new(value)))
    }

    pub fn load(&self) -> Loaded<T> {
        Loaded(self.load_full())
    }

    pub fn load_full(&self) -> Arc<T> {
        self.0.lock().clone()
    }

    pub fn store(&self, value: Arc<T>) {
        // The old value may be dropped here for the last time: concurrently with other threads, as
        // in the original.
        let before = std::mem::replace(&mut *self.0.lock(), value);
        drop(before);
    }
}

pub struct Loaded<T>(Arc<T>);

impl<T> std::ops::Deref for Loaded<T> {
    type Target = Arc<T>;
    fn deref(&self) -> &Arc<T> {
        &self.0
    }
}
