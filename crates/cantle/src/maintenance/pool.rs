//! Threads for rebalances, one for what must not wait behind them, and one for what is due from time to time.
//!
//! Stores share a pool, and the disk of one of them may hang. Then its jobs hold their threads for as long, but not those of other
//! stores: once every thread has been at its job for `STUCK`, spare threads do the jobs of stores that have none under way for as long,
//! and a ticker that does not return is left to its thread, while another one ticks the rest.
//!
//! Thread safety: jobs run on any worker, in the order in which they were submitted. The threads end when the
//! last handle to the pool is gone; a job that still waits then is dropped.
//!
//! The threads sleep in locks of the standard library, not those of `parking_lot` as all others do: that keeps its sleepers in one list
//! for the process, in memory of the threads themselves. A forked child has the list but not the threads, and gives their memory to
//! its own: a store that it opens would follow pointers into that. Nobody else sleeps for as long as a store is not in use.

use crate::sync::atomic::{
    AtomicBool,
    Ordering::{AcqRel, Acquire, Release},
};
use crate::sync::time::{Instant, now};
use crate::sync::{Arc, thread};
use std::collections::VecDeque;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

/// Called every `TICK`, on a thread of its own.
pub trait Ticker: Send + Sync {
    fn tick(&self);
}

const TICK: Duration = Duration::from_millis(20);
/// A job that takes longer may be one whose disk hangs. Most take less.
const STUCK: Duration = Duration::from_secs(1);
/// The time between two looks for such jobs.
const WATCH: Duration = Duration::from_millis(200);
/// The most spare threads of each kind at once: as many disks may hang.
const SPARES_MAX: usize = 8;

/// A handle to the threads. Cheap to clone.
#[derive(Clone)]
pub struct Pool {
    handle: Arc<Handle>,
    /// Whose jobs are submitted by this.
    owner: u64,
}

/// A pool that ends when the last [`Pool`] is gone, whoever has this.
pub struct WeakPool {
    handle: Weak<Handle>,
}

impl WeakPool {
    /// The pool, if it is still there.
    pub fn upgrade(&self) -> Option<Pool> {
        self.handle.upgrade().map(|handle| Pool { handle, owner: 0 })
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
    watch: Condvar,
}

struct Job {
    owner: u64,
    run: Box<dyn FnOnce() + Send>,
}

/// A job that a worker is at.
struct Running {
    number: u64,
    owner: u64,
    since: Instant,
}

impl Running {
    fn is_stuck(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.since) >= STUCK
    }
}

/// Jobs of one kind, and their threads.
#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    running: Vec<Running>,
    begun: u64,
    /// Threads that wait for jobs.
    workers: usize,
    /// Threads beside them, which end when they find no job.
    spares: usize,
}

impl Queue {
    fn is_stuck(&self, owner: u64, now: Instant) -> bool {
        self.running.iter().any(|job| job.owner == owner && job.is_stuck(now))
    }

    /// The first job of an owner that has none under way for too long.
    fn for_spare(&self, now: Instant) -> Option<usize> {
        self.jobs.iter().position(|job| !self.is_stuck(job.owner, now))
    }

    /// True if such a job waits, and every thread that could do it is held up.
    fn wants_spare(&self, now: Instant) -> bool {
        self.spares < SPARES_MAX
            && self.running.len() >= self.workers + self.spares
            && self.running.iter().all(|job| job.is_stuck(now))
            && self.for_spare(now).is_some()
    }

    fn begin(&mut self, owner: u64) -> u64 {
        self.begun += 1;
        self.running.push(Running { number: self.begun, owner, since: now() });
        self.begun
    }

    fn end(&mut self, number: u64) {
        self.running.retain(|job| job.number != number);
    }
}

/// A ticker, and whether a thread is at it.
struct Ticked {
    ticker: Weak<dyn Ticker>,
    busy: AtomicBool,
}

/// The thread that ticks, until another one takes its place.
#[derive(Default)]
struct Turn {
    /// Since when it is at one ticker.
    since: Mutex<Option<Instant>>,
    is_over: AtomicBool,
}

impl Turn {
    fn since(&self) -> MutexGuard<'_, Option<Instant>> {
        self.since.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Default)]
struct State {
    ordinary: Queue,
    urgent: Queue,
    tickers: Vec<Arc<Ticked>>,
    turn: Arc<Turn>,
    /// Threads that had their turn and are still at a ticker.
    stuck_turns: usize,
    owners: u64,
    is_watched: bool,
    ended: bool,
}

/// One of the two queues.
type Which = fn(&mut State) -> &mut Queue;

