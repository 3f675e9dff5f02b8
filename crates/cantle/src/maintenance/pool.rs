//! Threads for background work, and one that calls tickers periodically.
//!
//! ```text
//!   class          taken by
//!   checkpoint     cantle-checkpoint
//!   seal           cantle-seal, and before all else cantle-work-*
//!   level 0        cantle-work-*
//!   deep           cantle-work-*
//!   asked          cantle-work-*
//! ```
//!
//! A seal makes room for writers, so it has a thread of its own. A seal thus waits only for other
//! seals, even if the only worker of a machine of two cores is in a merge of seconds. No class
//! starves ([`Lanes`]).
//!
//! Stores share a pool, and the disk of one store may hang. Its jobs then block their threads, but
//! must not block other stores. Once every thread has been in its job for `STUCK`, spare threads
//! run the jobs of stores that have no stuck job themselves. If a ticker does not return, another
//! thread takes over the ticking of the rest.
//!
//! Thread safety: jobs run on any worker of their class, and begin in the order of [`Lanes`]. The threads end when the
//! last handle to the pool is gone; a job that still waits then is dropped. `tests/shuttle_pool.rs` is the model.

use super::lanes::{Class, Lanes};
use crate::sync::atomic::{
    AtomicBool,
    Ordering::{AcqRel, Acquire, Release},
};
use crate::sync::std_lock::{Condvar, Mutex, MutexGuard};
use crate::sync::time::{Instant, now};
use crate::sync::{Arc, thread};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{PoisonError, Weak};
use std::time::Duration;

/// Called every `TICK`, on a thread of the pool.
pub trait Ticker: Send + Sync {
    fn tick(&self);
}

const TICK: Duration = Duration::from_millis(20);
/// A job that takes longer than this may be on a disk that hangs. Most jobs take less.
const STUCK: Duration = Duration::from_secs(1);
/// Time between two checks for stuck jobs.
const WATCH: Duration = Duration::from_millis(200);
/// Maximum number of spare threads of a crew at a time, and so of hanging disks that it can bypass.
pub const SPARES_MAX: usize = 8;

/// A handle to the threads. Cheap to clone.
#[derive(Clone)]
pub struct Pool {
    handle: Arc<Handle>,
    /// The store whose jobs are submitted through this handle.
    owner: u64,
}

/// A weak handle: the pool ends when the last [`Pool`] is dropped, even if weak handles are left.
pub struct WeakPool {
    handle: Weak<Handle>,
}

impl WeakPool {
    /// The pool, if it still exists.
    pub fn upgrade(&self) -> Option<Pool> {
        self.handle.upgrade().map(|handle| Pool { handle, owner: 0 })
    }
}

struct Handle {
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<State>,
    /// The idle workers of each crew wait here for jobs.
    work: [Condvar; CREWS.len()],
    tick: Condvar,
    watch: Condvar,
}

/// Threads that take jobs of the same classes.
struct CrewKind {
    thread: &'static str,
    spare: &'static str,
    /// The most urgent class first.
    classes: &'static [Class],
}

/// Index of the crew whose number of workers is given by the caller. The other crews have one
/// worker.
const WORKERS: usize = 0;

const CREWS: [CrewKind; 3] = [
    CrewKind {
        thread: "cantle-work",
        spare: "cantle-spare",
        classes: &[Class::Seal, Class::Level0, Class::Deep, Class::Asked],
    },
    CrewKind { thread: "cantle-seal", spare: "cantle-urgent", classes: &[Class::Seal] },
    CrewKind { thread: "cantle-checkpoint", spare: "cantle-urgent", classes: &[Class::Checkpoint] },
];

struct Job {
    owner: u64,
    run: Box<dyn FnOnce() + Send>,
}

/// A job that a worker runs.
struct Running {
    number: u64,
    owner: u64,
    class: Class,
    since: Instant,
}

impl Running {
    fn is_stuck(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.since) >= STUCK
    }
}

#[derive(Default)]
struct Crew {
    running: Vec<Running>,
    /// Permanent threads of the crew.
    workers: usize,
    /// Additional threads, which end when they find no job.
    spares: usize,
}

