//! Closing and the calls that it waits for (`maintenance/calls.rs`) in every interleaving and under
//! the weak memory model of loom, with at most the stated number of preemptions: no call is running
//! once closing has returned, and closing returns.
//!
//! Loom implements sequential consistency of fences only, so each operation that needs it is
//! between two of them here.
//!
//! The wrong twins check the door before they are counted, and notify the waiting thread without
//! the lock under which it checks.
#![expect(unreachable_pub, reason = "the module under test serves a library, not this crate")]

#[path = "../src/maintenance/calls.rs"]
mod calls;

/// Loom's version of the items of `cantle::sync` that the module under test uses.
mod sync {
    pub mod atomic {
        pub use loom::sync::atomic::Ordering;
        use loom::sync::atomic::fence;

        fn ordered<T>(ordering: Ordering, act: impl FnOnce() -> T) -> T {
            assert_eq!(ordering, Ordering::SeqCst, "the model knows no other");
            fence(Ordering::SeqCst);
            let done = act();
            fence(Ordering::SeqCst);
            done
        }

        #[derive(Debug, Default)]
        pub struct AtomicUsize(loom::sync::atomic::AtomicUsize);

        impl AtomicUsize {
            pub fn load(&self, ordering: Ordering) -> usize {
                ordered(ordering, || self.0.load(Ordering::Acquire))
            }

            pub fn fetch_add(&self, value: usize, ordering: Ordering) -> usize {
                ordered(ordering, || self.0.fetch_add(value, Ordering::AcqRel))
            }

            pub fn fetch_sub(&self, value: usize, ordering: Ordering) -> usize {
                ordered(ordering, || self.0.fetch_sub(value, Ordering::AcqRel))
            }
        }

        #[derive(Debug, Default)]
        pub struct AtomicBool(loom::sync::atomic::AtomicBool);

        impl AtomicBool {
            pub fn load(&self, ordering: Ordering) -> bool {
                ordered(ordering, || self.0.load(Ordering::Acquire))
            }

            pub fn store(&self, value: bool, ordering: Ordering) {
                ordered(ordering, || self.0.store(value, Ordering::Release));
            }
        }
    }

    pub mod counter {
        loom::thread_local! {
            pub static CELL: std::cell::Cell<usize> = std::cell::Cell::new(0);
        }

        pub fn cell_of_thread() -> usize {
            CELL.with(std::cell::Cell::get)
        }
    }

    #[derive(Default)]
    pub struct Mutex<T>(loom::sync::Mutex<T>);

    /// `None` only while its owner waits.
    pub struct MutexGuard<'a, T>(Option<loom::sync::MutexGuard<'a, T>>);

    impl<T> Mutex<T> {
        pub fn lock(&self) -> MutexGuard<'_, T> {
            MutexGuard(Some(self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())))
        }
    }

    #[derive(Default)]
    pub struct Condvar(loom::sync::Condvar);

    impl Condvar {
        pub fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
            let waited = guard.0.take().map(|guard| self.0.wait(guard));
            guard.0 = waited.map(|guard| guard.unwrap_or_else(|poisoned| poisoned.into_inner()));
        }

        pub fn notify_all(&self) {
            self.0.notify_all();
        }
    }
}

use loom::thread::{spawn, yield_now};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use sync::atomic::Ordering::SeqCst;

/// A way to count calls, and to wait for them.
trait Door: Default + Send + Sync + 'static {
    /// Runs `act` if the door is open; returns false if it is closed.
    fn call(&self, act: impl FnOnce()) -> bool;
    fn close(&self);
}

impl Door for calls::Calls {
    fn call(&self, act: impl FnOnce()) -> bool {
        let call = self.begin();
        if call.is_some() {
            act();
        }
        call.is_some()
    }

    fn close(&self) {
        Self::close(self);
    }
}

/// A door with one cell, and an error.
#[derive(Default)]
struct Wrong<const COUNTS_FIRST: bool, const LOCKS: bool> {
    calls: sync::atomic::AtomicUsize,
    closed: sync::atomic::AtomicBool,
    waiting: sync::Mutex<()>,
    over: sync::Condvar,
}

impl<const COUNTS_FIRST: bool, const LOCKS: bool> Door for Wrong<COUNTS_FIRST, LOCKS> {
    fn call(&self, act: impl FnOnce()) -> bool {
        let looked_first = !COUNTS_FIRST && self.closed.load(SeqCst);
        self.calls.fetch_add(1, SeqCst);
        let is_open = if COUNTS_FIRST { !self.closed.load(SeqCst) } else { !looked_first };
        if is_open {
            act();
        }
        self.calls.fetch_sub(1, SeqCst);
        if self.closed.load(SeqCst) {
            if LOCKS {
                drop(self.waiting.lock());
            }
            self.over.notify_all();
        }
        is_open
    }

    fn close(&self) {
        self.closed.store(true, SeqCst);
        let mut waiting = self.waiting.lock();
        while self.calls.load(SeqCst) > 0 {
            self.over.wait(&mut waiting);
        }
    }
}

/// `threads` threads call while the store is closed.
///
/// Holds: once closing has returned, no call is under way, and none begins.
fn closing<D: Door>(threads: usize) {
    let door = Arc::new(D::default());
    // Not modelled by loom: records the order of events.
    let is_closed = Arc::new(AtomicBool::new(false));
    let callers: Vec<_> = (0..threads)
        .map(|own| {
            let (door, is_closed) = (door.clone(), is_closed.clone());
            spawn(move || {
                sync::counter::CELL.with(|cell| cell.set(own));
                door.call(|| {
                    yield_now();
                    assert!(!is_closed.load(Relaxed), "a call is under way in a closed store");
                });
            })
        })
        .collect();
    door.close();
    is_closed.store(true, Relaxed);
    assert!(!door.call(|| ()), "a call began in a closed store");
    callers
        .into_iter()
        .for_each(|caller| caller.join().unwrap_or_else(|_| panic!("a thread of the model failed")));
}

fn check(preemptions: usize, program: impl Fn() + Send + Sync + 'static) {
    let schedules = Arc::new(AtomicUsize::new(0));
    let counted = schedules.clone();
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(preemptions);
    model.check(move || {
        counted.fetch_add(1, Relaxed);
        program();
    });
    let schedules = schedules.load(Relaxed);
    println!("{schedules} schedules");
    assert!(schedules >= 3, "only {schedules} schedules");
}

#[test]
fn no_call_is_under_way_once_closing_has_returned() {
    check(3, || closing::<calls::Calls>(1));
    check(2, || closing::<calls::Calls>(2));
}

#[test]
#[should_panic(expected = "a call is under way in a closed store")]
fn a_call_that_looks_at_the_door_before_it_is_counted() {
    check(3, || closing::<Wrong<false, true>>(1));
}

#[test]
#[should_panic(expected = "deadlock")]
fn a_call_that_wakes_without_the_lock() {
    check(3, || closing::<Wrong<true, false>>(1));
}
