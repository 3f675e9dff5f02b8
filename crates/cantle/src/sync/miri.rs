//! Locks under Miri, which does not support the system call with which the locks of `parking_lot`
//! sleep. A thread that finds a lock taken yields and tries again.

use crate::sync::thread::yield_now;
use std::ops::Deref;

#[derive(Debug, Default)]
pub struct Mutex<T>(parking_lot::Mutex<T>);

#[derive(Debug, Default)]
pub struct RwLock<T>(parking_lot::RwLock<T>);

impl<T> Mutex<T> {
    pub const fn new(value: T) -> Self {
        Self(parking_lot::Mutex::new(value))
    }

    pub fn lock(&self) -> parking_lot::MutexGuard<'_, T> {
        until(|| self.0.try_lock())
    }
}

impl<T> RwLock<T> {
    pub const fn new(value: T) -> Self {
        Self(parking_lot::RwLock::new(value))
    }

    pub fn read(&self) -> parking_lot::RwLockReadGuard<'_, T> {
        until(|| self.0.try_read())
    }

    pub fn write(&self) -> parking_lot::RwLockWriteGuard<'_, T> {
        until(|| self.0.try_write())
    }
}

impl<T> Deref for Mutex<T> {
    type Target = parking_lot::Mutex<T>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl<T> Deref for RwLock<T> {
    type Target = parking_lot::RwLock<T>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

fn until<G>(mut attempt: impl FnMut() -> Option<G>) -> G {
    loop {
        if let Some(guard) = attempt() {
            return guard;
        }
        yield_now();
    }
}