impl Crew {
    fn is_stuck(&self, owner: u64, now: Instant) -> bool {
        self.running.iter().any(|job| job.owner == owner && job.is_stuck(now))
    }

    /// True if all threads of the crew are stuck and another spare thread is allowed.
    fn is_held_up(&self, now: Instant) -> bool {
        self.spares < SPARES_MAX
            && self.running.len() >= self.workers + self.spares
            && self.running.iter().all(|job| job.is_stuck(now))
    }
}

/// A ticker, and a flag that is true while a thread calls it.
struct Ticked {
    ticker: Weak<dyn Ticker>,
    busy: AtomicBool,
}

/// The state of the ticking thread, until another one replaces it.
#[derive(Default)]
struct Turn {
    /// Time at which the current call of a ticker began.
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
    jobs: Lanes<Job>,
    crews: [Crew; CREWS.len()],
    /// Number of jobs that were begun.
    begun: u64,
    tickers: Vec<Arc<Ticked>>,
    turn: Arc<Turn>,
    /// Number of replaced ticking threads that are still in a ticker.
    stuck_turns: usize,
    owners: u64,
    is_watched: bool,
    ended: bool,
}

impl State {
    /// True if every thread of the crew is stuck, and a job waits whose owner has no stuck job.
    fn wants_spare(&self, crew: usize, now: Instant) -> bool {
        self.crews[crew].is_held_up(now)
            && self.jobs.has(CREWS[crew].classes, |job| !self.crews[crew].is_stuck(job.owner, now))
    }
}

/// Number of jobs of one class.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Jobs {
    /// Jobs that no worker has taken yet.
    pub waiting: usize,
    /// Jobs that workers run.
    pub running: usize,
}

impl Shared {
    /// Locks the state. A poisoned lock is used all the same: no code that could panic halfway runs
    /// under it.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pool {
    /// Starts `threads` workers, the ticking thread, and one thread each for checkpoints and seals.
    pub fn new(threads: usize) -> io::Result<Self> {
        let mut state = State::default();
        state.crews.iter_mut().for_each(|crew| crew.workers = 1);
        state.crews[WORKERS].workers = threads.max(1);
        let (turn, workers) = (state.turn.clone(), state.crews.each_ref().map(|crew| crew.workers));
        let shared = Arc::new(Shared {
            state: Mutex::new(state),
            work: CREWS.map(|_| Condvar::new()),
            tick: Condvar::new(),
            watch: Condvar::new(),
        });
        let pool = Self { handle: Arc::new(Handle { shared: shared.clone() }), owner: 0 };
        for (crew, (kind, workers)) in CREWS.iter().zip(workers).enumerate() {
            for index in 0..workers {
                let shared = shared.clone();
                let name =
                    if crew == WORKERS { format!("{}-{index}", kind.thread) } else { kind.thread.to_owned() };
                thread::spawn(&name, move || work(&shared, crew))?;
            }
        }
        thread::spawn("cantle-tick", move || tick(&shared, &turn))?;
        Ok(pool)
    }

    pub fn downgrade(&self) -> WeakPool {
        WeakPool { handle: Arc::downgrade(&self.handle) }
    }

    /// Another handle to the same threads, for one more store. Its jobs do not wait for the disks
    /// of other stores.
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

    /// Queues a background job.
    pub fn submit(&self, class: Class, job: impl FnOnce() + Send + 'static) {
        let job = Job { owner: self.owner, run: Box::new(job) };
        self.handle.shared.state().jobs.push(class, job);
        for (kind, work) in CREWS.iter().zip(&self.handle.shared.work) {
            if kind.classes.contains(&class) {
                work.notify_one();
            }
        }
    }

    /// Calls `ticker` periodically for as long as it lives.
    pub fn register(&self, ticker: Weak<dyn Ticker>) {
        let ticked = Arc::new(Ticked { ticker, busy: AtomicBool::new(false) });
        self.handle.shared.state().tickers.push(ticked);
    }

    /// Leaves the calls of the present tickers to the test. None is under way when this returns.
    #[cfg(test)]
    pub fn stop_ticking(&self) {
        let tickers = self.handle.shared.state().tickers.clone();
        for ticked in tickers {
            while ticked.busy.swap(true, AcqRel) {
                std::thread::yield_now();
            }
        }
    }

