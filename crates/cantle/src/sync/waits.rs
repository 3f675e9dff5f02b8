//! Waits of writers, by their cause.
//!
//! Code that is about to wait measures the wait on its own thread ([`timed`], [`lock`]). A write
//! collects the waits of its thread ([`Watch`]), so code between the two need not pass anything on.
//! The same code in background work measures nothing: no watch runs there.
//!
//! Invariants:
//!
//! * The clock is read only on a thread with a watch, and only where a wait is about to happen: a lock
//!   is held by another thread, or a call goes to the device.
//! * A wait within another one is a part of it: a writer that creates a file waits for the creation,
//!   not for the device.
//!
//! Thread safety: all state belongs to one thread.

use super::time::{Instant, now};
use super::{Mutex, MutexGuard, thread_local};
use std::cell::Cell;
use std::marker::PhantomData;
use std::time::Duration;

/// The cause of a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// Maintenance is behind, and slows writers.
    Brake,
    /// Another thread holds a lock.
    Lock,
    /// The writer creates or extends a file, or makes room in memory.
    Allocation,
    /// The device writes or syncs.
    Device,
}

impl Cause {
    /// All causes, in the order of their numbers.
    pub const ALL: [Self; 4] = [Self::Brake, Self::Lock, Self::Allocation, Self::Device];
}

struct Waits {
    is_watched: Cell<bool>,
    is_waiting: Cell<bool>,
    /// Nanoseconds since the watch began, by the number of the cause.
    nanos: [Cell<u64>; Cause::ALL.len()],
}

thread_local! {
    static WAITS: Waits = const {
        Waits {
            is_watched: Cell::new(false),
            is_waiting: Cell::new(false),
            nanos: [const { Cell::new(0) }; Cause::ALL.len()],
        }
    };
}

/// Does something that may wait for this cause.
#[inline]
pub fn timed<T>(cause: Cause, act: impl FnOnce() -> T) -> T {
    let _wait = Wait::begin(cause);
    act()
}

/// Locks a mutex. A wait for it has the cause [`Cause::Lock`].
#[inline]
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.try_lock().unwrap_or_else(|| timed(Cause::Lock, || mutex.lock()))
}

/// The outermost wait of this thread, until it is dropped; `None` if the wait is not measured.
struct Wait(Option<(Cause, Instant)>);

impl Wait {
    fn begin(cause: Cause) -> Self {
        let is_measured = WAITS.with(|waits| waits.is_watched.get() && !waits.is_waiting.replace(true));
        let wait = Self(is_measured.then(|| (cause, now())));
        #[cfg(test)]
        test_support::begun(&wait);
        wait
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        let Some((cause, begun)) = self.0 else { return };
        let nanos = begun.elapsed().as_nanos() as u64;
        WAITS.with(|waits| {
            waits.is_waiting.set(false);
            waits.nanos[cause as usize].update(|sum| sum.saturating_add(nanos));
        });
    }
}

/// Collects the waits of its thread until it is dropped. A watch within another one collects nothing.
#[must_use]
pub struct Watch {
    is_outermost: bool,
    _belongs_to_its_thread: PhantomData<*const ()>,
}

impl Watch {
    pub fn begin() -> Self {
        let is_outermost = WAITS.with(|waits| {
            let is_outermost = !waits.is_watched.replace(true);
            if is_outermost {
                waits.nanos.iter().for_each(|nanos| nanos.set(0));
            }
            is_outermost
        });
        Self { is_outermost, _belongs_to_its_thread: PhantomData }
    }

    /// The time waited since the watch began, for each cause with any.
    pub fn waited(&self) -> impl Iterator<Item = (Cause, Duration)> + use<> {
        let nanos = match self.is_outermost {
            true => WAITS.with(|waits| waits.nanos.each_ref().map(Cell::get)),
            false => [0; Cause::ALL.len()],
        };
        let waited = Cause::ALL.into_iter().zip(nanos.map(Duration::from_nanos));
        waited.filter(|(_, waited)| !waited.is_zero())
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if self.is_outermost {
            WAITS.with(|waits| waits.is_watched.set(false));
        }
    }
}

/// A look at the waits of a thread, for tests that let a writer wait and then go on.
#[cfg(test)]
pub mod test_support {
    use super::{Cause, Wait, thread_local};
    use std::cell::RefCell;

    type Seen = Box<dyn Fn(Cause)>;

    thread_local! {
        static SEEN: RefCell<Option<Seen>> = const { RefCell::new(None) };
    }

    /// Calls `seen` when a measured wait of this thread has begun.
    pub fn on_wait(seen: impl Fn(Cause) + 'static) {
        SEEN.set(Some(Box::new(seen)));
    }

    pub(super) fn begun(wait: &Wait) {
        if let Some((cause, _)) = wait.0 {
            SEEN.with_borrow(|seen| seen.iter().for_each(|seen| seen(cause)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sync::thread::sleep;

    const WAIT: Duration = Duration::from_millis(2);

    fn wait(cause: Cause) {
        timed(cause, || sleep(WAIT));
    }

    fn causes(watch: &Watch) -> Vec<Cause> {
        watch.waited().map(|(cause, _)| cause).collect()
    }

    #[test]
    fn waits_of_one_cause_are_added_up() {
        let watch = Watch::begin();
        wait(Cause::Device);
        wait(Cause::Brake);
        wait(Cause::Device);
        assert_eq!(causes(&watch), [Cause::Brake, Cause::Device]);
        assert!(watch.waited().all(|(cause, waited)| match cause {
            Cause::Device => waited >= 2 * WAIT,
            _ => waited >= WAIT,
        }));
        drop(watch);
        assert_eq!(causes(&Watch::begin()), [], "the next watch begins at 0");
    }

    #[test]
    fn a_wait_within_another_is_a_part_of_it() {
        let watch = Watch::begin();
        timed(Cause::Allocation, || wait(Cause::Device));
        assert_eq!(causes(&watch), [Cause::Allocation]);
        wait(Cause::Device);
        assert_eq!(causes(&watch), [Cause::Allocation, Cause::Device]);
    }

    #[test]
    fn a_watch_within_another_leaves_the_waits_to_it() {
        wait(Cause::Brake);
        let watch = Watch::begin();
        let inner = Watch::begin();
        wait(Cause::Lock);
        assert_eq!(causes(&inner), []);
        drop(inner);
        wait(Cause::Device);
        assert_eq!(causes(&watch), [Cause::Lock, Cause::Device], "the brake came before the watch");
    }

    #[test]
    fn only_a_lock_that_another_thread_holds_is_waited_for() {
        let watch = Watch::begin();
        let mutex = Mutex::new(());
        drop(lock(&mutex));
        assert_eq!(causes(&watch), []);
        std::thread::scope(|scope| {
            let held = mutex.lock();
            let (arrive, arrived) = std::sync::mpsc::channel();
            let waiting = scope.spawn(|| {
                let watch = Watch::begin();
                test_support::on_wait(move |cause| arrive.send(cause).unwrap());
                drop(lock(&mutex));
                causes(&watch)
            });
            assert_eq!(arrived.recv(), Ok(Cause::Lock));
            drop(held);
            assert_eq!(waiting.join().unwrap(), [Cause::Lock]);
        });
    }
}
