//! Values that all stores of a process share: made by the first store that needs one, dropped with
//! the last that holds it.
//!
//! Thread safety: by atomics alone. A process may fork while another thread is in here, and a lock
//! would stay as it is in the child. The child shares nothing with its parent, whose threads it
//! does not have and whose locks may be held.

use super::Arc;
use arc_swap::ArcSwapOption;

/// One value for each process; `W` is a weak reference to it.
pub struct ProcessWide<W> {
    present: ArcSwapOption<Present<W>>,
}

struct Present<W> {
    process: u32,
    weak: W,
}

impl<W> ProcessWide<W> {
    pub const fn new() -> Self {
        Self { present: ArcSwapOption::const_empty() }
    }

    /// The value of this process: the existing one, or else a new one.
    pub fn get<T, E>(
        &self,
        upgrade: impl Fn(&W) -> Option<T>,
        downgrade: impl Fn(&T) -> W,
        make: impl Fn() -> Result<T, E>,
    ) -> Result<T, E> {
        let process = std::process::id();
        loop {
            let present = self.present.load_full();
            let ours = present.as_ref().filter(|present| present.process == process);
            if let Some(value) = ours.and_then(|present| upgrade(&present.weak)) {
                return Ok(value);
            }
            let value = make()?;
            let new = Arc::new(Present { process, weak: downgrade(&value) });
            let before = self.present.compare_and_swap(&present, Some(new));
            let is_set = match (&*before, &present) {
                (Some(before), Some(present)) => Arc::ptr_eq(before, present),
                (None, None) => true,
                _ => false,
            };
            // A thread that comes second uses the value of the first.
            if is_set {
                return Ok(value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;
    use std::sync::Weak;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    #[test]
    fn one_is_made_for_all_and_another_once_they_are_gone() {
        let made = AtomicUsize::new(0);
        let cell: ProcessWide<Weak<usize>> = ProcessWide::new();
        let get = || {
            let make = || Ok::<_, Infallible>(Arc::new(made.fetch_add(1, Relaxed)));
            cell.get(Weak::upgrade, Arc::downgrade, make).unwrap()
        };
        let first = get();
        std::thread::scope(|scope| {
            (0..4).for_each(|_| assert_eq!(scope.spawn(|| *get()).join().unwrap(), 0));
        });
        drop(first);
        assert_eq!(*get(), 1, "nobody had it");
        assert_eq!(*get(), 2, "nobody had it");
        // The state that a forked child finds.
        let parents = get();
        cell.present.store(Some(Arc::new(Present { process: 0, weak: Arc::downgrade(&parents) })));
        let own = get();
        assert!(*own != *parents && *get() == *own);
    }
}