    /// Calls the tickers as soon as possible.
    pub fn wake(&self) {
        self.handle.shared.tick.notify_one();
    }

    /// Jobs of each class, in the order of [`Class::ALL`], at one moment.
    pub fn jobs(&self) -> [Jobs; Class::ALL.len()] {
        let state = self.handle.shared.state();
        Class::ALL.map(|class| {
            let running = state.crews.iter().flat_map(|crew| &crew.running);
            Jobs {
                waiting: state.jobs.waiting(class),
                running: running.filter(|job| job.class == class).count(),
            }
        })
    }

    /// Number of threads for jobs that may take seconds.
    pub fn workers(&self) -> usize {
        self.handle.shared.state().crews[WORKERS].workers
    }

    /// Jobs that no worker has taken yet.
    pub fn queued(&self) -> usize {
        self.jobs().iter().map(|jobs| jobs.waiting).sum()
    }

    /// Jobs that workers run.
    #[cfg(test)]
    pub fn running(&self) -> usize {
        self.jobs().iter().map(|jobs| jobs.running).sum()
    }

    /// Number of spare threads.
    #[cfg(test)]
    pub fn spares(&self) -> usize {
        self.handle.shared.state().crews.iter().map(|crew| crew.spares).sum()
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        let jobs = {
            let mut state = self.shared.state();
            state.ended = true;
            // Dropped outside the lock: a job may hold the last handle of something that needs it.
            state.jobs.take_all()
        };
        drop(jobs);
        self.shared.work.iter().for_each(Condvar::notify_all);
        self.shared.tick.notify_all();
        self.shared.watch.notify_all();
    }
}

/// Runs a job and catches its panic: a broken invariant in one job must not take the thread from
/// all others. The code that submits a job handles the state that a panic leaves behind.
fn survive(job: impl FnOnce()) {
    if catch_unwind(AssertUnwindSafe(job)).is_err() {
        tracing::error!("a background job panicked");
    }
}

/// Runs a job with the lock released.
fn run<'a>(
    shared: &'a Shared,
    mut state: MutexGuard<'a, State>,
    crew: usize,
    (class, job): (Class, Job),
) -> MutexGuard<'a, State> {
    state.begun += 1;
    let number = state.begun;
    state.crews[crew].running.push(Running { number, owner: job.owner, class, since: now() });
    drop(state);
    survive(job.run);
    state = shared.state();
    state.crews[crew].running.retain(|job| job.number != number);
    state
}

fn work(shared: &Shared, crew: usize) {
    let mut state = shared.state();
    loop {
        if let Some(job) = state.jobs.take(CREWS[crew].classes, |_| true) {
            state = run(shared, state, crew, job);
        } else if state.ended {
            return;
        } else {
            state = shared.work[crew].wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// Runs jobs of owners that have no stuck job, until none waits.
fn work_as_spare(shared: &Shared, crew: usize) {
    let mut guard = shared.state();
    loop {
        let state = &mut *guard;
        let (now, held_up) = (now(), &state.crews[crew]);
        match state.jobs.take(CREWS[crew].classes, |job| !held_up.is_stuck(job.owner, now)) {
            Some(job) => guard = run(shared, guard, crew, job),
            None => {
                state.crews[crew].spares -= 1;
                return;
            }
        }
    }
}

/// Starts spare threads in place of stuck ones, and another ticking thread if the present one is
/// stuck.
fn watch(shared: &Arc<Shared>) {
    let mut state = shared.state();
    while !state.ended {
        state = shared.watch.wait_timeout(state, WATCH).unwrap_or_else(PoisonError::into_inner).0;
        for (crew, kind) in CREWS.iter().enumerate() {
            if state.wants_spare(crew, now()) {
                state.crews[crew].spares += 1;
                let spare = shared.clone();
                if let Err(error) = thread::spawn(kind.spare, move || work_as_spare(&spare, crew)) {
                    tracing::warn!(%error, "cannot start a spare thread");
                    state.crews[crew].spares -= 1;
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
                // Dropped while the ticker counts as busy: dropping it may take long as well.
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
