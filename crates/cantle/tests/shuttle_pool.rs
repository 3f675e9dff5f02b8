//! The pool of the library (`maintenance/pool.rs`) in random interleavings; sequentially
//! consistent, as shuttle is. There is one worker, as on a machine of two cores: a seal does not
//! wait for a long job, no class starves, and the threads end with the last handle. No job is ever
//! due by time here: no spare thread starts, and the ticker only ticks when it is notified.
//!
//! The wrong twin: a job of a class without a reserved thread waits for the long job for ever.
#![expect(dead_code, unreachable_pub, reason = "the modules under test serve a library, not this crate")]

#[path = "../src/maintenance"]
mod maintenance {
    pub mod lanes;
    pub mod pool;
}
#[path = "models/schedules.rs"]
mod schedules;

/// Shuttle's version of the items of `cantle::sync` that the module under test uses.
mod sync {
    pub use shuttle::sync::{Arc, atomic};

    pub mod std_lock {
        pub use shuttle::sync::{Condvar, Mutex, MutexGuard};
    }

    pub mod thread {
        pub fn spawn(
            name: &str,
            body: impl FnOnce() + Send + 'static,
        ) -> std::io::Result<shuttle::thread::JoinHandle<()>> {
            shuttle::thread::Builder::new().name(name.to_owned()).spawn(body)
        }
    }

    /// No time passes.
    pub mod time {
        use std::time::Duration;

        #[derive(Clone, Copy)]
        pub struct Instant(());

        impl Instant {
            pub fn saturating_duration_since(&self, _: Self) -> Duration {
                Duration::ZERO
            }
        }

        pub fn now() -> Instant {
            Instant(())
        }
    }
}

use maintenance::lanes::{Class, PASSED_MAX};
use maintenance::pool::Pool;
use schedules::{few_switches, random};
use shuttle::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use shuttle::sync::{Arc, Condvar, Mutex};
use std::sync::PoisonError;

const SCHEDULES: usize = 2_000;

/// A counter; threads can wait for a count.
#[derive(Default)]
struct Count(Mutex<usize>, Condvar);

impl Count {
    fn add(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.1.notify_all();
    }

    fn wait_for(&self, count: usize) {
        let mut now = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        while *now < count {
            now = self.1.wait(now).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

fn pool() -> Pool {
    Pool::new(1).unwrap_or_else(|error| panic!("{error}"))
}

/// A long job is running, which does not end before jobs of all `classes` have run; jobs of its own
/// kind wait.
fn long_job(classes: &'static [Class]) {
    let pool = pool();
    let (done, ended) = (Arc::new(Count::default()), Arc::new(Count::default()));
    for _ in 0..2 {
        let (done, ended) = (done.clone(), ended.clone());
        pool.submit(Class::Deep, move || {
            done.wait_for(classes.len());
            ended.add();
        });
    }
    for &class in classes {
        let done = done.clone();
        pool.submit(class, move || done.add());
    }
    ended.wait_for(2);
}

#[test]
fn seals_and_checkpoints_do_not_wait_for_a_long_job() {
    const CLASSES: &[Class] = &[Class::Seal, Class::Checkpoint, Class::Seal];
    random(SCHEDULES, || long_job(CLASSES));
    few_switches(3, SCHEDULES, || long_job(CLASSES));
}

#[test]
#[should_panic(expected = "deadlock")]
fn who_has_no_reserved_turn_waits_for_the_long_job() {
    random(SCHEDULES, || long_job(&[Class::Level0]));
}

/// Jobs that each submit one more of their kind, until one of the least urgent class has run.
/// Returns the number of these jobs.
/// these there were.
fn flood(class: Class) {
    fn submit(pool: &Pool, class: Class, state: &Arc<(AtomicUsize, Count, AtomicUsize)>) {
        let (next, state) = (pool.downgrade(), state.clone());
        pool.submit(class, move || {
            let (over, ended, begun) = &*state;
            if over.load(SeqCst) > 0 || begun.fetch_add(1, SeqCst) > 4 * PASSED_MAX as usize {
                ended.add();
            } else if let Some(pool) = next.upgrade() {
                submit(&pool, class, &state);
            }
        });
    }
    let pool = pool();
    let state = Arc::<(AtomicUsize, Count, AtomicUsize)>::default();
    (0..2).for_each(|_| submit(&pool, class, &state));
    let asked = state.clone();
    pool.submit(Class::Asked, move || asked.0.store(1, SeqCst));
    state.1.wait_for(2);
    assert_eq!(state.0.load(SeqCst), 1, "the least urgent class has no turn");
}

#[test]
fn a_flood_of_urgent_jobs_ends_when_the_least_urgent_one_was_done() {
    random(SCHEDULES, || flood(Class::Level0));
}

/// Threads end with the last handle, wherever it is dropped; waiting jobs are dropped then.
fn ends(in_a_job: bool) {
    let pool = pool();
    let done = Arc::new(Count::default());
    for class in Class::ALL {
        let (kept, done) = (in_a_job.then(|| pool.clone()), done.clone());
        pool.submit(class, move || {
            drop(kept);
            done.add();
        });
    }
    if in_a_job {
        // All of them hold the pool until they have run.
        drop(pool);
        done.wait_for(Class::ALL.len());
    }
}

#[test]
fn the_threads_end_with_the_last_handle() {
    for in_a_job in [false, true] {
        random(SCHEDULES, move || ends(in_a_job));
    }
}
