//! Threads for rebalances, and one for what is due from time to time.
//!
//! Thread safety: jobs run on any worker, in the order in which they were submitted. The threads end when the
//! last handle to the pool is gone; a job that still waits then is dropped.
//!
//! The threads sleep in locks of the standard library, not those of `parking_lot` as all others do: that keeps its sleepers in one list
//! for the process, in memory of the threads themselves. A forked child has the list but not the threads, and gives their memory to
//! its own: a store that it opens would follow pointers into that. Nobody else sleeps for as long as a store is not in use.

use crate::sync::{Arc, thread};
use std::collections::VecDeque;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

type Job = Box<dyn FnOnce() + Send>;

/// Called every `TICK`, on a thread of its own.
pub trait Ticker: Send + Sync {
    fn tick(&self);
}

const TICK: Duration = Duration::from_millis(20);

/// A handle to the threads. Cheap to clone.
#[derive(Clone)]
pub struct Pool {
    handle: Arc<Handle>,
}

/// A pool that ends when the last [`Pool`] is gone, whoever has this.
pub struct WeakPool {
    handle: Weak<Handle>,
}

impl WeakPool {
    /// The pool, if it is still there.
    pub fn upgrade(&self) -> Option<Pool> {
        self.handle.upgrade().map(|handle| Pool { handle })
    }
}

struct Handle {
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<State>,
    work: Condvar,
    urgent: Condvar,
    tick: Condvar,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    urgent: VecDeque<Job>,
    /// How many jobs workers are at.
    running: usize,
    tickers: Vec<Weak<dyn Ticker>>,
    ended: bool,
}

impl Shared {
    /// Nothing that could panic halfway is done under the lock.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pool {
    /// Starts `threads` workers and the ticking thread.
    pub fn new(threads: usize) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            state: Mutex::default(),
            work: Condvar::new(),
            urgent: Condvar::new(),
            tick: Condvar::new(),
        });
        let pool = Self { handle: Arc::new(Handle { shared: shared.clone() }) };
        for index in 0..threads.max(1) {
            let shared = shared.clone();
            thread::spawn(&format!("cantle-work-{index}"), move || {
                work(&shared, &shared.work, |state| &mut state.jobs)
            })?;
        }
        let urgent = shared.clone();
        thread::spawn("cantle-checkpoint", move || work(&urgent, &urgent.urgent, |state| &mut state.urgent))?;
        thread::spawn("cantle-tick", move || tick(&shared))?;
        Ok(pool)
    }

    pub fn downgrade(&self) -> WeakPool {
        WeakPool { handle: Arc::downgrade(&self.handle) }
    }

    pub fn submit(&self, job: impl FnOnce() + Send + 'static) {
        self.handle.shared.state().jobs.push_back(Box::new(job));
        self.handle.shared.work.notify_one();
    }

    /// For what must not wait behind rebalances: a checkpoint, as they may wait for it, and what is done in milliseconds.
    pub fn submit_urgent(&self, job: impl FnOnce() + Send + 'static) {
        self.handle.shared.state().urgent.push_back(Box::new(job));
        self.handle.shared.urgent.notify_one();
    }

    /// Ticks `ticker` for as long as it lives.
    pub fn register(&self, ticker: Weak<dyn Ticker>) {
        self.handle.shared.state().tickers.push(ticker);
    }

    /// Ticks as soon as may be.
    pub fn wake(&self) {
        self.handle.shared.tick.notify_one();
    }

    /// Jobs that no worker has taken yet.
    pub fn queued(&self) -> usize {
        let state = self.handle.shared.state();
        state.jobs.len() + state.urgent.len()
    }

    /// Jobs that workers are at.
    pub fn running(&self) -> usize {
        self.handle.shared.state().running
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        let jobs = {
            let mut state = self.shared.state();
            state.ended = true;
            // Dropped outside the lock: a job may hold the last handle of something that needs it.
            (std::mem::take(&mut state.jobs), std::mem::take(&mut state.urgent))
        };
        drop(jobs);
        self.shared.work.notify_all();
        self.shared.urgent.notify_all();
        self.shared.tick.notify_all();
    }
}

/// A broken invariant in one job must not take the thread from all others. Who submits a job sees to what the job
/// leaves behind.
fn survive(job: impl FnOnce()) {
    if catch_unwind(AssertUnwindSafe(job)).is_err() {
        tracing::error!("a background job panicked");
    }
}

fn work(shared: &Shared, wake: &Condvar, queue: fn(&mut State) -> &mut VecDeque<Job>) {
    let mut state = shared.state();
    loop {
        if let Some(job) = queue(&mut state).pop_front() {
            state.running += 1;
            drop(state);
            survive(job);
            state = shared.state();
            state.running -= 1;
        } else if state.ended {
            return;
        } else {
            state = wake.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

fn tick(shared: &Shared) {
    let mut state = shared.state();
    while !state.ended {
        state = shared.tick.wait_timeout(state, TICK).unwrap_or_else(PoisonError::into_inner).0;
        state.tickers.retain(|ticker| ticker.strong_count() > 0);
        let tickers = state.tickers.clone();
        drop(state);
        for ticker in tickers {
            if let Some(ticker) = ticker.upgrade() {
                survive(|| ticker.tick());
            }
        }
        state = shared.state();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    #[test]
    fn a_job_counts_until_it_is_done() {
        let pool = Pool::new(1).unwrap();
        let ((begin, begun), (end, ended)) = (channel(), channel::<()>());
        for _ in 0..2 {
            let begin = begin.clone();
            pool.submit(move || begin.send(()).unwrap());
        }
        pool.submit(move || ended.recv().unwrap());
        pool.submit(|| {});
        (0..2).for_each(|_| begun.recv().unwrap());
        while pool.queued() > 1 {
            std::thread::yield_now();
        }
        assert_eq!((pool.queued(), pool.running()), (1, 1));
        end.send(()).unwrap();
        while pool.queued() + pool.running() > 0 {
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_job_that_panics_takes_no_thread_with_it() {
        let pool = Pool::new(1).unwrap();
        let (done, waiting) = channel();
        for urgent in [false, true] {
            let done = done.clone();
            let finish = move || done.send(urgent).unwrap();
            if urgent {
                pool.submit_urgent(|| panic!("as the test wants it"));
                pool.submit_urgent(finish);
            } else {
                pool.submit(|| panic!("as the test wants it"));
                pool.submit(finish);
            }
        }
        let mut finished = [waiting.recv().unwrap(), waiting.recv().unwrap()];
        finished.sort_unstable();
        assert_eq!(finished, [false, true]);
    }
}
