//! Threads for work in the background, and one for what is due from time to time.
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
//! A seal makes room for writers. Its turn is reserved: one thread does nothing else, so that a seal waits for other seals
//! only, even where the one worker of a machine of two cores is at a merge of seconds. No class starves ([`Lanes`]).
//!
//! Stores share a pool, and the disk of one of them may hang. Then its jobs hold their threads for as long, but not those of other
//! stores: once every thread has been at its job for `STUCK`, spare threads do the jobs of stores that have none under way for as long,
//! and a ticker that does not return is left to its thread, while another one ticks the rest.
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

/// Called every `TICK`, on a thread of its own.
pub trait Ticker: Send + Sync {
    fn tick(&self);
}

const TICK: Duration = Duration::from_millis(20);
/// A job that takes longer may be one whose disk hangs. Most take less.
const STUCK: Duration = Duration::from_secs(1);
/// The time between two looks for such jobs.
const WATCH: Duration = Duration::from_millis(200);
/// The most spare threads of each crew at once: as many disks may hang.
pub const SPARES_MAX: usize = 8;

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
    /// The workers of each crew wait here for jobs.
    work: [Condvar; CREWS.len()],
    tick: Condvar,
    watch: Condvar,
}

/// Threads that take jobs of the same classes.
struct CrewKind {
    thread: &'static str,
    spare: &'static str,
    /// The most urgent first.
    classes: &'static [Class],
}

/// The crew that has as many workers as the caller says; others have one.
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

/// A job that a worker is at.
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
    /// Threads that wait for jobs.
    workers: usize,
    /// Threads beside them, which end when they find no job.
    spares: usize,
}

impl Crew {
    fn is_stuck(&self, owner: u64, now: Instant) -> bool {
        self.running.iter().any(|job| job.owner == owner && job.is_stuck(now))
    }

    /// True if another thread would not wait for those that are held up, as all are.
    fn is_held_up(&self, now: Instant) -> bool {
        self.spares < SPARES_MAX
            && self.running.len() >= self.workers + self.spares
            && self.running.iter().all(|job| job.is_stuck(now))
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
    jobs: Lanes<Job>,
    crews: [Crew; CREWS.len()],
    /// Jobs that were begun.
    begun: u64,
    tickers: Vec<Arc<Ticked>>,
    turn: Arc<Turn>,
    /// Threads that had their turn and are still at a ticker.
    stuck_turns: usize,
    owners: u64,
    is_watched: bool,
    ended: bool,
}

impl State {
    /// True if a job of an owner that has none under way for too long waits, and every thread that could do it is held up.
    fn wants_spare(&self, crew: usize, now: Instant) -> bool {
        self.crews[crew].is_held_up(now)
            && self.jobs.has(CREWS[crew].classes, |job| !self.crews[crew].is_stuck(job.owner, now))
    }
}

/// Jobs of one class.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Jobs {
    /// No worker has taken them yet.
    pub waiting: usize,
    /// Workers are at them.
    pub running: usize,
}

impl Shared {
    /// Nothing that could panic halfway is done under the lock.
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

    /// Has a job done in the background.
    pub fn submit(&self, class: Class, job: impl FnOnce() + Send + 'static) {
        let job = Job { owner: self.owner, run: Box::new(job) };
        self.handle.shared.state().jobs.push(class, job);
        for (kind, work) in CREWS.iter().zip(&self.handle.shared.work) {
            if kind.classes.contains(&class) {
                work.notify_one();
            }
        }
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

    /// Jobs that no worker has taken yet.
    pub fn queued(&self) -> usize {
        self.jobs().iter().map(|jobs| jobs.waiting).sum()
    }

    /// Jobs that workers are at.
    #[cfg(test)]
    pub fn running(&self) -> usize {
        self.jobs().iter().map(|jobs| jobs.running).sum()
    }

    /// Threads beside the workers.
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

/// Does jobs of owners that are not held up, until none waits.
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

/// Starts threads in the place of those that are held up.
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
