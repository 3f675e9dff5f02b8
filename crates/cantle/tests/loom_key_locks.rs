//! Locks of keys (`mvcc/key_locks.rs`) in every interleaving: a writer of the same key, or of a
//! range, waits, and there is no deadlock.
//!
//! The wrong twins take stripes in the order of the given keys, and for a range take only the first
//! stripe.
#![expect(unreachable_pub, reason = "the modules under test serve a library, not this crate")]

#[path = "../src/mvcc/key_locks.rs"]
mod key_locks;

/// Each key's first byte is its stripe.
mod filter {
    pub mod bloom {
        pub fn hash(key: &[u8]) -> u64 {
            u64::from(key[0]) << 32
        }
    }
}

mod types {
    pub mod order {
        pub struct KeyOrder;

        impl KeyOrder {
            pub fn hashable(&self) -> bool {
                true
            }
        }
    }
}

#[path = "models/loom_mutex.rs"]
mod loom_mutex;
/// Loom's version of the items of `cantle::sync` that the module under test uses.
mod sync {
    pub use loom::sync::MutexGuard;

    pub use crate::loom_mutex::Mutex;

    /// No wait is measured.
    pub mod waits {
        use super::{Mutex, MutexGuard};

        pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
            mutex.lock()
        }
    }
}

use key_locks::KeyLocks;
use loom::cell::UnsafeCell;
use loom::thread::spawn;
use std::sync::Arc;
use types::order::KeyOrder;

const STRIPES: usize = 3;

/// Runs `write` while keys are locked; no keys mean a range.
trait Held: Send + Sync + 'static {
    fn new() -> Self;
    fn with(&self, keys: &[u8], write: &mut dyn FnMut());
}

impl Held for KeyLocks {
    fn new() -> Self {
        Self::with_stripes(STRIPES)
    }

    fn with(&self, keys: &[u8], write: &mut dyn FnMut()) {
        let _held = match keys {
            [] => self.lock_all(),
            keys => self.lock(&KeyOrder, keys.iter().map(std::slice::from_ref)),
        };
        write();
    }
}

/// Takes stripes in the given order.
struct AsGiven([sync::Mutex<()>; STRIPES]);

impl Held for AsGiven {
    fn new() -> Self {
        Self(std::array::from_fn(|_| sync::Mutex::new(())))
    }

    fn with(&self, keys: &[u8], write: &mut dyn FnMut()) {
        let _held: Vec<_> = keys.iter().map(|&key| self.0[usize::from(key) % STRIPES].lock()).collect();
        write();
    }
}

/// A range takes only the first stripe.
struct RangeOfOne(AsGiven);

impl Held for RangeOfOne {
    fn new() -> Self {
        Self(AsGiven::new())
    }

    fn with(&self, keys: &[u8], write: &mut dyn FnMut()) {
        self.0.with(if keys.is_empty() { &[0] } else { keys }, write);
    }
}

/// Each thread writes the values of its keys, or all values. Loom fails if two threads write one at
/// the same time.
struct Values([UnsafeCell<u64>; STRIPES]);

// SAFETY: loom reports an access that is not exclusive, which is the purpose of the model.
#[expect(unsafe_code, reason = "a cell that loom watches")]
unsafe impl Sync for Values {}
// SAFETY: as above.
#[expect(unsafe_code, reason = "a cell that loom watches")]
unsafe impl Send for Values {}

fn writes<L: Held>(writers: &'static [&'static [u8]]) {
    let (locks, values) = (Arc::new(L::new()), Arc::new(Values(std::array::from_fn(|_| UnsafeCell::new(0)))));
    let write = move |keys: &'static [u8]| {
        let mut write = || {
            for number in (0..STRIPES).filter(|&number| keys.is_empty() || keys.contains(&(number as u8))) {
                // SAFETY: the pointer is that of a live cell; loom checks that no other thread
                // accesses it.
                #[expect(unsafe_code, reason = "a cell that loom watches")]
                values.0[number].with_mut(|value| unsafe { *value += 1 });
            }
        };
        locks.with(keys, &mut write);
    };
    let threads: Vec<_> = writers
        .iter()
        .map(|&keys| {
            let write = write.clone();
            spawn(move || write(keys))
        })
        .collect();
    threads.into_iter().for_each(|thread| {
        let _ = thread.join();
    });
}

#[test]
fn writes_of_the_same_keys_exclude_each_other_whatever_order_they_are_given_in() {
    loom::model(|| writes::<KeyLocks>(&[&[0, 1], &[1, 0]]));
    loom::model(|| writes::<KeyLocks>(&[&[2, 0, 2], &[0], &[2]]));
}

#[test]
fn a_range_excludes_every_key() {
    loom::model(|| writes::<KeyLocks>(&[&[], &[2]]));
    loom::model(|| writes::<KeyLocks>(&[&[], &[]]));
}

#[test]
#[should_panic(expected = "deadlock")]
fn stripes_that_are_taken_as_they_come() {
    loom::model(|| writes::<AsGiven>(&[&[0, 1], &[1, 0]]));
}

#[test]
#[should_panic]
fn a_range_that_takes_one_stripe() {
    loom::model(|| writes::<RangeOfOne>(&[&[], &[2]]));
}