impl Shared {
    /// Nothing that could panic halfway is done under the lock.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pool {
    /// Starts `threads` workers and the ticking thread.
    pub fn new(threads: usize) -> io::Result<Self> {
        let threads = threads.max(1);
        let mut state = State::default();
        state.ordinary.workers = threads;
        state.urgent.workers = 1;
        let turn = state.turn.clone();
        let shared = Arc::new(Shared {
            state: Mutex::new(state),
            work: Condvar::new(),
            urgent: Condvar::new(),
            tick: Condvar::new(),
            watch: Condvar::new(),
        });
        let pool = Self { handle: Arc::new(Handle { shared: shared.clone() }), owner: 0 };
        for index in 0..threads {
            let shared = shared.clone();
            thread::spawn(&format!("cantle-work-{index}"), move || {
                work(&shared, &shared.work, |state| &mut state.ordinary)
            })?;
        }
        let urgent = shared.clone();
        thread::spawn("cantle-checkpoint", move || work(&urgent, &urgent.urgent, |state| &mut state.urgent))?;
        thread::spawn("cantle-tick", move || tick(&shared, &turn))?;
        Ok(pool)
    }

    pub fn downgrade(&self) -> WeakPool {
        WeakPool { handle: Arc::downgrade(&self.handle) }
    }

    /// The same threads for one more store, which is not to wait for the disks of others.
    pub fn for_owner(&self) -> Self {
        let shared = &self.handle.shared;
        let (owner, starts_watch) = {
            let mut state = shared.state();
            state.owners += 1;
            let starts_watch = state.owners > 1 && !state.is_watched;
            state.is_watched |= starts_watch;
            (state.owners, starts_watch)
        };
        if starts_watch {
            let watched = shared.clone();
            if let Err(error) = thread::spawn("cantle-watch", move || watch(&watched)) {
                tracing::warn!(%error, "stores may have to wait for the disks of others");
                shared.state().is_watched = false;
            }
        }
        Self { handle: self.handle.clone(), owner }
    }

    pub fn submit(&self, job: impl FnOnce() + Send + 'static) {
        self.push(|state| &mut state.ordinary, Box::new(job));
        self.handle.shared.work.notify_one();
    }

    /// For what must not wait behind rebalances: a checkpoint, as they may wait for it, and what is done in milliseconds.
    pub fn submit_urgent(&self, job: impl FnOnce() + Send + 'static) {
        self.push(|state| &mut state.urgent, Box::new(job));
        self.handle.shared.urgent.notify_one();
    }

    fn push(&self, which: Which, run: Box<dyn FnOnce() + Send>) {
        which(&mut self.handle.shared.state()).jobs.push_back(Job { owner: self.owner, run });
    }

    /// Ticks `ticker` for as long as it lives.
    pub fn register(&self, ticker: Weak<dyn Ticker>) {
        let ticked = Arc::new(Ticked { ticker, busy: AtomicBool::new(false) });
        self.handle.shared.state().tickers.push(ticked);
    }

    /// Ticks as soon as may be.
    pub fn wake(&self) {
        self.handle.shared.tick.notify_one();
    }

    /// Jobs that no worker has taken yet.
    pub fn queued(&self) -> usize {
        let state = self.handle.shared.state();
        state.ordinary.jobs.len() + state.urgent.jobs.len()
    }

    /// Jobs that workers are at.
    pub fn running(&self) -> usize {
        let state = self.handle.shared.state();
        state.ordinary.running.len() + state.urgent.running.len()
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        let jobs = {
            let mut state = self.shared.state();
            state.ended = true;
            // Dropped outside the lock: a job may hold the last handle of something that needs it.
            (std::mem::take(&mut state.ordinary.jobs), std::mem::take(&mut state.urgent.jobs))
        };
        drop(jobs);
        self.shared.work.notify_all();
        self.shared.urgent.notify_all();
        self.shared.tick.notify_all();
        self.shared.watch.notify_all();
    }
}

/// A broken invariant in one job must not take the thread from all others. Who submits a job sees to what the job
/// leaves behind.
fn survive(job: impl FnOnce()) {
    if catch_unwind(AssertUnwindSafe(job)).is_err() {
        tracing::error!("a background job panicked");
    }
}

/// Does a job with the lock released.
fn run<'a>(
    shared: &'a Shared,
    mut state: MutexGuard<'a, State>,
    which: Which,
    job: Job,
) -> MutexGuard<'a, State> {
    let number = which(&mut state).begin(job.owner);
    drop(state);
    survive(job.run);
    state = shared.state();
    which(&mut state).end(number);
    state
}

fn work(shared: &Shared, wake: &Condvar, which: Which) {
    let mut state = shared.state();
    loop {
        if let Some(job) = which(&mut state).jobs.pop_front() {
            state = run(shared, state, which, job);
        } else if state.ended {
            return;
        } else {
            state = wake.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// Does jobs of owners that are not held up, until none waits.
fn work_as_spare(shared: &Shared, which: Which) {
    let mut state = shared.state();
    loop {
        let queue = which(&mut state);
        let next = queue.for_spare(now());
        match next.and_then(|at| queue.jobs.remove(at)) {
            Some(job) => state = run(shared, state, which, job),
            None => {
                queue.spares -= 1;
                return;
            }
        }
    }
}

/// Starts threads in the place of those that are held up.
fn watch(shared: &Arc<Shared>) {
    const QUEUES: [(&str, Which); 2] =
        [("cantle-spare", |state| &mut state.ordinary), ("cantle-urgent", |state| &mut state.urgent)];
    let mut state = shared.state();
    while !state.ended {
        state = shared.watch.wait_timeout(state, WATCH).unwrap_or_else(PoisonError::into_inner).0;
        for (name, which) in QUEUES {
            let queue = which(&mut state);
            if queue.wants_spare(now()) {
                queue.spares += 1;
                let spare = shared.clone();
                if let Err(error) = thread::spawn(name, move || work_as_spare(&spare, which)) {
                    tracing::warn!(%error, "cannot start a spare thread");
                    which(&mut state).spares -= 1;
                }
            }
        }
        let is_stuck =
            state.turn.since().is_some_and(|since| now().saturating_duration_since(since) >= STUCK);
        if is_stuck && state.stuck_turns < SPARES_MAX {
            let next = Arc::new(Turn::default());
            let (ticking, turn) = (shared.clone(), next.clone());
            match thread::spawn("cantle-tick", move || tick(&ticking, &turn)) {
                Ok(_) => {
                    std::mem::replace(&mut state.turn, next).is_over.store(true, Release);
                    state.stuck_turns += 1;
                }
                Err(error) => tracing::warn!(%error, "cannot start another ticking thread"),
            }
        }
    }
}

fn tick(shared: &Shared, turn: &Turn) {
    let mut state = shared.state();
    while !state.ended && !turn.is_over.load(Acquire) {
        state = shared.tick.wait_timeout(state, TICK).unwrap_or_else(PoisonError::into_inner).0;
        state.tickers.retain(|ticked| ticked.ticker.strong_count() > 0);
        let tickers = state.tickers.clone();
        drop(state);
        for ticked in tickers {
            if turn.is_over.load(Acquire) {
                break;
            }
            if let Some(ticker) = ticked.ticker.upgrade()
                && !ticked.busy.swap(true, AcqRel)
            {
                *turn.since() = Some(now());
                survive(|| ticker.tick());
                // Dropped while it counts as busy: that may take as long.
                drop(ticker);
                *turn.since() = None;
                ticked.busy.store(false, Release);
            }
        }
        state = shared.state();
    }
    if turn.is_over.load(Acquire) {
        state.stuck_turns -= 1;
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

    /// Owners of one pool, the jobs and ticks of the first of which never end before the returned end is dropped.
    fn held_up(pool: &Pool) -> (Pool, std::sync::mpsc::Sender<()>) {
        struct Stuck(Mutex<std::sync::mpsc::Receiver<()>>);
        impl Ticker for Stuck {
            fn tick(&self) {
                let _ = self.0.lock().unwrap().recv();
            }
        }
        let (end, ended) = channel::<()>();
        let stuck: Arc<dyn Ticker> = Arc::new(Stuck(Mutex::new(ended)));
        let (owner, other) = (pool.for_owner(), pool.for_owner());
        owner.register(Arc::downgrade(&stuck));
        // More than there will ever be threads.
        for _ in 0..3 * SPARES_MAX {
            let [one, another] = [stuck.clone(), stuck.clone()];
            owner.submit(move || one.tick());
            owner.submit_urgent(move || another.tick());
        }
        (other, end)
    }

    #[test]
    fn who_is_held_up_by_his_disk_holds_up_nobody_else() {
        struct Counted(std::sync::mpsc::Sender<&'static str>);
        impl Ticker for Counted {
            fn tick(&self) {
                let _ = self.0.send("tick");
            }
        }
        let pool = Pool::new(2).unwrap();
        let (other, end) = held_up(&pool);
        let (done, waiting) = channel();
        for round in 0..3 {
            let [one, another] = [done.clone(), done.clone()];
            other.submit(move || one.send("ordinary").unwrap());
            assert_eq!(waiting.recv_timeout(Duration::from_secs(60)), Ok("ordinary"), "round {round}");
            other.submit_urgent(move || another.send("urgent").unwrap());
            assert_eq!(waiting.recv_timeout(Duration::from_secs(60)), Ok("urgent"), "round {round}");
        }
        let counted: Arc<dyn Ticker> = Arc::new(Counted(done));
        other.register(Arc::downgrade(&counted));
        (0..3).for_each(|_| assert_eq!(waiting.recv_timeout(Duration::from_secs(60)), Ok("tick")));
        // The jobs of the first are its own: no spare thread was lost to them.
        let spares = |state: &State| state.ordinary.spares + state.urgent.spares;
        assert!(spares(&pool.handle.shared.state()) <= 2);
        drop(end);
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
